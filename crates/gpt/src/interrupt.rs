//! Ctrl-C, and other requests to end (`SIGTERM`, `SIGHUP`): the first is noted, to end in good order; the second ends the program.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::progress::note;

/// Exit code of a program that was asked to end: 128 and the number of `SIGINT`, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// Whether the process was asked to end. A signal concerns the whole process, so this is one of its own.
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// From now on, a request to end is noted for [`requested`], and `message` is shown, if it says anything; a second one ends the program.
///
/// Where the operating system does not let us listen, requests end the program as they do without this. Of several calls the first counts.
pub(crate) fn listen(message: &'static str) {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let noted = move || {
            if REQUESTED.swap(true, Ordering::Relaxed) {
                std::process::exit(INTERRUPTED.into());
            }
            if !message.is_empty() {
                note(message);
            }
        };
        let _ = on_request(noted);
    });
}

/// Whether the process was asked to end.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Calls `noted` at each request.
#[cfg(unix)]
fn on_request(noted: impl Fn() + Send + 'static) -> std::io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    // A program that was started by nohup goes on when its terminal is closed.
    if !is_ignored(SIGHUP) {
        signals.add_signal(SIGHUP)?;
    }
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(move || signals.forever().for_each(|_| noted()))?;
    Ok(())
}

/// Whether a signal was shut off by whoever started this process; not known everywhere.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(not(unix))]
fn on_request(noted: impl Fn() + Send + 'static) -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(noted)
}
