//! How much memory the process has taken, and how much a run will take.

use crate::Error;
use crate::config::{Config, EngineKind, OptimizerKind};
use crate::text::gigabytes;

/// Taken for the memory of a machine that does not say how much it has: more than any that trains on a CPU alone.
const UNKNOWN_MACHINE: u64 = 1 << 42;

/// Bytes of a number in training.
const NUMBER: f64 = 4.0;

/// Numbers of a block's results for each number of a token vector, fitted to the measured peaks of the presets mini and small; and those
/// that dropout adds.
const RESULTS: (f64, f64) = (14.0, 4.0);

/// Bytes that the scalar tape takes for a multiplication with its addition, slopes included; measured on the preset mini.
const SCALAR_PRODUCT: f64 = 18.0;

/// The most threads that [`burtorch_tensor::Pieces`] puts to work.
const MOST_THREADS: usize = 4;

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

fn bytes_of(table: &str, name: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The memory that training will take, in bytes: an estimate of its large parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// `4·P·(2 + moments)`: parameters, their gradients, and what the optimizer remembers; one more gradient for each thread behind the
    /// first.
    pub parameters: f64,
    /// What the engine keeps of a micro-batch for the way back, on every thread.
    ///
    /// On the tensor engine values and gradients of every result: `2·4·(layers·(14·C + H·T) + 3·C + V)` bytes a token, for `C`
    /// numbers per token vector, `H` heads, blocks of `T` tokens and a vocabulary of `V`; with dropout 18 instead of 14. On the scalar engine
    /// 18 bytes for every multiplication.
    pub activations: f64,
    /// The tokens of the text and of a batch with its targets, `4` bytes each.
    pub tokens: f64,
}

impl Estimate {
    /// For a run under these settings on a text of `tokens` tokens.
    ///
    /// # Errors
    ///
    /// As [`ModelConfig::parameter_count`](crate::model::ModelConfig::parameter_count).
    pub fn of(
        config: &Config,
        vocab_size: usize,
        tokens: usize,
        threads: usize,
    ) -> Result<Self, Error> {
        let model = config.model(vocab_size);
        let pieces = config.batch_size.div_ceil(config.micro_batch);
        let threads = threads.min(MOST_THREADS).min(pieces) as f64;
        let moments = match config.optimizer {
            OptimizerKind::Sgd => 0.0,
            OptimizerKind::Adam | OptimizerKind::Adamw => 2.0,
        };
        let copies = 2.0 + moments + (threads - 1.0);
        let [v, t, c, h, layers] = [
            vocab_size,
            config.block_size,
            config.embed,
            config.heads,
            config.layers,
        ]
        .map(|size| size as f64);
        let results = match config.dropout {
            0.0 => RESULTS.0,
            _ => RESULTS.0 + RESULTS.1,
        };
        let per_token = match config.engine {
            EngineKind::Tensor => 2.0 * NUMBER * (layers * (results * c + h * t) + 3.0 * c + v),
            EngineKind::Scalar => SCALAR_PRODUCT * model.flops_per_token() / 6.0,
        };
        Ok(Self {
            parameters: NUMBER * model.parameter_count()? as f64 * copies,
            activations: threads * config.micro_batch as f64 * t * per_token,
            tokens: 4.0 * (tokens as f64 + 2.0 * config.batch_size as f64 * t),
        })
    }

    /// All parts together.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.parameters + self.activations + self.tokens
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
        let flags = if self.parameters > self.activations {
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

    fn mini(change: impl FnOnce(&mut Settings)) -> Config {
        let mut settings = Settings {
            preset: Some(Preset::Mini),
            ..Settings::default()
        };
        change(&mut settings);
        Config::resolve(&settings).unwrap()
    }

    #[test]
    fn the_estimate_is_the_written_out_sum() {
        let found = Estimate::of(&mini(|_| ()), 65, 1000, 2).unwrap();
        assert_eq!(found.parameters, 4.0 * 46_337.0 * 3.0);
        let token = 6.0 * (14.0 * 24.0 + 6.0 * 8.0) + 3.0 * 24.0 + 65.0;
        assert_eq!(found.activations, 2.0 * 16.0 * 8.0 * 8.0 * token);
        assert_eq!(found.tokens, 4.0 * (1000.0 + 2.0 * 64.0 * 8.0));
        let adam = mini(|settings| settings.optimizer = Some(OptimizerKind::Adam));
        let adam = Estimate::of(&adam, 65, 1000, 1).unwrap();
        assert_eq!(adam.parameters, 4.0 * 46_337.0 * 4.0);
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
            let estimate = Estimate::of(&config, 65, 1000, 4).unwrap();
            let message = estimate.check_within(4e9).unwrap_err().to_string();
            assert!(message.starts_with(flags), "{message}");
            assert!(message.contains("the 4.0 GB of this machine"), "{message}");
            assert!(estimate.check_within(1e16).is_ok());
        }
    }
}
