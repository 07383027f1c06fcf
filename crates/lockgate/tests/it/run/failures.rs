//! Starts that must fail, and their messages: code, position, cause and cure.

use std::net::TcpListener;

use lockgate_testkit::{Folder, Origin, Wire};
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::scene::{NAME, Site, echoes, lockgate, plain, text};

/// Checks that a configuration fails the start with exit code 1, this code, and a caret below the
/// line that is at fault.
fn fails(toml: &str, code: &str, line: &str) -> String {
    let ended = lockgate().fail(toml);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains(&format!("error[{code}]")),
        "{}",
        ended.stderr
    );
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let at = lines.iter().position(|said| said.contains(line));
    let at = at.unwrap_or_else(|| panic!("{line:?} is not shown: {}", ended.stderr));
    assert!(
        lines[at + 1].contains('^'),
        "no caret below it: {}",
        ended.stderr
    );
    ended.stderr
}

#[test]
fn a_port_in_use_fails_the_start_with_its_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let key = format!("[tcp.\"{}\"]", taken.local_addr().unwrap());
    fails(&format!("{key}\nproxy = \"127.0.0.1:9\"\n"), "E0107", &key);
}

#[test]
fn a_port_in_use_with_reuseport_fails_the_start_too() {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseport(&socket, true).unwrap();
    rustix::net::bind(&socket, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&socket, 16).unwrap();
    let taken = TcpListener::from(socket);
    let key = format!("[tcp.\"{}\"]", taken.local_addr().unwrap());
    fails(&format!("{key}\nproxy = \"127.0.0.1:9\"\n"), "E0107", &key);
}

#[test]
fn too_few_descriptors_for_the_workers_fail_the_start() {
    // 60 workers need their own listening socket and three more descriptors each.
    let few = lockgate()
        .workers(60)
        .through(&["prlimit", "--nofile=160:160"]);
    let ended = few.fail(&plain("127.0.0.1:9"));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("os error 24"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("ready"), "{}", ended.stderr);
}

#[test]
fn two_lockgates_do_not_share_a_port() {
    let origin = Origin::tcp().echo();
    let gate = lockgate().workers(2).start(&plain(origin.address()));
    let key = format!("[tcp.\"{}\"]", gate.address());
    fails(&format!("{key}\nproxy = \"127.0.0.1:9\"\n"), "E0107", &key);
    echoes(
        &mut Wire::connect(gate.address()),
        "the first one serves on",
    );
}

#[test]
fn a_port_can_be_bound_again_right_after_a_stop() {
    let origin = Origin::tcp().echo();
    let gate = lockgate().workers(2).start(&plain(origin.address()));
    let address = gate.address();
    // We close first: without SO_REUSEADDR the port would be blocked for a minute (TIME_WAIT).
    let mut open = Wire::connect(address);
    echoes(&mut open, "hello");
    drop(gate);
    let again = lockgate().workers(2).start(&format!(
        "[tcp.\"{address}\"]\nproxy = \"{}\"\n",
        origin.address()
    ));
    assert_eq!(again.address(), address);
    echoes(&mut Wire::connect(address), "hello again");
}

#[test]
fn a_unix_socket_in_use_fails_the_start_unless_stale() {
    let folder = Folder::new();
    let path = folder.path("front.sock");
    let origin = Origin::tcp().echo();
    let key = format!("[tcp.\"unix:{}\"]", text(&path));
    let toml = format!("{key}\nproxy = \"{}\"\n", origin.address());
    let gate = lockgate().start(&toml);
    fails(&toml, "E0107", &key);
    echoes(&mut Wire::connect_unix(&path), "undisturbed");
    drop(gate); // killed: the file stays
    assert!(path.exists());
    let _gate = lockgate().start(&toml);
    echoes(&mut Wire::connect_unix(&path), "served again");
}

#[test]
fn a_regular_file_at_a_socket_path_is_never_removed() {
    let folder = Folder::new();
    let path = folder.write("precious", "content");
    let key = format!("[tcp.\"unix:{}\"]", text(&path));
    fails(&format!("{key}\nproxy = \"127.0.0.1:9\"\n"), "E0107", &key);
    assert_eq!(std::fs::read_to_string(path).unwrap(), "content");
}

#[test]
fn a_privileged_port_without_permission_names_cap_net_bind_service() {
    let floor = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap();
    if floor.trim().parse::<u16>().unwrap() <= 80 {
        return println!("skipped: here everybody may bind port 80");
    }
    let folder = Folder::new();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.dir(), open).unwrap();
    let file = folder.path("lockgate.toml");
    let key = "[tcp.\"127.0.0.1:80\"]";
    std::fs::write(&file, format!("{key}\nproxy = \"127.0.0.1:9\"\n")).unwrap();
    let mut launch = lockgate();
    if rustix::process::geteuid().is_root() {
        let nobody = [
            "setpriv",
            "--reuid=nobody",
            "--clear-groups",
            "--bounding-set=-all",
            "--inh-caps=-all",
        ];
        let works = std::process::Command::new(nobody[0])
            .args(&nobody[1..])
            .args([env!("CARGO_BIN_EXE_lockgate"), "version"])
            .status();
        if !works.is_ok_and(|status| status.success()) {
            return println!("skipped: the program cannot be run as nobody here");
        }
        launch = launch.through(&nobody);
    }
    let ended = launch.run(&["run", "-c", &text(&file)]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("error[E0108]") && ended.stderr.contains(key),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("CAP_NET_BIND_SERVICE"),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_unknown_user_fails_the_start() {
    let ended = lockgate().fail(&("user = \"no-such-user\"\n".to_owned() + &plain("127.0.0.1:9")));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("error[E0110]") && ended.stderr.contains("no-such-user"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_mismatched_private_key_fails_the_start() {
    let site = Site::new();
    let other = site
        .folder
        .write("other.key", site.authority.issue(&[NAME]).key_pem());
    let toml = site.tls("127.0.0.1:9", &format!(", key = \"{}\"", text(&other)));
    let said = fails(&toml, "E0103", "tls = {");
    assert!(
        said.contains(&text(&other)) || said.contains("other.key"),
        "{said}"
    );
}

#[test]
fn all_unusable_certificates_and_keys_are_named_at_once() {
    let folder = Folder::new();
    let site = Site::new();
    let empty = folder.write("empty.pem", "");
    let bare = folder.write("bare.crt", site.issued.pem());
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\ntls = \"{}\"\nproxy = \"127.0.0.1:9\"\n\
         [tcp.\"127.0.0.2:0\"]\ntls = \"{}\"\nproxy = \"127.0.0.1:9\"\n\
         [tcp.\"127.0.0.3:0\"]\ntls = \"{}\"\nproxy = \"127.0.0.1:9\"\n",
        text(&folder.path("missing.pem")),
        text(&empty),
        text(&bare),
    );
    let ended = lockgate().fail(&toml);
    assert_eq!(ended.code, Some(1));
    for said in [
        "missing.pem",
        "empty.pem",
        "bare.crt",
        "error[E0101]",
        "error[E0102]",
    ] {
        assert!(ended.stderr.contains(said), "{said} in {}", ended.stderr);
    }
}

#[test]
fn an_expired_certificate_is_a_warning() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let expired = site
        .folder
        .certificate("expired.pem", &site.authority.issue_expired(&[NAME]));
    let toml = format!(
        "[tcp.\"127.0.0.1:0\"]\ntls = \"{expired}\"\nproxy = \"{}\"\n",
        origin.address()
    );
    let gate = lockgate().start(&toml);
    let said = gate.stderr().text();
    assert!(
        said.contains("W0101") && said.contains("expired.pem"),
        "{said}"
    );
    let refused = site.client().connect(gate.address(), NAME).unwrap_err();
    assert!(refused.to_string().contains("expired"), "{refused}");
}

#[test]
fn invalid_ticket_keys_fail_the_start() {
    let site = Site::new();
    for content in ["", "short\n", "# only words\n"] {
        let file = site.folder.write("tickets", content);
        let ended = lockgate().fail(&site.tls(
            "127.0.0.1:9",
            &format!(", tickets = {{ keys = \"{}\" }}", text(&file)),
        ));
        assert_eq!(ended.code, Some(1), "{content:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("error[E0105]"), "{}", ended.stderr);
    }
}

#[test]
fn an_unwritable_access_log_or_state_fails_the_start() {
    let folder = Folder::new();
    let file = folder.write("file", "");
    for (key, code) in [("access_log", "E0112"), ("state", "E0111")] {
        let ended = lockgate()
            .fail(&(format!("{key} = \"{}/below\"\n", text(&file)) + &plain("127.0.0.1:9")));
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(code), "{}", ended.stderr);
    }
}

#[test]
fn a_metrics_address_in_use_fails_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let ended = lockgate().fail(&(format!("metrics = \"{address}\"\n") + &plain("127.0.0.1:9")));
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("E0107") && ended.stderr.contains(&address.to_string()),
        "{}",
        ended.stderr
    );
}
