//! Completion scripts, manual pages, and the health check of containers.

use lockgate_testkit::{Folder, Origin, Signal, Wire};

use crate::scene::{deserted, lockgate, plain, text};

#[test]
fn completion_scripts_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let ended = lockgate().run(&["completion", shell]);
        assert_eq!(ended.code, Some(0), "{shell}: {}", ended.stderr);
        for word in ["healthcheck", "completion", "tunnel", "strict"] {
            assert!(ended.stdout.contains(word), "{shell} has no {word}");
        }
    }
    let ended = lockgate().run(&["completion", "cmd"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("zsh"), "{}", ended.stderr);
}

#[test]
fn bash_can_read_its_completion_script() {
    let script = lockgate().run(&["completion", "bash"]).stdout;
    let folder = Folder::new();
    let file = text(&folder.write("lockgate", script));
    let read = std::process::Command::new("bash")
        .args(["-n", &file])
        .output()
        .unwrap();
    assert!(read.status.success(), "{read:?}");
}

#[test]
fn manual_pages_are_roff_for_the_program_and_its_commands() {
    let program = lockgate().run(&["man"]);
    assert_eq!(program.code, Some(0), "{}", program.stderr);
    assert!(
        program.stdout.contains(".TH lockgate 1"),
        "{}",
        program.stdout
    );
    assert!(program.stdout.contains("healthcheck"), "{}", program.stdout);
    for (word, title) in [
        ("check", ".TH lockgate-check 1"),
        // An alias of it.
        ("validate", ".TH lockgate-check 1"),
        ("load", ".TH lockgate-load 1"),
    ] {
        let page = lockgate().run(&["man", word]);
        assert!(page.stdout.contains(title), "{word}: {}", page.stdout);
    }
    let unknown = lockgate().run(&["man", "fly"]);
    assert_eq!(unknown.code, Some(2));
    assert!(
        unknown.stderr.contains("no such command"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn healthcheck_reports_ready_draining_and_gone() {
    let origin = Origin::tcp().echo();
    let gate =
        lockgate().start(&("drain = { delay = \"1h\" }\n".to_owned() + &plain(origin.address())));
    let url = format!("http://{}/ready", gate.metrics_address());
    let check = || lockgate().run(&["healthcheck", "--url", &url]);
    let ready = check();
    assert_eq!(
        (ready.code, &*ready.stdout),
        (Some(0), "ready"),
        "{}",
        ready.stderr
    );
    gate.signal(Signal::TERM);
    gate.says("draining");
    let draining = check();
    assert_eq!(draining.code, Some(1));
    assert!(
        draining.stderr.contains("not ready: 503 draining"),
        "{}",
        draining.stderr
    );
    drop(gate);
    let gone = check();
    assert_eq!(gone.code, Some(1));
    assert!(gone.stderr.contains("cannot connect"), "{}", gone.stderr);
}

#[test]
fn healthcheck_finds_the_metrics_address_in_the_configuration() {
    let folder = Folder::new();
    let socket = text(&folder.path("metrics.sock"));
    let gate = lockgate().start(&format!(
        "metrics = \"unix:{socket}\"\n{}",
        plain("127.0.0.1:9")
    ));
    let file = text(&gate.configuration());
    let checked = lockgate().run(&["healthcheck", "-c", &file]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    let by_variable = lockgate().variable("LOCKGATE_CONFIG", &file);
    assert_eq!(by_variable.run(&["healthcheck"]).code, Some(0));
    // A mistake elsewhere in the file is not the health of the process.
    let broken = format!("metrics = \"unix:{socket}\"\nworkerz = 1\n");
    let broken = text(&folder.write("broken.toml", broken));
    assert_eq!(
        lockgate().run(&["healthcheck", "-c", &broken]).code,
        Some(0)
    );
    // Every address of the machine is reached by loopback.
    let port = deserted().port();
    let toml = format!("metrics = \":{port}\"\n{}", plain("127.0.0.1:9"));
    let second = lockgate().start(&toml);
    let file = text(&second.configuration());
    assert_eq!(lockgate().run(&["healthcheck", "-c", &file]).code, Some(0));
}

#[test]
fn healthcheck_fails_without_an_address_or_an_answer() {
    let folder = Folder::new();
    let none = text(&folder.write(
        "none.toml",
        format!("admin = false\n{}", plain("127.0.0.1:9")),
    ));
    let origin = Origin::tcp();
    let silent = format!("http://{}/", origin.address());
    for (arguments, code, says) in [
        (
            vec!["healthcheck", "-c", &none],
            1,
            "there is no metrics address",
        ),
        (
            vec!["healthcheck", "-c", "/nonexistent.toml"],
            1,
            "cannot be read",
        ),
        (
            vec!["healthcheck", "--url", "https://localhost/"],
            2,
            "http://127.0.0.1:9090/ready",
        ),
        (
            vec!["healthcheck", "--url", &silent, "-c", &none],
            2,
            "cannot be used with",
        ),
    ] {
        let ended = lockgate().run(&arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.stderr);
        assert!(
            ended.stderr.contains(says),
            "{arguments:?}: {}",
            ended.stderr
        );
    }
    // A program that is none of ours ends the connection.
    let closed = std::thread::scope(|scope| {
        let checked = scope.spawn(|| lockgate().run(&["healthcheck", "--url", &silent]));
        let wire: Wire = origin.accept();
        drop(wire);
        checked.join().unwrap()
    });
    assert_eq!(closed.code, Some(1), "{}", closed.stderr);
}
