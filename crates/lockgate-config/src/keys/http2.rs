//! The keys of `http2`: what one client connection may ask for.

use lockgate_rules::Allowance;

use crate::values::{Burst, Number, Size};

use super::{Defaulted, Key, Row};

/// RFC 9113 §6.9.2: so large is the window of a connection before SETTINGS, and it cannot be made
/// smaller.
const DEFAULT_WINDOW: u64 = 64 << 10;

/// The protocol ends at 2^31 - 1 (RFC 9113 §6.9.1).
const LARGEST_WINDOW: u64 = 2_000_000_000;

table! {
    const STREAMS: Defaulted<u32> = Key::defaulted(
        "streams",
        &Number::new(1, 10_000),
        "128",
        "64",
        "Requests at once on one connection; clients hold back the next ones. Their heads take up to 8 KB for each of them together, and 1 MB at the \
         least; a request that finds no room there is refused (REFUSED_STREAM), and the client may send it again.",
    );

    const WINDOW: Defaulted<u64> = Key::defaulted(
        "window",
        &Size { min: DEFAULT_WINDOW, max: LARGEST_WINDOW },
        r#""1MB""#,
        r#""256KB""#,
        "How many bytes of one request body may come before the application has taken them: the memory that one request \
         may cost, and the most that one upload moves in a round trip.",
    );

    const CONNECTION_WINDOW: Defaulted<u64> = Key::defaulted(
        "connection_window",
        &Size { min: DEFAULT_WINDOW, max: LARGEST_WINDOW },
        r#""8MB""#,
        r#""16MB""#,
        "The same for all requests of one connection together; at least `window`.",
    );

    const RESETS: Defaulted<Allowance> = Key::defaulted(
        "resets",
        &Burst,
        r#""20/s burst 200""#,
        r#""100/s burst 1000""#,
        "How many requests of one connection may be taken back (RST_STREAM) or broken off for a mistake in them, each of \
         which costs us work that nobody waits for (CVE-2023-44487, CVE-2025-8671). Up to 1,024 streams that are refused \
         before the client has seen our SETTINGS do not count.",
    );

    const CONTROL: Defaulted<Allowance> = Key::defaulted(
        "control",
        &Burst,
        r#""100/s burst 1000""#,
        r#""20/s burst 200""#,
        "How many frames of one connection may carry nothing for a request: SETTINGS, PRIORITY, DATA without bytes, \
         HEADERS for streams that are over, and PING, WINDOW_UPDATE and CONTINUATION beyond what the bytes that were \
         moved explain (CVE-2019-9511 to 9518, CVE-2024-27316).",
    );
}
