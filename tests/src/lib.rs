//! What the tests across the crates share: reading golden files, tiny models in the presets' styles, running one op or one
//! model on a given engine, and comparisons that say where two results part.
//!
//! The tests themselves are the files beside `src` and those in `suite`. Each helper here that can reject something has a test in which it does.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod allocator;
mod compare;
mod fuzz;
mod golden;
mod model;
mod single;

pub use allocator::Counting;
pub use compare::{close, close_by_tensor, tolerance};
pub use fuzz::Mutator;
pub use golden::Golden;
pub use model::{Batch, Model, accumulate, base_style, mini_style, noise, small_style, styles};
pub use single::{Differentiated, Input, differentiate};

/// What a test returns: any error fails it, with its message.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Makes tests from functions `fn name<T: Element, W: Workspace<T>>() -> Outcome`: one for each number type listed and each
/// of the two engines.
///
/// ```
/// use burtorch_tensor::{Element, Workspace};
/// use burtorch_tests::{Outcome, on_both_engines};
///
/// fn a_fresh_workspace_exists<T: Element, W: Workspace<T>>() -> Outcome {
///     W::default();
///     Ok(())
/// }
/// on_both_engines! { f32, f64: a_fresh_workspace_exists }
/// ```
#[macro_export]
macro_rules! on_both_engines {
    ($($type:ident),+: $name:ident $($rest:tt)*) => {
        mod $name {
            $(mod $type {
                #[test]
                fn tensor() -> $crate::Outcome {
                    super::super::$name::<$type, burtorch_tensor::TensorEngine<$type>>()
                }
                #[test]
                fn scalar() -> $crate::Outcome {
                    super::super::$name::<$type, burtorch_tensor::ScalarEngine<$type>>()
                }
            })+
        }
        $crate::on_both_engines! { $($rest)* }
    };
    (; $($rest:tt)*) => { $crate::on_both_engines! { $($rest)* } };
    () => {};
}

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../docs/tour.md")]
struct Tour;
