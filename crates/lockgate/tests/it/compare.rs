//! `lockgate compare`: programs side by side, and that nothing of them is left.

mod cleanup;
mod fairness;
mod guard;
mod measurements;

use std::os::fd::OwnedFd;
use std::time::Duration;

use lockgate_compare::cpus::Cpus;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The first CPU that is ours: some machines keep tests from the one with the number 0.
fn cpu() -> String {
    let is_ours = |cpu: &String| cpu.parse::<Cpus>().unwrap().missing().is_empty();
    (0..1024).map(|cpu| cpu.to_string()).find(is_ours).unwrap()
}

/// A process that the test checks for life.
struct Witness {
    pid: Pid,
    descriptor: OwnedFd,
}

impl Witness {
    /// The process with this number, which is alive.
    fn of(pid: &str) -> Self {
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        Self {
            pid,
            descriptor: pidfd_open(pid, PidfdFlags::empty()).unwrap(),
        }
    }

    /// Waits until it has ended.
    fn assert_ends(&self) {
        let mut waits = [PollFd::new(&self.descriptor, PollFlags::IN)];
        let limit = Timespec::try_from(Duration::from_secs(20)).unwrap();
        assert_eq!(
            poll(&mut waits, Some(&limit)).unwrap(),
            1,
            "{:?} is still there",
            self.pid
        );
    }

    fn is_alive(&self) -> bool {
        let mut waits = [PollFd::new(&self.descriptor, PollFlags::IN)];
        poll(&mut waits, Some(&Timespec::default())).unwrap() == 0
    }
}
