//! Certificates that Lockgate obtains, as text.

use std::fmt::Write as _;

use lockgate_rules::acme::KNOWN_DIRECTORIES;
use serde_json::Value;

use super::show::items;
use super::units::plain;
use crate::text_table::TextTable;

/// A table of certificates, which are those of `/v1/certs`; nothing without one.
pub(super) fn managed(certs: &Value) -> String {
    let mut table = TextTable::new(&[
        "NAME",
        "KEY",
        "STATE",
        "DAYS",
        "DIRECTORY",
        "RENEWAL",
        "FAILURES",
        "ERROR",
    ]);
    let mut rows = 0;
    for one in items(certs) {
        rows += 1;
        // After a failure the next try is later than the renewal was to be.
        let renewal = [&one["next_try"], &one["renewal"]];
        let renewal = renewal.into_iter().find(|time| !time.is_null());
        table.row([
            plain(&one["name"]),
            plain(&one["key"]),
            plain(&one["state"]),
            plain(&one["days_left"]),
            directory(&one["directory"]),
            renewal.map_or_else(String::new, plain),
            plain(&one["failures"]),
            plain(&one["failure"]["kind"]),
        ]);
    }
    if rows == 0 {
        return String::new();
    }
    table.render()
}

/// All that is known of one certificate.
pub(super) fn detail(one: &Value) -> String {
    let mut text = format!("{}, {}\n", plain(&one["name"]), plain(&one["key"]));
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(text, "  {name:<13}{value}"); // writing to a String cannot fail
        }
    };
    line("state", plain(&one["state"]));
    line("file", plain(&one["file"]));
    if !one["not_after"].is_null() {
        let [from, to, days] =
            ["not_before", "not_after", "days_left"].map(|name| plain(&one[name]));
        line("valid", format!("from {from} to {to}, days left: {days}"));
    }
    line(
        "names",
        items(&one["names"])
            .map(plain)
            .collect::<Vec<_>>()
            .join(", "),
    );
    line("issuer", plain(&one["issuer"]));
    for name in ["directory", "profile", "challenge", "revoked", "renewal"] {
        line(name, plain(&one[name]));
    }
    let window: Vec<_> = items(&one["window"]).map(plain).collect();
    if let [from, to] = &window[..] {
        let why = plain(&one["explanation"]);
        let why = if why.is_empty() {
            why
        } else {
            format!(", see {why}")
        };
        line(
            "window",
            format!("from {from} to {to}, as the authority wants{why}"),
        );
    }
    if !one["order"].is_null() {
        let order = &one["order"];
        line(
            "order",
            format!("{}, begun {}", plain(&order["url"]), plain(&order["begun"])),
        );
    }
    line("last try", plain(&one["tried"]));
    line("next try", plain(&one["next_try"]));
    if one["failures"].as_u64().unwrap_or_default() > 0 {
        line("failures", plain(&one["failures"]));
        line("last failure", failure(&one["failure"]));
    }
    text
}

/// A failure: its kind, and its message.
pub(super) fn failure(failure: &Value) -> String {
    let [kind, message] = ["kind", "message"].map(|name| plain(&failure[name]));
    match kind.is_empty() {
        true => message,
        false => format!("{kind}: {message}"),
    }
}

/// The results of trials.
pub(super) fn trials(value: &Value) -> String {
    let mut table = TextTable::new(&["NAME", "KEY", "RESULT", "CHALLENGE", "SECONDS", "DIRECTORY"]);
    let (mut failures, mut own) = (String::new(), Vec::new());
    for one in items(&value["results"]) {
        let is_obtained = one["obtained"] == true;
        let directory = plain(&one["directory_name"]);
        table.row([
            plain(&one["name"]),
            plain(&one["key"]),
            if is_obtained { "obtained" } else { "failed" }.to_owned(),
            plain(&one["challenge"]),
            plain(&one["seconds"]),
            directory.clone(),
        ]);
        for failed in items(&one["failures"]) {
            let [name, challenge, cure] =
                [&one["name"], &failed["challenge"], &failed["cure"]].map(plain);
            let challenge = match challenge.is_empty() {
                true => challenge,
                false => format!(" by {challenge}"),
            };
            let _ = writeln!(failures, "{name}{challenge}: {}\n  {cure}", failure(failed));
        }
        if one["directory_configured"] == true && !own.contains(&directory) {
            own.push(directory);
        }
    }
    let mut text = table.render();
    if !failures.is_empty() {
        text.push('\n');
        text += &failures;
    }
    for directory in own {
        let _ = writeln!(
            text,
            "\n{directory} is the configured directory: no other is known for trials, and its limits apply."
        );
    }
    text
}

/// The name of a directory with this URL: the known one, or the host.
fn directory(url: &Value) -> String {
    let url = plain(url);
    let known = KNOWN_DIRECTORIES.iter().find(|(_, known)| *known == url);
    if let Some((name, _)) = known {
        return (*name).to_owned();
    }
    let rest = url.trim_start_matches("https://");
    rest.split('/').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_managed_certificate_is_a_row_and_all_that_is_known_of_it_a_text() {
        let failed = json!({
            "name": "a.test", "key": "p256", "state": "late", "days_left": 3, "file": "/s/certs/a.test.pem",
            "names": ["a.test"], "issuer": "CN=E7", "directory": "https://acme-v02.api.letsencrypt.org/directory",
            "challenge": "http-01", "not_before": "2026-01-01T00:00:00Z", "not_after": "2026-04-01T00:00:00Z",
            "renewal": "2026-03-01T00:00:00Z", "next_try": "2026-03-29T00:00:00Z", "failures": 2,
            "window": ["2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"], "explanation": "https://e.test/why",
            "order": { "url": "https://e.test/order/1", "begun": "2026-03-28T00:00:00Z" },
            "failure": { "kind": "validation", "message": "port 80 is closed\u{1b}[2J" },
        });
        let awaited = json!({ "name": "b.test", "key": "p256", "state": "awaited", "failures": 0,
            "directory": "https://ca.lan:14000/dir" });
        assert_eq!(
            managed(&json!([failed, awaited])),
            "NAME    KEY   STATE    DAYS  DIRECTORY     RENEWAL               FAILURES  ERROR\n\
             a.test  p256  late        3  letsencrypt   2026-03-29T00:00:00Z         2  validation\n\
             b.test  p256  awaited     -  ca.lan:14000  -                            0  -\n"
        );
        assert_eq!(managed(&json!([])), "");
        let text = detail(&failed);
        for part in [
            "a.test, p256\n",
            "/s/certs/a.test.pem\n",
            "days left: 3\n",
            "as the authority wants, see https://e.test/why\n",
            "https://e.test/order/1, begun 2026-03-28",
            "validation: port 80 is closed\\u{1b}[2J\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!detail(&awaited).contains("valid "));
    }

    #[test]
    fn a_trial_tells_each_failure_with_its_cure() {
        let results = json!({ "results": [
            { "name": "a.test", "key": "p256", "obtained": true, "challenge": "tls-alpn-01", "seconds": 1.5,
              "directory_name": "ca.lan", "directory_configured": true,
              "failures": [{ "challenge": "http-01", "kind": "validation", "message": "closed", "cure": "open port 80" }] },
            { "name": "b.test", "key": "p256", "obtained": false, "challenge": null, "seconds": 0.5,
              "directory_name": "ca.lan", "directory_configured": true,
              "failures": [{ "challenge": null, "kind": "caa", "message": "no", "cure": "allow it" }] },
        ] });
        assert_eq!(
            trials(&results),
            "NAME    KEY   RESULT    CHALLENGE    SECONDS  DIRECTORY\n\
             a.test  p256  obtained  tls-alpn-01      1.5  ca.lan\n\
             b.test  p256  failed    -                0.5  ca.lan\n\
             \n\
             a.test by http-01: validation: closed\n  open port 80\n\
             b.test: caa: no\n  allow it\n\
             \n\
             ca.lan is the configured directory: no other is known for trials, and its limits apply.\n"
        );
    }
}
