//! How much memory the process has taken, and how much a run will take.

use serde::Serialize;

use crate::Error;
use crate::config::{ActivationKind, Config, EngineKind, OptimizerKind, VALIDATION_FRACTION};
use crate::text::gigabytes;

/// Taken for the memory of a machine that does not say how much it has: more than any that trains on a CPU alone.
const UNKNOWN_MACHINE: u64 = 1 << 42;

/// Bytes of a number in training.
const NUMBER: f64 = 4.0;

/// What the process takes before it trains anything, in bytes: mostly the pages of the program and of the C library that are run
/// through, 6.3 to 7.3 MB depending on how the file lies in the memory of the operating system (less as the linker wrote it than copied),
/// then the heap of the command line, and what the allocator keeps of buffers that have moved. Measured as the resident set of runs of
/// the presets on Linux, less the parts below.
const PROGRAM: f64 = 7.2e6;

/// What making and holding a byte-pair encoding takes, for itself and for each of its tokens. Measured likewise, with 300 to 50,257 tokens.
const BYTE_PAIRS: (f64, f64) = (1.7e6, 160.0);

/// What every thread at work behind the first takes for itself: stack, and what the allocator keeps for it. Measured likewise.
const THREAD: f64 = 0.5e6;

/// Bytes of a parameter as a variable on the scalar tape, with the copy of its value for what reads it. As the next two measured on the
/// presets mini and small, with what lists have in reserve.
const SCALAR_PARAMETER: f64 = 18.0;

/// Bytes of a result on the scalar tape: handle, value, node and gradient, and copies for what reads it.
const SCALAR_RESULT: f64 = 52.0;

/// Bytes of an attention weight that the scalar tape keeps for the way back, once more if some are dropped.
const SCALAR_WEIGHT: f64 = 6.0;

/// The most groups of micro-batches that [`burtorch_tensor::Pieces`] makes, and so the most threads it puts to work.
const MOST_GROUPS: usize = 4;

/// Numbers that a matrix product copies at a time for each row of its inner dimension, and the most such rows.
const PANEL: (f64, f64) = (48.0, 1024.0);

/// The largest resident set of this process so far, in bytes: `VmHWM` of `/proc/self/status`.
///
/// `None` where the operating system does not say (anywhere but on Linux).
#[must_use]
pub fn peak_resident_bytes() -> Option<u64> {
    bytes_of(
        &std::fs::read_to_string("/proc/self/status").ok()?,
        "VmHWM:",
    )
}

/// The memory of this machine in bytes: `MemTotal` of `/proc/meminfo`, `None` where there is no such file.
fn machine_bytes() -> Option<u64> {
    bytes_of(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

/// The memory that programs can still have, in bytes: `MemAvailable` of `/proc/meminfo`, `None` where there is no such file.
pub(crate) fn available_bytes() -> Option<u64> {
    let table = std::fs::read_to_string("/proc/meminfo").ok()?;
    bytes_of(&table, "MemAvailable:")
}

fn bytes_of(table: &str, name: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// What a run reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextSize {
    /// Bytes of the text, which are in memory until its tokens are.
    pub bytes: usize,
    /// How many tokens it has.
    pub tokens: usize,
    /// Bytes that these take in memory: none if they are in a file.
    pub token_bytes: usize,
    /// Whether they are those of a byte-pair encoding.
    pub byte_pairs: bool,
}

/// The memory that training takes at its peak, in bytes, by part: what the largest buffers of a run hold, counted from its settings.
///
/// In the formulas a token vector has `C` numbers, `B` windows of `T` tokens make a batch and `M` a micro-batch; there are `L` layers of
/// `H` heads, `V` symbols, `P` parameters and `N` threads at work. A number has 4 bytes. Groups of micro-batches run in parallel,
/// four at most, so that more threads find no work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The program itself, about 7 MB and half a MB for every further thread; a byte-pair encoding, 1.7 MB and 160 bytes for each of its
    /// tokens; and the tokens: those of the text, two bytes each for up to 65,536 symbols, and `2·B·T` of a batch with its targets.
    pub program_and_tokens: f64,
    /// `P` numbers.
    pub parameters: f64,
    /// `P` numbers, and `P` on every thread at work for the sums of its groups, unless there is one group alone.
    pub gradients: f64,
    /// What the optimizer remembers: nothing or `2·P` numbers.
    pub moments: f64,
    /// The results of a micro-batch, `N·M·T·(L·14·C + 3·C + V)` numbers, with dropout `L·16·C + 4·C + V`; and what the kernels keep of them for
    /// the way back, `L·(2·H + 4) + V + 3`, with GELU `4·C` more for each layer. With `--recompute` that of one layer, and `L·C`. On the scalar engine
    /// 52 bytes for each of those results, 18 for every parameter and 6 for each of `N·M·L·H·T²` attention weights, with dropout 12.
    pub results: f64,
    /// On the way back: the gradients that are needed at one time, `7·C` for each token in the MLP or `2·C + V` at the head, and the working
    /// memory of kernels.
    pub way_back: f64,
    /// What drawing a sample takes beyond the results and the way back, in whose place it lies unless training goes on behind it: the weights of products once more,
    /// `12·L·C² + V·C` numbers, and for every position of a block `2·L·C` for keys and values and `10·C` between the layers.
    pub sampling: f64,
    /// What reading the text takes beyond the memory that is free for it as long as training has not begun.
    pub reading: f64,
}

impl Estimate {
    /// For a run under these settings on a text of this size.
    ///
    /// # Errors
    ///
    /// As [`ModelConfig::parameter_count`](crate::model::ModelConfig::parameter_count).
    pub fn of(
        config: &Config,
        vocab_size: usize,
        text: TextSize,
        threads: usize,
    ) -> Result<Self, Error> {
        let parameters = NUMBER * config.model(vocab_size).parameter_count()? as f64;
        let groups = groups(config, text.tokens);
        let threads = threads.min(groups) as f64;
        let sums = if groups == 1 { 0.0 } else { threads };
        let moments = match config.optimizer {
            OptimizerKind::Sgd => 0.0,
            OptimizerKind::Adam | OptimizerKind::Adamw => 2.0,
        };
        let batch = 2.0 * config.batch_size as f64 * config.block_size as f64;
        let program = PROGRAM + (threads - 1.0) * THREAD;
        let tokenizer = match text.byte_pairs {
            true => BYTE_PAIRS.0 + BYTE_PAIRS.1 * vocab_size as f64,
            false => 0.0,
        };
        let (results, way_back) = activations(config, vocab_size, parameters);
        // What a sample between two steps leaves is too cut up for what training takes again.
        let given_back = match (1..config.steps).contains(&config.sample_every) {
            true => 0.0,
            false => threads * (results + way_back),
        };
        let training = Self {
            program_and_tokens: program + tokenizer + text.token_bytes as f64 + NUMBER * batch,
            parameters,
            gradients: parameters * (1.0 + sums),
            moments: parameters * moments,
            results: threads * results,
            way_back: threads * way_back,
            sampling: (sampling(config, vocab_size) - given_back).max(0.0),
            reading: 0.0,
        };
        let free = training.total() - training.program_and_tokens;
        let reading = (text.bytes as f64 - free).max(0.0);
        Ok(Self {
            reading,
            ..training
        })
    }

    /// Names and sizes of the parts.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, f64); 8] {
        [
            ("program and tokens", self.program_and_tokens),
            ("parameters", self.parameters),
            ("gradients", self.gradients),
            ("moments", self.moments),
            ("results", self.results),
            ("way back", self.way_back),
            ("sampling", self.sampling),
            ("reading the text", self.reading),
        ]
    }

    /// All parts together.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Refuses a run that would exhaust the memory of this machine, as an allocation that fails ends the process without a word.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`], naming the flags that the largest part depends on.
    pub fn check(&self) -> Result<(), Error> {
        self.check_within(machine_bytes().unwrap_or(UNKNOWN_MACHINE) as f64)
    }

    fn check_within(&self, limit: f64) -> Result<(), Error> {
        if self.total() <= limit {
            return Ok(());
        }
        let weights = self.parameters + self.gradients + self.moments;
        let flags = if weights > self.results + self.way_back {
            "--embed and --layers"
        } else {
            "--micro-batch and --batch-size"
        };
        let expected = format!(
            "a run that fits into the {} of this machine",
            gigabytes(limit)
        );
        let found = format!("one that needs about {}", gigabytes(self.total()));
        Err(Error::setting(flags, expected, found))
    }
}

/// Groups of pieces that training or evaluation runs.
fn groups(config: &Config, tokens: usize) -> usize {
    let validation = (tokens as f64 * VALIDATION_FRACTION) as usize / config.block_size;
    let sequences = config.batch_size.max(validation);
    sequences.div_ceil(config.micro_batch).min(MOST_GROUPS)
}

/// Bytes that a [`Decoder`](crate::inference::Decoder) takes.
fn sampling(config: &Config, vocab_size: usize) -> f64 {
    let [t, c, layers, v] =
        [config.block_size, config.embed, config.layers, vocab_size].map(|size| size as f64);
    let weights = 12.0 * layers * c * c + v * c;
    NUMBER * (weights + t * c * (2.0 * layers + 10.0))
}

/// Bytes of the results of a micro-batch, with what kernels keep of them, and bytes that the way back takes; `parameters` is in bytes too.
fn activations(config: &Config, vocab_size: usize, parameters: f64) -> (f64, f64) {
    let [micro_batch, t, c, h, layers, v] = [
        config.micro_batch,
        config.block_size,
        config.embed,
        config.heads,
        config.layers,
        vocab_size,
    ]
    .map(|size| size as f64);
    let tokens = micro_batch * t;
    let dropouts = if config.dropout > 0.0 { 1.0 } else { 0.0 };
    if config.engine == EngineKind::Scalar {
        let results = layers * (14.0 + 2.0 * dropouts) * c + (3.0 + dropouts) * c + v;
        let weights = layers * h * t * (1.0 + dropouts);
        let bytes = SCALAR_RESULT * results + SCALAR_WEIGHT * weights;
        let variables = SCALAR_PARAMETER / NUMBER * parameters;
        return (variables + tokens * bytes, 0.0);
    }
    // Recomputed, all blocks keep their result, and one at a time all that is within.
    let (open, closed) = match config.recompute {
        true => (1.0, layers),
        false => (layers, 0.0),
    };
    let results = (open * (14.0 + 2.0 * dropouts) + closed + 3.0 + dropouts) * c + v;
    let slopes = match config.activation {
        ActivationKind::Relu => 0.0,
        ActivationKind::Gelu | ActivationKind::GeluTanh => 4.0 * c,
    };
    let kept = open * (2.0 * h + 4.0 + slopes) + v + 3.0;
    let gradients = (7.0 * c).max(2.0 * c + v);
    let panel = PANEL.0 * tokens.max(4.0 * c).min(PANEL.1);
    (
        NUMBER * tokens * (results + kept),
        NUMBER * (tokens * (gradients + 4.0 * c) + panel),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Preset, Settings};

    #[test]
    fn reads_the_line_of_the_kernel() {
        let peak_of = |status| bytes_of(status, "VmHWM:");
        assert_eq!(
            peak_of("Name:\tx\nVmHWM:\t    5120 kB\nVmRSS:\t 1 kB\n"),
            Some(5120 * 1024)
        );
        assert_eq!(peak_of("VmRSS:\t 1 kB\n"), None);
        assert_eq!(peak_of("VmHWM:\t many kB\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_a_peak_and_this_machine_more() {
        let peak = peak_resident_bytes().unwrap();
        assert!(peak > 100_000 && machine_bytes().unwrap() > peak);
    }

    /// A text of so many bytes and tokens of two bytes.
    fn text(bytes: usize, tokens: usize) -> TextSize {
        TextSize {
            bytes,
            tokens,
            token_bytes: 2 * tokens,
            byte_pairs: false,
        }
    }

    fn mini(change: impl FnOnce(&mut Settings)) -> Config {
        let mut settings = Settings {
            preset: Some(Preset::Mini),
            ..Settings::default()
        };
        change(&mut settings);
        Config::resolve(&settings).unwrap()
    }

    #[test]
    fn the_parts_are_those_of_the_settings() {
        let found = Estimate::of(&mini(|_| ()), 65, text(9000, 1000), 2).unwrap();
        let parameters = 4.0 * 46_337.0;
        assert_eq!(
            found.program_and_tokens - PROGRAM - THREAD,
            2.0 * 1000.0 + 4.0 * 2.0 * 64.0 * 8.0
        );
        assert_eq!(
            (
                found.parameters,
                found.gradients,
                found.moments,
                found.reading
            ),
            (parameters, 3.0 * parameters, 0.0, 0.0)
        );
        let token = 6.0 * (14.0 * 24.0 + 2.0 * 6.0 + 4.0) + 3.0 * 24.0 + 2.0 * 65.0 + 3.0;
        assert_eq!(found.results, 2.0 * 16.0 * 8.0 * 4.0 * token);
        let adam = mini(|settings| settings.optimizer = Some(OptimizerKind::Adam));
        let adam = Estimate::of(&adam, 65, text(9000, 1000), 1).unwrap();
        assert_eq!(
            (adam.moments, adam.gradients),
            (2.0 * parameters, 2.0 * parameters)
        );
    }

    #[test]
    fn a_text_larger_than_training_counts_until_it_is_read() {
        let found = Estimate::of(&mini(|_| ()), 65, text(1 << 30, 1 << 30), 1).unwrap();
        let total = PROGRAM + 4.0 * f64::from(2 * 64 * 8) + 3.0 * f64::from(1 << 30);
        assert!((found.total() - total).abs() < 1.0);
    }

    #[test]
    fn a_sample_lies_in_the_place_of_the_results() {
        let estimate = |micro_batch| {
            let settings = mini(|settings| {
                settings.batch_size = Some(64);
                settings.micro_batch = Some(micro_batch);
            });
            Estimate::of(&settings, 65, text(100, 100), 1).unwrap()
        };
        assert_eq!(estimate(64).sampling, 0.0);
        let decoder: f64 = 4.0 * (6.0 * 12.0 * 576.0 + 65.0 * 24.0 + 8.0 * 24.0 * 22.0);
        let found = estimate(1);
        let sum = found.sampling + found.results + found.way_back;
        assert_eq!(sum, decoder.max(found.results + found.way_back));
    }

    #[test]
    fn a_sample_between_steps_and_a_byte_pair_encoding_count_by_themselves() {
        let estimate = |sample_every, byte_pairs| {
            let config = mini(|settings| {
                settings.sample_every = Some(sample_every);
                settings.steps = Some(100);
            });
            let text = TextSize {
                byte_pairs,
                ..text(100, 100)
            };
            Estimate::of(&config, 300, text, 1).unwrap()
        };
        let never = estimate(0, false);
        assert_eq!((estimate(100, false), never.sampling), (never, 0.0));
        let decoder: f64 = 4.0 * (6.0 * 12.0 * 576.0 + 300.0 * 24.0 + 8.0 * 24.0 * 22.0);
        assert_eq!(estimate(99, false).sampling, decoder);
        let more = estimate(0, true).total() - never.total();
        assert!((more - 1_748_000.0).abs() < 1.0, "{more}");
    }

    #[test]
    fn one_piece_alone_needs_no_second_buffer() {
        let one = mini(|settings| {
            settings.batch_size = Some(1);
            settings.micro_batch = Some(1);
        });
        let found = Estimate::of(&one, 65, text(100, 100), 4).unwrap();
        assert_eq!(found.gradients, found.parameters);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let many = mini(|settings| {
            settings.batch_size = Some(16_000_000);
            settings.micro_batch = Some(16_000_000);
        });
        let large = mini(|settings| settings.embed = Some(2400));
        for (config, flags) in [
            (many, "--micro-batch and --batch-size: expected"),
            (large, "--embed and --layers: expected"),
        ] {
            let estimate = Estimate::of(&config, 65, text(1000, 1000), 4).unwrap();
            let message = estimate.check_within(4e9).unwrap_err().to_string();
            assert!(message.starts_with(flags), "{message}");
            assert!(message.contains("the 4.0 GB of this machine"), "{message}");
            assert!(estimate.check_within(1e16).is_ok());
        }
    }
}
