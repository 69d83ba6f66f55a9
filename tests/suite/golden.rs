//! Against PyTorch: the whole GPT, its training, single ops and optimizers, on the values of `golden/make.py`.

use burtorch_optim::{
    Adam, AdamOptions, AdamW, Groups, Optimizer, Schedule, Sgd, SgdOptions, clip_by_global_norm,
};
use burtorch_tensor::ops::{self, Activation};
use burtorch_tensor::{
    Context, Element, Engine, Indices, Op, Params, ScalarEngine, TensorEngine, Workspace,
};
use burtorch_tests::{
    Golden, Model, Outcome, accumulate, close, close_by_tensor, differentiate, noise,
    on_both_engines, tolerance,
};

const MODELS: [&str; 3] = ["mini", "small", "gpt2"];

on_both_engines! {
    f32, f64: logits_loss_and_every_gradient;
    f32, f64: elementwise_ops;
    f32, f64: row_ops;
    f32, f64: products;
    f32, f64: ops_with_indices;
}

fn logits_loss_and_every_gradient<T: Element, W: Workspace<T>>() -> Outcome {
    for name in MODELS {
        let golden = Golden::load(name)?;
        same_as_pytorch::<T, W>(&golden, &golden.model()?)
            .map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

fn same_as_pytorch<T: Element, W: Workspace<T>>(golden: &Golden, model: &Model<T>) -> Outcome {
    let (tolerance, batch) = (tolerance::<T>(1e-10, 5e-6), golden.batch()?);
    let mut workspace = W::default();
    let mut engine = workspace.bind(&model.params, batch.context(None));
    let logits = model
        .gpt
        .logits(&mut engine, batch.tokens(), batch.sequences())?;
    assert_eq!(engine.value(logits).shape.dims(), golden.dims("logits")?);
    close(
        "logits",
        engine.value(logits).data,
        &golden.numbers("logits")?,
        tolerance,
    )?;

    let (loss, gradients) = model.evaluate::<W>(&batch, None)?;
    close("loss", &[loss], &golden.numbers("loss")?, tolerance)?;
    close_by_tensor(
        &model.params,
        &gradients,
        &golden.flat("gradient", &model.params)?,
        tolerance,
    )
}

#[test]
fn the_comparison_rejects_each_parameter_when_it_is_off_by_a_millionth() -> Outcome {
    for name in MODELS {
        let golden = Golden::load(name)?;
        let right = golden.model::<f64>()?;
        for entry in right.params.entries() {
            let mut wrong = golden.model::<f64>()?;
            let values = &mut wrong.params.values_mut()[entry.range()];
            // Noise, because a LayerNorm takes out a shift that is the same everywhere.
            values
                .iter_mut()
                .zip(noise(1))
                .for_each(|(value, noise)| *value += 1e-6 * noise);
            let result = same_as_pytorch::<f64, TensorEngine<f64>>(&golden, &wrong);
            assert!(
                result.is_err(),
                "{name}: {} may be wrong without being noticed",
                entry.name
            );
        }
    }
    Ok(())
}

/// What the training of a golden file recorded, and where it ended.
struct Curve<T> {
    rates: Vec<f64>,
    losses: Vec<f64>,
    norms: Vec<f64>,
    params: Params<T>,
}

/// The training of a golden file with our optimizer, schedule and clipping.
fn train<T: Element, W: Workspace<T>>(golden: &Golden) -> Outcome<Curve<T>> {
    let setting = |name: &str| golden.setting(&format!("/training/{name}"));
    let Model { gpt, mut params } = golden.model::<T>()?;
    let tensors = params
        .entries()
        .iter()
        .map(|entry| (entry.range(), entry.shape.dims()));
    let groups = Groups::decay_matrices(params.len(), tensors, setting("weight_decay")?)?;
    let options = AdamOptions {
        beta1: setting("beta1")?,
        beta2: setting("beta2")?,
        epsilon: setting("epsilon")?,
    };
    let mut optimizer = AdamW::new(groups, options)?;
    let (warmup, end) = (setting("warmup")? as u64, setting("decay_steps")? as u64);
    let schedule =
        Schedule::warmup_cosine(setting("max_rate")?, setting("min_rate")?, warmup, end)?;
    let limit = setting("clip")?;

    let (mut rates, mut losses, mut norms) = (Vec::new(), Vec::new(), Vec::new());
    let (mut workspace, mut gradients) = (W::default(), vec![T::ZERO; params.len()]);
    for (step, batch) in golden.curve()?.iter().enumerate() {
        gradients.fill(T::ZERO);
        losses.push(accumulate(
            &gpt,
            &params,
            &mut workspace,
            batch,
            None,
            &mut gradients,
        )?);
        norms.push(clip_by_global_norm(&mut gradients, limit)?);
        rates.push(schedule.learning_rate(step as u64));
        optimizer.step(params.values_mut(), &gradients, T::from_f64(rates[step]))?;
    }
    Ok(Curve {
        rates,
        losses,
        norms,
        params,
    })
}

fn track_pytorch<W: Workspace<f64>>() -> Outcome {
    for name in MODELS {
        let golden = Golden::load(name)?;
        let curve = train::<f64, W>(&golden)?;
        let compare = |key: &str, found: &[f64], tolerance| {
            let expected = golden.numbers(&format!("curve.{key}"))?;
            close(&format!("{name}: {key}"), found, &expected, tolerance)
        };
        compare("rates", &curve.rates, 1e-14)?;
        compare("losses", &curve.losses, 1e-10)?;
        compare("norms", &curve.norms, 1e-10)?;
        let end = golden.flat("final", &curve.params)?;
        close_by_tensor(&curve.params, curve.params.values(), &end, 1e-8)?;
    }
    Ok(())
}

#[test]
fn a_hundred_steps_of_training() -> Outcome {
    track_pytorch::<TensorEngine<f64>>()
}

#[test]
fn a_hundred_steps_of_training_on_the_scalar_engine() -> Outcome {
    track_pytorch::<ScalarEngine<f64>>()
}

#[test]
fn training_in_f32_strays_no_more_than_pytorch_does() -> Outcome {
    for name in MODELS {
        let golden = Golden::load(name)?;
        let truth = golden.numbers("curve.losses")?;
        let largest = |losses: &[f64]| {
            losses
                .iter()
                .zip(&truth)
                .map(|(loss, truth)| (loss - truth).abs())
                .fold(0.0, f64::max)
        };
        let ours = largest(&train::<f32, TensorEngine<f32>>(&golden)?.losses);
        let theirs = largest(&golden.numbers("curve.losses_f32")?);
        // Rounding is a matter of luck: the order of one sum moves the largest error by some multiples.
        assert!(
            ours <= 10.0 * theirs,
            "{name}: our f32 losses are off by {ours:e}, PyTorch's by {theirs:e}"
        );
    }
    Ok(())
}

#[test]
fn optimizers_take_the_same_steps() -> Outcome {
    let golden = Golden::load("ops")?;
    let number = |name: &str, key: &str| golden.setting(&format!("/optimizers/{name}/{key}"));
    let adam_options = |name| -> Outcome<AdamOptions> {
        let (beta1, beta2, epsilon) = (
            number(name, "betas/0")?,
            number(name, "betas/1")?,
            number(name, "eps")?,
        );
        Ok(AdamOptions {
            beta1,
            beta2,
            epsilon,
        })
    };
    let (start, gradients) = (
        golden.numbers("optimizer.start")?,
        golden.numbers("optimizer.gradients")?,
    );
    let groups = |decay| Groups::all(start.len(), decay);
    let sgd = |name, nesterov| -> Outcome<Box<dyn Optimizer<f64>>> {
        let options = SgdOptions {
            momentum: number(name, "momentum")?,
            nesterov,
            ..SgdOptions::default()
        };
        Ok(Box::new(Sgd::new(groups(0.0)?, options)?))
    };
    let optimizers: [(&str, Box<dyn Optimizer<f64>>); 5] = [
        (
            "sgd",
            Box::new(Sgd::new(groups(0.0)?, SgdOptions::default())?),
        ),
        ("momentum", sgd("momentum", false)?),
        ("nesterov", sgd("nesterov", true)?),
        (
            "adam",
            Box::new(Adam::new(groups(0.0)?, adam_options("adam")?)?),
        ),
        (
            "adamw",
            Box::new(AdamW::new(
                groups(number("adamw", "weight_decay")?)?,
                adam_options("adamw")?,
            )?),
        ),
    ];
    for (name, mut optimizer) in optimizers {
        let (mut parameters, mut trace) = (start.clone(), Vec::new());
        for gradient in gradients.chunks(start.len()) {
            optimizer.step(&mut parameters, gradient, number(name, "lr")?)?;
            trace.extend_from_slice(&parameters);
        }
        close(
            name,
            &trace,
            &golden.numbers(&format!("optimizer.{name}"))?,
            1e-13,
        )?;
    }
    Ok(())
}

/// Runs an op on the inputs of `ops.safetensors` and compares its result and all its gradients.
fn same_op<T: Element, W: Workspace<T>, const N: usize>(
    name: &str,
    op: impl Op<N>,
    keys: [&str; N],
    indices: &[u32],
) -> Outcome {
    let golden = Golden::load("ops")?;
    let numbers = |key: &str| golden.numbers(&format!("{name}.{key}"));
    let inputs: Outcome<Vec<_>> = keys
        .iter()
        .map(|key| Ok((golden.dims(&format!("{name}.{key}"))?, numbers(key)?)))
        .collect();
    let inputs = inputs?;
    let views = std::array::from_fn(|i| (&inputs[i].0[..], &inputs[i].1[..]));
    let context = Context {
        indices,
        find_non_finite: true,
        ..Context::default()
    };
    let found = differentiate::<T, W, N>(op, views, context, &numbers("upstream")?)?;

    let tolerance = tolerance::<T>(1e-13, 5e-6);
    close(name, &found.result, &numbers("result")?, tolerance)?;
    for (key, gradient) in keys.iter().zip(&found.gradients) {
        close(
            &format!("{name}.{key}"),
            gradient,
            &numbers(&format!("gradient.{key}"))?,
            tolerance,
        )?;
    }
    Ok(())
}

fn elementwise_ops<T: Element, W: Workspace<T>>() -> Outcome {
    same_op::<T, W, 1>("relu", ops::Relu, ["x"], &[])?;
    same_op::<T, W, 1>("gelu", ops::Gelu, ["x"], &[])?;
    same_op::<T, W, 1>("gelu-tanh", ops::GeluTanh, ["x"], &[])?;
    same_op::<T, W, 1>("tanh", ops::Tanh, ["x"], &[])?;
    same_op::<T, W, 1>("sigmoid", ops::Sigmoid, ["x"], &[])
}

fn row_ops<T: Element, W: Workspace<T>>() -> Outcome {
    same_op::<T, W, 1>("softmax", ops::Softmax, ["x"], &[])?;
    same_op::<T, W, 3>(
        "layer_norm",
        ops::LayerNorm { epsilon: 1e-5 },
        ["x", "gain", "bias"],
        &[],
    )
}

fn products<T: Element, W: Workspace<T>>() -> Outcome {
    same_op::<T, W, 2>("matmul", ops::MatMul, ["a", "b"], &[])?;
    same_op::<T, W, 3>(
        "linear",
        ops::Linear {
            activation: Activation::Identity,
        },
        ["x", "weight", "bias"],
        &[],
    )?;
    let attention = ops::CausalAttention {
        heads: 2,
        dropout: 0.0,
        stream: 0,
    };
    same_op::<T, W, 1>("attention", attention, ["qkv"], &[])
}

fn ops_with_indices<T: Element, W: Workspace<T>>() -> Outcome {
    let golden = Golden::load("ops")?;
    let ids = golden.integers("embedding.ids")?;
    let embedding = ops::Embedding {
        ids: Indices::new(0, ids.len()),
        sequences: 2,
    };
    same_op::<T, W, 1>("embedding", embedding, ["table"], &ids)?;

    let ids = golden.integers("cross_entropy.targets")?;
    let targets = Indices::new(0, ids.len());
    same_op::<T, W, 1>(
        "cross_entropy",
        ops::CrossEntropy {
            targets,
            ignore: None,
        },
        ["logits"],
        &ids,
    )?;
    let ignore = Some(golden.setting("/ignored")? as u32);
    same_op::<T, W, 1>(
        "cross_entropy_ignoring",
        ops::CrossEntropy { targets, ignore },
        ["logits"],
        &ids,
    )
}

#[test]
fn the_comparison_of_ops_rejects_another_op() {
    let plain = same_op::<f64, TensorEngine<f64>, 1>("gelu", ops::GeluTanh, ["x"], &[]);
    let rounded = same_op::<f32, TensorEngine<f32>, 1>("gelu", ops::GeluTanh, ["x"], &[]);
    assert!(
        plain.is_err() && rounded.is_err(),
        "the two formulas of GELU pass for each other"
    );
}
