//! Values that are looked for while it runs.

use lockgate_testkit::{Folder, Origin, eventually};
use serde_json::Value;

use crate::scene::{lockgate, text};

#[test]
fn that_a_value_cannot_be_had_is_said_once_and_that_it_can_again() {
    let origin = Origin::tcp();
    let folder = Folder::new();
    let missing = text(&folder.path("missing"));
    let gate = lockgate().start(&format!(
        "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nrespond = \"ok\"\n\
         [values.motd]\nurl = \"http://localhost:{}/motd\"\nevery = \"1s\"\n\
         [values.version]\nfile = \"{missing}\"\nevery = \"1h\"\ndefault = \"1.0\"\n",
        origin.socket_address().port()
    ));
    let answer = |status: u16| {
        let mut upstream = origin.http();
        let request = upstream.request();
        assert_eq!(request.first_line(), "GET /motd HTTP/1.1");
        upstream.send(format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\nConnection: close\r\n\r\nup"));
    };
    [500, 503, 200].into_iter().for_each(answer);
    gate.says("the value is had again");
    let said = |line: &Value, value: &str| {
        (line["value"] == value)
            .then(|| (line["level"].clone(), line["message"].clone(), line["why"].clone()))
    };
    let of = |value| gate.stderr().json().iter().filter_map(|line| said(line, value)).collect::<Vec<_>>();
    let cannot = "the value cannot be had: the last one stays";
    let motd = of("motd");
    // Before its name was resolved, or from the first answer on: either way once.
    assert_eq!(motd.len(), 2, "{motd:?}");
    assert_eq!((&motd[0].0, &motd[0].1), (&"WARN".into(), &cannot.into()));
    assert_eq!((&motd[1].0, &motd[1].1), (&"INFO".into(), &"the value is had again".into()));
    let version = eventually("the other is told", || of("version").pop());
    assert_eq!((version.0, version.1), ("WARN".into(), cannot.into()));
    assert!(version.2.as_str().is_some_and(|why| why.contains("No such file")), "{}", version.2);
    assert_eq!(gate.stop().code, Some(0));
}
