//! Lines of exchanges, in every format and from every kind of peer.

use super::*;
use serde_json::Value;

fn ip(text: &str) -> LoggedAddress {
    LoggedAddress::Ip(text.parse().unwrap())
}

pub(in crate::access_log) fn exchange() -> ExchangeEntry<'static> {
    ExchangeEntry {
        id: "0123456789abcdef0123456789abcdef",
        trace: Some("4bf92f3577b34da6a3ce929d0e0e4736"),
        began: 1_795_294_561_234,
        downstream: LoggedConnection {
            connection: 0xfeed_0000_0000_0001,
            listener: ":443",
            client: ip("203.0.113.9:41022"),
            peer: ip("192.0.2.7:51034"),
            tls: Some(LoggedTls {
                version: "TLSv1.3",
                cipher: "TLS13_AES_256_GCM_SHA384",
                alpn: Some(b"http/1.1"),
                sni: Some("app.example.com"),
                resumed: true,
                client_cn: None,
            }),
        },
        request: LoggedRequest {
            method: b"GET",
            scheme: "https",
            host: b"app.example.com",
            target: b"/api/v1/users?page=2",
            protocol: "HTTP/1.1",
            user: Some(b"alice"),
            referer: Some(b"https://www.example.com/"),
            user_agent: Some(
                b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            ),
        },
        status: 200,
        grpc_status: Some(5),
        received: 0,
        sent: 5_120,
        timings: Timings {
            duration: Duration::from_micros(12_345),
            wait: Some(Duration::from_micros(45)),
            connect: Some(Duration::from_micros(300)),
            response_head: Some(Duration::from_micros(11_000)),
            body: Some(Duration::from_micros(1_000)),
        },
        site: Some("app.example.com"),
        route: Some("/api/*"),
        upstream: Some(LoggedUpstream {
            pool: Some("app"),
            endpoint: Some("10.0.0.1:8080"),
            reused: false,
            tried: "10.0.0.2:8080",
            retries: 1,
        }),
        failure: None,
    }
}

/// A line that leaves no field out.
pub(crate) fn line_with_every_field() -> String {
    let tls = exchange().downstream.tls.map(|tls| LoggedTls {
        client_cn: Some("alice"),
        ..tls
    });
    let failure = LoggedFailure {
        cause: Cause::TooSlow,
        side: CauseSide::Downstream,
        detail: Some("slow"),
    };
    let downstream = LoggedConnection {
        tls,
        ..exchange().downstream
    };
    line(
        &ExchangeEntry {
            downstream,
            failure: Some(failure),
            ..exchange()
        },
        LineFormat::Json,
        MaskIp::Keep,
    )
}

/// A request that could not be read.
fn unreadable() -> ExchangeEntry<'static> {
    ExchangeEntry {
        trace: None,
        grpc_status: None,
        downstream: LoggedConnection {
            tls: None,
            client: LoggedAddress::Unix,
            peer: LoggedAddress::Unix,
            ..exchange().downstream
        },
        request: LoggedRequest {
            scheme: "http",
            ..LoggedRequest::default()
        },
        status: 400,
        sent: 90,
        timings: Timings {
            duration: Duration::from_micros(7),
            ..Timings::default()
        },
        site: None,
        route: None,
        upstream: None,
        failure: Some(LoggedFailure {
            cause: Cause::RefusedByRule,
            side: CauseSide::Downstream,
            detail: Some("a line does not end with CR LF"),
        }),
        ..exchange()
    }
}

fn line(exchange: &ExchangeEntry<'_>, format: LineFormat, mask: MaskIp) -> String {
    let mut out = Vec::new();
    exchange.write(&mut out, &mut Timestamps::default(), format, mask);
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.find('\n'), Some(text.len() - 1), "one line: {text}");
    assert!(
        !text.trim_end_matches('\n').chars().any(char::is_control),
        "{text:?}"
    );
    text
}

#[test]
fn an_exchange_is_one_json_line_with_ordered_fields() {
    let expected = concat!(
        r#"{"time":"2026-11-21T20:56:01.234Z","id":"0123456789abcdef0123456789abcdef","#,
        r#""trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","#,
        r#""connection":"feed000000000001","listener":":443","#,
        r#""client":"203.0.113.9","client_port":41022,"peer":"192.0.2.7","peer_port":51034,"#,
        r#""user":"alice","method":"GET","scheme":"https","host":"app.example.com","#,
        r#""target":"/api/v1/users?page=2","protocol":"HTTP/1.1","#,
        r#""status":200,"received_bytes":0,"sent_bytes":5120,"#,
        r#""duration_seconds":0.012345,"wait_seconds":0.000045,"connect_seconds":0.000300,"#,
        r#""first_byte_seconds":0.011000,"body_seconds":0.001000,"#,
        r#""site":"app.example.com","route":"/api/*","pool":"app","endpoint":"10.0.0.1:8080","#,
        r#""reused":false,"tried":"10.0.0.2:8080","retries":1,"grpc_status":5,"#,
        r#""tls_version":"TLSv1.3","cipher":"TLS13_AES_256_GCM_SHA384","alpn":"http/1.1","#,
        r#""sni":"app.example.com","resumed":true,"#,
        r#""referer":"https://www.example.com/","#,
        r#""user_agent":"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"}"#,
        "\n"
    );
    assert_eq!(line(&exchange(), LineFormat::Json, MaskIp::Keep), expected);
}

#[test]
fn absent_fields_of_an_exchange_are_omitted() {
    let expected = concat!(
        r#"{"time":"2026-11-21T20:56:01.234Z","id":"0123456789abcdef0123456789abcdef","#,
        r#""connection":"feed000000000001","listener":":443","client":"unix","peer":"unix","#,
        r#""scheme":"http","status":400,"received_bytes":0,"sent_bytes":90,"duration_seconds":0.000007,"#,
        r#""cause":"refused_by_rule","side":"downstream","detail":"a line does not end with CR LF"}"#,
        "\n"
    );
    assert_eq!(
        line(&unreadable(), LineFormat::Json, MaskIp::Mask),
        expected
    );
}

#[test]
fn logfmt_uses_the_json_names_and_quotes_where_needed() {
    let text = line(&exchange(), LineFormat::Logfmt, MaskIp::Mask);
    assert!(text.starts_with(
        "time=2026-11-21T20:56:01.234Z id=0123456789abcdef0123456789abcdef trace_id=4bf92f35"
    ));
    assert!(
        text.contains(" client=203.0.113.0 peer=192.0.2.0 user=alice method=GET "),
        "{text}"
    );
    assert!(text.contains(" target=\"/api/v1/users?page=2\" "), "{text}");
    assert!(text.contains(" duration_seconds=0.012345 "), "{text}");
    assert!(text.ends_with(
        " user_agent=\"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\"\n"
    ));
}

#[test]
fn combined_format_is_that_of_apache_and_nginx() {
    assert_eq!(
        line(&exchange(), LineFormat::Combined, MaskIp::Keep),
        "203.0.113.9 - alice [21/Nov/2026:20:56:01 +0000] \"GET /api/v1/users?page=2 HTTP/1.1\" 200 5120 \
         \"https://www.example.com/\" \
         \"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\"\n"
    );
    assert_eq!(
        line(&unreadable(), LineFormat::Combined, MaskIp::Keep),
        "unix: - - [21/Nov/2026:20:56:01 +0000] \"-\" 400 90 \"-\" \"-\"\n"
    );
}

#[test]
fn client_addresses_are_masked_in_every_format() {
    for format in [LineFormat::Json, LineFormat::Logfmt, LineFormat::Combined] {
        let text = line(&exchange(), format, MaskIp::Mask);
        assert!(text.contains("203.0.113.0"), "{text}");
        for hidden in ["203.0.113.9", "192.0.2.7", "41022", "51034"] {
            assert!(!text.contains(hidden), "{text}");
        }
    }
}

/// An exchange with `text` in every field that a peer can write to.
fn with<'a>(bytes: &'a [u8], text: &'a str) -> ExchangeEntry<'a> {
    let mut hostile: ExchangeEntry<'a> = exchange();
    hostile.id = text;
    hostile.request = LoggedRequest {
        method: bytes,
        host: bytes,
        target: bytes,
        user: Some(bytes),
        referer: Some(bytes),
        user_agent: Some(bytes),
        ..hostile.request
    };
    hostile.failure = Some(LoggedFailure {
        cause: Cause::Internal,
        side: CauseSide::Lockgate,
        detail: Some(text),
    });
    if let Some(tls) = &mut hostile.downstream.tls {
        tls.alpn = Some(bytes);
        tls.sni = Some(text);
        tls.client_cn = Some(text);
    }
    hostile
}

/// Pseudo-random bytes, the same in every run.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn any_bytes_of_a_peer_give_valid_json() {
    for seed in 0..500 {
        let bytes = noise(seed, seed as usize % 67 + 1);
        let text = String::from_utf8_lossy(&bytes);
        let written = line(&with(&bytes, &text), LineFormat::Json, MaskIp::Keep);
        let read: Value = serde_json::from_str(&written).unwrap();
        let expected: String = bytes
            .utf8_chunks()
            .flat_map(|chunk| {
                chunk
                    .valid()
                    .chars()
                    .chain(chunk.invalid().iter().map(|&byte| char::from(byte)))
            })
            .collect();
        for name in [
            "method",
            "host",
            "target",
            "user",
            "alpn",
            "referer",
            "user_agent",
        ] {
            assert_eq!(read[name], Value::String(expected.clone()), "{name}");
        }
        for name in ["id", "detail", "sni", "client_cn"] {
            assert_eq!(
                read[name],
                Value::String(text.clone().into_owned()),
                "{name}"
            );
        }
        assert_eq!(
            (&read["status"], &read["cause"]),
            (&Value::from(200), &Value::from("internal"))
        );
    }
}

#[test]
fn no_peer_can_inject_a_log_line_or_field() {
    let attack = "x\" 200 1 \"-\" \"-\"\r\n{\"time\":0}\n\u{85}\u{2028} status=500 \\";
    for format in [LineFormat::Json, LineFormat::Logfmt, LineFormat::Combined] {
        line(&with(attack.as_bytes(), attack), format, MaskIp::Keep);
    }
    for seed in 0..500 {
        let bytes = noise(seed, 40);
        let text = line(&with(&bytes, ""), LineFormat::Combined, MaskIp::Keep);
        assert_eq!(
            text.bytes().filter(|&byte| byte == b'"').count(),
            6,
            "{text}"
        );
        assert_eq!(
            text.split('"').next().unwrap().split(' ').count(),
            6,
            "a user has no space: {text}"
        );
        assert!(text.is_ascii());
        let fields = line(&with(&bytes, ""), LineFormat::Logfmt, MaskIp::Keep);
        assert_eq!(
            outside_of_quotes(&fields).matches(" status=").count(),
            1,
            "{fields}"
        );
    }
}

/// A line of logfmt without its quoted values.
fn outside_of_quotes(line: &str) -> String {
    let (mut out, mut quoted, mut escaped) = (String::new(), false, false);
    for c in line.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if !quoted => out.push(c),
            _ => {}
        }
    }
    assert!(!quoted, "{line}");
    out
}

#[test]
fn an_access_log_line_has_a_maximum_length() {
    let long = vec![b'\x01'; 100_000];
    let text = "\u{1}".repeat(100_000);
    for format in [LineFormat::Json, LineFormat::Logfmt, LineFormat::Combined] {
        let written = line(&with(&long, &text), format, MaskIp::Keep);
        assert!(written.len() < 80 * 1024, "{format:?}: {}", written.len());
    }
    let exact = "a".repeat(TARGET);
    let more = "a".repeat(TARGET + 1);
    let written = line(&with(exact.as_bytes(), ""), LineFormat::Json, MaskIp::Keep);
    assert!(written.contains(&format!("\"target\":\"{exact}\",")));
    let written = line(&with(more.as_bytes(), ""), LineFormat::Json, MaskIp::Keep);
    assert!(written.contains(&format!("\"target\":\"{exact}…\",")));
}

#[test]
fn errors_are_5xx_responses_and_exchanges_with_a_cause() {
    assert!(!exchange().is_error());
    assert!(
        !ExchangeEntry {
            status: 404,
            ..exchange()
        }
        .is_error()
    );
    assert!(
        ExchangeEntry {
            status: 500,
            ..exchange()
        }
        .is_error()
    );
    assert!(unreadable().is_error());
}

/// By hand: `cargo test --release -p lockgate-proxy --lib cost_of_a_line -- --ignored --nocapture`
#[test]
#[ignore = "prints figures, for people"]
fn cost_of_a_line() {
    let (exchange, mut stamps) = (exchange(), Timestamps::default());
    for format in [LineFormat::Json, LineFormat::Logfmt, LineFormat::Combined] {
        let mut out = Vec::with_capacity(64 * 1024);
        let began = std::time::Instant::now();
        for turn in 0..1_000_000_u64 {
            if out.len() > 32 * 1024 {
                out.clear();
            }
            let one = ExchangeEntry {
                began: exchange.began + turn / 100,
                ..exchange
            };
            std::hint::black_box(&one).write(&mut out, &mut stamps, format, MaskIp::Keep);
        }
        println!(
            "{format:?}: {} ns a line",
            began.elapsed().as_nanos() / 1_000_000
        );
    }
}
