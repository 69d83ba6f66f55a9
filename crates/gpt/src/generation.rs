//! Text from a model, token by token.

mod stop;

use crate::Error;
use crate::inference::Decoder;
use crate::sampling::{Sampler, Sampling};

pub use stop::StopTexts;

/// Draws one token after another; each is predicted from at most the last `block_size` tokens.
///
/// As long as the tokens fit into the block, keys and values of those before are kept, and a token costs one position. Once the
/// block is full, every token moves the window on, and with it the position of every token in it. Since positions are learned vectors
/// that are added in front of the first block, all that was kept is void then and the whole window is computed again.
/// [`with_stride`](Self::with_stride) makes that rarer, at the price of shorter contexts.
pub struct Generator<'d, 'a> {
    decoder: &'d mut Decoder<'a, f32>,
    sampler: Sampler,
    /// The tokens the model sees: at least one, at most `block_size`.
    context: Vec<u32>,
    stride: usize,
    keeps: bool,
}

impl<'d, 'a> Generator<'d, 'a> {
    /// A generator that goes on from `prompt`, of which the last `block_size` tokens count; what the decoder kept is forgotten.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] for an empty prompt or impossible sampling settings.
    pub fn new(
        decoder: &'d mut Decoder<'a, f32>,
        prompt: &[u32],
        sampling: Sampling,
        seed: u64,
    ) -> Result<Self, Error> {
        let sampler = Sampler::new(sampling, seed)?;
        if prompt.is_empty() {
            return Err(Error::setting("--prompt", "at least one token", 0));
        }
        let block_size = decoder.config().block_size;
        let mut context = Vec::with_capacity(block_size);
        context.extend_from_slice(&prompt[prompt.len().saturating_sub(block_size)..]);
        decoder.clear();
        Ok(Self {
            decoder,
            sampler,
            context,
            stride: 1,
            keeps: true,
        })
    }

    /// Lets a full window move on by so many tokens at once instead of one: it is computed again only once in so many tokens, each of
    /// which is predicted from at least the last `block_size − stride + 1` tokens.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] unless it is from 1 to `block_size`.
    pub fn with_stride(self, stride: usize) -> Result<Self, Error> {
        let block_size = self.decoder.config().block_size;
        if !(1..=block_size).contains(&stride) {
            let expected = format!("from 1 to the model's block size {block_size}");
            return Err(Error::setting("--stride", expected, stride));
        }
        Ok(Self { stride, ..self })
    }

    /// Whether keys and values are kept, as they are unless this says otherwise. Without, every token computes all positions it sees
    /// again: the same text, to the last bit of every logit, but slower.
    #[must_use]
    pub fn with_cache(self, keeps: bool) -> Self {
        Self { keeps, ..self }
    }

    /// Draws the next token.
    ///
    /// # Errors
    ///
    /// [`Error::Logits`] if the model produced numbers that are none; [`Error::UnknownToken`] if the prompt held tokens outside the
    /// vocabulary.
    pub fn next_token(&mut self) -> Result<u32, Error> {
        if !self.keeps {
            self.decoder.clear();
        }
        let logits = self.decoder.extend(&self.context[self.decoder.len()..])?;
        let drawn = self.sampler.draw(logits);
        let full = self.context.len() == self.decoder.config().block_size;
        if full || drawn.is_err() {
            self.decoder.clear();
        }
        let token = drawn?;
        if full {
            self.context.drain(..self.stride);
        }
        self.context.push(token);
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
    use crate::model::{Gpt, ModelConfig};
    use burtorch_tensor::{
        Context, Engine, Indices, Params, ScalarEngine, TensorEngine, Workspace,
    };
    use proptest::prelude::*;

    const BLOCK: usize = 8;

    fn model() -> (Gpt, Params<f32>) {
        let config = ModelConfig {
            block_size: BLOCK,
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

    /// What is to be written.
    #[derive(Debug, Clone, Copy)]
    struct Way {
        sampling: Sampling,
        stride: usize,
        keeps: bool,
    }

    const GREEDY: Sampling = Sampling {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
    };

    const PLAIN: Way = Way {
        sampling: GREEDY,
        stride: 1,
        keeps: true,
    };

    fn text(prompt: &[u32], way: Way, count: usize) -> Vec<u32> {
        let (model, params) = model();
        let mut decoder = Decoder::new(model.config(), &params).unwrap();
        let generator = Generator::new(&mut decoder, prompt, way.sampling, 7).unwrap();
        let generator = generator.with_stride(way.stride).unwrap();
        let mut generator = generator.with_cache(way.keeps);
        generator.tokens(count).unwrap()
    }

    /// The likeliest continuation by an engine, which computes all of the last `BLOCK` tokens for each token.
    fn by_engine<W: Workspace<f32>>(prompt: &[u32], count: usize) -> Vec<u32> {
        let (model, params) = model();
        let mut tokens = prompt.to_vec();
        let mut sampler = Sampler::new(GREEDY, 1).unwrap();
        for _ in 0..count {
            let seen = tokens[tokens.len().saturating_sub(BLOCK)..].to_vec();
            let context = Context {
                indices: &seen,
                ..Context::default()
            };
            let mut workspace = W::default();
            let mut e = workspace.bind(&params, context);
            let logits = model
                .logits(&mut e, Indices::new(0, seen.len()), 1)
                .unwrap();
            let values = e.value(logits).data;
            let token = sampler.draw(&values[values.len() - 11..]).unwrap();
            tokens.push(token);
        }
        tokens.split_off(prompt.len())
    }

    #[test]
    fn the_text_is_that_of_both_engines_also_beyond_the_block() {
        for prompt in [&[4][..], &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]] {
            let found = text(prompt, PLAIN, 40);
            assert_eq!(found, by_engine::<TensorEngine<f32>>(prompt, 40));
            assert_eq!(found, by_engine::<ScalarEngine<f32>>(prompt, 40));
        }
    }

    #[test]
    fn f40_the_last_block_of_a_long_prompt_counts() {
        let long: Vec<u32> = (0..20).map(|i| i * 3 % 11).collect();
        let from_long = text(&long, PLAIN, 5);
        assert_eq!(from_long.len(), 5);
        assert_eq!(from_long, text(&long[12..], PLAIN, 5));
        assert!(text(&long, PLAIN, 0).is_empty());
    }

    #[test]
    fn f40_every_token_sees_the_ones_before_it() {
        let prompt = [1, 2, 3];
        let all = text(&prompt, PLAIN, 30);
        for place in [0, 4, 5, 6, 29] {
            let before = [&prompt[..], &all[..place]].concat();
            assert_eq!(text(&before, PLAIN, 1), all[place..=place]);
        }
    }

    proptest! {
        #[test]
        fn the_text_is_the_same_with_and_without_what_is_kept(
            prompt in prop::collection::vec(0_u32..11, 1..20),
            temperature in prop::sample::select(vec![0.0, 0.5, 1.5]),
            stride in 1..=BLOCK,
            count in 0_usize..30,
        ) {
            let way = Way { sampling: Sampling { temperature, ..GREEDY }, stride, keeps: true };
            prop_assert_eq!(text(&prompt, way, count), text(&prompt, Way { keeps: false, ..way }, count));
        }
    }

    #[test]
    fn a_stride_shortens_what_is_seen_where_a_window_begins() {
        let prompt = [1, 2, 3, 4, 5, 6, 7, 8];
        let (stride, count) = (5, 12);
        let found = text(&prompt, Way { stride, ..PLAIN }, count);
        let all = [&prompt[..], &found].concat();
        // Full at 8, then 8 − 5 tokens and the new one: the next token sees 4 and so on up to 8 again.
        for (place, seen) in [8, 4, 5, 6, 7, 8, 4, 5].into_iter().enumerate() {
            let end = prompt.len() + place;
            assert_eq!(
                text(&all[end - seen..end], PLAIN, 1),
                all[end..=end],
                "{place}"
            );
        }
        for stride in [0, BLOCK + 1] {
            let (model, params) = model();
            let mut decoder = Decoder::new(model.config(), &params).unwrap();
            let generator = Generator::new(&mut decoder, &prompt, GREEDY, 7).unwrap();
            let message = generator
                .with_stride(stride)
                .map(drop)
                .unwrap_err()
                .to_string();
            assert!(
                message.contains("--stride") && message.contains('8'),
                "{message}"
            );
        }
    }

    #[test]
    fn a_decoder_serves_one_text_after_another() {
        let (model, params) = model();
        let mut decoder = Decoder::new(model.config(), &params).unwrap();
        let mut text = |prompt: &[u32]| {
            let mut generator = Generator::new(&mut decoder, prompt, GREEDY, 7).unwrap();
            generator.tokens(9).unwrap()
        };
        let first = text(&[3, 1]);
        text(&[5]);
        assert_eq!(text(&[3, 1]), first);
    }

    #[test]
    fn f40_an_empty_prompt_is_an_error_here() {
        let (model, params) = model();
        let mut decoder = Decoder::new(model.config(), &params).unwrap();
        assert!(Generator::new(&mut decoder, &[], GREEDY, 1).is_err());
        let mut generator = Generator::new(&mut decoder, &[99], GREEDY, 1).unwrap();
        let foreign = generator.next_token();
        assert!(foreign.unwrap_err().to_string().contains("99"));
    }

    #[test]
    fn a_model_that_produces_no_numbers_says_so_each_time() {
        let (model, mut params) = model();
        params.values_mut().fill(f32::NAN);
        let mut decoder = Decoder::new(model.config(), &params).unwrap();
        let mut generator = Generator::new(&mut decoder, &[1], GREEDY, 1).unwrap();
        for _ in 0..2 {
            assert!(matches!(generator.next_token(), Err(Error::Logits { .. })));
        }
    }
}
