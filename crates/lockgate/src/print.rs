//! Output to the terminal: reports about the configuration, and the settings of the operator log.

use std::io::{IsTerminal, Write};

use lockgate_config::{Color, LogFormat, LogLevel, Report};
use tracing::level_filters::LevelFilter;

use crate::operator_log::OperatorLogFormat;

/// Prints a line to standard output. A closed pipe (`lockgate check -v | head`) is no error.
macro_rules! out {
    ($($text:tt)*) => {
        $crate::print::line(format_args!($($text)*))
    };
}
pub(crate) use out;

/// See [`out!`].
pub(crate) fn line(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints a report to standard error; an empty one is not printed.
pub(crate) fn report(report: &Report) {
    if !report.is_empty() {
        let _ = writeln!(std::io::stderr(), "{}", report.render(color()).trim_end());
    }
}

/// Colour only on a terminal, and not where the user does not want it (<https://no-color.org>).
pub(crate) fn color() -> Color {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if std::io::stderr().is_terminal() && !refused {
        Color::Always
    } else {
        Color::Never
    }
}

/// The level as the operator log knows it.
pub(crate) fn level(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    }
}

/// The format as the operator log knows it.
pub(crate) fn format(format: LogFormat) -> OperatorLogFormat {
    match format {
        LogFormat::Text => OperatorLogFormat::Text,
        LogFormat::Json => OperatorLogFormat::Json,
    }
}
