//! The entrance to code compiled for the machine's vectors: the one place of this crate that calls functions which some
//! machines cannot run.
#![allow(
    unsafe_code,
    reason = "calling a function with target features is unsafe; with AVX-512, exp and ln of 8 lanes of f64 take a quarter of \
              the time they take without"
)]

use std::sync::atomic::{AtomicU8, Ordering};

use crate::Error;

/// A set of vector instructions that this machine has.
///
/// ```
/// use burtorch_core::Scalar;
/// use burtorch_core::lanes::{Lanes, Level};
///
/// let x = Lanes::from([0.5_f32, 1.0, 2.0, 4.0]);
/// for level in Level::available() {
///     assert_eq!(level.run(|| x.tanh()), x.tanh(), "{level:?}"); // the same bits everywhere
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(Set);

/// Kept private, so that a [`Level`] is proof that the machine was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// What [`Level::ask`] found or [`Level::limit`] asked for: ops on tapes ask for the level each time, and a byte is read in a third of the time that six features
/// take.
static BEST: AtomicU8 = AtomicU8::new(0);
const PORTABLE: u8 = 1;
#[cfg(target_arch = "x86_64")]
const AVX2: u8 = 2;
#[cfg(target_arch = "x86_64")]
const AVX512: u8 = 3;
/// Added to what [`Level::limit`] was asked for.
const LIMIT: u8 = 16;

impl Level {
    /// What every machine of the compilation target has: SSE2 on x86-64, NEON on AArch64.
    #[must_use]
    pub const fn portable() -> Self {
        Self(Set::Portable)
    }

    /// The best of this machine, or the one that [`limit`](Self::limit) asked for.
    #[inline(always)]
    #[must_use]
    pub fn best() -> Self {
        Self(match BEST.load(Ordering::Relaxed) & !LIMIT {
            #[cfg(target_arch = "x86_64")]
            AVX512 => Set::Avx512,
            #[cfg(target_arch = "x86_64")]
            AVX2 => Set::Avx2,
            PORTABLE => Set::Portable,
            _ => Self::ask(),
        })
    }

    /// Asks the machine, and notes its answer.
    #[cold]
    #[inline(never)]
    fn ask() -> Set {
        let best = Self::available().last().unwrap_or(Self::portable());
        // A limit that was asked for meanwhile stays.
        let (relaxed, asked) = (Ordering::Relaxed, best.0 as u8 + PORTABLE);
        match BEST.compare_exchange(0, asked, relaxed, relaxed) {
            Ok(_) => best.0,
            Err(_) => Self::best().0,
        }
    }

    /// Makes this level the [`best`](Self::best) in the whole process: for [`dispatch`], tapes and programs of lanes, and the kernels of
    /// `burtorch-tensor`, whose last digits differ from level to level.
    ///
    /// It is for programs that time a level or test it, and belongs at their beginning: numbers that one level has laid out for itself
    /// mean something else to another. Nothing in these libraries calls it.
    ///
    /// ```standalone_crate
    /// use burtorch_core::lanes::Level;
    ///
    /// Level::portable().limit()?;
    /// assert_eq!(Level::best(), Level::portable());
    /// for other in Level::available().skip(1) {
    ///     assert!(other.limit().is_err());
    /// }
    /// # Ok::<(), burtorch_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::SimdLevelInUse`] if another level has been used already.
    pub fn limit(self) -> Result<(), Error> {
        let relaxed = Ordering::Relaxed;
        match BEST.compare_exchange(0, self.as_limit(), relaxed, relaxed) {
            Err(_) if Self::best() != self => Err(Error::SimdLevelInUse {
                used: Self::best().name(),
                asked: self.name(),
            }),
            _ => Ok(()),
        }
    }

    /// What is noted in `BEST` when this level was asked for.
    fn as_limit(self) -> u8 {
        (self.0 as u8 + PORTABLE) | LIMIT
    }

    /// What [`limit`](Self::limit) asked for, if anything; from now on it asks in vain.
    #[inline(always)]
    #[must_use]
    pub fn limited() -> Option<Self> {
        let best = Self::best();
        (BEST.load(Ordering::Relaxed) & LIMIT != 0).then_some(best)
    }

    /// `portable`, `avx2` or `avx512`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            Set::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "avx512",
        }
    }

    /// The level of this [`name`](Self::name).
    ///
    /// # Errors
    ///
    /// [`Error::SimdLevel`] if this machine has none of that name.
    ///
    /// ```
    /// use burtorch_core::lanes::Level;
    ///
    /// assert_eq!(Level::named("portable"), Ok(Level::portable()));
    /// let problem = Level::named("avx3").unwrap_err().to_string();
    /// assert!(problem.starts_with("expected a SIMD level of this machine (portable"));
    /// ```
    pub fn named(name: &str) -> Result<Self, Error> {
        let names = || Self::available().map(Self::name).collect::<Vec<_>>();
        let found = Self::available().find(|level| level.name() == name);
        found.ok_or_else(|| Error::SimdLevel {
            found: name.to_owned(),
            available: names().join(", "),
        })
    }

    /// All levels of this machine, the portable one first: to test one against the other.
    pub fn available() -> impl Iterator<Item = Self> {
        let portable = [Self::portable()].into_iter();
        #[cfg(target_arch = "x86_64")]
        let portable = portable
            .chain(has_avx2().then_some(Self(Set::Avx2)))
            .chain(has_avx512().then_some(Self(Set::Avx512)));
        portable
    }

    /// Runs `work`, compiled for this level; see [`dispatch`] for what that takes.
    #[inline(always)]
    pub fn run<W: Work>(self, work: W) -> W::Output {
        match self.0 {
            Set::Portable => portable(work),
            // SAFETY: such a level is made only after `has_avx2` found every feature the function is compiled for.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => unsafe { with_avx2(work) },
            // SAFETY: such a level is made only after `has_avx512` found every feature the function is compiled for.
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => unsafe { with_avx512(work) },
        }
    }
}

/// Runs `work`, a closure or a [`Work`], compiled for the best vectors of this machine: AVX-512, AVX2, or what every machine of the
/// target has.
///
/// This is for arithmetic on [`Lanes`](super::Lanes) themselves. Tapes and programs of lanes enter on their own, op by op and loop by loop:
/// there is nothing to do for them, and nothing gained by recording in here.
///
/// The result has the same bits at every level; only the time differs. An entrance costs a nanosecond or two, so pass whole loops rather
/// than single operations.
///
/// ```
/// use burtorch_core::Scalar;
/// use burtorch_core::lanes::{Lanes, dispatch};
///
/// let samples = [Lanes::from([0.0, 1.0, 2.0, 3.0]), Lanes::from([4.0, 5.0, 6.0, 7.0])];
/// let total = dispatch(|| samples.iter().fold(Lanes::splat(0.0_f64), |sum, x| sum + x.sigmoid()));
/// assert_eq!(total[0], 0.5 + 4.0_f64.sigmoid());
/// ```
///
/// The level is that of the code which the compiler compiles *into* the entrance. A closure is only if the compiler finds it short; what
/// is longer than a few operations goes into a [`Work`], which always is, as is what it calls if marked `#[inline(always)]` (all
/// operations of `Lanes` are). What was left out is right, but as slow as without. The clock tells: time the loop with
/// `Level::portable().run(…)` and `Level::best().run(…)` in turns.
#[inline(always)]
pub fn dispatch<W: Work>(work: W) -> W::Output {
    Level::best().run(work)
}

/// Something to run in [`dispatch`] that is too long for a closure: a struct of what it needs, whose [`run`](Self::run) is marked
/// `#[inline(always)]`.
///
/// Such a function is compiled into the entrance whatever its length. A long closure may become a function of its own, which the
/// level does not reach: the results are the same, but slow.
///
/// ```
/// use burtorch_core::Scalar;
/// use burtorch_core::lanes::{Lanes, Work, dispatch};
///
/// struct Softplus<'a>(&'a mut [Lanes<f32, 16>]);
///
/// impl Work for Softplus<'_> {
///     type Output = ();
///
///     #[inline(always)]
///     fn run(self) {
///         for x in self.0 {
///             *x = x.softplus();
///         }
///     }
/// }
///
/// let mut numbers = [Lanes::splat(0.0); 3];
/// dispatch(Softplus(&mut numbers));
/// assert_eq!(numbers[2][15], 2.0_f32.ln());
/// ```
pub trait Work {
    /// What comes out.
    type Output;
    /// Does it. Mark implementations `#[inline(always)]`.
    #[track_caller]
    fn run(self) -> Self::Output;
}

impl<R, F: FnOnce() -> R> Work for F {
    type Output = R;

    #[inline(always)]
    fn run(self) -> R {
        self()
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2")
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx512() -> bool {
    has_avx2()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// Out of line, as the others are: a user's function is not to hold the work of all its ops at a level that is not used.
#[inline(never)]
fn portable<W: Work>(work: W) -> W::Output {
    work.run()
}

/// Not compiled with FMA: nothing here uses it, so that every level gives the same bits.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2")]
fn with_avx2<W: Work>(work: W) -> W::Output {
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
fn with_avx512<W: Work>(work: W) -> W::Output {
    work.run()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::{Lanes, value_and_grad_batch};
    use crate::{Scalar, Var};

    /// Results and gradients of ops of every kind.
    fn by_tape() -> (Vec<f64>, Vec<f64>) {
        let points: Vec<f64> = (0..60)
            .map(|i| f64::from(i * 37 % 61) * 0.1 - 3.0)
            .collect();
        fn formula<'t>(x: &[Var<'t, Lanes<f64, 4>>]) -> Var<'t, Lanes<f64, 4>> {
            let sums = Scalar::sum(x) + Scalar::logsumexp(x) * Scalar::dot(&x[1..], &x[..2]);
            let entry = Scalar::softmax_at(x, 1) - x[0].max(x[2]).tanh();
            (sums * entry).softplus() / (x[1].exp() + 2.0)
        }
        value_and_grad_batch(formula, &points, 3).unwrap()
    }

    /// Other tests may run meanwhile: nothing they compute depends on the level either.
    #[test]
    fn tapes_give_the_same_bits_at_every_level() {
        let expected = by_tape();
        assert_eq!(Level::limited(), None);
        let best = Level::best();
        assert_eq!(Some(best), Level::available().last());
        for level in Level::available() {
            BEST.store(level.as_limit(), Ordering::Relaxed);
            assert_eq!((Level::best(), Level::limited()), (level, Some(level)));
            assert_eq!(by_tape(), expected, "{level:?}");
        }
        BEST.store(0, Ordering::Relaxed);
        assert_eq!((Level::best(), Level::limited()), (best, None));
    }

    #[test]
    fn levels_are_found_by_their_names() {
        for level in Level::available() {
            assert_eq!(Level::named(level.name()), Ok(level));
        }
        let problem = Level::named("AVX2").unwrap_err().to_string();
        assert!(problem.ends_with("found `AVX2`"), "{problem}");
    }
}
