//! What is done with runs, as loops over plain slices that are compiled for the machine's vectors.

use super::CONSTANT;
use super::groups::{Layer, Place, Rule};
use crate::lanes::Work;
use crate::ops::{constant, reduce};
use crate::scalar::{Function, Scalar};

mod affine;
mod attention;
mod normal;

use affine::AffineBack;
pub(super) use affine::{Affine, lanes_of};
use attention::AttendBack;
pub(super) use attention::{Attend, Heads};
pub(super) use normal::Normalise;
use normal::NormaliseBack;

/// How many gradients are added to at once.
const GROUP: usize = 8;

/// The values at a place, if they lie side by side.
#[inline(always)]
fn slice<T>(values: &[T], place: Place) -> Option<&[T]> {
    (place.stride == 1).then(|| &values[place.start..place.start + place.length])
}

/// Σ aᵢbᵢ.
#[inline(always)]
fn dot<T: Scalar>(values: &[T], a: Place, b: Place) -> T {
    if let (Some(a), Some(b)) = (slice(values, a), slice(values, b)) {
        return reduce::dot_of_slices(a, b);
    }
    let at = |place: Place, i: usize| values[place.start + i * place.stride];
    reduce::value::dot(a.length.min(b.length), |i| at(a, i), |i| at(b, i))
}

/// Adds share(i) to the i-th gradient of these nodes, unless they are constants.
#[inline(always)]
fn add<T: Scalar>(gradients: &mut [T], to: Place, share: impl Fn(usize) -> T) {
    if to.is_constant() {
        return;
    }
    for i in 0..to.length {
        gradients[to.node as usize + i * to.stride] += share(i);
    }
}

/// Adds to the gradients of `to` the values of `factors`, times `gradient`.
#[inline(always)]
fn add_multiple<T: Scalar>(
    gradients: &mut [T],
    to: Place,
    values: &[T],
    factors: Place,
    gradient: T,
) {
    if to.is_constant() {
        return;
    }
    if let (Some(factors), 1) = (slice(values, factors), to.stride) {
        let sums = &mut gradients[to.node as usize..][..to.length];
        return add_multiple_of_slice(sums, factors, gradient);
    }
    add(gradients, to, |i| {
        values[factors.start + i * factors.stride].chain(gradient)
    });
}

/// Adds factorᵢ·gradient to each sum, in groups of a constant length, which become vectors.
#[inline(always)]
fn add_multiple_of_slice<T: Scalar>(sums: &mut [T], factors: &[T], gradient: T) {
    let mut sums = sums.chunks_exact_mut(GROUP);
    let mut factors = factors.chunks_exact(GROUP);
    for (sums, factors) in (&mut sums).zip(&mut factors) {
        // All are read before any is written: the compiler does not see that the slices are apart.
        let mut group = [constant::<T>(0.0); GROUP];
        for i in 0..GROUP {
            group[i] = sums[i] + factors[i].chain(gradient);
        }
        sums.copy_from_slice(&group);
    }
    let rest = sums.into_remainder().iter_mut();
    for (sum, factor) in rest.zip(factors.remainder()) {
        *sum += factor.chain(gradient);
    }
}

/// Σ xᵢ.
pub(super) struct Sum<'a, T> {
    pub(super) values: &'a [T],
    pub(super) x: Place,
}

impl<T: Scalar> Work for Sum<'_, T> {
    type Output = T;

    #[inline(always)]
    fn run(self) -> T {
        let Place {
            start,
            length,
            stride,
            ..
        } = self.x;
        reduce::value::sum(length, |i| self.values[start + i * stride])
    }
}

/// Writes Σⱼ aᵢⱼxⱼ, and biasᵢ if there are any, to `out`.
pub(super) struct Rows<'a, T> {
    pub(super) values: &'a [T],
    pub(super) matrix: Place,
    pub(super) x: Place,
    pub(super) bias: Option<Place>,
    pub(super) out: &'a mut [T],
}

impl<T: Scalar> Work for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            values,
            matrix,
            x,
            bias,
            out,
        } = self;
        for (i, y) in out.iter_mut().enumerate() {
            *y = dot(values, matrix.part(i * x.length, x.length, 1), x);
            if let Some(bias) = bias {
                *y += values[bias.start + i * bias.stride];
            }
        }
    }
}

/// Writes f(xᵢ) to `out` and the derivatives to `slopes`.
pub(super) struct Each<'a, T, F> {
    pub(super) values: &'a [T],
    pub(super) f: F,
    pub(super) x: Place,
    pub(super) out: &'a mut [T],
    pub(super) slopes: &'a mut [T],
}

impl<T: Scalar, F: Function> Work for Each<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            values,
            f,
            x,
            out,
            slopes,
        } = self;
        for (i, y) in out.iter_mut().enumerate() {
            *y = values[x.start + i * x.stride];
        }
        T::map_each(f, out, slopes);
    }
}

/// From the gradients of a group to those of what it comes from.
pub(super) struct PassOn<'a, T> {
    pub(super) values: &'a [T],
    pub(super) rule: Rule,
    /// The gradients of all nodes before the group.
    pub(super) to: &'a mut [T],
    pub(super) from: &'a [T],
}

impl<T: Scalar> Work for PassOn<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            values,
            rule,
            to,
            from,
        } = self;
        match rule {
            Rule::Rows { matrix, x, bias } => {
                for (i, &gradient) in from.iter().enumerate() {
                    if !gradient.is_zero() {
                        let row = matrix.part(i * x.length, x.length, 1);
                        add_multiple(to, row, values, x, gradient);
                        add_multiple(to, x, values, row, gradient);
                    }
                }
                if let Some(bias) = bias {
                    add(to, bias, |i| from[i]);
                }
            }
            Rule::Each { x, slopes } => {
                let slopes = &values[slopes..][..from.len()];
                add(to, x, |i| slopes[i].chain(from[i]));
            }
            Rule::Sum { x } => add(to, x, |_| from[0]),
            Rule::Share { x, share } => {
                let share = values[share].chain(from[0]);
                add(to, x, |_| share);
            }
            Rule::Op { x, slopes } => {
                let slopes = Place::new(CONSTANT, slopes, x.length);
                add_multiple(to, x, values, slopes, from[0]);
            }
            // Another piece of work, below.
            Rule::Layer(_) => {}
        }
    }
}

/// From the gradients of the results of a layer to those of what it reads.
pub(super) struct PassOnLayer<'a, T> {
    pub(super) values: &'a [T],
    pub(super) layer: Layer,
    /// The gradients of all nodes before the results.
    pub(super) to: &'a mut [T],
    pub(super) from: &'a [T],
    /// As much room as the layer needs.
    pub(super) room: &'a mut [T],
}

impl<T: Scalar> Work for PassOnLayer<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            values,
            layer,
            to,
            from,
            room,
        } = self;
        match layer {
            Layer::Affine {
                x,
                weights,
                biases,
                finite,
            } => {
                if finite || from.iter().any(|gradient| !gradient.is_zero()) {
                    AffineBack {
                        values,
                        x,
                        weights,
                        biases,
                        finite,
                        from,
                    }
                    .run(to);
                }
            }
            Layer::Normal {
                x,
                gains,
                biases,
                normal,
            } => NormaliseBack {
                values,
                x,
                gains,
                biases,
                normal,
                from,
            }
            .run(to),
            Layer::Attention { x, sizes, kept } => AttendBack {
                values,
                x,
                sizes,
                kept,
                from,
                room,
            }
            .run(to),
        }
    }
}
