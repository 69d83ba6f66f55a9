//! Every op at random sizes, on random numbers, at every SIMD level of the machine.

use proptest::prelude::*;

use super::*;
use crate::kernels::dispatch::levels::at_every_level;
use crate::{Context, Indices, NonFiniteInputs, Op, OpCheck};

/// Sizes that cross the widths of vectors and tiles.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![1..12usize, 15..20usize, 31..35usize]
}

/// A check at one random point, without the slow central differences, which the ops' own tests make.
fn check(seed: u64, context: Context<'_>) -> OpCheck<'_> {
    OpCheck {
        context,
        seed,
        special: false,
        non_finite: NonFiniteInputs::Absent,
        differences: false,
    }
}

fn holds<const N: usize, O: Op<N>>(check: OpCheck<'_>, op: &O, shapes: [&[usize]; N]) {
    at_every_level(|| {
        if let Err(error) = check.run(op, &shapes) {
            panic!(
                "{op} {shapes:?}, seed {}: {error}",
                check.seed,
                op = O::NAME
            );
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn elementwise(seed: u64, rows in size(), columns in size()) {
        for (special, non_finite) in [(false, NonFiniteInputs::Absent), (true, NonFiniteInputs::Absent), (true, NonFiniteInputs::Exact)] {
            let check = OpCheck { special, non_finite, ..check(seed, Context::default()) };
            let shape = &[rows, columns][..];
            holds(check, &Add, [shape, shape]);
            holds(check, &Mul, [shape, shape]);
            holds(check, &Scale(0.37), [shape]);
            holds(check, &Relu, [shape]);
            holds(check, &Gelu, [shape]);
            holds(check, &GeluTanh, [shape]);
            holds(check, &Tanh, [shape]);
            holds(check, &Sigmoid, [shape]);
            holds(check, &Identity, [shape]);
        }
    }

    #[test]
    fn reductions_and_rows(seed: u64, rows in size(), columns in size()) {
        let check = check(seed, Context::default());
        holds(check, &Sum, [&[rows, columns]]);
        holds(check, &Mean, [&[rows, columns]]);
        holds(check, &Softmax, [&[rows, columns]]);
        // A row of two or fewer numbers can come out constant, where the slope of f32 is lost whatever the method.
        let wide = columns + 3;
        holds(check, &LayerNorm { epsilon: 1e-3 }, [&[rows, wide], &[wide]]);
        holds(check, &LayerNorm { epsilon: 1e-3 }, [&[rows, wide], &[wide], &[wide]]);
    }

    #[test]
    fn products(seed: u64, m in size(), k in size(), n in size()) {
        let check = check(seed, Context::default());
        holds(check, &MatMul, [&[m, k], &[k, n]]);
        for activation in [Activation::Identity, Activation::Relu, Activation::Gelu, Activation::GeluTanh] {
            holds(check, &Linear { activation }, [&[m, k], &[n, k]]);
            holds(check, &Linear { activation }, [&[m, k], &[n, k], &[n]]);
        }
    }

    #[test]
    fn attention(seed: u64, b in 1..3usize, t in size(), heads in 1..4usize, width in 1..20usize, dropped: bool) {
        let dropout = if dropped { 0.3 } else { 0.0 };
        let op = CausalAttention { heads, dropout, stream: 1 };
        holds(check(seed, Context { key: seed, ..Context::default() }), &op, [&[b, t, 3 * heads * width]]);
    }

    #[test]
    fn dropout(seed: u64, n in size(), probability in 0.0..=1.0f64) {
        let context = Context { key: seed, ..Context::default() };
        holds(check(seed, context), &Dropout { probability, stream: 4 }, [&[n]]);
    }

    #[test]
    fn indexed(seed: u64, ids in prop::collection::vec(0..5u32, 1..40), columns in size()) {
        let check = check(seed, Context { indices: &ids, ..Context::default() });
        let all = Indices::new(0, ids.len());
        holds(check, &Embedding { ids: all, sequences: 1 }, [&[5, columns]]);
        holds(check, &CrossEntropy { targets: all, ignore: None }, [&[ids.len(), columns + 4]]);
        holds(check, &CrossEntropy { targets: all, ignore: Some(2) }, [&[ids.len(), columns + 4]]);
        holds(check, &AddPositions, [&[2, ids.len(), columns], &[ids.len() + 1, columns]]);
    }

    #[test]
    fn numbers_that_are_not_finite_come_out_as_from_the_formula(seed: u64, m in size(), k in size(), n in size(), ids in prop::collection::vec(0..5u32, 1..40)) {
        let context = Context { key: seed, indices: &ids, ..Context::default() };
        let check = OpCheck { non_finite: NonFiniteInputs::Exact, ..check(seed, context) };
        let all = Indices::new(0, ids.len());
        let wide = n + 3;
        holds(check, &Sum, [&[m, n]]);
        holds(check, &Mean, [&[m, n]]);
        holds(check, &LayerNorm { epsilon: 1e-3 }, [&[m, wide], &[wide]]);
        holds(check, &LayerNorm { epsilon: 1e-3 }, [&[m, wide], &[wide], &[wide]]);
        holds(check, &MatMul, [&[m, k], &[k, n]]);
        holds(check, &Linear::plain(), [&[m, k], &[n, k]]);
        holds(check, &Linear::plain(), [&[m, k], &[n, k], &[n]]);
        holds(check, &Dropout { probability: 0.3, stream: 4 }, [&[m, n]]);
        holds(check, &Embedding { ids: all, sequences: 1 }, [&[5, n]]);
        holds(check, &AddPositions, [&[2, ids.len(), n], &[ids.len() + 1, n]]);
    }

    #[test]
    fn numbers_that_are_not_finite_are_not_lost(seed: u64, m in size(), k in size(), n in size(), b in 1..3usize, heads in 1..4usize) {
        let context = Context { key: seed, ..Context::default() };
        let check = OpCheck { non_finite: NonFiniteInputs::MaySpread, ..check(seed, context) };
        holds(check, &Softmax, [&[m, n]]);
        for activation in [Activation::Relu, Activation::Gelu, Activation::GeluTanh] {
            holds(check, &Linear { activation }, [&[m, k], &[n, k]]);
            holds(check, &Linear { activation }, [&[m, k], &[n, k], &[n]]);
        }
        for dropout in [0.0, 0.3] {
            holds(check, &CausalAttention { heads, dropout, stream: 1 }, [&[b, m, 3 * heads * k]]);
        }
    }
}
