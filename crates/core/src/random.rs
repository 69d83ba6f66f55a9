//! Tests at random arguments.

use proptest::strategy::Strategy;
use proptest::test_runner::{TestCaseError, TestRunner};

/// Tests a property as `proptest!` does, for tests of which there is one for each row of the table of ops: the runner is large, and is
/// compiled once for all properties of the same arguments.
#[track_caller]
pub(crate) fn at_random<S: Strategy>(
    arguments: S,
    property: &dyn Fn(S::Value) -> Result<(), TestCaseError>,
) {
    if let Err(failure) = TestRunner::default().run(&arguments, property) {
        panic!("{failure}");
    }
}

#[test]
#[should_panic(expected = "minimal failing input")]
fn what_does_not_hold_is_noticed() {
    at_random(0.0..1.0, &|x| {
        assert!(x < 0.5, "too large");
        Ok(())
    });
}
