//! Whole lines written to a destination that may be slow or fail, for the threads that write logs.
//!
//! Returns how many lines were lost; does not add them up.

use std::fs::File;
use std::io::{self, ErrorKind, Write};

use rustix::event::{PollFd, PollFlags, poll};

/// A destination of whole lines, which may fail in the middle of one.
#[derive(Debug)]
pub(crate) struct LineSink<W> {
    pub(super) out: W,
    /// The size of the file in bytes, without the writes of other programs.
    pub(super) size: u64,
    /// Whether the last write ended inside a line.
    torn: bool,
}

/// The number of lost lines, and the error that lost them.
#[derive(Debug)]
pub(crate) struct LostLines {
    pub(crate) lost: u64,
    pub(crate) error: io::Error,
}

impl<W: Write> LineSink<W> {
    pub(crate) fn new(out: W, size: u64) -> Self {
        Self {
            out,
            size,
            torn: false,
        }
    }

    /// Writes a buffer of whole lines. After a failure in the middle of a line the next buffer
    /// starts with a line feed, so that the half line spoils no whole one. A line of which a
    /// part was written is lost too.
    pub(crate) fn write(&mut self, lines: &[u8]) -> Result<(), LostLines> {
        if self.torn {
            self.write_all(b"\n").map_err(|(_, error)| LostLines {
                lost: count_lines(lines),
                error,
            })?;
        }
        self.write_all(lines).map_err(|(rest, error)| LostLines {
            lost: count_lines(rest),
            error,
        })
    }

    /// As `io::Write::write_all`, but an error has the unwritten rest.
    fn write_all<'a>(&mut self, bytes: &'a [u8]) -> Result<(), (&'a [u8], io::Error)> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.out.write(rest) {
                Ok(0) => return Err((rest, ErrorKind::WriteZero.into())),
                Ok(n) => {
                    let (written, left) = rest.split_at(n);
                    self.torn = !written.ends_with(b"\n");
                    self.size = self.size.saturating_add(n as u64);
                    rest = left;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err((rest, error)),
            }
        }
        Ok(())
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte == b'\n')).sum()
}

/// A file with writes that block although its descriptor is non-blocking: a FIFO that we opened, or
/// a standard output that another process made non-blocking.
#[derive(Debug)]
pub(crate) struct BlockingFile(pub(crate) File);

impl Write for BlockingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], None)?;
                }
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
