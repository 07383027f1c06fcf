//! `doctor`: what it finds on real sockets, files and processes.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use lockgate_testkit::{Authority, Folder, Http, Launch, Origin, RunResult, Wire, eventually};
use serde_json::Value;

use crate::http::plain_site;
use crate::scene::{NAME, lockgate, own_host, plain, text};

/// A configuration in a folder, and a program that examines it.
struct Patient {
    folder: Folder,
    launch: Launch,
}

impl Patient {
    /// One with this configuration; `{dir}` in it is the folder.
    fn new(toml: &str) -> Self {
        let patient = Self {
            folder: Folder::new(),
            launch: lockgate(),
        };
        patient.rewrite(toml);
        patient
    }

    fn rewrite(&self, toml: &str) {
        let toml = toml.replace("{dir}", &text(self.folder.dir()));
        let more = if toml.contains("state =") {
            ""
        } else {
            "state = false\n"
        };
        self.folder.write("lockgate.toml", more.to_owned() + &toml);
    }

    fn run(&self, more: &[&str]) -> RunResult {
        let file = text(&self.folder.path("lockgate.toml"));
        self.launch.run(&[&["doctor", "-c", &file], more].concat())
    }

    fn findings(&self) -> Vec<Value> {
        findings(&self.run(&["--json"]))
    }
}

fn findings(ended: &RunResult) -> Vec<Value> {
    let value: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}{}", ended.stdout, ended.stderr);
    });
    value["findings"].as_array().unwrap().clone()
}

/// The findings of a group about a thing, each with its level and what was found.
fn about<'a>(findings: &'a [Value], group: &str, what: &str) -> Vec<(&'a str, &'a str)> {
    let chosen = findings
        .iter()
        .filter(|one| one["group"] == group && one["what"].as_str().unwrap().contains(what));
    let word = |value: &'a Value| value.as_str().unwrap();
    chosen
        .map(|one| (word(&one["level"]), word(&one["found"])))
        .collect()
}

/// The only finding about a thing.
fn only<'a>(findings: &'a [Value], group: &str, what: &str) -> (&'a str, &'a str) {
    let found = about(findings, group, what);
    assert_eq!(found.len(), 1, "{group} {what}: {findings:#?}");
    found[0]
}

#[test]
fn a_port_of_another_process_is_a_problem_with_its_name() {
    let taken = TcpListener::bind((own_host(), 0)).unwrap();
    let address = taken.local_addr().unwrap();
    let patient = Patient::new(&format!("[tcp.\"{address}\"]\nproxy = \"127.0.0.1:9\"\n"));
    let ended = patient.run(&["--json"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    let all = findings(&ended);
    let (level, found) = only(&all, "ports", &address.to_string());
    assert_eq!(level, "problem");
    let own = format!("(process {})", std::process::id());
    assert!(found.contains(&own), "{found}");
    let ended = patient.run(&[]);
    let line = format!("  problem  {address}  held by ");
    assert!(ended.stdout.contains(&line), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("stop that program"),
        "{}",
        ended.stdout
    );
    drop(taken);
    let all = patient.findings();
    let found = only(&all, "ports", &address.to_string());
    assert_eq!(found, ("ok", "free, and can be bound"));
}

#[test]
fn a_running_lockgate_tells_ports_and_the_limit_reached_first() {
    let folder = Folder::new();
    let socket = text(&folder.path("admin.sock"));
    let origin = Origin::tcp();
    let toml = format!(
        "admin = \"unix:{socket}\"\nlimits = {{ connections = 4 }}\n{}",
        plain(&origin.address())
    );
    let gate = lockgate().start(&toml);
    let held = [(); 3].map(|()| {
        let mut client = Wire::connect(gate.address());
        client.send("ping");
        let mut upstream = origin.accept();
        upstream.expect("ping");
        (client, upstream)
    });
    let file = text(&gate.configuration());
    let ended = lockgate().run(&["doctor", "-c", &file, "--json"]);
    let all = findings(&ended);
    let (level, found) = only(&all, "ports", "127.0.0.1:0");
    let pid = format!("(process {})", gate.pid());
    assert_eq!(level, "ok");
    assert!(found.contains(&pid), "{found}");
    assert!(found.contains(&gate.address().to_string()), "{found}");
    let (_, first) = only(&all, "limits", "reached first");
    assert!(first.starts_with("connections: "), "{first}");
    let (level, found) = only(&all, "limits", "connections");
    assert!(["note", "warning"].contains(&level), "{found}");
    assert!(found.contains(" of 4 in use"), "{found}");
    drop(held);
    // A port that is in the file, and not yet in the process.
    let new = TcpListener::bind((own_host(), 0)).unwrap();
    let address = new.local_addr().unwrap();
    drop(new);
    gate.rewrite(&format!(
        "{toml}[tcp.\"{address}\"]\nproxy = \"127.0.0.1:9\"\n"
    ));
    let ended = lockgate().run(&["doctor", "-c", &file, "--json"]);
    let all = findings(&ended);
    let (level, found) = only(&all, "ports", &address.to_string());
    assert_eq!(level, "note");
    assert!(found.contains("does not listen there"), "{found}");
}

#[test]
fn doctor_connects_to_sites_and_metrics_and_never_through_relays() {
    let folder = Folder::new();
    let socket = text(&folder.path("admin.sock"));
    let origin = Origin::tcp();
    let gate = lockgate().start(&format!(
        "admin = \"unix:{socket}\"\n[tcp.\"127.0.0.2:0\"]\nproxy = \"{}\"\n{}",
        origin.address(),
        plain_site("127.0.0.1:9")
    ));
    let file = text(&gate.configuration());
    let ended = lockgate().run(&["doctor", "-c", &file, "--json"]);
    let all = findings(&ended);
    let (level, found) = only(&all, "ports", "127.0.0.2:0");
    assert_eq!(level, "ok");
    assert!(
        found.ends_with(&gate.at("127.0.0.2:0").to_string()),
        "{found}"
    );
    let reached = about(&all, "ports", "127.0.0.1:0");
    assert!(
        reached
            .iter()
            .any(|(_, found)| found.ends_with("reached from here")),
        "{all:#?}"
    );
    // The first connection to the origin is that of this client.
    let mut client = Wire::connect(gate.at("127.0.0.2:0"));
    client.send("ping");
    origin.accept().expect("ping");
}

#[test]
fn addresses_that_exclude_each_other_fail_as_the_start_does() {
    let free = TcpListener::bind((own_host(), 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let toml = format!(
        "[tcp.\":{port}\"]\nproxy = \"127.0.0.1:9\"\n[tcp.\"127.0.0.1:{port}\"]\nproxy = \"127.0.0.1:9\"\n"
    );
    let ended = Patient::new(&toml).run(&["--json"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    let all = findings(&ended);
    let mut found = about(&all, "ports", &format!(":{port}"));
    found.sort_unstable();
    assert_eq!(found[0], ("ok", "free, and can be bound"));
    assert_eq!(found[1].0, "problem");
    assert!(found[1].1.contains("E0107"), "{found:?}");
    let start = lockgate().fail(&toml);
    assert!(start.stderr.contains("error[E0107]"), "{}", start.stderr);
}

#[test]
fn an_address_that_a_reload_cannot_bind_is_a_problem() {
    let folder = Folder::new();
    let socket = text(&folder.path("admin.sock"));
    let toml = format!("admin = \"unix:{socket}\"\n");
    let gate = lockgate().start(&format!("{toml}{}", plain("127.0.0.1:9")));
    let address = format!(":{}", gate.address().port());
    gate.rewrite(&format!(
        "{toml}[tcp.\"{address}\"]\nproxy = \"127.0.0.1:9\"\n"
    ));
    let file = text(&gate.configuration());
    let all = findings(&lockgate().run(&["doctor", "-c", &file, "--json"]));
    let (level, found) = only(&all, "ports", &address);
    assert_eq!(level, "problem");
    assert!(found.contains("a reload fails with E0107"), "{found}");
    let reload = lockgate().run(&["reload", "--admin", &socket]);
    assert!(reload.stderr.contains("E0107"), "{}", reload.stderr);
}

#[test]
fn an_answer_from_another_pid_namespace_gives_no_figures_of_proc() {
    let folder = Folder::new();
    let path = folder.path("admin.sock");
    // As a Lockgate in a container says of itself.
    let _serving = Origin::unix(&path).serve(|wire| {
        let mut asked = Http::over(wire);
        if !asked.line().contains("/v1/") {
            return;
        }
        let body = "{\"version\":\"0.1.0\",\"pid\":1,\"phase\":\"ready\"}";
        asked.send(format!(
            "HTTP/1.1 200 OK\r\nserver: lockgate/0.1.0\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ));
    });
    let toml = format!("admin = \"unix:{}\"\n{}", text(&path), plain("127.0.0.1:9"));
    let all = Patient::new(&toml).findings();
    let (level, found) = only(&all, "configuration", "process");
    assert_eq!(level, "note");
    assert!(found.contains("not known"), "{found}");
    let (_, found) = only(&all, "system", "open descriptors");
    assert!(found.contains("of this shell"), "{found}");
    assert!(about(&all, "limits", "open descriptors").is_empty());
}

#[test]
fn a_lockgate_of_another_name_is_no_foreign_program() {
    let folder = Folder::new();
    let renamed = folder.path("gate-of-last-week");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lockgate"), &renamed).unwrap();
    let gate =
        Launch::new(&text(&renamed)).start(&format!("admin = false\n{}", plain("127.0.0.1:9")));
    let address = gate.address();
    let all = Patient::new(&format!(
        "admin = false\n[tcp.\"{address}\"]\nproxy = \"127.0.0.1:9\"\n"
    ));
    let ended = all.run(&[]);
    assert!(
        ended.stdout.contains("held by a Lockgate") && !ended.stdout.contains("--admin"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains("remove admin = false"),
        "{}",
        ended.stdout
    );
}

#[test]
fn peaks_of_the_last_hour_stand_in_the_status() {
    let folder = Folder::new();
    let socket = text(&folder.path("admin.sock"));
    let gate = lockgate().start(&format!(
        "admin = \"unix:{socket}\"\n{}",
        plain_site("127.0.0.1:9")
    ));
    let mut client = Http::connect(gate.at("127.0.0.1:0"));
    client.send("GET / HTTP/1.1\r\nhost: a.test\r\n\r\n");
    assert_eq!(client.answer().status(), 502);
    let shown = lockgate().run(&["status", "--admin", &socket, "--json"]);
    let status: Value = serde_json::from_str(&shown.stdout).unwrap();
    let limits = &status["limits"];
    assert_eq!(limits["connections"]["peak"], 1, "{limits}");
    assert!(limits["memory"]["peak"].as_u64().unwrap() > 0, "{limits}");
    assert!(limits["peak_seconds"].is_u64(), "{limits}");
}

#[test]
fn without_a_running_lockgate_the_limits_are_those_of_a_start() {
    let toml = format!("limits = {{ connections = 100 }}\n{}", plain("127.0.0.1:9"));
    let all = Patient::new(&toml).findings();
    let (level, found) = only(&all, "configuration", "running Lockgate");
    assert_eq!(level, "note");
    assert!(found.starts_with("not asked: "), "{found}");
    let (_, found) = only(&all, "limits", "connections");
    assert_eq!(found, "100, by limits.connections");
}

#[test]
fn too_few_descriptors_are_a_warning_which_strict_fails() {
    let mut patient = Patient::new(&format!(
        "limits = {{ connections = 1000 }}\n{}",
        plain("127.0.0.1:9")
    ));
    patient.launch = lockgate().through(&["prlimit", "--nofile=300"]);
    let ended = patient.run(&["--json"]);
    let all = findings(&ended);
    let (level, found) = only(&all, "system", "open descriptors");
    assert_eq!(level, "warning");
    assert!(found.starts_with("300 (of this shell"), "{found}");
    assert!(found.ends_with("limits.connections is 1000"), "{found}");
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    assert_eq!(patient.run(&["--strict"]).code, Some(1));
}

#[test]
fn flaws_of_certificates_and_keys_are_found() {
    let authority = Authority::new("Test Authority");
    let patient = Patient::new("");
    let folder = &patient.folder;
    let good = folder.certificate("good.pem", &authority.issue(&[NAME]));
    let expired = folder.certificate("old.pem", &authority.issue_expired(&["old.test"]));
    let open = authority.issue(&["open.test"]);
    folder.write("open.pem", open.pem());
    let key = folder.write("open.key", open.key_pem());
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).unwrap();
    std::fs::set_permissions(folder.dir(), PermissionsExt::from_mode(0o755)).unwrap();
    let stray = Authority::new("Stray Authority").pem();
    let chain = authority.issue(&["chain.test"]).both() + &stray;
    let chain = text(&folder.write("chain.pem", chain));
    // The same key, under another name.
    folder.write("twin.pem", open.pem());
    patient.rewrite(&format!(
        "[tcp.\"127.0.0.1:0\"]\ntls = {{ certs = [\"{good}\", \"{expired}\", \"{chain}\", \
         {{ cert = \"{{dir}}/open.pem\", key = \"{{dir}}/open.key\" }}, \
         {{ cert = \"{{dir}}/twin.pem\", key = \"{{dir}}/open.key\" }}] }}\nproxy = \"127.0.0.1:9\"\n"
    ));
    let ended = patient.run(&["--json"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    let all = findings(&ended);
    assert_eq!(only(&all, "certificates", "good.pem").0, "ok");
    let (level, found) = only(&all, "certificates", "old.pem");
    assert_eq!(level, "problem");
    assert!(
        found.starts_with("expired ") && found.contains("old.test"),
        "{found}"
    );
    let (level, found) = only(&all, "certificates", "open.key");
    assert_eq!(level, "warning");
    assert!(found.contains("every user"), "{found}");
    let chain: Vec<_> = about(&all, "certificates", "lockgate.toml")
        .into_iter()
        .filter(|(_, found)| found.contains("is not followed by its issuer's"))
        .collect();
    assert!(
        matches!(&chain[..], [("warning", found)] if found.contains("chain.pem")),
        "{all:#?}"
    );
    let (level, found) = only(&all, "certificates", "shared key");
    assert_eq!(level, "note");
    assert!(
        found.contains("open.pem") && found.contains("twin.pem"),
        "{found}"
    );
    // In a folder that no other user can search.
    std::fs::set_permissions(folder.dir(), PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!(about(&patient.findings(), "certificates", "open.key"), []);
}

#[test]
fn a_name_without_an_address_cannot_be_validated() {
    let patient = Patient::new(
        "state = \"{dir}/state\"\nports = { http = 0, https = 0 }\n\
         [acme]\nemail = \"a@example.com\"\ndirectory = \"https://127.0.0.1:9/directory\"\n\
         [site.\"shop.invalid\"]\nrespond = \"a\"\n\
         [site.\"plain.test:0\"]\nrespond = \"b\"\ntls = false\n",
    );
    let ended = patient.run(&["--json"]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    let all = findings(&ended);
    let (level, found) = only(&all, "names", "shop.invalid");
    assert_eq!(level, "problem");
    // The answer is doctor's own: the resolver of this machine is not asked.
    assert!(found.contains("(RFC 6761)"), "{found}");
    assert!(found.ends_with("no authority can validate it"), "{found}");
    assert_eq!(only(&all, "names", "local names").0, "ok");
    assert_eq!(only(&all, "names", "validation").0, "note");
    let (level, found) = only(&all, "certificates", "shop.invalid");
    assert_eq!((level, found), ("note", "no certificate yet"));
    assert!(!patient.folder.path("state").exists(), "nothing is made");
}

#[test]
fn a_name_that_ddns_sets_needs_no_record_before_the_start() {
    let folder = Folder::new();
    let toml = format!(
        "admin = \"unix:{}\"\nstate = \"{}\"\nports = {{ http = 0, https = 0 }}\n\
         [acme]\nemail = \"a@example.com\"\ndirectory = \"https://127.0.0.1:9/directory\"\n\
         [ddns]\nnames = [\"shop.invalid\"]\nipv4 = \"interface:nowhere0\"\nipv6 = false\n\
         dns = {{ provider = \"exec\", command = [\"/bin/false\"] }}\n\
         [site.\"shop.invalid\"]\nrespond = \"a\"\n",
        text(&folder.path("admin.sock")),
        text(&folder.path("state")),
    );
    let all = Patient::new(&toml).findings();
    let (level, found) = only(&all, "names", "shop.invalid");
    assert_eq!(level, "note");
    assert!(
        found.ends_with("`[ddns]` sets it once Lockgate runs"),
        "{found}"
    );
    let gate = lockgate().start(&toml);
    let file = text(&gate.configuration());
    let found = eventually("the reason of the running Lockgate", || {
        let ended = lockgate().run(&["doctor", "-c", &file, "--json"]);
        let all = findings(&ended);
        let (level, found) = only(&all, "names", "shop.invalid");
        (level == "problem").then(|| found.to_owned())
    });
    assert!(
        found.contains("`[ddns]` has failed: no address of this machine"),
        "{found}"
    );
}

#[test]
fn an_address_that_is_not_of_this_machine_is_noted() {
    // RFC 5737: no machine has it.
    let all = Patient::new(
        "[site.\"203.0.113.7:8080\"]\nrespond = \"a\"\n[site.\"127.0.0.1:8080\"]\nrespond = \"b\"\n",
    )
    .findings();
    let (level, found) = only(&all, "names", "203.0.113.7");
    assert_eq!(level, "note");
    assert!(
        found.starts_with("203.0.113.7, not of this machine"),
        "{found}"
    );
    let here = only(&all, "names", "127.0.0.1");
    assert_eq!(here, ("ok", "127.0.0.1, of this machine"));
}

#[test]
fn a_state_folder_that_the_user_cannot_write_is_a_problem() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can become another user");
    }
    let patient = Patient::new(&format!(
        "user = \"nobody\"\nstate = \"{{dir}}\"\n{}",
        plain("127.0.0.1:9")
    ));
    std::fs::set_permissions(patient.folder.dir(), PermissionsExt::from_mode(0o755)).unwrap();
    let all = patient.findings();
    let found = about(&all, "disk", "(state)");
    let refused =
        |one: &&(&str, &str)| one.0 == "problem" && one.1.starts_with("cannot be written");
    assert!(found.iter().any(|one| refused(&one)), "{all:#?}");
    // One that is missing is made by root, for the user.
    patient.rewrite(&format!(
        "user = \"nobody\"\nstate = \"{{dir}}/state\"\n{}",
        plain("127.0.0.1:9")
    ));
    let ended = patient.run(&["--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    let all = findings(&ended);
    let found = about(&all, "disk", "(state)");
    assert!(
        found.contains(&("ok", "not there yet: a start makes it")),
        "{found:?}"
    );
    assert!(!patient.folder.path("state").exists(), "nothing is made");
}

#[test]
fn a_broken_configuration_gets_the_report_of_check() {
    let patient = Patient::new("[tcp.\"127.0.0.1:0\"]\nproxxy = \"127.0.0.1:9\"\n");
    let ended = patient.run(&[]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("error[E0"), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    let ended = patient.run(&["--json"]);
    let value: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(value["report"]["errors"].as_u64() > Some(0), "{value}");
    assert_eq!(patient.run(&["--jsn"]).code, Some(2));
}
