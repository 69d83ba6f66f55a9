//! Faults that software of this kind has shipped with, as far as they concern tensors, engines and whole models.
//!
//! Each test is named by the number the fault has in our list; those within a crate are tested there.

use burtorch_gpt::model::{Gpt, ModelConfig};
use burtorch_tensor::ops::{self, Activation};
use burtorch_tensor::{
    Context, Element, Engine, Error, Indices, Op, ParamId, Params, ScalarEngine, Shape,
    TensorEngine, Workspace,
};
use burtorch_tests::{
    Batch, Differentiated, Input, Model, Outcome, close, close_by_tensor, differentiate, noise,
    on_both_engines, small_style, tolerance,
};

on_both_engines! {
    f32, f64: f02_masked_and_fully_masked_rows_of_attention;
    f32, f64: f03_layer_norm_of_large_close_numbers;
    f32, f64: f04_layer_norm_of_a_constant_row;
    f32, f64: f07_gelu_tails;
    f32, f64: f08_cross_entropy_of_large_logits;
    f32, f64: f14_tensors_used_twice;
    f32, f64: f14_repeated_rows_and_biases;
    f32, f64: f16_backward_twice;
    f32, f64: f17_several_roots_and_many_calls;
    f32, f64: f19_constants_unused_parameters_and_order;
    f32, f64: f20_roots_that_are_no_scalars;
    f32, f64: f37_tied_weights;
}

/// [`differentiate`] for ops that need no integers.
fn run<T: Element, W: Workspace<T>, const N: usize>(
    op: impl Op<N>,
    inputs: [Input<'_>; N],
    upstream: &[f64],
) -> Outcome<Differentiated> {
    differentiate::<T, W, N>(op, inputs, Context::default(), upstream)
}

/// A store with one tensor per entry.
fn store<T: Element>(tensors: &[Input<'_>]) -> Outcome<(Params<T>, Vec<ParamId>)> {
    let mut params = Params::new();
    let mut ids = Vec::new();
    for (position, (dims, values)) in tensors.iter().enumerate() {
        let values: Vec<T> = values.iter().map(|&value| T::from_f64(value)).collect();
        ids.push(params.add(format!("tensor {position}"), Shape::new(dims)?, &values)?);
    }
    Ok((params, ids))
}

fn square<E: Engine>(e: &mut E, x: E::Tensor) -> burtorch_tensor::Result<E::Tensor> {
    e.apply(ops::Mul, [x, x])
}

fn f02_masked_and_fully_masked_rows_of_attention<T: Element, W: Workspace<T>>() -> Outcome {
    let softmax = run::<T, W, 1>(
        ops::Softmax,
        [(&[3], &[f64::NEG_INFINITY, 0.0, 0.0])],
        &[1.0, 2.0, 3.0],
    )?;
    close("softmax", &softmax.result, &[0.0, 0.5, 0.5], 1e-6)?;
    close(
        "its gradient",
        &softmax.gradients[0],
        &[0.0, -0.25, 0.25],
        1e-6,
    )?;

    // Attention put together by hand: the first row sees the first position, the second row none.
    let (params, ids) = store::<T>(&[
        (&[2, 2], &[0.0; 4]),
        (&[2, 2], &[0.0; 4]),
        (&[2, 2], &[1.0, 2.0, 3.0, 4.0]),
    ])?;
    let mask = [T::ZERO, T::NEG_INFINITY, T::NEG_INFINITY, T::NEG_INFINITY];
    let (mut workspace, mut gradients) = (W::default(), vec![T::ZERO; params.len()]);
    let mut e = workspace.bind(&params, Context::default());
    let (q, k, v) = (e.param(ids[0])?, e.param(ids[1])?, e.param(ids[2])?);
    let mask = e.constant(&mask, Shape::new(&[2, 2])?)?;
    let scores = e.apply(ops::MatMul, [q, k])?;
    let masked = e.apply(ops::Add, [scores, mask])?;
    let weights = e.apply(ops::Softmax, [masked])?;
    let mixed = e.apply(ops::MatMul, [weights, v])?;
    close(
        "attention",
        e.value(mixed).data,
        &[1.0, 2.0, 0.0, 0.0],
        1e-6,
    )?;
    e.backward(mixed, &[T::ONE; 4], &mut gradients)?;
    // Only the first row of v is seen, once; the softmax is saturated, so nothing reaches q and k.
    let mut expected = [0.0; 12];
    expected[8..10].fill(1.0);
    close("its gradients", &gradients, &expected, 1e-6)
}

fn f03_layer_norm_of_large_close_numbers<T: Element, W: Workspace<T>>() -> Outcome {
    let x = [100_000.0, 100_001.0, 100_002.0, 100_003.0];
    let op = ops::LayerNorm { epsilon: 1e-5 };
    let inputs: [Input<'_>; 3] = [(&[4], &x), (&[4], &[1.0; 4]), (&[4], &[0.0; 4])];
    let found = run::<T, W, 3>(op, inputs, &[1.0, 0.0, 0.0, 0.0])?;
    close(
        "result",
        &found.result,
        &[-1.3416354, -0.4472118, 0.4472118, 1.3416354],
        2e-5,
    )?;
    close(
        "gradient",
        &found.gradients[0],
        &[0.2683303, -0.3577684, -0.0894434, 0.1788815],
        2e-5,
    )
}

fn f04_layer_norm_of_a_constant_row<T: Element, W: Workspace<T>>() -> Outcome {
    let op = ops::LayerNorm { epsilon: 1e-5 };
    let found = run::<T, W, 2>(
        op,
        [(&[4], &[5.0; 4]), (&[4], &[1.0; 4])],
        &[1.0, 2.0, 3.0, 4.0],
    )?;
    assert_eq!(found.result, [0.0; 4]);
    close(
        "gradient",
        &found.gradients[0],
        &[-474.34165, -158.11388, 158.11388, 474.34165],
        1e-6,
    )?;

    let found = run::<T, W, 2>(op, [(&[3], &[0.1; 3]), (&[3], &[1.0; 3])], &[1.0, 0.0, 0.0])?;
    assert!(
        found.result.iter().all(|y| y.abs() < 1e-4),
        "{:?}",
        found.result
    );
    assert!(
        found.gradients[0].iter().all(|dx| dx.is_finite()),
        "{:?}",
        found.gradients[0]
    );
    Ok(())
}

fn f07_gelu_tails<T: Element, W: Workspace<T>>() -> Outcome {
    let tolerance = tolerance::<T>(1e-12, 1e-6);
    let erf = run::<T, W, 1>(ops::Gelu, [(&[1], &[1.0])], &[1.0])?;
    close("gelu(1)", &erf.result, &[0.8413447460685], tolerance)?;
    let tanh = run::<T, W, 1>(ops::GeluTanh, [(&[1], &[1.0])], &[1.0])?;
    close("gelu_tanh(1)", &tanh.result, &[0.8411919906083], tolerance)?;
    let erf = run::<T, W, 1>(ops::Gelu, [(&[1], &[-5.0])], &[1.0])?;
    close(
        "gelu(-5)",
        &erf.result,
        &[-1.433257859e-6],
        self::tolerance::<T>(1e-6, 1e-3),
    )?;
    let tanh = run::<T, W, 1>(ops::GeluTanh, [(&[1], &[-5.0])], &[1.0])?;
    close(
        "gelu_tanh(-5)",
        &tanh.result,
        &[-2.291796197e-7],
        self::tolerance::<T>(1e-6, 1e-3),
    )?;

    for activation in [Activation::Gelu, Activation::GeluTanh] {
        // Through the fused form as well: y = gelu(x·1).
        let inputs: [Input<'_>; 2] = [(&[2, 1], &[1e20, -1e20]), (&[1, 1], &[1.0])];
        let fused = run::<T, W, 2>(ops::Linear { activation }, inputs, &[1.0, 1.0])?;
        close(
            &format!("{activation:?}"),
            &fused.gradients[0],
            &[1.0, 0.0],
            1e-12,
        )?;
    }
    let alone = run::<T, W, 1>(ops::GeluTanh, [(&[2], &[1e20, -1e20])], &[1.0, 1.0])?;
    close("alone", &alone.gradients[0], &[1.0, 0.0], 1e-12)
}

fn f08_cross_entropy_of_large_logits<T: Element, W: Workspace<T>>() -> Outcome {
    let op = ops::CrossEntropy {
        targets: Indices::new(0, 1),
        ignore: None,
    };
    let entropy = |logits: &[f64], target: u32| {
        let context = Context {
            indices: &[target],
            find_non_finite: true,
            ..Context::default()
        };
        differentiate::<T, W, 1>(op, [(&[1, logits.len()], logits)], context, &[1.0])
    };
    let far = entropy(&[100.0, 0.0, -100.0], 2)?;
    close("loss", &far.result, &[200.0], 1e-6)?;
    close("gradient", &far.gradients[0], &[1.0, 0.0, -1.0], 1e-6)?;
    let tied = entropy(&[1e8, 1e8], 0)?;
    close("loss", &tied.result, &[std::f64::consts::LN_2], 1e-6)?;
    close("gradient", &tied.gradients[0], &[-0.5, 0.5], 1e-6)
}

#[test]
fn f12_sums_of_many_f32() -> Outcome {
    let mut workspace = TensorEngine::<f32>::new();
    let params = Params::new();
    let mut reduce = |value: f32, count: usize| -> Outcome<[f32; 2]> {
        let mut e = workspace.bind(&params, Context::default());
        let x = e.constant(&vec![value; count], Shape::new(&[count])?)?;
        let (sum, mean) = (e.apply(ops::Sum, [x])?, e.apply(ops::Mean, [x])?);
        Ok([e.value(sum).data[0], e.value(mean).data[0]])
    };
    assert_eq!(reduce(1.0, 20_000_000)?, [20_000_000.0, 1.0]);
    close(
        "of 0.1",
        &reduce(0.1, 10_000_000)?,
        &[1_000_000.014_9, 0.1],
        1e-5,
    )
}

#[test]
fn f12_mean_loss_of_many_f32() -> Outcome {
    const COUNT: usize = 5_000_000;
    let targets = vec![0; COUNT];
    let mut params = Params::<f32>::new();
    let logits = params.add("logits", Shape::new(&[COUNT, 2])?, &vec![0.0; 2 * COUNT])?;
    let mut workspace = TensorEngine::new();
    let mut e = workspace.bind(
        &params,
        Context {
            indices: &targets,
            ..Context::default()
        },
    );
    let x = e.param(logits)?;
    let loss = e.apply(
        ops::CrossEntropy {
            targets: Indices::new(0, COUNT),
            ignore: None,
        },
        [x],
    )?;
    close("loss", e.value(loss).data, &[std::f64::consts::LN_2], 1e-5)
}

fn f14_tensors_used_twice<T: Element, W: Workspace<T>>() -> Outcome {
    let (params, ids) = store::<T>(&[(&[1], &[1.0])])?;
    let (mut workspace, mut gradients) = (W::default(), vec![T::ZERO]);
    let mut e = workspace.bind(&params, Context::default());
    let a = e.param(ids[0])?;
    let b = e.apply(ops::Add, [a, a])?;
    let c = e.apply(ops::Add, [b, b])?;
    e.backward_scalar(c, &mut gradients)?;
    close("gradient", &gradients, &[4.0], 0.0)
}

fn f14_repeated_rows_and_biases<T: Element, W: Workspace<T>>() -> Outcome {
    let op = ops::Embedding {
        ids: Indices::new(0, 3),
        sequences: 1,
    };
    let context = Context {
        indices: &[2, 2, 0],
        ..Context::default()
    };
    let upstream = [1.0, 2.0, 10.0, 20.0, 100.0, 200.0];
    let found = differentiate::<T, W, 1>(op, [(&[3, 2], &[1.0; 6])], context, &upstream)?;
    close(
        "table",
        &found.gradients[0],
        &[100.0, 200.0, 0.0, 0.0, 11.0, 22.0],
        0.0,
    )?;

    // Σ (X + bias)², with the bias of a linear layer whose weights are the identity.
    let x: Input<'_> = (&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let (params, ids) = store::<T>(&[x, (&[2, 2], &[1.0, 0.0, 0.0, 1.0]), (&[2], &[1.0, 2.0])])?;
    let (mut workspace, mut gradients) = (W::default(), vec![T::ZERO; params.len()]);
    let mut e = workspace.bind(&params, Context::default());
    let inputs = [e.param(ids[0])?, e.param(ids[1])?, e.param(ids[2])?];
    let shifted = e.apply(ops::Linear::plain(), inputs)?;
    let squares = square(&mut e, shifted)?;
    let sum = e.apply(ops::Sum, [squares])?;
    e.backward_scalar(sum, &mut gradients)?;
    close("bias", &gradients[10..], &[24.0, 36.0], 1e-6)
}

fn f16_backward_twice<T: Element, W: Workspace<T>>() -> Outcome {
    let (params, ids) = store::<T>(&[(&[1], &[3.0])])?;
    let (mut workspace, mut gradients) = (W::default(), vec![T::ZERO]);
    let mut e = workspace.bind(&params, Context::default());
    let x = e.param(ids[0])?;
    let y = square(&mut e, x)?;
    let z = square(&mut e, y)?;
    e.backward_scalar(z, &mut gradients)?;
    close("once", &gradients, &[108.0], 1e-6)?;
    e.backward_scalar(z, &mut gradients)?;
    close("twice adds", &gradients, &[216.0], 1e-6)?;
    gradients.fill(T::ZERO);
    e.backward_scalar(z, &mut gradients)?;
    close("after zeroing", &gradients, &[108.0], 1e-6)
}

fn f17_several_roots_and_many_calls<T: Element, W: Workspace<T>>() -> Outcome {
    let (params, ids) = store::<T>(&[(&[1], &[3.0]), (&[1], &[1.5])])?;
    let (mut workspace, mut gradients) = (W::default(), vec![T::ZERO; 2]);
    let mut e = workspace.bind(&params, Context::default());
    let x = e.param(ids[0])?;
    let h = square(&mut e, x)?;
    let b = square(&mut e, h)?;
    let a = e.apply(ops::Mul, [b, h])?;
    e.backward_scalar(a, &mut gradients)?;
    close("the first root", &gradients, &[1458.0, 0.0], 1e-6)?;
    e.backward_scalar(b, &mut gradients)?;
    close("the second root", &gradients, &[1566.0, 0.0], 1e-6)?;

    let x = e.param(ids[1])?;
    let (left, right) = (square(&mut e, x)?, square(&mut e, x)?);
    let y = e.apply(ops::Mul, [left, right])?;
    for call in 1..=20 {
        gradients.fill(T::ZERO);
        e.backward_scalar(y, &mut gradients)?;
        close(&format!("call {call}"), &gradients, &[0.0, 13.5], 1e-6)?;
    }
    Ok(())
}

fn f19_constants_unused_parameters_and_order<T: Element, W: Workspace<T>>() -> Outcome {
    let (params, ids) = store::<T>(&[(&[1], &[3.0]), (&[1], &[5.0])])?;
    let mut workspace = W::default();
    let mut gradients = vec![T::ZERO; 2];
    let mut e = workspace.bind(&params, Context::default());
    let (x, _never_used) = (e.param(ids[0])?, e.param(ids[1])?);
    let held = [e.value(x).data[0]];
    let held = e.constant(&held, Shape::new(&[1])?)?;
    let y = e.apply(ops::Mul, [x, held])?;
    e.backward_scalar(y, &mut gradients)?;
    close("x times itself held fixed", &gradients, &[3.0, 0.0], 0.0)?;

    for swapped in [false, true] {
        gradients.fill(T::ZERO);
        let (double, triple) = (
            e.apply(ops::Scale(2.0), [x])?,
            e.apply(ops::Scale(3.0), [x])?,
        );
        let nothing = e.apply(ops::Scale(0.0), [triple])?;
        let sides = if swapped {
            [nothing, double]
        } else {
            [double, nothing]
        };
        let loss = e.apply(ops::Add, sides)?;
        e.backward_scalar(loss, &mut gradients)?;
        close(&format!("swapped: {swapped}"), &gradients, &[2.0, 0.0], 0.0)?;
    }
    Ok(())
}

fn f20_roots_that_are_no_scalars<T: Element, W: Workspace<T>>() -> Outcome {
    let (params, ids) = store::<T>(&[(&[2], &[1.0, 2.0]), (&[], &[4.0])])?;
    let (mut workspace, mut gradients) = (W::default(), vec![T::ZERO; 3]);
    let mut e = workspace.bind(&params, Context::default());
    let x = e.param(ids[0])?;
    let y = square(&mut e, x)?;
    assert!(matches!(
        e.backward_scalar(y, &mut gradients),
        Err(Error::NotScalar { .. })
    ));
    assert!(matches!(
        e.backward(y, &[T::ONE; 3], &mut gradients),
        Err(Error::Length { .. })
    ));
    assert!(matches!(
        e.backward(y, &[T::ONE; 2], &mut gradients[..2]),
        Err(Error::Length { .. })
    ));
    assert_eq!(gradients, [T::ZERO; 3], "a refusal changes nothing");
    e.backward(y, &[T::ONE, T::from_f64(10.0)], &mut gradients)?;
    close("with a seed", &gradients, &[2.0, 40.0, 0.0], 0.0)?;

    let leaf = e.param(ids[1])?;
    e.backward_scalar(leaf, &mut gradients)?;
    close("of a leaf", &gradients, &[2.0, 40.0, 1.0], 0.0)
}

/// A pass refuses the handles of another one. (In code that is generic over the engine they have different types, so that
/// this does not even compile; hence a macro.)
macro_rules! refuses_foreign_handles {
    ($name:ident, $workspace:ty) => {
        #[test]
        fn $name() -> Outcome {
            let (params, ids) = store::<f64>(&[(&[1], &[5.0])])?;
            let (mut one, mut another) = (<$workspace>::new(), <$workspace>::new());
            let mut e = one.bind(&params, Context::default());
            let x = e.param(ids[0])?;
            let foreign = square(&mut e, x)?;

            let mut e = another.bind(&params, Context::default());
            let x = e.param(ids[0])?;
            square(&mut e, x)?;
            let result = e.apply(ops::Relu, [foreign]);
            assert!(
                matches!(result, Err(Error::Foreign { .. })),
                "an op takes a foreign handle"
            );
            let result = e.backward(foreign, &[1.0], &mut [0.0]);
            assert!(
                matches!(result, Err(Error::Foreign { .. })),
                "backward takes a foreign handle"
            );
            Ok(())
        }
    };
}
refuses_foreign_handles! { f23_tensor_handles_of_another_pass, TensorEngine<f64> }
refuses_foreign_handles! { f23_scalar_handles_of_another_pass, ScalarEngine<f64> }

/// Vocabulary 3, embedding 2; the same random numbers in all tensors that both have.
fn small_head<T: Element>(tied_head: bool) -> Outcome<Model<T>> {
    let config = ModelConfig {
        vocab_size: 3,
        embed: 2,
        heads: 1,
        layers: 1,
        block_size: 4,
        tied_head,
        ..small_style()
    };
    let mut params = Params::new();
    let gpt = Gpt::new(&config, &mut params, 1)?;
    for entry in params.entries().to_vec() {
        // The head of the untied model gets the numbers of the table, by getting its seed.
        let name = if entry.name == "head.weight" {
            "token_embedding.weight"
        } else {
            &entry.name
        };
        let seed = burtorch_data::derive_seed(1, name);
        let values = &mut params.values_mut()[entry.range()];
        values
            .iter_mut()
            .zip(noise(seed))
            .for_each(|(value, noise)| *value = T::from_f64(noise));
    }
    Ok(Model { gpt, params })
}

fn f37_tied_weights<T: Element, W: Workspace<T>>() -> Outcome {
    let (tied, untied) = (small_head::<T>(true)?, small_head::<T>(false)?);
    assert_eq!(tied.params.find("head.weight"), None);
    assert_eq!(
        tied.params.len() + 6,
        untied.params.len(),
        "the tied table counts once"
    );

    let batch = Batch::random(tied.gpt.config(), 3, 1);
    let (loss, found) = tied.evaluate::<W>(&batch, None)?;
    let (untied_loss, separate) = untied.evaluate::<W>(&batch, None)?;
    let tolerance = tolerance::<T>(1e-12, 1e-5);
    close("loss", &[loss], &[untied_loss], tolerance)?;

    let of = |name: &str| -> Outcome<Vec<f64>> {
        let id = untied
            .params
            .find(name)
            .ok_or_else(|| format!("no {name}"))?;
        Ok(untied
            .params
            .array_in(id, &separate)?
            .iter()
            .map(|gradient| gradient.to_f64())
            .collect())
    };
    let head = of("head.weight")?;
    let mut expected = Vec::new();
    for entry in tied.params.entries() {
        let mut gradient = of(&entry.name)?;
        if entry.name == "token_embedding.weight" {
            gradient
                .iter_mut()
                .zip(&head)
                .for_each(|(sum, &head)| *sum += head);
        }
        expected.extend(gradient);
    }
    close_by_tensor(&tied.params, &found, &expected, tolerance)
}
