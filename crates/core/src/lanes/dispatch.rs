//! The entrance to code compiled for the machine's vectors: the one place of this crate that calls functions which some
//! machines cannot run.
#![allow(
    unsafe_code,
    reason = "calling a function with target features is unsafe; with AVX-512, exp and ln of 8 lanes of f64 take a quarter of \
              the time they take without"
)]

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

impl Level {
    /// What every machine of the compilation target has: SSE2 on x86-64, NEON on AArch64.
    #[must_use]
    pub const fn portable() -> Self {
        Self(Set::Portable)
    }

    /// The best of this machine.
    #[inline]
    #[must_use]
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if has_avx512() {
                return Self(Set::Avx512);
            }
            if has_avx2() {
                return Self(Set::Avx2);
            }
        }
        Self::portable()
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

    /// Runs `f`, compiled for this level; see [`dispatch`] for what that takes.
    #[inline(always)]
    pub fn run<R>(self, f: impl FnOnce() -> R) -> R {
        self.run_work(Closure(f))
    }

    /// Runs `work`, compiled for this level.
    #[inline(always)]
    pub(crate) fn run_work<W: Work>(self, work: W) -> W::Output {
        match self.0 {
            Set::Portable => work.run(),
            // SAFETY: such a level is made only after `has_avx2` found every feature the function is compiled for.
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => unsafe { with_avx2(work) },
            // SAFETY: such a level is made only after `has_avx512` found every feature the function is compiled for.
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => unsafe { with_avx512(work) },
        }
    }
}

/// Runs `f`, compiled for the best vectors of this machine: AVX-512, AVX2, or what every machine of the target has.
///
/// The result has the same bits at every level; only the time differs. One check of the machine costs about a
/// nanosecond, so pass whole loops over samples rather than single operations.
///
/// The compiler gains from a level only in code that it compiles *into* the entrance. All of this crate's arithmetic on
/// [`Lanes`](super::Lanes) and on variables is marked to be; of your own code a short closure is, and a function if
/// marked `#[inline(always)]`. So put what is long into such a function and let the closure do nothing but call it:
///
/// ```
/// use burtorch_core::lanes::{Lanes, dispatch};
/// use burtorch_core::{Error, Scalar, Tape};
///
/// #[inline(always)]
/// fn gradients(samples: &[Lanes<f64, 8>]) -> Result<Vec<Lanes<f64, 8>>, Error> {
///     let mut tape = Tape::new();
///     let mut gradients = Vec::new();
///     for &sample in samples {
///         tape.clear();
///         let x = tape.var(sample);
///         (x.softplus() * x).backward()?;
///         gradients.push(x.grad()?);
///     }
///     Ok(gradients)
/// }
///
/// let samples = [Lanes::from([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])];
/// let found = dispatch(|| gradients(&samples))?;
/// assert_eq!(found[0][0], 2.0_f64.ln());
/// # Ok::<(), Error>(())
/// ```
#[inline(always)]
pub fn dispatch<R>(f: impl FnOnce() -> R) -> R {
    Level::best().run(f)
}

/// What a closure is too long for: its `run`, marked `#[inline(always)]`, is compiled into the entrance whatever its length,
/// while a closure with long functions in it becomes a function of its own, which the level does not reach.
pub(crate) trait Work {
    /// What comes out.
    type Output;
    /// Does it. Mark implementations `#[inline(always)]`.
    fn run(self) -> Self::Output;
}

struct Closure<F>(F);

impl<R, F: FnOnce() -> R> Work for Closure<F> {
    type Output = R;

    #[inline(always)]
    fn run(self) -> R {
        (self.0)()
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
