//! The file of the admin socket: its place, owner and permissions, and files that are in the way.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use lockgate_testkit::{Folder, Http, Signal, Wire};
use rustix::process::{Gid, Uid, geteuid};
use serde_json::Value;

use super::ask;
use crate::scene::{lockgate, plain, text};

const NOBODY: u32 = 65_534;

/// A folder that every user may look into.
fn open_folder() -> Folder {
    let folder = Folder::new();
    std::fs::set_permissions(folder.dir(), PermissionsExt::from_mode(0o755)).unwrap();
    folder
}

fn toml(admin: &str) -> String {
    format!("admin = {admin}\n{}", plain("127.0.0.1:9"))
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o777
}

/// A connection of another user, which only root can make; a thread has its own user.
fn connect_as(user: u32, groups: &[u32], socket: &Path) -> std::io::Result<UnixStream> {
    std::thread::scope(|scope| {
        let connecting = scope.spawn(|| {
            let groups: Vec<Gid> = groups.iter().map(|id| Gid::from_raw(*id)).collect();
            rustix::thread::set_thread_groups(&groups).unwrap();
            let (user, group) = (Uid::from_raw(user), Gid::from_raw(NOBODY));
            rustix::thread::set_thread_res_gid(group, group, group).unwrap();
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            UnixStream::connect(socket)
        });
        connecting.join().unwrap()
    })
}

/// The status that a client on this connection gets.
fn status_of(stream: UnixStream) -> (u16, Value) {
    let mut client = Http::over(Wire::from(stream));
    client.send("GET /v1/status HTTP/1.1\r\nhost: lockgate\r\n\r\n");
    let answer = client.answer();
    (
        answer.status(),
        serde_json::from_str(answer.text()).unwrap(),
    )
}

#[test]
fn the_socket_is_for_its_owner_and_removed_at_the_end() {
    let folder = Folder::new();
    let socket = folder.path("admin.sock");
    let gate = lockgate().start(&toml(&format!("\"unix:{}\"", text(&socket))));
    assert_eq!(mode(&socket), 0o600);
    assert_eq!(gate.stop().code, Some(0));
    assert!(!socket.exists());
}

#[test]
fn the_default_place_is_the_folder_of_the_unit() {
    let folder = Folder::new();
    let launch = lockgate().variable("RUNTIME_DIRECTORY", &text(folder.dir()));
    let gate = launch.start(&toml("{ mode = \"0640\" }"));
    let socket = folder.path("admin.sock");
    assert_eq!(mode(&socket), 0o640);
    // A command in the unit finds it too.
    let file = text(&gate.configuration());
    let shown = launch.run(&["status", "-c", &file]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    // A second one goes without, and the first keeps its socket.
    let second = launch.start(&toml("{}"));
    let warning = second.says("another Lockgate has the default admin socket");
    assert_eq!(warning["level"], "WARN");
    drop(second);
    assert_eq!(ask(&socket, "GET", "/v1/status", "").1["pid"], gate.pid());
}

#[test]
fn a_configured_place_that_is_taken_stops_the_start() {
    let folder = Folder::new();
    let place = |name: &str| {
        (
            folder.path(name),
            toml(&format!("\"unix:{}\"", text(&folder.path(name)))),
        )
    };
    let (living, first) = place("living.sock");
    let gate = lockgate().start(&first);
    let (other, second) = place("other.sock");
    let _listener = UnixListener::bind(&other).unwrap();
    for toml in [&first, &second] {
        let refused = lockgate().fail(toml);
        assert_eq!(refused.code, Some(1));
        assert!(
            refused.stderr.contains("error[E0107]"),
            "{}",
            refused.stderr
        );
        assert!(
            refused.stderr.contains("another path in `admin`"),
            "{}",
            refused.stderr
        );
    }
    assert_eq!(ask(&living, "GET", "/v1/status", "").1["pid"], gate.pid());
    // Nor does a missing folder do.
    let missing = lockgate().fail(&toml("\"unix:/nonexistent/admin.sock\""));
    assert!(
        missing.stderr.contains("mkdir -p /nonexistent"),
        "{}",
        missing.stderr
    );
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let folder = Folder::new();
    let file = folder.write("admin.sock", "precious");
    let launch = lockgate().variable("RUNTIME_DIRECTORY", &text(folder.dir()));
    for admin in [format!("\"unix:{}\"", text(&file)), "{}".to_owned()] {
        let refused = launch.fail(&toml(&admin));
        assert_eq!(refused.code, Some(1), "{admin}");
        assert!(
            refused.stderr.contains("is no socket"),
            "{admin}: {}",
            refused.stderr
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    }
}

#[test]
fn a_stale_socket_is_replaced() {
    let folder = Folder::new();
    let socket = folder.path("admin.sock");
    let toml = toml(&format!("\"unix:{}\"", text(&socket)));
    let killed = lockgate().start(&toml);
    killed.signal(Signal::KILL);
    killed.ended();
    assert!(socket.exists());
    let gate = lockgate().start(&toml);
    assert_eq!(ask(&socket, "GET", "/v1/status", "").1["pid"], gate.pid());
}

#[test]
fn an_unknown_group_stops_the_start() {
    let refused = lockgate().fail(&toml("{ group = \"no-such-group\" }"));
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("error[E0118]"),
        "{}",
        refused.stderr
    );
}

#[test]
fn commands_without_a_configuration_have_no_admin_socket() {
    let folder = Folder::new();
    let launch = lockgate().variable("RUNTIME_DIRECTORY", &text(folder.dir()));
    let gate = launch.command(&["proxy", "127.0.0.1:0", "127.0.0.1:9"]);
    gate.stderr()
        .find("it is ready", |line| line.contains(" ready ").then_some(()));
    assert_eq!(std::fs::read_dir(folder.dir()).unwrap().count(), 0);
}

#[test]
fn only_root_the_service_user_and_the_group_may_ask() {
    if !geteuid().is_root() {
        return println!("skipped: only root can be another user");
    }
    let folder = open_folder();
    let place = |name: &str| -> (PathBuf, String) {
        let path = folder.path(name);
        let at = format!("at = \"unix:{}\"", text(&path));
        (path, at)
    };
    // The permissions of the file keep others away.
    let (closed, at) = place("closed.sock");
    let _gate = lockgate().start(&toml(&format!("{{ {at} }}")));
    let denied = connect_as(NOBODY, &[], &closed).unwrap_err();
    assert_eq!(denied.kind(), std::io::ErrorKind::PermissionDenied);
    // Wide permissions do not let them in.
    let (wide, at) = place("wide.sock");
    let _wide = lockgate().start(&toml(&format!("{{ {at}, mode = \"0666\" }}")));
    let (status, refused) = status_of(connect_as(NOBODY, &[], &wide).unwrap());
    assert_eq!(
        (status, &refused["error"]["code"]),
        (403, &"forbidden".into())
    );
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("user 65534"),
        "{refused}"
    );
    // The user that the process has become.
    let (own, at) = place("own.sock");
    let user = format!("user = \"nobody\"\n{}", toml(&format!("{{ {at} }}")));
    let _own = lockgate().start(&user);
    let found = std::fs::metadata(&own).unwrap();
    assert_eq!((found.uid(), mode(&own)), (NOBODY, 0o600));
    assert_eq!(status_of(connect_as(NOBODY, &[], &own).unwrap()).0, 200);
    assert_eq!(status_of(UnixStream::connect(&own).unwrap()).0, 200);
    // A member of the group, which is not the first of its groups.
    let (shared, at) = place("shared.sock");
    let _shared = lockgate().start(&toml(&format!("{{ {at}, group = \"4242\" }}")));
    assert_eq!(mode(&shared), 0o660);
    assert_eq!(std::fs::metadata(&shared).unwrap().gid(), 4_242);
    assert!(connect_as(NOBODY, &[4_243], &shared).is_err());
    assert_eq!(
        status_of(connect_as(NOBODY, &[4_243, 4_242], &shared).unwrap()).0,
        200
    );
}
