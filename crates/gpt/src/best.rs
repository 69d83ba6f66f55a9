//! Which step's model predicted the validation text best so far, and whether those after it get worse.

use crate::metrics::Line;

/// The lowest validation loss of a run.
///
/// ```
/// use burtorch_gpt::best::Best;
///
/// let mut best = Best::default();
/// assert!(best.note(100, 2.5) && best.note(200, 2.0) && !best.note(300, 2.1));
/// assert_eq!((best.found(), best.since()), (Some((200, 2.0)), 1));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Best {
    found: Option<(u64, f64)>,
    since: u64,
}

impl Best {
    /// From the lines of a run.
    #[must_use]
    pub fn of(lines: &[Line]) -> Self {
        let mut best = Self::default();
        for line in lines {
            if let Some(loss) = line.val_loss {
                best.note(line.step, loss);
            }
        }
        best
    }

    /// Takes an evaluation into account: the validation loss `loss` behind step `step`. Says whether it is the lowest so far.
    pub fn note(&mut self, step: u64, loss: f64) -> bool {
        let lower = self.found.is_none_or(|(_, lowest)| loss < lowest);
        if lower {
            *self = Self {
                found: Some((step, loss)),
                since: 0,
            };
        } else {
            self.since += 1;
        }
        lower
    }

    /// The step with the lowest validation loss, the first of several, and that loss in nats per token.
    #[must_use]
    pub fn found(&self) -> Option<(u64, f64)> {
        self.found
    }

    /// Evaluations since then.
    #[must_use]
    pub fn since(&self) -> u64 {
        self.since
    }
}

/// Evaluations without a lower validation loss that are worth a word.
const PATIENCE: u64 = 3;

/// How many times the loss on the text it learns a model's validation loss is when it knows that text better than others.
const AHEAD: f64 = 1.05;

/// Notices when a model gets worse on other text while it knows the text it learns better: once for each lowest loss.
#[derive(Debug, Default)]
pub(crate) struct Overfitting {
    noticed: Option<(u64, f64)>,
}

impl Overfitting {
    /// Whether it is seen for the first time, by an evaluation that `best` has taken into account and the mean loss of the last steps.
    pub(crate) fn begins(&mut self, best: &Best, validation: f64, training: f64) -> bool {
        let begins =
            best.since >= PATIENCE && validation > AHEAD * training && best.found != self.noticed;
        if begins {
            self.noticed = best.found;
        }
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overfitting_is_noticed_once_and_not_missed() {
        let (mut best, mut overfitting) = (Best::default(), Overfitting::default());
        let mut evaluate = |step, validation, training| {
            best.note(step, validation);
            overfitting.begins(&best, validation, training)
        };
        // A plateau is none, however long; what follows it is.
        let plateau = (1..9).any(|step| evaluate(step, 2.0, 2.0));
        assert!(!plateau);
        assert!(evaluate(9, 2.1, 1.9) && !evaluate(10, 2.2, 1.8));
        // After a lower loss it may begin anew.
        let again = [(11, 1.9), (12, 2.0), (13, 2.0), (14, 2.0), (15, 2.0)];
        let again = again.map(|(step, validation)| evaluate(step, validation, 1.5));
        assert_eq!(again, [false, false, false, true, false]);
    }

    #[test]
    fn the_first_of_the_lowest_counts() {
        let line = |step, val_loss| Line {
            step,
            loss: 0.0,
            lr: 0.0,
            grad_norm: 0.0,
            tokens_per_s: 0.0,
            ms: 0.0,
            val_loss,
            sample: None,
        };
        assert_eq!(Best::of(&[]), Best::default());
        let losses = [None, Some(3.0), Some(2.0), None, Some(2.0), Some(2.5)];
        let lines: Vec<Line> = (1..)
            .zip(losses)
            .map(|(step, loss)| line(step, loss))
            .collect();
        let best = Best::of(&lines);
        assert_eq!((best.found(), best.since()), (Some((3, 2.0)), 2));
    }
}
