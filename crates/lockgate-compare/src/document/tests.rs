//! Documents of made-up comparisons, in each format.

use super::*;
use crate::comparison::tests::{findings, plan};
use lockgate_load::result::Bottleneck;

fn document(complete: bool) -> ComparisonDocument {
    let findings = findings(|program, _, sample| {
        if program == "b" {
            sample.limit(Bottleneck::Generator, "the generator <was> the limit");
        }
    });
    let facts = vec![("cpu", "Some & CPU".to_owned())];
    ComparisonDocument::of(
        &plan(),
        &findings,
        facts,
        vec!["CPU 0 was busy".to_owned()],
        complete,
    )
}

#[test]
fn text_has_medians_spreads_ratios_verdicts_and_why_there_is_none() {
    let text = document(true).text();
    for part in [
        "T <1>\n",
        "warning: CPU 0 was busy",
        "a        1.0",
        "250 (156–625)",
        "0.64 [0.64–0.64] less",
        "0.80 [0.80–0.80] no verdict",
        "no verdict, invalid for b: b ÷ a (requests/s, p50, p99, p99.99)",
        "b is not “the best other” by requests/s, p50, p99, p99.99: marked with *",
        "CPU time a request beside the best other, a: less in 1 of 1 (0.64 ×)",
        "CPU time a request beside the best other, b: more in 1 of 1 (1.56 ×)",
        "200 (125–500)*",
        "* b: the generator <was> the limit",
        "c was left out: c is not installed",
        "2.00 ms",
        "Published figures: S & T",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(
        document(false)
            .text()
            .starts_with("T <1> (partial: it was stopped early)\n")
    );
}

#[test]
fn differences_from_the_baseline_have_a_table_of_their_own() {
    let mut plan = plan();
    plan.programs[1].baseline = true;
    let findings = findings(|program, _, sample| {
        if program == "b" {
            sample.p50 = Some(75.0);
        }
    });
    let markdown =
        ComparisonDocument::of(&plan, &findings, Vec::new(), Vec::new(), true).markdown();
    let head = "| ÷ the baseline | requests/s | p50 | p99 | p99.99 | added p50 | added p99 | added p99.99 |";
    assert!(markdown.contains(head), "{markdown}");
    assert!(
        markdown.contains("| a ÷ b | 1.25 [1.25–1.25] more | 1.33 [1.33–1.33] more |"),
        "{markdown}"
    );
    assert!(markdown.contains("| 25 µs | 0 µs | 0 µs |"), "{markdown}");
    assert!(
        !markdown.contains("b ÷ a") && !markdown.contains("÷ the best other"),
        "{markdown}"
    );
}

#[test]
fn over_tls_there_is_what_was_agreed_upon_and_how_much_was_resumed() {
    let findings = findings(|_, _, sample| {
        (sample.tls, sample.resumed) = (Some("TLSv1.3 X".to_owned()), 75.0);
    });
    let markdown =
        ComparisonDocument::of(&plan(), &findings, Vec::new(), Vec::new(), true).markdown();
    assert!(
        markdown.contains("| program | version | TLS |") && markdown.contains("| resumed |"),
        "{markdown}"
    );
    assert!(
        markdown.contains("| a | 1.0 | TLSv1.3 X |") && markdown.contains("| 75 % |"),
        "{markdown}"
    );
    assert!(!document(true).markdown().contains("resumed"));
}

#[test]
fn memory_is_compared_where_many_connections_share_what_was_added() {
    let with = |connections| {
        let findings = findings(|program, _, sample| {
            sample.connections = connections;
            sample.memory = Some((1e6, if program == "a" { 2e6 } else { 3e6 }));
        });
        ComparisonDocument::of(&plan(), &findings, Vec::new(), Vec::new(), true).markdown()
    };
    assert!(
        with(100.0).contains("| 0.50 [0.50–0.50] less |"),
        "{}",
        with(100.0)
    );
    assert!(!with(99.0).contains("| 0.50 [0.50–0.50] less |"));
}

#[test]
fn output_of_programs_neither_moves_the_cursor_nor_becomes_html() {
    let mut findings = findings(|_, _, _| ());
    findings.measured[0].outcome = Err("it ended:\n    \x1b[2J<b>".to_owned());
    let document = ComparisonDocument::of(&plan(), &findings, Vec::new(), Vec::new(), true);
    assert!(
        document.text().contains("it ended:\n    \\u{1b}[2J<b>"),
        "{}",
        document.text()
    );
    assert!(
        document.markdown().contains("\\u{1b}[2J&lt;b>"),
        "{}",
        document.markdown()
    );
}

#[test]
fn a_program_without_figures_has_a_line_of_its_own_in_csv_and_failures_are_added_up() {
    let mut findings = findings(|_, _, sample| sample.failed = 2.0);
    findings.measured[0].outcome = Err("it ended".to_owned());
    let document = ComparisonDocument::of(&plan(), &findings, Vec::new(), Vec::new(), true);
    let (csv, json) = (document.csv(), document.json());
    assert_eq!(csv.lines().count(), 1 + 13 + 2, "{csv}");
    let line = |start: &str| {
        csv.lines()
            .find(|line| line.starts_with(start))
            .unwrap()
            .to_owned()
    };
    assert!(line("l,,a,a 1.0,,").ends_with(",it ended"), "{csv}");
    assert!(line("l,,c,,,").ends_with(",c is not installed"), "{csv}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["cases"][0]["programs"][1]["figures"]["failed"], 14.0);
}

#[test]
fn markdown_tables_are_whole_whatever_is_in_their_cells() {
    let markdown = document(true).markdown();
    assert!(
        markdown.contains("| x\\|y | z |\n|---|---|\n| 1 | 2 |"),
        "{markdown}"
    );
    assert!(markdown.starts_with("## T &lt;1>\n"), "{markdown}");
}

#[test]
fn a_page_escapes_all_that_was_written_by_others() {
    let page = document(true).html();
    assert!(
        page.contains("T &lt;1&gt;")
            && page.contains("Some &amp; CPU")
            && page.contains("&lt;was&gt;"),
        "{page}"
    );
    assert!(!page.contains("<was>") && !page.contains("T <1>"));
    assert!(page.contains("<svg") && page.contains("</html>"));
    for word in [
        "<script", " style=", " href=", " src=", "url(", "NaN", "inf%",
    ] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn a_page_has_verdict_and_warnings_above_all_figures_and_a_dark_scheme() {
    let page = document(true).html();
    let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part}"));
    assert!(at("<li><b>a</b>: less in 1 of 1 (0.64 ×)</li>") < at("<svg"));
    assert!(at("warning: CPU 0 was busy") < at("<svg"));
    assert!(page.contains("prefers-color-scheme: dark"));
    assert!(page.contains("<td class=\"better\">0.64 [0.64–0.64] less</td>"));
    assert!(page.contains("<td class=\"quiet\">"));
    assert_eq!(page.matches("“No verdict” means").count(), 1);
}

#[test]
fn several_cases_have_an_overview_of_their_verdicts() {
    let mut findings = findings(|_, _, _| ());
    for measured in &mut findings.measured {
        let samples = measured.outcome.as_mut().unwrap();
        let mut other = samples[0].clone();
        (samples[0].stage, other.stage) = ("1000/s".to_owned(), "2000/s".to_owned());
        samples.push(other);
    }
    let page = ComparisonDocument::of(&plan(), &findings, Vec::new(), Vec::new(), true).html();
    let row = "<th scope=\"row\">l, 2000/s</th><td class=\"better\">0.64 [0.64–0.64] less</td>";
    assert!(page.contains(row), "{page}");
    assert!(page.contains("<b>a</b>: less in 2 of 2 (0.64 ×)"), "{page}");
}

#[test]
fn programs_that_are_not_compared_are_named_with_the_reason() {
    let findings = findings(|program, _, sample| {
        if program == "b" {
            sample.answers[0].length = Some(10);
        }
    });
    let text = ComparisonDocument::of(&plan(), &findings, Vec::new(), Vec::new(), true).text();
    let why = "a and b did other work, and are not compared: a answered HTTP/1.1 200 of 100 bytes, b answered HTTP/1.1 200 of 10 bytes";
    assert!(text.contains(why), "{text}");
    assert!(!text.contains("less") || !text.contains(" ÷ b"), "{text}");
    assert!(text.contains("a: no verdict in 1 of 1"), "{text}");
}

#[test]
fn percentiles_of_too_few_requests_have_no_column() {
    let few = findings(|_, _, sample| (sample.p99_9, sample.p99_99) = (None, None));
    let markdown = ComparisonDocument::of(&plan(), &few, Vec::new(), Vec::new(), true).markdown();
    assert!(markdown.contains("| p99 | max |"), "{markdown}");
    assert!(!markdown.contains("| p99.9"), "{markdown}");
}

#[test]
fn json_has_every_round_and_every_pair() {
    let value: serde_json::Value = serde_json::from_str(&document(false).json()).unwrap();
    assert_eq!(value["complete"], false);
    let case = &value["cases"][0];
    assert_eq!(case["programs"][0]["rounds"].as_array().unwrap().len(), 7);
    assert_eq!(case["programs"][2]["skipped"], "c is not installed");
    assert_eq!(
        case["programs"][0]["figures"]["succeeded_per_s"]["rounds"],
        7
    );
    let pair = &case["pairs"][0];
    assert_eq!(
        (&pair["program"], &pair["other"]),
        (&"a".into(), &"b".into())
    );
    assert_eq!(pair["cpu_us_per_success"]["verdict"], "less");
    assert_eq!(pair["succeeded_per_s"]["no_verdict"], "invalid for b");
}

#[test]
fn versions_are_numbers_in_tables() {
    for (said, number) in [
        ("nginx version: nginx/1.22.1", "1.22.1"),
        (
            "HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/",
            "2.6.12-1+deb12u4",
        ),
        ("v2.11.0 h1:abc=", "v2.11.0"),
        ("hitch 1.7.2", "1.7.2"),
        ("newest", "newest"),
        ("", ""),
    ] {
        assert_eq!(version(said), number);
    }
}

#[test]
fn csv_has_a_line_for_each_measurement() {
    let csv = document(true).csv();
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(
        lines.len(),
        16,
        "a head, two programs in seven rounds, one that was left out"
    );
    assert!(
        lines[0].starts_with("load,stage,program,version,round,"),
        "{}",
        lines[0]
    );
    assert!(lines[1].starts_with("l,,a,a 1.0,1,"), "{}", lines[1]);
    assert!(
        lines[2].ends_with(",the generator <was> the limit,")
            || lines[8].ends_with(",the generator <was> the limit,")
    );
}
