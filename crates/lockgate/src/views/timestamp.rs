//! Times as the admin socket and the live page write them: RFC 3339, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use lockgate_http::date::Calendar;

/// `2026-11-24T12:08:36Z`; a time before 1970 is its first second.
pub(crate) fn timestamp(time: SystemTime) -> String {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let at = Calendar::of_unix(seconds);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        at.year, at.month, at.day, at.hour, at.minute, at.second
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_timestamp_has_the_form_of_rfc_3339() {
        let at = |seconds| timestamp(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(1_709_210_096), "2024-02-29T12:34:56Z");
        assert_eq!(timestamp(UNIX_EPOCH - Duration::from_secs(9)), at(0));
    }
}
