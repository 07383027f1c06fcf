//! Imports configurations of Traefik or hitch: `cargo run -p lockgate-import --example traefik -- FILE…`
//! for one of several files, or folders, of which each holds one. Prints the files and the totals.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lockgate_import::{Format, ReportLine, SourceFiles, Verdict, import};

struct Disk;

impl SourceFiles for Disk {
    fn read(&self, path: &Path) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }

    fn matching(&self, _: &Path) -> Vec<PathBuf> {
        Vec::new()
    }
}

fn main() {
    let quiet = std::env::var("QUIET").is_ok();
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let mut groups = Vec::new();
    for folder in args.iter().filter(|path| path.is_dir()) {
        let files = std::fs::read_dir(folder).into_iter().flatten();
        let mut files: Vec<_> = files.flatten().map(|file| file.path()).collect();
        files.sort();
        groups.push(files);
    }
    let files: Vec<_> = args.into_iter().filter(|path| !path.is_dir()).collect();
    if !files.is_empty() {
        groups.push(files);
    }
    let mut totals: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unsupported: BTreeMap<String, usize> = BTreeMap::new();
    for files in groups {
        let hitch = files
            .iter()
            .any(|file| file.to_string_lossy().ends_with("hitch.conf"));
        let format = if hitch {
            Format::Hitch
        } else {
            Format::Traefik
        };
        println!("=== {files:?}");
        let imported = match import(format, &files, &Disk) {
            Ok(imported) => imported,
            Err(error) => {
                println!("!!! {error}");
                *totals.entry("files not read").or_default() += 1;
                continue;
            }
        };
        if !quiet {
            println!("{}", imported.draft);
        }
        valid(imported.draft.clone());
        for line in imported.report.lines() {
            count(&line, &mut totals, &mut unsupported, quiet);
        }
    }
    let all: usize = totals
        .iter()
        .filter(|(name, _)| **name != "files not read")
        .map(|(_, count)| count)
        .sum();
    let good = totals.get("converted").unwrap_or(&0) + totals.get("default").unwrap_or(&0);
    println!("=== {all} statements: {totals:?}");
    if let Some(share) = (good * 1000).checked_div(all) {
        println!("=== converted or default: {}.{} %", share / 10, share % 10);
    }
    let mut unsupported: Vec<_> = unsupported.into_iter().collect();
    unsupported.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (name, count) in unsupported.iter().take(40) {
        println!("{count:5} {name}");
    }
}

/// Says whether a draft is a valid configuration.
fn valid(mut draft: lockgate_import::Draft) {
    draft.top.take_list("test");
    let text = draft.to_string();
    if text.is_empty() || !(text.contains("[site") || text.contains("[tcp")) {
        println!("--- nothing to serve");
        return;
    }
    let mut env = lockgate_config::Environment::none();
    for part in text.split("${env:").skip(1) {
        let name = part.split('}').next().unwrap_or("");
        env = env.with_var(
            name,
            if name.ends_with("URL") {
                "https://a.example.com"
            } else {
                "eA"
            },
        );
    }
    match lockgate_config::parse_str_in(&text, Path::new("/lockgate.toml"), &env) {
        Ok(_) => println!("--- valid"),
        Err(report) => println!(
            "--- INVALID\n{}",
            report.render(lockgate_config::Color::Never)
        ),
    }
}

fn count(
    line: &ReportLine,
    totals: &mut BTreeMap<&'static str, usize>,
    unsupported: &mut BTreeMap<String, usize>,
    quiet: bool,
) {
    let (name, why) = match &line.verdict {
        Verdict::Converted => ("converted", ""),
        Verdict::Default => ("default", ""),
        Verdict::Differs { because } => ("differs", because.as_str()),
        Verdict::NotSupported { because, .. } => ("not supported", because.as_str()),
    };
    *totals.entry(name).or_default() += 1;
    if !quiet || name == "not supported" || name == "differs" {
        println!("{name:14}{}: {}  {why}", line.place, line.text);
    }
    if name == "not supported" || name == "differs" {
        let text = line.text.split([':', '=']).next().unwrap_or("");
        let key = text.rsplit('.').next().unwrap_or("");
        *unsupported
            .entry(format!("{name} {key}: {why}"))
            .or_default() += 1;
    }
}
