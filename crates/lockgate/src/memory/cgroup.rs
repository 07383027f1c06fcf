//! The cgroup of the process: its memory limit, and the kernel's memory in it.

use std::path::{Path, PathBuf};

use super::read;

/// Where cgroups are mounted, on every distribution.
const MOUNTED: &str = "/sys/fs/cgroup";

/// A cgroup, by its directory, in the version that has the memory controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cgroup {
    /// No cgroup, or none that this process can see.
    None,
    V1 {
        /// The mount point of the controller.
        mount: PathBuf,
        path: PathBuf,
    },
    V2 {
        /// The mount point of the tree.
        mount: PathBuf,
        path: PathBuf,
    },
}

impl Cgroup {
    /// The cgroup of this process.
    pub(super) fn own() -> Self {
        Self::of(&read("/proc/self/cgroup"), Path::new(MOUNTED))
    }

    /// The cgroup by the text of /proc/PID/cgroup and the mount point of cgroups.
    fn of(cgroups: &str, mounted: &Path) -> Self {
        let mut unified = None;
        for line in cgroups.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
                continue;
            };
            let path = PathBuf::from(path.trim_start_matches('/'));
            if controllers
                .split(',')
                .any(|controller| controller == "memory")
            {
                return Self::V1 {
                    mount: mounted.join("memory"),
                    path,
                };
            }
            if controllers.is_empty() {
                unified = Some(path);
            }
        }
        match unified {
            Some(path) => Self::V2 {
                mount: mounted.to_owned(),
                path,
            },
            None => Self::None,
        }
    }

    /// The least limit of the cgroup and its ancestors, and the file that sets it. Past memory.high
    /// nothing is killed, but the kernel slows down allocations until next to nothing moves: that
    /// is a limit too.
    pub(super) fn limit(&self) -> Option<(u64, PathBuf)> {
        let (mount, path, names): (_, _, &[&str]) = match self {
            Self::None => return None,
            Self::V1 { mount, path } => (mount, path, &["memory.limit_in_bytes"]),
            Self::V2 { mount, path } => (mount, path, &["memory.max", "memory.high"]),
        };
        // In a container the path may be one of the host, while what is mounted is its own cgroup:
        // that is the last of these, the mount itself.
        let cgroups = path.ancestors().map(|path| mount.join(path));
        let files = cgroups.flat_map(|cgroup| names.iter().map(move |name| cgroup.join(name)));
        files
            .filter_map(|file| Some((number(&read(&file))?, file)))
            .min_by_key(|(limit, _)| *limit)
    }

    /// The kernel's bytes that count against the limit and cannot be reclaimed: neither pages of
    /// files nor cached names of files. Version 1 does not tell these apart.
    pub(super) fn kernel(&self) -> Option<u64> {
        match self {
            Self::None | Self::V1 { .. } => None,
            Self::V2 { mount, path } => {
                Some(kernel_of(&read(existing(mount, path).join("memory.stat"))))
            }
        }
    }
}

/// The cgroup where it can be seen, else the mount point.
fn existing(mount: &Path, path: &Path) -> PathBuf {
    let own = mount.join(path);
    if own.is_dir() { own } else { mount.to_owned() }
}

/// The number in a file; "max" is none.
fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The kernel's bytes, by memory.stat of version 2.
fn kernel_of(stat: &str) -> u64 {
    let is_kernel = |name: &str| {
        matches!(
            name,
            "sock" | "slab_unreclaimable" | "kernel_stack" | "pagetables" | "percpu"
        )
    };
    let bytes = stat.lines().filter_map(|line| {
        let (name, bytes) = line.split_once(' ')?;
        if is_kernel(name) { number(bytes) } else { None }
    });
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Files below a directory of its own.
    fn files(named: &str, files: &[(&str, &str)]) -> PathBuf {
        let root =
            std::env::temp_dir().join(format!("lockgate-cgroup-{}-{named}", std::process::id()));
        for (path, text) in files {
            let file = root.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        root
    }

    #[test]
    fn the_least_memory_max_of_nested_cgroups_holds() {
        let root = files(
            "nested",
            &[
                ("web.slice/memory.max", "500000000\n"),
                ("web.slice/a.service/memory.max", "max\n"),
                ("memory.max", "900000000\n"),
            ],
        );
        let cgroup = Cgroup::of("0::/web.slice/a.service\n", &root);
        assert_eq!(
            cgroup.limit(),
            Some((500_000_000, root.join("web.slice/memory.max")))
        );
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn memory_high_is_a_limit_where_it_is_less_than_memory_max() {
        let root = files(
            "high",
            &[
                ("web.slice/memory.high", "300000000\n"),
                ("web.slice/memory.max", "500000000\n"),
                ("web.slice/a.service/memory.high", "max\n"),
                ("web.slice/a.service/memory.max", "400000000\n"),
                ("web.slice/b.service/memory.high", "max\n"),
                ("web.slice/b.service/memory.max", "200000000\n"),
            ],
        );
        let limit = |cgroups: &str| Cgroup::of(cgroups, &root).limit();
        assert_eq!(
            limit("0::/web.slice/a.service\n"),
            Some((300_000_000, root.join("web.slice/memory.high")))
        );
        let own = root.join("web.slice/b.service/memory.max");
        assert_eq!(limit("0::/web.slice/b.service\n"), Some((200_000_000, own)));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn in_a_container_the_mounted_cgroup_is_its_own() {
        let root = files(
            "container",
            &[
                ("memory.max", "64000000\n"),
                ("memory.stat", "anon 9\nsock 7\n"),
            ],
        );
        let cgroup = Cgroup::of("0::/../../system.slice/docker-1.scope\n", &root);
        assert_eq!(cgroup.limit().map(|(limit, _)| limit), Some(64_000_000));
        assert_eq!(cgroup.kernel(), Some(7));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn version_1_has_its_own_names() {
        let own = "memory/docker/1";
        let root = files(
            "v1",
            &[
                (&format!("{own}/memory.limit_in_bytes"), "67108864\n"),
                // What a server of many files has there is mostly dentries and inodes, which go
                // when memory is wanted.
                (&format!("{own}/memory.kmem.usage_in_bytes"), "60000000\n"),
                (&format!("{own}/memory.usage_in_bytes"), "67000000\n"),
                ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ],
        );
        let cgroups = "9:name=systemd:/\n4:cpu,memory:/docker/1\n0::/\n";
        let cgroup = Cgroup::of(cgroups, &root);
        assert_eq!(cgroup.limit().map(|(limit, _)| limit), Some(67_108_864));
        assert_eq!(cgroup.kernel(), None);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn without_a_cgroup_there_is_no_limit() {
        assert_eq!(Cgroup::of("", Path::new("/nowhere")), Cgroup::None);
        assert_eq!(Cgroup::None.limit(), None);
        assert_eq!(Cgroup::of("0::/\n", Path::new("/nowhere")).limit(), None);
    }

    #[test]
    fn kernel_memory_that_can_be_reclaimed_is_not_in_use() {
        let stat = "anon 1000\nfile 2000\nkernel 600\nkernel_stack 10\npagetables 20\npercpu 30\nsock 40\n\
                    inactive_file 1500\nactive_file 500\nslab_reclaimable 450\nslab_unreclaimable 50\nslab 500\n";
        assert_eq!(kernel_of(stat), 150);
    }
}
