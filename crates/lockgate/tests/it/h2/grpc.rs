//! Calls of gRPC: errors of ours end them with a status and a message of gRPC; the log and metrics
//! have the status of each.

use http::Method;
use lockgate_testkit::h2::{Client, Origin, ReceivedResponse, ScriptedResponse};
use lockgate_testkit::{Folder, Http, Lockgate};

use crate::scene::{deserted, lockgate};

fn call(gate: &Lockgate, path: &str) -> ReceivedResponse {
    let client = Client::connect(gate.address());
    let mut request = Client::request(Method::POST, path);
    request
        .headers_mut()
        .append("content-type", "application/grpc+proto".parse().unwrap());
    request
        .headers_mut()
        .append("te", "trailers".parse().unwrap());
    let mut exchange = client.begin(request, false);
    exchange.send(&b"\0\0\0\0\0"[..], true);
    exchange.answer()
}

fn site(keys: &str) -> String {
    format!("[site.\":0\"]\nlisten = [\"127.0.0.1\"]\nprotocols = [\"h2c\", \"http1\"]\n{keys}\n")
}

/// gRPC over HTTP2, "Responses": Trailers-Only.
#[test]
fn error_responses_to_grpc_calls_have_a_grpc_status() {
    let folder = Folder::new();
    let users = folder.write("users", "");
    let page = folder.write("502.html", "<h1>sorry</h1>");
    let path = |path: &str, keys: &str| format!("[site.\":0\".path.\"{path}\"]\n{keys}\n");
    let dead = deserted();
    let toml = site(&format!(
        "proxy = \"{dead}\"\nerror_pages = {{ 502 = \"{}\" }}\n",
        page.display()
    )) + &path(
        "/auth/*",
        &format!("auth = {{ basic = \"{}\" }}", users.display()),
    ) + &path("/deny/*", "deny = [\"127.0.0.0/8\"]")
        + &path("/limit/*", "limit = \"1/h\"");
    let gate = lockgate().start(&toml);
    call(&gate, "/limit/x");
    for (path, status, message) in [
        (
            "/pkg.Service/Method",
            "14",
            "the application cannot be reached",
        ),
        ("/auth/x", "16", "a user name and a password are required"),
        ("/deny/x", "7", "access is not allowed"),
        ("/limit/x", "8", ""),
        ("/../x", "13", "the request is malformed"),
    ] {
        let got = call(&gate, path);
        assert_eq!(
            (got.status, got.text(), got.reset),
            (200, "", None),
            "{path}"
        );
        assert_eq!(
            got.field("content-type"),
            Some("application/grpc"),
            "{path}"
        );
        assert_eq!(
            got.field("grpc-status"),
            Some(status),
            "{path}: {:?}",
            got.fields
        );
        let told = got.field("grpc-message").unwrap();
        assert!(
            !told.is_empty() && (message.is_empty() || told == message),
            "{path}: {told}"
        );
        assert!(got.field("proxy-status").is_some(), "{path}");
    }
    let line = gate.line("the call", |line| line["target"] == "/pkg.Service/Method");
    assert_eq!(
        (&line["status"], &line["grpc_status"]),
        (&200.into(), &14.into()),
        "{line}"
    );
    assert_eq!(line["cause"], "connect_failed", "{line}");
    gate.wait_for_sample(
        "lockgate_grpc_calls_total",
        &["site=\":0\"", "status=\"7\""],
        1.0,
    );

    // Other clients get what they got before.
    let client = Client::connect(gate.address());
    let got = client.get("/");
    assert_eq!(
        (got.status, got.text(), got.field("grpc-status")),
        (502, "<h1>sorry</h1>", None)
    );
    let mut http = Http::connect(gate.address());
    http.send(
        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\r\n",
    );
    let got = http.answer();
    assert_eq!((got.status(), got.field("grpc-status")), (502, None));
}

/// Responses of the configuration, and refusals of an auth service.
#[test]
fn configured_responses_to_grpc_calls_have_a_grpc_status() {
    let service = lockgate_testkit::Origin::tcp().answering(|_| {
        b"HTTP/1.1 403 Forbidden\r\nX-Why: no\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nno"
            .to_vec()
    });
    let path = |path: &str, keys: &str| format!("[site.\":0\".path.\"{path}\"]\n{keys}\n");
    let own = "respond = { status = 200 }\nheaders = { grpc-status = \"5\", content-type = \"application/grpc\" }";
    let toml = site("respond = { status = 503, body = \"closed\" }")
        + &path("/moved/*", "redirect = \"https://b.test{path}\"")
        + &path(
            "/auth/*",
            &format!(
                "proxy = \"{}\"\nauth = {{ forward = \"{}\" }}",
                deserted(),
                service.address()
            ),
        )
        + &path("/own/*", own);
    let gate = lockgate().start(&toml);
    for (path, status, message) in [
        ("/pkg.Service/Method", "14", Some("503 Service Unavailable")),
        ("/moved/x", "2", Some("308 Permanent Redirect")),
        ("/auth/x", "7", Some("403 Forbidden")),
        ("/own/x", "5", None),
    ] {
        let got = call(&gate, path);
        assert_eq!(
            (got.status, got.text(), got.reset),
            (200, "", None),
            "{path}: {:?}",
            got.fields
        );
        assert_eq!(
            (got.field("grpc-status"), got.field("grpc-message")),
            (Some(status), message),
            "{path}"
        );
        assert_eq!(got.field("x-why"), (path == "/auth/x").then_some("no"));
    }
    let line = gate.line("the call", |line| line["target"] == "/auth/x");
    assert_eq!(
        (&line["status"], &line["grpc_status"]),
        (&200.into(), &7.into()),
        "{line}"
    );
    // Other clients get what they got before.
    let client = Client::connect(gate.address());
    let got = client.get("/");
    assert_eq!(
        (got.status, got.text(), got.field("grpc-status")),
        (503, "closed", None)
    );
}

#[test]
fn grpc_status_of_endpoints_is_logged_and_counted() {
    let origin = Origin::plain(|asked| match asked.path.as_str() {
        "/head" => ScriptedResponse::new(200)
            .field("content-type", "application/grpc")
            .field("grpc-status", "5"),
        "/trailers" => ScriptedResponse::new(200)
            .field("content-type", "application/grpc")
            .piece(&b"\0\0\0\0\0"[..])
            .trailer("grpc-status", "0")
            .trailer("grpc-message", "fine"),
        _ => ScriptedResponse::ok("no gRPC"),
    });
    let pool = format!(
        "[pool.app]\nprotocol = \"h2c\"\nendpoints = [\"{}\"]\n",
        origin.address()
    );
    let gate = lockgate().start(&(pool + &site("proxy = \"pool:app\"")));
    assert_eq!(call(&gate, "/head").field("grpc-status"), Some("5"));
    assert_eq!(call(&gate, "/trailers").trailer("grpc-status"), Some("0"));
    assert_eq!(call(&gate, "/other").text(), "no gRPC");
    for (target, status) in [("/head", Some(5)), ("/trailers", Some(0)), ("/other", None)] {
        let line = gate.line(target, |line| line["target"] == target);
        assert_eq!(line["grpc_status"].as_u64(), status, "{line}");
    }
    for status in ["0", "5"] {
        let status = format!("status=\"{status}\"");
        gate.wait_for_sample("lockgate_grpc_calls_total", &["site=\":0\"", &status], 1.0);
    }
}
