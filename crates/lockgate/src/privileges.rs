//! The end of root privileges, once, after sockets are bound and keys are read. The main thread
//! keeps one capability: to bind ports below 1024 with a later configuration.
//!
//! Knows users, groups and capabilities; does not know which steps need root, and neither binds nor
//! reads anything. Other threads give the capability up: see `lockgate_net::threads`.

use anyhow::{Context as _, bail, ensure};
use nix::unistd::{
    Gid, Group, Uid, User, getegid, geteuid, initgroups, setgroups, setresgid, setresuid, setuid,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_ambient_set,
    configure_capability_in_ambient_set, set_capabilities, set_keep_capabilities,
};
use std::ffi::CString;

/// The only capability that the process may have as `user`.
const BIND: CapabilitySet = CapabilitySet::NET_BIND_SERVICE;

/// The user and group of the key `user`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceUser {
    /// The name, for `initgroups`; `None` for a number without a user.
    name: Option<String>,
    user: Uid,
    group: Gid,
}

impl ServiceUser {
    /// Looks up `written`: a name or a number, and optionally a group after a colon (`www`, `33`,
    /// `www:tls`, `65534:65534`). Without a group it is the user's own.
    ///
    /// # Errors
    /// An unknown name, a number without a user and without a group, or root: that would drop
    /// nothing.
    pub(crate) fn look_up(written: &str) -> anyhow::Result<Self> {
        let (user, group) = match written.split_once(':') {
            Some((_, "")) => bail!("the group after the colon is empty"),
            Some((user, group)) => (user, Some(find_group(group)?)),
            None => (written, None),
        };
        let account = match (find_user(user)?, group) {
            (UserLookup::User(known), group) => Self {
                name: Some(known.name),
                user: known.uid,
                group: group.unwrap_or(known.gid),
            },
            (UserLookup::Unnamed(number), Some(group)) => Self {
                name: None,
                user: number,
                group,
            },
            (UserLookup::Unnamed(number), None) => {
                bail!(
                    "no user has the number {number}: name a group too, as in \"{number}:{number}\""
                )
            }
        };
        ensure!(
            !account.user.is_root(),
            "user \"{written}\" is root: leave the key out, or name another user"
        );
        Ok(account)
    }

    /// The numbers of user and group, for `chown`.
    pub(crate) fn ids(&self) -> (u32, u32) {
        (self.user.as_raw(), self.group.as_raw())
    }

    /// Whether this process is that user already.
    pub(crate) fn is_current(&self) -> bool {
        // Real and saved ids count too: a saved 0 is a way back.
        let users = nix::unistd::getresuid();
        let groups = nix::unistd::getresgid();
        users.is_ok_and(|ids| {
            [ids.real, ids.effective, ids.saved]
                .iter()
                .all(|id| *id == self.user)
        }) && groups.is_ok_and(|ids| {
            [ids.real, ids.effective, ids.saved]
                .iter()
                .all(|id| *id == self.group)
        })
    }
}

/// Becomes `user` (see [`ServiceUser::look_up`]) for good: groups, group and user ids, no way back
/// to root, and no new privileges by running a set-uid program. Of root's capabilities this thread
/// keeps CAP_NET_BIND_SERVICE, where it has that. Does nothing when the process is that user
/// already.
///
/// To be called before the first thread is started, so that there is none that keeps root.
///
/// # Errors
/// Other threads running, an unknown user, not being root, or a step that the system refuses: the
/// process must then not go on, as its privileges are neither the old nor the new ones.
pub(crate) fn drop_to(user: &str) -> anyhow::Result<()> {
    let account = ServiceUser::look_up(user)?;
    if account.is_current() {
        tracing::info!(user, "already running as this user: nothing to drop");
        return no_new_privileges();
    }
    ensure!(
        geteuid().is_root(),
        "cannot become user \"{user}\": only root can, and this process runs as user {} and group {}; \
         start it as root, or leave `user` out of the configuration",
        geteuid(),
        getegid(),
    );
    let threads = threads();
    ensure!(
        threads <= 1,
        "privileges must be dropped before threads start, and {threads} are running"
    );
    become_account(&account).with_context(|| format!("cannot become user \"{user}\""))?;
    tracing::info!(
        user,
        "privileges dropped: addresses are bound, keys and certificates are read"
    );
    no_new_privileges()
}

fn become_account(account: &ServiceUser) -> anyhow::Result<()> {
    match &account.name {
        Some(name) => {
            let name = CString::new(name.as_str()).context("its name has a zero byte")?;
            initgroups(&name, account.group).context("initgroups")?;
        }
        None => setgroups(&[account.group]).context("setgroups")?,
    }
    // The group first: without root it could no longer be changed.
    setresgid(account.group, account.group, account.group).context("setresgid")?;
    let kept = capabilities(None).context("capget")?.permitted & BIND;
    set_keep_capabilities(!kept.is_empty()).context("PR_SET_KEEPCAPS")?;
    setresuid(account.user, account.user, account.user).context("setresuid")?;
    // All that was permitted still is. Without inheritable ones there are no ambient ones.
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets).context("capset")?;
    set_keep_capabilities(false).context("PR_SET_KEEPCAPS")?;
    ensure!(
        setuid(Uid::from_raw(0)).is_err() && account.is_current(),
        "the process could become root again after dropping it"
    );
    Ok(())
}

/// Calls `start`; the program that it starts inherits CAP_NET_BIND_SERVICE where this thread has
/// it. A program without root inherits only ambient capabilities.
pub(crate) fn with_bind_passed_on<T>(start: impl FnOnce() -> T) -> T {
    let is_passed_on = geteuid().is_root()
        || capability_is_in_ambient_set(BIND).unwrap_or(true)
        || !capabilities(None).is_ok_and(|sets| sets.permitted.contains(BIND));
    if is_passed_on {
        return start();
    }
    // Where a filter of system calls forbids this, the new program cannot bind ports below 1024,
    // but has those that are handed over.
    let _ = pass_bind_on(true);
    let started = start();
    let _ = pass_bind_on(false);
    started
}

/// Makes CAP_NET_BIND_SERVICE ambient in this thread, or no longer.
fn pass_bind_on(is_passed: bool) -> rustix::io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.inheritable.set(BIND, is_passed);
    // What is no longer inheritable is no longer ambient.
    set_capabilities(None, sets)?;
    if is_passed {
        configure_capability_in_ambient_set(BIND, true)?;
    }
    Ok(())
}

/// Warns where a filter of system calls forbids threads to give up what the main thread keeps.
pub(crate) fn warn_of_kept() {
    let Ok(sets) = capabilities(None) else {
        return;
    };
    if !geteuid().is_root()
        && sets.permitted.contains(BIND)
        && let Err(error) = set_capabilities(None, sets)
    {
        tracing::warn!(
            %error,
            "all threads keep CAP_NET_BIND_SERVICE: allow them capset (in a unit: SystemCallFilter=capset)"
        );
    }
}

fn no_new_privileges() -> anyhow::Result<()> {
    rustix::thread::set_no_new_privs(true).context("cannot set no_new_privs")
}

/// The number of threads of this process; 1 where /proc is not mounted: there only the C library's
/// set-id functions, which change every thread, keep the promise.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

/// A user of the system, or a number that no user has.
enum UserLookup {
    User(User),
    Unnamed(Uid),
}

fn find_user(written: &str) -> anyhow::Result<UserLookup> {
    ensure!(!written.is_empty(), "the user is empty");
    // A name of digits only is a name first, as in chown(1).
    if let Some(user) =
        User::from_name(written).with_context(|| format!("looking up user \"{written}\""))?
    {
        return Ok(UserLookup::User(user));
    }
    let Ok(number) = written.parse::<u32>() else {
        bail!(
            "no user is named \"{written}\": make one with `useradd --system {written}`, or name another"
        )
    };
    let number = Uid::from_raw(number);
    let known = User::from_uid(number).with_context(|| format!("looking up user {number}"))?;
    Ok(known.map_or(UserLookup::Unnamed(number), UserLookup::User))
}

/// The group with this name or number.
///
/// # Errors
/// When there is none.
pub(crate) fn find_group(written: &str) -> anyhow::Result<Gid> {
    if let Some(group) =
        Group::from_name(written).with_context(|| format!("looking up group \"{written}\""))?
    {
        return Ok(group.gid);
    }
    let number = written.parse::<u32>();
    number
        .map(Gid::from_raw)
        .map_err(|_| anyhow::anyhow!("no group is named \"{written}\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockgate_net::threads;
    use std::process::Command;

    /// Runs the ignored test `name` of this binary in a process of its own.
    fn alone(name: &str) {
        if !geteuid().is_root() {
            return; // only root can drop anything
        }
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--ignored",
                &format!("privileges::tests::{name}"),
            ])
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&said)
        );
    }

    /// Asserts the ids of this thread, and its capabilities: `kept`, and no others.
    fn assert_all_ids(user: u32, group: u32, kept: CapabilitySet) {
        let sets = capabilities(None).unwrap();
        assert_eq!((sets.permitted, sets.effective), (kept, kept));
        assert!(sets.inheritable.is_empty());
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = |key: &str| {
            status
                .lines()
                .find(|line| line.starts_with(key))
                .unwrap()
                .to_owned()
        };
        assert_eq!(
            line("Uid:").split_whitespace().skip(1).collect::<Vec<_>>(),
            [&user.to_string(); 4]
        );
        assert_eq!(
            line("Gid:").split_whitespace().skip(1).collect::<Vec<_>>(),
            [&group.to_string(); 4]
        );
        let ambient = line("CapAmb:");
        assert_eq!(ambient.split_whitespace().nth(1), Some("0000000000000000"));
        assert_eq!(line("NoNewPrivs:").split_whitespace().nth(1), Some("1"));
        assert!(
            !line("Groups:")
                .split_whitespace()
                .skip(1)
                .any(|group| group == "0"),
            "{}",
            line("Groups:")
        );
    }

    /// What `drop_to` does where the thread of a test is not a second one.
    fn drop_alone(account: &ServiceUser) {
        become_account(account).unwrap();
        no_new_privileges().unwrap();
    }

    /// What a process of root keeps where it has all capabilities.
    fn kept() -> CapabilitySet {
        capabilities(None).unwrap().permitted & BIND
    }

    #[test]
    fn root_is_given_up_by_name_and_does_not_come_back() {
        alone("child_becomes_nobody");
    }

    #[test]
    #[ignore = "gives up its process's privileges: run by root_is_given_up_by_name_and_does_not_come_back"]
    fn child_becomes_nobody() {
        let (nobody, kept) = (ServiceUser::look_up("nobody").unwrap(), kept());
        drop_alone(&nobody);
        assert_all_ids(nobody.ids().0, nobody.ids().1, kept);
        drop_to("nobody").expect("a second time changes nothing");
        let error = drop_to("4242:4242").unwrap_err().to_string();
        assert!(error.contains("only root can"), "{error}");
    }

    #[test]
    fn root_is_given_up_by_numbers_that_nobody_has() {
        alone("child_becomes_numbers");
    }

    #[test]
    #[ignore = "gives up its process's privileges: run by root_is_given_up_by_numbers_that_nobody_has"]
    fn child_becomes_numbers() {
        let kept = kept();
        drop_alone(&ServiceUser::look_up("4242:4343").unwrap());
        assert_all_ids(4242, 4343, kept);
    }

    #[test]
    fn only_the_thread_that_gave_root_up_may_bind_low_ports() {
        alone("child_binds_a_low_port");
    }

    #[test]
    #[ignore = "gives up its process's privileges: run by only_the_thread_that_gave_root_up_may_bind_low_ports"]
    fn child_binds_a_low_port() {
        // An address of this test's own, where no other program listens.
        let bind = || match std::net::TcpListener::bind("127.26.4.43:443") {
            Err(error) => error.kind() != std::io::ErrorKind::PermissionDenied,
            Ok(_) => true,
        };
        let floor = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
        let is_open = floor.is_ok_and(|floor| floor.trim().parse::<u16>().unwrap() <= 443);
        let kept = kept();
        drop_alone(&ServiceUser::look_up("4242:4343").unwrap());
        assert_eq!(bind(), !kept.is_empty() || is_open);
        let other = move || {
            assert_all_ids(4242, 4343, CapabilitySet::empty());
            assert_eq!(bind(), is_open);
        };
        threads::start("other", other).unwrap().join().unwrap();
        assert_all_ids(4242, 4343, kept);
    }

    #[test]
    fn root_without_the_capability_to_bind_keeps_none() {
        alone("child_of_a_poor_root");
    }

    #[test]
    #[ignore = "gives up its process's privileges: run by root_without_the_capability_to_bind_keeps_none"]
    fn child_of_a_poor_root() {
        let mut sets = capabilities(None).unwrap();
        sets.permitted.remove(BIND);
        sets.effective.remove(BIND);
        set_capabilities(None, sets).unwrap();
        drop_alone(&ServiceUser::look_up("4242:4343").unwrap());
        assert_all_ids(4242, 4343, CapabilitySet::empty());
    }

    #[test]
    fn threads_of_root_keep_what_root_has() {
        let before = capabilities(None).unwrap();
        let of_thread = || capabilities(None).unwrap();
        let same = threads::start("other", of_thread).unwrap().join().unwrap() == before;
        assert_eq!(
            same,
            geteuid().is_root() || !before.permitted.contains(BIND)
        );
    }

    #[test]
    fn with_threads_running_nothing_is_dropped() {
        if !geteuid().is_root() {
            return;
        }
        let (finish, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || wait.recv());
        let error = drop_to("nobody").unwrap_err().to_string();
        assert!(error.contains("before threads start"), "{error}");
        assert!(geteuid().is_root());
        drop(finish);
        assert!(other.join().unwrap().is_err());
    }

    #[test]
    fn who_cannot_be_found_is_named_with_a_cure() {
        for (written, says) in [
            ("", "the user is empty"),
            ("no-such-user", "useradd --system no-such-user"),
            ("4242", "\"4242:4242\""),
            ("nobody:", "group after the colon is empty"),
            (
                "nobody:no-such-group",
                "no group is named \"no-such-group\"",
            ),
            ("nobody:-1", "no group is named \"-1\""),
            ("root", "is root"),
            ("0", "is root"),
            ("0:4242", "is root"),
        ] {
            let error = ServiceUser::look_up(written)
                .expect_err(written)
                .to_string();
            assert!(error.contains(says), "{written}: {error}");
        }
    }

    #[test]
    fn a_group_after_the_colon_wins_over_the_users_own() {
        let nobody = ServiceUser::look_up("nobody").unwrap();
        let other = ServiceUser::look_up("nobody:4343").unwrap();
        assert_eq!(other.ids(), (nobody.ids().0, 4343));
        assert_eq!(
            ServiceUser::look_up("4242:4343").unwrap().ids(),
            (4242, 4343)
        );
        assert_eq!(
            ServiceUser::look_up(&nobody.ids().0.to_string()).unwrap(),
            nobody
        );
    }
}
