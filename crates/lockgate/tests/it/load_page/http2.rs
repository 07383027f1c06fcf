//! Pages over HTTP/2: one connection, on which all found objects are requested at once.

use lockgate_testkit::Launch;
use lockgate_testkit::h2::frame::{code, kind, setting};
use lockgate_testkit::h2::{Origin, Peer, ScriptedResponse};
use lockgate_testkit::{RunResult, Wire};
use serde_json::Value;

use super::{PAGE, SHEET, objects};

fn run(url: &str, arguments: &[&str]) -> RunResult {
    let all = [&["load", "--page", "--http2", url][..], arguments].concat();
    Launch::new(env!("CARGO_BIN_EXE_lockgate")).run(&all)
}

/// The report as JSON.
fn report(origin: &str, arguments: &[&str]) -> Value {
    let ended = run(
        &format!("http://{origin}/"),
        &[arguments, &["--json", "-"]].concat(),
    );
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

fn site() -> Origin {
    Origin::plain(|asked| match asked.path.as_str() {
        "/" => ScriptedResponse::ok(PAGE),
        "/css/all.css" => ScriptedResponse::ok(SHEET),
        "/a.png" | "/b.png?x=1&y=2" | "/css/more.css" | "/c.png" | "/app.js" => {
            ScriptedResponse::ok("small")
        }
        _ => ScriptedResponse::new(404),
    })
}

#[test]
fn an_http2_page_load_uses_one_connection() {
    let origin = site();
    let report = report(&origin.address(), &[]);
    assert_eq!(
        (origin.accepted(), &report["protocol"]),
        (1, &"HTTP/2".into())
    );
    let load = &report["loads"][0];
    assert_eq!(
        (&load["failed"], &load["connections_opened"]),
        (&0.into(), &1.into()),
        "{report}"
    );
    assert_eq!(
        load["other_origins"],
        serde_json::json!(["http://cdn.test/far.png"])
    );
    let all = objects(load);
    assert_eq!(all.len(), 7, "{load}");
    for object in &all {
        let time = |key: &str| object[key].as_f64().unwrap();
        assert!(
            time("found_us") <= time("start_us") && time("start_us") <= time("head_us"),
            "{object}"
        );
        assert!(time("head_us") <= time("end_us"), "{object}");
        assert_eq!(
            (&object["status"], &object["connection"]),
            (&200.into(), &1.into()),
            "{object}"
        );
    }
    assert_eq!(all[0]["length_bytes"], PAGE.len());
    let asked = origin.asked();
    assert!(
        asked.iter().all(|asked| asked.field("priority").is_none()),
        "{asked:?}"
    );
}

/// RFC 9218 §4
#[test]
fn page_load_sends_priority_fields_like_browsers() {
    let origin = site();
    let report = report(&origin.address(), &["--priorities"]);
    assert_eq!(report["protocol"], "HTTP/2 with priorities");
    let mut said: Vec<_> = origin
        .asked()
        .iter()
        .map(|asked| {
            (
                asked.path.clone(),
                asked.field("priority").unwrap().to_owned(),
            )
        })
        .collect();
    said.sort();
    let expected = [
        ("/", "u=0, i"),
        ("/a.png", "u=3, i"),
        ("/app.js", "u=1"),
        ("/b.png?x=1&y=2", "u=3, i"),
        ("/c.png", "u=3, i"),
        ("/css/all.css", "u=0"),
        ("/css/more.css", "u=0"),
    ];
    let said: Vec<_> = said
        .iter()
        .map(|(path, priority)| (path.as_str(), priority.as_str()))
        .collect();
    assert_eq!(said, expected);
}

/// Serves connections on raw frames, one after the other.
fn scripted(serve: impl Fn(usize, &mut Peer) + Send + Sync + 'static) -> lockgate_testkit::Serving {
    let place = std::sync::atomic::AtomicUsize::new(0);
    lockgate_testkit::Origin::tcp().serve(move |wire: &mut Wire| {
        let mut peer = Peer::accept(wire.another(), &[(setting::MAX_CONCURRENT_STREAMS, 100)]);
        serve(
            place.fetch_add(1, std::sync::atomic::Ordering::SeqCst),
            &mut peer,
        );
    })
}

/// The stream of the next request.
fn next(peer: &mut Peer) -> u32 {
    peer.read_until(kind::HEADERS).stream
}

#[test]
fn page_objects_found_together_are_requested_at_once() {
    let origin = scripted(|_, peer| {
        let page = next(peer);
        peer.headers(page, &[(":status", "200")], false);
        peer.data(page, "<img src=a><img src=b><img src=c>", true);
        // No request is answered before all have arrived.
        let images = [next(peer), next(peer), next(peer)];
        for image in images {
            peer.headers(image, &[(":status", "200")], false);
            peer.data(image, "image", true);
        }
        assert!(peer.end().1.is_ok());
    });
    let report = report(origin.address(), &[]);
    assert_eq!(
        (&report["loads"][0]["failed"], origin.accepted()),
        (&0.into(), 1),
        "{report}"
    );
    assert_eq!(objects(&report["loads"][0]).len(), 4);
}

/// RFC 9113 §6.8
#[test]
fn page_requests_behind_goaway_move_to_another_connection() {
    let origin = scripted(|place, peer| {
        let stream = next(peer);
        peer.headers(stream, &[(":status", "200")], false);
        if place == 0 {
            peer.data(stream, "<img src=a>", true);
            next(peer);
            peer.goaway(stream, code::NO_ERROR);
        } else {
            peer.data(stream, "image", true);
        }
        assert!(peer.end().1.is_ok());
    });
    let report = report(origin.address(), &[]);
    let load = &report["loads"][0];
    assert_eq!(
        (&load["failed"], &load["connections_opened"]),
        (&0.into(), &2.into()),
        "{report}"
    );
    assert_eq!(load["objects"][1]["connection"], 2);
}

#[test]
fn a_reset_page_object_fails_alone() {
    let origin = scripted(|_, peer| {
        let page = next(peer);
        peer.headers(page, &[(":status", "200")], false);
        peer.data(page, "<img src=a><img src=b>", true);
        let (first, second) = (next(peer), next(peer));
        peer.reset(first, code::INTERNAL_ERROR);
        peer.headers(second, &[(":status", "204")], true);
        assert!(peer.end().1.is_ok());
    });
    let report = report(origin.address(), &[]);
    let load = &report["loads"][0];
    assert_eq!(
        (&load["failed"], &load["all_us"]),
        (&1.into(), &Value::Null),
        "{report}"
    );
    assert_eq!(load["objects"][1]["failure"]["kind"], "reset");
}

#[test]
fn an_unrequested_content_encoding_of_a_page_is_a_failure() {
    let origin =
        Origin::plain(|_| ScriptedResponse::ok("<img src=a>").field("content-encoding", "br"));
    let ended = run(&format!("http://{}/", origin.address()), &[]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended
            .stderr
            .contains("content-encoding br, which was not requested"),
        "{}",
        ended.stderr
    );
}

#[test]
fn contradictory_http2_page_options_are_refused() {
    let load = |arguments: &[&str]| {
        let ended = run("http://127.0.0.1:1/", arguments);
        assert!(matches!(ended.code, Some(1 | 2)), "{arguments:?}");
        ended.stderr
    };
    assert!(load(&["-c", "2"]).contains("leave out --connections"));
    assert!(load(&["--streams", "2"]).contains("cannot be used with"));
    assert!(load(&["--priorities", "-H", "Priority: u=1"]).contains("leave out one of them"));
    let alone = Launch::new(env!("CARGO_BIN_EXE_lockgate")).run(&[
        "load",
        "--page",
        "--priorities",
        "http://127.0.0.1:1/",
    ]);
    assert!(alone.stderr.contains("--http2"), "{}", alone.stderr);
}
