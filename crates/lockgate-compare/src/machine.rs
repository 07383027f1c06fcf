//! The machine of a run, and its load.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use lockgate_http::date::Calendar;

/// Facts about the machine of a run: names and values, in the order in which they are shown.
pub(crate) fn facts(file: &Path) -> Vec<(&'static str, String)> {
    let model = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or_else(
        || "unknown".to_owned(),
        |(_, model)| model.trim().to_owned(),
    );
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let system = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let mut facts = vec![
        ("cpu", model),
        ("cpus", cpus.to_string()),
        (
            "kernel",
            format!(
                "{} {} {}",
                text(system.sysname()),
                text(system.release()),
                text(system.machine())
            ),
        ),
        ("lockgate", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    facts.extend(commit(file).map(|commit| ("commit of the file", commit)));
    facts.push(("began", utc(SystemTime::now())));
    facts.push(("command", std::env::args().collect::<Vec<_>>().join(" ")));
    facts
}

/// The commit of the file's repository, and whether there are changes.
fn commit(file: &Path) -> Option<String> {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."));
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C")
            .arg(folder)
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        let output = git.output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])
        .is_some_and(|status| !status.is_empty());
    Some(if changed {
        format!("{commit} and changes")
    } else {
        commit
    })
}

/// The time as `2026-01-31 23:59 UTC`.
fn utc(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    let Calendar {
        year,
        month,
        day,
        hour,
        minute,
        ..
    } = Calendar::of_unix(since.unwrap_or_default().as_secs());
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// Processes that ran or waited for a CPU, over the last minute.
pub(crate) fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .next()
        .unwrap_or("unknown")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn utc_has_date_and_time_to_the_minute() {
        let at = |seconds| utc(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01 00:00 UTC");
        assert_eq!(at(951_782_399), "2000-02-28 23:59 UTC");
        assert_eq!(at(1_709_251_199), "2024-02-29 23:59 UTC");
    }
}
