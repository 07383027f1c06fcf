//! Figures that are pushed: the same as those of `/metrics`, over reloads, away sinks and stops.

use std::collections::BTreeMap;
use std::net::UdpSocket;

use lockgate_testkit::exposition::parse;
use lockgate_testkit::{DEADLINE, Folder, Http, Lockgate, Origin, eventually};

use crate::reload::reload;
use crate::scene::{deserted, lockgate, text};

/// A site that responds by itself, with this `[export]`.
fn exporting(export: &str) -> String {
    format!(
        "[export]\n{export}\n[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = {{ body = \"hi\" }}\n"
    )
}

/// Asks the site so often, on one connection.
fn ask(gate: &Lockgate, times: usize) {
    let mut client = Http::connect(gate.address());
    for _ in 0..times {
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(client.answer().text(), "hi");
    }
}

/// The series of the last reading that was pushed in lines of Graphite.
fn series(lines: &str) -> BTreeMap<&str, f64> {
    let (_, time) = lines.trim_end().rsplit_once(' ').expect("a line");
    let mut series = BTreeMap::new();
    for line in lines.lines() {
        let fields: Vec<_> = line.split(' ').collect();
        let [name, value, at] = fields[..] else {
            panic!("a line has three fields: {line}");
        };
        if at == time {
            let known = series.insert(name, value.parse().unwrap());
            assert_eq!(known, None, "{name} comes twice");
        }
    }
    series
}

const REQUESTS: &str = "lockgate.requests_total.site._0.method.GET.code.2xx";

#[test]
fn graphite_gets_the_figures_of_metrics() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&exporting(&format!(
        "graphite = \"{}\"\nevery = \"1h\"",
        origin.address()
    )));
    ask(&gate, 3);
    gate.wait_for_sample("lockgate_requests_total", &[], 3.0);
    let families = parse(&gate.metrics());
    gate.stop();
    let pushed = String::from_utf8(origin.accept().rest()).unwrap();
    let pushed = series(&pushed);
    assert_eq!(pushed[REQUESTS], 3.0);
    // Every series of the same name, with each label and value as parts.
    let part = |text: &str| {
        let kept = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let replaced: String = text
            .chars()
            .map(|c| if kept(c) { c } else { '_' })
            .collect();
        if replaced.is_empty() {
            "_".to_owned()
        } else {
            replaced
        }
    };
    let mut compared = 0;
    for family in &families {
        for (name, labels, value) in &family.samples {
            let mut path = name.replacen("lockgate_", "lockgate.", 1);
            for (label, value) in labels {
                path += &format!(".{label}.{}", part(value));
            }
            let found = pushed.get(&*path);
            assert!(found.is_some(), "{path} was not pushed");
            // Counters of requests do not change between the two readings; others may.
            if name.starts_with("lockgate_request") {
                assert_eq!(found, Some(value), "{path}");
                compared += 1;
            }
        }
    }
    assert!(compared > 20, "{compared} series");
}

#[test]
fn statsd_gets_counts_and_gauges_in_datagrams() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let gate = lockgate().start(&exporting(&format!(
        "statsd = {{ address = \"{}\", tags = \"dogstatsd\", every = \"1h\" }}\n\
         except = [\"lockgate_memory\"]",
        socket.local_addr().unwrap()
    )));
    ask(&gate, 3);
    gate.wait_for_sample("lockgate_requests_total", &[], 3.0);
    gate.stop();
    let mut lines = Vec::new();
    // The order of families is that of `/metrics`: this one is behind the others that are looked for.
    while !lines
        .iter()
        .any(|line: &String| line.starts_with("lockgate.export_up:"))
    {
        let mut received = [0; 2_000];
        let length = socket.recv(&mut received).unwrap();
        assert!(length <= 1_432);
        let datagram = String::from_utf8(received[..length].to_vec()).unwrap();
        lines.extend(datagram.lines().map(str::to_owned));
    }
    let of = |name: &str| {
        let named = lines
            .iter()
            .filter(|line| line.starts_with(&format!("{name}:")));
        named.cloned().collect::<Vec<_>>()
    };
    assert_eq!(
        of("lockgate.requests_total"),
        ["lockgate.requests_total:3|c|#site::0,method:GET,code:2xx"]
    );
    assert_eq!(
        of("lockgate.request_duration_seconds_count"),
        ["lockgate.request_duration_seconds_count:3|c|#site::0"]
    );
    assert_eq!(of("lockgate.memory_bytes"), [""; 0]);
}

#[test]
fn influx_gets_lines_with_a_token_that_is_shown_nowhere() {
    let (origin, folder) = (Origin::tcp(), Folder::new());
    let token = text(&folder.write("token", "s3cret\n"));
    let export = format!(
        "influx = {{ url = \"http://{}/write?db=a&p=hidden\", token = \"${{file:{token}}}\" }}\n\
         every = \"3s\"",
        origin.address()
    );
    let gate = lockgate().start(&exporting(&export));
    let mut http = origin.http();
    let request = http.request();
    assert_eq!(request.first_line(), "POST /write?db=a&p=hidden HTTP/1.1");
    assert_eq!(request.field("authorization"), Some("Token s3cret"));
    assert!(request.text().contains("lockgate_build_info,host="));
    http.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 12\r\n\r\nunauthorized");
    let said = gate.says("figures cannot be pushed");
    assert_eq!(said["why"], "status 401: unauthorized");
    let shown = gate.metrics() + &gate.stderr().text();
    assert!(shown.contains(&format!("influx:{}", origin.address())));
    assert!(!shown.contains("s3cret") && !shown.contains("hidden"));
}

#[test]
fn a_receiver_that_comes_later_gets_the_figures_with_two_log_lines() {
    let address = deserted();
    let export = format!("graphite = \"{address}\"\nevery = \"1s\"");
    let gate = lockgate().start(&exporting(&export));
    gate.says("figures cannot be pushed");
    assert_eq!(gate.sample("lockgate_export_up", &[]), 0.0);
    let origin = Origin::tcp_at(address);
    let _wire = origin.accept();
    gate.says("figures are pushed again");
    gate.wait_for_sample("lockgate_export_up", &[], 1.0);
    assert!(gate.sample("lockgate_export_points_total", &[]) > 50.0);
    assert_eq!(gate.sample("lockgate_export_lost_points_total", &[]), 0.0);
    let about = gate.stderr().json();
    let about = about.iter().filter(|line| line["sink"].is_string()).count();
    assert_eq!(about, 2);
}

#[test]
fn a_reload_moves_a_receiver_and_ends_it_with_the_last_figures() {
    let (before, after) = (Origin::tcp(), Origin::tcp());
    let to = |origin: &Origin| {
        exporting(&format!(
            "graphite = \"{}\"\nevery = \"1h\"",
            origin.address()
        ))
    };
    let gate = lockgate().start(&to(&before));
    ask(&gate, 2);
    gate.wait_for_sample("lockgate_requests_total", &[], 2.0);
    reload(&gate, &to(&after));
    let pushed = String::from_utf8(before.accept().rest()).unwrap();
    assert_eq!(series(&pushed)[REQUESTS], 2.0);
    ask(&gate, 1);
    gate.wait_for_sample("lockgate_requests_total", &[], 3.0);
    gate.stop();
    let pushed = String::from_utf8(after.accept().rest()).unwrap();
    assert_eq!(series(&pushed)[REQUESTS], 3.0);
}

#[test]
fn requests_go_on_while_a_sink_never_reads() {
    let origin = Origin::tcp();
    // So many that a few readings fill the buffers of the kernel.
    let mut toml = exporting(&format!(
        "graphite = \"{}\"\nevery = \"1s\"",
        origin.address()
    ));
    for n in 0..600 {
        toml += &format!(
            "[site.\"s{n}.test:0\"]\nlisten = [\"127.0.0.1\"]\nrespond = {{ body = \"{n}\" }}\n"
        );
    }
    let gate = lockgate().start(&toml);
    let _silent = origin.accept();
    let said = gate.says("figures cannot be pushed");
    assert_eq!(said["why"], "it takes nothing for 1s");
    let lost = || {
        let reason = ["reason=\"queue_full\""];
        gate.sample("lockgate_export_lost_points_total", &reason)
    };
    eventually("points are lost", || (lost() > 0.0).then_some(()));
    ask(&gate, 3);
    assert_eq!(gate.stop().code, Some(0));
}

#[test]
fn authorities_of_sinks_that_cannot_be_read_are_mistakes() {
    let folder = Folder::new();
    let bad = [
        text(&folder.path("missing.pem")),
        text(&folder.write("empty.pem", "")),
    ];
    for ca in bad {
        for sink in [
            format!("influx = {{ url = \"https://127.0.0.1/write\", ca = \"{ca}\" }}"),
            format!("otlp = {{ url = \"https://127.0.0.1\", ca = \"{ca}\" }}"),
        ] {
            let file = text(&folder.write("lockgate.toml", exporting(&sink)));
            let shown = lockgate().run(&["check", "-c", &file]);
            let said = shown.stdout + &shown.stderr;
            assert_eq!(shown.code, Some(1), "{said}");
            assert!(said.contains("E0104") && said.contains(&ca), "{said}");
            assert!(said.contains("lockgate.toml:2:"), "{said}");
        }
    }
}

#[test]
fn check_shows_where_figures_are_pushed() {
    let folder = Folder::new();
    let export =
        "graphite = \"10.0.0.9:2003\"\nstatsd = { address = \"10.0.0.9:8125\", every = \"1m\" }";
    let file = text(&folder.write("lockgate.toml", exporting(export)));
    let shown = lockgate().run(&["check", "-v", "-c", &file]);
    for line in [
        "export       graphite:10.0.0.9:2003, every 10s",
        "export       statsd:10.0.0.9:8125, every 1m",
    ] {
        assert!(shown.stdout.contains(line), "{}", shown.stdout);
    }
}
