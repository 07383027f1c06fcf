//! Costs of files: bounded memory and descriptors, however many are served, and behaviour without
//! descriptors.

use lockgate_testkit::bytes;

use super::*;

/// The files that a worker caches: two generations of 16 MB, as in `action/files/cache.rs`.
const KEPT: usize = 32 << 20;
/// What the allocator may need on top, and buffers.
const SLACK: usize = 16 << 20;

fn many_files(count: usize, size: usize) -> Www {
    let www = Www::new();
    for number in 0..count {
        www.write(
            format!("{}/{number}.bin", number % 100),
            bytes(number as u64, size),
        );
    }
    www
}

fn path(number: usize) -> String {
    format!("/{}/{number}.bin", number % 100)
}

/// Requests all of them and returns by how much the process has grown.
fn grown(
    gate: &Lockgate,
    client: &mut Asking,
    count: usize,
    size: usize,
    fields: &[Line<'_>],
) -> usize {
    // Memory that the first request needs does not count.
    client.get(&path(0), fields);
    let before = gate.resident();
    for number in 0..count {
        let answer = client.get(&path(number), fields);
        assert_eq!((answer.status, answer.body.len()), (200, size), "{number}");
    }
    gate.resident().saturating_sub(before)
}

fn descriptors(gate: &Lockgate) -> usize {
    fs::read_dir(format!("/proc/{}/fd", gate.pid()))
        .unwrap()
        .count()
}

#[test]
fn memory_is_bounded_however_many_small_files_are_served() {
    let www = many_files(20_000, 2_048);
    let served = Served::start(&www, "");
    let grown = grown(
        &served.gate,
        &mut served.connect(Way::Plain),
        20_000,
        2_048,
        &[],
    );
    assert!(grown < KEPT + SLACK, "{} MB", grown >> 20);
}

/// Over TLS and HTTP/2 larger files pass through memory, and may be cached there.
#[test]
fn memory_is_bounded_however_many_larger_files_pass_through_it() {
    let www = many_files(120, 1_000_000);
    let served = Served::start(&www, "");
    for way in [Way::Secure, Way::Http2] {
        let mut client = served.connect(way);
        // Known before they are read: nothing comes into the cache while they grow in it.
        for number in 0..120 {
            assert_eq!(
                client.get(&path(number), &[("If-None-Match", "*")]).status,
                304
            );
        }
        let grown = grown(&served.gate, &mut client, 120, 1_000_000, &[]);
        assert!(grown < KEPT + SLACK, "{way:?}: {} MB", grown >> 20);
    }
}

/// A missing path has a page, and every invented path is another one.
#[test]
fn memory_is_bounded_however_many_missing_paths_are_requested() {
    let www = Www::new();
    www.write("404.html", bytes(1, 60_000));
    let gate = www.start("not_found = \"/404.html\"\ncompress = false");
    let mut client = Http::connect(gate.address());
    let mut ask = |number: usize| {
        let path = format!("/{}{number}", "made-up-".repeat(500));
        assert_eq!(ask_over(&mut client, "GET", &path, &[]).body.len(), 60_000);
    };
    ask(0);
    let before = gate.resident();
    (0..3_000).for_each(&mut ask);
    let grown = gate.resident().saturating_sub(before);
    assert!(grown < KEPT + SLACK, "{} MB", grown >> 20);
}

#[test]
fn descriptors_are_bounded_however_many_large_files_are_served() {
    let www = many_files(2_000, 70_000);
    for number in 0..100 {
        for extension in ["gz", "br", "zst"] {
            www.write(
                format!("{}.{extension}", &path(number)[1..]),
                vec![b'x'; 66_000],
            );
        }
    }
    let served = Served::start(&www, "");
    let before = descriptors(&served.gate);
    let mut most = 0;
    for way in WAYS {
        let mut client = served.connect(way);
        for number in 0..2_000 {
            assert_eq!(client.get(&path(number), &[]).status, 200);
            if number % 100 == 0 {
                most = most.max(descriptors(&served.gate));
            }
        }
    }
    // Two generations of 128, and connections.
    assert!(
        most <= before + 2 * 128 + 8,
        "{most} descriptors, {before} before"
    );
}

/// Allows a running program descriptors with numbers below `limit`.
fn allow_descriptors(gate: &Lockgate, limit: usize) {
    let (pid, allowed) = (gate.pid().to_string(), format!("--nofile={limit}:300"));
    assert!(
        std::process::Command::new("prlimit")
            .args(["--pid", &pid, &allowed])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn descriptor_exhaustion_refuses_files_with_503_until_it_ends() {
    let www = many_files(100, 70_000);
    www.write("small.txt", "small");
    let gate = lockgate()
        .through(&["prlimit", "--nofile=300:300"])
        .start(&www.site(""));
    let mut first = Http::connect(gate.address());
    assert_eq!(
        ask_over(&mut first, "GET", "/small.txt", &[]).text(),
        "small"
    );
    // Standard input, output and error have these: none is left.
    allow_descriptors(&gate, 3);
    for number in 1..20 {
        let answer = ask_over(&mut first, "GET", &path(number), &[]);
        assert_eq!(answer.status, 503, "{number}");
    }
    let line = gate.line("why", |line| line["status"] == 503);
    assert_eq!(
        (&line["cause"], &line["side"]),
        (&"limit".into(), &"lockgate".into()),
        "{line}"
    );
    // A client that comes now waits.
    let mut second = Http::connect(gate.address());
    second.send("GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    gate.says("cannot accept");
    allow_descriptors(&gate, 300);
    for number in 1..20 {
        assert_eq!(
            ask_over(&mut first, "GET", &path(number), &[]).status,
            200,
            "{number}"
        );
    }
    assert_eq!(second.answer().text(), "small");
}

/// Open files leave descriptors for clients.
#[test]
fn few_descriptors_serve_many_files_and_clients() {
    let www = many_files(400, 70_000);
    let gate = lockgate()
        .through(&["prlimit", "--nofile=400:400"])
        .start(&www.site(""));
    let mut client = Http::connect(gate.address());
    for number in 0..400 {
        assert_eq!(
            ask_over(&mut client, "GET", &path(number), &[]).status,
            200,
            "{number}"
        );
    }
    let mut clients: Vec<_> = (0..40).map(|_| Http::connect(gate.address())).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(
            ask_over(client, "GET", &path(number), &[]).status,
            200,
            "{number}"
        );
    }
}
