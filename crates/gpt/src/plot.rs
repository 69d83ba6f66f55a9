//! Curves of runs: as a picture ([`svg`]) and in characters ([`terminal`]).

pub mod svg;
pub mod terminal;

use crate::metrics::Line;

/// The most points of a curve: more cannot be told apart in a picture.
const MOST_POINTS: usize = 500;

/// What a run is drawn from.
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    /// What the run is called in the picture.
    pub name: String,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// Points of a curve, step and value, at ascending steps.
type Points = Vec<(f64, f64)>;

impl Curves {
    /// Loss of the training batches in nats per token, averaged over neighbouring steps if there are more than a picture can show.
    #[must_use]
    pub fn training(&self) -> Points {
        self.averaged(|line| line.loss)
    }

    /// Validation loss in nats per token, at the steps that were evaluated.
    #[must_use]
    pub fn validation(&self) -> Points {
        let point = |line: &Line| Some((line.step as f64, line.val_loss?));
        self.lines.iter().filter_map(point).collect()
    }

    /// Learning rate, averaged as [`training`](Self::training).
    #[must_use]
    pub fn learning_rate(&self) -> Points {
        self.averaged(|line| line.lr)
    }

    /// Norm of the gradient before clipping, averaged as [`training`](Self::training).
    #[must_use]
    pub fn gradient_norm(&self) -> Points {
        self.averaged(|line| line.grad_norm)
    }

    /// Means over as many neighbouring steps as leave [`MOST_POINTS`] at most, each at the middle of its steps.
    fn averaged(&self, of: impl Fn(&Line) -> f64) -> Points {
        let group = self.lines.len().div_ceil(MOST_POINTS).max(1);
        let mean = |lines: &[Line], of: &dyn Fn(&Line) -> f64| {
            lines.iter().map(of).sum::<f64>() / lines.len() as f64
        };
        self.lines
            .chunks(group)
            .map(|lines| (mean(lines, &|line| line.step as f64), mean(lines, &of)))
            .collect()
    }
}

/// Whether a number has a place on an axis: the library that draws never ends where the length of one overflows.
fn is_drawable(x: f64) -> bool {
    x.abs() < 1e300
}

/// The smallest and the largest of some numbers, set apart if they are one; `None` without a finite number.
fn range(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = numbers.filter(|&x| is_drawable(x));
    let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
        (low.min(x), high.max(x))
    });
    let apart = |x: f64| x.abs().max(1.0) * 1e-3;
    match low <= high {
        true if low < high => Some((low, high)),
        true => Some((low - apart(low), high + apart(high))),
        false => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A run whose loss falls in a straight line to 2, from 4 at step 0, evaluated every 10 steps.
    pub(crate) fn falling(name: &str, steps: u64) -> Curves {
        let line = |step: u64| Line {
            step,
            loss: 4.0 - 2.0 * step as f64 / steps as f64,
            lr: 1e-3,
            grad_norm: 1.0 / step as f64,
            tokens_per_s: 1.0,
            ms: 1.0,
            val_loss: step.is_multiple_of(10).then(|| 2.5 + 1.0 / step as f64),
            sample: None,
        };
        Curves {
            name: name.into(),
            lines: (1..=steps).map(line).collect(),
        }
    }

    #[test]
    fn long_runs_are_averaged_and_short_ones_are_not() {
        let short = falling("a", 30);
        let exact: Points = short
            .lines
            .iter()
            .map(|l| (l.step as f64, l.loss))
            .collect();
        assert_eq!(short.training(), exact);
        assert_eq!(short.validation().len(), 3);
        let long = falling("a", 1000).training();
        let (step, loss) = long[0];
        assert_eq!((long.len(), step), (500, 1.5));
        assert!((loss - (4.0 - 2.0 * 1.5e-3)).abs() < 1e-12);
        assert!(falling("a", 0).training().is_empty());
    }

    #[test]
    fn a_range_is_never_empty() {
        assert_eq!(range([].into_iter()), None);
        assert_eq!(range([f64::NAN, 1.0, 3.0].into_iter()), Some((1.0, 3.0)));
        assert!(range([5.0].into_iter()).is_some_and(|(low, high)| low < 5.0 && high > 5.0));
    }
}
