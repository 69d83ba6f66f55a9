//! Lanes on tapes and in dual numbers; groups and levels that do not show in the bits.

use burtorch_core::lanes::{Lanes, Level, Work, dispatch, per_sample_grads, value_and_grad_batch};
use burtorch_core::{Dual, Error, Float, Scalar, Tape, value_and_grad};

/// One formula through most ops; its branches fall differently from sample to sample.
#[inline(always)]
fn formula<S: Scalar>(x: &[S]) -> S {
    let c = |x: f64| S::Primal::from_f64(x);
    let mut weights = [x[0]; 3];
    S::softmax(&x[..3], &mut weights);
    let a = x[0].tanh() * x[1].sigmoid() + x[2].softplus() - x[1].log_sigmoid();
    let b = (x[0].exp_m1() + x[1].square().ln_1p()).max(x[2].sin() * c(3.0));
    let d = x[1].select(x[0].erf(), x[2].gelu() + x[0].gelu_tanh()) + x[2].abs().rsqrt();
    let sums =
        S::dot(&weights, x) + S::logsumexp(x) * S::norm(x) + S::variance(x) / S::mean_of_squares(x);
    a + b * weights[1] + d.powi(2) + sums + x[0].relu() + x[0].abs().pow(x[1].exp())
        - S::product(x).cos()
}

fn points<F: Float>(count: usize) -> Vec<F> {
    (0..count * 3)
        .map(|i| F::from_f64(((i * 7919 + 13) % 1009) as f64 / 200.0 - 2.5))
        .collect()
}

#[track_caller]
fn assert_near<F: Float>(found: &[F], expected: &[F]) {
    assert_eq!(found.len(), expected.len());
    let tolerance = F::EPSILON.to_f64() * 400.0;
    for (found, expected) in found.iter().zip(expected) {
        let (found, expected) = (found.to_f64(), expected.to_f64());
        assert!(
            (found - expected).abs() <= tolerance * expected.abs().max(1.0),
            "{found:e}, expected {expected:e}"
        );
    }
}

fn lanes_give_what_plain_numbers_do<F: Float>() {
    let points = points::<F>(37);
    let (values, gradients) = value_and_grad_batch::<8, _, _>(|x| formula(x), &points, 3).unwrap();
    for (i, point) in points.chunks(3).enumerate() {
        let (value, gradient) = value_and_grad(|x| formula(x), point).unwrap();
        assert_near(&values[i..=i], &[value]);
        assert_near(&gradients[i * 3..][..3], &gradient);
        assert_near(&[formula(point)], &[value]);
    }
}

#[test]
fn lanes_give_what_plain_numbers_do_in_f32_and_f64() {
    lanes_give_what_plain_numbers_do::<f32>();
    lanes_give_what_plain_numbers_do::<f64>();
}

/// Not by tolerance: the bits must be equal, in other places, beside other samples, and alone.
#[test]
fn groups_do_not_show() {
    let points = points::<f64>(41);
    let run = |points: &[f64]| value_and_grad_batch::<8, _, _>(|x| formula(x), points, 3).unwrap();
    let (values, gradients) = run(&points);
    let tails = (1..8).map(|first| (first, 41 - first));
    for (first, count) in tails.chain((0..41).map(|alone| (alone, 1))) {
        let found = run(&points[first * 3..][..count * 3]);
        assert_eq!(found.0, values[first..][..count]);
        assert_eq!(found.1, gradients[first * 3..][..count * 3]);
    }
}

/// Nor does the number of lanes. With each of them all ops are compiled anew for each level, so there are few of both: two fill an SSE2
/// register, three leave one unfilled, sixteen take two of AVX-512.
#[test]
fn numbers_of_lanes_do_not_show() {
    fn formula<S: Scalar>(x: &[S]) -> S {
        S::logsumexp(x).max(x[0].tanh()) * S::dot(x, x)
    }
    let points = points::<f64>(41);
    let expected = value_and_grad_batch::<2, _, _>(|x| formula(x), &points, 3);
    let by_three = value_and_grad_batch::<3, _, _>(|x| formula(x), &points, 3);
    let by_sixteen = value_and_grad_batch::<16, _, _>(|x| formula(x), &points, 3);
    assert_eq!((by_three, by_sixteen), (expected.clone(), expected));
}

/// The formula as a piece of work: a closure of this length would not be compiled for the level.
struct Formula<'a, F>(&'a [Lanes<F, 8>; 3]);

impl<F: Float> Work for Formula<'_, F> {
    type Output = Lanes<F, 8>;

    #[inline(always)]
    fn run(self) -> Lanes<F, 8> {
        formula(self.0)
    }
}

fn levels_agree_with_the_tape<F: Float>() {
    let points = points::<F>(8);
    let x = [0, 1, 2].map(|column| Lanes::from_fn(|lane| points[lane * 3 + column]));
    let (expected, _) = value_and_grad(|x| formula(x), &x).unwrap();
    for level in Level::available() {
        assert_eq!(level.run(Formula(&x)), expected, "{level:?}");
    }
    assert_eq!(dispatch(|| formula(&x)), expected);
}

#[test]
fn levels_do_not_show() {
    assert_eq!(Level::available().next(), Some(Level::portable()));
    assert!(Level::available().any(|level| level == Level::best()));
    levels_agree_with_the_tape::<f32>();
    levels_agree_with_the_tape::<f64>();
}

#[test]
fn per_sample_gradients_of_shared_parameters() {
    let samples = points::<f64>(19);
    let parameters = [0.3, -0.7, 1.1];
    let loss = |w: &[f64], x: &[f64]| {
        value_and_grad(
            |w| (w[0] * x[0] + w[1] * x[1].tanh() + w[2]).softplus() - w[0] * x[2],
            w,
        )
        .unwrap()
    };
    let (losses, gradients) = per_sample_grads::<4, _, _>(
        |w, x| (w[0] * x[0] + w[1] * x[1].tanh() + w[2]).softplus() - w[0] * x[2],
        &parameters,
        &samples,
        3,
    )
    .unwrap();
    for (i, sample) in samples.chunks(3).enumerate() {
        let (value, gradient) = loss(&parameters, sample);
        assert_near(&[losses[i]], &[value]);
        assert_near(&gradients[i * 3..][..3], &gradient);
    }
}

#[test]
fn batches_of_odd_shapes() {
    let run =
        |points: &[f64], width| value_and_grad_batch::<4, _, _>(|x| x[0] * x[0], points, width);
    assert_eq!(run(&[], 1), Ok((vec![], vec![])));
    assert_eq!(run(&[3.0], 1), Ok((vec![9.0], vec![6.0])));
    assert_eq!(
        run(&[3.0; 5], 2),
        Err(Error::UnevenRows { width: 2, found: 5 })
    );
    assert_eq!(run(&[], 0), Err(Error::UnevenRows { width: 0, found: 0 }));
    let constant = value_and_grad_batch::<4, _, _>(|x| x[0].constant_like(7.0), &[1.0, 2.0], 1);
    assert_eq!(constant, Ok((vec![7.0; 2], vec![0.0; 2])));
    let mismatch = value_and_grad_batch::<4, _, _>(|x| Scalar::dot(x, &x[1..]), &[1.0, 2.0], 2);
    assert!(matches!(mismatch, Err(Error::LengthMismatch { .. })));
}

#[test]
fn dual_numbers_of_lanes_and_lanes_on_tapes_of_duals() {
    let at = [0.5, 1.5, -0.5, 2.5];
    let f = |x: Dual<Lanes<f64, 4>>| x.tanh() * x.softplus();
    let y = f(Dual::new(Lanes::from(at), Lanes::splat(1.0)));
    let tape = Tape::new();
    let x = tape.var(Dual::new(Lanes::from(at), Lanes::splat(1.0)));
    (x.tanh() * x.softplus()).backward().unwrap();
    for (i, &at) in at.iter().enumerate() {
        let alone = Dual::new(at, 1.0);
        let alone = alone.tanh() * alone.softplus();
        assert_near(&[y.value[i], y.tangent[i]], &[alone.value, alone.tangent]);
        assert_near(&[x.grad().unwrap().value[i]], &[alone.tangent]);
    }
}

#[test]
fn plain_numbers_stand_on_either_side() {
    let mut x = Lanes::from([1.0_f32, 4.0]);
    assert_eq!((2.0 * x + 1.0 - x / 2.0).to_array(), [2.5, 7.0]);
    assert_eq!((8.0 / x - 1.0).to_array(), [7.0, 1.0]);
    assert_eq!((1.0 + x - -x).to_array(), [3.0, 9.0]);
    x += 1.0;
    x *= x;
    x[1] -= 20.0;
    assert_eq!(<[f32; 2]>::from(x), [4.0, 5.0]);
    assert_eq!(format!("{x:?}"), "[4.0, 5.0]");
    assert_eq!(
        (x.primal(), Lanes::<f32, 2>::default()),
        (4.0, Lanes::splat(0.0))
    );
}

#[test]
fn what_all_lanes_have_in_common() {
    let mixed = Lanes::from([1.0, -1.0, f64::NAN]);
    assert!(Lanes::from([0.0, -0.0]).is_zero() && !mixed.is_zero());
    assert_eq!(
        (
            mixed.all_positive(),
            Lanes::from([1.0_f32; 2]).all_positive()
        ),
        (None, None)
    );
    assert_eq!(
        mixed.at_least(Lanes::splat(0.0)).to_array(),
        [1.0, 0.0, 1.0]
    );
    let outer = Lanes::from([0.0, 2.0, 0.0]);
    assert_eq!(
        Lanes::from([f64::INFINITY, 3.0, f64::NAN])
            .chain(outer)
            .to_array(),
        [0.0, 6.0, 0.0]
    );
}

/// Constants that have met no tape hold one number; those on a tape may hold different ones.
#[test]
fn constants_with_and_without_a_tape() {
    type Pair = Lanes<f64, 2>;
    let (tape, other) = (Tape::new(), Tape::new());
    let x = tape.var(Pair::from([1.0, 2.0]));
    let free = x.constant_like(3.0);
    let here = tape.constant(Pair::from([10.0, 20.0]));
    let there = other.constant(Pair::from([5.0, 7.0]));
    let y = (free.square() + 1.0) * x + here * free.stop_gradient() - there * x.stop_gradient();
    y.backward().unwrap();
    assert_eq!(
        y.value().to_array(),
        [10.0 + 30.0 - 5.0, 20.0 + 60.0 - 14.0]
    );
    assert_eq!(x.grad().unwrap(), Pair::splat(10.0));

    assert_eq!((free - here).value().to_array(), [-7.0, -17.0]);
    assert_eq!((here - free).max(free).value().to_array(), [7.0, 17.0]);
    assert_eq!(free.at_least(here).value(), Pair::splat(0.0));
    assert_eq!(Scalar::sum(&[free, free]).value(), Pair::splat(6.0));
    let one = Pair::splat(1.0);
    assert_eq!(free.custom(Pair::splat(8.0), one).value(), Pair::splat(8.0));
    let different = free.custom(Pair::from([8.0, 9.0]), one).value();
    assert!(different.as_slice().iter().all(|x| x.is_nan()));
    let on_tape = here.custom(Pair::from([8.0, 9.0]), one).value();
    assert_eq!(on_tape.to_array(), [8.0, 9.0]);
}

#[test]
fn handles_of_lanes_keep_value_and_slope() {
    let tape = Tape::new();
    let x = tape.var(Lanes::from([1.0, 4.0]));
    let handles: Vec<_> = (1..2000).map(|i| x.sqrt() * f64::from(i)).collect();
    let retained = handles[1].retain();
    (handles[2] * retained).backward().unwrap(); // 3√x · 2√x
    assert_eq!(handles[1998].value().to_array(), [1999.0, 3998.0]);
    assert_eq!(x.grad().unwrap().to_array(), [6.0, 6.0]);
    assert_eq!(retained.grad().unwrap().to_array(), [3.0, 6.0]);
    assert_eq!(
        format!("{:?}", handles[0]),
        "Var([1.0, 2.0], node 1, slope [0.5, 0.25])"
    );
}

#[test]
fn a_cleared_tape_keeps_its_memory() {
    let mut tape = Tape::new();
    let mut bytes = 0;
    for round in 0..5 {
        tape.clear();
        let x = tape.var(Lanes::from([0.5_f32, 1.5, 2.5, 3.5]));
        let mut y = x;
        for _ in 0..1000 {
            y = (y * x).tanh() + x;
        }
        y.backward().unwrap();
        if round > 0 {
            assert_eq!(tape.bytes(), bytes);
        }
        bytes = tape.bytes();
    }
    assert!(bytes > 1000 * 4 * size_of::<Lanes<f32, 4>>());
}

/// A constant that has met no tape holds one number; what becomes of it may differ from lane to lane.
#[test]
fn constants_become_what_each_lane_makes_of_them() {
    fn chosen<S: Scalar>(x: &[S]) -> S {
        let c = |x: f64| S::constant(S::Primal::from_f64(x));
        let step = x[0].select(c(1.0), c(-1.0)) * x[1];
        let mut weights = [c(0.0); 3];
        S::softmax(&[c(0.25), x[1], c(0.5)], &mut weights);
        let mut fixed = [c(0.0); 2];
        S::softmax(&[c(1.0), x[0].stop_gradient()], &mut fixed);
        step + weights[0] * weights[2] * x[0] + fixed[0] * x[1]
    }
    let points = points::<f64>(11);
    let (values, gradients) = value_and_grad_batch::<8, _, _>(|x| chosen(x), &points, 3).unwrap();
    for (i, point) in points.chunks(3).enumerate() {
        let (value, gradient) = value_and_grad(|x| chosen(x), point).unwrap();
        assert_near(&values[i..=i], &[value]);
        assert_near(&gradients[i * 3..][..3], &gradient);
    }
}

/// The partial derivatives of ops are formulas that choose between constants, and a tape of tapes records them.
#[test]
fn second_derivatives_of_choices_on_tapes_of_lanes() {
    let inner = Tape::new();
    let outer = Tape::new();
    let x = inner.var(Lanes::from([1.5, -2.0, 0.5]));
    let y = outer.var(x);
    let zero = Scalar::constant(0.0);
    let z = y * (y.relu() + y.abs() * y + y.max(zero));
    z.backward().unwrap();
    let slope = y.grad().unwrap(); // 2y + 2y + 3y² where y > 0, −3y² elsewhere
    assert_eq!(slope.value().to_array(), [12.75, -12.0, 2.75]);
    slope.backward().unwrap();
    assert_eq!(x.grad().unwrap().to_array(), [13.0, 12.0, 7.0]);
}
