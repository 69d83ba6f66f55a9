//! Ctrl-C, and other requests to end (`SIGTERM`, `SIGHUP`): the first is noted, to end in good order; the second ends the program.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::progress::note;

/// Exit code of a program that was asked to end: 128 and the number of `SIGINT`, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// Whether the process was asked to end. A signal concerns the whole process, so this is one of its own.
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// From now on, a request to end is noted for [`requested`], and `message` is shown, if it says anything; a second one ends the program.
///
/// Where the operating system does not let us listen, requests end the program as they do without this.
pub(crate) fn listen(message: &'static str) {
    let noted = move || {
        if REQUESTED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        if !message.is_empty() {
            note(message);
        }
    };
    // Fails if it was called before; the first message is as good.
    let _ = ctrlc::set_handler(noted);
}

/// Whether the process was asked to end.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
