//! Requests and answers as they pass, byte for byte.

use lockgate_testkit::{Http, Origin};

use super::plain_site;
use crate::scene::lockgate;

#[test]
fn a_request_and_its_answer_pass() {
    let origin = Origin::tcp();
    let gate = lockgate().start(&plain_site(origin.address()));
    let mut client = Http::connect(gate.address());
    client.send("GET /a?b HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let mut upstream = origin.http();
    let request = upstream.request();
    assert_eq!(request.first_line(), "GET /a?b HTTP/1.1");
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let answer = client.answer();
    assert_eq!((answer.status(), answer.text()), (200, "ok"));
    println!("{}{}", request.head, answer.head);
}
