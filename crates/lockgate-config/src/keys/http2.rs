//! The keys of `http2`: what one client connection may ask for.

use lockgate_rules::Allowance;

use crate::values::{Burst, Size, WholeNumber};

use super::{ConfigKey, Defaulted, KeyRow};

/// RFC 9113 §6.9.2: so large is the window of a connection before SETTINGS, and it cannot be made
/// smaller.
const DEFAULT_WINDOW: u64 = 64 << 10;

/// The protocol ends at 2^31 - 1 (RFC 9113 §6.9.1).
const LARGEST_WINDOW: u64 = 2_000_000_000;

table! {
    const STREAMS: Defaulted<u32> = ConfigKey::defaulted(
        "streams",
        &WholeNumber::new(1, 10_000),
        "128",
        "64",
        "Concurrent requests on one connection; a client holds back further ones. The heads and \
         trailers of a connection's requests may take 8 KB for each stream, and at least 1 MB, \
         together. A request whose head is beyond that is refused with REFUSED_STREAM, and the \
         client may send it again. One whose trailers are beyond it fails.",
    );

    const WINDOW: Defaulted<u64> = ConfigKey::defaulted(
        "window",
        &Size { min: DEFAULT_WINDOW, max: LARGEST_WINDOW },
        r#""1MB""#,
        r#""256KB""#,
        "How many bytes of one request body may arrive before the application has taken them. This \
         is the memory that one request may use, and the most that one upload can move in a round \
         trip.",
    );

    const CONNECTION_WINDOW: Defaulted<u64> = ConfigKey::defaulted(
        "connection_window",
        &Size { min: DEFAULT_WINDOW, max: LARGEST_WINDOW },
        r#""8MB""#,
        r#""16MB""#,
        "How many bytes of all request bodies of one connection may be on their way to Lockgate: the \
         most that its uploads can move together in a round trip. Beside that, as many bytes may \
         wait for applications that do not read them, so that other uploads go on. All bodies of a \
         connection thus take at most twice this memory. At least `window`.",
    );

    const RESETS: Defaulted<Allowance> = ConfigKey::defaulted(
        "resets",
        &Burst,
        r#""20/s burst 200""#,
        r#""100/s burst 1000""#,
        "How often requests of one connection may be cancelled by the client (RST_STREAM before the \
         whole response was sent) or be malformed; more closes the connection. Each costs work \
         without a response (CVE-2023-44487, CVE-2025-8671). Up to 1,024 streams that are refused \
         before the client has seen our SETTINGS do not count.",
    );

    const CONTROL: Defaulted<Allowance> = ConfigKey::defaulted(
        "control",
        &Burst,
        r#""100/s burst 1000""#,
        r#""20/s burst 200""#,
        "How many frames of one connection may do nothing for a request: SETTINGS, PRIORITY, DATA \
         that is empty or mostly padding, RST_STREAM behind a whole response, HEADERS and RST_STREAM \
         of closed streams, DATA of reset streams beyond what their windows had left, and PING, \
         WINDOW_UPDATE and CONTINUATION beyond what the transferred bytes explain (CVE-2019-9511 to \
         9518, CVE-2024-27316).",
    );
}
