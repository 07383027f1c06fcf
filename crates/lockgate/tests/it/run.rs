//! Start and stop of the program, and its messages when it cannot do either.

mod commands;
mod describe;
mod failures;
mod hup;
mod serve;
mod stderr;
mod tunnel;

use std::io::Write;

use lockgate_testkit::{Folder, Lockgate, Origin, Serving, Signal, Tls, Wire, eventually};

use crate::scene::{Site, echoes, lockgate, own_host, plain, text};

fn started(more: &str) -> (Serving, Lockgate) {
    let origin = Origin::tcp().echo();
    // Clients connect until nothing listens any more.
    let listener = plain(origin.address()).replace("127.0.0.1:0", &format!("{}:0", own_host()));
    let gate = lockgate().workers(2).start(&(more.to_owned() + &listener));
    (origin, gate)
}

#[test]
fn hup_usr1_and_usr2_are_handled_during_a_drain() {
    let (_origin, gate) = started("");
    let mut open = Wire::connect(gate.address());
    echoes(&mut open, "before");
    gate.signal(Signal::TERM);
    gate.says("draining");
    gate.signal(Signal::USR1);
    gate.signal(Signal::HUP);
    gate.says("but not the configuration");
    gate.signal(Signal::USR2);
    gate.says("there is nothing to upgrade");
    echoes(&mut open, "still");
    drop(open);
    assert_eq!(gate.ended().code, Some(0));
}

#[test]
fn term_lets_open_connections_finish() {
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let (_origin, gate) = started("");
        let mut open = Wire::connect(gate.address());
        echoes(&mut open, "before");
        gate.signal(signal);
        gate.says("draining");
        echoes(&mut open, "while draining");
        drop(open);
        let ended = gate.ended();
        assert_eq!(ended.code, Some(0), "{signal:?}: {}", ended.stderr);
    }
}

#[test]
fn ready_is_503_and_clients_are_served_during_drain_delay() {
    let (_origin, gate) = started("drain = { delay = \"1h\" }\n");
    assert_eq!(gate.get("/ready"), (200, "ready\n".to_owned()));
    gate.signal(Signal::TERM);
    gate.says("draining");
    assert_eq!(gate.get("/ready").0, 503);
    assert_eq!(gate.get("/health").0, 200);
    let mut new = Wire::connect(gate.address());
    echoes(&mut new, "a late comer");
}

#[test]
fn connections_in_the_accept_queue_are_served_before_the_drain() {
    let (_origin, gate) = started("");
    let mut clients: Vec<Wire> = (0..50).map(|_| Wire::connect(gate.address())).collect();
    gate.signal(Signal::TERM);
    for client in &mut clients {
        echoes(client, "accepted");
    }
    drop(clients);
    assert_eq!(gate.ended().code, Some(0));
}

#[test]
fn a_drain_closes_the_listeners() {
    let (_origin, gate) = started("");
    let mut open = Wire::connect(gate.address());
    echoes(&mut open, "before");
    gate.signal(Signal::TERM);
    gate.says("draining");
    let address = gate.address();
    eventually("the port is closed", || {
        std::net::TcpStream::connect(address).err()
    });
    echoes(&mut open, "still here");
    drop(open);
    assert_eq!(gate.ended().code, Some(0));
}

#[test]
fn the_drain_deadline_cuts_connections_and_exits_3() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let toml = "drain = { deadline = \"300ms\" }\n".to_owned()
        + &plain(origin.address())
        + &site.listener("127.0.0.2:0", origin.address(), "");
    let gate = lockgate().workers(2).start(&toml);
    let mut open = Wire::connect(gate.address());
    echoes(&mut open, "before");
    let mut tls: Tls = site
        .client()
        .connect(gate.at("127.0.0.2:0"), crate::scene::NAME)
        .unwrap();
    tls.send("before");
    tls.expect("before");
    gate.signal(Signal::TERM);
    open.wait_closed();
    tls.rest();
    let ended = gate.ended();
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let cut = ended
        .stdout
        .lines()
        .filter(|line| line.contains("\"cause\":\"drain\""))
        .count();
    assert_eq!(cut, 2, "{}", ended.stdout);
}

#[test]
fn a_second_signal_cuts_at_once() {
    for (first, delay) in [
        (Signal::TERM, "0s"),
        (Signal::QUIT, "0s"),
        (Signal::TERM, "5m"),
    ] {
        let (_origin, gate) = started(&format!(
            "drain = {{ delay = \"{delay}\", deadline = \"5m\" }}\n"
        ));
        let mut open = Wire::connect(gate.address());
        echoes(&mut open, "before");
        gate.signal(first);
        gate.says("draining");
        gate.signal(Signal::TERM);
        open.wait_closed();
        assert_eq!(gate.ended().code, Some(3), "{first:?} after {delay}");
    }
}

#[test]
fn a_stop_without_connections_is_immediate() {
    let (_origin, gate) = started("drain = { deadline = \"5m\" }\n");
    assert_eq!(gate.stop().code, Some(0));
}

#[test]
fn a_drain_under_load_resets_no_connection() {
    drains_without_a_reset("");
}

/// Newer kernels refuse socket filters to those without CAP_NET_ADMIN.
#[test]
fn an_unprivileged_drain_under_load_resets_no_connection() {
    let may_drop = rustix::process::geteuid().is_root();
    drains_without_a_reset(if may_drop { "user = \"nobody\"\n" } else { "" });
}

fn drains_without_a_reset(more: &str) {
    let (_origin, gate) = started(&format!("{more}drain = {{ delay = \"1s\" }}\n"));
    let address = gate.address();
    let served: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..12)
            .map(|_| {
                scope.spawn(|| {
                    let mut served = 0;
                    while let Ok(stream) = std::net::TcpStream::connect(address) {
                        echoes(&mut Wire::from(stream), "hello");
                        served += 1;
                    }
                    served
                })
            })
            .collect();
        gate.signal(Signal::TERM);
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .sum()
    });
    assert!(served > 0);
    let ended = gate.ended();
    assert_eq!(ended.code, Some(0));
    assert!(!ended.stderr.contains("may be reset"), "{}", ended.stderr);
}

#[test]
fn the_last_good_configuration_is_kept_in_state() {
    let folder = Folder::new();
    let state = folder.path("state");
    let origin = Origin::tcp().echo();
    let top = format!("state = \"{}\"\n", text(&state));
    let gate = lockgate().start(&(top.clone() + &plain(origin.address())));
    let kept: Vec<_> = std::fs::read_dir(&state)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    let first = std::fs::read_to_string(&kept[0]).unwrap();
    assert!(first.contains(origin.address()), "{first}");
    let port = gate.address();
    // A configuration that cannot start leaves it as it was, and the message names it.
    let ended = lockgate().fail(&(top + &format!("[tcp.\"{port}\"]\nproxy = \"127.0.0.1:9\"\n")));
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains(&text(&kept[0])), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(&kept[0]).unwrap(), first);
    // And it works.
    drop(gate);
    let again = lockgate().command(&["run", "-c", &text(&kept[0])]);
    again.says("ready");
}

#[test]
fn run_last_good_starts_where_the_file_is_broken() {
    let folder = Folder::new();
    let origin = Origin::tcp().echo();
    let top = format!("state = \"{}\"\n", text(&folder.path("state")));
    let good = format!(
        "{top}log = {{ format = \"json\" }}\n{}",
        plain(origin.address())
    );
    let file = text(&folder.write("lockgate.toml", &good));
    let refused = lockgate().run(&["run", "--last-good", "-c", &file]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("has no last good configuration"),
        "{}",
        refused.stderr
    );
    let gate = lockgate().command(&["run", "-c", &file]);
    gate.says("ready");
    drop(gate);
    folder.write("lockgate.toml", format!("{good}workerz = 2\n[tcp]\n"));
    let again = lockgate().command(&["run", "--last-good", "-c", &file]);
    again.says("ready");
    // The file is still the one that a reload takes over.
    let other = good.replace("127.0.0.1:0", "127.0.0.2:0");
    folder.write("lockgate.toml", other);
    again.signal(Signal::HUP);
    again.says("the configuration was reloaded");
}

/// A thread of a process, as `/proc` shows it.
struct Thread {
    is_main: bool,
    status: String,
}

impl Thread {
    /// The words of one line of the status.
    fn field(&self, name: &str) -> Vec<&str> {
        let mut lines = self.status.lines();
        let line = lines.find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().skip(1).collect()
    }
}

/// The threads of a process. One that ends meanwhile is left out.
fn threads(process: u32) -> Vec<Thread> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let thread = |task: std::io::Result<std::fs::DirEntry>| {
        let task = task.ok()?;
        Some(Thread {
            is_main: *task.file_name() == *process.to_string(),
            status: std::fs::read_to_string(task.path().join("status")).ok()?,
        })
    };
    tasks.filter_map(thread).collect()
}

/// Waits until no thread but the main one has CAP_NET_BIND_SERVICE, the tenth bit: a new thread
/// inherits it, and gives it up before it does anything else.
pub(crate) fn only_main_may_bind_low_ports(process: u32) {
    let has_what_it_may = |thread: &Thread| {
        let may = if thread.is_main {
            ["0000000000000400"]
        } else {
            ["0000000000000000"]
        };
        thread.field("CapPrm:") == may && thread.field("CapEff:") == may
    };
    eventually("only the main thread may bind low ports", || {
        threads(process).iter().all(has_what_it_may).then_some(())
    });
}

#[test]
fn only_the_main_thread_has_the_capability_of_the_unit() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can give a capability");
    }
    let folder = Folder::new();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.dir(), open).unwrap();
    let origin = Origin::tcp().echo();
    let file = folder.path("lockgate.toml");
    let toml = format!(
        "workers = 2\nlog = {{ format = \"json\" }}\n{}",
        plain(origin.address())
    );
    std::fs::write(&file, toml).unwrap();
    let as_the_unit = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--no-new-privs",
        "--inh-caps=-all,+net_bind_service",
        "--ambient-caps=-all,+net_bind_service",
        "--bounding-set=-all,+net_bind_service",
        "--",
    ];
    let gate = lockgate()
        .through(&as_the_unit)
        .command(&["run", "-c", &text(&file)]);
    gate.says("ready");
    let threads = threads(gate.pid());
    assert!(threads.len() >= 4, "main, two workers and the log");
    for thread in threads {
        assert_eq!(thread.field("Uid:"), ["65534"; 4]);
    }
    only_main_may_bind_low_ports(gate.pid());
    // The file is checked in a thread that the runtime of the main thread starts.
    gate.signal(Signal::HUP);
    gate.says("the configuration was reloaded");
    only_main_may_bind_low_ports(gate.pid());
}

#[test]
fn every_thread_drops_root_privileges() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can give up root");
    }
    let folder = Folder::new();
    std::fs::set_permissions(
        folder.dir(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let site = Site::new();
    let origin = Origin::tcp().echo();
    // The key belongs to root, and no other user may read it.
    let toml = "user = \"nobody\"\n".to_owned() + &site.tls(origin.address(), "");
    let gate = lockgate().workers(2).start(&toml);
    // A file that only root may read cannot be renewed: logged at once, not when the certificate
    // has expired.
    assert!(
        gate.stderr().text().contains("W0105"),
        "{}",
        gate.stderr().text()
    );
    let nobody = std::fs::read_to_string("/etc/passwd").unwrap();
    let nobody = nobody
        .lines()
        .find_map(|line| line.strip_prefix("nobody:x:"))
        .unwrap()
        .to_owned();
    let (user, rest) = nobody.split_once(':').unwrap();
    let group = rest.split(':').next().unwrap();
    let threads = threads(gate.pid());
    assert!(threads.len() >= 4, "main, two workers and the log");
    for thread in threads {
        assert_eq!(thread.field("Uid:"), [user; 4]);
        assert_eq!(thread.field("Gid:"), [group; 4]);
        assert!(!thread.field("Groups:").contains(&"0"));
        assert_eq!(thread.field("CapInh:"), ["0000000000000000"]);
        assert_eq!(thread.field("CapAmb:"), ["0000000000000000"]);
    }
    only_main_may_bind_low_ports(gate.pid());
    let mut client = site.connect(&gate);
    client.send("served");
    client.expect("served");
}

#[test]
fn the_start_logs_the_source_of_the_connection_limit() {
    for (limits, limited_by) in [
        ("", "descriptors"),
        ("limits = { connections = 10 }\n", "limits.connections"),
    ] {
        let (_origin, gate) = started(limits);
        let ready = gate.says("ready");
        assert_eq!(ready["limited_by"], limited_by, "{ready}");
    }
}

#[test]
fn unresolvable_endpoints_do_not_delay_the_start() {
    let toml = plain("no-such-host.invalid:80");
    let mut gate = lockgate().start(&toml);
    let mut client = Wire::connect(gate.address());
    client.write_all(b"hello").unwrap();
    client.wait_closed();
    let line = gate.next_line();
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"connect_failed".into(), &"upstream".into())
    );
    assert!(
        line["detail"]
            .as_str()
            .unwrap()
            .contains("no-such-host.invalid"),
        "{line}"
    );
}

#[test]
fn an_endpoint_may_be_a_host_name() {
    let origin = Origin::tcp().echo();
    let port = origin.address().rsplit(':').next().unwrap().to_owned();
    let mut gate = lockgate().start(&plain(&format!("localhost:{port}")));
    echoes(&mut Wire::connect(gate.address()), "by name");
    assert_eq!(gate.next_line()["endpoint"], format!("localhost:{port}"));
}
