//! The two loops that run a program: forward through its instructions, and back through a plan.
//!
//! What an instruction computes, and its partial derivatives, are the rows of the table.

use crate::float::Float;
use crate::ops::{constant, partial, reduce};
use crate::program::code::Code;
use crate::program::op::{
    Op, table, table_with_binary, table_with_operators, table_with_reductions, table_with_unary,
};
use crate::program::plan::{NONE, Plan};
use crate::scalar::Scalar;

macro_rules! loops {
    (
        unary { $($(#[$unary_doc:meta])* $unary:ident { $($unary_row:tt)* })* }
        binary { $($(#[$binary_doc:meta])* $binary:ident { $($binary_row:tt)* })* }
        operator { $($operator:ident { [$trait:ident $symbol:tt $($names:ident)*] $($operator_row:tt)* })* }
        reduction { $($(#[$reduction_doc:meta])* $reduction:ident { $($reduction_row:tt)* })* }
    ) => {
        /// Computes all results, from the inputs and constants that are in `values`.
        #[inline(always)]
        pub(super) fn forward<T: Scalar>(code: &Code<T::Primal>, values: &mut [T]) {
            let mut next = code.first_result();
            for instruction in &code.instructions {
                let at = |i: usize| values[instruction.operands[i] as usize];
                let many = || &code.arguments[instruction.run()];
                let y = match instruction.op {
                    $(Op::$unary => at(0).$unary(),)*
                    $(Op::$binary => at(0).$binary(at(1)),)*
                    $(Op::$operator => at(0) $symbol at(1),)*
                    $(Op::$reduction => {
                        let xs = many();
                        reduce::value::$reduction(xs.len(), |i| values[xs[i] as usize])
                    })*
                    Op::neg => -at(0),
                    Op::stop_gradient => at(0).stop_gradient(),
                    Op::powi => at(0).powi(instruction.operands[1] as i32),
                    Op::powf => at(0).powf(exponent(code, instruction.operands[1])),
                    Op::at_least => at(0).at_least(at(1)),
                    Op::select => at(0).select(at(1), at(2)),
                    Op::dot => dot(values, many()),
                    Op::dot_bias => {
                        let (pairs, bias) = split_bias(many());
                        dot(values, pairs) + values[bias as usize]
                    }
                    Op::softmax => {
                        let xs = many();
                        let (done, rest) = values.split_at_mut(next);
                        reduce::weights(|i| done[xs[i] as usize], &mut rest[..xs.len()]);
                        next += xs.len();
                        continue;
                    }
                };
                values[next] = y;
                next += 1;
            }
        }

        /// Passes the gradients of the outputs, which wait in their slots, back to the inputs.
        #[inline(always)]
        pub(super) fn backward<T: Scalar>(
            code: &Code<T::Primal>,
            plan: &Plan,
            values: &[T],
            gradients: &mut [T],
            scratch: &mut [T],
        ) {
            for step in &plan.steps {
                let instruction = &step.instruction;
                if instruction.op == Op::softmax {
                    let (arguments, results) = step.links(&plan.links);
                    let weights = &values[step.result as usize..][..instruction.results()];
                    let outer = &mut scratch[..weights.len()];
                    outer.fill(constant(0.0));
                    for link in results {
                        outer[link.position as usize] = take(gradients, link.slot);
                    }
                    reduce::softmax_pull_back(weights, outer);
                    for link in arguments {
                        gradients[link.slot as usize] += outer[link.position as usize];
                    }
                    continue;
                }
                let outer = take(gradients, step.gradient);
                if outer.is_zero() {
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
                    $(Op::$unary => pass(0, partial::$unary(at(0), y)),)*
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
