//! The keys of `access_log`, of all and of a site.

use crate::model::{AccessFormat, LogTarget};
use crate::values::*;

use super::{Defaulted, Key, OFF, Row};

/// Streams of the process that a log can go to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn target(self) -> LogTarget {
        match self {
            Stream::Stdout => LogTarget::Stdout,
            Stream::Stderr => LogTarget::Stderr,
        }
    }

    fn json(self) -> (AccessFormat, LogTarget) {
        (AccessFormat::Json, self.target())
    }
}

const STREAMS: Words<Stream> = Words(&[("stdout", Stream::Stdout), ("stderr", Stream::Stderr)]);

/// A value of `access_log`; nothing is no log.
pub(crate) type AccessLogForm = Form<Option<(AccessFormat, LogTarget)>>;

/// Where an access log goes, or its table.
pub(super) const FORM: Short<Unless<False, Either<(AccessFormat, LogTarget)>>> = Short {
    short: Unless(False, Either(&[&As(STREAMS, Stream::json), &FormattedLog])),
    long: TableOf(ALL),
};

table! {
    const TO: Defaulted<LogTarget> = Key::defaulted(
        "to",
        &Either(&[&As(STREAMS, Stream::target), &As(LogFile, LogTarget::File)]),
        r#""stdout""#,
        r#""/var/log/lockgate/access.log""#,
        "Where the log is written: `\"stdout\"`, `\"stderr\"` or a file (with at least one `/`). \
         USR1 reopens the file.",
    );

    const FORMAT: Defaulted<AccessFormat> = Key::defaulted(
        "format",
        &LOG_FORMATS,
        r#""json""#,
        r#""combined""#,
        "The format of a line: a JSON object, the combined format of nginx and Apache, or \
         `key=value` pairs.",
    );

    const SAMPLE: Defaulted<u8> = Key::defaulted(
        "sample",
        &Percent,
        r#""100%""#,
        r#""10%""#,
        "The percentage of lines that are written.",
    );

    const MASK_IP: Defaulted<bool> = Key::defaulted(
        "mask_ip",
        &Flag,
        "false",
        "true",
        "Whether client addresses are shortened, to /24 and /48. Then `/top` and the metrics also \
         show networks instead of clients.",
    );

    const ROTATE: Defaulted<Form<()>> = Key::defaulted(
        "rotate",
        &Short { short: OFF, long: TableOf(rotate::ALL) },
        r#""off""#,
        r#"{ size = "100MB", keep = 10 }"#,
        "When a log file is closed and a new one begun. Only for a file.",
    )
    .with(r#"to = "/var/log/lockgate/access.log""#);
}

table! {
    /// `access_log.rotate`.
    mod rotate;

    const SIZE: Defaulted<u64> = Key::defaulted(
        "size",
        &Size { min: 1_000, max: u64::MAX },
        r#""100MB""#,
        r#""20MB""#,
        "The size past which a new file is begun.",
    );

    const KEEP: Defaulted<u32> = Key::defaulted(
        "keep",
        &Number::new(0, 10_000),
        "10",
        "3",
        "How many old files are kept.",
    );
}
