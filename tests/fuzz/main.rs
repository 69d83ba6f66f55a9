//! Every loader on files that have been damaged at random: none may panic, hang, or take much more memory than the file has bytes.
//!
//! ```text
//! cargo test --release -p burtorch-tests --test fuzz -- --inputs 1000000 [LOADER…]
//! ```
//!
//! The whole process is counted, so this program has no other threads than one that watches for hangs. What a loader accepts is used,
//! as far as that is quick.
#![forbid(unsafe_code)]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use burtorch_gpt::Error;
use burtorch_tests::{Counting, Mutator, Outcome};

mod bpe;
mod models;
mod runs;
mod tokens;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Inputs for each loader unless something else is asked for: a few seconds in all.
const INPUTS: u64 = 3000;

/// A loader that takes longer than this for a file of some kilobytes hangs.
const HANG: Duration = Duration::from_secs(10);

/// The most memory for a file of no bytes, and for each byte of one: a table in memory is some times as long as its text, and the search for the characters of a text marks each of 1.1 million.
const MEMORY: (usize, usize) = (2 << 20, 64);

/// What a loader makes of a file.
type Load = Box<dyn Fn(&Path) -> Result<(), Error>>;

/// A loader, and files that it accepts.
struct Target {
    name: &'static str,
    /// What the file is called in the folder it is put in.
    file: &'static str,
    seeds: Vec<Vec<u8>>,
    load: Load,
}

fn main() -> Outcome {
    let (inputs, wanted) = arguments(std::env::args().skip(1))?;
    let folder = folder()?;
    let watch = Watch::start();
    let targets = targets(folder.path())?;
    if let Some(unknown) = wanted
        .iter()
        .find(|name| targets.iter().all(|t| t.name != **name))
    {
        let names: Vec<_> = targets.iter().map(|target| target.name).collect();
        return Err(format!("expected one of {}, found {unknown}", names.join(", ")).into());
    }
    the_search_finds_what_it_looks_for(&watch);
    let mut chosen = targets
        .iter()
        .filter(|t| wanted.is_empty() || wanted.iter().any(|n| n == t.name));
    chosen.try_for_each(|target| search(target, folder.path(), inputs, &watch).map(drop))
}

/// The number of inputs and the names of loaders; what the test harness of cargo passes on is left out.
fn arguments(arguments: impl Iterator<Item = String>) -> Outcome<(u64, Vec<String>)> {
    let (mut inputs, mut names) = (INPUTS, Vec::new());
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--inputs" => {
                inputs = arguments
                    .next()
                    .ok_or("--inputs: a number is missing")?
                    .parse()?
            }
            flag if flag.starts_with("--") => {}
            _ => names.push(argument),
        }
    }
    Ok((inputs, names))
}

/// A folder in memory where there is one, since most of the time goes to writing files.
fn folder() -> Outcome<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    Ok(match memory.is_dir() {
        true => tempfile::tempdir_in(memory)?,
        false => tempfile::tempdir()?,
    })
}

/// What came of a search.
#[derive(Debug, Default)]
struct Found {
    accepted: u64,
    /// The most memory, and the file size with it.
    memory: (usize, usize),
    slowest: Duration,
}

/// Puts damaged files before a loader. An error names the loader and keeps the file.
fn search(target: &Target, folder: &Path, inputs: u64, watch: &Watch) -> Outcome<Found> {
    let path = folder.join(target.file);
    for (number, seed) in target.seeds.iter().enumerate() {
        fs::write(&path, seed)?;
        (target.load)(&path).map_err(|e| format!("{} {number}: {e}", target.name))?;
    }
    let mut found = Found::default();
    let begin = Instant::now();
    for number in 0..inputs {
        let file = Mutator::new(number).damaged(&target.seeds);
        fs::write(&path, &file)?;
        let start = Instant::now();
        watch.begin(number);
        let load = || catch_unwind(AssertUnwindSafe(|| (target.load)(&path)));
        let (memory, loaded) = Counting::peak_of(load);
        watch.end();
        let failure = match loaded {
            Err(_) => Some("it panicked".to_owned()),
            Ok(_) if memory > MEMORY.0 + MEMORY.1 * file.len() => Some(format!(
                "it took {memory} bytes for a file of {}",
                file.len()
            )),
            Ok(_) => None,
        };
        if let Some(failure) = failure {
            let kept = std::env::temp_dir().join(format!("fuzz-{}-{number}", target.name));
            fs::write(&kept, &file)?;
            return Err(format!("{} on {}: {failure}", target.name, kept.display()).into());
        }
        found.accepted += u64::from(matches!(loaded, Ok(Ok(()))));
        found.memory = found.memory.max((memory, file.len()));
        found.slowest = found.slowest.max(start.elapsed());
    }
    let Found {
        accepted,
        memory,
        slowest,
    } = &found;
    let mut line = String::new();
    std::fmt::Write::write_fmt(
        &mut line,
        format_args!(
            "{:18} {inputs} inputs in {:.1} s: {accepted} accepted, at most {} bytes for a file of {}, {:.1} ms\n",
            target.name,
            begin.elapsed().as_secs_f64(),
            memory.0,
            memory.1,
            slowest.as_secs_f64() * 1e3
        ),
    )?;
    std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes())?;
    Ok(found)
}

/// Ends the process with a message if one input takes too long.
struct Watch(Arc<(AtomicU64, AtomicU64)>);

impl Watch {
    /// Number of the input that is being loaded, or none.
    const IDLE: u64 = u64::MAX;

    fn start() -> Self {
        let shared = Arc::new((AtomicU64::new(Self::IDLE), AtomicU64::new(0)));
        let seen = Arc::clone(&shared);
        std::thread::spawn(move || {
            let mut before = (Self::IDLE, 0);
            loop {
                std::thread::sleep(HANG);
                let now = (seen.0.load(Relaxed), seen.1.load(Relaxed));
                if now == before && now.0 != Self::IDLE {
                    let message = format!("input {} takes more than {HANG:?}\n", now.0);
                    let _ = std::io::Write::write_all(&mut std::io::stderr(), message.as_bytes());
                    std::process::exit(1);
                }
                before = now;
            }
        });
        Self(shared)
    }

    fn begin(&self, number: u64) {
        self.0.0.store(number, Relaxed);
        self.0.1.fetch_add(1, Relaxed);
    }

    fn end(&self) {
        self.0.0.store(Self::IDLE, Relaxed);
    }
}

/// Loaders that panic on some files, and that ask for too much.
fn the_search_finds_what_it_looks_for(watch: &Watch) {
    let folder = folder().expect("a folder");
    let message = |load: Load| {
        let (name, file, seeds) = ("broken", "x", vec![b"12 a 34".to_vec()]);
        let target = Target {
            name,
            file,
            seeds,
            load,
        };
        let error = search(&target, folder.path(), 2000, watch).expect_err("a broken loader");
        let message = error.to_string();
        let kept = message
            .strip_prefix("broken on ")
            .and_then(|rest| rest.split(':').next());
        fs::remove_file(kept.expect("the file is named")).expect("it was kept");
        message
    };
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let panics = message(Box::new(|path| {
        let text = fs::read(path).unwrap_or_default();
        assert!(text.len() > 2);
        Ok(())
    }));
    std::panic::set_hook(hook);
    assert!(panics.ends_with("it panicked"), "{panics}");
    let asks = message(Box::new(|path| {
        let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        let numbers = text
            .split_whitespace()
            .filter_map(|word| word.parse::<usize>().ok());
        let most = numbers.max().unwrap_or(0).min(1 << 30);
        drop(std::hint::black_box(Vec::<u8>::with_capacity(most)));
        Ok(())
    }));
    assert!(asks.contains("it took"), "{asks}");
}

/// What a function writes to a file.
fn written(folder: &Path, write: impl FnOnce(&Path) -> Result<(), Error>) -> Outcome<Vec<u8>> {
    let path = folder.join("seed");
    write(&path)?;
    Ok(fs::read(&path)?)
}

fn targets(folder: &Path) -> Outcome<Vec<Target>> {
    Ok(vec![
        models::model(folder)?,
        models::state(folder)?,
        runs::config()?,
        runs::metrics()?,
        tokens::tokenizer(folder)?,
        tokens::text(),
        tokens::token_file(folder)?,
        bpe::tokenizer_json(folder)?,
        bpe::vocabulary(folder)?,
        bpe::merges(folder)?,
        bpe::tiktoken(folder)?,
        models::their_config(folder)?,
        models::their_weights(folder)?,
        models::their_tokenizer(folder)?,
    ])
}
