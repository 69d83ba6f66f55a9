//! Learning a vocabulary from text.

mod pairs;
mod words;

use std::io::{self, Read};

use super::special::SpecialTokens;
use super::{Bpe, BpeError, SplitRule};
use pairs::Pairs;
use words::Words;

/// Single bytes, which are always tokens.
const BYTES: usize = 256;

/// The largest vocabulary.
const MOST: usize = 1 << 24;

/// Bytes that are read at a time for each thread.
const CHUNK: usize = 1 << 22;

/// Counts pieces of text, then makes the commonest pair of neighbouring tokens a token of its own, again and again.
///
/// Of several commonest pairs it takes the one of the smallest ids, so the result is a function of how often each piece occurs and of
/// nothing else: not of the order of the text, of threads, or of chance. Ids: the 256 bytes, then the merges in their order, then the special
/// tokens. Text of special tokens is a border and not learned.
///
/// ```
/// use burtorch_gpt::tokenizer::bpe::{SplitRule, Trainer};
///
/// let mut trainer = Trainer::new(SplitRule::Gpt2);
/// trainer.add(b"the then other")?;
/// let trained = trainer.train(258)?;
/// assert_eq!(trained.bpe.bytes(256)?, b"he");
/// assert_eq!(trained.bpe.bytes(257)?, b"the");
/// # Ok::<(), burtorch_gpt::tokenizer::bpe::BpeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Trainer {
    rule: SplitRule,
    specials: Vec<String>,
    words: Words,
    threads: usize,
}

/// What training came to.
#[derive(Debug, Clone)]
pub struct Trained {
    /// The encoding.
    pub bpe: Bpe,
    /// How often the pair of each merge occurred when it was made.
    pub counts: Vec<u64>,
    /// The vocabulary that was asked for; [`Bpe::size`] is smaller if the text has no more pairs.
    pub asked: usize,
}

impl Trained {
    /// Says so if the text supports fewer tokens than were asked for.
    #[must_use]
    pub fn shortfall(&self) -> Option<String> {
        let (asked, size) = (self.asked, self.bpe.size());
        (size < asked).then(|| format!("asked for {asked} tokens, the text supports only {size}"))
    }
}

/// How far training has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// So many bytes of text are counted.
    Counted(u64),
    /// The vocabulary has so many tokens.
    Tokens(usize),
}

impl Trainer {
    /// A trainer that has seen no text.
    #[must_use]
    pub fn new(rule: SplitRule) -> Self {
        Self {
            rule,
            specials: Vec::new(),
            words: Words::default(),
            threads: 1,
        }
    }

    /// With special tokens, in the order of their ids; none of them twice or empty.
    ///
    /// # Errors
    ///
    /// [`BpeError::Content`].
    pub fn with_specials(mut self, specials: Vec<String>) -> Result<Self, BpeError> {
        for (place, special) in specials.iter().enumerate() {
            if special.is_empty() || specials[..place].contains(special) {
                let found = format!("{special:?}");
                let expected = "different texts, none empty";
                return Err(BpeError::content("special tokens", expected, found));
            }
        }
        self.specials = specials;
        Ok(self)
    }

    /// With so many threads to count on; the result is the same for every number of them.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Counts the pieces of a text.
    ///
    /// # Errors
    ///
    /// [`BpeError::Pattern`] if a split rule of the user's gives up.
    pub fn add(&mut self, text: &[u8]) -> Result<(), BpeError> {
        let specials = self.special_tokens();
        self.words.add(&self.rule, &specials, text)
    }

    /// Counts a piece of text `count` times, without cutting it.
    pub fn add_piece(&mut self, piece: &[u8], count: u64) {
        self.words.add_piece(piece, count);
    }

    /// Counts the pieces of a text that is read to its end, as one text. Memory grows with the number of different pieces, not with the
    /// text, unless the split rule is not [known](SplitRule::is_known): then the text is read as a whole.
    ///
    /// # Errors
    ///
    /// The outer error is the reader's, the inner one as in [`add`](Self::add).
    pub fn read(
        &mut self,
        mut text: impl Read,
        progress: &mut dyn FnMut(Progress),
    ) -> io::Result<Result<(), BpeError>> {
        let specials = self.special_tokens();
        let mut waiting = Vec::new();
        let mut total = 0;
        let mut others = vec![Words::default(); self.threads - 1];
        let mut room = CHUNK * self.threads;
        let result = loop {
            let before = waiting.len();
            (&mut text).take(room as u64).read_to_end(&mut waiting)?;
            total += (waiting.len() - before) as u64;
            let ended = waiting.len() == before;
            let settled = match ended {
                true => waiting.len(),
                false => specials.settled(&self.rule, &waiting),
            };
            let text = &waiting[..settled];
            let all = std::iter::once(&mut self.words).chain(&mut others);
            let all = all.collect();
            if let Err(error) = words::add_in_parallel(&self.rule, &specials, text, all) {
                break Err(error);
            }
            progress(Progress::Counted(total));
            if ended {
                break Ok(());
            }
            waiting.drain(..settled);
            // What is not cut yet is looked at again, so it should double.
            room = waiting.len().max(CHUNK * self.threads);
        };
        others
            .into_iter()
            .for_each(|words| self.words.append(words));
        Ok(result)
    }

    fn special_tokens(&self) -> SpecialTokens {
        let ids = self.specials.iter().cloned().zip(0..);
        SpecialTokens::new(ids.collect())
    }

    /// Makes a vocabulary of `size` tokens, or as many as the text supports.
    ///
    /// # Errors
    ///
    /// [`BpeError::VocabularySize`] for fewer tokens than bytes and special tokens; [`BpeError::TooMany`] if different pieces have more
    /// than 2³² bytes together, or pairs occur more than 2⁶³ times.
    pub fn train(self, size: usize) -> Result<Trained, BpeError> {
        self.train_with(size, &mut |_| ())
    }

    /// As [`train`](Self::train), telling how far it has come.
    ///
    /// # Errors
    ///
    /// As [`train`](Self::train).
    pub fn train_with(
        self,
        size: usize,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Trained, BpeError> {
        let least = BYTES + self.specials.len();
        if !(least..=MOST).contains(&size) {
            return Err(BpeError::VocabularySize {
                least,
                bytes: BYTES,
                specials: self.specials.len(),
                most: MOST,
                found: size,
            });
        }
        let mut pairs = Pairs::new(self.words)?;
        let mut tokens: Vec<(u32, Vec<u8>)> = (0..=255)
            .map(|byte| (u32::from(byte), vec![byte]))
            .collect();
        let mut merges = Vec::new();
        let mut counts = Vec::new();
        while BYTES + merges.len() < size - self.specials.len() {
            let Some((merge, count)) = pairs.merge_commonest() else {
                break;
            };
            let (left, right) = (
                &tokens[merge.left as usize].1,
                &tokens[merge.right as usize].1,
            );
            let bytes = [left.as_slice(), right].concat();
            tokens.push((merge.made, bytes));
            merges.push(merge);
            counts.push(count);
            progress(Progress::Tokens(tokens.len()));
        }
        drop(pairs);
        let ids = (tokens.len() as u32)..;
        let specials = self.specials.into_iter().zip(ids).collect();
        Ok(Trained {
            bpe: Bpe::new(self.rule, tokens, &merges, specials)?,
            counts,
            asked: size,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::bpe::Merge;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn trained(text: &str, size: usize) -> Trained {
        let mut trainer = Trainer::new(SplitRule::Gpt2);
        trainer.add(text.as_bytes()).unwrap();
        trainer.train(size).unwrap()
    }

    /// The texts of the merged tokens.
    fn made(trained: &Trained) -> Vec<String> {
        let merges = trained.bpe.merges().iter();
        let bytes = merges.map(|merge| trained.bpe.bytes(merge.made).unwrap());
        bytes
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect()
    }

    /// The rule as it is stated: count all pairs, merge the commonest, of the smallest ids, from the left, and begin again.
    fn plainly(pieces: &[(Vec<u8>, u64)], merges: usize) -> Vec<(Merge, u64)> {
        let symbols = |piece: &[u8]| {
            piece
                .iter()
                .map(|&byte| u32::from(byte))
                .collect::<Vec<u32>>()
        };
        let mut words: Vec<_> = pieces
            .iter()
            .map(|(piece, count)| (symbols(piece), *count))
            .collect();
        let mut found = Vec::new();
        for made in (256..).take(merges) {
            let mut counts = BTreeMap::new();
            for (word, count) in &words {
                word.windows(2)
                    .for_each(|pair| *counts.entry((pair[0], pair[1])).or_insert(0) += count);
            }
            let best = counts
                .iter()
                .max_by_key(|(pair, count)| (**count, std::cmp::Reverse(**pair)));
            let Some((&(left, right), &count)) = best.filter(|best| *best.1 > 0) else {
                break;
            };
            found.push((Merge { left, right, made }, count));
            for (word, _) in &mut words {
                let mut place = 0;
                while place + 1 < word.len() {
                    if word[place..place + 2] == [left, right] {
                        word.splice(place..place + 2, [made]);
                    }
                    place += 1;
                }
            }
        }
        found
    }

    fn of_pieces(pieces: &[(Vec<u8>, u64)], merges: usize) -> Vec<(Merge, u64)> {
        let mut trainer = Trainer::new(SplitRule::Gpt2);
        for (piece, count) in pieces {
            trainer.add_piece(piece, *count);
        }
        let trained = trainer.train(256 + merges).unwrap();
        let merges = trained.bpe.merges().iter().copied();
        merges.zip(trained.counts).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn bpe_f04_merges_are_those_of_the_rule_and_all_occur(
            pieces in prop::collection::vec(("[abc]{0,12}|[ab]{100,200}|a{0,150}", 0_u64..9), 0..12)
        ) {
            let pieces: Vec<_> = pieces.into_iter().map(|(piece, count)| (piece.into_bytes(), count)).collect();
            let found = of_pieces(&pieces, 60);
            prop_assert!(found.iter().all(|it| it.1 > 0));
            let mut expected = plainly(&pieces, 60);
            // The same piece may be there twice: its counts are one.
            expected.truncate(60);
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn bpe_f05_order_threads_and_parts_do_not_matter(mut words in prop::collection::vec("[a-d]{1,6}|\n| ", 1..60), threads in 1_usize..4) {
            let text = words.join(" ") + "\n";
            let expected = trained(&text, 300);
            let mut trainer = Trainer::new(SplitRule::Gpt2).with_threads(threads);
            trainer.read(text.as_bytes(), &mut |_| ()).unwrap().unwrap();
            prop_assert_eq!(&trainer.train(300).unwrap().bpe, &expected.bpe);
            let pieces = |words: &[String]| words.iter().map(|it| (it.clone().into_bytes(), 1)).collect::<Vec<_>>();
            let forward = of_pieces(&pieces(&words), 40);
            words.reverse();
            prop_assert_eq!(of_pieces(&pieces(&words), 40), forward);
        }

        #[test]
        fn bpe_f06_any_bytes_come_back(text in any::<String>(), bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let bpe = trained(&text, 280).bpe;
            for bytes in [&bytes[..], text.as_bytes()] {
                prop_assert_eq!(&bpe.decode(&bpe.encode(bytes).unwrap()).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn bpe_f03_counts_beyond_32_bits_are_right() {
        let mut trainer = Trainer::new(SplitRule::Gpt2);
        trainer.add_piece(b"the", 3_000_000_000);
        trainer.add_piece(b"the", 3_000_000_000);
        trainer.add_piece(b"cat", 2_000_000_000);
        let trained = trainer.train(258).unwrap();
        assert_eq!(made(&trained), ["he", "the"]);
        assert_eq!(trained.counts, [6_000_000_000; 2]);
        let mut trainer = Trainer::new(SplitRule::Gpt2);
        trainer.add_piece(b"ab", u64::MAX);
        let message = trainer.train(300).unwrap_err().to_string();
        assert!(
            message.starts_with("counts: expected at most 9223372036854775807 bytes"),
            "{message}"
        );
    }

    #[test]
    fn bpe_f04_the_reported_text_gives_no_empty_merge() {
        let trained = trained("##c ##cac# #ab c# #### accc#a#a#b a cb", 300);
        assert!(trained.counts.iter().all(|&count| count > 0));
        assert!(trained.counts.is_sorted_by(|a, b| a >= b));
    }

    #[test]
    fn bpe_f05_ties_go_to_the_smallest_ids() {
        for text in ["bbbaaaddddcccc", "aaabbbccccdddd"] {
            assert_eq!(made(&trained(text, 260)), ["cc", "dd", "aa", "bb"]);
        }
    }

    #[test]
    fn bpe_f06_characters_that_training_never_saw_come_back() {
        let bpe = trained("hello world", 300).bpe;
        let text = "hello 嗎 Zulu";
        assert_eq!(
            bpe.decode(&bpe.encode(text.as_bytes()).unwrap()).unwrap(),
            text.as_bytes()
        );
    }

    #[test]
    fn bpe_f07_too_little_text_ends_early_with_a_word() {
        for (text, size) in [("", 256), ("   ", 258), ("abc", 258)] {
            let trained = trained(text, 300);
            assert_eq!(trained.bpe.size(), size, "{text:?}");
            let expected = format!("asked for 300 tokens, the text supports only {size}");
            assert_eq!(trained.shortfall(), Some(expected));
        }
        assert_eq!(trained("abc", 258).shortfall(), None);
        let trainer = Trainer::new(SplitRule::Gpt2)
            .with_specials(vec!["<|end|>".into()])
            .unwrap();
        assert_eq!(
            trainer.train(256).unwrap_err().to_string(),
            "vocabulary size: expected at least 257 (256 bytes, 1 special tokens) and at most 16777216, found 256"
        );
    }

    #[test]
    fn special_tokens_are_borders_and_come_last() {
        let mut trainer = Trainer::new(SplitRule::Gpt2)
            .with_specials(vec!["<|a|>".into(), "<|b|>".into()])
            .unwrap();
        trainer
            .read(&b"ab<|a|>ab<|b|>ab"[..], &mut |_| ())
            .unwrap()
            .unwrap();
        let trained = trainer.train(1000).unwrap();
        assert_eq!(made(&trained), ["ab"]);
        assert_eq!(
            trained.bpe.specials(),
            [("<|a|>".to_owned(), 257), ("<|b|>".to_owned(), 258)]
        );
        for wrong in [vec!["x".to_owned(), "x".to_owned()], vec![String::new()]] {
            assert!(Trainer::new(SplitRule::Gpt2).with_specials(wrong).is_err());
        }
    }

    #[test]
    fn bpe_f08_much_text_is_read_in_parts() {
        let text = "some words that come again and again\n".repeat(400_000); // 15 MB, more than is read at once
        let mut counted = Vec::new();
        let mut trainer = Trainer::new(SplitRule::Gpt2).with_threads(2);
        let note = &mut |progress| counted.push(progress);
        trainer.read(text.as_bytes(), note).unwrap().unwrap();
        assert_eq!(counted.len(), 3);
        assert_eq!(counted[2], Progress::Counted(text.len() as u64));
        assert_eq!(trainer.words.size().0, 7, "the different pieces");
        let mut whole = Trainer::new(SplitRule::Gpt2);
        whole.add(text.as_bytes()).unwrap();
        assert_eq!(
            trainer.train(280).unwrap().bpe,
            whole.train(280).unwrap().bpe
        );
    }

    #[test]
    fn a_failing_reader_is_reported() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is gone"))
            }
        }
        assert!(
            Trainer::new(SplitRule::Gpt2)
                .read(Broken, &mut |_| ())
                .is_err()
        );
    }
}
