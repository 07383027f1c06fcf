//! Values that are fetched at run time, and the pages that show them.

use lockgate_testkit::{Folder, Http, Origin};
use serde_json::Value;

use crate::scene::{lockgate, text};

#[test]
fn a_page_shows_the_last_values_that_were_fetched() {
    let origin = Origin::tcp();
    let folder = Folder::new();
    folder.write("index.html", "<p>@motd@, @version@, @none@</p>");
    let version = text(&folder.write("version", "1.2 <b>new</b>\n"));
    let gate = lockgate().start(&format!(
        "[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nroot = \"{}\"\nrewrite_body = [\n\
         {{ text = \"@motd@\", with = \"{{value:motd}}\" }},\n\
         {{ text = \"@version@\", with = \"{{value:version}}\" }},\n\
         {{ text = \"@none@\", with = \"{{value:none}}\" }} ]\n\
         [values.motd]\nurl = \"http://localhost:{}/motd\"\nevery = \"1s\"\ndefault = \"nothing yet\"\n\
         [values.version]\nfile = \"{version}\"\nevery = \"1h\"\n\
         [values.none]\nfile = \"{}\"\nevery = \"1h\"\ndefault = \"-\"\n",
        text(folder.dir()),
        origin.socket_address().port(),
        text(&folder.path("missing"))
    ));
    let page = || {
        let mut client = Http::connect(gate.address());
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        client.answer().text().to_owned()
    };
    let answer = |status: u16| {
        let mut upstream = origin.http();
        assert_eq!(upstream.request().first_line(), "GET /motd HTTP/1.1");
        upstream.send(format!(
            "HTTP/1.1 {status} X\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n"
        ));
    };
    // One of them has no response yet, and the others do not wait for it.
    assert_eq!(page(), "<p>nothing yet, 1.2 <b>new</b>, -</p>");
    [500, 503, 200].into_iter().for_each(answer);
    gate.says("the value can be fetched again");
    assert_eq!(page(), "<p>hello, 1.2 <b>new</b>, -</p>");
    let cannot = (
        "WARN".to_owned(),
        "the value cannot be fetched: the last one stays in use".to_owned(),
    );
    let again = (
        "INFO".to_owned(),
        "the value can be fetched again".to_owned(),
    );
    assert_eq!(
        logged_about(&gate.stderr().json(), "motd"),
        [cannot.clone(), again]
    );
    assert_eq!(logged_about(&gate.stderr().json(), "none"), [cannot]);
    assert_eq!(logged_about(&gate.stderr().json(), "version"), []);
    assert_eq!(gate.stop().code, Some(0));
}

/// Level and message of each line that the operator log has of a value.
fn logged_about(lines: &[Value], value: &str) -> Vec<(String, String)> {
    let of = lines.iter().filter(|line| line["value"] == value);
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    of.map(|line| (text(line, "level"), text(line, "message")))
        .collect()
}
