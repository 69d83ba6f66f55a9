//! Runs give the gradients that slices of handles give, for less.

use burtorch_core::{Dual, Error, Run, Scalar, Tape, Var};

const WEIGHTS: [f64; 6] = [0.5, -1.0, 2.0, 0.25, 1.5, -0.75];
const INPUTS: [f64; 3] = [0.3, -0.6, 0.9];

/// Two layers, the second of which mixes runs and single variables.
fn by_runs<'t, T: Scalar>(weights: Run<'t, T>, inputs: Run<'t, T>, bias: Var<'t, T>) -> Var<'t, T> {
    let biases = weights.split_at(1).1.step_by(4); // weights 1 and 5
    let hidden = weights.affine(inputs, biases).tanh();
    let rest = hidden.sum() * bias + weights.dots(hidden).mean() + hidden.dot(biases);
    let (first, second) = (hidden.iter().next().unwrap(), hidden.get(1).unwrap());
    rest + weights.split_at(3).0.dot(weights.split_at(3).1) * (first * second)
}

fn by_slices<S: Scalar>(weights: &[S], inputs: &[S], bias: S) -> S {
    let biases = [weights[1], weights[5]];
    let rows = weights.chunks(3).zip(biases);
    let hidden: Vec<_> = rows
        .map(|(row, bias)| S::dot_bias(row, inputs, bias).tanh())
        .collect();
    let dots: Vec<_> = weights.chunks(2).map(|row| S::dot(row, &hidden)).collect();
    let rest = S::sum(&hidden) * bias + S::mean(&dots) + S::dot(&hidden, &biases);
    rest + S::dot(&weights[..3], &weights[3..]) * (hidden[0] * hidden[1])
}

#[test]
fn runs_and_slices_agree() {
    let (runs, slices) = (Tape::new(), Tape::new());
    let (w, x, b) = (runs.run(&WEIGHTS), runs.run(&INPUTS), runs.var(0.1));
    let y = by_runs(w, x, b);
    let (vw, vx, vb) = (slices.vars(&WEIGHTS), slices.vars(&INPUTS), slices.var(0.1));
    let z = by_slices(&vw, &vx, vb);
    assert!((y.value() - z.value()).abs() < 1e-15);
    for times in 1..4 {
        y.backward().unwrap();
        z.backward().unwrap();
        let gradients = (runs.grads().unwrap(), slices.grads().unwrap());
        for (found, expected) in gradients.0[..10].iter().zip(gradients.1) {
            assert!((found - expected).abs() < 1e-14 * f64::from(times));
        }
    }
    assert!(runs.arguments() < slices.arguments());
}

/// Runs longer than a vector, and not a whole number of vectors, beside the same by hand.
#[test]
fn long_runs_of_any_length() {
    for columns in [1, 7, 8, 9, 16, 63, 64, 65, 300] {
        let rows = 5;
        let number = |i: usize| ((i * i + 3 * i) % 17) as f64 / 8.0 - 1.0; // sums of products are exact
        let matrix: Vec<f64> = (0..rows * columns).map(number).collect();
        let vector: Vec<f64> = (0..columns).map(|i| number(i + 5)).collect();
        let tape = Tape::new();
        let (m, x, b) = (
            tape.run(&matrix),
            tape.run(&vector),
            tape.run(&[0.5, 1.0, 1.5, 2.0, 2.5]),
        );
        let y = m.affine(x, b);
        y.dot(y).backward().unwrap();
        let by_hand: Vec<f64> = (0..rows)
            .map(|i| {
                let products = (0..columns).map(|j| matrix[i * columns + j] * vector[j]);
                products.sum::<f64>() + 0.5 * (i + 1) as f64
            })
            .collect();
        let values: Vec<f64> = y.iter().map(|y| y.value()).collect();
        assert_eq!(values, by_hand);
        let gradients = |run: Run<'_, f64>| {
            let mut gradients = vec![0.0; run.len()];
            run.grads(&mut gradients).unwrap();
            gradients
        };
        assert_eq!(
            gradients(b),
            by_hand.iter().map(|y| 2.0 * y).collect::<Vec<_>>()
        );
        for (at, gradient) in gradients(m).into_iter().enumerate() {
            assert_eq!(gradient, 2.0 * by_hand[at / columns] * vector[at % columns]);
        }
        for (j, gradient) in gradients(x).into_iter().enumerate() {
            let terms = (0..rows).map(|i| 2.0 * by_hand[i] * matrix[i * columns + j]);
            assert_eq!(gradient, terms.sum::<f64>());
        }
    }
}

#[test]
fn columns_are_runs() {
    let tape = Tape::new();
    let matrix = tape.run(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]); // four rows of two
    let column = matrix.split_at(1).1.step_by(2);
    assert_eq!(
        column.iter().map(|x| x.value()).collect::<Vec<_>>(),
        [2.0, 4.0, 6.0, 8.0]
    );
    let every_fourth = column.step_by(2);
    let y = every_fourth.dot(tape.constants(&[10.0, 100.0])) + column.square().sum();
    let z = column.dots(every_fourth).sum(); // rows (2, 4) and (6, 8) times (2, 6)
    (y + z).backward().unwrap();
    assert_eq!(y.value() + z.value(), 620.0 + 120.0 + 28.0 + 60.0);
    let mut gradients = [0.0; 4];
    column.grads(&mut gradients).unwrap();
    // of 10a + 100c + a² + b² + c² + d² + (a + c)a + (b + d)c at (2, 4, 6, 8)
    assert_eq!(
        gradients,
        [10.0 + 4.0 + 10.0, 14.0, 100.0 + 12.0 + 14.0, 22.0]
    );
    let mut all = [0.0; 8];
    matrix.grads(&mut all).unwrap();
    assert_eq!(all, [0.0, 24.0, 0.0, 14.0, 0.0, 126.0, 0.0, 22.0]);
    assert_eq!(
        (
            matrix.step_by(0).len(),
            matrix.step_by(3).len(),
            matrix.step_by(100).len()
        ),
        (8, 3, 1)
    );
}

/// Functions of runs, by lanes, beside those of variables.
macro_rules! functions {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            let points: Vec<f64> = (1..20).map(|i| f64::from(i) * 0.21).collect();
            let tape = Tape::new();
            let (run, variables) = (tape.run(&points), tape.vars(&points));
            let (y, z) = (run.$name(), tape.gather(&variables).iter().map(|x| x.$name()).collect::<Vec<_>>());
            (y.sum() + Var::sum(&z)).backward().unwrap();
            for ((i, y), z) in y.iter().enumerate().zip(z) {
                let pairs = [
                    (y.value(), z.value()),
                    (run.get(i).unwrap().grad().unwrap(), variables[i].grad().unwrap()),
                ];
                for (found, expected) in pairs {
                    assert!((found - expected).abs() <= 4.0 * f64::EPSILON * expected.abs().max(1e-3), "{found} {expected}");
                }
            }
        }
    )*};
}

mod functions {
    use super::{Scalar, Tape, Var};

    functions! {
        recip square cube sqrt rsqrt exp exp_m1 ln ln_1p sin cos tanh sigmoid softplus log_sigmoid relu abs erf erfc gelu gelu_tanh
    }
}

#[test]
fn one_result_of_a_group_as_root() {
    let tape = Tape::new();
    let x = tape.run(&[1.0, 2.0, 3.0]);
    let squares = x.square();
    let y = squares.get(1).unwrap() * 3.0;
    let after = squares.sum() * y; // not part of what follows
    for times in 1..3 {
        y.backward().unwrap();
        let mut gradients = [0.0; 3];
        x.grads(&mut gradients).unwrap();
        assert_eq!(gradients, [0.0, 12.0 * f64::from(times), 0.0]);
    }
    tape.zero_grads();
    tape.backward(&[y, squares.get(0).unwrap()], &[1.0, 5.0])
        .unwrap();
    assert_eq!(tape.grads().unwrap()[..6], [10.0, 12.0, 0.0, 5.0, 3.0, 0.0]);
    assert_eq!(after.grad(), Ok(0.0));
}

#[test]
fn single_precision() {
    let tape = Tape::new();
    let x = tape.run(&[0.5_f32, -1.0, 2.0]);
    let y = x.sigmoid().dot(x);
    y.backward().unwrap();
    for (x, found) in [0.5_f32, -1.0, 2.0].into_iter().zip(tape.grads().unwrap()) {
        let s = 1.0 / (1.0 + (-x).exp());
        assert!((found - (s + x * s * (1.0 - s))).abs() < 1e-6);
    }
}

#[test]
fn constants_have_no_gradient() {
    let tape = Tape::new();
    let (w, x) = (tape.run(&INPUTS), tape.constants(&[1.0, 2.0, 3.0]));
    let y = x.dot(w);
    y.backward().unwrap();
    let mut gradient = [0.0; 3];
    w.grads(&mut gradient).unwrap();
    assert_eq!(gradient, [1.0, 2.0, 3.0]);
    let short = Error::WrongCount {
        what: "gradients",
        expected: 3,
        found: 2,
    };
    assert_eq!(w.grads(&mut gradient[..2]), Err(short));
    assert_eq!(x.grads(&mut gradient), Err(Error::NotRetained));
    assert_eq!(x.id().err(), Some(Error::NotRetained));
    assert_eq!(x.dot(x).id().err(), Some(Error::NotRetained));
    assert_eq!(
        (x.dot(x).value(), x.sum().value(), x.mean().value()),
        (14.0, 6.0, 2.0)
    );
    let squares = x.square();
    assert_eq!(squares.dots(x).get(0).map(|x| x.value()), Some(36.0));
    assert_eq!(tape.len(), 4); // no node but those of `w` and `y`
    let biases = tape.run(&[0.5]);
    x.affine(squares, biases).sum().backward().unwrap();
    assert_eq!(biases.get(0).unwrap().grad(), Ok(1.0));
}

#[test]
fn a_run_with_itself_and_with_its_neighbours() {
    let tape = Tape::new();
    let x = tape.run(&[1.0, 2.0, 3.0, 4.0]);
    let overlapping = x.split_at(1).1.dot(x.split_at(3).0);
    (x.dot(x) + overlapping).backward().unwrap();
    let found: Vec<_> = x.iter().map(|x| x.grad().unwrap()).collect();
    assert_eq!(found, [2.0 + 2.0, 4.0 + 4.0, 6.0 + 6.0, 8.0 + 3.0]);
}

#[test]
fn gathered_handles_keep_their_slopes() {
    let tape = Tape::new();
    let x = tape.vars(&[1.0, 2.0]);
    let nodes = tape.len();
    let same = tape.gather(&x);
    assert_eq!(tape.len(), nodes); // consecutive nodes need no new ones
    let mixed = tape.gather(&[x[1] * 3.0, tape.constant(5.0), x[0]]);
    assert_eq!(tape.len(), nodes + 3);
    let weights = tape.constants(&[1.0, 10.0, 100.0]);
    (mixed.dot(weights) + same.dot(same)).backward().unwrap();
    assert_eq!((x[0].grad(), x[1].grad()), (Ok(102.0), Ok(7.0)));
    assert_eq!(mixed.iter().map(|x| x.value()).sum::<f64>(), 12.0);
    assert!(tape.gather(&[]).is_empty());
    assert_eq!(
        tape.gather(&[tape.constant(1.0)]).id().err(),
        Some(Error::NotRetained)
    );
}

#[test]
fn a_rewound_tape_forgets_the_runs_and_allocates_nothing() {
    let mut tape = Tape::new();
    let weights = tape.run(&WEIGHTS).id().unwrap();
    let mark = tape.mark();
    let mut seen = Vec::new();
    for _ in 0..20 {
        let (w, x) = (tape.run_at(weights, &WEIGHTS), tape.constants(&INPUTS));
        let y = by_runs(w, x, tape.var(0.1));
        y.backward().unwrap();
        seen.push((y.value(), tape.bytes(), tape.len()));
        tape.rewind(mark).unwrap();
    }
    assert!(seen.iter().all(|all| all == &seen[0]));
}

#[test]
fn dead_products_pass_nothing_on() {
    let tape = Tape::new();
    let (x, y) = (tape.run(&[f64::INFINITY, 1.0]), tape.run(&[1.0, f64::NAN]));
    (x.dot(y) * 0.0).retain().backward().unwrap();
    assert!(x.iter().chain(y.iter()).all(|x| x.grad() == Ok(0.0)));
}

#[test]
fn runs_of_dual_numbers_give_second_derivatives() {
    let tape = Tape::new();
    let x = tape.run(&[Dual::new(2.0, 1.0), Dual::new(3.0, 0.0)]);
    let square = x.dot(x);
    (square * square).backward().unwrap();
    let gradient = x.get(1).unwrap().grad().unwrap();
    // 4|x|²x₁, and its derivative along x₀: 8x₀x₁
    assert_eq!((gradient.value, gradient.tangent), (156.0, 48.0));
}

#[test]
fn mistakes_are_named() {
    let (tape, other) = (Tape::new(), Tape::new());
    let (x, y) = (tape.run(&INPUTS), other.run(&INPUTS));
    assert!(x.dot(y).value().is_nan());
    let mixed = Error::MixedTapes { op: "dot" };
    assert_eq!(
        (tape.check(), other.check()),
        (Err(mixed.clone()), Err(mixed))
    );

    let (tape, other) = (Tape::new(), Tape::new());
    let (x, y) = (tape.run(&INPUTS), other.run(&INPUTS));
    let nans = x.affine(x, y);
    assert!(nans.len() == 1 && nans.iter().all(|x| x.value().is_nan()));
    let mixed = Error::MixedTapes { op: "affine" };
    assert_eq!(
        (tape.check(), other.check()),
        (Err(mixed.clone()), Err(mixed))
    );

    for width in [0, 2] {
        let tape = Tape::new();
        let x = tape.run(&INPUTS);
        assert_eq!(
            x.dots(x.split_at(width).0).len(),
            3usize.checked_div(width).unwrap_or(0)
        );
        assert_eq!(tape.check(), Err(Error::UnevenRows { width, found: 3 }));
    }

    let tape = Tape::new();
    let x = tape.run(&INPUTS);
    assert_eq!(x.affine(x, x).len(), 1);
    let one_bias = Error::LengthMismatch {
        op: "affine",
        expected: 1,
        found: 3,
    };
    assert_eq!(tape.check(), Err(one_bias));

    let (tape, other) = (Tape::new(), Tape::new());
    let gathered = tape.gather(&[tape.var(1.0_f64), other.var(1.0)]);
    assert!(gathered.iter().all(|x| x.value().is_nan()));
    let mixed = Error::MixedTapes { op: "gather" };
    assert_eq!(
        (tape.check(), other.check()),
        (Err(mixed.clone()), Err(mixed))
    );

    let tape = Tape::new();
    let x = tape.run(&INPUTS);
    assert!(x.dot(x.split_at(2).0).value().is_nan());
    let lengths = Error::LengthMismatch {
        op: "dot",
        expected: 3,
        found: 2,
    };
    assert_eq!(tape.check(), Err(lengths));

    let mut tape = Tape::new();
    let mark = tape.mark();
    let gone = tape.run(&INPUTS).id().unwrap();
    tape.rewind(mark).unwrap();
    assert!(
        tape.run_at(gone, &INPUTS)
            .dot(tape.constants(&INPUTS))
            .value()
            .is_nan()
    );
    assert!(matches!(tape.check(), Err(Error::Rewound { .. })));

    let full = Tape::with_limit(2);
    assert!(full.run(&INPUTS).get(0).is_some_and(|x| x.value().is_nan()));
    assert_eq!(
        full.check(),
        Err(Error::TapeFull {
            what: "nodes",
            limit: 2
        })
    );
    assert_eq!((full.len(), full.run(&INPUTS).get(3).is_none()), (0, true));

    let full = Tape::with_limit(4);
    let x = full.run(&INPUTS);
    assert!(x.tanh().iter().all(|y| y.value().is_nan()));
    assert!(x.sum().value().is_nan() && x.sum().backward().is_err());
}

/// Nothing is at the end of a run, and it has no neighbour.
#[test]
fn parts_without_values_are_nobodys() {
    let tape = Tape::new();
    let runs = [&[][..], &[1.0, 2.0, 3.0, 4.0]].map(|values| tape.run(values));
    let x = tape.var(7.0);
    (x * x).backward().unwrap();
    let empty = |run: Run<'_, f64>| {
        assert_eq!(run.id().err(), Some(Error::NotRetained));
        assert_eq!(run.grads(&mut []), Ok(()));
        assert_eq!((run.len(), run.sum().value()), (0, 0.0));
    };
    empty(runs[0]);
    for step in [1, 2, 3, 4, u32::MAX as usize, usize::MAX] {
        let stepping = runs[1].step_by(step);
        empty(stepping.split_at(stepping.len()).1);
        empty(stepping.step_by(step).split_at(9).1);
        empty(stepping.split_at(0).0.step_by(step));
        let (first, rest) = stepping.split_at(1);
        assert_eq!(first.step_by(step).get(0).map(|x| x.value()), Some(1.0));
        assert_eq!(rest.len(), runs[1].len().div_ceil(step) - 1);
        rest.grads(&mut vec![0.0; rest.len()]).unwrap();
    }
    tape.check().unwrap();
}
