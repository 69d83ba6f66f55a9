//! The command line.

mod tokenizer;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::Settings;
use crate::parse::{number, whole};
use crate::{Error, commands};
pub use tokenizer::{
    TokenizerCommand, TokenizerDecodeArgs, TokenizerEncodeArgs, TokenizerFile, TokenizerInfoArgs,
    TokenizerTrainArgs,
};

/// The program's arguments.
#[derive(Debug, Parser)]
#[command(
    name = "burtorch-gpt",
    version,
    about = "Train, evaluate and sample a small GPT on a CPU",
    after_help = "Example:\n  burtorch-gpt train                                  learn the embedded tales\n  burtorch-gpt generate --model runs/small-1           write in their style\n\nEnvironment:\n  BURTORCH_SIMD  portable, avx2 or avx512: run at this SIMD level instead of the best of the machine, for timing and tests"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train a GPT on a text; with no argument, on the tales that come with the program
    Train(Box<TrainArgs>),
    /// Write text with a trained model
    Generate(GenerateArgs),
    /// Measure a trained model on text it did not learn
    Eval(EvalArgs),
    /// Draw the curves of one run or several: losses, learning rate, gradient norm
    Plot(PlotArgs),
    /// Make a run folder of a GPT-2 from Hugging Face transformers, to generate, evaluate and train on
    Import(ImportArgs),
    /// Write a model for Hugging Face transformers
    Export(ExportArgs),
    /// Learn a tokenizer, and turn text into tokens and back
    #[command(subcommand)]
    Tokenizer(TokenizerCommand),
    /// Tell what a training run will take: parameters, operations per step, memory; and what the machine offers
    Info(Box<InfoArgs>),
    /// Write the file that lets a shell complete this program's commands and flags
    Completions(CompletionsArgs),
    /// Write manual pages
    Man(ManArgs),
}

/// Arguments of `train`.
#[derive(Debug, Args)]
#[command(
    after_help = "Flags win over --config, --config wins over --preset.\n\nExamples:\n  burtorch-gpt train --data book.txt --steps 5000 --out runs/book\n  burtorch-gpt train --out runs/book --resume          go on after a break\n  burtorch-gpt train --preset mini --optimizer adamw --lr 1e-3 --json"
)]
pub struct TrainArgs {
    /// The settings of the run.
    #[command(flatten)]
    pub settings: Settings,
    /// TOML file with settings, named as the flags without dashes in front; config.toml of a run is one
    #[arg(long, value_name = "FILE.toml", help_heading = "Run")]
    pub config: Option<PathBuf>,
    /// Folder of the run: new or empty, or with --resume that of the run to go on with [default: runs/PRESET-N; with --resume the newest run]
    #[arg(long, value_name = "DIR", help_heading = "Run")]
    pub out: Option<PathBuf>,
    /// Go on with a run that was stopped (Ctrl-C, a crash), from its last saved state; it ends as if it had not been broken off. The settings stay those of its start
    #[arg(long, help_heading = "Run")]
    pub resume: bool,
    /// Threads; the result is the same for every number of them [default: one per core]
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true, help_heading = "Run")]
    pub threads: Option<usize>,
    /// Print one line of JSON with the results to standard output at the end
    #[arg(long, help_heading = "Run")]
    pub json: bool,
}

/// Arguments of `generate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Text appears as it is written, a character once all its bytes are there; bytes that form none are shown as U+FFFD. Ctrl-C ends it behind the last token.\n\nExamples:\n  burtorch-gpt generate --model runs/small-1 --prompt \"The fox\" --tokens 200 --temperature 0.7\n  burtorch-gpt generate --model runs/small-1 --stop $'\\n\\n' --samples 3        a paragraph each\n  burtorch-gpt generate --model runs/small-1 --prompt-file start.txt --json"
)]
pub struct GenerateArgs {
    /// Folder of a run
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// Take the model of the step with the lowest validation loss instead of the last
    #[arg(long)]
    pub best: bool,
    /// Text to go on from; its end counts, as far as the model looks back. Empty: start as behind a line end, or from token 0 if the model knows none
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        allow_hyphen_values = true,
        hide_default_value = true
    )]
    pub prompt: String,
    /// File with the text to go on from, `-` for standard input; every character counts, a line end at the end too
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub prompt_file: Option<PathBuf>,
    /// Tokens to write in each sample, the prompt not counted
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true, default_value_t = 500)]
    pub tokens: usize,
    /// Boldness: 0 always takes the most likely token, 1 draws from the model's own distribution
    #[arg(long, value_name = "X", value_parser = number, allow_negative_numbers = true, default_value_t = 0.8)]
    pub temperature: f64,
    /// Draw from this many most likely tokens only; 0 draws from all
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true, default_value_t = 0)]
    pub top_k: usize,
    /// Draw from the fewest most likely tokens that have this probability together; 1 draws from all, 0 always takes the most likely one
    #[arg(long, value_name = "X", value_parser = number, allow_negative_numbers = true, default_value_t = 1.0)]
    pub top_p: f64,
    /// Tokens by which the model's window moves on once it is full: 1 lets every token see as many as there can be, half of the block makes long texts
    /// several times as fast
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true, default_value_t = 1)]
    pub stride: usize,
    /// Compute all that a token sees again for each: the same text, slower
    #[arg(long)]
    pub no_cache: bool,
    /// End a text where the model writes this, which is left out; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub stop: Vec<String>,
    /// Number of texts to write, each of several behind a line with its number; 0 only looks whether the model can be read
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true, default_value_t = 1)]
    pub samples: usize,
    /// Seed of the draws; the same seed gives the same texts
    #[arg(long, value_name = "N", value_parser = whole::<u64>, allow_negative_numbers = true, default_value_t = 1)]
    pub seed: u64,
    /// Print one line of JSON with all texts to standard output at the end instead
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  burtorch-gpt completions bash > ~/.local/share/bash-completion/completions/burtorch-gpt\n  burtorch-gpt completions zsh > _burtorch-gpt              into a folder of $fpath\n  burtorch-gpt completions fish > ~/.config/fish/completions/burtorch-gpt.fish"
)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  burtorch-gpt man | man -l -                          read the page of the program\n  burtorch-gpt man --out ~/.local/share/man/man1       keep all pages; then: man burtorch-gpt-train"
)]
pub struct ManArgs {
    /// Folder to write the pages of the program and of every command to; it must be there. Without it, the program's page goes to standard output
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Arguments of `eval`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  burtorch-gpt eval --model runs/small-1 --data another-book.txt"
)]
pub struct EvalArgs {
    /// Folder of a run
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// Take the model of the step with the lowest validation loss instead of the last
    #[arg(long)]
    pub best: bool,
    /// Text to measure on, all of it [default: the validation part of the text the run learned from]
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Print one line of JSON to standard output instead
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  burtorch-gpt import gpt2 --out runs/gpt2             a folder with config.json and model.safetensors\n  burtorch-gpt generate --model runs/gpt2 --prompt \"Once\"\n  burtorch-gpt train --init-from runs/gpt2 --data book.txt --lr 1e-4 --out runs/book"
)]
pub struct ImportArgs {
    /// Folder with config.json, model.safetensors and, if there is a tokenizer, tokenizer.json
    #[arg(value_name = "HF_DIR")]
    pub folder: PathBuf,
    /// Folder of the run to make: new or empty
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Take numbers of the types F64, F16 and BF16 too, rounded to F32
    #[arg(long)]
    pub convert: bool,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(
    after_help = "Biases that the model does not have are written as zeros. A head with a bias, as the preset mini has, cannot be exported.\n\nExample:\n  burtorch-gpt export --model runs/small-1 --out small-hf\n  python -c \"import transformers; transformers.AutoModelForCausalLM.from_pretrained('small-hf')\""
)]
pub struct ExportArgs {
    /// Folder of a run
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// Folder to write: new or empty
    #[arg(long, value_name = "HF_DIR")]
    pub out: PathBuf,
    /// Take the model of the step with the lowest validation loss instead of the last
    #[arg(long)]
    pub best: bool,
}

/// Arguments of `plot`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  burtorch-gpt plot runs/small-1                       writes runs/small-1/curve.svg\n  burtorch-gpt plot runs/small-1 runs/small-2 --out both.svg"
)]
pub struct PlotArgs {
    /// Folders of runs, whose curves go into one picture
    #[arg(value_name = "DIR", required = true)]
    pub runs: Vec<PathBuf>,
    /// The picture, an SVG file [default: curve.svg in the folder of a single run, curves.svg here for several]
    #[arg(long, value_name = "FILE.svg")]
    pub out: Option<PathBuf>,
}

/// Arguments of `info`: the settings are those of `train`.
#[derive(Debug, Args)]
#[command(
    after_help = "Nothing is trained and nothing is written; the text is read for its vocabulary. The memory is the peak_rss_mb that train reports at its end, within a tenth.\n\nExamples:\n  burtorch-gpt info --preset base                      would it fit?\n  burtorch-gpt info --preset base --micro-batch 1 --threads 1 --json\n  burtorch-gpt info --data book.txt --block-size 1024 --embed 256"
)]
pub struct InfoArgs {
    /// The settings of the run.
    #[command(flatten)]
    pub settings: Settings,
    /// TOML file with settings, named as the flags without dashes in front; config.toml of a run is one
    #[arg(long, value_name = "FILE.toml", help_heading = "Run")]
    pub config: Option<PathBuf>,
    /// Threads of the run [default: one per core]
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true, help_heading = "Run")]
    pub threads: Option<usize>,
    /// Print one line of JSON to standard output instead
    #[arg(long, help_heading = "Run")]
    pub json: bool,
}

/// Does what the arguments say.
///
/// # Errors
///
/// Those of the command.
pub fn run(cli: &Cli) -> Result<(), Error> {
    match &cli.command {
        Command::Train(args) => commands::train::run(args),
        Command::Generate(args) => commands::generate::run(args),
        Command::Eval(args) => commands::eval::run(args),
        Command::Import(args) => commands::import::run(args),
        Command::Export(args) => commands::export::run(args),
        Command::Plot(args) => commands::plot::run(args),
        Command::Tokenizer(command) => commands::tokenizer::run(command),
        Command::Info(args) => commands::info::run(args),
        Command::Completions(args) => commands::completions::run(args),
        Command::Man(args) => commands::man::run(args),
    }
}

/// A complaint of the argument parser as one line, without the usage that follows it.
#[must_use]
pub fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let said = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:"));
    let words = said.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    words
        .collect::<Vec<_>>()
        .join(" ")
        .replace(" tip: ", "; tip: ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn f40_complaints_are_one_line_and_name_the_flag() {
        for (arguments, words) in [
            (&["train", "--lr", "abc"][..], &["--lr", "abc"][..]),
            (&["train", "--steps", "-1"], &["--steps", "-1", "from 0"]),
            (&["train", "--step", "1"], &["--step", "--steps"]),
            (
                &["train", "--preset", "smal"],
                &["--preset", "smal", "small"],
            ),
            (&["trian"], &["trian", "train"]),
            (&["generate"], &["--model"]),
            (
                &["generate", "--model", "x", "--tokens", "-1"],
                &["--tokens", "-1"],
            ),
        ] {
            let error = Cli::try_parse_from([&["burtorch-gpt"], arguments].concat()).unwrap_err();
            let line = one_line(&error);
            assert!(
                line.starts_with("error: ") && !line.contains('\n') && !line.contains("Usage"),
                "{line}"
            );
            assert!(words.iter().all(|word| line.contains(word)), "{line}");
        }
    }
}
