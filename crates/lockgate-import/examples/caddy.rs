//! Imports Caddyfiles from the disk and prints drafts, reports and totals:
//! `cargo run -p lockgate-import --example caddy -- [--totals] [--out FOLDER] FILES…`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lockgate_import::{Format, SourceFiles, Verdict, import};

struct DiskFiles;

impl SourceFiles for DiskFiles {
    fn read(&self, path: &Path) -> Result<String, String> {
        std::fs::read(path)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .map_err(|error| error.to_string())
    }

    fn matching(&self, _: &Path) -> Vec<PathBuf> {
        Vec::new()
    }
}

fn main() {
    let mut paths: Vec<String> = std::env::args().skip(1).collect();
    let only_totals = paths.first().is_some_and(|word| word == "--totals");
    if only_totals {
        paths.remove(0);
    }
    let mut out = None;
    if paths.first().is_some_and(|word| word == "--out") {
        paths.remove(0);
        out = Some(PathBuf::from(paths.remove(0)));
    }
    let mut totals: BTreeMap<&str, usize> = BTreeMap::new();
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    for path in &paths {
        let imported = match import(Format::Caddy, &[PathBuf::from(path)], &DiskFiles) {
            Ok(imported) => imported,
            Err(error) => {
                println!("### {path}: {error}");
                continue;
            }
        };
        if let Some(out) = &out {
            let name = Path::new(path).file_name().unwrap_or_default();
            let mut to = out.join(name).into_os_string();
            to.push(".toml");
            let mut top = imported.draft.clone();
            top.top.take_list("test");
            if let Err(error) = std::fs::write(&to, top.to_string()) {
                println!("{}: {error}", to.display());
            }
        }
        println!("### {path}: {:?}", imported.report.counts());
        if !only_totals {
            println!("{}", imported.draft);
        }
        for line in imported.report.lines() {
            let shown = match &line.verdict {
                Verdict::Converted => "converted".to_owned(),
                Verdict::Default => "default".to_owned(),
                Verdict::Differs { because } => format!("DIFFERS: {because}"),
                Verdict::NotSupported { because, instead } => {
                    let name = line.text.split(' ').next().unwrap_or_default();
                    *refused.entry(name.to_owned()).or_default() += 1;
                    format!(
                        "NOT SUPPORTED: {because} [{}]",
                        instead.as_deref().unwrap_or("-")
                    )
                }
            };
            if !only_totals {
                println!("{}: {}  => {shown}", line.place.line, line.text);
            }
        }
        for (name, number) in imported.report.counts() {
            *totals.entry(name).or_default() += number;
        }
    }
    let all: usize = totals.values().sum();
    let good: usize = ["converted", "default"]
        .iter()
        .filter_map(|name| totals.get(name))
        .sum();
    println!(
        "TOTAL {all}: {totals:?}; {:.1} % converted or default",
        good as f64 * 100.0 / all as f64
    );
    let mut refused: Vec<_> = refused.into_iter().collect();
    refused.sort_by_key(|(name, number)| (usize::MAX - number, name.clone()));
    for (name, number) in refused.iter().take(15) {
        println!("{number:5} {name}");
    }
}
