//! The two loops that run a program: forward through its instructions, and back through a plan.
//!
//! What an instruction computes, and its partial derivatives, are the rows of the table.

use crate::float::Float;
use crate::lanes::Work;
use crate::ops::{constant, partial, reduce};
use crate::program::code::Code;
use crate::program::op::{
    Op, table, table_with_binary, table_with_operators, table_with_reductions, table_with_unary,
};
use crate::program::plan::{Link, NONE, Plan};
use crate::scalar::Scalar;

macro_rules! loops {
    (
        unary { $($(#[$unary_doc:meta])* $unary:ident { $($unary_row:tt)* })* }
        binary { $($(#[$binary_doc:meta])* $binary:ident { $($binary_row:tt)* })* }
        operator { $($operator:ident { [$trait:ident $symbol:tt $($names:ident)*] $($operator_row:tt)* })* }
        reduction { $($(#[$reduction_doc:meta])* $reduction:ident { $($reduction_row:tt)* })* }
    ) => {
        /// Computes all results, from the inputs and constants that are in `values`, and the slopes if there is a place for them.
        #[inline(always)]
        fn forward<T: Scalar>(
            code: &Code<T::Primal>,
            values: &mut [T],
            mut slopes: Option<&mut [T]>,
        ) {
            let mut next = code.first_result();
            for instruction in &code.instructions {
                let (values, results) = values.split_at_mut(next);
                next += 1;
                let at = |i: usize| values[instruction.operands[i] as usize];
                let many = || &code.arguments[instruction.run()];
                // Each arm writes its result itself: one variable for all of them would be copied through the stack where
                // numbers are lanes.
                match instruction.op {
                    $(Op::$unary => {
                        let (x, y) = (at(0), at(0).$unary());
                        results[0] = y;
                        if Op::$unary.keeps_slope()
                            && let Some(slopes) = &mut slopes
                        {
                            slopes[instruction.operands[1] as usize] = partial::$unary(x, y);
                        }
                    })*
                    $(Op::$binary => results[0] = at(0).$binary(at(1)),)*
                    $(Op::$operator => results[0] = at(0) $symbol at(1),)*
                    $(Op::$reduction => {
                        let xs = many();
                        results[0] = reduce::value::$reduction(xs.len(), |i| values[xs[i] as usize]);
                    })*
                    Op::neg => results[0] = -at(0),
                    Op::stop_gradient => results[0] = at(0).stop_gradient(),
                    Op::powi => results[0] = at(0).powi(instruction.operands[1] as i32),
                    Op::powf => results[0] = at(0).powf(exponent(code, instruction.operands[1])),
                    Op::at_least => results[0] = at(0).at_least(at(1)),
                    Op::select => results[0] = at(0).select(at(1), at(2)),
                    Op::dot => results[0] = dot(values, many()),
                    Op::dot_bias => {
                        let (pairs, bias) = split_bias(many());
                        results[0] = dot(values, pairs) + values[bias as usize];
                    }
                    Op::softmax => {
                        let xs = many();
                        reduce::weights(|i| values[xs[i] as usize], &mut results[..xs.len()]);
                        next += xs.len() - 1;
                    }
                }
            }
        }

        /// Passes the gradients of the outputs, which wait in their slots, back to the inputs.
        #[inline(always)]
        fn backward<T: Scalar>(
            code: &Code<T::Primal>,
            plan: &Plan,
            values: &[T],
            slopes: &[T],
            gradients: &mut [T],
            scratch: &mut [T],
        ) {
            for step in &plan.steps {
                let instruction = &step.instruction;
                let outer = take(gradients, step.gradient);
                // A softmax may have more results, whose gradients are not zero.
                if outer.is_zero() && instruction.op != Op::softmax {
                    continue;
                }
                let y = values[step.result as usize];
                let at = |i: usize| values[instruction.operands[i] as usize];
                let mut add = |i: usize, gradient: T| {
                    if step.slots[i] != NONE {
                        gradients[step.slots[i] as usize] += gradient;
                    }
                };
                let mut pass = |i: usize, partial: T| add(i, partial.chain(outer));
                match instruction.op {
                    $(Op::$unary => {
                        let partial = if Op::$unary.keeps_slope() {
                            slopes[instruction.operands[1] as usize]
                        } else {
                            partial::$unary(at(0), y)
                        };
                        pass(0, partial);
                    })*
                    $(Op::$binary => {
                        let (to_a, to_b) = partial::$binary(at(0), at(1), y);
                        pass(0, to_a);
                        pass(1, to_b);
                    })*
                    $(Op::$operator => {
                        let (to_a, to_b) = partial::$operator(at(0), at(1), y);
                        pass(0, to_a);
                        pass(1, to_b);
                    })*
                    Op::neg => pass(0, constant(-1.0)),
                    Op::powi => pass(0, partial::powi(at(0), y, instruction.operands[1] as i32)),
                    Op::powf => pass(0, partial::powf(at(0), exponent(code, instruction.operands[1]))),
                    Op::select => {
                        // Chosen, not multiplied: an infinite gradient does not reach the other one.
                        let zero = constant(0.0);
                        add(1, at(0).select(outer, zero));
                        add(2, at(0).select(zero, outer));
                    }
                    Op::stop_gradient | Op::at_least => {}
                    // All partials are 1.
                    Op::sum => {
                        for link in step.links(&plan.links).0 {
                            gradients[link.slot as usize] += outer;
                        }
                    }
                    Op::softmax => {
                        let weights = &values[step.result as usize..][..instruction.results()];
                        let (arguments, results) = step.links(&plan.links);
                        softmax_back(weights, outer, arguments, results, gradients, scratch);
                    }
                    many => {
                        let xs = &code.arguments[instruction.run()];
                        let partials = &mut scratch[..xs.len()];
                        let x = |i: usize| values[xs[i] as usize];
                        match many {
                            $(Op::$reduction => reduce::partials::$reduction(x, y, partials),)*
                            _ => {
                                let n = xs.len() / 2;
                                reduce::partials::dot(n, x, |i| x(n + i), partials);
                            }
                        }
                        for link in step.links(&plan.links).0 {
                            gradients[link.slot as usize] += partials[link.position as usize].chain(outer);
                        }
                    }
                }
            }
        }
    };
}

table! { loops }

/// [`forward`], to be compiled for the machine's vectors.
pub(super) struct Forward<'a, T: Scalar> {
    pub(super) code: &'a Code<T::Primal>,
    pub(super) values: &'a mut [T],
    /// Where to keep the slopes, if the pass will come back.
    pub(super) slopes: Option<&'a mut [T]>,
}

impl<T: Scalar> Work for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        forward(self.code, self.values, self.slopes);
    }
}

/// [`backward`], to be compiled for the machine's vectors.
pub(super) struct Backward<'a, T: Scalar> {
    pub(super) code: &'a Code<T::Primal>,
    pub(super) plan: &'a Plan,
    pub(super) values: &'a [T],
    pub(super) slopes: &'a [T],
    pub(super) gradients: &'a mut [T],
    pub(super) scratch: &'a mut [T],
}

impl<T: Scalar> Work for Backward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        backward(
            self.code,
            self.plan,
            self.values,
            self.slopes,
            self.gradients,
            self.scratch,
        );
    }
}

/// Passes the gradients of the results of a softmax back to its arguments; `outer` is that of the first in `results`.
#[inline(always)]
fn softmax_back<T: Scalar>(
    weights: &[T],
    outer: T,
    arguments: &[Link],
    results: &[Link],
    gradients: &mut [T],
    scratch: &mut [T],
) {
    let first = results[0].position as usize;
    let mut mean = weights[first].chain(outer);
    if let [_] = results {
        // As below, with zeros for the gradients of the other results.
        for link in arguments {
            let position = link.position as usize;
            let own = if position == first {
                outer
            } else {
                constant(0.0)
            };
            gradients[link.slot as usize] += reduce::softmax_gradient(weights[position], own, mean);
        }
        return;
    }
    let outers = &mut scratch[..weights.len()];
    outers.fill(constant(0.0));
    outers[first] = outer;
    for link in &results[1..] {
        let position = link.position as usize;
        outers[position] = take(gradients, link.slot);
        mean += weights[position].chain(outers[position]);
    }
    for link in arguments {
        let position = link.position as usize;
        gradients[link.slot as usize] +=
            reduce::softmax_gradient(weights[position], outers[position], mean);
    }
}

/// The exponent of `powf`.
#[inline(always)]
fn exponent<F: Float>(code: &Code<F>, place: u32) -> F {
    code.constants[place as usize - code.inputs]
}

/// Σ of the products of the first half with the second.
#[inline(always)]
fn dot<T: Scalar>(values: &[T], pairs: &[u32]) -> T {
    let (a, b) = pairs.split_at(pairs.len() / 2);
    reduce::value::dot(
        a.len(),
        |i| values[a[i] as usize],
        |i| values[b[i] as usize],
    )
}

/// The arguments of `dot_bias` but the last, and the last.
#[inline(always)]
fn split_bias(arguments: &[u32]) -> (&[u32], u32) {
    match arguments {
        [pairs @ .., bias] => (pairs, *bias),
        [] => (arguments, 0),
    }
}

/// The gradient that waits in a slot, which is zero from now on.
#[inline(always)]
fn take<T: Scalar>(gradients: &mut [T], slot: u32) -> T {
    std::mem::replace(&mut gradients[slot as usize], constant(0.0))
}
