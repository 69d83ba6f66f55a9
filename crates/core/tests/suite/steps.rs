//! Ops over slices of handles whose nodes lie at equal distances are recorded as such, with the same gradients.

use burtorch_core::lanes::value_and_grad_batch;
use burtorch_core::{Error, Scalar, Tape, Var, hvp, value_and_grad};

const POINTS: usize = 24;

fn points() -> Vec<f64> {
    let point = |i| f64::from((i * 7) % 11) * 0.2 + 0.3;
    (0..POINTS as u32).map(point).collect()
}

/// A value of `f` and its gradients by the points and by three more variables, which the slices may hold.
fn gradients(
    f: impl for<'t> Fn(&[Var<'t, f64>], &[Var<'t, f64>; 3]) -> Var<'t, f64>,
) -> (Vec<f64>, usize) {
    let tape = Tape::new();
    let others = [0.7, -0.4, 1.2].map(|x| tape.var(x));
    let x = tape.vars(&points());
    let y = f(&x, &others);
    let mut found = vec![y.value()];
    y.backward().unwrap();
    (y * others[0]).backward().unwrap(); // adds to what is there
    found.extend(x.iter().chain(&others).map(|x| x.grad().unwrap()));
    (found, tape.arguments())
}

type Handles<'a, 't> = &'a [Var<'t, f64>];
type Op = for<'t> fn(Handles<'_, 't>, Handles<'_, 't>) -> Var<'t, f64>;

const OPS: [Op; 9] = [
    |a, _| Var::sum(a),
    |a, _| Var::mean(a),
    |a, _| Var::product(a),
    |a, _| Var::sum_of_squares(a),
    |a, _| Var::variance(a),
    |a, _| Var::logsumexp(a),
    |a, _| Var::norm(a),
    |a, b| Var::dot(a, b),
    |a, b| Var::dot_bias(a, b, a[0]),
];

/// Handles by the dozen, taken from variables.
type Choice = for<'t> fn(Handles<'_, 't>, &[Var<'t, f64>; 3]) -> Vec<Var<'t, f64>>;

/// Those that lie at equal distances, and how.
const STEPPING: [Choice; 5] = [
    |x, _| x[..12].to_vec(),
    |x, _| x.iter().skip(1).step_by(2).copied().collect(),
    |x, _| x[3..15].iter().map(|x| x.exp()).collect(), // with slopes
    |_, _| (0..12).map(|i| Var::constant(f64::from(i))).collect(),
    |x, _| x[..12].iter().map(|x| x.stop_gradient()).collect(),
];

/// Those that do not.
const SCATTERED: [Choice; 5] = [
    |x, _| x[..12].iter().rev().copied().collect(),
    |x, _| vec![x[5]; 12],
    |x, others| [&others[1..], &x[2..12]].concat(),
    // Places 0, 1, 2, …, the first of which is no node.
    |x, others| [&[Var::constant(0.5)], &others[..], &x[..8]].concat(),
    |_, others| {
        let mut all = vec![Var::constant(0.5), others[0], others[1], others[2]];
        all.resize(12, Var::constant(2.0));
        all
    },
];

/// Each op over each choice of handles, beside itself over the same handles in another order, which is recorded argument by
/// argument.
#[test]
fn gradients_do_not_depend_on_how_nodes_lie() {
    /// An order in which no choice lies at equal distances.
    fn shuffled<'t>(handles: &[Var<'t, f64>]) -> Vec<Var<'t, f64>> {
        let mut order: Vec<_> = (0..handles.len()).map(|i| (i * 5) % 12).collect();
        order.swap(3, 7); // the first stays
        order.into_iter().map(|i| handles[i]).collect()
    }
    let choices = || STEPPING.into_iter().chain(SCATTERED);
    for op in OPS {
        for (first, second) in
            choices().flat_map(|first| choices().map(move |second| (first, second)))
        {
            let (found, _) = gradients(|x, others| op(&first(x, others), &second(x, others)));
            let (expected, _) = gradients(|x, others| {
                op(&shuffled(&first(x, others)), &shuffled(&second(x, others)))
            });
            for (found, expected) in found.into_iter().zip(expected) {
                assert!(
                    (found - expected).abs() <= 1e-13 * expected.abs().max(1.0),
                    "{found} {expected}"
                );
            }
        }
    }
}

#[test]
fn steps_take_no_arguments() {
    let none = gradients(|_, others| others[1] + others[2]).1;
    for (choices, expected) in [(STEPPING, 0), (SCATTERED, 12)] {
        for choice in choices {
            let more =
                gradients(|x, others| Var::sum(&choice(x, others)) + others[1] + others[2]).1;
            assert!((more - none).abs_diff(expected) <= 2, "{more} {none}");
        }
    }
}

#[test]
fn steps_before_a_mark_stay() {
    let mut tape = Tape::new();
    let x = tape.vars(&points());
    let y = Var::dot(&x[..12], &x[12..]).id().unwrap();
    let first = x[0].id().unwrap();
    let mark = tape.mark();
    for _ in 0..3 {
        let other = tape.vars(&points());
        Var::sum_of_squares(&other).backward().unwrap();
        tape.rewind(mark).unwrap();
        tape.zero_grads();
        tape.handle(y, 0.0).backward().unwrap();
        let mut found = vec![0.0; POINTS];
        tape.add_grads(first, &mut found).unwrap();
        let mut expected = points();
        expected.rotate_left(12);
        assert_eq!(found, expected);
    }
}

#[test]
fn a_full_tape_takes_no_steps() {
    let tape = Tape::with_limit(POINTS);
    let x = tape.vars(&points());
    let y = Var::sum(&x);
    let full = Error::TapeFull {
        what: "nodes",
        limit: POINTS,
    };
    assert!(y.value().is_nan());
    assert_eq!(y.backward(), Err(full));
}

/// A formula with every way of recording steps: products, uniform sums, with slopes, and functions in vectors.
fn formula<S: Scalar>(x: &[S]) -> S {
    let squares: Vec<S> = x[..12].iter().map(|&x| x.square()).collect();
    S::dot(&x[..12], &x[12..]) + S::mean(x) * S::sum(&squares) + S::logsumexp(&x[2..14])
}

#[test]
fn every_kind_of_number_goes_in_steps() {
    const TOLERANCE: f64 = 1e-12;
    let (value, expected) = value_and_grad(|x| formula(x), &points()).unwrap();

    let narrow: Vec<f32> = points().iter().map(|&x| x as f32).collect();
    let (_, found) = value_and_grad(|x| formula(x), &narrow).unwrap();
    for (found, expected) in found.iter().zip(&expected) {
        assert!((f64::from(*found) - expected).abs() < 1e-4 * expected.abs().max(1.0));
    }

    let two: Vec<f64> = [points(), points()].concat();
    let (values, found) = value_and_grad_batch::<2, _, _>(|x| formula(x), &two, POINTS).unwrap();
    assert!((values[1] - value).abs() < TOLERANCE * value.abs());
    for (found, expected) in found.iter().zip(expected.iter().cycle()) {
        assert!((found - expected).abs() < TOLERANCE * expected.abs().max(1.0));
    }

    // H·1 beside the difference of gradients.
    let found = hvp(|x| formula(x), &points(), &[1.0; POINTS])
        .unwrap()
        .product;
    let moved = |step: f64| {
        let at: Vec<f64> = points().iter().map(|x| x + step).collect();
        value_and_grad(|x| formula(x), &at).unwrap().1
    };
    for (found, (up, down)) in found.iter().zip(moved(1e-5).iter().zip(moved(-1e-5))) {
        let difference = (up - down) / 2e-5;
        assert!((found - difference).abs() < 1e-6, "{found} {difference}");
    }
}

/// What nothing depends on gets 0, however large the slope.
#[test]
fn dead_ops_pass_nothing_on() {
    let tape = Tape::new();
    let x = tape.vars(&[f64::INFINITY; 12]);
    let y = Var::product(&x) * 0.0 + Var::dot(&x, &x) * 0.0;
    y.backward().unwrap();
    assert!(x.iter().all(|x| x.grad().unwrap() == 0.0));
}
