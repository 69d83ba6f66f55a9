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

#[cfg(test)]
mod tests {
    use super::*;

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
