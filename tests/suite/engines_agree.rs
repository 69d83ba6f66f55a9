//! The same GPT on both engines: equal losses and gradients, with dropout too.

use burtorch_gpt::model::ModelConfig;
use burtorch_tensor::ops::Activation;
use burtorch_tensor::{Element, Params, ScalarEngine, TensorEngine};
use burtorch_tests::{
    Batch, Model, Outcome, base_style, close, close_by_tensor, mini_style, styles, tolerance,
};
use proptest::prelude::*;

/// A loss and its gradient.
type Evaluation<T> = (f64, Vec<T>);

fn on_each<T: Element>(
    model: &Model<T>,
    batch: &Batch,
    key: Option<u64>,
) -> Outcome<[Evaluation<T>; 2]> {
    Ok([
        model.evaluate::<TensorEngine<T>>(batch, key)?,
        model.evaluate::<ScalarEngine<T>>(batch, key)?,
    ])
}

fn agree<T: Element>(params: &Params<T>, [tensor, scalar]: &[Evaluation<T>; 2]) -> Outcome {
    let tolerance = tolerance::<T>(1e-10, 1e-4);
    close("loss", &[tensor.0], &[scalar.0], tolerance)?;
    let expected: Vec<f64> = scalar.1.iter().map(|gradient| gradient.to_f64()).collect();
    close_by_tensor(params, &tensor.1, &expected, tolerance)
}

fn agree_in_each_style<T: Element>() -> Outcome {
    for (name, config) in styles() {
        let (model, batch) = (Model::<T>::rough(&config, 1)?, Batch::random(&config, 3, 2));
        for key in [None, Some(3)] {
            let both = on_each(&model, &batch, key)?;
            agree(&model.params, &both)
                .map_err(|error| format!("{name}, dropout {key:?}: {error}"))?;
        }
    }
    Ok(())
}

#[test]
fn in_f64() -> Outcome {
    agree_in_each_style::<f64>()
}

#[test]
fn in_f32() -> Outcome {
    agree_in_each_style::<f32>()
}

#[test]
fn another_key_is_another_mask_and_no_key_is_none() -> Outcome {
    let config = base_style();
    let (model, batch) = (
        Model::<f64>::rough(&config, 1)?,
        Batch::random(&config, 3, 2),
    );
    let mut losses = [None, Some(3), Some(3), Some(4)]
        .map(|key| on_each(&model, &batch, key).map(|[tensor, _]| tensor.0));
    let mut loss = |i: usize| std::mem::replace(&mut losses[i], Ok(f64::NAN));
    let (without, three, three_again, four) = (loss(0)?, loss(1)?, loss(2)?, loss(3)?);
    assert_eq!(three.to_bits(), three_again.to_bits());
    assert!(
        without != three && three != four && four != without,
        "{without} {three} {four}"
    );
    Ok(())
}

#[test]
fn one_changed_gradient_is_rejected() -> Outcome {
    let config = mini_style();
    let (model, batch) = (
        Model::<f64>::rough(&config, 1)?,
        Batch::random(&config, 3, 2),
    );
    let both = on_each(&model, &batch, None)?;
    agree(&model.params, &both)?;
    for entry in model.params.entries() {
        let mut changed = both.clone();
        let gradients = &mut changed[0].1[entry.range()];
        let largest = gradients
            .iter()
            .fold(0.0, |largest: f64, gradient| largest.max(gradient.abs()));
        gradients[0] += 1e-8 * largest;
        assert!(
            agree(&model.params, &changed).is_err(),
            "a change in {} passes",
            entry.name
        );
    }
    let mut changed = both.clone();
    changed[1].0 *= 1.0 + 1e-8;
    assert!(
        agree(&model.params, &changed).is_err(),
        "a change in the loss passes"
    );
    Ok(())
}

fn any_config() -> impl Strategy<Value = ModelConfig> {
    let sizes = (1..10_usize, 1..6_usize, 1..3_usize, 1..4_usize, 1..4_usize);
    let activation = prop::sample::select(vec![
        Activation::Relu,
        Activation::Gelu,
        Activation::GeluTanh,
    ]);
    let dropout = prop::sample::select(vec![0.0, 0.3, 0.9]);
    (sizes, dropout, activation, any::<[bool; 4]>()).prop_map(
        |(sizes, dropout, activation, flags)| {
            let (vocab_size, block_size, layers, heads, head_size) = sizes;
            let [bias, qkv_bias, tied_head, head_bias] = flags;
            let embed = heads * head_size;
            ModelConfig {
                vocab_size,
                block_size,
                layers,
                heads,
                embed,
                dropout,
                activation,
                bias,
                qkv_bias,
                tied_head,
                head_bias,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn for_any_model(config in any_config(), sequences in 1..4_usize, seed: u64) {
        let model = Model::<f64>::rough(&config, seed).map_err(failure)?;
        let batch = Batch::random(&config, sequences, seed);
        let both = on_each(&model, &batch, Some(seed)).map_err(failure)?;
        agree(&model.params, &both).map_err(failure)?;
    }
}

/// A row of one number has no gradient behind its normalisation, to the last bit.
#[test]
fn rows_of_one_number_agree() -> Outcome {
    let config = ModelConfig {
        vocab_size: 3,
        block_size: 2,
        layers: 1,
        heads: 1,
        embed: 1,
        dropout: 0.9,
        activation: Activation::Relu,
        tied_head: true,
        ..mini_style()
    };
    for seed in 0..50 {
        let model = Model::<f64>::rough(&config, seed)?;
        let batch = Batch::random(&config, 3, seed);
        agree(&model.params, &on_each(&model, &batch, Some(seed))?)?;
    }
    Ok(())
}

fn failure(error: impl ToString) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}
