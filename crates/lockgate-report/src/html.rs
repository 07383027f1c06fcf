//! The report as one HTML file: no script, nothing loaded, readable in a browser, in the dark and
//! in grey print.

mod frame;
mod ladder;
mod percentiles;
mod plot;
mod tables;
mod timeline;

use std::fmt::Write;
use std::time::SystemTime;

use lockgate_http::date;

use crate::escape::{html, shell};
use crate::{units, words};
use lockgate_load::result::RunResult;

pub use frame::frame;

/// The page of one run, or of several with their names beside each other.
pub fn page(runs: &[(&str, &RunResult)]) -> String {
    let title = match runs {
        [(_, report)] => format!("Load on {}", html(&report.run.targets.join(", "))),
        _ => format!("Comparison of {} runs", runs.len()),
    };
    let mut out = String::new();
    each(&mut out, runs, "", |report| Some(heading(report)));
    each(&mut out, runs, "Stages", |report| {
        Some(tables::stages(report))
    });
    each(&mut out, runs, "Rounds", tables::rounds);
    each(&mut out, runs, "Targets", tables::targets);
    section(&mut out, "Latency by percentile", percentiles::figure(runs));
    section(&mut out, "Latency by rate", ladder::figure(runs));
    each(&mut out, runs, "Time line", timeline::figure);
    each(&mut out, runs, "Failures", tables::failures);
    each(&mut out, runs, "CPU and memory", |report| {
        Some(tables::programs(report))
    });
    each(&mut out, runs, "All figures of each stage", |report| {
        Some(tables::details(report))
    });
    frame(&title, "", &out)
}

/// A section, if there is anything in it.
fn section(out: &mut String, title: &str, content: Option<String>) {
    if let Some(content) = content {
        if !title.is_empty() {
            writeln!(out, "<h2>{title}</h2>").expect("memory");
        }
        out.push_str(&content);
    }
}

/// A section with a part for each run that has one, under its name where there are several.
fn each(
    out: &mut String,
    runs: &[(&str, &RunResult)],
    title: &str,
    part: impl Fn(&RunResult) -> Option<String>,
) {
    let parts = runs.iter().filter_map(|(name, report)| {
        let heading = if runs.len() > 1 {
            format!("<h3>{}</h3>\n", html(name))
        } else {
            String::new()
        };
        part(report).map(|part| format!("<div class=\"run\">{heading}{part}</div>\n"))
    });
    let parts: String = parts.collect();
    section(out, title, (!parts.is_empty()).then_some(parts));
}

/// The options of the run, and whether its figures are valid.
fn heading(report: &RunResult) -> String {
    let mut out = verdict(report);
    out.push_str("<dl>");
    let mut say =
        |name: &str, text: &str| write!(out, "<dt>{name}</dt><dd>{text}</dd>").expect("memory");
    say(
        "command",
        &format!("<code>{}</code>", html(&shell(&report.run.command))),
    );
    for target in &report.run.targets {
        let first = report.first.iter().find(|first| first.target == *target);
        let answer = first.map_or(String::new(), |first| {
            format!(" → {}", html(&words::first(first)))
        });
        say("target", &format!("<code>{}</code>{answer}", html(target)));
    }
    say("model", words::model(report.run.model));
    say("load", &words::load(&report.run));
    for (stage, note) in words::notes(report) {
        say("note", &format!("{}: {}", html(&stage), html(note)));
    }
    let began = report
        .began
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    say("began", &String::from_utf8_lossy(&date::imf_fixdate(began)));
    let uncounted = units::counted(report.uncounted, "request", "requests");
    say(
        "not counted",
        &format!("{uncounted} before the first stage (warm-up, the first of each target)"),
    );
    out.push_str("</dl>\n");
    out
}

fn verdict(report: &RunResult) -> String {
    let (end, invalid) = (words::end(&report.end), words::verdict(report));
    if end.is_none() && invalid.is_none() {
        let failed = report
            .stages
            .iter()
            .map(|stage| stage.counts.failed())
            .sum();
        let but = match failed {
            0 => String::new(),
            some => format!(
                "; but <span class=\"mark\">{}</span>",
                units::counted(some, "request failed", "requests failed")
            ),
        };
        let limit = if words::notes(report).is_empty() {
            "neither the generator nor its link was the limit"
        } else {
            "the generator was not the limit"
        };
        return format!(
            "<p class=\"verdict\"><strong>VALID</strong>: complete, and {limit}{but}</p>\n"
        );
    }
    let mut out = String::from("<div class=\"verdict bad\">");
    for line in end.iter().chain(&invalid) {
        write!(out, "<div><strong>{}</strong></div>", html(line)).expect("memory");
    }
    let reasons = words::invalid(report);
    if !reasons.is_empty() {
        out.push_str("<ul>");
        for (stage, reason) in reasons {
            write!(out, "<li>{}: {}</li>", html(&stage), html(reason)).expect("memory");
        }
        out.push_str("</ul>");
    }
    out.push_str("</div>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use aws_lc_rs::digest;
    use base64ct::{Base64, Encoding};
    use lockgate_load::result::{FailureKind, RunEnd};

    #[test]
    fn a_page_says_what_was_run_and_whether_it_holds_and_loads_nothing() {
        let page = page(&[("a", &sample::ladder(3))]);
        for part in [
            "<strong>VALID</strong>",
            "open loop: latency from when",
            "Tue, 14 Nov 2023 22:13:20 GMT",
        ] {
            assert!(page.contains(part), "{part}");
        }
        for section in [
            "Stages",
            "Latency by percentile",
            "Latency by rate",
            "Time line",
            "CPU and memory",
        ] {
            assert!(page.contains(&format!("<h2>{section}</h2>")), "{section}");
        }
        assert!(!page.contains("<h2>Failures</h2>") && !page.contains("<h2>Rounds</h2>"));
        for word in [
            "<script", " style=", " href=", " src=", "url(", "@import", "NaN", "inf",
        ] {
            assert!(!page.contains(word), "{word}");
        }
    }

    #[test]
    fn the_policy_of_the_page_allows_its_own_style_and_nothing_else() {
        let page = page(&[("a", &sample::report(&["closed loop"]))]);
        let style = page
            .split("<style>")
            .nth(1)
            .unwrap()
            .split("</style>")
            .next()
            .unwrap();
        let hash =
            Base64::encode_string(digest::digest(&digest::SHA256, style.as_bytes()).as_ref());
        assert!(page.contains(&format!(
            "content=\"default-src 'none'; style-src 'sha256-{hash}'\""
        )));
    }

    #[test]
    fn texts_from_outside_are_escaped_wherever_they_stand() {
        let evil = "<img src=x onerror=alert(1)>\"'&";
        let mut report = sample::ladder(2);
        report.run.command = vec![evil.to_owned()];
        report.run.targets = vec![evil.to_owned()];
        (report.first[0].target, report.first[0].tls) = (evil.to_owned(), Some(evil.to_owned()));
        for stage in &mut report.stages {
            (stage.name, stage.invalid) = (evil.to_owned(), vec![sample::late(evil)]);
            stage.watched[0].name = evil.to_owned();
            sample::fail(stage, FailureKind::Garbage, 2, evil);
        }
        report.stages[1].name.push('2');
        let page = page(&[(evil, &report), (evil, &report)]);
        assert!(!page.contains("<img") && !page.contains("\"'&"));
        assert!(
            page.matches("&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;")
                .count()
                > 20
        );
    }

    #[test]
    fn invalid_and_partial_results_say_so_above_all_figures() {
        let mut report = sample::report(&["closed loop", "closed loop"]);
        sample::fail(
            &mut report.stages[0],
            FailureKind::Connect,
            5_000,
            "refused",
        );
        assert!(
            page(&[("a", &report)])
                .contains("limit; but <span class=\"mark\">5,000 requests failed</span>")
        );
        report.stages[1].round = 2;
        report.stages[1]
            .invalid
            .push(sample::late("the generator was late"));
        report.end = RunEnd::Interrupted;
        let page = page(&[("a", &report)]);
        let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part}"));
        assert!(at("INTERRUPTED") < at("INVALID: the figures of 1 of 2 stages"));
        assert!(
            at("<li>closed loop, round 2: the generator was late</li>") < at("<h2>Stages</h2>")
        );
        assert!(at("<h2>Rounds</h2>") < at("2 × closed loop, p99"));
        assert!(!page.contains("<strong>VALID"));
    }

    #[test]
    fn a_run_without_anything_is_still_a_page() {
        let mut report = sample::report(&[]);
        assert!(page(&[("a", &report)]).contains("INVALID: no stage was measured"));
        let mut stage = sample::stage("closed loop", 0, 1e6);
        (stage.elapsed, stage.seconds) = (std::time::Duration::ZERO, Vec::new());
        report.stages.push(stage);
        let page = page(&[("a", &report)]);
        assert!(!page.contains("<svg") && !page.contains("NaN"));
        assert!(super::page(&[]).contains("Comparison of 0 runs"));
    }
}
