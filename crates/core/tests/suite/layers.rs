//! Layers recorded as groups of nodes on a tape have the values and gradients of their formulas, node by node.

use burtorch_core::graph::{Graph, Node};
use burtorch_core::lanes::Lanes;
use burtorch_core::{Dual, Error, Float, MatrixView, Scalar, Tape, Var};

/// A function of a list of numbers, over any scalar.
trait Layer {
    fn run<S: Scalar>(&self, x: &[S]) -> Vec<S>;
}

/// As many rows as that, and numbers in each.
#[derive(Clone, Copy, Debug)]
struct Size {
    rows: usize,
    width: usize,
}

/// `rows` inputs, then `outputs` rows of weights, then biases if there are any.
#[derive(Debug)]
struct Affine {
    x: Size,
    outputs: usize,
    biases: bool,
    /// Whether both matrices are stored column by column.
    turned: bool,
}

impl Affine {
    fn numbers(&self) -> usize {
        let biases = if self.biases { self.outputs } else { 0 };
        (self.x.rows + self.outputs) * self.x.width + biases
    }
}

fn turned<S: Copy>(numbers: &[S], rows: usize) -> MatrixView<'_, S> {
    MatrixView::new(numbers, rows).transposed()
}

impl Layer for Affine {
    fn run<S: Scalar>(&self, x: &[S]) -> Vec<S> {
        let (inputs, rest) = x.split_at(self.x.rows * self.x.width);
        let (weights, biases) = rest.split_at(self.outputs * self.x.width);
        let (inputs, weights) = if self.turned {
            (turned(inputs, self.x.rows), turned(weights, self.outputs))
        } else {
            (
                MatrixView::new(inputs, self.x.width),
                MatrixView::new(weights, self.x.width),
            )
        };
        let mut y = Vec::new();
        S::affine(inputs, weights, self.biases.then_some(biases), &mut y);
        y
    }
}

/// Inputs, then gains, then biases if there are any.
#[derive(Debug)]
struct Normal {
    x: Size,
    biases: bool,
}

impl Normal {
    fn numbers(&self) -> usize {
        (self.x.rows + 1 + usize::from(self.biases)) * self.x.width
    }
}

impl Layer for Normal {
    fn run<S: Scalar>(&self, x: &[S]) -> Vec<S> {
        let (inputs, rest) = x.split_at(self.x.rows * self.x.width);
        let (gains, biases) = rest.split_at(self.x.width);
        let inputs = MatrixView::new(inputs, self.x.width);
        let epsilon = S::Primal::from_f64(1e-3);
        let mut y = Vec::new();
        S::layer_norm(
            inputs,
            gains,
            self.biases.then_some(biases),
            epsilon,
            &mut y,
        );
        y
    }
}

#[derive(Debug)]
struct Attention {
    time: usize,
    heads: usize,
    width: usize,
    masked: bool,
}

impl Attention {
    fn numbers(&self) -> usize {
        3 * self.time * self.heads * self.width
    }
}

impl Layer for Attention {
    fn run<S: Scalar>(&self, x: &[S]) -> Vec<S> {
        let mask = |head: usize, query: usize, key: usize| {
            S::Primal::from_f64([0.0, 1.25, 0.5][(head + 2 * query + key) % 3])
        };
        let x = MatrixView::new(x, 3 * self.heads * self.width);
        let mut y = Vec::new();
        S::causal_attention(x, self.heads, self.masked.then_some(&mask), &mut y);
        y
    }
}

/// A layer behind something else.
struct Behind<F, L>(F, L);

/// What is done to numbers before a layer.
trait Before {
    fn run<S: Scalar>(&self, x: &[S]) -> Vec<S>;
}

impl<F: Before, L: Layer> Layer for Behind<F, L> {
    fn run<S: Scalar>(&self, x: &[S]) -> Vec<S> {
        self.1.run(&self.0.run(x))
    }
}

/// Functions of the variables, some of them constants.
struct Slopes;

impl Before for Slopes {
    fn run<S: Scalar>(&self, x: &[S]) -> Vec<S> {
        x.iter().map(|x| x.tanh().relu()).collect()
    }
}

/// The variables themselves, but for functions of them in the last rows.
struct SlopesAtTheEnd;

impl Before for SlopesAtTheEnd {
    fn run<S: Scalar>(&self, x: &[S]) -> Vec<S> {
        let plain = x.len() / 3;
        let numbers = x.iter().enumerate();
        numbers
            .map(|(i, &x)| if i < plain { x } else { x.tanh() })
            .collect()
    }
}

/// Every third number is a constant, in another place of each row.
struct Constants;

impl Before for Constants {
    fn run<S: Scalar>(&self, x: &[S]) -> Vec<S> {
        let constant = |(i, &x): (usize, &S)| match i % 3 {
            0 => S::constant(S::Primal::from_f64(0.5)),
            _ => x * S::Primal::from_f64(1.5),
        };
        x.iter().enumerate().map(constant).collect()
    }
}

/// The numbers backwards, the last one twice.
struct Backwards;

impl Before for Backwards {
    fn run<S: Scalar>(&self, x: &[S]) -> Vec<S> {
        let mut all: Vec<S> = x.iter().rev().copied().collect();
        all[0] = all[1];
        all
    }
}

/// A constant, then all numbers but the last.
struct Shifted;

impl Before for Shifted {
    fn run<S: Scalar>(&self, x: &[S]) -> Vec<S> {
        let mut all = x.to_vec();
        all.rotate_right(1);
        all[0] = S::constant(S::Primal::from_f64(0.5));
        all
    }
}

/// One number in the place of all.
struct Repeated;

impl Before for Repeated {
    fn run<S: Scalar>(&self, x: &[S]) -> Vec<S> {
        vec![x[0]; x.len()]
    }
}

/// Weights that differ from result to result.
fn weighted<S: Scalar>(y: &[S]) -> S {
    let weight = |i: usize| S::constant(S::Primal::from_f64((1.7 * i as f64).sin()));
    let weights: Vec<S> = (0..y.len()).map(weight).collect();
    S::dot(y, &weights)
}

fn numbers(count: usize) -> Vec<f64> {
    (0..count).map(|i| (2.3 * i as f64).cos() + 0.1).collect()
}

/// The results and the gradient of their weighted sum, after so many passes.
fn on_a_tape<T: Scalar>(layer: &impl Layer, x: &[T], passes: usize) -> (Vec<T>, Vec<T>) {
    let tape = Tape::new();
    let variables = tape.vars(x);
    let y = layer.run(&variables);
    let root = weighted(&y);
    for _ in 0..passes {
        root.backward().unwrap();
    }
    let gradient = variables.iter().map(|x| x.grad().unwrap()).collect();
    (y.into_iter().map(Var::value).collect(), gradient)
}

/// The same, node by node.
fn on_a_graph<T: Scalar>(layer: &impl Layer, x: &[T]) -> (Vec<T>, Vec<T>) {
    let graph = Graph::new();
    let variables: Vec<Node<'_, T>> = x.iter().map(|&x| graph.var(x)).collect();
    let y = layer.run(&variables);
    weighted(&y).backward().unwrap();
    let gradient = variables.iter().map(|x| x.grad().unwrap()).collect();
    (y.into_iter().map(Node::value).collect(), gradient)
}

/// The first two numbers that are not the same but for rounding.
fn first_difference(found: &[f64], expected: &[f64]) -> Option<(usize, f64, f64)> {
    let largest = expected
        .iter()
        .fold(1.0, |largest: f64, x| largest.max(x.abs()));
    let pairs = found.iter().zip(expected).enumerate();
    let near = |x: f64, y: f64| (x - y).abs() <= 1e-13 * largest;
    let mut off = pairs.filter(|&(_, (&x, &y))| !near(x, y));
    assert_eq!(found.len(), expected.len());
    off.next().map(|(i, (&x, &y))| (i, x, y))
}

fn check(name: &str, layer: &impl Layer, count: usize) {
    let x = numbers(count);
    let expected = on_a_graph(layer, &x);
    for passes in [1, 3] {
        let (values, mut gradient) = on_a_tape(layer, &x, passes);
        gradient.iter_mut().for_each(|g| *g /= passes as f64);
        assert_eq!(
            first_difference(&values, &expected.0),
            None,
            "{name}: values"
        );
        assert_eq!(
            first_difference(&gradient, &expected.1),
            None,
            "{name}: {passes} passes"
        );
    }
}

#[test]
fn the_helper_can_fail() {
    assert_eq!(
        first_difference(&[1.0, 2.0], &[1.0, 2.0 + 1e-12]),
        Some((1, 2.0, 2.0 + 1e-12))
    );
    assert!(first_difference(&[f64::NAN], &[1.0]).is_some());
}

/// Sizes on both sides of those at which vectors end and sums are cut.
fn affines() -> Vec<Affine> {
    let mut all = Vec::new();
    for (rows, width, outputs) in [
        (1, 1, 1),
        (1, 4, 3),
        (2, 5, 13),
        (7, 8, 9),
        (8, 3, 4),
        (9, 24, 5),
        (8, 12, 8),
        (19, 17, 2),
        (3, 130, 5),
        (8, 257, 3),
    ] {
        for (biases, turned) in [(true, false), (false, true), (true, true)] {
            all.push(Affine {
                x: Size { rows, width },
                outputs,
                biases,
                turned,
            });
        }
    }
    all
}

#[test]
fn products_of_matrices() {
    for layer in affines() {
        let (name, count) = (format!("{layer:?}"), layer.numbers());
        check(&name, &layer, count);
    }
}

fn normals() -> Vec<Normal> {
    let sizes = [(1, 1), (1, 2), (3, 7), (2, 8), (4, 9), (3, 24), (2, 130)];
    let sizes = sizes.map(|(rows, width)| Size { rows, width });
    let both = |x| [true, false].map(|biases| Normal { x, biases });
    sizes.into_iter().flat_map(both).collect()
}

#[test]
fn normalised_rows() {
    for layer in normals() {
        let (name, count) = (format!("{layer:?}"), layer.numbers());
        check(&name, &layer, count);
    }
}

fn attentions() -> Vec<Attention> {
    let sizes = [(1, 1, 1), (2, 1, 3), (5, 2, 4), (9, 3, 2), (8, 2, 9)];
    let both = |(time, heads, width)| {
        [true, false].map(|masked| Attention {
            time,
            heads,
            width,
            masked,
        })
    };
    sizes.into_iter().flat_map(both).collect()
}

#[test]
fn attention_of_heads() {
    for layer in attentions() {
        let (name, count) = (format!("{layer:?}"), layer.numbers());
        check(&name, &layer, count);
    }
}

#[test]
fn handles_of_any_kind() {
    fn each<L: Layer>(layer: impl Fn() -> L, count: usize) {
        check("slopes", &Behind(Slopes, layer()), count);
        check("some slopes", &Behind(SlopesAtTheEnd, layer()), count);
        check("constants", &Behind(Constants, layer()), count);
        check("backwards", &Behind(Backwards, layer()), count);
        check("shifted", &Behind(Shifted, layer()), count);
        check("repeated", &Behind(Repeated, layer()), count);
        check(
            "slopes backwards",
            &Behind(Slopes, Behind(Backwards, layer())),
            count,
        );
    }
    let affine = || Affine {
        x: Size { rows: 9, width: 5 },
        outputs: 6,
        biases: true,
        turned: false,
    };
    let normal = || Normal {
        x: Size { rows: 3, width: 9 },
        biases: true,
    };
    let attention = || Attention {
        time: 4,
        heads: 2,
        width: 3,
        masked: true,
    };
    each(affine, affine().numbers());
    each(normal, normal().numbers());
    each(attention, attention().numbers());
}

impl<L: Layer, M: Layer> Layer for (L, M) {
    fn run<S: Scalar>(&self, x: &[S]) -> Vec<S> {
        let first = self.0.run(x);
        self.1.run(&[&first, x].concat())
    }
}

/// Results of groups, with a gap between them and the variables, are the inputs of groups; so a matrix has rows of both.
#[test]
fn groups_behind_groups() {
    let first = Affine {
        x: Size { rows: 3, width: 4 },
        outputs: 4,
        biases: false,
        turned: false,
    };
    let count = first.numbers();
    let second = Normal {
        x: Size { rows: 8, width: 4 },
        biases: true,
    };
    check("both", &(first, second), count);
}

/// The numbers of a lane, whatever the other lanes hold; those of plain numbers but for the functions that have formulas of their own.
#[test]
fn every_lane_is_a_tape_of_its_own() {
    fn compare(layer: &impl Layer, count: usize) {
        let samples: Vec<Vec<f64>> = (0..4)
            .map(|i| numbers(count + 7 * i).split_off(7 * i))
            .collect();
        let lanes: Vec<Lanes<f64, 4>> = (0..count)
            .map(|i| Lanes::from_fn(|lane| samples[lane][i]))
            .collect();
        let (values, gradient) = on_a_tape(layer, &lanes, 2);
        for (lane, sample) in samples.iter().enumerate() {
            let alone: Vec<_> = sample.iter().map(|&x| Lanes::from([x])).collect();
            let expected = on_a_tape(layer, &alone, 2);
            let plain = on_a_tape(layer, sample, 2);
            let of_lane = |all: &[Lanes<f64, 4>]| all.iter().map(|x| x[lane]).collect::<Vec<_>>();
            let of_one = |all: &[Lanes<f64, 1>]| all.iter().map(|x| x[0]).collect::<Vec<_>>();
            assert_eq!(of_lane(&values), of_one(&expected.0));
            assert_eq!(of_lane(&gradient), of_one(&expected.1));
            assert_eq!(first_difference(&of_lane(&values), &plain.0), None);
            assert_eq!(first_difference(&of_lane(&gradient), &plain.1), None);
        }
    }
    let affine = Affine {
        x: Size { rows: 9, width: 5 },
        outputs: 6,
        biases: true,
        turned: false,
    };
    compare(&Behind(Slopes, affine), 9 * 5 + 6 * 6);
    compare(&normals()[8], normals()[8].numbers());
    compare(&attentions()[4], attentions()[4].numbers());
}

/// Second derivatives, by a tape of dual numbers.
#[test]
fn tapes_of_dual_numbers() {
    fn compare(layer: &impl Layer, count: usize) {
        let direction = |i: usize| (0.7 * i as f64).sin();
        let x: Vec<_> = numbers(count)
            .into_iter()
            .enumerate()
            .map(|(i, x)| Dual::new(x, direction(i)))
            .collect();
        let (found, expected) = (on_a_tape(layer, &x, 1), on_a_graph(layer, &x));
        let parts = |all: &[Dual<f64>]| {
            all.iter()
                .flat_map(|x| [x.value, x.tangent])
                .collect::<Vec<f64>>()
        };
        assert_eq!(
            first_difference(&parts(&found.0), &parts(&expected.0)),
            None
        );
        assert_eq!(
            first_difference(&parts(&found.1), &parts(&expected.1)),
            None
        );
    }
    let affine = Affine {
        x: Size { rows: 8, width: 5 },
        outputs: 6,
        biases: true,
        turned: false,
    };
    compare(&Behind(Slopes, affine), 8 * 5 + 6 * 6);
    compare(&normals()[8], normals()[8].numbers());
    compare(&attentions()[4], attentions()[4].numbers());
}

/// What nothing depends on hands nothing on, whatever it holds.
#[test]
fn infinities_stay_where_they_are() {
    for bad in [f64::INFINITY, f64::NAN] {
        let tape = Tape::new();
        let (x, w) = (tape.vars(&[1.0, 2.0, bad, 4.0]), tape.vars(&[1.0, -1.0]));
        let mut y = Vec::new();
        let weights = MatrixView::new(&w, 2);
        Scalar::affine(MatrixView::new(&x, 2), weights, None, &mut y);
        y[0].backward().unwrap();
        let gradients =
            |x: &[Var<'_, f64>]| x.iter().map(|x| x.grad().unwrap()).collect::<Vec<_>>();
        assert_eq!(
            (gradients(&x), gradients(&w)),
            (vec![1.0, -1.0, 0.0, 0.0], vec![1.0, 2.0])
        );

        tape.zero_grads();
        y.clear();
        Scalar::layer_norm(MatrixView::new(&x, 2), &w, None, 0.0, &mut y);
        y[1].backward().unwrap();
        assert_eq!(gradients(&w), [0.0, 1.0]);
        assert_eq!(gradients(&x)[2..], [0.0, 0.0]);

        // The other way round: it is a weight.
        tape.zero_grads();
        let (x, w) = (tape.vars(&[1.0, 2.0]), tape.vars(&[1.0, -1.0, bad, 3.0]));
        y.clear();
        Scalar::affine(rows(&x, 2), rows(&w, 2), None, &mut y);
        y[0].backward().unwrap();
        assert_eq!(
            (gradients(&x), gradients(&w)),
            (vec![1.0, -1.0], vec![1.0, 2.0, 0.0, 0.0])
        );

        // The second position looks at the first, not the other way round.
        tape.zero_grads();
        let x = tape.vars(&[1.0, 2.0, 3.0, 1.0, bad, 3.0]);
        y.clear();
        Scalar::causal_attention(MatrixView::new(&x, 3), 1, None, &mut y);
        y[0].backward().unwrap();
        assert_eq!(
            (y[0].value(), gradients(&x)),
            (3.0, vec![0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
        );

        // One number of a value, and nothing asks for it.
        tape.zero_grads();
        let x = tape.vars(&[1.0, 2.0, 3.0, 4.0, 5.0, bad]);
        y.clear();
        Scalar::causal_attention(MatrixView::new(&x, 6), 1, None, &mut y);
        y[0].backward().unwrap();
        assert_eq!(
            (y[0].value(), gradients(&x)),
            (5.0, vec![0.0, 0.0, 0.0, 0.0, 1.0, 0.0])
        );
    }
}

/// An infinity in one lane is treated as one on a tape of its own, and the other lanes do not notice.
#[test]
fn infinities_stay_in_their_lanes() {
    for bad in 0..4 {
        let tape = Tape::new();
        let numbers = |scale: f64| Lanes::from_fn(|lane| scale * (lane as f64 + 1.0));
        let mut infinite = numbers(1.0);
        infinite[bad] = f64::INFINITY;
        let (x, w) = (
            tape.vars(&[numbers(1.0), numbers(2.0), infinite, numbers(4.0)]),
            tape.vars(&[numbers(3.0), numbers(-1.0)]),
        );
        let mut y = Vec::new();
        let (inputs, weights) = (MatrixView::new(&x, 2), MatrixView::new(&w, 2));
        Scalar::affine(inputs, weights, None, &mut y);
        y[0].backward().unwrap();
        let gradients = |x: &[Var<'_, Lanes<f64, 4>>]| -> Vec<Lanes<f64, 4>> {
            x.iter().map(|x| x.grad().unwrap()).collect()
        };
        let zero = Lanes::splat(0.0);
        assert_eq!(
            gradients(&x),
            [numbers(3.0), numbers(-1.0), zero, zero],
            "{bad}"
        );
        assert_eq!(gradients(&w), [numbers(1.0), numbers(2.0)], "{bad}");
    }
}

fn gradient_of(tape: &Tape<f64>, y: &[Var<'_, f64>]) -> Option<Error> {
    assert!(y.iter().all(|y| y.value().is_nan()), "{y:?}");
    tape.check().err()
}

#[test]
fn lists_that_do_not_fit() {
    type Run = fn(&[Var<'_, f64>], &mut Vec<f64>) -> usize;
    let runs: [Run; 5] = [
        |x, values| {
            record(values, |y| {
                Scalar::affine(rows(x, 2), rows(&x[..3], 3), None, y)
            })
        },
        |x, values| {
            record(values, |y| {
                Scalar::affine(rows(x, 2), rows(x, 2), Some(&x[..2]), y)
            })
        },
        |x, values| {
            record(values, |y| {
                Scalar::layer_norm(rows(x, 2), &x[..3], None, 1.0, y)
            })
        },
        |x, values| {
            record(values, |y| {
                Scalar::layer_norm(rows(x, 3), &x[..3], Some(&x[..2]), 1.0, y)
            })
        },
        |x, values| record(values, |y| Scalar::causal_attention(rows(x, 6), 4, None, y)),
    ];
    let counts = [3, 9, 6, 6, 2];
    for (run, count) in runs.into_iter().zip(counts) {
        let tape = Tape::new();
        let x = tape.vars(&numbers(6));
        let mut values = Vec::new();
        assert_eq!(run(&x, &mut values), count);
        assert!(values.iter().all(|y| y.is_nan()), "{values:?}");
        assert!(matches!(tape.check(), Err(Error::LengthMismatch { .. })));
    }
    let mut plain = Vec::new();
    Scalar::causal_attention(MatrixView::new(&[1.0; 6], 6), 0, None, &mut plain);
    assert!(plain.len() == 2 && plain.iter().all(|y: &f64| y.is_nan()));
    // No rows, each of more numbers than there is memory for.
    plain.clear();
    Scalar::layer_norm(
        MatrixView::new(&[1.0; 6], usize::MAX),
        &[1.0],
        None,
        1.0,
        &mut plain,
    );
    assert!(plain.is_empty());
    // Three times as many do not fit into a number.
    for heads in [usize::MAX, usize::MAX / 3 + 1] {
        plain.clear();
        Scalar::causal_attention(MatrixView::new(&[1.0; 6], 6), heads, None, &mut plain);
        assert!(plain.len() == 2 && plain.iter().all(|y: &f64| y.is_nan()));
    }
}

fn rows<S: Copy>(numbers: &[S], width: usize) -> MatrixView<'_, S> {
    MatrixView::new(numbers, width)
}

/// Hands out the values of what is recorded, and how many there are.
fn record<'t>(values: &mut Vec<f64>, run: impl FnOnce(&mut Vec<Var<'t, f64>>)) -> usize {
    let mut y = Vec::new();
    run(&mut y);
    values.extend(y.iter().map(|y| y.value()));
    y.len()
}

#[test]
fn mixed_tapes_and_full_ones() {
    let (one, other) = (Tape::new(), Tape::new());
    let (x, w) = (one.vars(&[1.0, 2.0]), other.vars(&[3.0, 4.0]));
    let mut y = Vec::new();
    Scalar::affine(rows(&x, 2), rows(&w, 2), None, &mut y);
    let mixed = Some(Error::MixedTapes { op: "affine" });
    assert_eq!(
        (gradient_of(&one, &y), other.check().err()),
        (mixed.clone(), mixed)
    );

    for limit in 6..9 {
        let mut full = Tape::with_limit(limit);
        let start = full.mark();
        for _ in 0..2 {
            let x = full.vars(&[1.0, 2.0, 3.0, 4.0]);
            let mut y = Vec::new();
            Scalar::affine(rows(&x[..2], 1), rows(&x[2..], 1), None, &mut y);
            match limit {
                8 => y[3].backward().unwrap(),
                _ => assert!(matches!(
                    gradient_of(&full, &y),
                    Some(Error::TapeFull { .. })
                )),
            }
            assert_eq!(y.len(), 4);
            drop(y);
            full.rewind(start).unwrap();
        }
    }
}

#[test]
fn constants_and_nothing() {
    let tape = Tape::<f64>::new();
    let x = [1.0, 2.0].map(|x| tape.constant(x));
    let mut y = Vec::new();
    Scalar::affine(rows(&x, 1), rows(&x, 1), None, &mut y);
    assert_eq!(
        y.iter().map(|y| y.value()).collect::<Vec<_>>(),
        [1.0, 2.0, 2.0, 4.0]
    );
    assert!(tape.is_empty() && matches!(y[0].id(), Err(Error::NotRetained)));

    let detached = [1.0, 2.0].map(Var::<f64>::constant);
    y.clear();
    Scalar::affine(
        rows(&detached, 2),
        rows(&detached, 2),
        Some(&x[..1]),
        &mut y,
    );
    Scalar::affine(rows(&detached, 2), rows(&detached, 2), None, &mut y);
    assert_eq!(y.iter().map(|y| y.value()).collect::<Vec<_>>(), [6.0, 5.0]);

    y.clear();
    Scalar::affine(rows(&x[..0], 1), rows(&x, 1), None, &mut y);
    Scalar::layer_norm(rows(&x[..0], 1), &x[..1], None, 1.0, &mut y);
    assert!(y.is_empty());
    // Sums of nothing, with a bias.
    let none = rows(&x[..0], 1).transposed();
    Scalar::affine(none, none, Some(&x[..1]), &mut y);
    assert_eq!(y.iter().map(|y| y.value()).collect::<Vec<_>>(), [1.0]);
    assert_eq!(tape.check(), Ok(()));
}

#[test]
fn rewound_groups_leave_no_memory_behind() {
    let mut tape = Tape::new();
    let first = tape.vars(&numbers(48))[0].id().unwrap();
    let mark = tape.mark();
    let mut bytes = Vec::new();
    for round in 0..50 {
        let x: Vec<_> = tape.handles(first, &numbers(48)).collect();
        let mut y = Vec::new();
        Scalar::affine(rows(&x[..36], 12), rows(&x[..24], 12), None, &mut y);
        Scalar::layer_norm(rows(&x[..36], 12), &x[36..], None, 1.0, &mut y);
        Scalar::causal_attention(rows(&x[..36], 12), 2, None, &mut y);
        assert_eq!(y.len(), 6 + 36 + 12);
        weighted(&y).backward().unwrap();
        if round > 0 {
            bytes.push(tape.bytes());
        }
        tape.zero_grads();
        tape.rewind(mark).unwrap();
    }
    assert!(bytes.iter().all(|&found| found == bytes[0]), "{bytes:?}");
}
