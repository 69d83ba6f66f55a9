//! What tape variables and graph nodes share: operators and [`Scalar`](crate::Scalar), made from the table of ops.
//!
//! A recorded type offers `value`, `detached`, `unary`, `binary`, `reduction` and `mismatch`; the macros here do the rest.

/// Implements the binary operators for a recorded type.
macro_rules! recorded_operators {
    ($type:ident $parameters:tt: $($name:ident { $operator:tt $($row:tt)* })*) => {$(
        $crate::record::recorded_operator! { $type $parameters $name $operator }
    )*};
}

/// Implements one binary operator for a recorded type, with itself and with a plain number on the right, and with a
/// plain number on the left.
macro_rules! recorded_operator {
    ($type:ident { [$($declared:tt)*] [$($named:tt)*] } $name:ident [$operator:ident $symbol:tt $assign:ident $assign_method:ident]) => {
        impl<'a, T: Scalar $($declared)*> std::ops::$operator for $type<'a, T $($named)*> {
            type Output = Self;

            #[inline(always)]
            #[track_caller]
            fn $name(self, other: Self) -> Self {
                let (a, b) = (self.value(), other.value());
                let y = a $symbol b;
                self.binary(other, stringify!($name), y, partial::$name(a, b, y))
            }
        }

        impl<'a, C: Float, T: Scalar<Primal = C> $($declared)*> std::ops::$operator<C> for $type<'a, T $($named)*> {
            type Output = Self;

            #[inline(always)]
            #[track_caller]
            fn $name(self, c: C) -> Self {
                let (a, b) = (self.value(), T::constant(c));
                let y = a $symbol c;
                self.binary(Self::detached(b), stringify!($name), y, partial::$name(a, b, y))
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
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {$(
        #[inline(always)]
        fn $name(self) -> Self {
            let x = self.value();
            let y = x.$name();
            self.unary(stringify!($name), y, partial::$name(x, y))
        }
    )*};
}

macro_rules! recorded_binary {
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {$(
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            let (a, b) = (self.value(), other.value());
            let y = a.$name(b);
            self.binary(other, stringify!($name), y, partial::$name(a, b, y))
        }
    )*};
}

macro_rules! recorded_reduction {
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {$(
        #[inline(always)]
        fn $name(xs: &[Self]) -> Self {
            let x = |i: usize| xs[i].value();
            let y = reduce::value::$name(xs.len(), x);
            Self::reduction(stringify!($name), [xs], y, |out| reduce::partials::$name(x, y, out))
        }
    )*};
}

/// Implements [`Scalar`](crate::Scalar) and its operators for a recorded type `Type<'a, T>`, or for one with more parameters, given as
/// they are declared and as they are named.
macro_rules! recorded_scalar {
    ($type:ident) => {
        recorded_scalar! { $type [] [] }
    };
    ($type:ident [$($declared:tt)*] [$($named:tt)*]) => {
        operator_rows! { recorded_operators $type { [$($declared)*] [$($named)*] }: }

        impl<'a, T: Scalar $($declared)*> std::ops::Neg for $type<'a, T $($named)*> {
            type Output = Self;

            #[inline(always)]
            #[track_caller]
            fn neg(self) -> Self {
                self.unary("neg", -self.value(), constant(-1.0))
            }
        }

        impl<'a, T: Scalar $($declared)*> Number for $type<'a, T $($named)*> {
            type Primal = T::Primal;
        }

        impl<'a, T: Scalar $($declared)*> Scalar for $type<'a, T $($named)*> {
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
                Self::detached(self.value().stop_gradient())
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
                Self::detached(self.value().at_least(other.value()))
            }
            #[inline(always)]
            fn select(self, on_positive: Self, otherwise: Self) -> Self {
                match self.all_positive() {
                    Some(true) => on_positive,
                    Some(false) => otherwise,
                    None => {
                        let (condition, one, zero) = (self.value(), constant(1.0), constant(0.0));
                        let y = condition.select(on_positive.value(), otherwise.value());
                        let partials = (condition.select(one, zero), condition.select(zero, one));
                        on_positive.binary(otherwise, "select", y, partials)
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

            unary_rows! { recorded_unary }

            #[inline(always)]
            fn powi(self, n: i32) -> Self {
                let x = self.value();
                let y = x.powi(n);
                self.unary("powi", y, partial::powi(x, y, n))
            }
            #[inline(always)]
            fn powf(self, c: T::Primal) -> Self {
                let x = self.value();
                self.unary("powf", x.powf(c), partial::powf(x, c))
            }

            binary_rows! { recorded_binary }

            reduction_rows! { recorded_reduction }

            fn softmax(xs: &[Self], out: &mut [Self]) {
                if xs.len() != out.len() {
                    return out.fill(Self::mismatch("softmax", [xs, out]));
                }
                // One node for ln Σ exp and one with two arguments per result, instead of n arguments each.
                let total = Self::logsumexp(xs);
                let exponentials = reduce::Exponentials::of(xs.len(), |i| xs[i].value());
                for (x, result) in xs.iter().zip(out) {
                    let y = exponentials.weight(x.value());
                    *result = x.binary(total, "softmax", y, (y, -y));
                }
            }
            fn dot(a: &[Self], b: &[Self]) -> Self {
                if a.len() != b.len() {
                    return Self::mismatch("dot", [a, b]);
                }
                let (a_at, b_at) = (|i: usize| a[i].value(), |i: usize| b[i].value());
                let y = reduce::value::dot(a.len(), a_at, b_at);
                Self::reduction("dot", [a, b], y, |out| {
                    reduce::partials::dot(a.len(), a_at, b_at, out)
                })
            }
            fn dot_bias(a: &[Self], b: &[Self], bias: Self) -> Self {
                if a.len() != b.len() {
                    return Self::mismatch("dot_bias", [a, b]);
                }
                let (a_at, b_at) = (|i: usize| a[i].value(), |i: usize| b[i].value());
                let y = reduce::value::dot(a.len(), a_at, b_at) + bias.value();
                Self::reduction("dot_bias", [a, b, &[bias]], y, |out| {
                    reduce::partials::dot(a.len(), a_at, b_at, out)
                })
            }
        }
    };
}

pub(crate) use {
    constant_on_the_left, recorded_binary, recorded_operator, recorded_operators,
    recorded_reduction, recorded_scalar, recorded_unary,
};
