//! Text from a model, token by token.

use burtorch_tensor::{Context, Engine, Indices, Params, Workspace};

use crate::Error;
use crate::model::Gpt;
use crate::sampling::{Sampler, Sampling};

/// Draws one token after another; each is predicted from at most the last `block_size` tokens.
pub struct Generator<'a, W> {
    model: &'a Gpt,
    params: &'a Params<f32>,
    workspace: &'a mut W,
    sampler: Sampler,
    /// The tokens the model sees: at least one, at most `block_size`.
    context: Vec<u32>,
}

impl<'a, W: Workspace<f32>> Generator<'a, W> {
    /// A generator that goes on from `prompt`, of which the last `block_size` tokens count, in the memory of `workspace`.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] for an empty prompt or impossible sampling settings.
    pub fn new(
        model: &'a Gpt,
        params: &'a Params<f32>,
        workspace: &'a mut W,
        prompt: &[u32],
        sampling: Sampling,
        seed: u64,
    ) -> Result<Self, Error> {
        let sampler = Sampler::new(sampling, seed)?;
        if prompt.is_empty() {
            return Err(Error::setting("--prompt", "at least one token", 0));
        }
        let skipped = prompt.len().saturating_sub(model.config().block_size);
        Ok(Self {
            model,
            params,
            workspace,
            sampler,
            context: prompt[skipped..].to_vec(),
        })
    }

    /// Draws the next token.
    ///
    /// # Errors
    ///
    /// [`Error::Logits`] if the model produced numbers that are none; [`Error::Tensor`] if the prompt held tokens outside the
    /// vocabulary.
    pub fn next_token(&mut self) -> Result<u32, Error> {
        let Self {
            model,
            params,
            workspace,
            sampler,
            context,
        } = self;
        let token = {
            let mut e = workspace.bind(
                params,
                Context {
                    indices: context,
                    ..Context::default()
                },
            );
            let logits = model.logits(&mut e, Indices::new(0, context.len()), 1)?;
            let values = e.value(logits).data; // [1, T, V]
            sampler.draw(&values[values.len() - model.config().vocab_size..])?
        };
        if context.len() == model.config().block_size {
            context.remove(0);
        }
        context.push(token);
        Ok(token)
    }

    /// Draws `count` tokens.
    ///
    /// # Errors
    ///
    /// As [`next_token`](Self::next_token).
    pub fn tokens(&mut self, count: usize) -> Result<Vec<u32>, Error> {
        (0..count).map(|_| self.next_token()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelConfig;
    use burtorch_tensor::{ScalarEngine, TensorEngine};

    fn model() -> (Gpt, Params<f32>) {
        let config = ModelConfig {
            block_size: 8,
            layers: 1,
            heads: 2,
            embed: 8,
            ..ModelConfig::small(11)
        };
        let mut params = Params::new();
        let model = Gpt::new(&config, &mut params, 1).unwrap();
        params.values_mut().iter_mut().for_each(|x| *x *= 30.0); // so that predictions differ
        (model, params)
    }

    fn text<W: Workspace<f32>>(prompt: &[u32], sampling: Sampling, count: usize) -> Vec<u32> {
        let (model, params) = model();
        Generator::new(&model, &params, &mut W::default(), prompt, sampling, 7)
            .unwrap()
            .tokens(count)
            .unwrap()
    }

    const GREEDY: Sampling = Sampling {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
    };

    #[test]
    fn f40_the_last_block_of_a_long_prompt_counts() {
        let long: Vec<u32> = (0..20).map(|i| i * 3 % 11).collect();
        let from_long = text::<TensorEngine<f32>>(&long, GREEDY, 5);
        assert_eq!(from_long.len(), 5);
        assert_eq!(from_long, text::<TensorEngine<f32>>(&long[12..], GREEDY, 5));
        assert!(text::<TensorEngine<f32>>(&long, GREEDY, 0).is_empty());
    }

    #[test]
    fn f40_every_token_sees_the_ones_before_it() {
        let prompt = [1, 2, 3];
        let all = text::<TensorEngine<f32>>(&prompt, GREEDY, 30);
        for place in [0, 4, 5, 6, 29] {
            let before = [&prompt[..], &all[..place]].concat();
            assert_eq!(
                text::<TensorEngine<f32>>(&before, GREEDY, 1),
                all[place..=place]
            );
        }
    }

    #[test]
    fn both_engines_write_the_same() {
        let sampling = Sampling {
            temperature: 1.0,
            top_k: 5,
            top_p: 0.9,
        };
        assert_eq!(
            text::<TensorEngine<f32>>(&[4], sampling, 20),
            text::<ScalarEngine<f32>>(&[4], sampling, 20)
        );
    }

    #[test]
    fn f40_an_empty_prompt_is_an_error_here() {
        let (model, params) = model();
        let engine = &mut TensorEngine::new();
        assert!(Generator::new(&model, &params, engine, &[], GREEDY, 1).is_err());
        let foreign = Generator::new(&model, &params, engine, &[99], GREEDY, 1)
            .unwrap()
            .next_token();
        assert!(foreign.unwrap_err().to_string().contains("99"));
    }
}
