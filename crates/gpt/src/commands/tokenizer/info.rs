//! `tokenizer info`: what a tokenizer is.

use serde::Serialize;

use crate::Error;
use crate::cli::TokenizerInfoArgs;
use crate::commands::{print, print_json};
use crate::text::grouped;
use crate::tokenizer::Tokenizer;
use crate::tokenizer::bpe::files::hexadecimal;

/// One JSON object with `--json`, else a table.
#[derive(Debug, Serialize)]
struct Info {
    /// `character`, `number` or `bpe`.
    kind: &'static str,
    vocab_size: usize,
    /// Of byte-pair encoding only, as all that follows but the hash.
    merges: Option<usize>,
    split: Option<String>,
    specials: Option<Vec<(String, u32)>>,
    longest_token: Option<String>,
    sha256: String,
}

pub(super) fn run(args: &TokenizerInfoArgs) -> Result<(), Error> {
    let info = info(&args.file.load()?);
    if args.json {
        print_json(&info)
    } else {
        print(&describe(&info))
    }
}

fn info(tokenizer: &Tokenizer) -> Info {
    let (kind, bpe) = match tokenizer {
        Tokenizer::Character(_) => ("character", None),
        Tokenizer::Number(_) => ("number", None),
        Tokenizer::Bpe(bpe) => ("bpe", Some(bpe)),
    };
    let longest = bpe.and_then(|bpe| {
        let learned = bpe
            .merges()
            .iter()
            .filter_map(|merge| bpe.bytes(merge.made).ok());
        learned.max_by_key(|bytes| bytes.len())
    });
    Info {
        kind,
        vocab_size: tokenizer.size(),
        merges: bpe.map(|bpe| bpe.merges().len()),
        split: bpe.map(|bpe| bpe.rule().to_string()),
        specials: bpe.map(|bpe| bpe.specials().to_vec()),
        longest_token: longest.map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
        sha256: hexadecimal(&tokenizer.sha256()),
    }
}

fn describe(info: &Info) -> String {
    let mut lines = vec![
        ("kind", info.kind.to_owned()),
        (
            "vocabulary",
            format!("{} tokens", grouped(info.vocab_size as u64)),
        ),
    ];
    if let Some(merges) = info.merges {
        lines.push(("merges", grouped(merges as u64)));
    }
    if let Some(split) = &info.split {
        lines.push(("split rule", split.clone()));
    }
    let specials = info.specials.iter().flatten();
    lines.extend(specials.map(|(text, token)| ("special", format!("{token} {text:?}"))));
    if let Some(longest) = &info.longest_token {
        lines.push(("longest", format!("{longest:?}")));
    }
    lines.push(("SHA-256", info.sha256.clone()));
    let lines = lines
        .iter()
        .map(|(name, value)| format!("{name:12}{value}"));
    lines.collect::<Vec<_>>().join("\n")
}
