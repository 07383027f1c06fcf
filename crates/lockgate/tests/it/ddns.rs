//! Names that are kept at this machine's address: with a server that tells the address, and a primary
//! server that takes updates.

pub(crate) mod zone_server;

use std::sync::{Arc, Mutex};

use lockgate_testkit::{Lockgate, Origin, Serving, eventually};

use crate::admin::ask;
use crate::scene::{lockgate, text};
use zone_server::{SECRET, ZoneServer};

/// A server that tells an address, which tests change.
pub(crate) struct AddressServer {
    told: Arc<Mutex<String>>,
    serving: Serving,
}

impl AddressServer {
    pub(crate) fn start(address: &str) -> Self {
        let told = Arc::new(Mutex::new(address.to_owned()));
        let shared = Arc::clone(&told);
        let serving = Origin::tcp().answering(move |_| {
            let body = format!("{{\"ip\": \"{}\"}}\n", shared.lock().unwrap());
            let length = body.len();
            format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
        });
        Self { told, serving }
    }

    pub(crate) fn tell(&self, address: &str) {
        *self.told.lock().unwrap() = address.to_owned();
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.serving.address())
    }
}

/// `[ddns]` with these names, by the server's updates.
pub(crate) fn ddns(zone: &ZoneServer, addresses: &AddressServer, names: &str) -> String {
    format!(
        "[ddns]\nnames = {names}\nipv4 = \"{}\"\nipv6 = false\nevery = \"1s\"\n\
         dns = {{ provider = \"rfc2136\", server = \"{}\", key = \"lockgate\", secret = \"{SECRET}\", \
         zone = \"example.org\" }}\n",
        addresses.url(),
        zone.address,
    )
}

const RESPOND: &str = "[site.\"127.0.0.1:0\"]\nrespond = \"ok\"\n";

/// Waits until a name has this address alone.
fn wait(zone: &ZoneServer, name: &str, address: &str) {
    eventually(&format!("{name} is at {address}"), || {
        (zone.addresses(name) == [address]).then_some(())
    });
}

/// Waits until the metrics show this address of a name.
pub(crate) fn wait_shown(gate: &Lockgate, name: &str, address: &str) {
    let labels = [
        &*format!("name=\"{name}\""),
        &*format!("address=\"{address}\""),
    ];
    eventually(&format!("{name} is shown at {address}"), || {
        (gate.sample("lockgate_ddns_address_info", &labels) == 1.0).then_some(())
    });
}

fn updates(gate: &Lockgate, name: &str) -> f64 {
    gate.sample(
        "lockgate_ddns_updates_total",
        &[&format!("name=\"{name}\"")],
    )
}

#[test]
fn names_follow_the_address_with_one_update_each() {
    let (zone, addresses) = (ZoneServer::start(), AddressServer::start("8.8.4.4"));
    let names = ["home.example.org", "*.home.example.org"];
    zone.set_addresses("home.example.org", &["192.0.2.1", "192.0.2.2"]);
    let listed = "[\"home.example.org\", \"*.home.example.org\"]";
    let gate = lockgate().start(&format!("{}{RESPOND}", ddns(&zone, &addresses, listed)));
    for (count, address) in [(1, "8.8.4.4"), (2, "9.9.9.9"), (3, "8.8.4.4")] {
        addresses.tell(address);
        for name in names {
            wait(&zone, name, address);
            wait_shown(&gate, name, address);
            assert_eq!(updates(&gate, name), f64::from(count));
        }
        let expected: Vec<_> = names
            .iter()
            .map(|name| format!("{name} {address}"))
            .collect();
        let made = zone.updates();
        assert_eq!(made.len(), 2 * usize::try_from(count).unwrap());
        assert_eq!(made[made.len() - 2..], expected);
    }
    gate.says("the name was set to this machine's address");
}

#[test]
fn names_that_are_right_are_not_updated() {
    let (zone, addresses) = (ZoneServer::start(), AddressServer::start("8.8.4.4"));
    zone.set_addresses("home.example.org", &["8.8.4.4"]);
    let listed = "[\"home.example.org\"]";
    let gate = lockgate().start(&format!("{}{RESPOND}", ddns(&zone, &addresses, listed)));
    wait_shown(&gate, "home.example.org", "8.8.4.4");
    assert!(zone.updates().is_empty());
    assert_eq!(updates(&gate, "home.example.org"), 0.0);
}

#[test]
fn an_alias_is_told_and_holds_up_no_other_name() {
    let (zone, addresses) = (ZoneServer::start(), AddressServer::start("8.8.4.4"));
    zone.set_alias("www.example.org", "home.example.org");
    let folder = lockgate_testkit::Folder::new();
    let socket = folder.path("admin.sock");
    let listed = "[\"www.example.org\", \"home.example.org\"]";
    let gate = lockgate().start(&format!(
        "admin = \"unix:{}\"\n{}{RESPOND}",
        text(&socket),
        ddns(&zone, &addresses, listed)
    ));
    wait(&zone, "home.example.org", "8.8.4.4");
    let told = gate.says("the name's address is not set");
    let why = "www.example.org is an alias (CNAME) of home.example.org: remove that record, or write the \
               name home.example.org instead";
    assert_eq!(told["error"], why);
    gate.wait_for_sample(
        "lockgate_ddns_failures_total",
        &["name=\"www.example.org\""],
        1.0,
    );
    let (_, status) = ask(&socket, "GET", "/v1/status", "");
    let names = status["names"].as_array().unwrap();
    assert_eq!(names[1]["failure"], why);
    let file = text(&gate.configuration());
    let shown = lockgate().run(&["status", "-c", &file]);
    assert!(
        shown
            .stdout
            .contains(&format!("name www.example.org: no address yet; {why}\n")),
        "{}",
        shown.stdout
    );
    assert!(zone.addresses("www.example.org").is_empty());
}

#[test]
fn status_says_why_a_name_has_no_address() {
    let (zone, addresses) = (ZoneServer::start(), AddressServer::start("8.8.4.4"));
    let folder = lockgate_testkit::Folder::new();
    let socket = folder.path("admin.sock");
    let nowhere = ddns(&zone, &addresses, "[\"home.example.org\"]")
        .replace(&addresses.url(), "interface:nowhere0");
    let gate = lockgate().start(&format!(
        "admin = \"unix:{}\"\n{nowhere}{RESPOND}",
        text(&socket)
    ));
    let why = eventually("a reason", || {
        let (_, status) = ask(&socket, "GET", "/v1/status", "");
        status["names"][0]["failure"].as_str().map(str::to_owned)
    });
    assert!(
        why.starts_with("no address of this machine can be published: IPv4: "),
        "{why}"
    );
    // It is gone with the first address.
    gate.rewrite(&format!(
        "admin = \"unix:{}\"\n{}{RESPOND}",
        text(&socket),
        ddns(&zone, &addresses, "[\"home.example.org\"]")
    ));
    gate.signal(lockgate_testkit::Signal::HUP);
    wait_shown(&gate, "home.example.org", "8.8.4.4");
    let (_, status) = ask(&socket, "GET", "/v1/status", "");
    assert!(status["names"][0]["failure"].is_null(), "{status}");
}

#[test]
fn a_reload_changes_the_names_that_are_kept() {
    let (zone, addresses) = (ZoneServer::start(), AddressServer::start("8.8.4.4"));
    let with = |names: &str| format!("{}{RESPOND}", ddns(&zone, &addresses, names));
    let gate = lockgate().start(&with("[\"a.example.org\"]"));
    wait(&zone, "a.example.org", "8.8.4.4");
    gate.rewrite(&with("[\"b.example.org\"]"));
    gate.signal(lockgate_testkit::Signal::HUP);
    wait_shown(&gate, "b.example.org", "8.8.4.4");
    assert!(!gate.metrics().contains("a.example.org"));
    // Its record stays, and is not changed any more.
    gate.rewrite(RESPOND);
    gate.signal(lockgate_testkit::Signal::HUP);
    eventually("no name is kept", || {
        (!gate.metrics().contains("lockgate_ddns")).then_some(())
    });
    assert_eq!(zone.addresses("a.example.org"), ["8.8.4.4"]);
    assert_eq!(zone.updates().len(), 2);
}

#[test]
fn check_tells_the_names_and_sources_of_ddns() {
    let (zone, addresses) = (ZoneServer::start(), AddressServer::start("8.8.4.4"));
    let folder = lockgate_testkit::Folder::new();
    let file = folder.path("lockgate.toml");
    let listed = "[\"a.example.org\", \"*.a.example.org\"]";
    std::fs::write(
        &file,
        format!("{}{RESPOND}", ddns(&zone, &addresses, listed)),
    )
    .unwrap();
    let checked = lockgate().run(&["check", "-v", "-c", &text(&file)]);
    let expected = format!(
        "dynamic DNS\n  names        a.example.org, *.a.example.org\n  set by       rfc2136\n  \
         IPv4         {}\n  IPv6         left alone\n  looked at    every 1s\n",
        addresses.url()
    );
    assert!(checked.stdout.contains(&expected), "{}", checked.stdout);
    assert!(!checked.stdout.contains(SECRET));
    assert!(zone.updates().is_empty());
}
