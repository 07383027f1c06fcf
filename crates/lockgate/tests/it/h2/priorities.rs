//! The order of responses on a connection (RFC 9218), as a client sees it that reads less than
//! there is.

use std::sync::mpsc::{Receiver, channel};

use lockgate_testkit::h2::Peer;
use lockgate_testkit::h2::frame::{kind, setting};
use lockgate_testkit::{DEADLINE, Http, Lockgate, Origin, Serving, Wire};

use super::plain_site;
use crate::files::Www;
use crate::scene::lockgate;

/// Size of a response that stands before others.
const LARGE: usize = 4 << 20;
/// Size of a response with a higher priority: the kernel has it before the client reads on. It is
/// more than the part that has left Lockgate by then.
const SMALL: usize = 512 << 10;

/// A client with large windows that reads slowly: only its reading holds responses up.
struct Scene {
    peer: Peer,
    /// Another connection to the same worker.
    other: Peer,
    next: u32,
    /// Paths that the origin got.
    asked: Receiver<String>,
    _gate: Lockgate,
    _origin: Serving,
}

impl Scene {
    /// In front of an origin that has every path, with a type by its suffix. A path named `large`
    /// has a large response.
    fn new() -> Self {
        let (tell, asked) = channel();
        let origin = Origin::tcp().serve(move |wire| {
            let mut http = Http::over(wire.another());
            while let Some(request) = http.next_request() {
                let path = request.first_line().split(' ').nth(1).unwrap().to_owned();
                let kind = match path.rsplit('.').next() {
                    Some("css") => "text/css",
                    Some("js") => "text/javascript",
                    Some("png") => "image/png",
                    _ => "application/octet-stream",
                };
                let is_large = path.starts_with("/large");
                let size = if is_large { LARGE } else { SMALL };
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n\r\n"
                );
                let answer = [head.as_bytes(), &vec![b'x'; size]].concat();
                // The kernel takes a large one only as the client reads. The test may have ended.
                if is_large {
                    let _ = tell.send(path);
                    http.send(answer);
                } else {
                    http.send(answer);
                    let _ = tell.send(path);
                }
            }
        });
        let gate = lockgate().start(&plain_site(origin.address()));
        let other = Peer::connect(gate.address());
        let mut peer = Peer::over(Wire::connect_narrow(gate.address()));
        peer.hello(&[(setting::INITIAL_WINDOW_SIZE, 1 << 30)]);
        peer.window_update(0, 1 << 30);
        Self {
            peer,
            other,
            next: 1,
            asked,
            _gate: gate,
            _origin: origin,
        }
    }

    /// Requests a path, and waits until the origin has sent as much as it can.
    fn ask(&mut self, path: &str, fields: &[(&str, &str)]) -> u32 {
        let stream = self.next;
        self.next += 2;
        let request = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "app.test"),
            (":path", path),
        ];
        self.peer
            .headers(stream, &[&request[..], fields].concat(), true);
        assert_eq!(
            self.asked
                .recv_timeout(DEADLINE)
                .expect("the origin is asked"),
            path
        );
        stream
    }

    /// Three large responses, the first of which has begun.
    fn crowd(path: &str, fields: &[(&str, &str)]) -> Self {
        let mut scene = Self::new();
        let first = scene.ask(path, fields);
        while scene.peer.read_until(kind::DATA).stream != first {}
        scene.ask(path, fields);
        scene.ask(path, fields);
        scene
    }

    /// Sends PRIORITY_UPDATE for a stream (RFC 9218 §7.1).
    fn update(&mut self, stream: u32, priority: &str) {
        let payload = [&stream.to_be_bytes()[..], priority.as_bytes()].concat();
        self.peer.frame(kind::PRIORITY_UPDATE, 0, 0, payload);
    }

    /// Reads until these responses are whole, more slowly than Lockgate writes: between two frames
    /// Lockgate has read all that came. Between the first of their heads and the last of their ends
    /// there must be more bytes of them than of others: with equal shares it would be a quarter or
    /// two, and in order of arrival nothing.
    fn assert_first(mut self, wanted: &[u32]) {
        let (mut open, mut begun, mut others) = (wanted.to_vec(), false, 0);
        while !open.is_empty() {
            self.other.settle();
            let frame = self.peer.read();
            assert!(
                !matches!(frame.kind, kind::RST_STREAM | kind::GOAWAY),
                "{frame:?}"
            );
            match wanted.contains(&frame.stream) {
                true => begun = true,
                false if begun && frame.kind == kind::DATA => others += frame.payload.len(),
                false => {}
            }
            if frame.ends_stream() {
                open.retain(|stream| *stream != frame.stream);
            }
        }
        assert!(
            others < wanted.len() * SMALL,
            "{others} bytes of others went before the end of {wanted:?}"
        );
    }
}

/// They do not wait for the client: a page over a slow link would lose its images and errors.
#[test]
fn local_responses_that_wait_for_their_turn_are_not_too_slow() {
    let large = Origin::tcp().answering(|_| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n");
        [head.as_bytes(), &vec![b'x'; LARGE]].concat()
    });
    // More than there is room for in a write that is not full.
    let more = "x".repeat(128 << 10);
    let (deaf, www) = (Origin::tcp(), Www::with(&[("file", &more)]));
    let gate = lockgate().start(&format!(
        "rates = {{ min_out = \"1KB/s\", grace = \"1s\" }}\n\
         [site.\":0\"]\nlisten = [\"127.0.0.1\"]\nprotocols = [\"h2c\", \"http1\"]\nroot = {:?}\n\
         [site.\":0\".path.\"/text\"]\nrespond = {{ status = 200, body = \"{more}\" }}\n\
         [site.\":0\".path.\"/large\"]\nproxy = \"{}\"\n\
         [site.\":0\".path.\"/deaf\"]\nproxy = \"{}\"\ntimeouts = {{ response = \"100ms\" }}\n",
        www.root,
        large.address(),
        deaf.address()
    ));
    let mut peer = Peer::over(Wire::connect_narrow(gate.address()));
    peer.hello(&[(setting::INITIAL_WINDOW_SIZE, 1 << 30)]);
    peer.window_update(0, 1 << 30);
    let ask = |peer: &mut Peer, stream, path, priority| {
        let request = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "app.test"),
            (":path", path),
            ("priority", priority),
        ];
        peer.headers(stream, &request, true);
    };
    ask(&mut peer, 1, "/large", "u=1");
    while peer.read_until(kind::DATA).stream != 1 {}
    let pause = || {
        let mut other = Http::connect(gate.address());
        other.send("GET /deaf HTTP/1.1\r\nHost: app.test\r\n\r\n");
        assert_eq!(other.answer().status(), 504);
    };
    // Until the kernel takes no more.
    pause();
    let waiting = [3, 5];
    for (stream, path) in waiting.into_iter().zip(["/file", "/text"]) {
        ask(&mut peer, stream, path, "u=5");
    }
    // Slow, but far above the rate: four frames while a request of another client times out, for two
    // graces.
    let (mut open, mut frames) = (waiting.to_vec(), 0);
    while !open.is_empty() {
        let is_slow = frames < 100;
        if is_slow && frames % 4 == 0 {
            pause();
        }
        frames += 1;
        let frame = peer.read();
        assert!(
            !matches!(frame.kind, kind::RST_STREAM | kind::GOAWAY),
            "{frame:?}"
        );
        if frame.ends_stream() {
            assert!(!is_slow, "the large response has precedence");
            open.retain(|stream| *stream != frame.stream);
        }
    }
}

#[test]
fn style_sheets_and_scripts_precede_images_by_default_priority() {
    let mut scene = Scene::crowd("/large.png", &[]);
    let wanted = [scene.ask("/app.js", &[]), scene.ask("/all.css", &[])];
    scene.assert_first(&wanted);
}

/// An imported style sheet is found late, and nothing is shown without it.
#[test]
fn style_sheets_precede_scripts_by_default_priority() {
    let mut scene = Scene::crowd("/large.js", &[]);
    let wanted = [scene.ask("/imported.css", &[])];
    scene.assert_first(&wanted);
}

#[test]
fn the_priority_field_overrides_default_priorities() {
    let mut scene = Scene::crowd("/large.css", &[("priority", "u=6")]);
    let wanted = [scene.ask("/a.png", &[("priority", "u=4")])];
    scene.assert_first(&wanted);
}

#[test]
fn priority_update_raises_a_running_response() {
    let mut scene = Scene::crowd("/large", &[]);
    let wanted = scene.ask("/a", &[("priority", "u=7")]);
    scene.update(wanted, "u=0");
    scene.assert_first(&[wanted]);
}

#[test]
fn priority_update_may_precede_its_request() {
    let mut scene = Scene::crowd("/large", &[]);
    scene.update(scene.next, "u=0");
    let wanted = scene.ask("/a", &[("priority", "u=7")]);
    scene.assert_first(&[wanted]);
}

/// A response that begins late waits for no more than has left already.
#[test]
fn priority_update_lowers_running_responses() {
    let mut scene = Scene::crowd("/large", &[]);
    for stream in [1, 3, 5] {
        scene.update(stream, "u=6, i");
    }
    let wanted = [scene.ask("/a", &[])];
    scene.assert_first(&wanted);
}
