//! A standard error that is not read: a log collector that hangs, a paused pipe.

use std::os::unix::net::UnixStream;

use lockgate_testkit::{Folder, Http, Origin, Signal, Wire, eventually};

use crate::scene::{deserted, lockgate, text};

const GET: &str = "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

#[test]
fn a_full_stderr_blocks_neither_workers_nor_main_thread() {
    let origin = Origin::tcp().answering(|_| OK.into());
    let endpoints = format!(
        "[\"{}\", \"{}\", \"{}\"]",
        origin.address(),
        deserted(),
        deserted()
    );
    let gate = lockgate().workers(2).start(&format!(
        "timeouts = {{ head = \"1s\" }}\n\
         [pool.app]\nendpoints = {endpoints}\nbalance = \"round-robin\"\neject = {{ errors = 1 }}\n\
         [site.\"app.test:0\"]\nlisten = [\"127.0.0.1\"]\nproxy = \"pool:app\"\n\
         [site.\"own.test:0\"]\nlisten = [\"127.0.0.2\"]\nrespond = \"own\"\n"
    ));
    gate.fill_stderr();
    // Lines from workers …
    eventually("an endpoint without a listener is ejected", || {
        let mut client = Http::connect(gate.at("127.0.0.1:0"));
        client.send(GET);
        assert_eq!(client.answer().status(), 200);
        (gate.sample("lockgate_upstream_ejections_total", &[]) > 0.5).then_some(())
    });
    // … and from the main thread.
    gate.signal(Signal::HUP);
    for _ in 0..20 {
        let mut client = Http::connect(gate.at("127.0.0.2:0"));
        client.send(GET.replace("app", "own"));
        assert_eq!(client.answer().text(), "own");
    }
    // The worker's alarm ends it.
    let mut slow = Wire::connect(gate.at("127.0.0.2:0"));
    slow.send("GET / HT");
    slow.rest();
    assert!(
        gate.metrics()
            .contains("lockgate_operator_log_lost_total 0\n")
    );
    gate.signal(Signal::TERM);
    assert!(
        gate.stdout().ended(),
        "it ends, though its last lines find no room"
    );
    gate.stderr().read_on();
    assert_eq!(gate.ended().code, Some(0));
}

/// A full disk, or a reader that has gone.
#[test]
fn a_failing_stderr_ends_nothing() {
    let folder = Folder::new();
    let socket = folder.path("metrics.sock");
    let toml = format!(
        "metrics = \"unix:{}\"\n[site.\"own.test:0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"own\"\n",
        socket.display()
    );
    let file = text(&folder.write("lockgate.toml", &toml));
    let gate = lockgate()
        .through(&["sh", "-c", "exec \"$@\" 2>/dev/full", "sh"])
        .command(&["run", "-c", &file]);
    let lost = || {
        let mut client = Http::over(UnixStream::connect(&socket).ok()?);
        client.send("GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n");
        let answer = client.answer();
        let line = answer
            .text()
            .lines()
            .find_map(|line| line.strip_prefix("lockgate_operator_log_lost_total "));
        line?.parse::<u64>().ok()
    };
    let before = eventually("the lines of the start are lost", || {
        lost().filter(|lost| *lost >= 3)
    });
    gate.signal(Signal::HUP);
    eventually("another line is lost", || {
        lost().filter(|lost| *lost > before)
    });
    assert_eq!(gate.stop().code, Some(0));
}
