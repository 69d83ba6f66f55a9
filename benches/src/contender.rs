//! What is measured: one way to compute a gradient, and whether it is right.

use std::hint::black_box;

/// A value and a gradient.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) value: f64,
    pub(crate) gradient: Vec<f64>,
}

/// Who wrote the code that is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Author {
    /// Written out for this one graph, without any library.
    Hand,
    /// Another crate.
    Crate,
    /// Our crate.
    Ours,
}

/// One way to compute a gradient.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) author: Author,
    /// How many samples one call computes.
    pub(crate) samples: usize,
    /// What the second call computed, or why it could not. The second, because measured are calls that follow others.
    found: Found,
    /// Calls so many times. What the last call computed is read only if the flag says so, since reading takes time too.
    run: Box<dyn FnMut(u32, bool) -> Found>,
}

type Found = Result<Vec<Sample>, String>;

/// Contenders that compute the same, the hand-written one first.
pub(crate) struct Contest {
    /// What is right, by the hand-written code: contenders for several samples at once are checked in all of them.
    pub(crate) expected: Vec<Sample>,
    pub(crate) contenders: Vec<Contender>,
}

/// The largest difference from the reference, as a multiple of the largest number in it, or of 1.
const TOLERANCE: f64 = 1e-9;

impl Contender {
    fn with(
        name: &'static str,
        author: Author,
        mut run: impl FnMut(u32, bool) -> Found + 'static,
    ) -> Self {
        let found = run(2, true);
        Self {
            name,
            author,
            samples: found.as_ref().map_or(1, Vec::len),
            found,
            run: Box::new(run),
        }
    }

    /// A contender that computes `call` from `input` into `output`, all of which the compiler must take as unknown; `samples` reads
    /// what came out.
    pub(crate) fn new<I: 'static, O: 'static, V: 'static, E: std::fmt::Display>(
        name: &'static str,
        author: Author,
        input: I,
        mut output: O,
        mut call: impl FnMut(&I, &mut O) -> Result<V, E> + 'static,
        samples: impl Fn(&V, &O) -> Vec<Sample> + 'static,
    ) -> Self {
        Self::with(name, author, move |times, look| {
            let value = repeat(times, || call(black_box(&input), black_box(&mut output)))?;
            Ok(if look {
                samples(&value, &output)
            } else {
                Vec::new()
            })
        })
    }

    /// One sample of many inputs, which lie in memory, as does the gradient.
    pub(crate) fn of_many<const K: usize, E: std::fmt::Display + 'static>(
        name: &'static str,
        author: Author,
        input: [f64; K],
        call: impl FnMut(&[f64; K], &mut [f64; K]) -> Result<f64, E> + 'static,
    ) -> Self {
        Self::new(name, author, input, [0.0; K], call, |&value, gradient| {
            vec![Sample {
                value,
                gradient: gradient.to_vec(),
            }]
        })
    }

    /// One sample of few inputs, which are handed over by value, as is the result.
    pub(crate) fn of_few<const K: usize, E: std::fmt::Display>(
        name: &'static str,
        author: Author,
        input: [f64; K],
        mut call: impl FnMut([f64; K]) -> Result<(f64, [f64; K]), E> + 'static,
    ) -> Self {
        Self::with(name, author, move |times, look| {
            let (value, gradient) = repeat(times, || call(black_box(input)))?;
            if !look {
                return Ok(Vec::new());
            }
            let gradient = gradient.to_vec();
            Ok(vec![Sample { value, gradient }])
        })
    }

    /// Computes so many times, at least once, what is to be measured.
    pub(crate) fn run(&mut self, times: u32) {
        // It was looked at when the contender was made.
        _ = (self.run)(times, false);
    }

    /// What is wrong with what this computed, if anything is.
    pub(crate) fn fault(&self, expected: &[Sample]) -> Option<String> {
        match &self.found {
            Err(error) => Some(error.clone()),
            Ok(found) if found.is_empty() || found.len() > expected.len() => Some(format!(
                "{} samples instead of {}",
                found.len(),
                expected.len()
            )),
            Ok(found) => found
                .iter()
                .zip(expected)
                .find_map(|(found, expected)| difference(found, expected)),
        }
    }
}

impl Contest {
    /// What is wrong with each contender.
    pub(crate) fn faults(&self) -> Vec<Option<String>> {
        let fault = |contender: &Contender| contender.fault(&self.expected);
        self.contenders.iter().map(fault).collect()
    }
}

/// Calls so many times, at least once, and returns the last result. There is one place that calls, so that the call can be inlined
/// there.
#[inline(always)]
fn repeat<R, E: std::fmt::Display>(
    times: u32,
    mut call: impl FnMut() -> Result<R, E>,
) -> Result<R, String> {
    let mut left = times;
    loop {
        let result = black_box(call());
        left = left.saturating_sub(1);
        if left == 0 {
            return result.map_err(|error| error.to_string());
        }
    }
}

/// The first difference of two samples, if they differ by more than rounding.
fn difference(found: &Sample, expected: &Sample) -> Option<String> {
    let named = |sample: &Sample| {
        let gradient = sample.gradient.iter().copied().enumerate();
        std::iter::once(("value".to_owned(), sample.value))
            .chain(gradient.map(|(i, x)| (format!("gradient [{i}]"), x)))
            .collect::<Vec<_>>()
    };
    if found.gradient.len() != expected.gradient.len() {
        return Some("a gradient of the wrong length".to_owned());
    }
    let largest = expected
        .gradient
        .iter()
        .fold(1.0, |a: f64, b| a.max(b.abs()));
    let accepted = TOLERANCE * largest.max(expected.value.abs());
    named(found)
        .into_iter()
        .zip(named(expected))
        .find(|((_, found), (_, expected))| {
            let apart = (found - expected).abs();
            apart.is_nan() || apart > accepted
        })
        .map(|((name, found), (_, expected))| format!("{name} {found} instead of {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contender(value: f64, gradient: [f64; 2]) -> Contender {
        Contender::of_few("trial", Author::Ours, gradient, move |input| {
            Ok::<_, String>((value, input))
        })
    }

    #[test]
    fn right_is_right_and_wrong_is_named() {
        let right = Sample {
            value: 1.0,
            gradient: vec![2.0, -3.0],
        };
        let fault =
            |value, gradient| contender(value, gradient).fault(std::slice::from_ref(&right));
        assert_eq!(fault(1.0, [2.0, -3.0]), None);
        assert_eq!(fault(1.0 + 1e-12, [2.0, -3.0]), None);
        assert_eq!(
            fault(1.5, [2.0, -3.0]),
            Some("value 1.5 instead of 1".to_owned())
        );
        assert_eq!(
            fault(1.0, [2.0, 3.0]),
            Some("gradient [1] 3 instead of -3".to_owned())
        );
        assert!(fault(f64::NAN, [2.0, -3.0]).is_some());
        assert!(fault(1.0, [2.0, f64::INFINITY]).is_some());
    }

    #[test]
    fn no_result_is_a_fault() {
        let failed = Contender::of_many("trial", Author::Ours, [0.0], |_, _| Err("out of paper"));
        let any = Sample {
            value: 0.0,
            gradient: vec![0.0],
        };
        assert_eq!(failed.fault(&[any]), Some("out of paper".to_owned()));
        assert!(contender(0.0, [0.0; 2]).fault(&[]).is_some());
    }

    #[test]
    fn it_runs_as_often_as_asked() {
        let count = std::rc::Rc::new(std::cell::Cell::new(0));
        let seen = count.clone();
        let mut counting = Contender::of_many("trial", Author::Ours, [0.0], move |_, _| {
            seen.set(seen.get() + 1);
            Ok::<_, String>(0.0)
        });
        counting.run(5);
        assert_eq!(count.get(), 7, "five times, and twice to check it");
    }

    #[test]
    fn what_is_right_only_once_is_wrong() {
        let mut sum = 0.0;
        let adding = Contender::of_many("trial", Author::Ours, [2.0], move |[x], gradient| {
            sum += x;
            gradient[0] = sum;
            Ok::<_, String>(*x)
        });
        let right = Sample {
            value: 2.0,
            gradient: vec![2.0],
        };
        let fault = adding.fault(&[right]);
        assert_eq!(fault, Some("gradient [0] 4 instead of 2".to_owned()));
    }
}
