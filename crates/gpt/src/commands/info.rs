//! `info`: what a run will take, before it is started.

use burtorch_tensor::simd_level;
use serde::Serialize;

use super::{available_threads, given, print, print_json, threads};
use crate::Error;
use crate::cli::InfoArgs;
use crate::config::Config;
use crate::memory::Estimate;
use crate::plan::with_origin;
use crate::session::{estimate, read};
use crate::text::{grouped, megabytes};

/// What a run will take; one JSON object with `--json`, else a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Info {
    /// Symbols of the text's vocabulary.
    vocab_size: usize,
    /// Parameters of the model, shared ones once.
    params: usize,
    /// Tokens of one optimizer step.
    tokens_per_step: usize,
    /// Floating-point operations of one optimizer step.
    flops_per_step: f64,
    /// The memory by part, in bytes.
    memory_bytes: Estimate,
    /// The largest resident memory that `train` will report as `peak_rss_mb`, in units of 10⁶ bytes.
    peak_rss_mb: f64,
    /// Instructions that the kernels use.
    simd: &'static str,
    /// Threads of the machine that work at the same time.
    cores: usize,
    /// Threads that training will be given.
    threads: usize,
}

/// Prints parameters, operations per step, memory by part, and what the machine offers.
///
/// # Errors
///
/// Those that `train` would end with before its first step: whatever is wrong with settings or text. A run that is too large for this machine
/// is no error here.
pub fn run(args: &InfoArgs) -> Result<(), Error> {
    let given = given(&args.settings, args.config.as_deref())?;
    let config = Config::resolve(&with_origin(&given)?)?;
    let found = info(&config, threads(args.threads)?)?;
    if args.json {
        print_json(&found)
    } else {
        print(&describe(&config, &found))
    }
}

fn info(config: &Config, threads: usize) -> Result<Info, Error> {
    let (source, tokenizer, corpus) = read(config)?;
    let memory_bytes = estimate(config, &source, &tokenizer, &corpus, threads)?;
    let model = config.model(tokenizer.size());
    let tokens_per_step = config.batch_size * config.block_size;
    Ok(Info {
        vocab_size: tokenizer.size(),
        params: model.parameter_count()?,
        tokens_per_step,
        flops_per_step: model.flops_per_token() * tokens_per_step as f64,
        peak_rss_mb: memory_bytes.total() / 1e6,
        memory_bytes,
        simd: simd_level(),
        cores: available_threads(),
        threads,
    })
}

fn describe(config: &Config, found: &Info) -> String {
    let line = |name: &str, text: String| format!("{name:22}{text:>12}\n");
    let parts = found.memory_bytes.parts();
    let memory: String = parts
        .iter()
        .filter(|(_, bytes)| *bytes > 0.0)
        .map(|(name, bytes)| line(&format!("  {name}"), megabytes(*bytes)))
        .collect();
    let head = format!(
        "model     {} layers, {} heads, embedding {}, block {}, vocabulary of {}: {} parameters\n\
         step      {} sequences, {} at a time, {} tokens: {:.3} GFLOP\n\
         machine   {} cores, {} instructions; threads of the run: {}\n\
         memory    at the peak of training\n",
        config.layers,
        config.heads,
        config.embed,
        config.block_size,
        found.vocab_size,
        grouped(found.params as u64),
        grouped(config.batch_size as u64),
        grouped(config.micro_batch as u64),
        grouped(found.tokens_per_step as u64),
        found.flops_per_step / 1e9,
        found.cores,
        found.simd,
        found.threads,
    );
    let total = line("  together", megabytes(found.memory_bytes.total()));
    (head + &memory + &total).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Preset, Settings};

    fn mini() -> (Config, Info) {
        let settings = Settings {
            preset: Some(Preset::Mini),
            ..Settings::default()
        };
        let config = Config::resolve(&settings).unwrap();
        let info = info(&config, 2).unwrap();
        (config, info)
    }

    #[test]
    fn numbers_are_those_of_the_model() {
        let (config, found) = mini();
        let model = config.model(found.vocab_size);
        assert_eq!(found.params, model.parameter_count().unwrap());
        assert_eq!(found.tokens_per_step, 64 * 8);
        assert_eq!(found.flops_per_step, 512.0 * model.flops_per_token());
        assert_eq!((found.threads, found.cores), (2, available_threads()));
    }

    #[test]
    fn the_table_adds_up() {
        let (config, found) = mini();
        let text = describe(&config, &found);
        let sizes = text.lines().filter_map(|line| line.strip_suffix(" MB"));
        let sizes: Vec<f64> = sizes
            .map(|line| line.split_whitespace().last().unwrap().parse().unwrap())
            .collect();
        let (total, parts) = sizes.split_last().unwrap();
        assert!(parts.len() >= 5, "{text}");
        assert!((parts.iter().sum::<f64>() - total).abs() < 0.5, "{text}");
        assert!(text.starts_with("model     6 layers, 6 heads, embedding 24, block 8"));
    }
}
