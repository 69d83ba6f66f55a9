//! The texts, written by us.

use anyhow::Result;
use burtorch_gpt::generation::Generator;
use burtorch_gpt::inference::Decoder;
use burtorch_gpt::sampling::Sampling;

/// Who writes our texts.
const OURS: &str = "burtorch";

/// As `generate` draws unless it is told otherwise.
const SAMPLING: Sampling = Sampling {
    temperature: 0.8,
    top_k: 0,
    top_p: 1.0,
};

/// A kind of text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Text {
    /// From one token on, until the block is full.
    Block,
    /// Behind a full block, token by token.
    Beyond,
    /// Behind a full block, half a block at a time.
    Stride,
}

/// Each with and without kept keys and values.
pub(crate) const ALL: [(Text, bool); 6] = [
    (Text::Block, true),
    (Text::Block, false),
    (Text::Beyond, true),
    (Text::Beyond, false),
    (Text::Stride, true),
    (Text::Stride, false),
];

impl Text {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Beyond => "beyond",
            Self::Stride => "stride",
        }
    }
}

/// Something that writes.
pub(crate) struct Work<'a> {
    pub(crate) text: Text,
    pub(crate) who: &'static str,
    pub(crate) cache: bool,
    /// Tokens of a call.
    pub(crate) tokens: usize,
    pub(crate) call: Box<dyn FnMut() + 'a>,
}

impl<'a> Work<'a> {
    pub(crate) fn ours(text: Text, cache: bool, decoder: &'a mut Decoder<'_, f32>) -> Result<Self> {
        let block = decoder.config().block_size;
        let (tokens, call): (_, Box<dyn FnMut()>) = match text {
            Text::Block => (
                block,
                Box::new(move || {
                    let generator = Generator::new(decoder, &[1], SAMPLING, 1);
                    let mut generator = generator.expect("one token").with_cache(cache);
                    for _ in 0..block {
                        generator.next_token().expect("logits are finite");
                    }
                }),
            ),
            Text::Beyond => (1, endless(decoder, 1, 1, cache)?),
            Text::Stride => (block / 2, endless(decoder, block / 2, block / 2, cache)?),
        };
        Ok(Self {
            text,
            who: OURS,
            cache,
            tokens,
            call,
        })
    }
}

/// Goes on and on behind a full block.
fn endless<'a>(
    decoder: &'a mut Decoder<'_, f32>,
    stride: usize,
    tokens: usize,
    cache: bool,
) -> Result<Box<dyn FnMut() + 'a>> {
    let prompt = vec![1; decoder.config().block_size];
    let generator = Generator::new(decoder, &prompt, SAMPLING, 1)?.with_stride(stride)?;
    let mut generator = generator.with_cache(cache);
    generator.next_token()?;
    Ok(Box::new(move || {
        for _ in 0..tokens {
            generator.next_token().expect("logits are finite");
        }
    }))
}
