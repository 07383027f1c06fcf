//! What is converted of many files: `cargo run -p lockgate-import --example corpus -- nginx FILE…`
//! reads each file (of Traefik: each folder) on its own, and prints its verdicts and the most
//! frequent losses of all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lockgate_import::{Format, SourceFiles, Verdict, import};

/// The disk, but for what this machine has in its own folders: that is no part of a source.
struct Disk;

impl SourceFiles for Disk {
    fn read(&self, path: &Path) -> Result<String, String> {
        if path.starts_with("/etc") || path.starts_with("/usr") {
            return Err("no such file".to_owned());
        }
        let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn matching(&self, pattern: &Path) -> Vec<PathBuf> {
        lockgate_config::Environment::process().glob(pattern)
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let format = match arguments.next().as_deref() {
        Some("nginx") => Format::Nginx,
        Some("haproxy") => Format::Haproxy,
        Some("caddy") => Format::Caddy,
        Some("traefik") => Format::Traefik,
        Some("hitch") => Format::Hitch,
        _ => panic!("name a server: nginx, haproxy, caddy, traefik or hitch"),
    };
    let mut totals: BTreeMap<&str, usize> = BTreeMap::new();
    let mut losses: BTreeMap<String, usize> = BTreeMap::new();
    for source in arguments.map(PathBuf::from) {
        let shown = source.display();
        let imported = match import(format, &files_of(&source), &Disk) {
            Ok(imported) => imported,
            Err(error) => {
                println!("{shown}: {error}");
                continue;
            }
        };
        if let Err(report) = lockgate_config::parse_str(&imported.draft.to_string(), &source) {
            println!("{shown}: the new file has mistakes: {report}");
        }
        println!("{shown}: {:?}", imported.report.counts());
        for (verdict, count) in imported.report.counts() {
            *totals.entry(verdict).or_default() += count;
        }
        for line in imported.report.lines() {
            let first = line.text.split(' ').next().unwrap_or_default();
            let lost = match line.verdict {
                Verdict::Differs { .. } => "differs",
                Verdict::NotSupported { .. } => "not supported",
                Verdict::Converted | Verdict::Default => continue,
            };
            *losses.entry(format!("{lost} {first}")).or_default() += 1;
        }
    }
    let all: usize = totals.values().sum();
    let kept = ["converted", "default"].map(|verdict| totals.get(verdict).copied().unwrap_or(0));
    let share = kept.iter().sum::<usize>() as f64 * 100.0 / all.max(1) as f64;
    println!("{totals:?} of {all}: {share:.1} %");
    let mut losses: Vec<_> = losses.into_iter().collect();
    losses.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (loss, count) in losses.into_iter().take(25) {
        println!("{count:5} {loss}");
    }
}

/// The files of one configuration: the file, or all in a folder.
fn files_of(source: &Path) -> Vec<PathBuf> {
    match std::fs::read_dir(source) {
        Ok(entries) => {
            let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            files.sort();
            files
        }
        Err(_) => vec![source.to_owned()],
    }
}
