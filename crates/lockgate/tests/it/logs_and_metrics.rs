//! Observability: the access log, the metrics address, and failures of both.

use std::path::Path;
use std::time::SystemTime;

use lockgate_testkit::{Authority, Folder, Origin, Signal, Wire, eventually};
use serde_json::Value;

use crate::scene::{NAME, Site, VERSIONS, deserted, echoes, lockgate, plain, text};

#[test]
fn a_tls_relay_is_one_access_log_line() {
    let site = Site::new();
    let clients = Authority::new("Clients");
    let ca = text(&site.folder.write("clients.pem", clients.pem()));
    let origin = Origin::tcp();
    let auth = format!(", alpn = [\"h2\"], client_auth = {{ mode = \"require\", ca = \"{ca}\" }}");
    let mut gate = lockgate().start(&site.tls(&origin.address(), &auth));
    let alice = clients.issue(&["alice"]);
    let mut client = site
        .client()
        .alpn(&["h2"])
        .identity(&alice)
        .connect(gate.address(), NAME)
        .unwrap();
    client.send("four");
    let mut upstream = origin.accept();
    upstream.expect("four");
    upstream.send("fifteen bytes..");
    client.expect("fifteen bytes..");
    client.finish();
    drop(upstream);
    client.rest();
    let line = gate.next_line();
    let port = client.wire.local_address().port();
    for (field, expected) in [
        ("listener", Value::from("127.0.0.1:0")),
        ("client", "127.0.0.1".into()),
        ("client_port", port.into()),
        ("peer", "127.0.0.1".into()),
        ("peer_port", port.into()),
        ("sni", NAME.into()),
        ("alpn", "h2".into()),
        ("tls_version", "TLSv1.3".into()),
        ("cipher", "TLS_AES_128_GCM_SHA256".into()),
        ("resumed", false.into()),
        ("client_cn", "alice".into()),
        ("received_bytes", 4.into()),
        ("sent_bytes", 15.into()),
        ("endpoint", origin.address().into()),
        ("cause", "client_closed".into()),
        ("side", "downstream".into()),
    ] {
        assert_eq!(line[field], expected, "{field} in {line}");
    }
    let seconds = |field: &str| {
        line[field]
            .as_f64()
            .unwrap_or_else(|| panic!("{field} in {line}"))
    };
    assert!(seconds("handshake_seconds") > 0.0 && seconds("connect_seconds") > 0.0);
    assert!(
        seconds("duration_seconds") >= seconds("handshake_seconds") + seconds("connect_seconds")
    );
    assert_eq!(line["id"].as_str().unwrap().len(), 16);
    assert_eq!(
        line["time"].as_str().unwrap().len(),
        "2026-01-01T00:00:00.000Z".len()
    );
}

#[test]
fn a_connection_without_a_byte_is_counted_not_logged() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let gate = lockgate().start(&(site.tls(origin.address(), "") + &plain_at(2, origin.address())));
    for listener in ["127.0.0.1:0", "127.0.0.2:0"] {
        let mut client = Wire::connect(gate.at(listener));
        client.finish();
        client.wait_closed();
        drop(client);
        gate.wait_for_sample(
            "lockgate_connections_empty_total",
            &[&format!("listener=\"{listener}\"")],
            1.0,
        );
    }
    // The next one is logged, and is the only one.
    let mut client = Wire::connect(gate.at("127.0.0.2:0"));
    echoes(&mut client, "hello");
    drop(client);
    let line = gate.line("the one that spoke", |_| true);
    assert_eq!(line["received_bytes"], 5);
    assert_eq!(gate.lines().len(), 1);
}

#[test]
fn a_probe_ending_by_reset_is_counted_not_logged() {
    let origin = Origin::tcp().echo();
    let gate = lockgate().start(&plain(origin.address()));
    Wire::connect(gate.address()).reset();
    gate.wait_for_sample("lockgate_connections_empty_total", &[], 1.0);
    let mut client = Wire::connect(gate.address());
    echoes(&mut client, "hello");
    drop(client);
    gate.line("the one that spoke", |line| line["received_bytes"] == 5);
    assert_eq!(gate.lines().len(), 1);
}

fn plain_at(host: u8, proxy: &str) -> String {
    format!("[tcp.\"127.0.0.{host}:0\"]\nproxy = \"{proxy}\"\n")
}

#[test]
fn mask_ip_masks_client_addresses() {
    let origin = Origin::tcp().echo();
    let toml = "access_log = { mask_ip = true }\n".to_owned() + &plain(origin.address());
    let mut gate = lockgate().start(&toml);
    for host in [98, 99] {
        let mut client = Wire::connect_from([127, 0, 0, host].into(), gate.address());
        echoes(&mut client, "hello");
        drop(client);
        let line = gate.next_line();
        assert_eq!(
            (&line["client"], &line["peer"]),
            (&"127.0.0.0".into(), &"127.0.0.0".into())
        );
        assert!(
            line["client_port"].is_null() && line["peer_port"].is_null(),
            "{line}"
        );
    }
    // One network has the sum of both, in /top as in the metrics.
    gate.wait_for_sample(
        "lockgate_client_bytes",
        &["client=\"127.0.0.0\"", "direction=\"received\""],
        10.0,
    );
    let top = gate.top();
    let clients: Vec<_> = top["clients"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["client"])
        .collect();
    assert_eq!(clients, ["127.0.0.0"]);
}

#[test]
fn access_log_false_logs_nothing() {
    let origin = Origin::tcp().echo();
    let gate = lockgate().start(&("access_log = false\n".to_owned() + &plain(origin.address())));
    echoes(&mut Wire::connect(gate.address()), "hello");
    let ended = gate.stop();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));
}

/// The lines of a log file.
fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).expect("whole lines of JSON"))
        .collect()
}

/// A log file with a program that writes to it.
fn logging(
    folder: &Folder,
    more: &str,
) -> (
    lockgate_testkit::Serving,
    lockgate_testkit::Lockgate,
    std::path::PathBuf,
) {
    let origin = Origin::tcp().echo();
    let file = folder.path("access.log");
    let toml =
        format!("access_log = {{ to = \"{}\"{more} }}\n", text(&file)) + &plain(origin.address());
    let gate = lockgate().start(&toml);
    (origin, gate, file)
}

#[test]
fn usr1_reopens_a_renamed_access_log() {
    let folder = Folder::new();
    let (_origin, gate, file) = logging(&folder, "");
    echoes(&mut Wire::connect(gate.address()), "one");
    eventually("the first line", || (lines(&file).len() == 1).then_some(()));
    let old = folder.path("access.log.old");
    std::fs::rename(&file, &old).unwrap();
    gate.signal(Signal::USR1);
    eventually("the new file", || file.exists().then_some(()));
    echoes(&mut Wire::connect(gate.address()), "four");
    assert_eq!(gate.stop().code, Some(0));
    let received = |file: &Path| {
        lines(file)
            .iter()
            .map(|line| line["received_bytes"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (received(&old), received(&file)),
        (vec![3.into()], vec![4.into()])
    );
}

#[test]
fn the_access_log_is_rotated_by_size() {
    let folder = Folder::new();
    let (_origin, gate, file) = logging(&folder, ", rotate = { size = \"1KB\", keep = 2 }");
    for round in 0..20_u32 {
        echoes(
            &mut Wire::connect(gate.address()),
            &"x".repeat(1 + round as usize),
        );
        // One by one: lines of one buffer stay in one file.
        eventually("its line", || {
            let last = lines(&file).last()?["received_bytes"].as_u64()?;
            (last == u64::from(round) + 1).then_some(())
        });
    }
    gate.stop();
    let mut names: Vec<_> = std::fs::read_dir(folder.dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["access.log", "access.log.1", "access.log.2"]);
    let kept: Vec<u64> = ["access.log.2", "access.log.1", "access.log"]
        .iter()
        .flat_map(|name| lines(&folder.path(name)))
        .map(|line| line["received_bytes"].as_u64().unwrap())
        .collect();
    let newest: Vec<u64> = (21 - kept.len() as u64..=20).collect();
    assert_eq!(kept, newest, "in order, and none lost in between");
    for name in &names {
        assert!(
            folder.path(name).metadata().unwrap().len() < 1_500,
            "{name}"
        );
    }
}

#[test]
fn a_full_disk_loses_log_lines_without_blocking() {
    let origin = Origin::tcp().echo();
    let toml = "access_log = \"/dev/full\"\n".to_owned() + &plain(origin.address());
    let gate = lockgate().workers(2).start(&toml);
    for _ in 0..50 {
        echoes(&mut Wire::connect(gate.address()), "hello");
    }
    gate.wait_for_sample("lockgate_access_log_lost_total", &[], 50.0);
    gate.says("the access log cannot be written");
    let said = gate.stderr().text();
    assert!(said.lines().count() < 20, "the log stays short: {said}");
    assert_eq!(gate.stop().code, Some(0));
}

#[test]
fn a_fifo_log_without_reader_blocks_nothing() {
    let folder = Folder::new();
    let fifo = folder.path("log");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    // Open for reading and writing, so that neither end waits for the other; never read from.
    let _reader = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&fifo)
        .unwrap();
    let origin = Origin::tcp().echo();
    let toml = format!("access_log = \"{}\"\n", text(&fifo)) + &plain(origin.address());
    let gate = lockgate().workers(2).start(&toml);
    for _ in 0..500 {
        echoes(&mut Wire::connect(gate.address()), "hello");
    }
    assert_eq!(gate.stop().code, Some(0), "and it does not hold up the end");
}

#[test]
fn tls_handshakes_are_counted_by_version_alpn_and_resumption() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let gate = lockgate()
        .workers(2)
        .start(&site.tls(origin.address(), ", alpn = [\"h2\", \"http/1.1\"]"));
    for (version, alpn, visits) in [
        (&rustls::version::TLS12, "h2", 2),
        (&rustls::version::TLS13, "http/1.1", 3),
    ] {
        let config = site.client().version(version).alpn(&[alpn]).build();
        for _ in 0..visits {
            let mut tls =
                lockgate_testkit::Tls::connect(&config, Wire::connect(gate.address()), NAME)
                    .unwrap();
            tls.send("hello");
            tls.expect("hello");
        }
    }
    for (version, alpn, resumed, count) in [
        ("TLSv1.2", "h2", "false", 1.0),
        ("TLSv1.2", "h2", "true", 1.0),
        ("TLSv1.3", "http/1.1", "false", 1.0),
        ("TLSv1.3", "http/1.1", "true", 2.0),
    ] {
        let labels = [
            format!("version=\"{version}\""),
            format!("alpn=\"{alpn}\""),
            format!("resumed=\"{resumed}\""),
        ];
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        gate.wait_for_sample("lockgate_tls_handshakes_total", &labels, count);
    }
    gate.wait_for_sample("lockgate_tls_handshake_duration_seconds_count", &[], 5.0);
    gate.wait_for_sample(
        "lockgate_connections_accepted_total",
        &["listener=\"127.0.0.1:0\""],
        5.0,
    );
    gate.wait_for_sample(
        "lockgate_connections_ended_total",
        &["listener=\"127.0.0.1:0\""],
        5.0,
    );
    gate.wait_for_sample("lockgate_connections", &[], 0.0);
    gate.wait_for_sample(
        "lockgate_connection_bytes_total",
        &["direction=\"received\""],
        25.0,
    );
    gate.wait_for_sample(
        "lockgate_connection_bytes_total",
        &["direction=\"sent\""],
        25.0,
    );
}

#[test]
fn metrics_show_build_info_limits_and_certificate_expiry() {
    let site = Site::new();
    let origin = Origin::tcp().echo();
    let day = |at: SystemTime| {
        at.duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs_f64()
            / 86_400.0
    };
    let long = site
        .authority
        .issue_with(&[NAME], &lockgate_testkit::P256, |params| {
            params.not_after = SystemTime::now()
                .checked_add(std::time::Duration::from_secs(50 * 86_400))
                .unwrap()
                .into();
        });
    site.folder.certificate("app.pem", &long);
    let toml = "limits = { connections = 77 }\n".to_owned() + &site.tls(origin.address(), "");
    let gate = lockgate().workers(2).start(&toml);
    assert_eq!(
        gate.sample(
            "lockgate_build_info",
            &[&format!("version=\"{}\"", env!("CARGO_PKG_VERSION"))]
        ),
        1.0
    );
    assert_eq!(gate.sample("lockgate_connections_limit", &[]), 77.0);
    let expiry = gate.sample(
        "lockgate_cert_not_after_timestamp_seconds",
        &[&format!("name=\"{NAME}\"")],
    ) / 86_400.0;
    assert!(
        (expiry - day(SystemTime::now()) - 50.0).abs() < 1.0,
        "{expiry}"
    );
    let metrics = gate.metrics();
    assert_eq!(
        metrics
            .matches("lockgate_worker_connections_accepted_total{")
            .count(),
        2,
        "{metrics}"
    );
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').expect("series and value");
        assert!(
            series.starts_with("lockgate_") && value.parse::<f64>().is_ok(),
            "{line}"
        );
    }
}

#[test]
fn an_open_connection_is_visible_in_the_metrics() {
    let site = Site::new();
    let origin = Origin::tcp();
    let gate = lockgate().start(&site.tls(&origin.address(), ""));
    for version in VERSIONS {
        let mut client = site.connect_by(version, gate.address());
        let mut upstream = origin.accept();
        client.send(vec![7; 100_000]);
        upstream.exactly(100_000);
        gate.wait_for_sample("lockgate_connections", &[], 1.0);
        gate.wait_for_sample(
            "lockgate_upstream_connections",
            &[&format!("endpoint=\"{}\"", origin.address())],
            1.0,
        );
        let sum = if version == VERSIONS[0] {
            100_000.0
        } else {
            200_000.0
        };
        gate.wait_for_sample(
            "lockgate_connection_bytes_total",
            &["direction=\"received\""],
            sum,
        );
        drop((client, upstream));
        gate.wait_for_sample("lockgate_connections", &[], 0.0);
    }
}

#[test]
fn top_clients_are_listed_by_traffic() {
    let origin = Origin::tcp().echo();
    let gate = lockgate().workers(2).start(&plain(origin.address()));
    for (host, len) in [(11_u8, 1_000), (12, 50_000), (13, 10_000)] {
        let mut client = Wire::connect_from([127, 0, 0, host].into(), gate.address());
        echoes(&mut client, &"x".repeat(len));
    }
    let listed = eventually("all three in /top", || {
        let top = gate.top();
        let clients = top["clients"].as_array()?.clone();
        let bytes = |client: &Value| client["received_bytes"].as_u64();
        let sum: u64 = clients.iter().filter_map(bytes).sum();
        (sum == 61_000 && top["total"]["sent_bytes"] == 61_000).then_some(clients)
    });
    let names: Vec<_> = listed
        .iter()
        .map(|client| client["client"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["127.0.0.12", "127.0.0.13", "127.0.0.11"]);
    gate.wait_for_sample(
        "lockgate_client_bytes",
        &["client=\"127.0.0.12\"", "direction=\"sent\""],
        50_000.0,
    );
}

#[test]
fn the_metrics_address_serves_no_other_paths() {
    let origin = Origin::tcp().echo();
    let gate = lockgate().start(&plain(origin.address()));
    assert_eq!(gate.get("/health"), (200, "ok\n".to_owned()));
    assert_eq!(gate.get("/ready"), (200, "ready\n".to_owned()));
    for path in ["/index.html", "/metrics/", "/../etc/passwd", "/debug"] {
        assert_eq!(gate.get(path).0, 404, "{path}");
    }
}

#[test]
fn metrics_may_be_served_on_a_unix_socket() {
    let folder = Folder::new();
    let path = folder.path("metrics.sock");
    let origin = Origin::tcp().echo();
    let toml = format!("metrics = \"unix:{}\"\n", text(&path)) + &plain(origin.address());
    let gate = lockgate().start(&toml);
    let mut wire = Wire::connect_unix(&path);
    wire.send("GET /ready HTTP/1.0\r\n\r\n");
    assert!(wire.rest().ends_with(b"ready\n"));
    gate.stop();
    assert!(!path.exists(), "its file is removed");
}

/// The CPU time that the kernel shows of a process, in seconds; see proc_pid_stat(5). It counts in
/// hundredths, user and kernel mode each on its own.
fn shown_cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name, which may have spaces, ends in the last parenthesis; `utime` is the 14th field.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks
        .map(|field| field.parse::<f64>().unwrap())
        .sum::<f64>()
        / 100.0
}

#[test]
fn cpu_seconds_are_those_that_the_kernel_shows() {
    let gate = lockgate().start(&plain(&deserted().to_string()));
    let before = shown_cpu_seconds(gate.pid());
    let told = gate.sample("lockgate_cpu_seconds_total", &[]);
    let after = shown_cpu_seconds(gate.pid());
    assert!(told > 0.0 && before <= told, "{before}, {told}");
    assert!(told <= after + 0.03, "{told}, {after}");
}
