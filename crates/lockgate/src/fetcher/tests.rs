//! Values from files, and from origins that are scripted: that the next request has come says that
//! the last answer was taken into account.

use std::fs;

use lockgate_testkit::{DEADLINE, Folder, Origin, Wire, eventually};
use lockgate_upstream::endpoint_name::EndpointName;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

const ALWAYS: Duration = Duration::from_millis(1);

fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { timeout(DEADLINE, test).await.expect("the test hangs") })
}

fn url(origin: &Origin) -> Source {
    let address = EndpointAddress::Ip(origin.socket_address());
    Source::Url(Url {
        address,
        host: "motd.test:8080".to_owned(),
        path: "/motd?a=b".to_owned(),
    })
}

/// Begins with the values of a first configuration.
fn prepared(fetcher: Fetcher) -> (Fetching, PreparedValues) {
    let fetching = Fetching::default();
    let prepared = fetching.prepare(fetcher).unwrap();
    (fetching, prepared)
}

fn start(fetcher: Fetcher) -> Fetching {
    let (mut fetching, prepared) = prepared(fetcher);
    fetching.commit(prepared);
    fetching
}

/// Reads the request for a value.
fn next(origin: &Origin) -> (Wire, String) {
    let mut wire = origin.accept();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(wire.exactly(1));
    }
    (wire, String::from_utf8(head).unwrap())
}

fn text(value: &FetchedValue) -> String {
    String::from_utf8(value.load().to_vec()).unwrap()
}

fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn a_value_is_its_default_then_what_was_had_last() {
    let origin = Origin::tcp();
    let mut fetcher = Fetcher::default();
    fetcher.keep("motd", url(&origin), ALWAYS, "nothing yet");
    let value = fetcher.fetched("motd").unwrap();
    assert!(fetcher.fetched("other").is_none());
    let fetching = start(fetcher);
    let (mut wire, head) = next(&origin);
    let lines: Vec<_> = head.split("\r\n").collect();
    assert_eq!(
        lines[..2],
        ["GET /motd?a=b HTTP/1.1", "Host: motd.test:8080"]
    );
    assert!(lines.contains(&"Connection: close"), "{head}");
    let long = "x".repeat(LONGEST);
    for (answer, expected) in [
        (
            "HTTP/1.1 503 X\r\nContent-Length: 4\r\n\r\ndown".to_owned(),
            "nothing yet",
        ),
        (ok("one\n"), "one"),
        (
            "HTTP/1.1 404 X\r\nContent-Length: 2\r\n\r\nno".to_owned(),
            "one",
        ),
        (
            "HTTP/1.1 302 X\r\nLocation: /\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "one",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ntoo few".to_owned(),
            "one",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntoo".to_owned(),
            "one",
        ),
        ("SSH-2.0-x\r\n\r\n".to_owned(), "one"),
        (String::new(), "one"),
        // Of a line break at the end nobody thinks, of a second one somebody has.
        ("HTTP/1.0 200 OK\r\n\r\ntwo\n\r\n".to_owned(), "two\n"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nthr\r\n2\r\nee\r\n0\r\n\r\n"
                .to_owned(),
            "three",
        ),
        (ok(&format!("{long}x")), "three"),
        (format!("HTTP/1.0 200 OK\r\n\r\n{long}{long}"), "three"),
        (ok(&long), &*long),
        (ok(""), ""),
    ] {
        // Who has seen enough does not take the rest.
        let _ = io::Write::write_all(&mut wire, answer.as_bytes());
        drop(wire);
        (wire, _) = next(&origin);
        assert_eq!(text(&value), expected, "after {answer:?}");
    }
    drop(fetching);
    // What was under way ends with the thread.
    wire.rest();
    assert_eq!(text(&value), "");
}

#[test]
fn a_file_is_read_up_to_64_kb_if_it_is_one() {
    let folder = Folder::new();
    let file = folder.path("value");
    let fetch = || block_on(Source::File(file.clone()).fetch()).map_err(|why| why.to_string());
    assert!(fetch().unwrap_err().contains("No such file"));
    for (content, value) in [
        ("1.2.3\n", "1.2.3"),
        ("a\r\n", "a"),
        ("a\n\n", "a\n"),
        ("a", "a"),
        ("\n", ""),
        ("", ""),
    ] {
        fs::write(&file, content).unwrap();
        assert_eq!(fetch(), Ok(value.as_bytes().to_vec()), "{content:?}");
    }
    fs::write(&file, vec![b'x'; LONGEST]).unwrap();
    assert_eq!(fetch(), Ok(vec![b'x'; LONGEST]));
    fs::write(&file, vec![b'x'; LONGEST + 1]).unwrap();
    assert_eq!(fetch(), Err("it is longer than 64 KB".to_owned()));
    fs::remove_file(&file).unwrap();
    // Nobody writes into it: whoever opened it as files are opened would wait for ever.
    mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert_eq!(fetch(), Err("it is no regular file".to_owned()));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(fetch(), Err("it is no regular file".to_owned()));
}

#[test]
fn one_that_hangs_holds_up_neither_the_others_nor_the_start() {
    let folder = Folder::new();
    let file = folder.write("value", "there\n");
    let (origin, other) = (Origin::tcp(), Origin::tcp());
    let mut fetcher = Fetcher::default();
    fetcher.keep("hangs", url(&origin), ALWAYS, "default");
    fetcher.keep("file", Source::File(file), ALWAYS, "");
    fetcher.keep("other", url(&other), ALWAYS, "");
    let values = ["hangs", "file", "other"].map(|name| fetcher.fetched(name).unwrap());
    let (_fetching, prepared) = prepared(fetcher);
    let (_wire, _) = next(&origin);
    block_on(prepared.first_tries(Duration::from_millis(1)));
    for round in ["one", "two"] {
        let (mut wire, _) = next(&other);
        wire.send(ok(round));
    }
    let _third = next(&other);
    // The file is read in a thread of its own, and no request says that it was.
    eventually("the file's value", || {
        (text(&values[1]) == "there").then_some(())
    });
    assert_eq!(values.each_ref().map(text), ["default", "there", "two"]);
}

#[test]
fn the_first_values_are_there_before_anybody_asks() {
    let folder = Folder::new();
    let mut fetcher = Fetcher::default();
    fetcher.keep(
        "there",
        Source::File(folder.write("value", "1\n")),
        DEADLINE * 60,
        "0",
    );
    fetcher.keep(
        "missing",
        Source::File(folder.path("missing")),
        DEADLINE * 60,
        "0",
    );
    let values = ["there", "missing"].map(|name| fetcher.fetched(name).unwrap());
    let (_fetching, prepared) = prepared(fetcher);
    block_on(prepared.first_tries(DEADLINE));
    assert_eq!(values.each_ref().map(text), ["1", "0"]);
}

#[test]
fn a_value_in_common_stays_and_its_fetch_goes_on() {
    let (origin, other) = (Origin::tcp(), Origin::tcp());
    let mut fetcher = Fetcher::default();
    fetcher.keep("stays", url(&origin), ALWAYS, "0");
    fetcher.keep("gone", url(&other), ALWAYS, "0");
    let old = fetcher.fetched("stays").unwrap();
    let mut fetching = start(fetcher);
    let (mut wire, _) = next(&origin);
    let (mut gone, _) = next(&other);

    let mut fetcher = Fetcher::continuing(&fetching);
    fetcher.keep("stays", url(&origin), ALWAYS, "0");
    assert!(fetcher.fetched("gone").is_none());
    let new = fetcher.fetched("stays").unwrap();
    assert!(Arc::ptr_eq(&old, &new));
    let prepared = fetching.prepare(fetcher).unwrap();
    // None is new: there is nothing to wait for.
    block_on(prepared.first_tries(DEADLINE * 60));
    fetching.commit(prepared);
    gone.rest();
    wire.send(ok("1"));
    drop(wire);
    let _wire = next(&origin);
    assert_eq!(text(&new), "1");
}

#[test]
fn a_value_with_another_setting_is_another_one() {
    let (origin, folder) = (Origin::tcp(), Folder::new());
    let file = || Source::File(folder.write("value", "1"));
    let mut fetcher = Fetcher::default();
    fetcher.keep("a", file(), DEADLINE, "0");
    let old = fetcher.fetched("a").unwrap();
    let fetching = start(fetcher);
    let names = || ["a.test", "b.test"].map(|name| Arc::new(EndpointName::new(name, 1, || {})));
    let at = |address| {
        Source::Url(Url {
            address,
            host: "motd.test:8080".to_owned(),
            path: "/motd?a=b".to_owned(),
        })
    };
    for (name, source, every, default) in [
        ("b", file(), DEADLINE, "0"),
        ("a", url(&origin), DEADLINE, "0"),
        ("a", file(), DEADLINE * 2, "0"),
        ("a", file(), DEADLINE, "1"),
    ] {
        let mut fetcher = Fetcher::continuing(&fetching);
        fetcher.keep(name, source, every, default);
        assert!(!Arc::ptr_eq(&old, &fetcher.fetched(name).unwrap()));
    }
    let [one, other] = names();
    let named = |name: &Arc<EndpointName>| at(EndpointAddress::Name(Arc::clone(name)));
    assert!(named(&one) == named(&one) && named(&one) != named(&other));
    assert!(url(&origin) == url(&origin) && url(&origin) != named(&one));
    let unix = |path: &str| at(EndpointAddress::Unix(path.into()));
    assert!(unix("/a") == unix("/a") && unix("/a") != unix("/b"));
}

#[test]
fn prepared_values_that_are_dropped_leave_no_task() {
    let (origin, other) = (Origin::tcp(), Origin::tcp());
    let fetching = Fetching::default();
    let mut fetcher = Fetcher::continuing(&fetching);
    fetcher.keep("a", url(&origin), ALWAYS, "0");
    let prepared = fetching.prepare(fetcher).unwrap();
    let (mut wire, _) = next(&origin);
    drop(prepared);
    wire.rest();
    // The same beside a value that runs.
    let mut fetcher = Fetcher::default();
    fetcher.keep("a", url(&origin), ALWAYS, "0");
    let mut fetching = start(fetcher);
    let (_wire, _) = next(&origin);
    let mut fetcher = Fetcher::continuing(&fetching);
    fetcher.keep("b", url(&other), ALWAYS, "0");
    let prepared = fetching.prepare(fetcher).unwrap();
    let (mut wire, _) = next(&other);
    drop(prepared);
    wire.rest();
    // With the last value the thread ends.
    let none = fetching.prepare(Fetcher::continuing(&fetching)).unwrap();
    fetching.commit(none);
    assert!(fetching.thread.is_none());
}
