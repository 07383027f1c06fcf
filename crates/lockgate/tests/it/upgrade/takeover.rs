//! Takeovers: a process that others have started serves, and the old one finishes what it has begun.

use std::io::{IoSlice, IoSliceMut, PipeReader, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lockgate_testkit::{Folder, Http, Launch, Lockgate, Origin, Signal, Wire, eventually};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::handover::{no_connection_is_refused, no_stream_is_cut};
use super::{UpgradeScene, admin_at, body, fill, get, responding, wait_for_end, wait_for_sockets};
use crate::admin::ask;
use crate::scene::{echoes, lockgate, plain, text};

fn scene() -> UpgradeScene {
    UpgradeScene::new(&lockgate().workers(2), &responding("here"))
}

/// A Lockgate with the configuration of the scene that is to take over.
fn begin(scene: &UpgradeScene, launch: &Launch) -> Lockgate {
    // The file of the first one ends with that.
    let file = scene.folder.path("takeover.toml");
    std::fs::copy(scene.gate.configuration(), &file).unwrap();
    launch.command(&["run", "-c", &text(&file), "--takeover"])
}

/// A takeover that succeeds; also returns the process that has served before.
fn take_over(scene: &mut UpgradeScene, launch: &Launch) -> (Lockgate, u32) {
    let new = begin(scene, launch);
    let pid = new.pid();
    new.says("the earlier process has handed over");
    assert_eq!(scene.answers(), pid);
    let before = scene.served_by(pid);
    (new, before)
}

/// A takeover that fails; returns what the new process said.
fn refused(scene: &UpgradeScene) -> String {
    let ended = begin(scene, &lockgate()).ended();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(scene.answers(), scene.serving);
    ended.stderr
}

/// A takeover still succeeds after failed ones.
fn goes_on(mut scene: UpgradeScene) {
    let address = scene.gate.address();
    assert_eq!(body(address), "here");
    let (_new, before) = take_over(&mut scene, &lockgate());
    wait_for_end(before);
    assert_eq!(body(address), "here");
}

#[test]
fn two_takeovers_cut_no_websocket_relay_or_download() {
    let mut gates = Vec::new();
    no_stream_is_cut(2, |scene| {
        let (new, before) = take_over(scene, &lockgate());
        gates.push(new);
        before
    });
}

#[test]
fn no_new_connection_is_refused_during_takeovers() {
    let mut gates = Vec::new();
    no_connection_is_refused(2, |scene| {
        let (new, before) = take_over(scene, &lockgate());
        gates.push(new);
        before
    });
}

#[test]
fn the_old_process_exits_0_with_its_last_stream() {
    let origin = Origin::tcp().echo();
    let mut scene = UpgradeScene::new(&lockgate(), &plain(origin.address()));
    let mut relay = Wire::connect(scene.gate.address());
    echoes(&mut relay, "before");
    let (_new, _) = take_over(&mut scene, &lockgate());
    let file = text(&scene.folder.path("takeover.toml"));
    let shown = lockgate().run(&["status", "-c", &file, "--json"]);
    let status: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(status["pid"], scene.serving);
    echoes(&mut relay, "after");
    let line = scene.gate.says("takeover: the new process serves");
    assert_eq!(line["pid"], scene.serving);
    drop(relay);
    assert_eq!(scene.gate.ended().code, Some(0));
}

#[test]
fn the_old_process_exits_0_where_drain_change_cuts() {
    let origin = Origin::tcp().echo();
    let drain = "drain = { change = \"1s\" }\n".to_owned();
    let mut scene = UpgradeScene::new(&lockgate(), &(drain + &plain(origin.address())));
    let mut relay = Wire::connect(scene.gate.address());
    echoes(&mut relay, "before");
    let (_new, _) = take_over(&mut scene, &lockgate());
    relay.wait_closed();
    assert_eq!(scene.gate.ended().code, Some(0));
}

#[test]
fn without_a_lockgate_a_takeover_is_a_plain_start() {
    let folder = Folder::new();
    let socket = folder.path("admin.sock");
    // A killed Lockgate has left this file.
    drop(UnixListener::bind(&socket).unwrap());
    let toml = admin_at(&socket) + "log = { format = \"json\" }\n" + &responding("here");
    let file = text(&folder.write("lockgate.toml", toml));
    let gate = lockgate().command(&["run", "-c", &file, "--takeover"]);
    gate.says("there is no Lockgate to take over from");
    gate.says("ready");
    let (status, answer) = ask(&socket, "GET", "/v1/status", "");
    assert_eq!((status, &answer["pid"]), (200, &gate.pid().into()));
    assert_eq!(gate.stop().code, Some(0));
}

#[test]
fn a_takeover_reads_its_own_file_and_gets_what_operators_have_set() {
    let mut scene = scene();
    let address = scene.gate.address();
    let ban = "{ \"client\": \"192.0.2.1\", \"for_seconds\": 600 }";
    assert_eq!(ask(&scene.socket, "POST", "/v1/clients/ban", ban).0, 200);
    // A further listener, and another text.
    let more = "[tcp.\"127.0.0.2:0\"]\nproxy = \"127.0.0.1:9\"\n";
    scene.rewrite(&(responding("new") + more));
    let (new, before) = take_over(&mut scene, &lockgate());
    wait_for_end(before);
    assert_eq!(body(address), "new");
    new.says("takeover: the Lockgate that serves hands over");
    let (_, bans) = ask(&scene.socket, "GET", "/v1/clients/bans", "");
    assert_eq!(bans["bans"][0]["client"], "192.0.2.1/32", "{bans}");
    // It can be upgraded as any other, and has its own arguments.
    wait_for_end(scene.upgrade());
    assert_eq!(body(address), "new");
    assert_eq!(scene.answers(), scene.serving);
}

#[test]
fn a_takeover_with_mistakes_changes_nothing() {
    let scene = scene();
    scene.rewrite(&(responding("here") + "nonsense = 1\n"));
    let said = refused(&scene);
    assert!(said.contains("nonsense"), "{said}");
    assert!(!said.contains("in use"), "{said}");
    // One that only the start finds: the old process has handed over by then.
    let missing = text(&scene.folder.path("missing.pem"));
    let tls = format!(
        "[tcp.\"127.0.0.2:0\"]\nproxy = \"127.0.0.1:9\"\ntls = {{ cert = \"{missing}\" }}\n"
    );
    scene.rewrite(&(responding("here") + &tls));
    let said = refused(&scene);
    assert!(said.contains("missing.pem"), "{said}");
    assert!(!said.contains("in use"), "{said}");
    let line = scene.gate.says("the takeover has failed");
    assert!(line.to_string().contains("missing.pem"), "{line}");
    scene.rewrite(&responding("here"));
    goes_on(scene);
}

/// A new process that has all sockets, and does not go on while its standard error is full.
struct HeldProcess {
    child: Child,
    stderr: PipeReader,
}

impl HeldProcess {
    fn start(scene: &UpgradeScene) -> Self {
        let (stderr, writer) = std::io::pipe().unwrap();
        fill(&writer);
        let child = Command::new(env!("CARGO_BIN_EXE_lockgate"))
            .args(["run", "--takeover", "-c"])
            .arg(scene.gate.configuration())
            .stdout(Stdio::null())
            .stderr(writer)
            .spawn()
            .unwrap();
        wait_for_sockets(child.id());
        Self { child, stderr }
    }

    /// Its exit code, and what it says, once it goes on.
    fn ended(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_takeover_killed_in_the_middle_changes_nothing() {
    let scene = scene();
    let new = HeldProcess::start(&scene);
    assert_eq!(body(scene.gate.address()), "here");
    new.kill();
    let line = scene.gate.says("the takeover has failed");
    assert!(line["why"].as_str().unwrap().contains("ended"), "{line}");
    goes_on(scene);
}

#[test]
fn a_stop_of_the_old_process_ends_the_takeover() {
    let scene = scene();
    let new = HeldProcess::start(&scene);
    scene.gate.signal(Signal::TERM);
    assert_eq!(scene.gate.ended().code, Some(0));
    let (code, said) = new.ended();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("has given up the handover"), "{said}");
}

/// The part of the new process, as far as a test wants it.
struct Peer(OwnedFd);

/// The bytes of a packet, and its descriptors.
type Packet = (Vec<u8>, Vec<OwnedFd>);

impl Peer {
    /// Gets the other end of the pair, and the offer over that.
    fn ask(socket: &Path) -> Self {
        let peer = Self::begin(socket);
        peer.offer();
        peer
    }

    /// Gets the other end of the pair.
    fn begin(socket: &Path) -> Self {
        let mut client = UnixStream::connect(socket).unwrap();
        client.write_all(ASKS.as_bytes()).unwrap();
        let connection = Self(client.into());
        let passed = loop {
            let (bytes, mut passed) = connection.receive();
            assert!(!bytes.is_empty(), "the connection has ended");
            if let Some(end) = passed.pop() {
                break end;
            }
        };
        Self(passed)
    }

    /// The packets of the offer.
    fn offer(&self) -> Vec<Packet> {
        let mut packets = vec![self.receive()];
        while packets.last().is_some_and(|(bytes, _)| bytes != b"end") {
            packets.push(self.receive());
        }
        packets
    }

    /// The next packet; no bytes at the end.
    fn receive(&self) -> Packet {
        let mut bytes = vec![0; 32 << 10];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(200))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let received = recvmsg(&self.0, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC);
        let descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let descriptors = descriptors.flatten().collect();
        bytes.truncate(received.unwrap().bytes);
        (bytes, descriptors)
    }

    fn say(&self, word: &str) {
        rustix::io::write(&self.0, word.as_bytes()).unwrap();
    }

    fn is_told_to_serve(&self) {
        self.say("{\"ready\":{\"listeners\":[0],\"metrics\":true,\"admin\":true}}");
        assert_eq!(self.receive().0, b"go");
    }
}

fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[OwnedFd]) {
    let descriptors: Vec<_> = descriptors.iter().map(OwnedFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(200))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    }
    let parts = [IoSlice::new(bytes)];
    sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL).unwrap();
}

const ASKS: &str = "POST /v1/takeover HTTP/1.1\r\nhost: lockgate\r\nconnection: upgrade\r\n\
                    upgrade: lockgate-handover/1\r\ncontent-length: 0\r\n\r\n";

/// A process that is to stop, and waits for the new one, which was told to serve.
fn stop_after_the_word_to_serve() -> (UpgradeScene, Peer) {
    let scene = scene();
    let peer = Peer::ask(&scene.socket);
    peer.is_told_to_serve();
    scene.gate.signal(Signal::TERM);
    scene
        .gate
        .says("another process was told to serve: the stop waits for it");
    (scene, peer)
}

#[test]
fn a_stop_after_the_word_to_serve_is_none_of_the_new_process() {
    let (scene, peer) = stop_after_the_word_to_serve();
    peer.say("{\"serving\":{}}");
    // The end, without a word to stop.
    assert_eq!(peer.receive().0, b"");
    assert_eq!(scene.gate.ended().code, Some(0));
}

#[test]
fn a_second_stop_does_not_wait_for_the_new_process() {
    let (scene, peer) = stop_after_the_word_to_serve();
    // Commands are answered meanwhile.
    assert_eq!(ask(&scene.socket, "POST", "/v1/logs/reopen", "").0, 200);
    scene.gate.signal(Signal::TERM);
    assert_eq!(scene.gate.ended().code, Some(3));
    assert_eq!(peer.receive().0, b"");
}

#[test]
fn a_process_that_is_given_up_ends_at_once() {
    let scene = scene();
    // The test passes the offer on, so that the new process is told what the test wants.
    let old = Peer::begin(&scene.socket);
    let between = scene.folder.path("between.sock");
    let origin = Origin::unix(&between);
    let toml = std::fs::read_to_string(scene.gate.configuration()).unwrap();
    let toml = toml.replace(&text(&scene.socket), &text(&between));
    let file = text(&scene.folder.write("between.toml", toml));
    let new = lockgate().command(&["run", "-c", &file, "--takeover"]);
    let mut asked = origin.http();
    asked.request();
    // The new process makes a socket of its own there.
    drop(origin);
    asked.send("HTTP/1.1 101 Switching Protocols\r\nserver: lockgate/0.0.1\r\n\r\n");
    let (end, passed) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    send(&asked.stream, b"\n", &[passed]);
    for (bytes, descriptors) in old.offer() {
        send(&end, &bytes, &descriptors);
    }
    let end = Peer(end);
    let hears = |word: &str| {
        let said = String::from_utf8(end.receive().0).unwrap();
        assert!(said.contains(word), "{said}");
    };
    hears("ready");
    end.say("go");
    hears("serving");
    end.say("given up");
    let ended = new.ended();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("has given up"), "{}", ended.stderr);
    assert_eq!(body(scene.gate.address()), "here");
    drop(old);
    scene.gate.says("the takeover has failed");
    goes_on(scene);
}

#[test]
fn a_takeover_gets_more_sockets_than_its_soft_limit() {
    let relay = |last: u8| format!("[tcp.\"127.0.1.{last}:0\"]\nproxy = \"127.0.0.1:9\"\n");
    let relays: String = (1..=40).map(relay).collect();
    let toml = responding("here") + &relays;
    let mut scene = UpgradeScene::new(&lockgate().workers(2), &toml);
    let address = scene.gate.at("127.0.0.1:0");
    let few = lockgate().through(&["prlimit", "--nofile=64:4096"]);
    let (_new, before) = take_over(&mut scene, &few);
    wait_for_end(before);
    assert_eq!(body(address), "here");
}

#[test]
fn a_peer_that_breaks_the_protocol_changes_nothing() {
    let scene = scene();
    for word in [
        "garbage",
        "{\"serving\":{}}",
        "{\"ready\":{\"listeners\":[99],\"metrics\":true,\"admin\":true}}",
        "{\"failed\":\"no disk\"}",
    ] {
        let peer = Peer::ask(&scene.socket);
        peer.say(word);
        assert_eq!(peer.receive().0, b"", "{word}");
        eventually("changes are allowed again", || {
            let ban = "{ \"client\": \"192.0.2.1\", \"for_seconds\": 600 }";
            (ask(&scene.socket, "POST", "/v1/clients/ban", ban).0 == 200).then_some(())
        });
        assert_eq!(body(scene.gate.address()), "here");
    }
    goes_on(scene);
}

#[test]
fn a_takeover_is_refused_during_an_upgrade_a_drain_or_an_unconfirmed_reload() {
    let mut scene = UpgradeScene::new(
        &lockgate(),
        &("drain = { delay = \"60s\" }\n".to_owned() + &responding("here")),
    );
    let waiting = scene.waiting_program();
    let pid = std::thread::scope(|scope| {
        let upgrade = scope.spawn(|| scene.ask(&waiting.body()));
        waiting.wait();
        let said = refused(&scene);
        assert!(said.contains("another upgrade is under way"), "{said}");
        waiting.go_on();
        let (ok, answer) = upgrade.join().unwrap();
        assert_eq!(ok, 200, "{answer}");
        answer["pid"].as_u64().unwrap()
    });
    wait_for_end(scene.served_by(u32::try_from(pid).unwrap()));
    let unconfirmed = "{ \"confirm_seconds\": 600 }";
    let (status, answer) = ask(&scene.socket, "POST", "/v1/reload", unconfirmed);
    assert_eq!(status, 200, "{answer}");
    let said = refused(&scene);
    assert!(said.contains("not confirmed"), "{said}");
    ask(&scene.socket, "POST", "/v1/confirm", "");
    ask(&scene.socket, "POST", "/v1/drain", "");
    let said = refused(&scene);
    assert!(said.contains("drains"), "{said}");
}

#[test]
fn an_upgrade_is_refused_during_a_takeover() {
    let scene = scene();
    let new = HeldProcess::start(&scene);
    let (status, answer) = scene.ask("");
    assert_eq!(
        (status, &answer["error"]["code"]),
        (409, &"upgrade_refused".into())
    );
    let ban = "{ \"client\": \"192.0.2.1\", \"for_seconds\": 600 }";
    let (status, answer) = ask(&scene.socket, "POST", "/v1/clients/ban", ban);
    assert_eq!(
        (status, &answer["error"]["code"]),
        (409, &"upgrade_under_way".into())
    );
    new.kill();
    scene.gate.says("the takeover has failed");
    assert_eq!(ask(&scene.socket, "POST", "/v1/clients/ban", ban).0, 200);
}

#[test]
fn a_takeover_needs_the_admin_socket_of_a_lockgate() {
    let folder = Folder::new();
    let run = |admin: &str| {
        let file = folder.write("lockgate.toml", admin.to_owned() + &responding("here"));
        let ended = lockgate().run(&["run", "-c", &text(&file), "--takeover"]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        ended.stderr
    };
    let said = run("admin = false\n");
    assert!(said.contains("--takeover needs the admin socket"), "{said}");
    let socket = folder.path("admin.sock");
    let other = Origin::unix(&socket);
    let answers = [
        "",
        "no HTTP",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n\n",
        "HTTP/1.1 200 OK\r\nserver: other\r\n\r\n",
    ];
    for answer in answers {
        let said = std::thread::scope(|scope| {
            let said = scope.spawn(|| run(&admin_at(&socket)));
            let mut client = other.http();
            client.request();
            client.send(answer);
            drop(client);
            said.join().unwrap()
        });
        assert!(said.contains("another program answers"), "{answer}: {said}");
    }
    // A Lockgate that knows no takeover.
    let said = std::thread::scope(|scope| {
        let said = scope.spawn(|| run(&admin_at(&socket)));
        let mut client = other.http();
        client.request();
        let unknown = "{ \"error\": { \"code\": \"unknown_path\" } }";
        let length = unknown.len();
        client.send(format!(
            "HTTP/1.1 404 Not Found\r\nserver: lockgate/0.0.1\r\ncontent-length: {length}\r\n\r\n{unknown}"
        ));
        said.join().unwrap()
    });
    assert!(said.contains("an older one without takeovers"), "{said}");
}

#[test]
fn a_takeover_without_the_protocol_is_refused() {
    let scene = scene();
    let (status, answer) = ask(&scene.socket, "POST", "/v1/takeover", "");
    assert_eq!(
        (status, &answer["error"]["code"]),
        (426, &"upgrade_required".into())
    );
    let (status, answer) = ask(&scene.socket, "GET", "/v1/takeover", "");
    assert_eq!(
        (status, &answer["error"]["code"]),
        (405, &"wrong_method".into())
    );
    let mut client = Http::over(Wire::connect_unix(&scene.socket));
    client.send("POST /v1/takeover HTTP/1.1\r\nhost: lockgate\r\ncontent-length: 0\r\n\r\n");
    let answer = client.answer();
    assert_eq!(answer.field("upgrade"), Some("lockgate-handover/1"));
    assert_eq!(answer.field("connection"), Some("upgrade"));
    // One that begins and leaves.
    let mut client = Http::over(Wire::connect_unix(&scene.socket));
    client.send(ASKS);
    client.head();
    drop(client);
    scene.gate.says("the takeover has failed");
    goes_on(scene);
}

#[test]
fn only_root_and_the_own_user_may_take_over() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can become another user");
    }
    let folder = Folder::new();
    let socket = folder.path("admin.sock");
    let admin = |more: &str| format!("admin = {{ at = \"unix:{}\"{more} }}\n", text(&socket));
    let gate = lockgate().start(&(admin(", group = \"4242\"") + &responding("here")));
    let file = folder.write("takeover.toml", admin("") + &responding("here"));
    for (path, mode) in [(folder.dir(), 0o755), (&file, 0o644)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let as_member_of = |groups: &str| {
        let groups = format!("--groups={groups}");
        let other = ["setpriv", "--reuid=65534", "--regid=65534", &groups, "--"];
        let ended = lockgate()
            .through(&other)
            .run(&["run", "-c", &text(&file), "--takeover"]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        ended.stderr
    };
    for groups in ["4242", "4243"] {
        let said = as_member_of(groups);
        assert!(said.contains("only root and the user of"), "{said}");
    }
    assert_eq!(ask(&socket, "GET", "/v1/status", "").1["pid"], gate.pid());
    assert_eq!(body(gate.address()), "here");
}

#[test]
fn only_a_lockgate_of_root_or_the_user_hands_over() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can become another user");
    }
    let folder = Folder::new();
    let file = |user: &str| {
        let admin = admin_at(&folder.path("admin.sock"));
        let log = "log = { format = \"json\" }\n";
        let toml = admin + log + user + &responding("here");
        let file = folder.write("lockgate.toml", toml);
        for (path, mode) in [(folder.dir(), 0o777), (&file, 0o644)] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
        text(&file)
    };
    let other = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--",
    ];
    let old = lockgate()
        .through(&other)
        .command(&["run", "-c", &file("")]);
    old.says("ready");
    let ended = lockgate().run(&["run", "-c", &file(""), "--takeover"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("runs as user 65534"),
        "{}",
        ended.stderr
    );
    let file = file("user = \"65534:65534\"\n");
    let new = lockgate().command(&["run", "-c", &file, "--takeover"]);
    new.says("the earlier process has handed over");
    assert_eq!(old.ended().code, Some(0));
    assert_eq!(new.stop().code, Some(0));
}

#[test]
fn root_takes_over_from_a_lockgate_that_has_dropped_it() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can become a user");
    }
    let toml = format!("user = \"nobody\"\n{}", responding("here"));
    let mut scene = UpgradeScene::new(&lockgate(), &toml);
    let address = scene.gate.address();
    let (_first, before) = take_over(&mut scene, &lockgate());
    wait_for_end(before);
    let (_second, before) = take_over(&mut scene, &lockgate());
    wait_for_end(before);
    assert_eq!(body(address), "here");
    let status = std::fs::read_to_string(format!("/proc/{}/status", scene.serving)).unwrap();
    assert!(status.contains("Uid:\t65534\t65534"), "{status}");
}

#[test]
fn a_process_in_another_pid_namespace_takes_over() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can make a namespace");
    }
    // PID 1 of its namespace, which does not see the other process.
    let inside = lockgate().through(&["unshare", "--pid", "--fork", "--kill-child", "--"]);
    let mut scene = UpgradeScene::new(&inside, &responding("here"));
    let address = scene.gate.address();
    assert_eq!(scene.answers(), 1);
    let (_outside, _) = take_over(&mut scene, &lockgate());
    let line = scene.gate.says("takeover: the new process serves");
    assert!(line["pid"].is_null(), "{line}");
    assert_eq!(body(address), "here");
    assert_eq!(scene.gate.ended().code, Some(0));
}

#[test]
fn each_service_manager_hears_of_its_own_process() {
    let folder = Folder::new();
    let manager = |name: &str| {
        let path = folder.path(name);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        (lockgate().variable("NOTIFY_SOCKET", &text(&path)), socket)
    };
    let said = |socket: &UnixDatagram| {
        let mut buffer = [0; 512];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    let ((first, of_first), (second, of_second)) = (manager("first"), manager("second"));
    let mut scene = UpgradeScene::new(&first, &responding("here"));
    assert!(said(&of_first).starts_with("READY=1\n"));
    let (_new, _) = take_over(&mut scene, &second);
    assert_eq!(
        said(&of_first),
        "STOPPING=1\nSTATUS=another process has taken over, and this one drains\n"
    );
    assert_eq!(said(&of_second), "READY=1\nSTATUS=serving 1 listener\n");
    assert_eq!(scene.gate.ended().code, Some(0));
}

#[test]
fn the_last_good_configuration_takes_over() {
    let folder = Folder::new();
    let state = format!("state = \"{}\"\n", text(&folder.path("state")));
    let mut scene = UpgradeScene::new(&lockgate(), &(state.clone() + &responding("here")));
    let address = scene.gate.address();
    // The file is broken behind `state`.
    let admin = admin_at(&scene.socket);
    let broken = folder.write("broken.toml", admin + &state + "nonsense = 1\n");
    let words = ["run", "-c", &text(&broken), "--last-good", "--takeover"];
    let new = lockgate().command(&words);
    new.says("the earlier process has handed over");
    assert_eq!(scene.answers(), new.pid());
    wait_for_end(scene.served_by(new.pid()));
    let mut client = Http::connect(address);
    client.send(get());
    assert_eq!(client.answer().text(), "here");
}
