//! Converts configurations of nginx and prints the new file, the report and the totals:
//! `cargo run -p lockgate-import --example nginx -- [-q] FILES…`, each on its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lockgate_import::{Format, SourceFiles, Verdict, import};

struct Disk;

impl SourceFiles for Disk {
    fn read(&self, path: &Path) -> Result<String, String> {
        // What this machine has in /etc is no part of the source.
        let types = path.file_name().is_some_and(|name| name == "mime.types");
        if path.starts_with("/etc") || path.starts_with("/usr") || types {
            return Err("no such file".to_owned());
        }
        let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn matching(&self, pattern: &Path) -> Vec<PathBuf> {
        let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name()) else {
            return Vec::new();
        };
        let name = name.to_string_lossy();
        let (start, end) = name.split_once('*').unwrap_or((&name, ""));
        let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let file = path.file_name().unwrap_or_default().to_string_lossy();
                file.starts_with(start) && file.ends_with(end)
            })
            .collect();
        found.sort();
        found
    }
}

fn main() {
    let mut quiet = false;
    let mut totals: BTreeMap<&str, usize> = BTreeMap::new();
    let mut missed: BTreeMap<String, usize> = BTreeMap::new();
    for arg in std::env::args().skip(1) {
        if arg == "-q" {
            quiet = true;
            continue;
        }
        let mut imported = match import(Format::Nginx, &[PathBuf::from(&arg)], &Disk) {
            Ok(imported) => imported,
            Err(error) => {
                println!("{arg}: {error}");
                continue;
            }
        };
        if !quiet {
            println!("{}", imported.draft);
        }
        let _ = imported.draft.top.take_list("test");
        if let Err(report) =
            lockgate_config::parse_str(&imported.draft.to_string(), Path::new(&arg))
        {
            println!("INVALID {arg}: {report}");
        }
        for line in imported.report.lines() {
            let first = line.text.split(' ').next().unwrap_or_default().to_owned();
            let text = match &line.verdict {
                Verdict::Converted => "converted".to_owned(),
                Verdict::Default => "default".to_owned(),
                Verdict::Differs { because } => {
                    *missed.entry(format!("differs {first}")).or_default() += 1;
                    format!("DIFFERS: {because}")
                }
                Verdict::NotSupported { because, instead } => {
                    *missed.entry(format!("not {first}")).or_default() += 1;
                    format!("NOT: {because} / {}", instead.as_deref().unwrap_or("-"))
                }
            };
            if !quiet {
                println!("{:4} {} -> {text}", line.place.line, line.text);
            }
        }
        let counts = imported.report.counts();
        if quiet {
            println!("{arg}: {counts:?}");
        }
        for (name, count) in counts {
            *totals.entry(name).or_default() += count;
        }
    }
    let all: usize = totals.values().sum();
    let good: usize = ["converted", "default"]
        .iter()
        .filter_map(|name| totals.get(name))
        .sum();
    println!(
        "{totals:?} of {all}: {:.1} %",
        good as f64 * 100.0 / all.max(1) as f64
    );
    let mut missed: Vec<_> = missed.into_iter().collect();
    missed.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (name, count) in missed.into_iter().take(25) {
        println!("{count:5} {name}");
    }
}
