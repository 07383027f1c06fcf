//! The speed of codings and changes on a page of 105,600 bytes, and the memory of an encoder.
//!
//! `cargo run --release -p lockgate-content --example speed [codings] [changes] [memory]`

use std::hint::black_box;
use std::time::{Duration, Instant};

use lockgate_content::StepProgress;
use lockgate_content::change::{
    ChangePlan, ChangeRule, ChangeTemplate, Changer, Changes, DocumentKind, SelectorEdit,
    TemplatePart,
};
use lockgate_content::coding::{Coding, ContentEncoder, encode_all};

/// The time of each measurement.
const TIME: Duration = Duration::from_millis(150);

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|other| other == name);
    let page = page(105_600);
    if let [what, token, level] = &asked[..]
        && what == "memory-of"
    {
        let coding = Coding::ALL
            .into_iter()
            .find(|coding| coding.token() == token)
            .expect("a coding");
        return memory_of(&page, coding, level.parse().expect("a level"));
    }
    if is_asked("codings") {
        codings(&page);
    }
    if is_asked("changes") {
        changes(&page);
    }
    if is_asked("memory") {
        memory();
    }
}

/// A page like a written one: words with a skewed frequency in paragraphs, links and lists.
fn page(len: usize) -> Vec<u8> {
    const SYLLABLES: [&str; 24] = [
        "ta", "lo", "mi", "ren", "so", "ka", "ti", "per", "an", "es", "in", "tro", "va", "ne",
        "ri", "con", "st", "de", "ma", "ble", "or", "ing", "ed", "er",
    ];
    let mut state = 9_u64;
    let mut below = move |n: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let words: Vec<String> = (0..2000)
        .map(|_| {
            (0..1 + below(4))
                .map(|_| SYLLABLES[below(24) as usize])
                .collect()
        })
        .collect();
    let mut out = String::from("<!doctype html><html><head><title>A page</title></head><body>\n");
    while out.len() < len {
        let text = (0..20 + below(60))
            .map(|_| words[(below(2000) * below(2000) / 2000) as usize].as_str());
        let text = text.collect::<Vec<_>>().join(" ");
        let class = below(9);
        out.push_str(&format!(
            "<div class=\"card c{class}\"><h2><a href=\"/item/{}\">{}</a></h2>",
            below(99_999),
            &text[..20]
        ));
        out.push_str(&format!("<p>{text}.</p></div>\n"));
    }
    out.truncate(len - 15);
    out.push_str("\n</body></html>");
    out.into_bytes()
}

/// Microseconds of one call.
fn time(mut call: impl FnMut()) -> f64 {
    call();
    let (begin, mut calls) = (Instant::now(), 0_u32);
    while begin.elapsed() < TIME || calls < 2 {
        call();
        calls += 1;
    }
    begin.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
}

fn codings(page: &[u8]) {
    println!(
        "| coding | level | MB/s | ratio | µs for 1 KB, new | used again |\n|---|---|---|---|---|---|"
    );
    for coding in Coding::ALL {
        for level in coding.levels() {
            let mut encoder = ContentEncoder::new(coding, level);
            let mut out = Vec::new();
            let mut whole = |content: &[u8], out: &mut Vec<u8>| {
                out.clear();
                encoder.whole(content, out);
            };
            let all = time(|| whole(page, &mut out));
            let ratio = out.len() as f64 / page.len() as f64;
            let again = time(|| whole(&page[..1024], &mut out));
            let new = time(|| drop(black_box(encode_all(coding, level, &page[..1024]))));
            let speed = page.len() as f64 / all;
            println!(
                "| {} | {level} | {speed:.1} | {ratio:.3} | {new:.1} | {again:.1} |",
                coding.token()
            );
        }
    }
}

fn template(text: &str) -> ChangeTemplate {
    ChangeTemplate(vec![
        TemplatePart::Text(text.into()),
        TemplatePart::Value(0),
    ])
}

fn changes(page: &[u8]) {
    let text = |find: &str| ChangeRule::Text {
        find: find.into(),
        with: template("<!--"),
    };
    let pattern = |pattern: &str| ChangeRule::Pattern {
        pattern: pattern.into(),
        with: template("$0"),
    };
    let select = |selector: &str, edit: SelectorEdit| ChangeRule::Select {
        selector: selector.into(),
        edit,
    };
    let href = SelectorEdit::Set {
        name: "href".into(),
        value: template("/x/"),
    };
    let rules = [
        ("one text, once", vec![text("</head>")]),
        (
            "ten texts, once",
            [
                "</head>", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "b9",
            ]
            .map(text)
            .into(),
        ),
        ("one text, often", vec![text("card")]),
        ("a pattern, often", vec![pattern(r"/item/(\d+)")]),
        (
            "a pattern of any length",
            vec![pattern("<title>[^<]*</title>")],
        ),
        (
            "head, append",
            vec![select("head", SelectorEdit::Append(template("<!--")))],
        ),
        ("a[href], set", vec![select("a[href]", href)]),
    ];
    println!(
        "\n| rules | places | plan, µs | fill and walk, µs | stream in 16 KB, µs | MB/s |\n|---|---|---|---|---|---|"
    );
    for (name, rules) in rules {
        let changes = Changes::compile(&rules).expect("rules without a fault");
        let plan =
            || ChangePlan::new(&changes, DocumentKind::Html, page, 1 << 20).expect("short enough");
        let made = plan();
        let planned = time(|| drop(black_box(plan())));
        let filled = time(|| {
            let filled = made.fill(&[b"a value"]);
            black_box(filled.length());
            for piece in filled.pieces() {
                black_box(piece);
            }
        });
        let mut out = Vec::new();
        let streamed = time(|| {
            let mut changer = Changer::new(&changes, DocumentKind::Html, &[b"a value"], u64::MAX);
            for mut piece in page.chunks(16 * 1024) {
                out.clear();
                let progress = changer
                    .step(&mut piece, &mut out, usize::MAX)
                    .expect("short enough");
                assert_eq!(progress, StepProgress::Done);
            }
            changer.finish(&mut out, usize::MAX).expect("short enough");
        });
        let (places, speed) = (made.fill(&[]).count() / 2, page.len() as f64 / streamed);
        println!("| {name} | {places} | {planned:.0} | {filled:.2} | {streamed:.0} | {speed:.0} |");
    }
}

/// The memory of this process, in KB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

fn memory() {
    println!("\n| coding | level | KB for each encoder in the middle of 4 MB |\n|---|---|---|");
    for coding in Coding::ALL {
        let levels = coding.levels();
        for level in [
            *levels.start(),
            coding.fast_level(),
            coding.kept_level(),
            *levels.end(),
        ] {
            // Each in its own process: memory freed by one would be reused by the next.
            let this = std::env::current_exe().expect("a program");
            let mut command = std::process::Command::new(this);
            let status = command
                .args(["memory-of", coding.token(), &level.to_string()])
                .status();
            assert!(status.is_ok_and(|status| status.success()));
        }
    }
}

fn memory_of(page: &[u8], coding: Coding, level: u8) {
    let long = page.repeat(if level > coding.kept_level() { 12 } else { 40 });
    let (before, mut out) = (resident(), Vec::with_capacity(1 << 20));
    let encoders: Vec<_> = (0..8)
        .map(|_| {
            let mut encoder = ContentEncoder::new(coding, level);
            for piece in long.chunks(16 * 1024) {
                out.clear();
                encoder.write(piece, &mut out);
            }
            encoder
        })
        .collect();
    println!(
        "| {} | {level} | {} |",
        coding.token(),
        (resident() - before) / encoders.len() as u64
    );
}
