//! What is done, and by whom.

/// A piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Encoding by somebody who has the vocabulary and nothing else in memory.
    EncodeCold,
    /// Encoding what was encoded before.
    EncodeWarm,
    /// From tokens to bytes.
    Decode,
    /// Learning so many tokens.
    Train(usize),
}

impl Work {
    pub(crate) const ALL: [Self; 5] = [
        Self::EncodeCold,
        Self::EncodeWarm,
        Self::Decode,
        Self::Train(1024),
        Self::Train(32_768),
    ];

    pub(crate) fn name(self) -> String {
        match self {
            Self::EncodeCold => "encode-cold".into(),
            Self::EncodeWarm => "encode-warm".into(),
            Self::Decode => "decode".into(),
            Self::Train(size) => format!("train-{size}"),
        }
    }

    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|work| work.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("expected {names}, found `{name}`")
        })
    }

    /// Whether all who do it must come to the same: others break ties of training otherwise.
    pub(crate) fn is_comparable(self) -> bool {
        !matches!(self, Self::Train(_))
    }
}

/// Somebody who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Burtorch,
    /// The crate `tiktoken-rs`.
    Tiktoken,
    /// The crate `bpe`, which is given our pieces, since it does not cut text.
    Bpe,
    /// Python's tiktoken.
    PythonTiktoken,
    /// Python's tokenizers.
    PythonTokenizers,
}

impl Who {
    const ALL: [Self; 5] = [
        Self::Burtorch,
        Self::Tiktoken,
        Self::Bpe,
        Self::PythonTiktoken,
        Self::PythonTokenizers,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Burtorch => "burtorch",
            Self::Tiktoken => "tiktoken-rs",
            Self::Bpe => "bpe",
            Self::PythonTiktoken => "tiktoken (Python)",
            Self::PythonTokenizers => "tokenizers (Python)",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|who| who.name() == name)
    }

    /// What the script calls them.
    pub(crate) fn python_name(self) -> Option<&'static str> {
        match self {
            Self::PythonTiktoken => Some("tiktoken"),
            Self::PythonTokenizers => Some("tokenizers"),
            _ => None,
        }
    }

    /// All who can do it: only we on several threads; none of the crates, nor tiktoken, learns a vocabulary.
    pub(crate) fn all_for(work: Work, threads: usize, python: bool) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |&who| {
            let trains = matches!(who, Self::Burtorch | Self::PythonTokenizers);
            who == Self::Burtorch
                || threads == 1
                    && (python || who.python_name().is_none())
                    && (work.is_comparable() || trains)
        })
    }
}

/// A piece of work, done by somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) work: Work,
    pub(crate) threads: usize,
    pub(crate) who: Who,
}

impl Task {
    /// As words of a command line.
    pub(crate) fn words(self) -> [String; 3] {
        [
            self.work.name(),
            self.threads.to_string(),
            self.who.name().into(),
        ]
    }

    pub(crate) fn parse(words: [&str; 3]) -> Result<Self, String> {
        let [work, threads, who] = words;
        Ok(Self {
            work: Work::parse(work)?,
            threads: threads
                .parse()
                .map_err(|_| format!("expected a number of threads, found `{threads}`"))?,
            who: Who::parse(who).ok_or_else(|| format!("there is no contender `{who}`"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        for work in Work::ALL {
            for who in Who::ALL {
                let task = Task {
                    work,
                    threads: 2,
                    who,
                };
                let words = task.words();
                assert_eq!(Task::parse([&words[0], &words[1], &words[2]]), Ok(task));
            }
        }
        assert!(Task::parse(["encode", "1", "bpe"]).is_err());
        assert!(Task::parse(["decode", "one", "bpe"]).is_err());
        assert!(Task::parse(["decode", "1", "nobody"]).is_err());
    }

    #[test]
    fn the_field_fits_the_work() {
        let count = |work, threads, python| Who::all_for(work, threads, python).count();
        assert_eq!(count(Work::EncodeCold, 1, false), 3);
        assert_eq!(count(Work::Decode, 1, true), 5);
        assert_eq!(count(Work::EncodeCold, 2, true), 1);
        assert_eq!(
            (
                count(Work::Train(1024), 1, true),
                count(Work::Train(1024), 1, false)
            ),
            (2, 1)
        );
    }
}
