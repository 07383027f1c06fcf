//! The operator log: messages of the program about itself, on standard error.
//!
//! Not the access log, which has its own stream, format and thread.

mod output;

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::AsFd as _;
use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::time::Duration;

use lockgate_net::threads;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;

use output::StderrOutput;

/// The output of this process.
static OUTPUT: StderrOutput = StderrOutput::new();

/// Sets the level of this process; there is none before [`init`].
static LEVEL: OnceLock<LevelSwitch> = OnceLock::new();

type LevelSwitch = Box<dyn Fn(LevelFilter) + Send + Sync>;

/// The wait for a standard error that is not read, at the end of the process or in a panic.
const PATIENCE: Duration = Duration::from_secs(1);

/// The format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperatorLogFormat {
    /// Time, level, message and fields as text.
    Text,
    /// One JSON object a line.
    Json,
}

/// Sends everything of `level` or worse to standard error from now on, in every thread.
///
/// # Errors
/// When it is called a second time: the first call stays in force.
pub(crate) fn init(level: LevelFilter, format: OperatorLogFormat) -> anyhow::Result<()> {
    let colour = Colour::of(
        std::env::var_os("NO_COLOR").as_deref(),
        io::stderr().is_terminal(),
    );
    let (subscriber, switch) = subscriber(level, format, colour, || OUTPUT.line());
    tracing::subscriber::set_global_default(subscriber)?;
    let _ = LEVEL.set(switch);
    Ok(())
}

/// Sets another level, in every thread; nothing without a log.
pub(crate) fn set_level(level: LevelFilter) {
    if let Some(switch) = LEVEL.get() {
        switch(level);
    }
}

/// Starts the thread that writes the lines from now on: no other thread waits for standard error
/// any more. Lines that do not fit into its queue are lost, and counted. A panic is printed behind
/// the waiting lines.
///
/// # Errors
/// When the thread cannot be started; then each thread goes on writing its own lines.
pub(crate) fn start_thread() -> io::Result<()> {
    OUTPUT.start_thread(io::stderr().as_fd().try_clone_to_owned()?.into())?;
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if OUTPUT.settle(PATIENCE) {
            print(panic);
        } else {
            write_directly(format!("{panic}\n"), io::stderr());
        }
    }));
    Ok(())
}

/// Writes past the queue, in a thread of its own: a standard error that is not read must not keep
/// the process from its end.
fn write_directly(words: String, mut to: impl Write + Send + 'static) {
    let (done, written) = channel();
    let writes = move || {
        let _ = to.write_all(words.as_bytes());
        let _ = done.send(());
    };
    if threads::start("last-words", writes).is_ok() {
        let _ = written.recv_timeout(PATIENCE);
    }
}

/// Waits until all lines so far are written, but no longer than a second.
pub(crate) fn finish() {
    OUTPUT.settle(PATIENCE);
}

/// The number of lines lost since the start.
pub(crate) fn lost() -> u64 {
    OUTPUT.lost()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colour {
    Never,
    Always,
}

impl Colour {
    /// <https://no-color.org>: the variable counts when it is present and not empty.
    fn of(no_color: Option<&OsStr>, is_terminal: bool) -> Self {
        let refused = no_color.is_some_and(|value| !value.is_empty());
        if is_terminal && !refused {
            Self::Always
        } else {
            Self::Never
        }
    }
}

fn subscriber<W>(
    level: LevelFilter,
    format: OperatorLogFormat,
    colour: Colour,
    to: W,
) -> (Box<dyn Subscriber + Send + Sync>, LevelSwitch)
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    // Without the module path: it tells an operator nothing, and messages stand alone.
    let lines = tracing_subscriber::fmt::layer()
        .with_target(false)
        .with_ansi(colour == Colour::Always)
        .with_writer(to);
    let (levels, handle) = reload::Layer::new(levels(level));
    let switch = move |level| {
        // Fails only once the subscriber is gone.
        let _ = handle.reload(self::levels(level));
    };
    let registry = tracing_subscriber::registry();
    match format {
        OperatorLogFormat::Text => (
            Box::new(registry.with(levels).with(lines)),
            Box::new(switch),
        ),
        OperatorLogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_current_span(false);
            (
                Box::new(registry.with(levels).with(lines)),
                Box::new(switch),
            )
        }
    }
}

/// Everything of `level` or worse, but nothing of the h2 crate, over which providers of DNS may be
/// asked: it warns of every mistake of a peer, and an error tells that once.
fn levels(level: LevelFilter) -> Targets {
    Targets::new()
        .with_default(level)
        .with_target("h2", LevelFilter::OFF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(
        level: LevelFilter,
        format: OperatorLogFormat,
        colour: Colour,
        say: impl FnOnce(),
    ) -> String {
        let page = Page::default();
        let to = page.clone();
        let (subscriber, _) = subscriber(level, format, colour, move || to.clone());
        tracing::subscriber::with_default(subscriber, say);
        String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn text_has_level_words_and_fields() {
        let said = written(
            LevelFilter::INFO,
            OperatorLogFormat::Text,
            Colour::Never,
            || {
                tracing::warn!(file = "a.pem", "certificate expires soon");
            },
        );
        assert!(
            said.contains("WARN certificate expires soon file=\"a.pem\""),
            "{said}"
        );
        assert!(!said.contains('\x1b'), "{said:?}");
    }

    #[test]
    fn json_is_one_flat_object_a_line() {
        let said = written(
            LevelFilter::INFO,
            OperatorLogFormat::Json,
            Colour::Always,
            || {
                tracing::info!(workers = 2, "listening");
                tracing::info!("drained");
            },
        );
        let lines: Vec<serde_json::Value> = said
            .lines()
            .map(|line| serde_json::from_str(line).expect(line))
            .collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["message"], "listening");
        assert_eq!(lines[0]["workers"], 2);
        assert_eq!(lines[0]["level"], "INFO");
        assert!(lines[0]["timestamp"].is_string());
    }

    /// The message of a panic is the one line that nothing else reports.
    #[test]
    fn a_panic_is_written_directly_where_the_queue_is_not_emptied() {
        let page = Page::default();
        write_directly("thread panicked\n".to_owned(), page.clone());
        assert_eq!(*page.0.lock().unwrap(), b"thread panicked\n");
        // A reader that takes nothing costs a second, and not the end of the process.
        let (_read, write) = rustix::pipe::pipe().unwrap();
        write_directly("x".repeat(1 << 20), std::fs::File::from(write));
    }

    #[test]
    fn what_a_library_thinks_of_a_peer_is_left_out() {
        let said = written(
            LevelFilter::INFO,
            OperatorLogFormat::Text,
            Colour::Never,
            || {
                tracing::warn!(target: "h2::proto::ping_pong", "a PING that we never sent");
            },
        );
        assert_eq!(said, "");
    }

    #[test]
    fn milder_events_than_the_level_are_left_out() {
        let said = written(
            LevelFilter::ERROR,
            OperatorLogFormat::Text,
            Colour::Never,
            || tracing::warn!("mild"),
        );
        assert_eq!(said, "");
        let said = written(
            LevelFilter::OFF,
            OperatorLogFormat::Text,
            Colour::Never,
            || tracing::error!("grave"),
        );
        assert_eq!(said, "");
    }

    #[test]
    fn colour_only_on_a_terminal_and_never_against_no_color() {
        let value = |text: &'static str| Some(OsStr::new(text));
        for (no_color, is_terminal, expected) in [
            (None, true, Colour::Always),
            (None, false, Colour::Never),
            (value("1"), true, Colour::Never),
            (value("false"), true, Colour::Never),
            (value(""), true, Colour::Always),
        ] {
            assert_eq!(Colour::of(no_color, is_terminal), expected);
        }
    }

    #[test]
    fn text_on_a_terminal_is_coloured() {
        let said = written(
            LevelFilter::INFO,
            OperatorLogFormat::Text,
            Colour::Always,
            || tracing::info!("listening"),
        );
        assert!(said.contains("\x1b["), "{said:?}");
    }
}
