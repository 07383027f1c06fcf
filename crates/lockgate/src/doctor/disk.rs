//! The folders of logs and of the state: free space and files, and whether they can be written.
//!
//! Writes nothing: the kernel is asked.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockgate_config::{AccessLog, Config, LogTarget};
use rustix::fs::{StatVfsMountFlags, statvfs};

use super::finding::{Finding, Group};
use crate::admin_client::units::bytes_of;
use crate::folders::{parent, writable};
use crate::log_writer::numbered;

/// Free space below which a disk fills soon: 1 GB, or a twentieth of a smaller disk.
const SCARCE: u64 = 1_000_000_000;
/// Free space below which a log or a certificate cannot be kept.
const FULL: u64 = 10_000_000;
/// Days until a disk is full from which a log is to be rotated.
const FULL_SOON: u64 = 14;
/// The least age of a log by which its growth is judged: the load of a whole day.
const JUDGED: Duration = Duration::from_secs(DAY);
/// Seconds of a day.
const DAY: u64 = 24 * 60 * 60;
/// The share of free files below which they run out soon.
const SCARCE_FILES: u64 = 20;

/// A folder that Lockgate writes to.
#[derive(Debug)]
pub(super) struct FolderFacts {
    pub(super) path: PathBuf,
    /// What is kept there.
    pub(super) contents: Vec<&'static str>,
    pub(super) space: io::Result<SpaceFacts>,
    /// `None` where there is no folder: a start makes that of the state, and the examination has found
    /// that it can.
    pub(super) writable: Option<io::Result<()>>,
    /// The bytes that rotated logs may still come to take.
    pub(super) growth: u64,
    /// The bytes a day by which logs without rotation have grown so far.
    pub(super) daily: u64,
}

/// The space of the file system of a folder.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpaceFacts {
    /// Bytes for users other than root.
    pub(super) free: u64,
    pub(super) size: u64,
    /// Files that can be made; `None` where the file system has no limit.
    pub(super) free_files: Option<u64>,
    pub(super) files: u64,
    pub(super) is_read_only: bool,
}

/// Looks at every folder of a configuration.
pub(super) fn facts(config: &Config) -> Vec<FolderFacts> {
    let mut folders: BTreeMap<PathBuf, KeptThere> = BTreeMap::new();
    let logs = config.access_log.iter();
    let logs = logs.chain(config.site_logs.iter().map(|(log, _)| log));
    for log in logs {
        if let LogTarget::File(path) = &log.to {
            let folder = folders.entry(parent(path).to_owned()).or_default();
            if !folder.contents.contains(&"access log") {
                folder.contents.push("access log");
            }
            folder.growth = folder.growth.saturating_add(growth_of(log, path));
            if log.rotate.is_none() {
                folder.daily = folder.daily.saturating_add(daily(path));
            }
        }
    }
    if let Some(state) = &config.state {
        let folder = folders.entry(state.clone()).or_default();
        folder.contents.push("state");
    }
    let facts = folders.into_iter().map(|(path, kept)| {
        let there = existing(&path);
        FolderFacts {
            space: space(there),
            writable: path.is_dir().then(|| writable(&path)),
            path,
            contents: kept.contents,
            growth: kept.growth,
            daily: kept.daily,
        }
    });
    facts.collect()
}

/// What a configuration keeps in a folder.
#[derive(Debug, Default)]
struct KeptThere {
    contents: Vec<&'static str>,
    growth: u64,
    daily: u64,
}

/// The bytes a day by which a log has grown since its file was made, as far as the file system knows
/// when that was; 0 for one that another program rotates.
fn daily(path: &Path) -> u64 {
    let Ok(found) = std::fs::metadata(path) else {
        return 0;
    };
    if is_rotated(path) {
        return 0;
    }
    let age = found.created().ok().and_then(|made| made.elapsed().ok());
    age.map_or(0, |age| daily_of(found.len(), age))
}

/// Whether older files of a log are beside it, as logrotate(8) names them: LOG.1, LOG.1.gz, LOG-DATE,
/// and with its `extension` access-DATE.log.
fn is_rotated(path: &Path) -> bool {
    let name = |path: Option<&OsStr>| path.and_then(OsStr::to_str).map(str::to_owned);
    let (Some(whole), Some(stem)) = (name(path.file_name()), name(path.file_stem())) else {
        return false;
    };
    let Ok(beside) = std::fs::read_dir(parent(path)) else {
        return false;
    };
    let is_older = |other: &str, of: &str| {
        let rest = other.strip_prefix(of);
        let rest = rest.and_then(|rest| rest.strip_prefix(['.', '-']));
        rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    beside.flatten().any(|entry| {
        let other = entry.file_name();
        let other = other.to_string_lossy();
        other != whole && (is_older(&other, &whole) || is_older(&other, &stem))
    })
}

fn daily_of(bytes: u64, age: Duration) -> u64 {
    match age >= JUDGED {
        true => bytes.saturating_mul(DAY) / age.as_secs(),
        false => 0,
    }
}

/// The folder itself, or the first above it that exists: a start makes the folder of the state.
fn existing(path: &Path) -> &Path {
    path.ancestors()
        .find(|folder| folder.is_dir())
        .unwrap_or(path)
}

/// The bytes that a rotated log may come to take beside those it takes; 0 for one without rotation.
fn growth_of(log: &AccessLog, path: &Path) -> u64 {
    let Some(rotate) = log.rotate else { return 0 };
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
    let old = (1..=rotate.keep).map(|number| length(&numbered(path, number)));
    let taken = length(path).saturating_add(old.sum());
    let most = rotate.size.saturating_mul(u64::from(rotate.keep) + 1);
    most.saturating_sub(taken)
}

fn space(folder: &Path) -> io::Result<SpaceFacts> {
    let found = statvfs(folder)?;
    Ok(SpaceFacts {
        free: found.f_bavail.saturating_mul(found.f_frsize),
        size: found.f_blocks.saturating_mul(found.f_frsize),
        free_files: (found.f_files > 0).then_some(found.f_favail),
        files: found.f_files,
        is_read_only: found.f_flag.contains(StatVfsMountFlags::RDONLY),
    })
}

/// The findings; `unexamined` is the user of the start, where this process could not become it.
pub(super) fn findings(folders: &[FolderFacts], unexamined: Option<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in folders {
        findings.extend(space_of(folder));
        findings.push(access_of(folder, unexamined));
    }
    findings
}

fn named(folder: &FolderFacts) -> String {
    format!("{} ({})", folder.path.display(), folder.contents.join(", "))
}

fn access_of(folder: &FolderFacts, unexamined: Option<&str>) -> Finding {
    let (group, what) = (Group::Disk, named(folder));
    match (&folder.writable, unexamined) {
        (_, Some(user)) => group.note(
            what,
            format!("whether {user} can write there was not tried"),
            "run doctor as root, as the service starts",
        ),
        (Some(Ok(())), None) => group.ok(what, "can be written"),
        (None, None) => group.ok(what, "not there yet: a start makes it"),
        (Some(Err(error)), None) => group.problem(
            what,
            format!("cannot be written: {error}"),
            "chown it to the user that Lockgate runs as",
        ),
    }
}

fn space_of(folder: &FolderFacts) -> Vec<Finding> {
    let (group, what) = (Group::Disk, named(folder));
    let space = match &folder.space {
        Ok(space) => space,
        Err(error) => {
            return vec![group.problem(
                what,
                format!("no file system: {error}"),
                "make the folder",
            )];
        }
    };
    let mut findings = Vec::new();
    if space.is_read_only {
        let found = "the file system is mounted for reading only";
        findings.push(group.problem(&what, found, "mount it for writing, or name another folder"));
    }
    let mut found = format!("{} of {} free", bytes_of(space.free), bytes_of(space.size));
    let days = space.free.checked_div(folder.daily);
    if let Some(days) = days {
        let daily = bytes_of(folder.daily);
        found += &format!("; logs without `rotate` grow by {daily} a day: full in {days} days");
    }
    let cure = "make room, or name a folder on another disk";
    findings.push(if space.free < FULL {
        group.problem(&what, found, cure)
    } else if space.free < folder.growth {
        let found = format!(
            "{found}; `rotate` lets logs take {} more",
            bytes_of(folder.growth)
        );
        group.warning(
            &what,
            found,
            "make room, or lower `size` or `keep` of `rotate`",
        )
    } else if days.is_some_and(|days| days < FULL_SOON) {
        group.warning(
            &what,
            found,
            "write `rotate` into the access log, or rotate it by logrotate",
        )
    } else if space.free < SCARCE.min(space.size / 20) {
        group.warning(&what, found, cure)
    } else {
        group.ok(&what, found)
    });
    if let Some(free) = space.free_files
        && free < space.files / SCARCE_FILES
    {
        let found = format!("{free} of {} files (inodes) free", space.files);
        findings.push(match free {
            0 => group.problem(
                &what,
                found,
                "remove files, or name a folder on another disk",
            ),
            _ => group.warning(
                &what,
                found,
                "remove files, or name a folder on another disk",
            ),
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn folder(space: SpaceFacts, growth: u64) -> FolderFacts {
        FolderFacts {
            path: "/var/log/lockgate".into(),
            contents: vec!["access log"],
            space: Ok(space),
            writable: Some(Ok(())),
            growth,
            daily: 0,
        }
    }

    fn free(free: u64) -> SpaceFacts {
        SpaceFacts {
            free,
            size: 100 * GB,
            free_files: Some(1_000),
            files: 2_000,
            is_read_only: false,
        }
    }

    fn levels(space: SpaceFacts, growth: u64) -> Vec<Level> {
        let found = space_of(&folder(space, growth));
        found.iter().map(|one| one.level).collect()
    }

    #[test]
    fn a_disk_that_fills_is_told_before_it_is_full() {
        assert_eq!(levels(free(50 * GB), 0), [Level::Ok]);
        assert_eq!(levels(free(50 * GB), 60 * GB), [Level::Warning]);
        assert_eq!(levels(free(GB / 2), 0), [Level::Warning]);
        assert_eq!(levels(free(1_000), 0), [Level::Problem]);
        // A small file system is not scarce for being small.
        let small = SpaceFacts {
            size: GB,
            ..free(GB / 2)
        };
        assert_eq!(levels(small, 0), [Level::Ok]);
    }

    #[test]
    fn a_log_without_rotation_is_judged_by_its_growth() {
        let hours = |hours: u64| Duration::from_secs(hours * 3_600);
        assert_eq!(daily_of(GB, hours(48)), GB / 2);
        assert_eq!(daily_of(GB, hours(23)), 0, "too young");
        let mut one = folder(free(50 * GB), 0);
        one.daily = GB;
        let found = space_of(&one);
        assert_eq!(found[0].level, Level::Ok);
        assert!(found[0].found.ends_with("full in 50 days"), "{found:?}");
        one.daily = 10 * GB;
        assert_eq!(space_of(&one)[0].level, Level::Warning);
    }

    #[test]
    fn a_log_with_older_files_beside_it_is_rotated() {
        for (other, is_so) in [
            ("access.log.1", true),
            ("access.log.2.gz", true),
            ("access.log-20260701", true),
            ("access-20260701.log", true),
            ("access.log.swp", false),
            ("access-api.log", false),
            ("error.log.1", false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("access.log");
            std::fs::write(&path, "").unwrap();
            std::fs::write(folder.path().join(other), "").unwrap();
            assert_eq!(is_rotated(&path), is_so, "{other}");
        }
    }

    #[test]
    fn files_and_mounts_are_judged_as_space_is() {
        let files = |free_files| SpaceFacts {
            free_files,
            ..free(50 * GB)
        };
        assert_eq!(levels(files(Some(50)), 0), [Level::Ok, Level::Warning]);
        assert_eq!(levels(files(Some(0)), 0), [Level::Ok, Level::Problem]);
        assert_eq!(levels(files(None), 0), [Level::Ok]);
        let read_only = SpaceFacts {
            is_read_only: true,
            ..free(50 * GB)
        };
        assert_eq!(levels(read_only, 0), [Level::Problem, Level::Ok]);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_a_problem() {
        let mut one = folder(free(50 * GB), 0);
        assert_eq!(access_of(&one, None).level, Level::Ok);
        assert_eq!(access_of(&one, Some("www")).level, Level::Note);
        one.writable = Some(Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(access_of(&one, None).level, Level::Problem);
        one.writable = None;
        assert_eq!(access_of(&one, None).level, Level::Ok);
    }

    #[test]
    fn a_rotated_log_may_grow_by_what_it_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let log = AccessLog {
            to: LogTarget::File(path.clone()),
            format: lockgate_config::AccessFormat::Json,
            sample: 100,
            mask_ip: false,
            rotate: Some(lockgate_config::Rotate { size: 100, keep: 2 }),
        };
        assert_eq!(growth_of(&log, &path), 300);
        std::fs::write(&path, [0; 40]).unwrap();
        std::fs::write(folder.path().join("access.log.1"), [0; 100]).unwrap();
        assert_eq!(growth_of(&log, &path), 160);
        let plain = AccessLog {
            rotate: None,
            ..log
        };
        assert_eq!(growth_of(&plain, &path), 0);
    }
}
