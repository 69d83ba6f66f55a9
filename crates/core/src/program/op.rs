//! The ops of a program: those of the table, and the few that [`Scalar`](crate::Scalar) writes out.

/// Calls the macro `$then` with all rows of the table, as `unary { … } binary { … } operator { … } reduction { … }`.
macro_rules! table {
    ($then:ident) => {
        $crate::ops::unary_rows! { table_with_unary $then }
    };
}

macro_rules! table_with_unary {
    ($then:ident $($unary:tt)*) => {
        $crate::ops::binary_rows! { table_with_binary $then unary { $($unary)* } }
    };
}

macro_rules! table_with_binary {
    ($then:ident unary { $($unary:tt)* } $($binary:tt)*) => {
        $crate::ops::operator_rows! { table_with_operators $then unary { $($unary)* } binary { $($binary)* } }
    };
}

macro_rules! table_with_operators {
    ($then:ident unary { $($unary:tt)* } binary { $($binary:tt)* } $($operator:tt)*) => {
        $crate::ops::reduction_rows! {
            table_with_reductions $then unary { $($unary)* } binary { $($binary)* } operator { $($operator)* }
        }
    };
}

macro_rules! table_with_reductions {
    ($then:ident unary { $($unary:tt)* } binary { $($binary:tt)* } operator { $($operator:tt)* } $($reduction:tt)*) => {
        $then! {
            unary { $($unary)* } binary { $($binary)* } operator { $($operator)* } reduction { $($reduction)* }
        }
    };
}

pub(super) use {
    table, table_with_binary, table_with_operators, table_with_reductions, table_with_unary,
};

/// How many arguments an op has, and where an instruction keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// In the instruction.
    Fixed(usize),
    /// In the list of arguments.
    Many,
}

macro_rules! ops {
    (
        unary { $($(#[$unary_doc:meta])* $unary:ident { $($unary_row:tt)* })* }
        binary { $($(#[$binary_doc:meta])* $binary:ident { $($binary_row:tt)* })* }
        operator { $($operator:ident { $($operator_row:tt)* })* }
        reduction { $($(#[$reduction_doc:meta])* $reduction:ident { $($reduction_row:tt)* })* }
    ) => {
        /// What an instruction does. The names are those of the rows and of the methods of [`Scalar`](crate::Scalar).
        #[allow(non_camel_case_types, reason = "named by the rows of the table")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(super) enum Op {
            $($unary,)* $($binary,)* $($operator,)* $($reduction,)*
            neg, stop_gradient, powi, powf, at_least, select, dot, dot_bias, softmax,
        }

        impl Op {
            /// All of them, in the order of their numbers.
            pub(super) const ALL: &[Self] = &[
                $(Self::$unary,)* $(Self::$binary,)* $(Self::$operator,)* $(Self::$reduction,)*
                Self::neg, Self::stop_gradient, Self::powi, Self::powf, Self::at_least, Self::select, Self::dot,
                Self::dot_bias, Self::softmax,
            ];

            pub(super) const fn name(self) -> &'static str {
                match self {
                    $(Self::$unary => stringify!($unary),)*
                    $(Self::$binary => stringify!($binary),)*
                    $(Self::$operator => stringify!($operator),)*
                    $(Self::$reduction => stringify!($reduction),)*
                    Self::neg => "neg",
                    Self::stop_gradient => "stop_gradient",
                    Self::powi => "powi",
                    Self::powf => "powf",
                    Self::at_least => "at_least",
                    Self::select => "select",
                    Self::dot => "dot",
            Self::dot_bias => "dot_bias",
                    Self::softmax => "softmax",
                }
            }

            pub(super) const fn shape(self) -> Shape {
                match self {
                    $(Self::$unary)|* | Self::neg | Self::stop_gradient | Self::powi => Shape::Fixed(1),
                    $(Self::$binary)|* | $(Self::$operator)|* | Self::powf | Self::at_least => Shape::Fixed(2),
                    Self::select => Shape::Fixed(3),
                    $(Self::$reduction)|* | Self::dot | Self::dot_bias | Self::softmax => Shape::Many,
                }
            }
        }
    };
}

table! { ops }

impl Op {
    /// Whether the result has a derivative with respect to the argument at `position`.
    pub(super) const fn has_partial(self, position: usize) -> bool {
        match self {
            Self::stop_gradient | Self::at_least => false,
            Self::select => position != 0,
            Self::powf => position == 0,
            _ => true,
        }
    }

    /// Whether a pass that will come back keeps the derivative it meets on the way forward: it shares an exponential with the value,
    /// or costs as much.
    pub(super) const fn keeps_slope(self) -> bool {
        matches!(
            self,
            Self::tanh
                | Self::sigmoid
                | Self::softplus
                | Self::log_sigmoid
                | Self::gelu
                | Self::gelu_tanh
                | Self::exp_m1
                | Self::erf
                | Self::erfc
        )
    }

    /// Whether so many arguments are possible.
    pub(super) fn accepts(self, arguments: usize) -> bool {
        match self {
            Self::dot => arguments.is_multiple_of(2),
            Self::dot_bias => !arguments.is_multiple_of(2),
            Self::softmax => arguments > 0,
            _ => match self.shape() {
                Shape::Fixed(count) => count == arguments,
                Shape::Many => true,
            },
        }
    }
}

/// One op on values of the program, which are known by their places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Instruction {
    pub(super) op: Op,
    /// The arguments; of `powi` the argument and the exponent; of an op that keeps its slope the argument and the slope's place; of an op on many the start of its run in the list of arguments
    /// and the run's length.
    pub(super) operands: [u32; 3],
}

impl Instruction {
    /// The places of the arguments, some of which lie in `list`.
    pub(super) fn arguments<'a>(&'a self, list: &'a [u32]) -> &'a [u32] {
        match self.op.shape() {
            Shape::Fixed(count) => &self.operands[..count],
            Shape::Many => &list[self.run()],
        }
    }

    /// Where the arguments of an op on many lie in the list.
    #[inline(always)]
    pub(super) fn run(&self) -> std::ops::Range<usize> {
        let [start, count, _] = self.operands;
        start as usize..start as usize + count as usize
    }

    /// The number of results.
    pub(super) fn results(&self) -> usize {
        match self.op {
            Op::softmax => self.operands[1] as usize,
            _ => 1,
        }
    }
}
