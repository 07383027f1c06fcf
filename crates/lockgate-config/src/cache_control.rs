//! The notation of `cache`, `"1h private"`, and its value of Cache-Control (RFC 9111 §5.2.2).
//!
//! The errors hold no text of the input.

use std::time::Duration;

use crate::units;

/// Directives that take a time, besides `max-age`, which is the time that stands first.
const TIMED: [&str; 3] = ["s-maxage", "stale-while-revalidate", "stale-if-error"];
/// Directives that stand alone. RFC 9111 §5.2.2, RFC 8246.
const PLAIN: [&str; 5] = [
    "public",
    "private",
    "immutable",
    "must-revalidate",
    "no-transform",
];
/// Pairs of directives that exclude each other.
const EXCLUDE: [(&str, &str); 7] = [
    ("private", "public"),
    ("private", "s-maxage"),
    ("no-cache", "immutable"),
    ("no-cache", "must-revalidate"),
    ("no-cache", "stale-while-revalidate"),
    ("no-cache", "stale-if-error"),
    ("must-revalidate", "stale-while-revalidate"),
];

/// The value of Cache-Control for a policy: `no-store`, or `no-cache` or a time, then directives.
///
/// # Errors
/// Why it is none.
pub(crate) fn policy(text: &str) -> Result<String, &'static str> {
    let mut words = text.split(' ');
    let first = words.next().unwrap_or_default();
    let mut told: Vec<&str> = Vec::new();
    let mut value = match first {
        "no-store" => "no-store".to_owned(),
        "no-cache" => {
            told.push("no-cache");
            "no-cache".to_owned()
        }
        _ => String::new(),
    };
    let mut age = None;
    if value.is_empty() {
        age = Some(seconds(first).ok_or("it begins with no time, `no-cache` or `no-store`")?);
    }
    let mut after = String::new();
    for word in words {
        let (name, time) = word
            .split_once('=')
            .map_or((word, None), |(name, time)| (name, Some(time)));
        if value == "no-store" {
            return Err("`no-store` takes no other directive");
        }
        if told.contains(&name) {
            return Err("a directive stands in it twice");
        }
        match time {
            None if PLAIN.contains(&name) => {}
            Some(time) if TIMED.contains(&name) => {
                let seconds = seconds(time)
                    .ok_or("a time in it is no whole number of seconds with a unit")?;
                after.push_str(&format!(", {name}={seconds}"));
            }
            None if TIMED.contains(&name) => {
                return Err("a directive lacks its time, such as `=1d`");
            }
            _ => return Err("a directive in it is not known"),
        }
        told.push(name);
    }
    let both = |(a, b): &(&str, &str)| told.contains(a) && told.contains(b);
    if EXCLUDE.iter().any(both) {
        return Err("two of its directives exclude each other");
    }
    // In the usual order: which caches, how long, then the rest.
    let alone = |name: &&&str| PLAIN.contains(*name);
    let (whom, rest): (Vec<&&str>, Vec<&&str>) = told
        .iter()
        .filter(alone)
        .partition(|name| matches!(**name, "public" | "private"));
    if let Some(age) = age {
        value = format!("max-age={age}");
    }
    for name in whom {
        value = format!("{name}, {value}");
    }
    for name in rest {
        value.push_str(&format!(", {name}"));
    }
    Ok(value + &after)
}

fn seconds(text: &str) -> Option<u64> {
    let time = units::age(text).ok()?;
    (time.subsec_nanos() == 0 || time == Duration::ZERO).then_some(time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_a_time_and_directives() {
        for (text, value) in [
            ("no-cache", "no-cache"),
            ("no-store", "no-store"),
            ("no-cache private", "private, no-cache"),
            ("0s", "max-age=0"),
            ("1h", "max-age=3600"),
            ("1y immutable", "max-age=31536000, immutable"),
            ("1y immutable public", "public, max-age=31536000, immutable"),
            ("1h private", "private, max-age=3600"),
            (
                "10m stale-while-revalidate=1d",
                "max-age=600, stale-while-revalidate=86400",
            ),
            (
                "1m s-maxage=1h must-revalidate stale-if-error=2h",
                "max-age=60, must-revalidate, s-maxage=3600, stale-if-error=7200",
            ),
        ] {
            assert_eq!(policy(text).as_deref(), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        for text in [
            "",
            " ",
            "1h ",
            "1h  private",
            "3600",
            "500ms",
            "11y",
            "max-age=3600",
            "public",
            "no-store private",
            "no-cache immutable",
            "1h private public",
            "1h private s-maxage=1h",
            "1h immutable immutable",
            "1h s-maxage=1h s-maxage=2h",
            "1h immutable=1h",
            "1h stale-if-error",
            "1h stale-if-error=",
            "1h max-age=2h",
            "1h, private",
            "1h Private",
        ] {
            assert!(policy(text).is_err(), "{text:?}: {:?}", policy(text));
        }
    }
}
