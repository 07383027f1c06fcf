//! CPU time of a control group (cgroup v2) that holds one program and nothing else.
//!
//! Where a parent ignores SIGCHLD, /proc loses the time of its children when they end. A group
//! keeps the time of every process that was ever in it. A guard makes the group of its program and
//! removes it ([`ControlGroup::make`]); others only read it ([`ControlGroup::of_guard`]).

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process_tree::CpuUsage;

/// A control group below the one of the process that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroup {
    folder: PathBuf,
}

impl ControlGroup {
    /// Makes the group of the program that this process, its guard, is about to start; and puts
    /// this process into it, so that a child begins within.
    ///
    /// # Errors
    /// There is no cgroup v2, or this account may not make groups.
    pub fn make() -> io::Result<Self> {
        let own = std::process::id();
        let group = Self {
            folder: folder_of_guard(own).ok_or(io::ErrorKind::NotFound)?,
        };
        std::fs::create_dir(&group.folder)?;
        let entered = cpu_stat(&group.folder)
            .and_then(|_| add(&group.folder, own))
            .inspect_err(|_| group.remove());
        entered.map(|()| group)
    }

    /// Takes this process out again, back to where it was. Its child stays.
    ///
    /// # Errors
    /// The kernel refuses it; then this process counts for the group.
    pub fn leave(&self) -> io::Result<()> {
        let parent = self.folder.parent().ok_or(io::ErrorKind::NotFound)?;
        add(parent, std::process::id())
    }

    /// The group that the guard with this process ID has made for its program.
    pub fn of_guard(pid: u32) -> Option<Self> {
        let folder = folder_of_guard(pid)?;
        cpu_stat(&folder).is_ok().then_some(Self { folder })
    }

    /// CPU time of all processes that were ever in the group.
    ///
    /// # Errors
    /// The group is gone.
    pub fn cpu(&self) -> io::Result<CpuUsage> {
        cpu_stat(&self.folder)
    }

    /// The group's directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes the group, if no process is left in it.
    pub fn remove(&self) {
        // With a process inside the kernel refuses it: an empty group less is all that is lost.
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// The directory of the group that the guard with this process ID makes: below its own group.
/// `None` without cgroup v2.
pub fn folder_of_guard(pid: u32) -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let own = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    Some(group_folder(&mounts, &own)?.join(format!("lockgate-guard-{pid}")))
}

/// The folder of a process's group: its line `0::PATH` (cgroups(7)) below the mount of cgroup2
/// (proc_pid_mountinfo(5)), which may show a part of the tree only.
fn group_folder(mounts: &str, own: &str) -> Option<PathBuf> {
    let path = Path::new(own.lines().find_map(|line| line.strip_prefix("0::"))?);
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, folder) = (fields.next()?, fields.next()?);
        let below = path.strip_prefix(root).ok()?;
        (after.split(' ').next() == Some("cgroup2")).then(|| Path::new(folder).join(below))
    })
}

fn add(folder: &Path, pid: u32) -> io::Result<()> {
    std::fs::write(folder.join("cgroup.procs"), pid.to_string())
}

fn cpu_stat(folder: &Path) -> io::Result<CpuUsage> {
    let text = std::fs::read_to_string(folder.join("cpu.stat"))?;
    parse(&text).ok_or_else(|| io::Error::other("cpu.stat has another form"))
}

fn parse(text: &str) -> Option<CpuUsage> {
    let time = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = lines.find(|(key, _)| *key == name)?;
        value.parse().ok().map(Duration::from_micros)
    };
    Some(CpuUsage {
        user: time("user_usec")?,
        system: time("system_usec")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_stat_is_read_in_microseconds() {
        let text = "usage_usec 3500\nuser_usec 1500\nsystem_usec 2000\nnr_periods 0\n";
        let expected = CpuUsage {
            user: Duration::from_micros(1500),
            system: Duration::from_micros(2000),
        };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(parse("usage_usec 3500\n"), None);
    }

    #[test]
    fn a_cgroup_is_found_below_its_mount() {
        let mounts = "24 1 0:21 / /proc rw - proc proc rw\n\
            30 1 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
            42 30 0:39 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        let folder = |mounts: &str, own| group_folder(mounts, own);
        assert_eq!(
            folder(mounts, "4:memory:/a\n0::/b/c\n"),
            Some("/sys/fs/cgroup/unified/b/c".into())
        );
        assert_eq!(
            folder(mounts, "0::/\n"),
            Some("/sys/fs/cgroup/unified/".into())
        );
        assert_eq!(folder(mounts, "4:memory:/a\n"), None);
        assert_eq!(folder("", "0::/b\n"), None);
        // A container that sees a part of the tree.
        let part = "42 30 0:39 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(
            folder(part, "0::/docker/x/y\n"),
            Some("/sys/fs/cgroup/y".into())
        );
        assert_eq!(folder(part, "0::/other\n"), None);
    }
}
