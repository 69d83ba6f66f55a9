//! Times the ops of one layer of the GPT presets, forward and backward, and matrix products beside matrixmultiply.
//!
//! `cargo bench -p burtorch-tensor` prints, for each, the minimum and the median over many short rounds.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use burtorch_tensor::{
    Context, Engine, Error, Op, Params, Result, Shape, TensorEngine, Workspace, ops,
};
use ndarray::Array2;

const ROUNDS: usize = 60;

/// Minimum and median of the seconds that one call takes.
fn time(mut call: impl FnMut()) -> (f64, f64) {
    let calls = 1 + (2e-3 / seconds(&mut call).max(1e-7)) as usize;
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| seconds(&mut || (0..calls).for_each(|_| call())) / calls as f64)
        .collect();
    rounds.sort_by(f64::total_cmp);
    (rounds[0], rounds[ROUNDS / 2])
}

fn seconds(call: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    call();
    start.elapsed().as_secs_f64()
}

fn ramp(len: usize) -> Vec<f32> {
    (0..len)
        .map(|i| (i * 7919 % 101) as f32 / 101.0 - 0.5)
        .collect()
}

/// One op on parameters of these shapes: seconds of forward, and of forward with backward.
fn op<const N: usize, O: Op<N>>(
    op: &O,
    shapes: [&[usize]; N],
    context: Context<'_>,
) -> Result<[(f64, f64); 2]> {
    let mut params = Params::<f32>::new();
    let mut ids = Vec::new();
    for (i, dims) in shapes.iter().enumerate() {
        let shape = Shape::new(dims)?;
        ids.push(params.add(format!("x{i}"), shape, &ramp(shape.len()))?);
    }
    let mut workspace = TensorEngine::new();
    let mut gradients = vec![0.0; params.len()];
    let mut seed = Vec::new();
    let mut run = |backward: bool| {
        let mut pass = workspace.bind(&params, context);
        let mut x = Vec::with_capacity(N);
        for &id in &ids {
            x.push(pass.param(id)?);
        }
        let y = pass.apply(op.clone(), std::array::from_fn(|i| x[i]))?;
        if backward {
            let len = pass.value(y).data.len();
            if seed.len() != len {
                seed = ramp(len);
            }
            pass.backward(y, &seed, &mut gradients)?;
        }
        Ok::<_, Error>(black_box(pass.value(y).data[0]))
    };
    run(true)?;
    let forward = time(|| _ = run(false));
    Ok([forward, time(|| _ = run(true))])
}

fn products() -> Result<()> {
    println!(
        "{:>22}  {:>21}  {:>21}",
        "product, GFLOP/s", "ours min / median", "matrixmultiply"
    );
    for (m, k, n) in [
        (8, 24, 24),
        (8, 24, 96),
        (128, 24, 96),
        (192, 128, 384),
        (192, 128, 512),
        (192, 512, 128),
        (256, 384, 1536),
    ] {
        let flops = (2 * m * k * n) as f64 / 1e9;
        let [ours, _] = op(&ops::MatMul, [&[m, k], &[k, n]], Context::default())?;
        let (a, b) = (
            Array2::from_elem((m, k), 0.5f32),
            Array2::from_elem((k, n), 0.5f32),
        );
        let mut c = Array2::<f32>::zeros((m, n));
        let theirs = time(|| ndarray::linalg::general_mat_mul(1.0, black_box(&a), &b, 0.0, &mut c));
        println!(
            "{:>22}  {:>10.1}{:>11.1}  {:>10.1}{:>11.1}",
            format!("{m}x{k}x{n}"),
            flops / ours.0,
            flops / ours.1,
            flops / theirs.0,
            flops / theirs.1
        );
    }
    Ok(())
}

fn layers() -> Result<()> {
    let show = |name: &str, [forward, both]: [(f64, f64); 2]| {
        let us = |s: f64| s * 1e6;
        println!(
            "{name:>34}  {:>10.1}{:>10.1}  {:>10.1}{:>10.1}",
            us(forward.0),
            us(forward.1),
            us(both.0),
            us(both.1)
        );
    };
    println!(
        "\n{:>34}  {:>20}  {:>20}",
        "microseconds", "forward min / median", "with backward"
    );
    for (name, b, t, c, heads) in [
        ("mini x16", 16, 8, 24, 6),
        ("small x3", 3, 64, 128, 4),
        ("base x1", 1, 256, 384, 6),
    ] {
        let context = Context::default();
        let gelu = ops::Linear {
            activation: ops::Activation::Gelu,
        };
        let attention = ops::CausalAttention {
            heads,
            dropout: 0.0,
            stream: 0,
        };
        show(
            &format!("{name}: linear C to 3C"),
            op(&ops::Linear::plain(), [&[b * t, c], &[3 * c, c]], context)?,
        );
        show(
            &format!("{name}: linear C to 4C, gelu"),
            op(&gelu, [&[b * t, c], &[4 * c, c]], context)?,
        );
        show(
            &format!("{name}: linear 4C to C"),
            op(
                &ops::Linear::plain(),
                [&[b * t, 4 * c], &[c, 4 * c]],
                context,
            )?,
        );
        show(
            &format!("{name}: attention"),
            op(&attention, [&[b, t, 3 * c]], context)?,
        );
        show(
            &format!("{name}: layer norm"),
            op(
                &ops::LayerNorm { epsilon: 1e-5 },
                [&[b * t, c], &[c]],
                context,
            )?,
        );
        show(
            &format!("{name}: add"),
            op(&ops::Add, [&[b * t, c], &[b * t, c]], context)?,
        );
        let dropout = ops::Dropout {
            probability: 0.2,
            stream: 0,
        };
        show(
            &format!("{name}: dropout"),
            op(&dropout, [&[b * t, c]], context)?,
        );
        let targets = vec![1; b * t];
        let context = Context {
            indices: &targets,
            ..context
        };
        let loss = ops::CrossEntropy {
            targets: burtorch_tensor::Indices::new(0, b * t),
            ignore: None,
        };
        show(
            &format!("{name}: cross entropy of 65"),
            op(&loss, [&[b * t, 65]], context)?,
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    products()?;
    layers()
}
