//! What a server of HTTP responds to a request with figures or spans, and when it wants to be asked
//! again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockgate_client::{ClientError, ClientResponse, ExchangeLimits};
use lockgate_http::date;

/// The value of `User-Agent`.
pub(super) const AGENT: &str = concat!("lockgate/", env!("CARGO_PKG_VERSION"));
/// Bytes of a response that are read.
pub(super) const RESPONSE: usize = 4 * 1024;
/// The longest text of a response in an error, in characters.
const TEXT: usize = 200;
/// The longest pause that a server may ask for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Status, Retry-After and body of a response.
pub(super) type ReceivedAnswer = (u16, Option<Duration>, Vec<u8>);

/// The limits of an exchange that takes no longer than this.
pub(super) fn limits(time: Duration) -> ExchangeLimits {
    ExchangeLimits {
        time,
        head_bytes: 64 * 1024,
        body_bytes: RESPONSE,
    }
}

/// Reads a response, as much of its body as is kept.
///
/// # Errors
/// When it breaks off.
pub(super) async fn receive(
    mut response: ClientResponse<'_>,
) -> Result<ReceivedAnswer, ClientError> {
    let text = response.read(|_, _| false).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_secs();
    let pause = response.fields.get("retry-after");
    let pause = pause.and_then(|value| retry_after(value.as_bytes(), now));
    Ok((response.status, pause, text))
}

/// The pause that a Retry-After asks for, seconds or a date (RFC 9110 §10.2.3), of at most five
/// minutes; `now` is in seconds since 1970.
fn retry_after(value: &[u8], now: u64) -> Option<Duration> {
    let text = str::from_utf8(value).ok()?.trim();
    let seconds = match text.parse() {
        Ok(seconds) => seconds,
        Err(_) => date::parse(text.as_bytes(), now)?.saturating_sub(now),
    };
    Some(LONGEST_RETRY_AFTER.min(Duration::from_secs(seconds)))
}

/// The beginning of a response as one line of text.
pub(super) fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let kept = text.chars().filter(|char| !char.is_control());
    kept.take(TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9110 §10.2.3: delay-seconds or HTTP-date.
    #[test]
    fn retry_after_of_a_sink_is_seconds_or_a_date_and_bounded() {
        let now = 784_111_777;
        for (value, seconds) in [
            ("0", Some(0)),
            ("7", Some(7)),
            (" 7 ", Some(7)),
            ("301", Some(300)),
            ("18446744073709551615", Some(300)),
            ("Sun, 06 Nov 1994 08:49:57 GMT", Some(20)),
            ("Sun, 06 Nov 1994 08:49:17 GMT", Some(0)),
            ("Fri, 31 Dec 1999 23:59:59 GMT", Some(300)),
            ("-1", None),
            ("soon", None),
            ("", None),
        ] {
            let found = retry_after(value.as_bytes(), now);
            assert_eq!(found, seconds.map(Duration::from_secs), "{value:?}");
        }
        assert_eq!(retry_after(b"\xff", now), None);
    }
}
