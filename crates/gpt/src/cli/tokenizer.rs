//! Arguments of `tokenizer`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::parse::whole;

/// The commands about tokenizers.
#[derive(Debug, Subcommand)]
pub enum TokenizerCommand {
    /// Learn a vocabulary from texts by byte-pair encoding
    Train(TokenizerTrainArgs),
    /// Turn text into tokens: one number a line, or a file to train on
    Encode(TokenizerEncodeArgs),
    /// Turn tokens into the bytes they stand for
    Decode(TokenizerDecodeArgs),
    /// Tell what a tokenizer is
    Info(TokenizerInfoArgs),
}

/// Arguments of `tokenizer train`.
#[derive(Debug, Args)]
#[command(
    after_help = "The texts are read piece by piece: memory grows with the number of different words, not with the text. The result depends on how often \
each word occurs and on nothing else. A text that supports fewer tokens gives those, with a note.\n\nExamples:\n  burtorch-gpt tokenizer train --vocab-size 1024 --out book.json book.txt\n  \
burtorch-gpt tokenizer train --vocab-size 32768 --special '<|endoftext|>' --out big.json part1.txt part2.txt\n  \
burtorch-gpt train --data book.txt --tokenizer book.json     train a model with it"
)]
pub struct TokenizerTrainArgs {
    /// Tokens to have in the end: the 256 bytes, those that are learned, and the special ones
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub vocab_size: usize,
    /// File to write; its name tells the kind: ….json (Hugging Face's tokenizer.json), ….tiktoken, or vocab.json (with merges.txt beside it)
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Texts to learn from, each by itself; any bytes will do, and - is standard input
    #[arg(value_name = "TEXT", required = true)]
    pub texts: Vec<PathBuf>,
    /// How text is cut into pieces that no token reaches across: by the rule of "gpt2", "cl100k" or "o200k", or by a regular expression whose matches are the pieces. With an expression of your own a text is held in memory as a whole, else it may be larger than that
    #[arg(long, value_name = "RULE|REGEX", default_value = "gpt2")]
    pub split: String,
    /// A special token, such as <|endoftext|>: it gets an id, and where the texts have it, it is a border and not learned; may be repeated
    #[arg(long = "special", value_name = "TEXT")]
    pub specials: Vec<String>,
    /// Threads; the result is the same for every number of them [default: one per core]
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub threads: Option<usize>,
    /// Print one line of JSON with the result to standard output
    #[arg(long)]
    pub json: bool,
}

/// The file of a tokenizer, and what it may not carry.
#[derive(Debug, Args)]
pub struct TokenizerFile {
    /// File of the tokenizer: tokenizer.json of a run or of Hugging Face, vocab.json with merges.txt beside it, or ….tiktoken
    #[arg(long, value_name = "FILE")]
    pub tokenizer: PathBuf,
    /// Split rule, for a file that does not carry it: "gpt2", "cl100k", "o200k", or a regular expression [default: that of the file; GPT-2's vocab.bpe and tiktoken's r50k_base, p50k_base, cl100k_base and o200k_base are known]
    #[arg(long, value_name = "RULE|REGEX")]
    pub split: Option<String>,
    /// Special token that the file does not have, as 50256=<|endoftext|>; may be repeated
    #[arg(long = "special", value_name = "ID=TEXT", value_parser = special)]
    pub specials: Vec<(String, u32)>,
    /// SHA-256 that the file must have, in hexadecimal digits
    #[arg(long, value_name = "HASH")]
    pub sha256: Option<String>,
}

/// A special token with its id in front.
fn special(text: &str) -> Result<(String, u32), String> {
    let parts = text.split_once('=');
    let special = parts.and_then(|(id, text)| Some((text.to_owned(), id.parse().ok()?)));
    special
        .filter(|(text, _)| !text.is_empty())
        .ok_or_else(|| "expected an id, =, and the text of the token".to_owned())
}

/// Arguments of `tokenizer encode`.
#[derive(Debug, Args)]
#[command(
    after_help = "Text is read piece by piece and written as it comes, in memory that does not grow with it; but if the tokenizer splits text by a regular expression other than those of gpt2, cl100k and o200k, it is held in memory as a whole.\n\nExamples:\n  \
echo 'Hello there' | burtorch-gpt tokenizer encode --tokenizer runs/small-1/tokenizer.json\n  \
burtorch-gpt tokenizer encode --tokenizer book.json --out book.tokens book.txt\n  \
burtorch-gpt train --data book.tokens --tokenizer book.json"
)]
pub struct TokenizerEncodeArgs {
    /// The tokenizer.
    #[command(flatten)]
    pub file: TokenizerFile,
    /// Text to encode; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub text: PathBuf,
    /// Write a token file instead, for train --data: llm.c's layout, two bytes a token up to 65,536 tokens and else four, with vocabulary and hash of the tokenizer in its header
    #[arg(long, value_name = "TOKENS")]
    pub out: Option<PathBuf>,
    /// Four bytes for each token of the file, also where two would do, for programs that read nothing else; train reads both alike
    #[arg(long, requires = "out")]
    pub wide: bool,
    /// Make special tokens of their texts. Without this they are text like any other, as text of unknown origin should be
    #[arg(long)]
    pub allow_special: bool,
    /// Threads; the result is the same for every number of them [default: one per core]
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub threads: Option<usize>,
}

/// Arguments of `tokenizer decode`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  echo 15496 995 | burtorch-gpt tokenizer decode --tokenizer r50k_base.tiktoken\n  \
burtorch-gpt tokenizer decode --tokenizer book.json book.tokens"
)]
pub struct TokenizerDecodeArgs {
    /// The tokenizer.
    #[command(flatten)]
    pub file: TokenizerFile,
    /// Tokens to decode, as numbers set apart by white space or as a token file; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub tokens: PathBuf,
}

/// Arguments of `tokenizer info`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  burtorch-gpt tokenizer info --tokenizer runs/small-1/tokenizer.json"
)]
pub struct TokenizerInfoArgs {
    /// The tokenizer.
    #[command(flatten)]
    pub file: TokenizerFile,
    /// Print one line of JSON to standard output instead
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_tokens_have_an_id_and_a_text() {
        assert_eq!(special("7=<a=b>"), Ok(("<a=b>".into(), 7)));
        for wrong in ["", "7", "7=", "<a>=7", "-1=x", "4294967296=x"] {
            assert!(special(wrong).is_err(), "{wrong}");
        }
    }
}
