//! The keys of `access_log`, of all and of a site.

use crate::model::{AccessFormat, LogTarget};
use crate::values::*;

use super::{ConfigKey, Defaulted, KeyRow, OFF};

/// Streams of the process that a log can go to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StdStream {
    Stdout,
    Stderr,
}

impl StdStream {
    fn target(self) -> LogTarget {
        match self {
            StdStream::Stdout => LogTarget::Stdout,
            StdStream::Stderr => LogTarget::Stderr,
        }
    }

    fn json(self) -> (AccessFormat, LogTarget) {
        (AccessFormat::Json, self.target())
    }
}

const STREAMS: Words<StdStream> =
    Words(&[("stdout", StdStream::Stdout), ("stderr", StdStream::Stderr)]);

/// A value of `access_log`; nothing is no log.
pub(crate) type AccessLogForm = ShortOrLong<Option<(AccessFormat, LogTarget)>>;

/// The destination of an access log, or its table.
pub(super) const FORM: Short<Unless<False, Either<(AccessFormat, LogTarget)>>> = Short {
    short: Unless(
        False,
        Either(&[&As(STREAMS, StdStream::json), &FormattedLog]),
    ),
    long: TableOf(ALL),
};

table! {
    const TO: Defaulted<LogTarget> = ConfigKey::defaulted(
        "to",
        &Either(&[&As(STREAMS, StdStream::target), &As(LogFile, LogTarget::File)]),
        r#""stdout""#,
        r#""/var/log/lockgate/access.log""#,
        "Where the log is written: `\"stdout\"`, `\"stderr\"` or a file (with at least one `/`). \
         USR1 reopens the file.",
    );

    const FORMAT: Defaulted<AccessFormat> = ConfigKey::defaulted(
        "format",
        &LOG_FORMATS,
        r#""json""#,
        r#""combined""#,
        "The format of a line: a JSON object, the combined format of nginx and Apache, or \
         `key=value` pairs.",
    );

    const SAMPLE: Defaulted<u8> = ConfigKey::defaulted(
        "sample",
        &Percent,
        r#""100%""#,
        r#""10%""#,
        "The percentage of successful requests and connections that are logged. Always logged are \
         statuses from 500 on, failed gRPC calls, and every `cause` other than `client_closed` and \
         `upstream_closed` of a connection.",
    );

    const MASK_IP: Defaulted<bool> = ConfigKey::defaulted(
        "mask_ip",
        &Flag,
        "false",
        "true",
        "Whether client addresses are shortened, to /24 and /48. Then `/top` and the metrics also \
         show networks instead of clients.",
    );

    const ROTATE: Defaulted<ShortOrLong<()>> = ConfigKey::defaulted(
        "rotate",
        &Short { short: OFF, long: TableOf(rotate::ALL) },
        r#""off""#,
        r#"{ size = "100MB", keep = 10 }"#,
        "When a log file is closed and a new one begun. Only for a file.",
    )
    .with(r#"to = "/var/log/lockgate/access.log""#);
}

table! {
    mod rotate;

    const SIZE: Defaulted<u64> = ConfigKey::defaulted(
        "size",
        &Size { min: 1_000, max: u64::MAX },
        r#""100MB""#,
        r#""20MB""#,
        "The size past which a new file is begun.",
    );

    const KEEP: Defaulted<u32> = ConfigKey::defaulted(
        "keep",
        &WholeNumber::new(0, 10_000),
        "10",
        "3",
        "How many old files are kept.",
    );
}
