//! Training that is killed at random moments, again and again, while it saves often: each time it goes on, and it ends with the bits of an
//! unbroken run.
//!
//! ```text
//! cargo test --release -p burtorch-gpt --test kills -- --kills 200
//! ```

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use burtorch_data::derive_seed;
use serde_json::Value;

/// Kills unless something else is asked for: a few seconds.
const KILLS: u64 = 12;

/// A run that takes about half a second, most of it for saving.
const SETTINGS: &str = "--layers 1 --heads 2 --embed 8 --block-size 8 --batch-size 4 --dropout 0.1 --steps 300 --eval-every 5 --eval-batches 1";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let place = arguments.iter().position(|argument| argument == "--kills");
    let given = place.and_then(|place| arguments.get(place + 1)?.parse().ok());
    let wanted = given.unwrap_or(KILLS);
    let folder = tempfile::tempdir().expect("a folder");
    let straight = folder.path().join("straight");
    let begin = Instant::now();
    let status = start(&straight, 2).wait().expect("the program runs");
    let life = begin.elapsed();
    assert!(status.success());
    let expected = outcome(&straight);

    let (mut kills, mut runs) = (0, 0u64);
    while kills < wanted {
        let out = folder.path().join(format!("run-{runs}"));
        kills += broken_run(&out, runs, life);
        assert!(
            outcome(&out) == expected,
            "run {runs} differs, up to kill {kills}"
        );
        fs::remove_dir_all(&out).expect("the run can be removed");
        runs += 1;
    }
    let told = format!("{kills} kills of {runs} runs: all have the bits of the unbroken one\n");
    std::io::Write::write_all(&mut std::io::stdout(), told.as_bytes()).expect("an output");
}

/// Starts training or goes on, as what is in the folder asks for.
fn start(out: &Path, threads: u64) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_burtorch-gpt"));
    command.arg("train").arg("--out").arg(out);
    command.args(["--threads", &threads.to_string()]);
    match out.join("config.toml").exists() {
        true => command.arg("--resume"),
        false => command.args(SETTINGS.split_whitespace()),
    };
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

/// Kills a run, each time within the `life` of an unbroken one, until it is over, and says how often; `number` makes the moments different
/// from run to run.
fn broken_run(out: &Path, number: u64, life: Duration) -> u64 {
    for kills in 0.. {
        let random = derive_seed(derive_seed(number, "run").wrapping_add(kills), "kill");
        let mut child = start(out, 1 + random % 3);
        std::thread::sleep(life.mul_f64((random / 3 % 1024) as f64 / 1024.0));
        child.kill().expect("it can be killed");
        let output = child.wait_with_output().expect("it ends");
        match output.status.code() {
            None => {} // killed
            Some(0) => return kills,
            Some(code) => panic!(
                "code {code} behind kill {kills}: {}",
                String::from_utf8_lossy(&output.stderr)
            ),
        }
    }
    unreachable!("a run is over at some time")
}

/// All that must be equal: weights, state, sample, and every line but for its times.
fn outcome(out: &Path) -> (Vec<Vec<u8>>, Vec<Value>) {
    let names = [
        "model.safetensors",
        "best.safetensors",
        "state.safetensors",
        "tokenizer.json",
        "sample.txt",
    ];
    let read = |name| fs::read(out.join(name)).expect(name);
    let metrics = fs::read_to_string(out.join("metrics.jsonl")).expect("metrics.jsonl");
    let timeless = |line| {
        let mut line: Value = serde_json::from_str(line).expect("a line of metrics");
        for time in ["ms", "tokens_per_s"] {
            line[time] = Value::Null;
        }
        line
    };
    (
        names.map(read).to_vec(),
        metrics.lines().map(timeless).collect(),
    )
}
