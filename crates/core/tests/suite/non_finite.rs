//! Infinities and NaN are traced to the op, the label and the line they come from.

use std::panic::Location;

use burtorch_core::graph::{Graph, Node, NonFinite, Quantity, find_non_finite};
use burtorch_core::{Dual, Error, Scalar};

#[track_caller]
fn line() -> u32 {
    Location::caller().line()
}

/// What was found, as one line.
fn place<T>(found: &NonFinite<T>) -> (&'static str, &'static str, u32) {
    assert_eq!(found.node.location.file(), file!());
    let quantity = match found.quantity {
        Quantity::Value => "value",
        Quantity::Gradient => "gradient",
    };
    (quantity, found.node.op, found.node.location.line())
}

/// Formulas over any scalar name their own lines, not those of their callers.
fn entropy<S: Scalar>(p: &[S]) -> (S, u32) {
    let terms = [p[0] * p[0].ln(), p[1] * p[1].ln()];
    (-S::sum(&terms), line() - 1)
}

#[test]
fn the_first_value_in_recording_order() {
    let graph = Graph::new();
    let p = graph.vars(&[1.0, 0.0]);
    let (y, below) = entropy(&p);
    assert!(f64::is_nan((y * 2.0).value()));
    let found = graph.first_non_finite_value().unwrap();
    assert_eq!(place(&found), ("value", "ln", below));
    assert_eq!(
        (found.node.number, found.number, found.through),
        (5, f64::NEG_INFINITY, None)
    );
}

/// Each formula is 0, so a root of it hands an infinite gradient to the last node of the formula.
#[test]
fn every_kind_of_call_is_placed() {
    type Formula = for<'g> fn(&[Node<'g, f64>]) -> Node<'g, f64>;
    let first = line() + 3;
    #[rustfmt::skip]
    let formulas: [(&str, Formula); 14] = [
        ("add", |x| x[0] + x[1]),
        ("sub", |x| 1.0 - x[0]),
        ("mul", |x| x[2] * 2.0),
        ("div", |x| { let mut y = x[2]; y /= x[3]; y }),
        ("mul", |x| { let mut y = x[2]; y *= 2.0; y }),
        ("neg", |x| -x[2]),
        ("exp_m1", |x| x[2].exp_m1()),
        ("pow", |x| x[2].pow(x[3])),
        ("powi", |x| x[2].powi(2)),
        ("powf", |x| x[2].powf(2.0)),
        ("product", |x| Scalar::product(x)),
        ("dot", |x| Scalar::dot(&x[..2], &[x[0], x[0]])),
        ("dot_bias", |x| Scalar::dot_bias(&x[..1], &x[..1], x[1])),
        ("softmax", |x| { let mut out = [x[0]; 2]; Scalar::softmax(&[x[3], x[4]], &mut out); out[1] }),
    ];
    for ((op, formula), line) in formulas.into_iter().zip(first..) {
        let found = find_non_finite(|x| formula(x).sqrt(), &[1.0, -1.0, 0.0, 2.0, -2e3]);
        assert_eq!(place(&found.unwrap().unwrap()), ("gradient", op, line));
    }
}

#[test]
fn variables_and_constants_are_placed_too() {
    let found = find_non_finite(|x| x[0], &[f64::NAN]).unwrap().unwrap();
    assert_eq!(place(&found), ("value", "variable", line() - 1));
    let graph = Graph::new();
    let x = graph.var(1.0);
    let _ = x * f64::INFINITY;
    let found = graph.first_non_finite_value().unwrap();
    assert_eq!(place(&found), ("value", "constant", line() - 2));
    let graph = Graph::new();
    let _ = graph.constant(f64::NAN).label("c");
    let here = line() - 1;
    let found = graph.first_non_finite_value().unwrap();
    assert_eq!(place(&found), ("value", "constant", here));
    assert_eq!(found.node.label, "c");
}

#[test]
fn the_first_gradient_in_sweep_order() {
    let graph = Graph::new();
    let x = graph.vars(&[0.0, 1.0]);
    let length = x[0].square().label("length²").sqrt().label("length");
    ((length + x[1]) * 2.0).backward().unwrap();
    let found = graph.first_non_finite_gradient().unwrap();
    let placed = line() - 3;
    assert_eq!(place(&found), ("gradient", "square", placed));
    assert_eq!(
        (found.number, found.node.label.as_str()),
        (f64::INFINITY, "length²")
    );
    let through = found.through.clone().unwrap();
    assert_eq!(
        (through.op, through.label.as_str(), through.location.line()),
        ("sqrt", "length", placed)
    );
    let column = found.node.location.column();
    let text = format!(
        "the gradient of node 3 (`square`, labelled `length²`, recorded at {0}:{placed}:{column}) is inf; \
         it came through node 4 (`sqrt`, labelled `length`, recorded at {0}:{placed}:{1})",
        file!(),
        through.location.column()
    );
    assert_eq!(found.to_string(), text);
}

#[test]
fn gradients_that_overflow_in_the_sum_have_no_source() {
    let large = 1.5e308;
    let found = find_non_finite(|x| x[0] * large + x[0] * large, &[0.5])
        .unwrap()
        .unwrap();
    assert_eq!(
        (found.quantity, found.node.op, found.through),
        (Quantity::Gradient, "variable", None)
    );
}

#[test]
fn finite_functions_and_dead_branches_pass() {
    assert_eq!(
        find_non_finite(|x| x[0].exp() / x[1], &[1.0, 2.0]),
        Ok(None)
    );
    assert_eq!(
        find_non_finite(|x| (x[0].sqrt() * 0.0).relu(), &[0.0]),
        Ok(None)
    );
    assert_eq!(Graph::<f64>::new().first_non_finite_value(), None);
    assert_eq!(Graph::<f64>::new().first_non_finite_gradient(), None);
    let mixed = find_non_finite(|x| Scalar::dot(x, &x[..1]), &[1.0, 2.0]);
    assert_eq!(
        mixed,
        Err(Error::LengthMismatch {
            op: "dot",
            expected: 2,
            found: 1
        })
    );
}

/// Every part of a number counts: here the value is finite and its tangent is not.
#[test]
fn tangents_count() {
    let x = [Dual::variable(0.0)];
    let found = find_non_finite(|x| x[0].sqrt(), &x);
    let here = line() - 1;
    let found = found.unwrap().unwrap();
    assert_eq!(place(&found), ("value", "sqrt", here));
    assert_eq!(found.number, Dual::new(0.0, f64::INFINITY));
}
