//! Imports files of HAProxy from the disk and prints drafts, reports and totals.
//!
//! `cargo run -p lockgate-import --example haproxy -- [--totals] FILE…`; each draft is checked unless
//! `NO_CHECK` is set.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lockgate_config::{Environment, parse_str_in};
use lockgate_import::{Format, SourceFiles, Verdict, import};

struct Disk;

impl SourceFiles for Disk {
    fn read(&self, path: &Path) -> Result<String, String> {
        let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn matching(&self, _: &Path) -> Vec<PathBuf> {
        Vec::new()
    }
}

fn main() {
    let mut totals: BTreeMap<&str, usize> = BTreeMap::new();
    let mut bad: BTreeMap<String, usize> = BTreeMap::new();
    let mut quiet = false;
    for name in std::env::args().skip(1) {
        if name == "--totals" {
            quiet = true;
            continue;
        }
        let imported = match import(Format::Haproxy, &[PathBuf::from(&name)], &Disk) {
            Ok(imported) => imported,
            Err(error) => {
                println!("=== {name}: {error}");
                continue;
            }
        };
        let counts = imported.report.counts();
        for (verdict, count) in &counts {
            *totals.entry(verdict).or_default() += count;
        }
        let mut draft = imported.draft.clone();
        println!("=== {name} {counts:?}");
        if !quiet {
            print!("{draft}");
        }
        for line in imported.report.lines() {
            let why = match &line.verdict {
                Verdict::Converted => "converted".to_owned(),
                Verdict::Default => "default".to_owned(),
                Verdict::Differs { because } => format!("DIFFERS {because}"),
                Verdict::NotSupported { because, instead } => {
                    format!("NOT {because} | {}", instead.clone().unwrap_or_default())
                }
            };
            if let Verdict::NotSupported { .. } | Verdict::Differs { .. } = line.verdict {
                let words: Vec<_> = line.text.split_whitespace().take(2).collect();
                let kind = if why.starts_with("NOT") {
                    "not"
                } else {
                    "differs"
                };
                *bad.entry(format!("{kind}: {}", words.join(" ")))
                    .or_default() += 1;
            }
            if !quiet {
                println!("-- {} {}\n     {why}", line.place.line, line.text);
            }
        }
        if std::env::var_os("NO_CHECK").is_some() {
            continue;
        }
        draft.top.take_list("test");
        let text = draft.to_string();
        let mut env = Environment::none();
        for rest in text.split("${env:").skip(1) {
            let name = rest.split('}').next().unwrap_or_default();
            let alone = text.contains(&format!("\"${{env:{name}}}\""));
            env = env.with_var(name, if alone { "lg:80" } else { "lg" });
        }
        if let Err(report) = parse_str_in(&text, Path::new("/draft.toml"), &env) {
            println!("!!! {name} {report:?}\n{text}");
        }
    }
    let mut bad: Vec<_> = bad.into_iter().collect();
    bad.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (what, count) in bad.iter().take(60) {
        println!("{count:5} {what}");
    }
    let all: usize = totals.values().sum();
    let good = totals.get("converted").unwrap_or(&0) + totals.get("default").unwrap_or(&0);
    println!(
        "{totals:?} of {all}: {:.1} %",
        good as f64 * 100.0 / all.max(1) as f64
    );
}
