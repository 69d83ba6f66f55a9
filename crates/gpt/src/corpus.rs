//! The text of a run as tokens, and the parts it is cut into.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burtorch_data::{
    Fnv1a, MappedTokens, Split, TokenBuffer, TokenHeader, Tokens, consecutive, is_token_file,
    read_text, read_token_header, read_tokens, split, split_at, training_length,
};

use crate::config::VALIDATION_FRACTION;
use crate::tokenizer::Tokenizer;
use crate::tokenizer::bpe::files::hexadecimal;
use crate::{Error, embedded};

/// A text, and what it is called.
#[derive(Debug, Clone)]
pub struct Source {
    /// The path, or the name of the embedded text.
    pub name: String,
    /// Where the text is, in a form that does not depend on the working directory; none for the embedded text.
    pub path: Option<PathBuf>,
    /// The text itself; empty if the file holds tokens.
    pub text: Cow<'static, str>,
    /// What a file of tokens says of itself.
    pub tokens: Option<TokenHeader>,
}

impl Source {
    /// Reads a file, or takes the embedded text.
    ///
    /// # Errors
    ///
    /// [`Error::Data`], naming the file.
    pub fn load(data: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = data else {
            return Ok(Self {
                name: embedded::NAME.into(),
                path: None,
                text: embedded::TEXT.into(),
                tokens: None,
            });
        };
        let (text, tokens) = match is_token_file(path) {
            true => (Cow::default(), Some(read_token_header(path)?)),
            false => (read_text(path)?.into(), None),
        };
        let absolute = path
            .canonicalize()
            .map_err(Error::file(path, "find the file"))?;
        Ok(Self {
            name: path.display().to_string(),
            path: Some(absolute),
            text,
            tokens,
        })
    }

    /// A number that tells this text from others: 64-bit FNV-1a (Fowler, Noll, Vo) of its bytes, and their count. It finds changes, it
    /// does not prove identity.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let (hash, length) = match self.tokens {
            None => (
                Fnv1a::default().with(self.text.as_bytes()),
                self.text.len() as u64,
            ),
            Some(header) => (self.of_file(), header.count),
        };
        format!("fnv1a-{:016x}-{length}", hash.value())
    }

    /// The hash of the bytes of a file of tokens; one that cannot be read any more has that of none, as no file of tokens does.
    fn of_file(&self) -> Fnv1a {
        let mut hash = Fnv1a::default();
        let mut chunk = vec![0; 1 << 16];
        let file = self.path.as_deref().map(File::open);
        if let Some(Ok(mut file)) = file {
            while let Some(read) = file.read(&mut chunk).ok().filter(|&read| read > 0) {
                hash = hash.with(&chunk[..read]);
            }
        }
        hash
    }

    /// All tokens of the text, or of the file.
    ///
    /// # Errors
    ///
    /// Those of [`Tokenizer::encode`]; [`Error::Content`] for tokens that another tokenizer made, [`Error::Data`] for a file that cannot be
    /// read or has tokens that this tokenizer does not.
    pub fn encode(&self, tokenizer: &Tokenizer) -> Result<Encoded, Error> {
        if let Some(path) = self.file_of(tokenizer)? {
            return Encoded::open(path, tokenizer.size());
        }
        let mut tokens = TokenBuffer::of_vocabulary(tokenizer.size());
        if let Tokenizer::Character(_) = tokenizer {
            tokens.reserve(self.text.chars().count())?;
        }
        self.append(&self.text, tokenizer, &mut tokens)?;
        tokens.shrink();
        Ok(Encoded::Own(tokens))
    }

    /// Appends the tokens of a part of the text.
    fn append(
        &self,
        text: &str,
        tokenizer: &Tokenizer,
        tokens: &mut TokenBuffer,
    ) -> Result<(), Error> {
        let mut take = |part: &[u32]| Ok(tokens.push(part)?);
        tokenizer.encode_in_parts(text, &self.name, &mut take)
    }

    /// The file of tokens, if it is one, made with this tokenizer.
    fn file_of(&self, tokenizer: &Tokenizer) -> Result<Option<&Path>, Error> {
        let (Some(header), Some(path)) = (self.tokens, &self.path) else {
            return Ok(None);
        };
        let expected = tokenizer.sha256();
        if let Some(found) = header.tokenizer.filter(|found| *found != expected) {
            let name = |hash: &[u8; 32]| {
                format!(
                    "the tokenizer with the SHA-256 {}…",
                    hexadecimal(&hash[..8])
                )
            };
            let expected = format!("tokens of {}", name(&expected));
            return Err(Error::content(
                Path::new(&self.name),
                expected,
                format!("tokens of {}", name(&found)),
            ));
        }
        Ok(Some(path))
    }
}

/// Tokens in as few bytes as their vocabulary allows: in memory, or in a file that is mapped.
#[derive(Debug, Clone)]
pub enum Encoded {
    /// In memory.
    Own(TokenBuffer),
    /// In a file.
    Mapped(Arc<MappedTokens>),
}

impl Encoded {
    /// The tokens of a file, which must be below `vocabulary`: mapped where this machine can.
    ///
    /// # Errors
    ///
    /// [`Error::Data`], naming the file.
    pub fn open(path: &Path, vocabulary: usize) -> Result<Self, Error> {
        Ok(match MappedTokens::IS_POSSIBLE {
            true => Self::Mapped(Arc::new(MappedTokens::open(path, vocabulary)?)),
            false => Self::Own(read_tokens(path, vocabulary)?),
        })
    }

    /// All of them.
    #[must_use]
    pub fn tokens(&self) -> Tokens<'_> {
        match self {
            Self::Own(tokens) => tokens.tokens(),
            Self::Mapped(tokens) => tokens.tokens(),
        }
    }

    /// Bytes of memory that they take: none if they are in a file.
    #[must_use]
    pub fn bytes_in_memory(&self) -> usize {
        match self {
            Self::Own(tokens) => tokens.tokens().len() * tokens.tokens().width().bytes(),
            Self::Mapped(_) => 0,
        }
    }
}

/// The tokens of a text, cut into a training and a validation part.
#[derive(Debug, Clone)]
pub struct Corpus {
    encoded: Encoded,
    cut: usize,
}

impl Corpus {
    /// Encodes and cuts a text for windows of `block_size` tokens.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownCharacter`] from the tokenizer; [`Error::Content`] for a vocabulary of one character, which leaves nothing to
    /// predict; [`Error::TextTooShort`] if a part is too short for one window.
    pub fn new(source: &Source, tokenizer: &Tokenizer, block_size: usize) -> Result<Self, Error> {
        if let (Tokenizer::Bpe(_), None) = (tokenizer, source.tokens) {
            return Self::of_parts(source, tokenizer, block_size);
        }
        let encoded = source.encode(tokenizer)?;
        if tokenizer.size() < 2 {
            let expected = "at least 2 different characters";
            return Err(Error::content(Path::new(&source.name), expected, "1"));
        }
        let cut = split(encoded.tokens(), VALIDATION_FRACTION, block_size);
        let Split { training, .. } = cut.map_err(|error| named(error, &source.name))?;
        let cut = training.len();
        Ok(Self { encoded, cut })
    }

    /// Encodes the two parts of a text each by itself, so that no token reaches across the cut, and so that the validation part is the same
    /// text for every tokenizer.
    fn of_parts(source: &Source, tokenizer: &Tokenizer, block_size: usize) -> Result<Self, Error> {
        let training = training_text(&source.text);
        let mut tokens = TokenBuffer::of_vocabulary(tokenizer.size());
        source.append(training, tokenizer, &mut tokens)?;
        let cut = tokens.tokens().len();
        source.append(&source.text[training.len()..], tokenizer, &mut tokens)?;
        tokens.shrink();
        split_at(&tokens, cut, block_size).map_err(|error| named(error, &source.name))?;
        let encoded = Encoded::Own(tokens);
        Ok(Self { encoded, cut })
    }

    /// All tokens.
    #[must_use]
    pub fn encoded(&self) -> &Encoded {
        &self.encoded
    }

    /// The part to train on.
    #[must_use]
    pub fn training(&self) -> Tokens<'_> {
        let all = self.encoded.tokens();
        all.get(0..self.cut).unwrap_or(all)
    }

    /// The part that is only measured.
    #[must_use]
    pub fn validation(&self) -> Tokens<'_> {
        let all = self.encoded.tokens();
        all.get(self.cut..all.len()).unwrap_or(all)
    }
}

/// The part of a text that is trained on: the characters but for the last tenth.
#[must_use]
pub fn training_text(text: &str) -> &str {
    let length = training_length(text.chars().count(), VALIDATION_FRACTION);
    let end = text.char_indices().nth(length).map(|(place, _)| place);
    &text[..end.unwrap_or(text.len())]
}

/// The error of a part that is too short, with the name of the text.
fn named(error: burtorch_data::Error, name: &str) -> Error {
    match error {
        burtorch_data::Error::TooShort {
            part,
            length,
            needed,
        } => Error::TextTooShort {
            name: name.to_owned(),
            part,
            length,
            needed,
        },
        other => other.into(),
    }
}

/// Inputs and targets of one window.
pub type Window<'a> = (Tokens<'a>, Tokens<'a>);

/// Windows of a text that do not overlap, spread evenly over it. They are computed, not stored.
#[derive(Debug, Clone, Copy)]
pub struct Spread<'a> {
    tokens: Tokens<'a>,
    block_size: usize,
    /// Windows that cover the text, and how many of them are taken.
    all: usize,
    taken: usize,
}

impl<'a> Spread<'a> {
    /// At most `most` windows of `tokens`: all if there are no more, and then every token but the first is a target exactly once.
    ///
    /// # Errors
    ///
    /// [`Error::Data`] if there is no window at all.
    pub fn new(
        tokens: impl Into<Tokens<'a>>,
        block_size: usize,
        most: usize,
    ) -> Result<Self, Error> {
        let tokens = tokens.into();
        let all = consecutive(tokens, block_size)?.len();
        Ok(Self {
            tokens,
            block_size,
            all,
            taken: all.min(most),
        })
    }

    /// How many windows there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.taken
    }

    /// How many windows have `block_size` tokens: all, or all but the last one, which is never taken when some are left out.
    #[must_use]
    pub fn whole(&self) -> usize {
        self.taken.min((self.tokens.len() - 1) / self.block_size)
    }

    /// The windows with these numbers.
    ///
    /// # Panics
    ///
    /// For numbers from [`count`](Self::count) on, as an index out of bounds would.
    pub fn windows(self, places: Range<usize>) -> impl Iterator<Item = Window<'a>> + Clone {
        places.map(move |place| {
            let number = place as u128 * self.all as u128 / self.taken as u128;
            let start = number as usize * self.block_size;
            let end = (start + self.block_size).min(self.tokens.len() - 1);
            let part = |places| self.tokens.get(places).unwrap_or(self.tokens);
            (part(start..end), part(start + 1..end + 1))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::bpe::{SplitRule, Trainer};
    use burtorch_data::{TokenWriter, Width};

    fn source_of(text: String) -> Source {
        Source {
            name: "x".into(),
            path: None,
            text: text.into(),
            tokens: None,
        }
    }

    #[test]
    fn another_text_has_another_fingerprint() {
        let source = |text: &str| source_of(text.into());
        assert_eq!(source("a").fingerprint(), "fnv1a-af63dc4c8601ec8c-1");
        assert_ne!(source("ab").fingerprint(), source("ba").fingerprint());
    }

    #[test]
    fn f31_a_short_text_is_refused_with_both_numbers() {
        for (length, part) in [(5, "training"), (40, "validation")] {
            let text = "abcde".repeat(length / 5);
            let source = source_of(text);
            let tokenizer = Tokenizer::characters_of(&source.text);
            let error = Corpus::new(&source, &tokenizer, 8).unwrap_err().to_string();
            let start = format!("x: expected at least 9 tokens in the {part} part");
            assert!(error.starts_with(&start), "{error}");
            assert!(error.contains("for --block-size 8, found 4"), "{error}");
        }
    }

    #[test]
    fn f31_a_text_of_one_character_is_refused() {
        let source = source_of("a".repeat(500));
        let tokenizer = Tokenizer::characters_of(&source.text);
        let error = Corpus::new(&source, &tokenizer, 8).unwrap_err().to_string();
        assert_eq!(
            error,
            "x: expected at least 2 different characters, found 1"
        );
    }

    #[test]
    fn the_two_parts_are_the_whole_and_share_nothing() {
        let text = "abcdefghij".repeat(10);
        let source = source_of(text);
        let tokenizer = Tokenizer::characters_of(&source.text);
        let corpus = Corpus::new(&source, &tokenizer, 8).unwrap();
        assert_eq!(
            (corpus.training().len(), corpus.validation().len()),
            (90, 10)
        );
        let whole = tokenizer.encode(&source.text, "x").unwrap();
        let parts = corpus.training().iter().chain(corpus.validation().iter());
        assert!(parts.eq(whole));
    }

    #[test]
    fn tokens_of_several_characters_do_not_reach_across_the_cut() {
        let text = "äbcdefghi ".repeat(50);
        let source = source_of(text.clone());
        assert_eq!(training_text(&text), &text[..9 * 55]);
        let mut trainer = Trainer::new(SplitRule::Gpt2);
        trainer.add(training_text(&text).as_bytes()).unwrap();
        let tokenizer = Tokenizer::Bpe(Box::new(trainer.train(270).unwrap().bpe));
        let corpus = Corpus::new(&source, &tokenizer, 4).unwrap();
        let decoded = [corpus.training(), corpus.validation()]
            .map(|part| tokenizer.decode(&part.to_vec()).unwrap());
        assert_eq!(decoded, [&text[..9 * 55], &text[9 * 55..]]);
        let message = Corpus::new(&source, &tokenizer, 20)
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with("x: expected at least 21 tokens in the validation part"),
            "{message}"
        );
    }

    #[test]
    fn tokens_come_from_a_file_if_it_holds_some() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tokens");
        let tokenizer = Tokenizer::characters_of("abcdefghij");
        let write_as = |hash, width| {
            let mut writer = TokenWriter::create(&path, width, 10, hash).unwrap();
            let tokens: Vec<u32> = (0..100).map(|token| token % 10).collect();
            writer.push(&tokens).unwrap();
            writer.finish().unwrap();
            Source::load(Some(&path)).unwrap()
        };
        let write = |hash| write_as(hash, Width::Two);
        let source = write(tokenizer.sha256());
        let corpus = Corpus::new(&source, &tokenizer, 8).unwrap();
        assert_eq!(corpus.training().len(), 90);
        assert_eq!(corpus.validation().iter().next(), Some(0));
        assert_eq!(corpus.encoded().bytes_in_memory(), 0);
        let fingerprint = source.fingerprint();
        assert!(fingerprint.ends_with("-100"));
        let wide = Corpus::new(&write_as(tokenizer.sha256(), Width::Four), &tokenizer, 8).unwrap();
        assert_eq!(
            (wide.training(), wide.validation()),
            (corpus.training(), corpus.validation())
        );
        // The same tokens from a text.
        let text = source_of("abcdefghij".repeat(10));
        let read = Corpus::new(&text, &tokenizer, 8).unwrap();
        assert_eq!(read.training(), corpus.training());
        assert_eq!(read.encoded().bytes_in_memory(), 200);
        let other = write([1; 32]);
        assert_ne!(other.fingerprint(), fingerprint);
        let message = Corpus::new(&other, &tokenizer, 8).unwrap_err().to_string();
        assert!(
            message.contains("expected tokens of the tokenizer with the SHA-256"),
            "{message}"
        );
        let fewer = Tokenizer::characters_of("abc");
        assert!(Corpus::new(&write(fewer.sha256()), &fewer, 8).is_err());
    }

    #[test]
    fn few_windows_are_all_taken() {
        let tokens: Vec<u32> = (0..10).collect();
        let found = Spread::new(&tokens, 4, 99).unwrap();
        assert_eq!((found.count(), found.whole()), (3, 2));
        let targets = found.windows(0..3).flat_map(|(_, y)| y.iter());
        assert!(targets.eq(1..10));
    }

    #[test]
    fn many_windows_are_thinned_evenly() {
        let tokens: Vec<u32> = (0..1002).collect(); // 250 whole windows of 4 and one of 1
        for most in [1, 2, 7, 249, 250] {
            let found = Spread::new(&tokens, 4, most).unwrap();
            assert_eq!((found.count(), found.whole()), (most, most));
            let windows = found.windows(0..most);
            let windows: Vec<_> = windows.map(|(x, y)| (x.to_vec(), y.to_vec())).collect();
            let starts: Vec<u32> = windows.iter().map(|(x, _)| x[0]).collect();
            if most == 2 {
                assert_eq!(starts, [0, 500]);
            }
            assert!(starts.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(
                windows
                    .iter()
                    .all(|(x, y)| x.len() == 4 && y[3] == x[3] + 1)
            );
        }
    }
}
