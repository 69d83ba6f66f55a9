//! What lies beside a model in the folder of a run: its settings and its losses.

use std::path::Path;

use burtorch_gpt::config::{Config, ConfigFile, Record, Settings};
use burtorch_gpt::metrics::{Line, Metrics};
use burtorch_tests::Outcome;

use super::Target;

pub(super) fn config() -> Outcome<Target> {
    let config = Config::resolve(&Settings::default())?;
    let record = Record::imported(Path::new("x"));
    let seeds = vec![
        ConfigFile::text(&config, &record)?.into_bytes(),
        b"steps = 3\nlr = 1e-3\n".to_vec(),
    ];
    let load = |path: &Path| Config::resolve(&ConfigFile::load(path)?.settings).map(drop);
    Ok(Target {
        name: "config",
        file: "config.toml",
        seeds,
        load: Box::new(load),
    })
}

pub(super) fn metrics() -> Outcome<Target> {
    let line = |step| Line {
        step,
        loss: 2.5,
        lr: 1e-3,
        grad_norm: 0.5,
        tokens_per_s: 1e5,
        ms: 1.25,
        val_loss: (step == 2).then_some(2.25),
        sample: (step == 2).then(|| "so\nit".into()),
    };
    let lines = (1..=3).map(|step| serde_json::to_string(&line(step)).map(|text| text + "\n"));
    let seeds = vec![lines.collect::<Result<String, _>>()?.into_bytes()];
    let load = |path: &Path| {
        Metrics::read(path)?;
        Metrics::resume(path, 2).map(drop)
    };
    Ok(Target {
        name: "metrics",
        file: "metrics.jsonl",
        seeds,
        load: Box::new(load),
    })
}
