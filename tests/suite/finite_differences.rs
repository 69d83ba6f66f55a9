//! The gradient of the whole GPT against central differences of its loss.

use burtorch_tensor::{ScalarEngine, TensorEngine, Workspace};
use burtorch_tests::{Batch, Model, Outcome, close, mini_style, noise, styles};

/// Distance to either side: the error of the formula is near its square, that of rounding near 1e-16 divided by it.
const STEP: f64 = 1e-5;
const PER_TENSOR: usize = 4;

#[test]
fn of_the_tensor_engine() -> Outcome {
    random_coordinates_of_each_tensor::<TensorEngine<f64>>()
}

#[test]
fn of_the_scalar_engine() -> Outcome {
    random_coordinates_of_each_tensor::<ScalarEngine<f64>>()
}

fn random_coordinates_of_each_tensor<W: Workspace<f64>>() -> Outcome {
    for (name, config) in styles() {
        let (mut model, batch) = (Model::rough(&config, 5)?, Batch::random(&config, 2, 6));
        // With a key, so that dropout takes part where the style has it.
        let (_, gradients) = model.evaluate::<W>(&batch, Some(7))?;
        check(&mut model, &batch, &gradients).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// Compares some coordinates of each tensor; the kernels' loss is the function, for it is quick.
fn check(model: &mut Model<f64>, batch: &Batch, gradients: &[f64]) -> Outcome {
    for entry in model.params.entries().to_vec() {
        let pick = |x: f64| entry.offset + ((x + 1.0) / 2.0 * entry.shape.len() as f64) as usize;
        let places: Vec<usize> = noise(entry.offset as u64)
            .take(PER_TENSOR)
            .map(pick)
            .collect();
        let found: Vec<f64> = places.iter().map(|&place| gradients[place]).collect();
        let expected: Outcome<Vec<f64>> = places
            .iter()
            .map(|&place| central_difference(model, batch, place))
            .collect();
        close(&entry.name, &found, &expected?, 1e-6)?;
    }
    Ok(())
}

fn central_difference(model: &mut Model<f64>, batch: &Batch, place: usize) -> Outcome<f64> {
    let start = model.params.values()[place];
    let mut loss_at = |value: f64| -> Outcome<f64> {
        model.params.values_mut()[place] = value;
        Ok(model.evaluate::<TensorEngine<f64>>(batch, Some(7))?.0)
    };
    let (above, below) = (loss_at(start + STEP)?, loss_at(start - STEP)?);
    loss_at(start)?;
    Ok((above - below) / (2.0 * STEP))
}

#[test]
fn a_gradient_that_is_off_by_a_hundred_thousandth_is_rejected() -> Outcome {
    let config = mini_style();
    let (mut model, batch) = (Model::rough(&config, 5)?, Batch::random(&config, 2, 6));
    let (_, gradients) = model.evaluate::<ScalarEngine<f64>>(&batch, Some(7))?;
    check(&mut model, &batch, &gradients)?;
    for entry in model.params.entries().to_vec() {
        let mut wrong = gradients.clone();
        wrong[entry.range()]
            .iter_mut()
            .for_each(|gradient| *gradient *= 1.0 + 1e-5);
        assert!(
            check(&mut model, &batch, &wrong).is_err(),
            "a wrong gradient of {} passes",
            entry.name
        );
    }
    Ok(())
}
