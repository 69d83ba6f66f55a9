//! The command line of the suite.

use std::path::PathBuf;

use clap::Parser;

use super::corpus::Corpus;
use super::task::Work;

const FIELDS: &str = "Corpora: english (tiny Shakespeare, or the embedded tales if it is not there), mixed10 and mixed100 (10 and 100 MB of the sources, pages and texts \
found on this machine). Without names, encoding and decoding are measured on english and mixed10, training of 1,024 tokens on english, of 32,768 on mixed100.\n\n\
With --json each line has bench, work, corpus, threads, who, mb_per_s, seconds (of the best repetition), peak_rss_mb (of a process that does this and nothing \
else; null where the operating system does not say). Ours reads its vocabulary from a .tiktoken file; reading is not timed. The crate bpe does not cut text and gets our \
pieces.\n\nExit codes: 0 all is well, 1 something failed or two do not have the same tokens, 2 wrong usage.";

/// Byte-pair encoding with the r50k vocabulary, and training.
#[derive(Clone, Debug, Parser)]
#[command(name = "cargo xtask bench bpe", after_help = FIELDS)]
pub(crate) struct Options {
    /// What to measure: encode-cold, encode-warm, decode, train-1024, train-32768
    #[arg(value_name = "WORK", value_parser = Work::parse)]
    works: Vec<Work>,
    /// Texts: english, mixed10, mixed100
    #[arg(long, value_delimiter = ',', value_parser = Corpus::parse)]
    corpus: Vec<Corpus>,
    /// Numbers of threads [default: 1 and one per core]
    #[arg(long, value_delimiter = ',', value_parser = at_least_one)]
    threads: Vec<usize>,
    /// Processes for each, in turns; training on much text gets one
    #[arg(long, default_value = "5", value_parser = at_least_one)]
    rounds: usize,
    /// The text of the corpus english
    #[arg(long, value_name = "FILE")]
    pub(crate) english: Option<PathBuf>,
    /// A Python whose tiktoken and tokenizers, where it has them, do the same
    #[arg(long, value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,
    /// One object per line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

fn at_least_one(word: &str) -> Result<usize, String> {
    let number = word.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("expected a whole number above 0, found `{word}`"))
}

impl Options {
    /// Reads the words behind the name of the suite.
    pub(crate) fn read(words: &[&str]) -> Result<Self, clap::Error> {
        Self::try_parse_from(std::iter::once(&"bpe").chain(words))
    }

    /// The texts that are needed.
    pub(crate) fn corpora(&self) -> impl Iterator<Item = Corpus> {
        let all = Corpus::ALL.into_iter();
        all.filter(|&corpus| !self.works(corpus).is_empty())
    }

    /// What is done with a text, on how many threads.
    pub(crate) fn works(&self, corpus: Corpus) -> Vec<(Work, usize)> {
        let named = |work: &Work| self.works.is_empty() || self.works.contains(work);
        let fits = |work: &Work| match self.corpus.is_empty() {
            true => corpus.is_usual_for(*work),
            false => self.corpus.contains(&corpus),
        };
        let works = Work::ALL.into_iter().filter(named).filter(fits);
        works
            .flat_map(|work| {
                self.threads_of(work)
                    .into_iter()
                    .map(move |threads| (work, threads))
            })
            .collect()
    }

    /// Decoding is for one thread.
    fn threads_of(&self, work: Work) -> Vec<usize> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut threads = match self.threads.as_slice() {
            [] => vec![1, cores],
            named => named.to_vec(),
        };
        if work == Work::Decode {
            threads = vec![1];
        }
        threads.dedup();
        threads
    }

    /// How many processes there are of each.
    pub(crate) fn rounds_of(&self, work: Work) -> usize {
        match work {
            Work::Train(size) if size > 10_000 => 1,
            _ => self.rounds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        Options::read(&words).map_err(|error| error.to_string())
    }

    fn count(line: &str) -> usize {
        let options = read(line).expect(line);
        options
            .corpora()
            .map(|corpus| options.works(corpus).len())
            .sum()
    }

    #[test]
    fn without_names_each_work_has_its_usual_texts() {
        assert_eq!(count("--threads 1"), 3 * 2 + 2);
        assert_eq!(count("--threads 1,2"), 3 * 2 + 2 + 4 + 2);
        assert_eq!(count("encode-cold decode --corpus english --threads 1"), 2);
        assert_eq!(count("train-1024 --corpus english,mixed10 --threads 1"), 2);
        let options = read("train-32768 --rounds 7").unwrap();
        assert_eq!(
            (
                options.rounds_of(Work::Train(32_768)),
                options.rounds_of(Work::Decode)
            ),
            (1, 7)
        );
    }

    #[test]
    fn wrong_usage_is_named() {
        for (line, message) in [
            ("fast", "expected encode-cold, encode-warm, decode"),
            (
                "--corpus small",
                "expected english, mixed10, mixed100, found `small`",
            ),
            ("--rounds 0", "expected a whole number above 0"),
        ] {
            let problem = read(line).expect_err(line);
            assert!(problem.contains(message), "{line}: {problem}");
        }
    }
}
