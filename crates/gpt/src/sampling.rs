//! From logits to a token.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::Error;

/// How a token is drawn from logits: which tokens stay in play, and how bold the draw is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// The logits are divided by this: 0 always takes the most likely token (the first of several), 1 draws from the
    /// model's own distribution.
    pub temperature: f64,
    /// Only this many most likely tokens stay in play; 0 keeps all.
    pub top_k: usize,
    /// Only the most likely tokens that together reach this probability stay in play, at least one; 1 keeps all, 0 the most likely one. Applied behind
    /// `top_k`, to probabilities that sum to 1 again.
    pub top_p: f64,
}

impl Default for Sampling {
    /// The model's own distribution.
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
        }
    }
}

impl Sampling {
    /// Checks the ranges.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] unless the temperature is finite and at least 0 and `top_p` is from 0 to 1.
    pub fn validate(&self) -> Result<(), Error> {
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return Err(Error::setting(
                "--temperature",
                "a finite number of at least 0",
                self.temperature,
            ));
        }
        if !(0.0..=1.0).contains(&self.top_p) {
            return Err(Error::setting(
                "--top-p",
                "a number from 0 to 1",
                self.top_p,
            ));
        }
        Ok(())
    }
}

/// A token that is in play.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The token.
    pub token: u32,
    /// Its probability; those of all candidates sum to 1.
    pub probability: f64,
}

/// Draws tokens, one seeded stream of random numbers behind them; nothing is allocated after the first draw.
///
/// ```
/// use burtorch_gpt::sampling::{Sampler, Sampling};
///
/// let mut greedy = Sampler::new(Sampling { temperature: 0.0, ..Sampling::default() }, 1)?;
/// assert_eq!(greedy.draw(&[1.0, 3.0, 2.0])?, 1);
/// # Ok::<(), burtorch_gpt::Error>(())
/// ```
#[derive(Debug)]
pub struct Sampler {
    sampling: Sampling,
    random: ChaCha8Rng,
    candidates: Vec<Candidate>,
}

impl Sampler {
    /// A sampler with its own random stream.
    ///
    /// # Errors
    ///
    /// As [`Sampling::validate`].
    pub fn new(sampling: Sampling, seed: u64) -> Result<Self, Error> {
        sampling.validate()?;
        Ok(Self {
            sampling,
            random: ChaCha8Rng::seed_from_u64(seed),
            candidates: Vec::new(),
        })
    }

    /// The next token, given one logit per token.
    ///
    /// # Errors
    ///
    /// [`Error::Logits`] if a logit is not finite.
    pub fn draw(&mut self, logits: &[f32]) -> Result<u32, Error> {
        let uniform = (self.random.next_u64() >> 11) as f64 * (0.5_f64).powi(53); // [0, 1)
        Ok(pick(self.candidates(logits)?, uniform))
    }

    /// The tokens in play with their probabilities: in the order of the tokens, or most likely first where `top_k` or `top_p` had to look.
    ///
    /// # Errors
    ///
    /// As [`draw`](Self::draw).
    pub fn candidates(&mut self, logits: &[f32]) -> Result<&[Candidate], Error> {
        if let Some(token) = logits.iter().position(|logit| !logit.is_finite()) {
            return Err(Error::Logits {
                token,
                found: logits[token],
            });
        }
        let Sampling {
            temperature,
            top_k,
            top_p,
        } = self.sampling;
        if temperature == 0.0 {
            return Ok(self.only(largest(logits)));
        }
        self.weigh(logits, temperature);
        if (1..self.candidates.len()).contains(&top_k) {
            let least = top_k - 1;
            self.candidates
                .select_nth_unstable_by(least, most_likely_first);
            self.candidates.truncate(top_k);
            self.candidates.sort_unstable_by(most_likely_first);
        } else if top_p < 1.0 {
            self.candidates.sort_unstable_by(most_likely_first);
        }
        normalise(&mut self.candidates);
        if top_p < 1.0 {
            self.candidates.truncate(reaching(&self.candidates, top_p));
            normalise(&mut self.candidates);
        }
        Ok(&self.candidates)
    }

    /// One candidate that is certain.
    fn only(&mut self, token: usize) -> &[Candidate] {
        self.candidates.clear();
        self.candidates.push(Candidate {
            token: token as u32,
            probability: 1.0,
        });
        &self.candidates
    }

    /// Fills the candidates with `exp((logit − largest) / temperature)`, in f64: neither overflow nor 0/0 at any temperature.
    fn weigh(&mut self, logits: &[f32], temperature: f64) {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weight = |logit: f32| ((f64::from(logit) - f64::from(largest)) / temperature).exp();
        self.candidates.clear();
        let all = logits.iter().enumerate();
        self.candidates.extend(all.map(|(token, &logit)| Candidate {
            token: token as u32,
            probability: weight(logit),
        }));
    }
}

/// The first of the largest logits, 0 for none.
fn largest(logits: &[f32]) -> usize {
    let larger = |best, token| match logits[token] > logits[best] {
        true => token,
        false => best,
    };
    (0..logits.len()).reduce(larger).unwrap_or(0)
}

fn most_likely_first(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    b.probability
        .total_cmp(&a.probability)
        .then(a.token.cmp(&b.token))
}

fn normalise(candidates: &mut [Candidate]) {
    let sum: f64 = candidates.iter().map(|c| c.probability).sum();
    candidates.iter_mut().for_each(|c| c.probability /= sum);
}

/// How many of the first candidates it takes to reach the probability `share`: at least one, all for 1.
fn reaching(candidates: &[Candidate], share: f64) -> usize {
    if share >= 1.0 {
        return candidates.len();
    }
    let mut sum = 0.0;
    let below = candidates.iter().take_while(|candidate| {
        sum += candidate.probability;
        sum < share
    });
    (below.count() + 1).min(candidates.len())
}

/// The candidate in whose stretch of the unit interval `uniform` lies. Rounding may leave the sum below `uniform`; then it is the
/// last one that has a probability at all.
fn pick(candidates: &[Candidate], uniform: f64) -> u32 {
    let mut sum = 0.0;
    let mut token = 0;
    for candidate in candidates
        .iter()
        .filter(|candidate| candidate.probability > 0.0)
    {
        token = candidate.token;
        sum += candidate.probability;
        if uniform < sum {
            break;
        }
    }
    token
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOGITS: [f32; 3] = [1.0, 3.0, 2.0];

    fn sampler(temperature: f64, top_k: usize, top_p: f64) -> Sampler {
        Sampler::new(
            Sampling {
                temperature,
                top_k,
                top_p,
            },
            1,
        )
        .unwrap()
    }

    fn probabilities(temperature: f64, top_k: usize, top_p: f64, logits: &[f32]) -> Vec<f64> {
        let mut probabilities = vec![0.0; logits.len()];
        for candidate in sampler(temperature, top_k, top_p)
            .candidates(logits)
            .unwrap()
        {
            probabilities[candidate.token as usize] = candidate.probability;
        }
        probabilities
    }

    fn close(found: &[f64], expected: &[f64]) -> bool {
        found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|(a, b)| (a - b).abs() < 1e-6)
    }

    #[test]
    fn the_helper_can_fail() {
        assert!(!close(&[0.5, 0.5], &[0.5, 0.6]));
        assert!(!close(&[0.5], &[0.5, 0.5]));
    }

    #[test]
    fn f38_temperature() {
        for temperature in [0.0, 1e-3, 1e-40, f64::MIN_POSITIVE] {
            assert!(
                close(
                    &probabilities(temperature, 0, 1.0, &LOGITS),
                    &[0.0, 1.0, 0.0]
                ),
                "{temperature}"
            );
            assert_eq!(sampler(temperature, 0, 1.0).draw(&LOGITS).unwrap(), 1);
        }
        assert_eq!(sampler(0.0, 0, 1.0).draw(&[2.0, 2.0]).unwrap(), 0);
        for temperature in [-1.0, f64::NAN, f64::INFINITY] {
            let error = Sampler::new(
                Sampling {
                    temperature,
                    ..Sampling::default()
                },
                1,
            )
            .unwrap_err();
            assert!(
                error.is_usage() && error.to_string().starts_with("--temperature"),
                "{error}"
            );
        }
    }

    #[test]
    fn f38_top_k() {
        let all = [0.0900306, 0.6652410, 0.2447285];
        for (k, expected) in [
            (0, all),
            (1, [0.0, 1.0, 0.0]),
            (3, all),
            (10, all),
            (usize::MAX, all),
        ] {
            assert!(
                close(&probabilities(1.0, k, 1.0, &LOGITS), &expected),
                "{k}"
            );
        }
        assert!(close(&probabilities(1.0, 1, 1.0, &[2.0, 2.0]), &[1.0, 0.0]));
        let half = 0.6652410 + 0.2447285;
        assert!(close(
            &probabilities(1.0, 2, 1.0, &LOGITS),
            &[0.0, 0.6652410 / half, 0.2447285 / half]
        ));
    }

    #[test]
    fn f39_top_p() {
        let logits: Vec<f32> = [0.5_f32, 0.3, 0.15, 0.05].iter().map(|p| p.ln()).collect();
        for (top_p, kept) in [(0.0, 1), (1e-9, 1), (0.6, 2), (0.85, 3), (1.0, 4)] {
            let found = probabilities(1.0, 0, top_p, &logits);
            let count = found.iter().filter(|p| **p > 0.0).count();
            assert_eq!(count, kept, "{top_p}: {found:?}");
            assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
        for top_p in [1.5, -0.1, f64::NAN] {
            let error = Sampler::new(
                Sampling {
                    top_p,
                    ..Sampling::default()
                },
                1,
            )
            .unwrap_err();
            assert!(
                error.is_usage() && error.to_string().starts_with("--top-p"),
                "{error}"
            );
        }
    }

    #[test]
    fn f39_a_draw_close_to_one_returns_a_kept_token() {
        let of = |token, probability| Candidate { token, probability };
        let short = [of(4, 0.3), of(7, 0.6999994), of(2, 0.0)];
        assert_eq!(pick(&short, 1.0 - f64::EPSILON / 2.0), 7);
        assert_eq!(pick(&short, 0.0), 4);
        assert_eq!(pick(&short, 0.3), 7);
    }

    #[test]
    fn f34_the_seed_decides() {
        let draws = |seed| {
            let mut sampler = Sampler::new(Sampling::default(), seed).unwrap();
            (0..50)
                .map(|_| sampler.draw(&[0.0; 9]).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
    }

    #[test]
    fn logits_that_are_no_numbers_are_an_error() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let error = sampler(1.0, 0, 1.0).draw(&[0.0, bad]).unwrap_err();
            assert!(error.to_string().contains("for token 1"), "{error}");
        }
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let mut sampler = sampler(1.0, 0, 1.0);
        let hits = (0..20_000)
            .filter(|_| sampler.draw(&LOGITS).unwrap() == 1)
            .count();
        assert!((hits as f64 / 20_000.0 - 0.665_241).abs() < 0.01, "{hits}");
    }

    proptest! {
        #[test]
        fn whatever_the_settings_a_kept_token_is_drawn(
            logits in proptest::collection::vec(-1e30_f32..1e30, 1..30),
            temperature in 0.0..5.0,
            top_k in 0_usize..40,
            top_p in 0.0..=1.0,
        ) {
            let mut sampler = sampler(temperature, top_k, top_p);
            let token = sampler.draw(&logits).unwrap();
            let kept = sampler.candidates(&logits).unwrap();
            prop_assert!(kept.iter().any(|candidate| candidate.token == token && candidate.probability > 0.0));
            prop_assert!((kept.iter().map(|candidate| candidate.probability).sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }
}
