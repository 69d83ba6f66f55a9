//! Graphs compute what tapes compute, and show it.

use burtorch_core::graph::Graph;
use burtorch_core::{Error, Scalar, value_and_grad};

/// One use of each kind of op.
fn formula<S: Scalar>(x: &[S]) -> S {
    let mut weights = [x[0]; 3];
    S::softmax(x, &mut weights);
    let hidden = S::dot_bias(x, &weights, x[1]).tanh() - S::variance(x) / x[2];
    (hidden.max(x[0]) * x[1].pow(x[2])).softplus() + S::norm(x).powi(3)
}

#[test]
fn a_graph_agrees_with_a_tape() {
    let inputs = [0.5, 1.25, 2.0];
    let (value, gradient) = value_and_grad(|x| formula(x), &inputs).unwrap();
    let graph = Graph::new();
    let nodes = graph.vars(&inputs);
    let y = formula(&nodes);
    y.backward().unwrap();
    assert_eq!(y.value(), value);
    for (node, expected) in nodes.iter().zip(gradient) {
        assert!((node.grad().unwrap() - expected).abs() < 1e-13);
    }
}

#[test]
fn every_intermediate_has_a_gradient() {
    let graph = Graph::new();
    let x = graph.var(3.0);
    let square = x.square();
    let y = square * 2.0;
    y.backward().unwrap();
    y.backward().unwrap();
    assert_eq!(
        (y.grad(), square.grad(), x.grad()),
        (Ok(2.0), Ok(4.0), Ok(24.0))
    );
    graph.zero_grads();
    assert_eq!(x.grad(), Ok(0.0));
    assert_eq!(graph.len(), 4); // x, its square, the constant, and their product
}

#[test]
fn a_drawing_shows_labels_ops_values_gradients_and_edges() {
    let graph = Graph::new();
    let x = graph.var(-2.0).label("x \"quoted\" \\");
    (x * 3.0).abs().backward().unwrap();
    let expected = r#"digraph {
  rankdir=LR;
  node [shape=box];
  n1 [label="x \"quoted\" \\\nvariable\nvalue -2.0000\ngradient -3.0000"];
  n2 [label="constant\nvalue 3.0000\ngradient 2.0000"];
  n3 [label="mul\nvalue -6.0000\ngradient -1.0000"];
  n1 -> n3;
  n2 -> n3;
  n4 [label="abs\nvalue 6.0000\ngradient 1.0000"];
  n3 -> n4;
}
"#;
    assert_eq!(graph.draw().unwrap(), expected);
}

#[test]
fn lists_of_different_lengths_are_an_error() {
    let graph = Graph::new();
    let xs = graph.vars(&[1.0, 2.0_f64]);
    assert!(Scalar::dot(&xs, &xs[..1]).value().is_nan());
    assert_eq!(
        xs[0].grad(),
        Err(Error::LengthMismatch {
            op: "dot",
            expected: 2,
            found: 1
        })
    );
}
