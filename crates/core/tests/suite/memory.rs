//! What a tape keeps, drops and allocates.

use burtorch_core::{NodeId, Scalar, Tape, Var};

fn record(tape: &Tape<f64>, first: NodeId) -> Vec<f64> {
    let weights: Vec<_> = tape.handles(first, &[0.5, -1.5, 2.0]).collect();
    let inputs = tape.vars(&[1.0, 2.0, 3.0]);
    let y = (Var::dot_bias(&weights, &inputs, weights[1]).tanh() * weights[0]).retain();
    (y + Var::logsumexp(&inputs) * weights[2])
        .backward()
        .unwrap();
    let mut gradient = vec![0.0; 3];
    tape.add_grads(first, &mut gradient).unwrap();
    gradient
}

#[test]
fn a_rewound_tape_allocates_nothing_and_gives_the_same() {
    let mut tape = Tape::new();
    let first = tape.vars(&[0.5, -1.5, 2.0])[0].id().unwrap();
    let mark = tape.mark();
    let expected = record(&tape, first);
    let (bytes, nodes, arguments) = (tape.bytes(), tape.len(), tape.arguments());
    assert!(bytes > 0);
    for _ in 0..100 {
        tape.rewind(mark).unwrap();
        assert_eq!((tape.len(), tape.arguments()), (3, 0));
        tape.zero_grads();
        assert_eq!(record(&tape, first), expected);
        assert_eq!(
            (tape.bytes(), tape.len(), tape.arguments()),
            (bytes, nodes, arguments)
        );
    }
}

#[test]
fn gradients_before_the_mark_add_up_over_rewinds_and_those_after_it_go() {
    let mut tape = Tape::new();
    let x = tape.var(3.0).id().unwrap();
    let mark = tape.mark();
    for times in 1..5 {
        let (w, input) = (tape.handle(x, 3.0), tape.var(2.0));
        (w * input).backward().unwrap();
        assert_eq!(input.grad(), Ok(3.0));
        tape.rewind(mark).unwrap();
        assert_eq!(tape.grad(x), Ok(2.0 * f64::from(times)));
    }
}

#[test]
fn marks_nest() {
    let mut tape = Tape::<f64>::new();
    tape.var(1.0);
    let outer = tape.mark();
    tape.var(2.0);
    let inner = tape.mark();
    for _ in 0..3 {
        tape.var(3.0);
        tape.rewind(inner).unwrap();
        assert_eq!(tape.len(), 2);
    }
    tape.rewind(outer).unwrap();
    assert!(tape.rewind(inner).is_err());
    assert_eq!(tape.len(), 1);
    tape.clear();
    assert!(tape.is_empty() && tape.rewind(outer).is_err());
}

#[test]
fn ops_with_one_argument_and_constants_record_nothing() {
    let tape = Tape::new();
    let x = tape.var(0.5);
    let c = tape.constant(3.0);
    let y = ((x * c - 1.0).exp() / 2.0 + c)
        .tanh()
        .max(x.constant_like(0.0));
    assert_eq!((tape.len(), tape.arguments()), (1, 0));
    assert_eq!(y.retain().retain().grad(), Ok(0.0));
    assert_eq!((tape.len(), tape.arguments()), (2, 1));
}
