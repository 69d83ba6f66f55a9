//! What both engines promise, held on both.

use crate::{
    Context, Element, Engine, Error, Op, Params, Result, ScalarEngine, Shape, TensorEngine,
    Workspace, ops,
};

/// Runs a test on both engines.
macro_rules! on_both_engines {
    ($($name:ident),* $(,)?) => {$(
        mod $name {
            #[test]
            fn tensor() -> crate::Result<()> {
                super::$name::<crate::TensorEngine<f64>>()
            }
            #[test]
            fn scalar() -> crate::Result<()> {
                super::$name::<crate::ScalarEngine<f64>>()
            }
        }
    )*};
}

on_both_engines! {
    f16_each_backward_adds_its_own_gradient,
    another_op_in_the_same_place_is_the_one_that_runs,
    f20_a_root_needs_a_seed_of_its_shape,
    f23_handles_of_other_stores_are_refused,
    the_search_names_the_op_forward,
    the_search_names_the_op_backward,
    the_search_refuses_numbers_it_was_handed,
    masks_depend_on_the_key_of_the_pass,
    a_tensor_may_be_several_inputs_of_an_op,
    passes_add_up_and_see_what_the_optimizer_changed,
    a_workspace_serves_stores_of_any_layout,
}

fn params(values: &[f64]) -> Result<Params<f64>> {
    let mut params = Params::new();
    params.add("x", Shape::new(&[values.len()])?, values)?;
    Ok(params)
}

fn searching() -> Context<'static> {
    Context {
        find_non_finite: true,
        ..Context::default()
    }
}

fn f16_each_backward_adds_its_own_gradient<W: Workspace<f64>>() -> Result<()> {
    let params = params(&[3.0])?;
    let mut workspace = W::default();
    let mut pass = workspace.bind(&params, Context::default());
    let x = pass.param(params.ids().next().expect("there is one"))?;
    let square = pass.apply(ops::Mul, [x, x])?;
    let twice = pass.apply(ops::Mul, [square, square])?;
    let mut gradient = [1.0];
    pass.backward(twice, &[1.0], &mut gradient)?;
    assert_eq!(gradient, [109.0]);
    pass.backward(twice, &[1.0], &mut gradient)?;
    pass.backward(square, &[1.0], &mut gradient)?;
    pass.backward(x, &[0.5], &mut gradient)?;
    assert_eq!(gradient, [1.0 + 108.0 + 108.0 + 6.0 + 0.5]);
    Ok(())
}

/// A row normalised, with the row itself as the bias; and as the gain too.
fn a_tensor_may_be_several_inputs_of_an_op<W: Workspace<f64>>() -> Result<()> {
    let (row, seed, norm) = (
        [0.3, -0.7, 2.0],
        [1.0, 2.0, -4.0],
        ops::LayerNorm { epsilon: 1e-5 },
    );
    let mut params = params(&row)?;
    params.add("gain", Shape::new(&[3])?, &row)?;
    params.add("bias", Shape::new(&[3])?, &row)?;
    let ids: Vec<_> = params.ids().collect();
    let mut workspace = W::default();
    let mut gradient = |inputs: [usize; 3]| -> Result<Vec<f64>> {
        let mut gradient = vec![0.0; 9];
        let mut pass = workspace.bind(&params, Context::default());
        let mut x = Vec::new();
        for input in inputs {
            x.push(pass.param(ids[input])?);
        }
        let y = pass.apply(norm, [x[0], x[1], x[2]])?;
        pass.backward(y, &seed, &mut gradient)?;
        Ok(gradient)
    };
    let apart = gradient([0, 1, 2])?;
    for inputs in [[0, 1, 0], [0, 0, 2], [0, 1, 1], [0, 0, 0]] {
        let mut expected = [0.0; 9];
        for (own, &input) in inputs.iter().enumerate() {
            (0..3).for_each(|i| expected[3 * input + i] += apart[3 * own + i]);
        }
        let found = gradient(inputs)?;
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
        assert!(
            found.iter().zip(&expected).all(near),
            "{inputs:?}: {found:?}"
        );
    }
    Ok(())
}

fn another_op_in_the_same_place_is_the_one_that_runs<W: Workspace<f64>>() -> Result<()> {
    let params = params(&[1.0])?;
    let mut workspace = W::default();
    for factor in [2.0, 3.0] {
        let mut pass = workspace.bind(&params, Context::default());
        let x = pass.param(params.ids().next().expect("there is one"))?;
        let y = pass.apply(ops::Scale(factor), [x])?;
        let mut gradient = [0.0];
        pass.backward_scalar(y, &mut gradient)?;
        assert_eq!((pass.value(y).data, gradient), (&[factor][..], [factor]));
    }
    Ok(())
}

fn f20_a_root_needs_a_seed_of_its_shape<W: Workspace<f64>>() -> Result<()> {
    let params = params(&[1.0, 2.0])?;
    let mut workspace = W::default();
    let mut pass = workspace.bind(&params, Context::default());
    let x = pass.param(params.ids().next().expect("there is one"))?;
    let y = pass.apply(ops::Mul, [x, x])?;
    let mut gradient = [0.0; 2];
    assert!(matches!(
        pass.backward_scalar(y, &mut gradient),
        Err(Error::NotScalar { .. })
    ));
    assert!(matches!(
        pass.backward(y, &[1.0; 3], &mut gradient),
        Err(Error::Length { .. })
    ));
    assert!(matches!(
        pass.backward(y, &[1.0; 2], &mut [0.0]),
        Err(Error::Length { .. })
    ));
    pass.backward(y, &[1.0, 10.0], &mut gradient)?;
    assert_eq!(gradient, [2.0, 40.0]);
    Ok(())
}

fn f23_handles_of_other_stores_are_refused<W: Workspace<f64>>() -> Result<()> {
    let (params, mut other) = (params(&[1.0])?, Params::<f64>::new());
    other.add("another", Shape::new(&[1])?, &[42.0])?;
    let mut workspace = W::default();
    let mut pass = workspace.bind(&other, Context::default());
    let foreign = pass.param(params.ids().next().expect("there is one"));
    assert!(matches!(
        foreign,
        Err(Error::Foreign {
            what: "parameter",
            ..
        })
    ));
    Ok(())
}

fn the_search_names_the_op_forward<W: Workspace<f64>>() -> Result<()> {
    let params = params(&[1e200])?;
    let mut workspace = W::default();
    let mut pass = workspace.bind(&params, searching());
    let x = pass.param(params.ids().next().expect("there is one"))?;
    let y = pass.apply(ops::Scale(2.0), [x])?;
    let found = pass.apply(ops::Mul, [y, y]).map(drop);
    assert!(
        matches!(
            found,
            Err(Error::NonFinite {
                op: "mul",
                phase: "forward",
                ..
            })
        ),
        "{found:?}"
    );
    Ok(())
}

fn the_search_names_the_op_backward<W: Workspace<f64>>() -> Result<()> {
    let params = params(&[1e-200])?;
    let mut workspace = W::default();
    let mut pass = workspace.bind(&params, searching());
    let x = pass.param(params.ids().next().expect("there is one"))?;
    let large = pass.constant(&[1e200], Shape::new(&[1])?)?;
    let y = pass.apply(ops::Mul, [x, large])?;
    let y = pass.apply(ops::Tanh, [y])?;
    let found = pass.backward(y, &[1e200], &mut [0.0]);
    assert!(
        matches!(
            found,
            Err(Error::NonFinite {
                op: "mul",
                phase: "backward",
                ..
            })
        ),
        "{found:?}"
    );
    Ok(())
}

fn the_search_refuses_numbers_it_was_handed<W: Workspace<f64>>() -> Result<()> {
    let params = params(&[1.0])?;
    let mut workspace = W::default();
    let mut pass = workspace.bind(&params, searching());
    let x = pass.param(params.ids().next().expect("there is one"))?;
    let y = pass.apply(ops::Scale(2.0), [x])?;
    for (seed, gradient) in [(f64::NAN, 0.0), (1.0, f64::INFINITY)] {
        let found = pass.backward(y, &[seed], &mut [gradient]);
        assert!(
            matches!(found, Err(Error::NotFinite { position: 0, .. })),
            "{found:?}"
        );
    }
    Ok(())
}

fn masks_depend_on_the_key_of_the_pass<W: Workspace<f64>>() -> Result<()> {
    let params = params(&[1.0; 64])?;
    let mut workspace = W::default();
    let mut dropped = |key| -> Result<Vec<f64>> {
        let mut pass = workspace.bind(
            &params,
            Context {
                key,
                ..Context::default()
            },
        );
        let x = pass.param(params.ids().next().expect("there is one"))?;
        let y = pass.apply(
            ops::Dropout {
                probability: 0.5,
                stream: 1,
            },
            [x],
        )?;
        Ok(pass.value(y).data.to_vec())
    };
    assert_eq!(dropped(1)?, dropped(1)?);
    assert_ne!(dropped(1)?, dropped(2)?);
    Ok(())
}

fn passes_add_up_and_see_what_the_optimizer_changed<W: Workspace<f64>>() -> Result<()> {
    let mut params = params(&[1.0, 2.0])?;
    let x = params.ids().next().expect("there is one");
    let mut workspace = W::default();
    let mut gradient = [0.0; 2];
    let (mut by_hand, mut losses) = ([0.0; 2], Vec::new());
    for sample in [[1.0, 3.0], [-2.0, 0.5], [0.25, 1.0]] {
        // Two passes on the same weights, as pieces of a batch are.
        for factor in [1.0, 2.0] {
            let mut pass = workspace.bind(&params, Context::default());
            let weights = pass.param(x)?;
            let sample = pass.constant(&sample, Shape::new(&[2])?)?;
            let y = pass.apply(ops::Mul, [weights, sample])?;
            let y = pass.apply(ops::Mul, [y, weights])?;
            let y = pass.apply(ops::Sum, [y])?;
            pass.backward(y, &[factor], &mut gradient)?;
            losses.push(pass.value(y).data[0]);
        }
        for ((sum, weight), sample) in by_hand.iter_mut().zip(params.values()).zip(sample) {
            *sum += 3.0 * 2.0 * weight * sample;
        }
        let values = params.values_mut().iter_mut();
        values.for_each(|weight| *weight += 1.0);
    }
    assert_eq!(gradient, by_hand);
    assert_eq!(losses, [13.0, 13.0, -3.5, -3.5, 18.25, 18.25]);
    Ok(())
}

fn a_workspace_serves_stores_of_any_layout<W: Workspace<f64>>() -> Result<()> {
    let mut workspace = W::default();
    for lengths in [&[2, 3][..], &[3, 2], &[5], &[2, 3], &[], &[1]] {
        let mut params = Params::<f64>::new();
        for (i, &length) in lengths.iter().enumerate() {
            let values: Vec<f64> = (0..length).map(|j| (10 * i + j) as f64).collect();
            params.add(format!("x{i}"), Shape::new(&[length])?, &values)?;
        }
        let mut gradient = vec![0.0; params.len()];
        let mut pass = workspace.bind(&params, Context::default());
        for id in params.ids().collect::<Vec<_>>().into_iter().rev() {
            let x = pass.param(id)?;
            let y = pass.apply(ops::Mul, [x, x])?;
            let y = pass.apply(ops::Sum, [y])?;
            pass.backward_scalar(y, &mut gradient)?;
        }
        let expected: Vec<f64> = params.values().iter().map(|x| 2.0 * x).collect();
        assert_eq!(gradient, expected, "{lengths:?}");
    }
    Ok(())
}

/// The slope of one op at one point.
fn slope<T: Element>(op: impl Op<1>, at: f64) -> Result<f64> {
    let mut params = Params::<T>::new();
    let x = params.add("x", Shape::SCALAR, &[T::from_f64(at)])?;
    let mut workspace = TensorEngine::new();
    let mut pass = workspace.bind(&params, Context::default());
    let x = pass.param(x)?;
    let y = pass.apply(op, [x])?;
    let mut gradient = [T::ZERO];
    pass.backward_scalar(y, &mut gradient)?;
    Ok(gradient[0].to_f64())
}

#[test]
fn f05_slopes_of_saturated_kernels_keep_their_digits() -> Result<()> {
    let near = |found: f64, expected: f64, tolerance: f64| {
        assert!(
            (found / expected - 1.0).abs() < tolerance,
            "{found:e}, expected {expected:e}"
        );
    };
    for sign in [1.0, -1.0] {
        near(
            slope::<f64>(ops::Tanh, 10.0 * sign)?,
            8.244_614_455_8e-9,
            1e-10,
        );
        near(
            slope::<f64>(ops::Tanh, 20.0 * sign)?,
            4.0 * (-40f64).exp(),
            1e-12,
        );
        near(
            slope::<f32>(ops::Tanh, 10.0 * sign)?,
            8.244_614_455_8e-9,
            1e-6,
        );
        near(
            slope::<f64>(ops::Sigmoid, 40.0 * sign)?,
            (-40f64).exp(),
            1e-12,
        );
        near(
            slope::<f32>(ops::Sigmoid, 40.0 * sign)?,
            (-40f64).exp(),
            1e-6,
        );
        assert_eq!(slope::<f64>(ops::Sigmoid, 1000.0 * sign)?, 0.0);
        assert_eq!(slope::<f32>(ops::Tanh, 1000.0 * sign)?, 0.0);
    }
    Ok(())
}

#[test]
fn f23_handles_of_another_engine_are_refused() -> Result<()> {
    fn check<W: Workspace<f64>>() -> Result<()> {
        let params = params(&[1.0])?;
        let (mut first, mut second) = (W::default(), W::default());
        let mut a = first.bind(&params, Context::default());
        let mut b = second.bind(&params, Context::default());
        let x = a.param(params.ids().next().expect("there is one"))?;
        assert!(matches!(
            b.apply(ops::Tanh, [x]),
            Err(Error::Foreign { .. })
        ));
        assert!(matches!(
            b.backward_scalar(x, &mut [0.0]),
            Err(Error::Foreign { .. })
        ));
        assert!(matches!(b.shape(x), Err(Error::Foreign { .. })));
        Ok(())
    }
    // Not through the macro: the handles of two engines of one type must be of one lifetime.
    check::<TensorEngine<f64>>()?;
    check::<ScalarEngine<f64>>()
}
