//! Multi-head causal self-attention: for each head, `softmax(q kᵀ/√d + mask) v`, position t seeing positions 0..=t.
//!
//! Source: Vaswani et al., *Attention is all you need*, arXiv 1706.03762, equation 1; blocked over queries with the
//! probabilities recomputed in backward from the largest score and the sum kept of each query, as in Dao et al.,
//! *FlashAttention*, arXiv 2205.14135, so that memory does not grow with T². Scores of future positions outside the block on the diagonal are never
//! computed. Attention dropout multiplies the probabilities by a mask, as in GPT-2.
//!
//! As many [queries](queries) as a vector has lanes are worked on side by side or, of sequences too short for that, as many
//! [heads](heads). Backward, with p the probabilities, m the mask factors and D = Σⱼ pⱼ mⱼ (dO vⱼ) of a query: `ds = p (m · (dO vᵀ) − D)/√d`, `dq = ds k`,
//! `dk = dsᵀ q`, `dv = (p m)ᵀ dO`.
//!
//! Queries side by side are multiplied with the keys and values of all of them, by a probability of 0 beyond the diagonal. So an
//! infinity or NaN at a position reaches also the few positions before it that lie in the same vector; how many depends on the machine.

mod heads;
mod queries;

pub(crate) use queries::{exponentials, hide, mix, side_by_side};

use burtorch_core::{Float, MatrixView, Number, Scalar};

use super::{check_probability, mismatch};
use pulp::{Simd, WithSimd};

use crate::kernels::dispatch;
use crate::kernels::gemm::{lanes, panel_len};
use crate::kernels::random::Mask;
use crate::kernels::turn::MOST_LANES;
use crate::{Context, Element, Op, Result, Run, Shape, View};

/// Causal self-attention. Input: `[B, T, 3C]`, queries, keys and values side by side, head h in columns
/// `h·C/heads..(h+1)·C/heads` of each → `[B, T, C]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CausalAttention {
    /// Number of heads; divides C.
    pub heads: usize,
    /// Probability of dropping an attention weight, 0 to 1. Active whatever the mode.
    pub dropout: f64,
    /// The mask's stream; differs from layer to layer.
    pub stream: u32,
}

/// The sizes of one call.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    sequences: usize,
    time: usize,
    heads: usize,
    /// Dimensions of one head.
    width: usize,
}

impl Sizes {
    fn new(x: Shape, heads: usize) -> Self {
        let [sequences, time, columns] = x.dims() else {
            unreachable!("the shape rule asks for three dimensions")
        };
        Sizes {
            sequences: *sequences,
            time: *time,
            heads,
            width: columns / 3 / heads,
        }
    }

    /// 1/√width.
    fn scale<T: Element>(&self) -> T {
        T::ONE / T::from_usize(self.width).sqrt()
    }

    /// Columns of the result; the input has three times as many.
    fn columns(&self) -> usize {
        self.heads * self.width
    }
}

/// What the forward pass works on.
struct Forward<'a, T> {
    sizes: Sizes,
    mask: Option<Mask>,
    x: &'a [T],
    y: &'a mut [T],
    saved: &'a mut [T],
    scratch: &'a mut [T],
}

impl<T: Element> WithSimd for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if heads::pay(self.sizes, lanes::<T, S>()) {
            heads::forward(simd, self);
        } else {
            queries::forward(simd, self);
        }
    }
}

/// What the backward pass works on.
struct Backward<'a, T> {
    sizes: Sizes,
    mask: Option<Mask>,
    x: &'a [T],
    saved: &'a [T],
    dy: &'a [T],
    dx: &'a mut [T],
    scratch: &'a mut [T],
    panel: &'a mut [T],
}

impl<T: Element> WithSimd for Backward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if heads::pay(self.sizes, lanes::<T, S>()) {
            heads::backward(simd, self);
        } else {
            queries::backward(simd, self);
        }
    }
}

impl CausalAttention {
    fn mask(&self, context: &Context<'_>) -> Option<Mask> {
        (self.dropout > 0.0).then(|| Mask::new(context.key, self.stream, self.dropout))
    }
}

impl Op<1> for CausalAttention {
    const NAME: &'static str = "causal attention";

    fn shape(&self, _: &Context<'_>, [x]: [Shape; 1]) -> Result<Shape> {
        check_probability("causal attention", self.dropout)?;
        let divides = |heads: usize| x.last().is_multiple_of(heads) && heads > 0;
        if x.rank() != 3 || !self.heads.checked_mul(3).is_some_and(divides) {
            return mismatch(
                "causal attention",
                format!("[B, T, 3C] with C a multiple of {} heads", self.heads),
                &[x],
            );
        }
        x.with_last(x.last() / 3)
    }

    fn saved(&self, [x]: [Shape; 1]) -> usize {
        2 * x.rows() * self.heads
    }

    fn scratch(&self, [x]: [Shape; 1]) -> usize {
        let sizes = Sizes::new(x, self.heads);
        queries::scratch_len(sizes).max(heads::scratch_len(sizes)) + panel_len(MOST_LANES)
    }

    fn formula<S: Scalar>(&self, context: &Context<'_>, [x]: [View<'_, S>; 1], y: &mut Vec<S>) {
        let sizes = Sizes::new(x.shape, self.heads);
        let mask = self.mask(context);
        let number = <S as Number>::Primal::from_f64;
        let inputs = 3 * sizes.columns();
        for (sequence, x) in x.data.chunks_exact(inputs * sizes.time).enumerate() {
            let factor = |head: usize, query: usize, key: usize| {
                let row = (sequence * sizes.heads + head) * sizes.time + query;
                number(mask.map_or(1.0, |mask| mask.factor(row * sizes.time + key)))
            };
            let factor: Option<&dyn Fn(usize, usize, usize) -> _> = mask.map(|_| &factor as _);
            S::causal_attention(MatrixView::new(x, inputs), sizes.heads, factor, y);
        }
    }

    fn forward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        [x]: [View<'_, T>; 1],
        y: &mut [T],
        saved: &mut [T],
    ) {
        let sizes = Sizes::new(x.shape, self.heads);
        dispatch::arch().dispatch(Forward {
            sizes,
            mask: self.mask(&run.context),
            x: x.data,
            y,
            saved,
            scratch: run.scratch,
        });
    }

    fn backward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        [x]: [View<'_, T>; 1],
        _: &[T],
        saved: &[T],
        dy: &[T],
        [dx]: [Option<&mut [T]>; 1],
    ) {
        let Some(dx) = dx else { return };
        let sizes = Sizes::new(x.shape, self.heads);
        let (panel, scratch) = run.scratch.split_at_mut(panel_len(MOST_LANES));
        dispatch::arch().dispatch(Backward {
            sizes,
            mask: self.mask(&run.context),
            x: x.data,
            saved,
            dy,
            dx,
            scratch,
            panel,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::dispatch::levels::at_every_level;
    use crate::{Engine, Error, OpCheck, Params, TensorEngine, Workspace};

    fn op(heads: usize, dropout: f64) -> CausalAttention {
        CausalAttention {
            heads,
            dropout,
            stream: 3,
        }
    }

    #[test]
    fn kernel_formula_and_differences_agree() {
        for (heads, shape) in [
            (1, [1, 1, 3]),
            (2, [2, 5, 12]),
            (3, [1, 17, 9]),
            (2, [1, 33, 54]),
            (1, [2, 8, 27]),
        ] {
            OpCheck::default().run(&op(heads, 0.0), &[&shape]).unwrap();
        }
    }

    /// Few positions take the heads side by side: of one sequence and of several, in vectors that they fill and that they do not,
    /// in rows of fours and others; beside them lie the sizes from which on queries are side by side.
    #[test]
    fn every_level_at_few_positions() {
        for (heads, shape) in [
            (6, [1, 8, 72]),
            (6, [7, 8, 72]),
            (3, [11, 1, 27]),
            (5, [4, 3, 75]),
            (4, [5, 16, 60]),
            (4, [5, 17, 60]),
            (1, [1, 8, 12]),
            (2, [16, 2, 54]),
        ] {
            for dropout in [0.0, 0.4] {
                let check = OpCheck {
                    differences: false,
                    context: Context {
                        key: 5,
                        ..Context::default()
                    },
                    ..OpCheck::default()
                };
                at_every_level(|| check.run(&op(heads, dropout), &[&shape]).unwrap());
            }
        }
    }

    /// The result of attention over four sequences of eight positions, and the gradient of its input, with one number replaced.
    fn with_number(place: usize, number: f32) -> [Vec<f32>; 2] {
        let (heads, shape) = (6, Shape::new(&[4, 8, 72]).unwrap());
        let mut x: Vec<f32> = (0..shape.len())
            .map(|i| (i * i % 17) as f32 / 9.0)
            .collect();
        x[place] = number;
        let mut params = Params::new();
        let x = params.add("x", shape, &x).unwrap();
        let mut engine = TensorEngine::new();
        let mut pass = engine.bind(&params, Context::default());
        let x = pass.param(x).unwrap();
        let y = pass.apply(op(heads, 0.0), [x]).unwrap();
        let mut gradient = vec![0.0; params.len()];
        let seed: Vec<f32> = (0..shape.len() / 3).map(|i| (i % 5) as f32).collect();
        pass.backward(y, &seed, &mut gradient).unwrap();
        [pass.value(y).data.to_vec(), gradient]
    }

    #[test]
    fn a_number_that_is_not_finite_spoils_its_sequence_and_head_only() {
        let place = (2 * 8 + 5) * 72 + 24 + 3 * 4 + 1; // of a key: sequence 2, position 5, head 3
        at_every_level(|| {
            let right = with_number(place, 1.0);
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let found = with_number(place, bad);
                for (columns, (found, right)) in [24, 72].into_iter().zip(found.iter().zip(&right))
                {
                    for (i, (found, right)) in found.iter().zip(right).enumerate() {
                        let (row, head) = (i / columns, i % 24 / 4);
                        let concerned = row / 8 == 2 && head == 3;
                        assert!(
                            concerned || found == right,
                            "{bad} reached row {row}, head {head}"
                        );
                    }
                }
                assert!(found[1].iter().any(|x| !x.is_finite()), "{bad} was lost");
            }
        });
    }

    #[test]
    fn f06_attention_dropout_uses_one_mask_for_both_directions() {
        for dropout in [0.3, 1.0] {
            let check = OpCheck {
                context: Context {
                    key: 11,
                    ..Context::default()
                },
                ..OpCheck::default()
            };
            check.run(&op(2, dropout), &[&[2, 19, 24]]).unwrap();
        }
    }

    #[test]
    fn refuses_heads_that_do_not_divide_the_width() {
        assert!(matches!(
            OpCheck::default().run(&op(5, 0.0), &[&[1, 2, 72]]),
            Err(Error::Mismatch { .. })
        ));
        for heads in [0, usize::MAX, usize::MAX / 3 + 1] {
            assert!(
                OpCheck::default()
                    .run(&op(heads, 0.0), &[&[1, 2, 72]])
                    .is_err()
            );
        }
        assert!(OpCheck::default().run(&op(1, 1.5), &[&[1, 2, 72]]).is_err());
        assert!(OpCheck::default().run(&op(1, 0.0), &[&[2, 72]]).is_err());
    }
}
