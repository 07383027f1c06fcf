//! Reloads that fail: nothing changes.

use std::net::TcpListener;

use lockgate_testkit::{Http, Signal};

use super::{FAILURE, RELOADS, get, reload, responding};
use crate::scene::lockgate;

#[test]
fn a_reload_with_mistakes_changes_nothing_and_is_counted() {
    let gate = lockgate().start(&responding("old"));
    let mut client = Http::connect(gate.address());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let failing = [
        (
            "a key",
            "workerz = 3\n".to_owned() + &responding("new"),
            "no key is called `workerz`",
        ),
        (
            "half a file",
            responding("new") + "[site.\"half",
            "the configuration file",
        ),
        (
            "a certificate",
            responding("new")
                + "[site.\"b.test:0\"]\nlisten = [\"127.0.0.1\"]\ntls = \"/no/such.pem\"\nrespond = 404\n",
            "no/such.pem",
        ),
        (
            "an address",
            responding("new") + &format!("[site.\"{taken}\"]\nrespond = 404\n"),
            "cannot listen on",
        ),
        (
            "an include",
            "include = [\"/no/such/file.toml\"]\n".to_owned() + &responding("new"),
            "no/such/file.toml",
        ),
    ];
    for (number, (what, toml, told)) in (1..).zip(failing) {
        gate.rewrite(&toml);
        gate.signal(Signal::HUP);
        gate.wait_for_sample(RELOADS, &[FAILURE], f64::from(number));
        gate.says(told);
        client.send(get("/"));
        assert_eq!(client.answer().body, b"old", "{what}");
        assert_eq!(
            gate.sample("lockgate_config_last_reload_successful", &[]),
            0.0
        );
    }
    reload(&gate, &responding("new"));
    client.send(get("/"));
    assert_eq!(client.answer().body, b"new");
    assert_eq!(
        gate.sample("lockgate_config_last_reload_successful", &[]),
        1.0
    );
}

#[test]
fn many_reloads_at_once_end_with_the_last_configuration() {
    let gate = lockgate().workers(2).start(&responding("0"));
    for number in 1..=20 {
        gate.rewrite(&responding(&number.to_string()));
        gate.signal(Signal::HUP);
    }
    let mut client = Http::connect(gate.address());
    lockgate_testkit::eventually("the last configuration runs", || {
        client.send(get("/"));
        (client.answer().body == b"20").then_some(())
    });
}

#[test]
fn keys_that_need_a_restart_are_reported_by_a_reload() {
    let gate = lockgate().start(&responding("old"));
    reload(&gate, &("workers = 2\n".to_owned() + &responding("new")));
    let said = gate.says("takes effect with the next start");
    assert_eq!(said["code"], "W0111");
}
