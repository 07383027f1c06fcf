//! CPU time and memory of a program under measurement: a process with all its descendants, from
//! /proc.
//!
//! Only reads: the caller subtracts earlier values. Without the process at the top where that is a
//! guard, which is no part of the program.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

/// A process and its descendants, at the time of each call.
///
/// A descendant that has ended and was waited for counts in the time of its parent. Two kinds
/// escape: children of a process that ignores SIGCHLD, which are never waited for
/// ([`control_group`](crate::control_group) has their time), and a daemon that left the tree
/// because its parent ended, unless the process at the top adopts such orphans
/// (PR_SET_CHILD_SUBREAPER).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessTree {
    top: u32,
    counted: TopProcess,
}

/// Whether the process at the top of a tree counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopProcess {
    /// It is the program itself.
    Counted,
    /// It only holds the program's processes together, such as `lockgate guard`.
    Guard,
}

/// CPU time since each process of a tree began.
///
/// The kernel counts both in clock ticks, 10 ms on most machines; their sum comes from the
/// scheduler's own clock, and the split between user and kernel from the mode at each tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuUsage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
}

impl CpuUsage {
    /// User and kernel time together.
    pub fn total(self) -> Duration {
        self.user + self.system
    }

    /// The difference to `earlier`; never below zero.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

impl ProcessTree {
    /// The tree of the process `pid`, which counts.
    pub fn new(pid: u32) -> Self {
        Self::with(pid, TopProcess::Counted)
    }

    /// The tree of the process `pid`.
    pub fn with(pid: u32, counted: TopProcess) -> Self {
        Self { top: pid, counted }
    }

    /// CPU time of all processes of the tree and of descendants that were waited for.
    ///
    /// # Errors
    /// The process at the top has ended, or the kernel has no list of children
    /// (CONFIG_PROC_CHILDREN).
    pub fn cpu(&self) -> io::Result<CpuUsage> {
        let members = self.settled()?;
        let ticks = |mode: usize| {
            let of = |stat: &Stat| {
                let own = if self.counts(stat) { stat.own[mode] } else { 0 };
                own + stat.reaped[mode]
            };
            members.iter().map(of).sum::<u64>()
        };
        let (user, system) = (ticks(0), ticks(1));
        let second = rustix::param::clock_ticks_per_second();
        let time = |ticks: u64| Duration::from_nanos(ticks * (1_000_000_000 / second));
        Ok(CpuUsage {
            user: time(user),
            system: time(system),
        })
    }

    /// The proportional set size of all processes in bytes: a page that several processes share is
    /// divided among them.
    ///
    /// `None`: the process at the top has ended, or one of the processes may not be read.
    pub fn memory(&self) -> Option<u64> {
        let mut sum = 0;
        for member in self
            .members()
            .ok()?
            .iter()
            .filter(|member| self.counts(member))
        {
            match std::fs::read_to_string(format!("/proc/{}/smaps_rollup", member.pid)) {
                Ok(text) => sum += proportional_set_size(&text)?,
                // A process that has ended, or a zombie, has no memory.
                Err(error) if is_gone(&error) => {}
                Err(_) => return None,
            }
        }
        Some(sum)
    }

    /// The descendants, parents before their children.
    ///
    /// # Errors
    /// As [`ProcessTree::cpu`].
    pub fn below(&self) -> io::Result<Vec<u32>> {
        Ok(self
            .members()?
            .iter()
            .skip(1)
            .map(|member| member.pid)
            .collect())
    }

    /// CPUs that any thread of the tree may run on, in ascending order.
    ///
    /// # Errors
    /// As [`ProcessTree::cpu`].
    pub fn allowed_cpus(&self) -> io::Result<Vec<usize>> {
        let mut allowed = BTreeSet::new();
        for member in self.members()?.iter().filter(|member| self.counts(member)) {
            // A process or thread that has ended runs nowhere.
            let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", member.pid)) else {
                continue;
            };
            for thread in threads.flatten() {
                let text = std::fs::read_to_string(thread.path().join("status"));
                allowed.extend(text.iter().flat_map(|text| allowed_list(text)));
            }
        }
        Ok(allowed.into_iter().collect())
    }

    /// Whether a member's own time and memory count.
    fn counts(&self, member: &Stat) -> bool {
        self.counted == TopProcess::Counted || member.pid != self.top
    }

    /// The members, read while none of them began or ended.
    ///
    /// A process that ends between the read of its parent and its own read would be in neither: a
    /// walk is right when the walk before it found the same processes. A tree that forks all the
    /// time never holds still; its last walk must do.
    fn settled(&self) -> io::Result<Vec<Stat>> {
        let mut members = self.members()?;
        for _ in 0..16 {
            let again = self.members()?;
            let same = again
                .iter()
                .map(Stat::identity)
                .eq(members.iter().map(Stat::identity));
            members = again;
            if same {
                break;
            }
        }
        Ok(members)
    }

    /// All processes of the tree, parents before their children.
    fn members(&self) -> io::Result<Vec<Stat>> {
        let mut found = vec![Stat::of(self.top)?];
        let mut at = 0;
        while let Some(parent) = found.get(at) {
            let mut children = children(parent.pid)?;
            children.sort_unstable();
            for child in children {
                match Stat::of(child) {
                    Ok(stat) => found.push(stat),
                    Err(error) if is_gone(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            at += 1;
        }
        Ok(found)
    }
}

/// Fields of /proc/PID/stat that are used here.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stat {
    pid: u32,
    /// User and system time in ticks, its own.
    own: [u64; 2],
    /// The same of children that were waited for, with their descendants.
    reaped: [u64; 2],
    /// Start time in ticks since boot: tells a process from a later one with the same ID.
    began: u64,
}

impl Stat {
    fn of(pid: u32) -> io::Result<Self> {
        let text = std::fs::read(format!("/proc/{pid}/stat"))?;
        let text = String::from_utf8_lossy(&text);
        Self::parse(pid, &text)
            .ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat has another form")))
    }

    /// proc_pid_stat(5). The name may have blanks and parentheses; nothing after it has.
    fn parse(pid: u32, text: &str) -> Option<Self> {
        let fields: Vec<&str> = text
            .get(text.rfind(')')? + 1..)?
            .split_whitespace()
            .collect();
        // The first one after the name is field 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            pid,
            own: [field(14)?, field(15)?],
            reaped: [field(16)?, field(17)?],
            began: field(22)?,
        })
    }

    fn identity(&self) -> (u32, u64) {
        (self.pid, self.began)
    }
}

/// The children that any thread of `pid` has; none where it is gone.
fn children(pid: u32) -> io::Result<Vec<u32>> {
    let threads = match std::fs::read_dir(format!("/proc/{pid}/task")) {
        Ok(threads) => threads,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for thread in threads {
        let Ok(thread) = thread else { continue };
        match std::fs::read_to_string(thread.path().join("children")) {
            Ok(text) => found.extend(
                text.split_whitespace()
                    .filter_map(|word| word.parse::<u32>().ok()),
            ),
            Err(error) if is_gone(&error) && thread.path().join("stat").exists() => {
                let text =
                    "this kernel does not list the children of a process (CONFIG_PROC_CHILDREN)";
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Whether a process ended before or while it was read.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// CPUs of the line `Cpus_allowed_list:` (proc_pid_status(5)), such as `0-1,3`.
fn allowed_list(status: &str) -> Vec<usize> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let mut cpus = Vec::new();
    for part in line.unwrap_or_default().trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse()) {
            cpus.extend(first..=last);
        }
    }
    cpus
}

/// The line `Pss:` in bytes; 0 for a process that has no memory any more.
fn proportional_set_size(text: &str) -> Option<u64> {
    let Some(line) = text.lines().find_map(|line| line.strip_prefix("Pss:")) else {
        return Some(0);
    };
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};

    /// A shell that runs commands line by line. All its processes end with it.
    struct Shell {
        child: Child,
        said: BufReader<std::process::ChildStdout>,
    }

    impl Shell {
        fn start() -> Self {
            let mut shell = Command::new("sh");
            shell
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .process_group(0);
            let mut child = shell.spawn().unwrap();
            let said = BufReader::new(child.stdout.take().unwrap());
            Self { child, said }
        }

        fn tell(&mut self, what: &str) {
            writeln!(self.child.stdin.as_ref().unwrap(), "{what}").unwrap();
        }

        /// The next line of its output, or of a child's.
        fn line(&mut self) -> String {
            let mut line = String::new();
            assert!(
                self.said.read_line(&mut line).unwrap() > 0,
                "the shell has ended"
            );
            line.trim().to_owned()
        }

        fn tree(&self) -> ProcessTree {
            ProcessTree::new(self.child.id())
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            let group = rustix::process::Pid::from_child(&self.child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            let _ = self.child.wait();
        }
    }

    /// Takes CPU time, some 0.1 s of it.
    const BUSY: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";

    #[test]
    fn a_stat_is_read_behind_a_name_with_blanks_and_parentheses() {
        let fields: Vec<String> = (4..=52).map(|number| number.to_string()).collect();
        let text = format!("7 (a) (b c) S {}\n", fields.join(" "));
        let stat = Stat::parse(7, &text).unwrap();
        assert_eq!(
            (stat.own, stat.reaped, stat.began),
            ([14, 15], [16, 17], 22)
        );
        assert_eq!(Stat::parse(7, "7 (a) S 1 2"), None);
        assert_eq!(Stat::parse(7, "7 a S"), None);
    }

    #[test]
    fn a_guard_at_the_top_does_not_count_and_its_children_do() {
        let mut shell = Shell::start();
        let guarded = ProcessTree::with(shell.child.id(), TopProcess::Guard);
        let before = (shell.tree().cpu().unwrap(), guarded.cpu().unwrap());
        shell.tell(&format!("{BUSY}; echo worked"));
        assert_eq!(shell.line(), "worked");
        assert!(shell.tree().cpu().unwrap().since(before.0).total() > Duration::ZERO);
        assert_eq!(guarded.cpu().unwrap(), before.1);
        assert_eq!(guarded.memory(), Some(0));
        shell.tell(&format!("({BUSY}); sh -c 'echo $$; kill -STOP $$' &"));
        shell.line();
        assert!(guarded.cpu().unwrap().since(before.1).total() > Duration::ZERO);
        assert!(guarded.memory().unwrap() > 0);
    }

    #[test]
    fn a_process_named_like_a_guard_counts() {
        let mut shell = Shell::start();
        let guarded = ProcessTree::with(shell.child.id(), TopProcess::Guard);
        let name = "echo lockgate-guard >/proc/$$/comm";
        shell.tell(&format!(
            "sh -c '{name}; {BUSY}; cat /proc/$$/comm; kill -STOP $$' &"
        ));
        assert_eq!(shell.line(), "lockgate-guard");
        assert!(guarded.cpu().unwrap().total() > Duration::ZERO);
        assert!(guarded.memory().unwrap() > 0);
    }

    #[test]
    fn allowed_cpus_are_those_of_all_threads() {
        let list = "Name:\tx\nCpus_allowed:\tb\nCpus_allowed_list:\t0-1,3\nMems_allowed:\t1\n";
        assert_eq!(allowed_list(list), [0, 1, 3]);
        assert_eq!(allowed_list("Name:\tx\n"), [] as [usize; 0]);
        let mut shell = Shell::start();
        let first = shell.tree().allowed_cpus().unwrap()[0];
        shell.tell(&format!(
            "taskset -p -c {first} $$ >/dev/null; taskset -c {first} sh -c 'echo $$; kill -STOP $$' &"
        ));
        shell.line();
        assert_eq!(shell.tree().allowed_cpus().unwrap(), [first]);
    }

    #[test]
    fn pss_is_in_bytes_and_a_process_without_memory_has_none() {
        assert_eq!(
            proportional_set_size(
                "55f-7ff ---p [rollup]\nRss:  9 kB\nPss:   12 kB\nPss_Anon: 3 kB\n"
            ),
            Some(12288)
        );
        assert_eq!(proportional_set_size(""), Some(0));
        assert_eq!(proportional_set_size("Pss: many kB\n"), None);
    }

    #[test]
    fn children_count_while_they_live_and_once_they_were_waited_for() {
        let mut shell = Shell::start();
        let before = shell.tree().cpu().unwrap();
        shell.tell(&format!(
            "({BUSY}; echo worked; exec sh -c 'kill -STOP $$') &"
        ));
        shell.tell("child=$!");
        assert_eq!(shell.line(), "worked");
        let alive = shell.tree().cpu().unwrap().since(before);
        assert!(alive.total() > Duration::ZERO, "{alive:?}");
        shell.tell("kill -KILL $child; wait $child 2>&-; echo waited");
        assert_eq!(shell.line(), "waited");
        let waited = shell.tree().cpu().unwrap().since(before);
        assert!(waited.total() >= alive.total(), "{alive:?} {waited:?}");
        assert!(
            waited.total() < alive.total() * 2,
            "counted twice: {alive:?} {waited:?}"
        );
    }

    #[test]
    fn children_of_children_are_members() {
        let mut shell = Shell::start();
        shell.tell(r#"sh -c 'sh -c "echo grown; kill -STOP \$\$"; :' &"#);
        assert_eq!(shell.line(), "grown");
        let members = shell.tree().members().unwrap();
        assert_eq!(members.len(), 3, "{members:?}");
    }

    #[test]
    fn time_never_runs_backwards_in_a_tree_that_forks_and_waits_all_the_time() {
        let mut shell = Shell::start();
        let tree = shell.tree();
        shell.tell("n=0; while :; do (i=0; while [ $i -lt 500 ]; do i=$((i+1)); done); done");
        let mut last = CpuUsage::default();
        for _ in 0..2000 {
            let now = tree.cpu().unwrap();
            // A child's own ticks are cut off, its part of its parent's are not.
            assert!(
                now.total() + Duration::from_millis(20) >= last.total(),
                "{last:?} {now:?}"
            );
            last = now;
        }
    }

    #[test]
    fn memory_is_that_of_all() {
        let mut shell = Shell::start();
        shell.tell("sh -c 'echo $$; kill -STOP $$' &");
        let child: u32 = shell.line().parse().unwrap();
        let part = ProcessTree::new(child).memory().unwrap();
        assert!(part > 0);
        assert!(shell.tree().memory().unwrap() > part);
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let tree = ProcessTree::new(child.id());
        assert!(tree.cpu().is_err());
        assert_eq!(tree.memory(), None);
    }
}
