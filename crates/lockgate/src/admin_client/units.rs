//! Texts and figures of responses as people read them; nothing for one that does not exist.

use serde_json::Value;

use crate::printable::printable;

/// The members of a list; none of what is no list.
pub(crate) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A text or a number as it is, but for what a terminal would obey: clients, members of the admin
/// group, certificates and programs may have written it. All texts of a response pass here.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => printable(text).into_owned(),
        other => printable(&other.to_string()).into_owned(),
    }
}

/// The same of a text that may have several lines.
pub(crate) fn plain_lines(value: &Value) -> String {
    let lines = value.as_str().unwrap_or_default().lines();
    lines.map(printable).collect::<Vec<_>>().join("\n")
}

/// Seconds: `250 µs`, `3.2 ms`, `1.25 s`.
pub(crate) fn latency(value: &Value) -> String {
    value.as_f64().map(latency_of).unwrap_or_default()
}

/// Seconds that are known.
pub(crate) fn latency_of(seconds: f64) -> String {
    match seconds {
        less if less < 0.001 => format!("{:.0} µs", less * 1e6),
        less if less < 1.0 => format!("{:.1} ms", less * 1e3),
        more => format!("{more:.2} s"),
    }
}

/// Bytes: `170 B`, `1.05 MB`.
pub(crate) fn bytes(value: &Value) -> String {
    value.as_u64().map(bytes_of).unwrap_or_default()
}

/// Bytes that are known.
pub(crate) fn bytes_of(count: u64) -> String {
    let (mut scaled, mut unit) = (count as f64, "B");
    for larger in ["KB", "MB", "GB", "TB"] {
        if scaled < 1000.0 {
            break;
        }
        (scaled, unit) = (scaled / 1000.0, larger);
    }
    if unit == "B" {
        format!("{count} B")
    } else {
        format!("{scaled:.2} {unit}")
    }
}

/// A span of seconds in its two largest units: `3d 4h`, `5m 10s`, `12s`.
pub(crate) fn span(seconds: u64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let first = units.iter().position(|(size, _)| seconds >= *size);
    let mut left = seconds;
    let parts = units.iter().skip(first.unwrap_or(3)).take(2);
    let parts = parts.filter_map(|(size, name)| {
        let count = left / size;
        left %= size;
        (count > 0 || seconds == 0).then(|| format!("{count}{name}"))
    });
    parts.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_have_the_unit_that_fits() {
        let latencies = [json!(0.000_25), json!(0.0032), json!(1.25), json!(null)];
        assert_eq!(
            latencies.each_ref().map(latency),
            ["250 µs", "3.2 ms", "1.25 s", ""]
        );
        let sizes = [
            json!(170),
            json!(1_050_000),
            json!(12_638_251_000_u64),
            json!(null),
        ];
        assert_eq!(
            sizes.each_ref().map(bytes),
            ["170 B", "1.05 MB", "12.64 GB", ""]
        );
        assert_eq!(
            [0, 12, 310, 3_600, 273_600].map(span),
            ["0s", "12s", "5m 10s", "1h", "3d 4h"]
        );
    }
}
