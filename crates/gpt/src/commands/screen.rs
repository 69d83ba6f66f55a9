//! Text that appears while it is written.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::time::{Duration, Instant};

use crate::Error;

/// How long text may wait before it appears: less than the eye notices, and thousands of tokens of a small model.
const PATIENCE: Duration = Duration::from_millis(20);

/// Standard output for a text that comes in small parts.
pub(super) struct Screen<W: Write> {
    out: BufWriter<W>,
    shown: Instant,
}

impl Screen<StdoutLock<'static>> {
    pub(super) fn new() -> Self {
        Self::over(io::stdout().lock())
    }
}

impl<W: Write> Screen<W> {
    fn over(out: W) -> Self {
        Self {
            out: BufWriter::new(out),
            shown: Instant::now(),
        }
    }

    /// Writes a part, and sees to it that it appears soon.
    ///
    /// # Errors
    ///
    /// [`Error::OutputClosed`] if nobody reads any more, [`Error::Output`].
    pub(super) fn write(&mut self, part: &str) -> Result<(), Error> {
        self.out.write_all(part.as_bytes()).map_err(Error::output)?;
        match self.shown.elapsed() < PATIENCE {
            true => Ok(()),
            false => self.show(),
        }
    }

    /// Lets all appear that was written.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub(super) fn show(&mut self) -> Result<(), Error> {
        self.out.flush().map_err(Error::output)?;
        self.shown = Instant::now();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_appears_when_it_has_waited_or_is_asked_for() {
        let mut shown = Vec::new();
        let mut screen = Screen::over(&mut shown);
        screen.write("a").unwrap();
        assert!(screen.out.get_ref().is_empty());
        screen.shown -= PATIENCE;
        screen.write("b").unwrap();
        assert_eq!(screen.out.get_ref().as_slice(), b"ab");
        screen.write("c").unwrap();
        screen.show().unwrap();
        assert_eq!(screen.out.get_ref().as_slice(), b"abc");
    }
}
