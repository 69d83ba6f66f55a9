//! What tape variables and graph nodes share: operators and [`Scalar`](crate::Scalar), made from the table of ops.
//!
//! A recorded type offers `value`, `detached`, `is_detached`, `constant_beside`, `stopped`, `unary`, `binary`, `reduction`, `mismatch` and `compiled`; the
//! macros here do the rest.

pub(crate) mod reductions;

pub(crate) use reductions::Reduction;

/// Does the body of a method as a piece of [`Work`](crate::lanes::Work), so that it is compiled for the machine's vectors where the recorded
/// type wants that. A struct of its own, whose `run` is always inlined, since a closure so long would become a function of its own.
macro_rules! as_work {
    ($parameters:tt $inputs:tt $body:block) => {
        as_work! { $parameters $inputs -> own $body }
    };
    ({ $type:ident [$($declared:tt)*] $named:tt } ($($input:ident: $kind:ident),*) -> $output:ident $body:block) => {{
        struct Operation<I>(I);

        impl<'a, T: Scalar $($declared)*> $crate::lanes::Work for Operation<($($crate::record::kind! { $type $named $kind },)*)> {
            type Output = $crate::record::kind! { $type $named $output };

            #[inline(always)]
            #[track_caller]
            fn run(self) -> Self::Output {
                let ($($input,)*) = self.0;
                $body
            }
        }

        Self::compiled(Operation(($($input,)*)))
    }};
}

/// The types of inputs and outputs of a piece of work.
macro_rules! kind {
    ($type:ident [$($named:tt)*] own) => { $type<'a, T $($named)*> };
    ($type:ident [$($named:tt)*] list) => { &[$type<'a, T $($named)*>] };
    ($type:ident [$($named:tt)*] results) => { &mut [$type<'a, T $($named)*>] };
    ($type:ident $named:tt number) => { T::Primal };
    ($type:ident $named:tt integer) => { i32 };
    ($type:ident $named:tt index) => { usize };
    ($type:ident $named:tt nothing) => { () };
}

/// Implements the binary operators for a recorded type.
macro_rules! recorded_operators {
    ($parameters:tt: $($name:ident { $operator:tt $($row:tt)* })*) => {$(
        $crate::record::recorded_operator! { $parameters $name $operator }
    )*};
}

/// Implements one binary operator for a recorded type, with itself and with a plain number on the right, and with a
/// plain number on the left.
macro_rules! recorded_operator {
    ({ $type:ident [$($declared:tt)*] [$($named:tt)*] } $name:ident [$operator:ident $symbol:tt $assign:ident $assign_method:ident]) => {
        impl<'a, T: Scalar $($declared)*> std::ops::$operator for $type<'a, T $($named)*> {
            type Output = Self;

            #[inline(always)]
            #[track_caller]
            fn $name(self, other: Self) -> Self {
                let left = self;
                as_work! { { $type [$($declared)*] [$($named)*] } (left: own, other: own) {
                    let (a, b) = (left.value(), other.value());
                    let y = a $symbol b;
                    left.binary(other, stringify!($name), y, partial::$name(a, b, y))
                } }
            }
        }

        impl<'a, C: Float, T: Scalar<Primal = C> $($declared)*> std::ops::$operator<C> for $type<'a, T $($named)*> {
            type Output = Self;

            #[inline(always)]
            #[track_caller]
            fn $name(self, c: C) -> Self {
                let left = self;
                as_work! { { $type [$($declared)*] [$($named)*] } (left: own, c: number) {
                    let (a, b) = (left.value(), T::constant(c));
                    let y = a $symbol c;
                    left.binary($type::detached(b), stringify!($name), y, partial::$name(a, b, y))
                } }
            }
        }

        impl<'a, T: Scalar $($declared)*, R> std::ops::$assign<R> for $type<'a, T $($named)*>
        where
            Self: std::ops::$operator<R, Output = Self>,
        {
            #[inline(always)]
            #[track_caller]
            fn $assign_method(&mut self, other: R) {
                *self = *self $symbol other;
            }
        }

        $crate::record::constant_on_the_left! { $type { [$($declared)*] [$($named)*] } f32 $operator $name $symbol }
        $crate::record::constant_on_the_left! { $type { [$($declared)*] [$($named)*] } f64 $operator $name $symbol }
    };
}

macro_rules! constant_on_the_left {
    ($type:ident { [$($declared:tt)*] [$($named:tt)*] } $float:ident $operator:ident $name:ident $symbol:tt) => {
        impl<'a, T: Scalar<Primal = $float> $($declared)*> std::ops::$operator<$type<'a, T $($named)*>> for $float {
            type Output = $type<'a, T $($named)*>;

            #[inline(always)]
            #[track_caller]
            fn $name(self, x: $type<'a, T $($named)*>) -> $type<'a, T $($named)*> {
                $type::detached(T::constant(self)) $symbol x
            }
        }
    };
}

macro_rules! recorded_unary {
    ($parameters:tt: $($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {$(
        #[inline(always)]
        fn $name(self) -> Self {
            let input = self;
            as_work! { $parameters (input: own) {
                let x = input.value();
                let y = x.$name();
                input.unary(stringify!($name), y, partial::$name(x, y))
            } }
        }
    )*};
}

macro_rules! recorded_binary {
    ($parameters:tt: $($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {$(
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            let left = self;
            as_work! { $parameters (left: own, other: own) {
                let (a, b) = (left.value(), other.value());
                let y = a.$name(b);
                left.binary(other, stringify!($name), y, partial::$name(a, b, y))
            } }
        }
    )*};
}

macro_rules! recorded_reduction {
    ($parameters:tt: $($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {$(
        #[inline(always)]
        fn $name(xs: &[Self]) -> Self {
            as_work! { $parameters (xs: list) {
                let op = $crate::record::reductions::$name(xs.len(), |i: usize| xs[i].value());
                Self::Output::reduction(stringify!($name), [xs], op)
            } }
        }
    )*};
}

/// Implements [`Scalar`](crate::Scalar) and its operators for a recorded type `Type<'a, T>`, or for one with more parameters, given as
/// they are declared and as they are named; behind them, methods that the type has a way of its own for.
macro_rules! recorded_scalar {
    ($type:ident) => {
        recorded_scalar! { $type [] [] {} }
    };
    ($type:ident [$($declared:tt)*] [$($named:tt)*] { $($own:item)* }) => {
        operator_rows! { recorded_operators { $type [$($declared)*] [$($named)*] }: }

        impl<'a, T: Scalar $($declared)*> std::ops::Neg for $type<'a, T $($named)*> {
            type Output = Self;

            #[inline(always)]
            #[track_caller]
            fn neg(self) -> Self {
                let input = self;
                as_work! { { $type [$($declared)*] [$($named)*] } (input: own) {
                    input.unary("neg", -input.value(), constant(-1.0))
                } }
            }
        }

        impl<'a, T: Scalar $($declared)*> $type<'a, T $($named)*> {
            /// This where the condition is positive, the other elsewhere.
            #[inline(always)]
            #[track_caller]
            fn chosen(self, condition: T, other: Self) -> Self {
                match condition.all_positive() {
                    Some(true) => self,
                    Some(false) => other,
                    None => {
                        let (one, zero) = (constant(1.0), constant(0.0));
                        let y = condition.select(self.value(), other.value());
                        let partials = (condition.select(one, zero), condition.select(zero, one));
                        self.binary(other, "select", y, partials)
                    }
                }
            }
        }

        impl<'a, T: Scalar $($declared)*> Number for $type<'a, T $($named)*> {
            type Primal = T::Primal;
        }

        impl<'a, T: Scalar $($declared)*> Scalar for $type<'a, T $($named)*> {
            type Held = $crate::var::Whole<Self>;

            #[inline(always)]
            fn primal(self) -> T::Primal {
                self.value().primal()
            }
            #[inline(always)]
            fn constant(c: T::Primal) -> Self {
                Self::detached(T::constant(c))
            }
            #[inline(always)]
            fn stop_gradient(self) -> Self {
                self.stopped()
            }
            #[inline(always)]
            fn is_zero(self) -> bool {
                self.value().is_zero() && self.is_constant()
            }
            #[inline(always)]
            fn all_positive(self) -> Option<bool> {
                self.value().all_positive()
            }
            #[inline(always)]
            fn all_finite(self) -> bool {
                self.value().all_finite()
            }
            #[inline(always)]
            fn at_least(self, other: Self) -> Self {
                let left = self;
                as_work! { { $type [$($declared)*] [$($named)*] } (left: own, other: own) {
                    left.constant_beside(other, left.value().at_least(other.value()))
                } }
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                let left = self;
                as_work! { { $type [$($declared)*] [$($named)*] } (left: own, other: own) {
                    let chosen = left.value().at_least(other.value());
                    left.chosen(chosen, other)
                } }
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                let left = self;
                as_work! { { $type [$($declared)*] [$($named)*] } (left: own, other: own) {
                    let chosen = (-left.value()).at_least(-other.value());
                    left.chosen(chosen, other)
                } }
            }
            #[inline(always)]
            fn select(self, on_positive: Self, otherwise: Self) -> Self {
                match self.all_positive() {
                    Some(true) => on_positive,
                    Some(false) => otherwise,
                    None => {
                        let condition = self;
                        as_work! { { $type [$($declared)*] [$($named)*] } (condition: own, on_positive: own, otherwise: own) {
                            // Two constants that have met no tape meet that of the condition: the result is not the same in all lanes.
                            let on_positive = if on_positive.is_detached() {
                                condition.constant_beside(condition, on_positive.value())
                            } else {
                                on_positive
                            };
                            on_positive.chosen(condition.value(), otherwise)
                        } }
                    }
                }
            }

            #[inline(always)]
            fn exp_each<const COUNT: usize>(mut xs: [Self; COUNT]) -> [Self; COUNT] {
                let values: [T; COUNT] = T::exp_each(std::array::from_fn(|i| xs[i].value()));
                for (x, y) in xs.iter_mut().zip(values) {
                    *x = x.unary("exp", y, partial::exp(x.value(), y));
                }
                xs
            }

            unary_rows! { recorded_unary { $type [$($declared)*] [$($named)*] }: }

            #[inline(always)]
            fn powi(self, n: i32) -> Self {
                let input = self;
                as_work! { { $type [$($declared)*] [$($named)*] } (input: own, n: integer) {
                    let x = input.value();
                    let y = x.powi(n);
                    input.unary("powi", y, partial::powi(x, y, n))
                } }
            }
            #[inline(always)]
            fn powf(self, c: T::Primal) -> Self {
                let input = self;
                as_work! { { $type [$($declared)*] [$($named)*] } (input: own, c: number) {
                    let x = input.value();
                    input.unary("powf", x.powf(c), partial::powf(x, c))
                } }
            }

            binary_rows! { recorded_binary { $type [$($declared)*] [$($named)*] }: }

            reduction_rows! { recorded_reduction { $type [$($declared)*] [$($named)*] }: }

            fn softmax(xs: &[Self], out: &mut [Self]) {
                if xs.len() != out.len() {
                    return out.fill(Self::mismatch("softmax", [xs.len(), out.len()], [xs, out]));
                }
                // One node for ln Σ exp and one with two arguments per result, instead of n arguments each.
                as_work! { { $type [$($declared)*] [$($named)*] } (xs: list, out: results) -> nothing {
                    let Some(&first) = xs.first() else { return };
                    let on_tape = xs.iter().find(|x| !x.is_detached()).copied().unwrap_or(first);
                    let op = $crate::record::reductions::Softmax(xs.len(), |i: usize| xs[i].value(), |i: usize, y: T| {
                        out[i] = on_tape.constant_beside(on_tape, y);
                    });
                    let total = <$type<'a, T $($named)*>>::reduction("softmax", [xs], op);
                    for (x, result) in xs.iter().zip(out) {
                        let y = result.value();
                        *result = x.binary(total, "softmax", y, (y, -y));
                    }
                } }
            }
            #[inline(always)]
            fn softmax_at(xs: &[Self], index: usize) -> Self {
                if index >= xs.len() {
                    return Self::mismatch("softmax_at", [index.saturating_add(1), xs.len()], [xs, &[]]);
                }
                as_work! { { $type [$($declared)*] [$($named)*] } (xs: list, index: index) {
                    let op = $crate::record::reductions::SoftmaxAt(xs.len(), |i: usize| xs[i].value(), index);
                    Self::Output::reduction("softmax_at", [xs], op)
                } }
            }
            fn dot(a: &[Self], b: &[Self]) -> Self {
                if a.len() != b.len() {
                    return Self::mismatch("dot", [a.len(), b.len()], [a, b]);
                }
                as_work! { { $type [$($declared)*] [$($named)*] } (a: list, b: list) {
                    let op = $crate::record::reductions::Dot(a.len(), |i: usize| a[i].value(), |i: usize| b[i].value());
                    $type::reduction("dot", [a, b], op)
                } }
            }
            fn dot_bias(a: &[Self], b: &[Self], bias: Self) -> Self {
                if a.len() != b.len() {
                    return Self::mismatch("dot_bias", [a.len(), b.len()], [a, b]);
                }
                as_work! { { $type [$($declared)*] [$($named)*] } (
                    a: list,
                    b: list,
                    bias: own
                ) {
                    let dot = $crate::record::reductions::Dot(a.len(), |i: usize| a[i].value(), |i: usize| b[i].value());
                    let op = $crate::record::reductions::Biased(dot, bias.value());
                    $type::reduction("dot_bias", [a, b, &[bias]], op)
                } }
            }

            $($own)*
        }
    };
}

pub(crate) use {
    as_work, constant_on_the_left, kind, recorded_binary, recorded_operator, recorded_operators,
    recorded_reduction, recorded_scalar, recorded_unary,
};
