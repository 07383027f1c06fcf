//! The end of the process as clients see it: no exchange is cut, and no connection is kept.

use lockgate_testkit::{Http, Origin, Signal};

use super::{OK, plain_site, secure_site};
use crate::scene::{NAME, Site, lockgate};

const GET: &str = "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n";

#[test]
fn drain_finishes_requests_in_flight_and_closes_their_connections() {
    let site = Site::new();
    let origin = Origin::tcp();
    let sites = plain_site(origin.address()) + &secure_site(&site.cert, origin.address());
    let gate = lockgate().start(&sites);
    // Three clients: one before its response, one in the middle of it, one in the middle of its
    // request.
    let mut waiting = Http::over(site.client().connect(gate.at("127.0.0.2:0"), NAME).unwrap());
    waiting.send(GET);
    let mut waiting_at = origin.http();
    waiting_at.request();
    let mut reading = Http::connect(gate.address());
    reading.send(GET);
    let mut reading_at = origin.http();
    reading_at.request();
    reading_at.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf");
    reading.head();
    reading.expect("half");
    let mut sending = Http::connect(gate.address());
    sending.send("POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 8\r\n\r\nhalf");
    let mut sending_at = origin.http();
    sending_at.head();
    sending_at.expect("half");

    // Ends when the worker has begun to drain.
    let mut idle = Http::connect(gate.address());
    idle.send(GET);
    let mut idle_at = origin.http();
    idle_at.request();
    idle_at.send(OK);
    idle.answer();
    gate.signal(Signal::TERM);
    idle.expect_end();
    sending.send("rest");
    sending_at.expect("rest");
    sending_at.send(OK);
    assert_eq!(sending.answer().field("connection"), Some("close"));
    sending.expect_end();
    waiting_at.send(OK);
    let answer = waiting.answer();
    assert_eq!(
        (answer.text(), answer.field("connection")),
        ("ok", Some("close"))
    );
    waiting.expect_end();
    drop((waiting, sending));
    // Its head promised to keep the connection; the connection ends all the same, behind the
    // response.
    reading_at.send("rest");
    reading.expect("rest");
    reading.expect_end();
    drop(reading);
    assert_eq!(gate.ended().code, Some(0));
}

#[test]
fn drain_closes_keep_alive_connections_and_serves_crossing_requests() {
    let site = Site::new();
    let origin = Origin::tcp().answering(|_| OK.into());
    let gate = lockgate()
        .workers(2)
        .start(&(plain_site(origin.address()) + &secure_site(&site.cert, origin.address())));
    let mut idle: Vec<Http> = (0..20).map(|_| Http::connect(gate.address())).collect();
    for client in &mut idle {
        client.send(GET);
        client.answer();
    }
    let mut secure = Http::over(site.client().connect(gate.at("127.0.0.2:0"), NAME).unwrap());
    secure.send(GET);
    secure.answer();
    // Sent before the end was announced: their clients cannot know.
    gate.signal(Signal::TERM);
    for client in idle.iter_mut().take(5) {
        client.send(GET);
    }
    for client in idle.iter_mut().take(5) {
        assert_eq!(client.answer().status(), 200);
    }
    for client in &mut idle {
        client.expect_end();
    }
    // By close_notify.
    secure.expect_end();
    assert_eq!(gate.ended().code, Some(0));
}

#[test]
fn the_drain_deadline_cuts_unfinished_exchanges() {
    let origin = Origin::tcp();
    let mut gate = lockgate()
        .start(&("drain = { deadline = \"1s\" }\n".to_owned() + &plain_site(origin.address())));
    let mut client = Http::connect(gate.address());
    client.send(GET);
    let mut upstream = origin.http();
    upstream.request();
    let mut upgraded = Http::connect(gate.address());
    upgraded.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
    let mut other = origin.http();
    other.request();
    other.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n");
    upgraded.head();
    assert_eq!(gate.next_line()["status"], 101);
    gate.signal(Signal::TERM);
    client.wait_closed();
    upgraded.wait_closed();
    let causes = [
        gate.next_line()["cause"].clone(),
        gate.next_line()["cause"].clone(),
    ];
    assert_eq!(causes, ["drain", "drain"]);
    upstream.wait_closed();
    assert_eq!(gate.ended().code, Some(3));
}
