//! The known faults F09 to F23, by their numbers in our list, by every recorder and for every kind of number.
//!
//! Nearly all of them are formulas with the values and gradients that are right at some points: a table, in which each stands once. What
//! ends in errors (full tapes, two tapes, seeds that are missing), a million nodes and threads follow below.
//!
//! Left out is what cannot be: long sums and a million nodes on a tape of 24, formulas with several results in batches, which have one, and
//! names and marks of nodes, which only the growing tape has (`faults.rs`). Programs that are full or mixed know no numbers yet, of no
//! kind (`program.rs`, and the tests of the library).

use std::thread;

use burtorch_core::lanes::{Lanes, value_and_grad_batch};
use burtorch_core::program::{Evaluator, Symbol};
use burtorch_core::{Dual, Error, Float, Program, Scalar, StackTape, StackVar, Tape, Var};

/// What is right at a point: the results of a formula, and the sum of the gradients of some passes, each given by its seeds.
struct Row {
    point: &'static [f64],
    results: &'static [f64],
    passes: &'static [&'static [f64]],
    gradient: &'static [f64],
}

/// A formula, as it is written.
struct Case {
    fault: &'static str,
    formula: &'static str,
    rows: &'static [Row],
}

/// One pass of a formula with one result.
const ONCE: &[&[f64]] = &[&[1.0]];

macro_rules! row {
    ($point:expr, $result:expr, $gradient:expr) => {
        row!($point, [$result], ONCE, $gradient)
    };
    ($point:expr, $results:expr, $passes:expr, $gradient:expr) => {
        Row {
            point: &$point,
            results: &$results,
            passes: $passes,
            gradient: &$gradient,
        }
    };
}

/// Makes the table, and its formulas for any type of number.
macro_rules! cases {
    ($($fault:ident { $(|$x:ident| $formula:expr => { $($row:tt)* })* })*) => {
        const CASES: &[Case] = &[$($(Case {
            fault: stringify!($fault),
            formula: stringify!($formula),
            rows: &[$(row! $row),*],
        }),*),*];

        /// The formulas of [`CASES`], in their order.
        #[allow(clippy::eq_op, reason = "x / x is a case")]
        fn formulas<S: Scalar>() -> [fn(&[S]) -> Vec<S>; CASES.len()] {
            [$($(|$x: &[S]| $formula.into()),*),*]
        }
    };
}

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

fn c<S: Scalar>(x: f64) -> S::Primal {
    S::Primal::from_f64(x)
}

cases! {
    f09_roots_at_zero {
        |x| [S::norm(x)] => {
            ([0.0, 0.0], 0.0, [0.0, 0.0])
            ([3.0, 4.0], 5.0, [0.6, 0.8])
            ([3e30, 4e30], 5e30, [0.6, 0.8])
        }
        |x| [x[0].sqrt()] => {
            ([0.0], 0.0, [INF])
            ([4.0], 2.0, [0.25])
        }
        |x| [x[0].sqrt() * c::<S>(0.0)] => { ([0.0], 0.0, [0.0]) }
        |x| [x[1] * x[0].sqrt()] => { ([0.0, 0.0], 0.0, [0.0, 0.0]) }
        |x| [x[0] + x[0].constant_like(c::<S>(0.0)).sqrt()] => { ([2.0], 2.0, [1.0]) }
    }
    f10_powers {
        |x| [x[0].powi(0) + x[1].powf(c::<S>(0.0))] => { ([0.0, 1.0], 2.0, [0.0, 0.0]) }
        |x| [x[0].pow(x[1])] => {
            ([0.0, 0.0], 1.0, [0.0, 0.0])
            ([0.0, 1.0], 0.0, [1.0, 0.0])
            ([0.0, 2.0], 0.0, [0.0, 0.0])
            ([-2.0, 3.0], -8.0, [12.0, NAN])
            ([-2.0, 2.0], 4.0, [-4.0, NAN])
            ([-8.0, 1.0 / 3.0], NAN, [NAN, NAN])
            ([0.0, -1.0], INF, [-INF, -INF])
            ([0.0, 0.5], 0.0, [INF, 0.0])
        }
        |x| [x[0].pow(x[1].stop_gradient())] => {
            ([0.0, 0.0], 1.0, [0.0, 0.0])
            ([-2.0, 3.0], -8.0, [12.0, 0.0])
            ([-2.0, 2.0], 4.0, [-4.0, 0.0])
        }
        |x| [x[0].powf(c::<S>(3.0))] => {
            ([-2.0], -8.0, [12.0])
            ([0.0], 0.0, [0.0])
        }
        |x| [x[0].powf(c::<S>(0.5))] => { ([0.0], 0.0, [INF]) }
        |x| [x[0].powf(c::<S>(1.0 / 3.0))] => { ([-8.0], NAN, [NAN]) }
        |x| [x[0].powf(c::<S>(-1.0))] => { ([0.0], INF, [-INF]) }
        |x| [x[0].powi(3) - x[0].powi(-1)] => { ([-2.0], -7.5, [12.25]) }
        |x| [x[0].powi(1)] => { ([0.0], 0.0, [1.0]) }
    }
    f11_ties_and_kinks {
        |x| [x[0].relu()] => {
            ([0.0], 0.0, [0.0])
            ([3.0], 3.0, [1.0])
            ([-3.0], 0.0, [0.0])
        }
        |x| [x[0].abs()] => {
            ([0.0], 0.0, [0.0])
            ([3.0], 3.0, [1.0])
            ([-3.0], 3.0, [-1.0])
        }
        |x| [x[0].max(x[1])] => {
            ([3.0, 3.0], 3.0, [1.0, 0.0])
            ([1.0, 2.0], 2.0, [0.0, 1.0])
            ([NAN, 1.0], NAN, [1.0, 0.0])
            ([1.0, NAN], NAN, [0.0, 1.0])
        }
        |x| [x[0].min(x[1])] => {
            ([3.0, 3.0], 3.0, [1.0, 0.0])
            ([1.0, 2.0], 1.0, [1.0, 0.0])
            ([NAN, 1.0], NAN, [1.0, 0.0])
            ([1.0, NAN], NAN, [0.0, 1.0])
        }
        |x| [x[0].max(x[1]).max(x[2])] => {
            ([2.0, 5.0, 5.0], 5.0, [0.0, 1.0, 0.0])
            ([7.0, 5.0, 6.0], 7.0, [1.0, 0.0, 0.0])
        }
    }
    f12_long_sums {
        |x| [sum_of_many(x[0])] => { ([0.1], 10_000.0, [100_000.0]) }
    }
    f13_subnormal_numbers {
        |x| [x[0] * (S::Primal::MIN_POSITIVE / c::<S>(4.0)) * x[1] / S::Primal::MIN_POSITIVE] => {
            ([1.0, 0.5], 0.125, [0.125, 0.25])
        }
    }
    f14_a_value_used_twice {
        |x| [doubled(2, x[0])] => { ([1.0], 4.0, [4.0]) }
        |x| [x[0] * x[0] + x[0] - x[0] / x[0]] => { ([3.0], 11.0, [7.0]) }
        |x| [squares_with_bias(x)] => { ([1.0, 2.0], 172.0, [24.0, 36.0]) }
        // Rows 2, 2 and 0 of a table with three rows of two.
        |x| [x[4], x[5], x[4], x[5], x[0], x[1]] => {
            (
                [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
                [5.0, 6.0, 5.0, 6.0, 1.0, 2.0],
                &[&[1.0, 2.0, 10.0, 20.0, 100.0, 200.0]],
                [100.0, 200.0, 0.0, 0.0, 11.0, 22.0]
            )
        }
    }
    f15_compound_assignment {
        |x| assigned(x[0]) => { ([3.0], [84.0, 9.0], &[&[1.0, 0.0]], [109.0]) }
    }
    f16_backward_twice {
        |x| [(x[0] * x[0]) * (x[0] * x[0])] => {
            ([3.0], [81.0], &[&[1.0]], [108.0])
            ([3.0], [81.0], &[&[1.0], &[1.0]], [216.0])
        }
    }
    f17_several_roots {
        |x| [x[0].square().cube(), x[0].square() * x[0].square(), x[0], x[0].constant_like(c::<S>(1.0))] => {
            ([3.0], [729.0, 81.0, 3.0, 1.0], &[&[1.0, 0.0, 0.0, 0.0]], [1458.0])
            ([3.0], [729.0, 81.0, 3.0, 1.0], &[&[1.0, 0.0, 0.0, 0.0], &[0.0, 1.0, 0.0, 0.0]], [1566.0])
            ([3.0], [729.0, 81.0, 3.0, 1.0], &[&[1.0, 1.0, 1.0, 1.0]], [1567.0])
        }
        |x| [doubled(18, x[0])] => { ([1.5], 393_216.0, [262_144.0]) }
    }
    f18_dead_branches {
        |x| [x[0].select(x[0].sqrt(), x[0].constant_like(c::<S>(0.0)))] => {
            ([-1.0], 0.0, [0.0])
            ([4.0], 2.0, [0.25])
        }
        |x| [x[0].select(x[0], x[0] / c::<S>(0.0))] => { ([1.0], 1.0, [1.0]) }
        |x| [x[0].select(x[0], (x[0] * c::<S>(1000.0)).exp())] => { ([2.0], 2.0, [1.0]) }
        |x| [x[0] / x[1]] => {
            ([1.0, 0.0], INF, [INF, -INF])
            ([0.0, 0.0], NAN, [INF, NAN])
            ([1.0, 2.0], 0.5, [0.5, -0.25])
        }
        // An infinite slope behind a flat one, in one handle and across nodes.
        |x| [x[0].ln().relu()] => { ([0.0], 0.0, [0.0]) }
        |x| [(x[0].ln() * x[1]).relu()] => { ([0.0, 1.0], 0.0, [0.0, 0.0]) }
        |x| [S::sum(&[x[0].ln() * x[1], x[2]]).relu()] => { ([0.0, 1.0, 1.0], 0.0, [0.0, 0.0, 0.0]) }
    }
    f19_detached_and_unused {
        |x| [x[0] * x[0].stop_gradient()] => { ([3.0], 9.0, [3.0]) }
        |x| [x[0] * x[0]] => { ([3.0, 4.0], 9.0, [6.0, 0.0]) }
        |x| [x[0] * c::<S>(2.0) + x[0] * c::<S>(3.0) * c::<S>(0.0)] => { ([5.0], 10.0, [2.0]) }
        |x| [x[0] * c::<S>(3.0) * c::<S>(0.0) + x[0] * c::<S>(2.0)] => { ([5.0], 10.0, [2.0]) }
        |x| [x[0].constant_like(c::<S>(7.0))] => { ([1.0], 7.0, [0.0]) }
    }
    f20_roots_and_seeds {
        |x| [x[0].square(), x[1].square()] => { ([1.0, 2.0], [1.0, 4.0], &[&[1.0, 10.0]], [2.0, 40.0]) }
        |x| [x[0]] => { ([5.0], 5.0, [1.0]) }
    }
}

/// x + x, so many times over.
fn doubled<S: Scalar>(times: usize, x: S) -> S {
    (0..times).fold(x, |y, _| y + y)
}

fn sum_of_many<S: Scalar>(x: S) -> S {
    let terms = std::iter::repeat_n(x, 100_000);
    S::sum(&terms.collect::<Vec<_>>())
}

/// Σ (X + b)² of three rows that share a bias.
fn squares_with_bias<S: Scalar>(bias: &[S]) -> S {
    let rows = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
    let squares =
        rows.map(|row| (bias[0] + c::<S>(row[0])).square() + (bias[1] + c::<S>(row[1])).square());
    S::sum(&squares)
}

/// A value that was changed in place, and what it was before.
fn assigned<S: Scalar>(x: S) -> [S; 2] {
    let mut y = x * x;
    let before = y;
    y *= y;
    y += x;
    [y, before]
}

/// A kind of number, which holds one sample or several.
trait Kind: Scalar + PartialEq + Send + 'static {
    const NAME: &'static str;
    const HELD: usize;
    /// Holds a number for each sample.
    fn hold(sample: impl Fn(usize) -> f64) -> Self;
    /// The number held for a sample.
    fn sample(self, index: usize) -> f64;
}

impl Kind for f32 {
    const NAME: &'static str = "f32";
    const HELD: usize = 1;
    fn hold(sample: impl Fn(usize) -> f64) -> Self {
        sample(0) as Self
    }
    fn sample(self, _: usize) -> f64 {
        self.into()
    }
}

impl Kind for f64 {
    const NAME: &'static str = "f64";
    const HELD: usize = 1;
    fn hold(sample: impl Fn(usize) -> f64) -> Self {
        sample(0)
    }
    fn sample(self, _: usize) -> f64 {
        self
    }
}

/// Everything moves; the values must be those of numbers that do not.
impl Kind for Dual<f64> {
    const NAME: &'static str = "Dual<f64>";
    const HELD: usize = 1;
    fn hold(sample: impl Fn(usize) -> f64) -> Self {
        Self::new(sample(0), 1.0)
    }
    fn sample(self, _: usize) -> f64 {
        self.value
    }
}

impl Kind for Lanes<f64, 4> {
    const NAME: &'static str = "Lanes<f64, 4>";
    const HELD: usize = 4;
    fn hold(sample: impl Fn(usize) -> f64) -> Self {
        Self::from_fn(sample)
    }
    fn sample(self, index: usize) -> f64 {
        self[index]
    }
}

impl Kind for Lanes<f32, 8> {
    const NAME: &'static str = "Lanes<f32, 8>";
    const HELD: usize = 8;
    fn hold(sample: impl Fn(usize) -> f64) -> Self {
        Self::from_fn(|lane| sample(lane) as f32)
    }
    fn sample(self, index: usize) -> f64 {
        self[index].into()
    }
}

/// The same number for every sample, moving nowhere.
fn same<K: Kind>(x: f64) -> K {
    K::constant(c::<K>(x))
}

fn all_same<K: Kind>(xs: &[f64]) -> Vec<K> {
    xs.iter().map(|&x| same(x)).collect()
}

/// Results and gradient.
type Found<K> = Result<(Vec<K>, Vec<K>), Error>;

/// What a recorder makes of the formula with a number, at a point, in some passes.
type Recorder<K> = fn(usize, &[K], &[&[f64]]) -> Found<K>;

/// Gradients are zeroed and gathered this often, for marks and counters that are not.
const ROUNDS: usize = 300;

fn tape<K: Kind>(case: usize, x: &[K], passes: &[&[f64]]) -> Found<K> {
    let tape = Tape::new();
    let variables = tape.vars(x);
    let results = formulas::<Var<'_, K>>()[case](&variables);
    for _ in 0..ROUNDS {
        tape.zero_grads();
        for seeds in passes {
            tape.backward(&results, &all_same(seeds))?;
        }
    }
    let gradient: Result<_, _> = variables.iter().map(|x| x.grad()).collect();
    Ok((results.iter().map(|y| y.value()).collect(), gradient?))
}

/// More would only make the code of a pass longer: it is written out for each node.
const NODES: usize = 24;

/// Out of line, so that there is one for each kind of number.
#[inline(never)]
fn pass_back<K: Kind>(
    tape: &StackTape<K, NODES>,
    roots: &[StackVar<'_, K, NODES>],
    seeds: &[K],
) -> Result<(), Error> {
    tape.backward(roots, seeds)
}

fn stack_tape<K: Kind>(case: usize, x: &[K], passes: &[&[f64]]) -> Found<K> {
    let tape = StackTape::<K, NODES>::new();
    let variables: Vec<_> = x.iter().map(|&x| tape.var(x)).collect();
    let results = formulas::<StackVar<'_, K, NODES>>()[case](&variables);
    for _ in 0..ROUNDS {
        tape.zero_grads();
        for seeds in passes {
            pass_back(&tape, &results, &all_same(seeds))?;
        }
    }
    let gradient: Result<_, _> = variables.iter().map(|x| x.grad()).collect();
    Ok((results.iter().map(|y| y.value()).collect(), gradient?))
}

fn record<F: Float>(case: usize, inputs: usize) -> Result<Program<F>, Error> {
    Program::record_many(inputs, |x| formulas::<Symbol<'_, F>>()[case](x))
}

/// Gradients of a program do not add up over passes; here they are added.
fn program<K: Kind>(case: usize, x: &[K], passes: &[&[f64]]) -> Found<K> {
    let program = record(case, x.len())?;
    let mut evaluator = Evaluator::<K>::new(&program);
    let (mut results, mut sum) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        sum = all_same(&vec![0.0; x.len()]);
        for seeds in passes {
            let (found, gradient) = evaluator.values_and_gradient(x, &all_same(seeds))?;
            results = found.to_vec();
            sum.iter_mut().zip(gradient).for_each(|(sum, &g)| *sum += g);
        }
    }
    Ok((results, sum))
}

/// Without a recording: dual numbers, of which one moves at a time.
fn forward<K: Kind>(case: usize, x: &[K], passes: &[&[f64]]) -> Found<K> {
    let formula = formulas::<Dual<K>>()[case];
    let along = |moving: usize| {
        let tangent = |i: usize| same(if i == moving { 1.0 } else { 0.0 });
        let point: Vec<_> = x
            .iter()
            .enumerate()
            .map(|(i, &x)| Dual::new(x, tangent(i)))
            .collect();
        formula(&point)
    };
    let derivative = |moving: usize| {
        let results = along(moving);
        let products = passes.iter().flat_map(|seeds| seeds.iter().zip(&results));
        products.fold(same(0.0), |sum: K, (&seed, y)| {
            sum + y.tangent.chain(same(seed))
        })
    };
    let results = along(0).into_iter().map(|y| y.value).collect();
    Ok((results, (0..x.len()).map(derivative).collect()))
}

/// The results of plain numbers, which have no gradients of their own.
fn plain<K: Kind>(case: usize, x: &[K], passes: &[&[f64]]) -> Found<K> {
    let (_, gradient) = forward(case, x, passes)?;
    Ok((formulas::<K>()[case](x), gradient))
}

/// Whether a number is the right one up to rounding; NaN and infinities are only themselves.
fn is_near<F: Float>(found: f64, right: f64) -> bool {
    let tolerance = if F::NAME == "f32" { 1e-6 } else { 1e-12 };
    found == right
        || found.is_nan() && right.is_nan()
        || right.is_finite() && (found - right).abs() <= tolerance * right.abs().max(1.0)
}

fn are_near<F: Float>(found: &[f64], right: &[f64]) -> bool {
    found.len() == right.len()
        && found
            .iter()
            .zip(right)
            .all(|(&found, &right)| is_near::<F>(found, right))
}

/// What is wrong in a row, if anything.
fn fault_in_row<F: Float>(row: &Row, results: &[f64], gradient: &[f64]) -> Option<String> {
    let Row {
        point,
        results: right,
        gradient: slopes,
        ..
    } = row;
    let is_right = are_near::<F>(results, right) && are_near::<F>(gradient, slopes);
    (!is_right).then(|| {
        format!("at {point:?}: expected {right:?} {slopes:?}, found {results:?} {gradient:?}")
    })
}

/// All that is wrong with a formula. Each row stands in the first sample once, with those that follow it in the others.
fn faults_of_case<K: Kind>(number: usize, case: &Case, recorder: Recorder<K>) -> Vec<String> {
    let mut faults = Vec::new();
    for (first, Row { point, passes, .. }) in case.rows.iter().enumerate() {
        let row = |sample: usize| &case.rows[(first + sample) % case.rows.len()];
        let x: Vec<K> = (0..point.len())
            .map(|i| K::hold(|sample| row(sample).point[i]))
            .collect();
        match recorder(number, &x, passes) {
            Err(error) => faults.push(error.to_string()),
            Ok((results, gradient)) => faults.extend(
                (0..K::HELD)
                    .filter(|&sample| row(sample).passes == *passes)
                    .filter_map(|sample| {
                        let held = |numbers: &[K]| -> Vec<f64> {
                            numbers.iter().map(|x| x.sample(sample)).collect()
                        };
                        fault_in_row::<K::Primal>(row(sample), &held(&results), &held(&gradient))
                    }),
            ),
        }
    }
    faults
}

/// Panics with all that is wrong, by fault, recorder and kind of number.
fn assert_sound(recorder: &str, kind: &str, faults_of: impl Fn(usize, &Case) -> Vec<String>) {
    let mut all = String::new();
    for (number, case) in CASES.iter().enumerate() {
        for fault in faults_of(number, case) {
            all += &format!(
                "\n{} by {recorder} of {kind}: {} {fault}",
                case.fault, case.formula
            );
        }
    }
    assert!(all.is_empty(), "{all}");
}

fn assert_recorder<K: Kind>(name: &str, recorder: Recorder<K>) {
    assert_sound(name, K::NAME, |number, case| {
        faults_of_case(number, case, recorder)
    });
}

/// All but long sums, which take a node for each argument there.
fn assert_stack_tape<K: Kind>() {
    assert_sound("tape on the stack", K::NAME, |number, case| {
        match case.fault {
            "f12_long_sums" => Vec::new(),
            _ => faults_of_case::<K>(number, case, stack_tape),
        }
    });
}

/// Values and gradients of the formula with a number at many points.
type Batch<F> = fn(usize, &[F], usize) -> Result<(Vec<F>, Vec<F>), Error>;

fn tape_of_lanes<F: Float, const N: usize>(
    case: usize,
    points: &[F],
    width: usize,
) -> Result<(Vec<F>, Vec<F>), Error> {
    value_and_grad_batch::<N, F, _>(
        |x| formulas::<Var<'_, Lanes<F, N>>>()[case](x)[0],
        points,
        width,
    )
}

fn program_of_lanes<F: Float, const N: usize>(
    case: usize,
    points: &[F],
    width: usize,
) -> Result<(Vec<F>, Vec<F>), Error> {
    let mut evaluator = Evaluator::<Lanes<F, N>>::new(&record(case, width)?);
    let (mut values, mut gradients) = (
        vec![F::ZERO; points.len() / width],
        vec![F::ZERO; points.len()],
    );
    evaluator.gradients_of_samples(points, &mut values, &mut gradients)?;
    Ok((values, gradients))
}

/// All rows of a formula with one result as one batch, twice over, so that groups end within it.
fn faults_of_batch<F: Float>(number: usize, case: &Case, batch: Batch<F>) -> Vec<String> {
    let rows: Vec<&Row> = case
        .rows
        .iter()
        .chain(case.rows)
        .filter(|row| row.passes == ONCE && row.results.len() == 1)
        .collect();
    let Some(first) = rows.first() else {
        return Vec::new();
    };
    let width = first.point.len();
    let points: Vec<F> = rows
        .iter()
        .flat_map(|row| row.point)
        .map(|&x| F::from_f64(x))
        .collect();
    match batch(number, &points, width) {
        Err(error) => vec![error.to_string()],
        Ok((values, gradients)) => {
            let found = values.iter().zip(gradients.chunks(width));
            rows.iter()
                .zip(found)
                .filter_map(|(row, (value, gradient))| {
                    let gradient: Vec<f64> = gradient.iter().map(|g| g.to_f64()).collect();
                    fault_in_row::<F>(row, &[value.to_f64()], &gradient)
                })
                .collect()
        }
    }
}

fn assert_batch<F: Float>(name: &str, batch: Batch<F>) {
    assert_sound(name, F::NAME, |number, case| {
        faults_of_batch(number, case, batch)
    });
}

#[test]
fn batches() {
    assert_batch("tape of lanes", tape_of_lanes::<f64, 4>);
    assert_batch("tape of lanes", tape_of_lanes::<f32, 8>);
    assert_batch("program of lanes", program_of_lanes::<f64, 4>);
    assert_batch("program of lanes", program_of_lanes::<f32, 8>);
}

fn is_nan<K: Kind>(x: K) -> bool {
    (0..K::HELD).all(|sample| x.sample(sample).is_nan())
}

/// What both tapes promise beyond their gradients. `$full` makes a tape with room for so many nodes, `$wide` one for `$length` and one;
/// `$pass` makes a pass.
macro_rules! tape_tests {
    ($module:ident: $full:expr, $wide:expr, $length:expr, $pass:path) => {
        mod $module {
            use super::*;

            pub(super) fn f20_seeds_that_are_missing<K: Kind>() {
                let tape = $full;
                let x = tape.var(same::<K>(1.0));
                let mismatch = Error::LengthMismatch {
                    op: "backward",
                    expected: 2,
                    found: 3,
                };
                assert_eq!(
                    $pass(&tape, &[x, x.square()], &[same(1.0); 3]),
                    Err(mismatch)
                );
                assert_eq!(x.grad(), Ok(same(0.0)));
            }

            pub(super) fn f22_a_full_tape<K: Kind>() {
                let tape = $full;
                let x = tape.var(same::<K>(1.0));
                let mut y = x * x;
                for _ in 2..NODES {
                    y += x;
                }
                assert_eq!($pass(&tape, &[y], &[same(1.0)]), Ok(()));
                assert_eq!(y.value(), same(NODES as f64 - 1.0));
                assert_eq!(x.grad(), Ok(same(NODES as f64)));
                y += x;
                let full = Error::TapeFull {
                    what: "nodes",
                    limit: NODES,
                };
                assert!(is_nan(y.value()));
                assert_eq!($pass(&tape, &[y], &[same(1.0)]), Err(full));
            }

            pub(super) fn f23_two_tapes<K: Kind>() {
                let (tape, other) = ($full, $full);
                let variables = [tape.var(same::<K>(1.0)), other.var(same::<K>(2.0))];
                let foreign = Error::ForeignTape { what: "root" };
                assert_eq!($pass(&tape, &variables[1..], &[same(1.0)]), Err(foreign));
                let mixed = variables[0] + variables[1];
                let error = Err(Error::MixedTapes { op: "add" });
                assert!(is_nan(mixed.value()) && is_nan(Scalar::sum(&variables).value()));
                assert_eq!($pass(&tape, &[mixed], &[same(1.0)]), error);
                assert_eq!(
                    (variables[0].grad().map(|_| ()), other.check()),
                    (error.clone(), error)
                );
            }

            /// Two threads record at once, and so do four; all find the same.
            pub(super) fn f23_threads<K: Kind>() {
                let gradient = || {
                    let tape = $wide;
                    let x = tape.var(K::hold(|sample| 0.3 + 0.05 * sample as f64));
                    let mut y = x;
                    for _ in 0..$length {
                        y = y * x + c::<K>(1.0);
                    }
                    $pass(&tape, &[y], &[same(1.0)]).unwrap();
                    x.grad().unwrap()
                };
                let expected = gradient();
                for count in [2, 4] {
                    let threads: Vec<_> = (0..count).map(|_| thread::spawn(gradient)).collect();
                    for thread in threads {
                        assert_eq!(thread.join().unwrap(), expected);
                    }
                }
            }
        }
    };
}

tape_tests! { growing: Tape::with_limit(NODES), Tape::new(), 200_000, Tape::backward }
tape_tests! { on_the_stack: StackTape::<_, NODES>::new(), StackTape::<_, NODES>::new(), NODES - 1, pass_back }

/// On a thread with a stack of 2 MiB, where what calls itself would not get far.
fn on_a_small_stack<K: Kind>(run: fn() -> (K, K)) -> (K, K) {
    let thread = thread::Builder::new().stack_size(2 << 20).spawn(run);
    thread.unwrap().join().unwrap()
}

fn f21_a_million_nodes<K: Kind>() {
    let found = on_a_small_stack(|| {
        let tape = Tape::new();
        let x = tape.var(same::<K>(1.0));
        let mut y = x;
        for _ in 0..1_000_000 {
            y += x;
        }
        y.backward().unwrap();
        assert_eq!(tape.len(), 1_000_001);
        (y.value(), x.grad().unwrap())
    });
    assert_eq!(found, (same(1_000_001.0), same(1_000_001.0)));
}

fn f21_a_million_instructions<K: Kind>() {
    let found = on_a_small_stack(|| {
        let program = Program::record(1, |x| (0..1_000_000).fold(x[0], |y, _| y + x[0])).unwrap();
        assert_eq!(program.len(), 1_000_000);
        let mut evaluator = Evaluator::<K>::new(&program);
        let (value, gradient) = evaluator.value_and_gradient(&[same(1.0)]).unwrap();
        (value, gradient[0])
    });
    assert_eq!(found, (same(1_000_001.0), same(1_000_001.0)));
}

fn f20_seeds_that_are_missing_in_a_program<K: Kind>() {
    let program = Program::record_many(1, |x| vec![x[0], x[0].square()]).unwrap();
    let mut evaluator = Evaluator::<K>::new(&program);
    let (x, ones) = ([same(1.0)], [same(1.0); 3]);
    let wrong = |what, expected, found| {
        Err(Error::WrongCount {
            what,
            expected,
            found,
        })
    };
    assert_eq!(
        evaluator.values_and_gradient(&x, &ones).map(|_| ()),
        wrong("seeds", 2, 3)
    );
    assert_eq!(
        evaluator.value_and_gradient(&x).map(|_| ()),
        wrong("outputs", 1, 2)
    );
    assert_eq!(evaluator.values(&ones).map(|_| ()), wrong("inputs", 1, 3));
}

fn f23_threads_with_one_program<K: Kind>() {
    let program =
        Program::record(1, |x| (0..2000).fold(x[0], |y, _| y * x[0] + c::<K>(1.0))).unwrap();
    let gradient = || {
        let mut evaluator = Evaluator::<K>::new(&program);
        evaluator
            .value_and_gradient(&[K::hold(|sample| 0.3 + 0.05 * sample as f64)])
            .unwrap()
            .1[0]
    };
    let expected = gradient();
    thread::scope(|scope| {
        for thread in [(); 4].map(|()| scope.spawn(gradient)) {
            assert_eq!(thread.join().unwrap(), expected);
        }
    });
}

/// The tests of each kind of number.
macro_rules! every_kind {
    ($($name:ident: $kind:ty;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn by_forward_mode() {
                assert_recorder::<$kind>("no recorder", plain);
                assert_recorder::<$kind>("forward mode", forward);
            }
            #[test]
            fn by_tape() {
                assert_recorder::<$kind>("tape", tape);
            }
            #[test]
            fn by_stack_tape() {
                assert_stack_tape::<$kind>();
            }
            #[test]
            fn by_program() {
                assert_recorder::<$kind>("program", program);
            }
            #[test]
            fn f20_seeds_that_are_missing() {
                growing::f20_seeds_that_are_missing::<$kind>();
                on_the_stack::f20_seeds_that_are_missing::<$kind>();
                f20_seeds_that_are_missing_in_a_program::<$kind>();
            }
            #[test]
            fn f21_a_million() {
                f21_a_million_nodes::<$kind>();
                f21_a_million_instructions::<$kind>();
            }
            #[test]
            fn f22_a_full_tape() {
                growing::f22_a_full_tape::<$kind>();
                on_the_stack::f22_a_full_tape::<$kind>();
            }
            #[test]
            fn f23_two_tapes() {
                growing::f23_two_tapes::<$kind>();
                on_the_stack::f23_two_tapes::<$kind>();
            }
            #[test]
            fn f23_threads() {
                growing::f23_threads::<$kind>();
                on_the_stack::f23_threads::<$kind>();
                f23_threads_with_one_program::<$kind>();
            }
        }
    )*};
}

every_kind! {
    singles: f32;
    doubles: f64;
    duals: Dual<f64>;
    lanes_of_doubles: Lanes<f64, 4>;
    lanes_of_singles: Lanes<f32, 8>;
}

/// A relu whose slope is multiplied by its value, which does not show at 1.
fn tape_with_a_wrong_op<K: Kind>(_: usize, x: &[K], _: &[&[f64]]) -> Found<K> {
    let tape = Tape::new();
    let x = tape.var(x[0]);
    let value = x.value().relu();
    let y = x.custom(value, value.at_least(same(1e-9)) * value);
    y.backward()?;
    Ok((vec![y.value()], vec![x.grad()?]))
}

#[test]
fn a_wrong_op_is_noticed() {
    let case = CASES
        .iter()
        .find(|case| case.formula == "[x[0].relu()]")
        .unwrap();
    let plain = faults_of_case::<f64>(0, case, tape_with_a_wrong_op);
    assert_eq!(plain, ["at [3.0]: expected [3.0] [1.0], found [3.0] [3.0]"]);
    // Three rows in four lanes, rotated three times: each row stands in four lanes.
    assert_eq!(
        faults_of_case::<Lanes<f64, 4>>(0, case, tape_with_a_wrong_op),
        vec![plain[0].clone(); 4]
    );
    let batch = faults_of_batch::<f32>(0, case, |_, points, _| {
        Ok((points.to_vec(), points.to_vec()))
    });
    assert_eq!(batch.len(), 4);
    assert!(!is_near::<f64>(1.0, 1.0 + 1e-11) && is_near::<f32>(1.0, 1.0 + 1e-7));
    assert!(
        !is_near::<f64>(NAN, 0.0) && !is_near::<f64>(INF, -INF) && !are_near::<f64>(&[], &[0.0])
    );
}

#[test]
#[should_panic(expected = "f09_roots_at_zero by nothing of f64: [S::norm(x)] at [0.0, 0.0]")]
fn faults_are_named() {
    assert_sound("nothing", "f64", |_, case| {
        fault_in_row::<f64>(&case.rows[0], &[], &[])
            .into_iter()
            .collect()
    });
}
