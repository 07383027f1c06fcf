//! The live view of a run on stderr: a block that is redrawn on a terminal, a line a second
//! elsewhere.
//!
//! A thread of its own writes. A terminal that was stopped (Ctrl-S) and a pipe that is not read
//! hold up that thread and never the run: updates that they do not take are not shown.
//!
//! The cursor stays visible, below the block, so that nothing has to be restored when a signal ends
//! the program.

use std::io::{self, IsTerminal as _, Write};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::Duration;

use lockgate_config::Color;
use lockgate_load::RunProgress;
use lockgate_load::plan::LoadStage;
use lockgate_net::threads;
use lockgate_report::live::{Live, LiveLine, Tone};

use crate::print;

/// Updates that may wait for a terminal: the one that is being written, and the next.
const WAITING: usize = 2;
/// The wait at the end for a terminal that takes nothing.
const PATIENCE: Duration = Duration::from_millis(500);
/// The size of a terminal that does not report one.
const USUAL: TerminalSize = TerminalSize {
    columns: 80,
    rows: 24,
};
/// The fewest columns: with less, all figures would be cut.
const NARROWEST: usize = 10;

/// The form of the live view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgressDisplay {
    /// Warnings only.
    Quiet,
    /// One line a second.
    Lines,
    Block,
}

impl ProgressDisplay {
    /// A block on a terminal that can move its cursor (`TERM` says so), lines elsewhere.
    pub(crate) fn on_stderr() -> Self {
        let able = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
        if io::stderr().is_terminal() && able {
            Self::Block
        } else {
            Self::Lines
        }
    }
}

/// The view of one run. Dropping it removes the block and waits until everything is written, but
/// not for a pipe that is not read.
#[derive(Debug)]
pub(crate) struct LiveView {
    live: Live,
    shown: ProgressDisplay,
    frames: Option<SyncSender<ScreenUpdate>>,
    /// A channel without messages, which closes with the thread that writes.
    written: Receiver<()>,
}

/// One update of the screen.
#[derive(Debug)]
enum ScreenUpdate {
    Block(Vec<LiveLine>, TerminalSize),
    Line(String),
}

/// Columns and rows of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TerminalSize {
    columns: usize,
    rows: usize,
}

impl LiveView {
    /// The view of a run with these stages.
    ///
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn new(shown: ProgressDisplay, stages: &[LoadStage]) -> io::Result<Self> {
        let (frames, waiting) = sync_channel(WAITING);
        let (writes, written) = channel::<()>();
        let write = move || {
            let _writes = writes;
            let mut screen = Screen {
                color: print::color(),
                drawn: 0,
                columns: 0,
            };
            for frame in waiting {
                screen.show(&frame, &mut io::stderr());
            }
            screen.clear(&mut io::stderr());
        };
        threads::start("live", write)?;
        Ok(Self {
            live: Live::new(stages),
            shown,
            frames: Some(frames),
            written,
        })
    }

    /// Shows the progress of the engine.
    pub(crate) fn update(&mut self, progress: &RunProgress<'_>) {
        self.live.observe(progress);
        match self.shown {
            ProgressDisplay::Quiet => {}
            ProgressDisplay::Lines => {
                if let Some(line) = self.live.line(progress) {
                    self.show(ScreenUpdate::Line(line));
                }
            }
            ProgressDisplay::Block => {
                let size = size();
                // A terminal may wrap where its last column is written.
                let lines = self.live.lines(size.columns - 1);
                self.show(ScreenUpdate::Block(lines, size));
            }
        }
    }

    /// Prints a line above the block, also where nothing else is shown.
    pub(crate) fn print(&self, text: &str) {
        self.show(ScreenUpdate::Line(format!("lockgate: {text}")));
    }

    fn show(&self, frame: ScreenUpdate) {
        if let Some(frames) = &self.frames {
            let _ = frames.try_send(frame);
        }
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        self.frames = None;
        // A pipe that is not read must not hold up the report.
        let _ = self.written.recv_timeout(PATIENCE);
    }
}

/// The size of the terminal now.
fn size() -> TerminalSize {
    let Ok(told) = rustix::termios::tcgetwinsize(io::stderr()) else {
        return USUAL;
    };
    let or = |told: u16, usual: usize| if told == 0 { usual } else { usize::from(told) };
    TerminalSize {
        columns: or(told.ws_col, USUAL.columns).max(NARROWEST),
        rows: or(told.ws_row, USUAL.rows),
    }
}

/// The block on the terminal.
#[derive(Debug)]
struct Screen {
    color: Color,
    /// The number of lines above the cursor, and the columns that they were made for.
    drawn: usize,
    columns: usize,
}

impl Screen {
    fn show(&mut self, frame: &ScreenUpdate, out: &mut impl Write) {
        match frame {
            ScreenUpdate::Block(lines, size) => self.block(lines, *size, out),
            ScreenUpdate::Line(line) => {
                self.clear(out);
                let _ = out.write_all(format!("{line}\n").as_bytes());
            }
        }
    }

    /// Draws the block over the one that stands there, in one write, so that nothing is ever seen
    /// half.
    fn block(&mut self, lines: &[LiveLine], size: TerminalSize, out: &mut impl Write) {
        if self.columns != size.columns {
            // Only the terminal knows where lines of another width are now: they stay.
            self.drawn = 0;
            self.columns = size.columns;
        }
        // The cursor cannot go above the first row: the block has all rows but one, which is the
        // cursor's.
        let lines = &lines[..lines.len().min(size.rows.saturating_sub(1))];
        // No wrapping meanwhile: some fonts give a cell of a bar two columns.
        let mut text = format!("{}\x1b[?7l", self.back());
        for line in lines {
            let (on, off) = match (line.tone, self.color) {
                (Tone::Alarm, Color::Always) => ("\x1b[31m", "\x1b[0m"),
                _ => ("", ""),
            };
            text += &format!("{on}{}{off}\x1b[K\n", line.text);
        }
        text += "\x1b[?7h\x1b[J";
        self.drawn = lines.len();
        let _ = out.write_all(text.as_bytes());
    }

    fn clear(&mut self, out: &mut impl Write) {
        if self.drawn > 0 {
            let _ = out.write_all(format!("{}\x1b[J", self.back()).as_bytes());
            self.drawn = 0;
        }
    }

    /// The escape sequence from below the block to its beginning.
    fn back(&self) -> String {
        if self.drawn > 0 {
            format!("\r\x1b[{}A", self.drawn)
        } else {
            "\r".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: TerminalSize = TerminalSize {
        columns: 80,
        rows: 24,
    };

    fn lines(texts: &[&str]) -> Vec<LiveLine> {
        texts
            .iter()
            .map(|text| LiveLine {
                text: (*text).to_owned(),
                tone: Tone::Plain,
            })
            .collect()
    }

    fn written(screen: &mut Screen, frame: ScreenUpdate) -> String {
        let mut out = Vec::new();
        screen.show(&frame, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_block_is_drawn_over_the_last_one_and_taken_away() {
        let mut screen = Screen {
            color: Color::Never,
            drawn: 0,
            columns: 0,
        };
        let first = written(&mut screen, ScreenUpdate::Block(lines(&["a", "b"]), SIZE));
        assert_eq!(first, "\r\x1b[?7la\x1b[K\nb\x1b[K\n\x1b[?7h\x1b[J");
        let shorter = written(&mut screen, ScreenUpdate::Block(lines(&["c"]), SIZE));
        assert_eq!(shorter, "\r\x1b[2A\x1b[?7lc\x1b[K\n\x1b[?7h\x1b[J");
        // A line stands where the block stood, which comes again below it.
        assert_eq!(
            written(&mut screen, ScreenUpdate::Line("said".to_owned())),
            "\r\x1b[1A\x1b[Jsaid\n"
        );
        let again = written(&mut screen, ScreenUpdate::Block(lines(&["d"]), SIZE));
        assert!(again.starts_with("\r\x1b[?7ld"));
        let mut out = Vec::new();
        screen.clear(&mut out);
        screen.clear(&mut out);
        assert_eq!(out, b"\r\x1b[1A\x1b[J");
    }

    #[test]
    fn a_block_never_has_more_lines_than_the_terminal_and_begins_anew_where_the_width_has_changed()
    {
        let mut screen = Screen {
            color: Color::Never,
            drawn: 0,
            columns: 0,
        };
        let low = TerminalSize {
            columns: 80,
            rows: 3,
        };
        let drawn = written(
            &mut screen,
            ScreenUpdate::Block(lines(&["a", "b", "c", "d"]), low),
        );
        assert_eq!(drawn.matches('\n').count(), 2);
        let wider = written(
            &mut screen,
            ScreenUpdate::Block(
                lines(&["a"]),
                TerminalSize {
                    columns: 81,
                    rows: 24,
                },
            ),
        );
        assert!(wider.starts_with("\r\x1b[?7la"), "{wider:?}");
    }

    #[test]
    fn failures_are_red_only_where_colour_is_wanted() {
        for (color, text) in [
            (Color::Never, "7 failed"),
            (Color::Always, "\x1b[31m7 failed\x1b[0m"),
        ] {
            let mut screen = Screen {
                color,
                drawn: 0,
                columns: 0,
            };
            let alarm = LiveLine {
                text: "7 failed".to_owned(),
                tone: Tone::Alarm,
            };
            let drawn = written(&mut screen, ScreenUpdate::Block(vec![alarm], SIZE));
            assert!(drawn.contains(&format!("l{text}\x1b[K")), "{drawn:?}");
        }
    }
}
