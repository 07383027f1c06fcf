//! Hellos by hand, cut at every byte, and hellos of rustls and OpenSSL.

use std::sync::Arc;

use super::{
    ClientHello, FirstProtocol, HELLO_MAX, HelloError, HelloVersion, Peek, fatal_alert,
    first_protocol, peek,
};

const UNEXPECTED_MESSAGE: u8 = 10;
const RECORD_OVERFLOW: u8 = 22;
const ILLEGAL_PARAMETER: u8 = 47;
const DECODE_ERROR: u8 = 50;
const PROTOCOL_VERSION: u8 = 70;

fn vec8(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

fn vec16(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn record(content: &[u8]) -> Vec<u8> {
    [&[22, 3, 1][..], &vec16(content)].concat()
}

fn handshake(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[kind], &length[1..], body].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &vec16(content)].concat()
}

fn server_name(name: &[u8]) -> Vec<u8> {
    extension(0, &vec16(&[&[0], &vec16(name)[..]].concat()))
}

fn alpn(names: &[&[u8]]) -> Vec<u8> {
    extension(
        16,
        &vec16(
            &names
                .iter()
                .flat_map(|name| vec8(name))
                .collect::<Vec<u8>>(),
        ),
    )
}

fn versions(list: &[u16]) -> Vec<u8> {
    extension(
        43,
        &vec8(
            &list
                .iter()
                .flat_map(|version| version.to_be_bytes())
                .collect::<Vec<u8>>(),
        ),
    )
}

/// A hello with parts that a test replaces by wrong ones.
#[derive(Clone)]
struct Build {
    kind: u8,
    version: u16,
    random: Vec<u8>,
    session_id: Vec<u8>,
    suites: Vec<u8>,
    compression: Vec<u8>,
    extensions: Option<Vec<u8>>,
    after: Vec<u8>,
}

impl Build {
    fn new(extensions: &[Vec<u8>]) -> Self {
        Self {
            kind: 1,
            version: 0x0303,
            random: vec![7; 32],
            session_id: vec8(&[9; 32]),
            suites: vec16(&[0x13, 0x01, 0x0A, 0x0A]),
            compression: vec8(&[0]),
            extensions: Some(vec16(&extensions.concat())),
            after: Vec::new(),
        }
    }

    fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut build = Self::typical();
        change(&mut build);
        build
    }

    fn typical() -> Self {
        Self::new(&[
            extension(0x1A1A, b""), // GREASE, RFC 8701
            server_name(b"Shop.Example.com"),
            alpn(&[b"\x6A\x6A", b"h2", b"http/1.1"]),
            versions(&[0x7A7A, 0x0304, 0x0303]),
            extension(0x2A2A, b"\0"),
        ])
    }

    fn message(&self) -> Vec<u8> {
        let body = [
            &self.version.to_be_bytes()[..],
            &self.random,
            &self.session_id,
            &self.suites,
            &self.compression,
            self.extensions.as_deref().unwrap_or_default(),
            &self.after,
        ];
        handshake(self.kind, &body.concat())
    }

    fn bytes(&self) -> Vec<u8> {
        record(&self.message())
    }

    /// Over records of `size` bytes each.
    fn fragmented(&self, size: usize) -> Vec<u8> {
        self.message().chunks(size).flat_map(record).collect()
    }
}

fn hello(bytes: &[u8]) -> ClientHello<'_> {
    match peek(bytes) {
        Ok(Peek::Hello(hello)) => hello,
        other => panic!("{other:?}"),
    }
}

/// Name, protocols and newest version, as text.
fn seen(hello: &ClientHello<'_>) -> (Option<String>, String, Option<HelloVersion>) {
    let protocols: Vec<String> = hello
        .alpn()
        .map(|name| name.escape_ascii().to_string())
        .collect();
    (
        hello.server_name.as_deref().map(str::to_owned),
        protocols.join(" "),
        hello.newest,
    )
}

/// Feeds one byte at a time, but parses only when as much is there as the parser asked for; returns
/// the number of calls.
fn feed(bytes: &[u8]) -> (Result<ClientHello<'_>, HelloError>, usize) {
    let (mut need, mut calls) = (1, 0);
    for there in 1..=bytes.len() {
        if there < need {
            continue;
        }
        calls += 1;
        match peek(&bytes[..there]) {
            Ok(Peek::NeedMore { at_least }) => {
                assert!(at_least > there && at_least <= HELLO_MAX);
                need = at_least;
            }
            Ok(Peek::Hello(hello)) => return (Ok(hello), calls),
            Err(error) => return (Err(error), calls),
        }
    }
    panic!("never complete");
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn sni_alpn_and_version_are_read() {
    let bytes = Build::typical().bytes();
    let hello = hello(&bytes);
    let expected = (
        Some("shop.example.com".to_owned()),
        "jj h2 http/1.1".to_owned(),
        Some(HelloVersion::Tls13),
    );
    assert_eq!(seen(&hello), expected);
    assert_eq!(hello.len, bytes.len());
    assert_eq!(*hello.session_id, [9; 32]);
}

#[test]
fn bytes_after_the_client_hello_record_are_ignored() {
    let bytes = Build::typical().bytes();
    let longer = [&bytes[..], b"\x17\x03\x03\x00\x02early data or garbage"].concat();
    assert_eq!(hello(&longer), hello(&bytes));
}

#[test]
fn every_cut_of_a_hello_waits_for_more() {
    for bytes in [
        Build::typical().bytes(),
        Build::typical().fragmented(50),
        Build::typical().fragmented(1),
    ] {
        for cut in 0..bytes.len() {
            match peek(&bytes[..cut]) {
                Ok(Peek::NeedMore { at_least }) => {
                    assert!(at_least > cut && at_least <= bytes.len(), "{cut}")
                }
                other => panic!("{other:?} at {cut}"),
            }
        }
    }
}

#[test]
fn fragmented_records_give_the_same_hello() {
    // RFC 8446 §5.1: a handshake message may be spread over records
    let build = Build::typical();
    let whole = build.bytes();
    for size in 1..build.message().len() {
        let bytes = build.fragmented(size);
        let hello = hello(&bytes);
        assert_eq!(seen(&hello), seen(&self::hello(&whole)), "{size}");
        assert_eq!(hello.len, bytes.len());
    }
}

#[test]
fn one_byte_segments_cost_few_parse_calls() {
    let padded = Build::new(&[server_name(b"a.example"), extension(21, &[0; 16_000])]);
    assert!(feed(&padded.bytes()).1 <= 4);
    assert!(feed(&padded.fragmented(4_000)).1 <= 8);
    let small = Build::new(&[server_name(b"a.example"), extension(21, &[0; 9_000])]);
    let bytes = small.fragmented(1);
    let (hello, calls) = feed(&bytes);
    assert_eq!(hello.unwrap().server_name.as_deref(), Some("a.example"));
    assert!(calls < 60, "{calls}");
}

#[test]
fn padding_extension_is_accepted_up_to_the_limit() {
    // RFC 7685 padding; 64 KB in all
    let padded =
        |padding| Build::new(&[server_name(b"a.example"), extension(21, &vec![0; padding])]);
    let around = padded(0).fragmented(16_384).len() + 3 * 5;
    for (padding, size) in [
        (16_000, 16_384),
        (16_384, 16_384),
        (40_000, 16_384),
        (60_000, 16_384),
        (10_000, 1),
    ] {
        let bytes = padded(padding).fragmented(size);
        assert_eq!(
            feed(&bytes).0.unwrap().server_name.as_deref(),
            Some("a.example"),
            "{padding} {size}"
        );
    }
    let longest = padded(HELLO_MAX - around).fragmented(16_384);
    assert_eq!(longest.len(), HELLO_MAX);
    assert_eq!(feed(&longest).0.unwrap().len, HELLO_MAX);
    let longer = padded(HELLO_MAX - around + 1).fragmented(16_384);
    assert_eq!(feed(&longer).0, Err(HelloError::TooLong));
    assert_eq!(
        feed(&padded(20_000).fragmented(1)).0,
        Err(HelloError::TooLong)
    );
    let lie = record(&[1, 0xFF, 0xFF, 0xFF]);
    assert_eq!(
        peek(&lie),
        Err(HelloError::TooLong),
        "refused before it comes"
    );
    // Found by fuzzing: the error was another one when the next record was there already.
    let interrupted = [&lie[..], &[21, 3, 3, 0, 2, 2, 40]].concat();
    assert_eq!(peek(&interrupted), Err(HelloError::TooLong));
}

#[test]
fn malformed_records_are_refused() {
    use HelloError::{
        EmptyRecord, Interrupted, NotClientHello, NotTls, RecordOverflow, RecordVersion, Ssl2,
        Trailing,
    };
    let message = Build::typical().message();
    let (half, rest) = message.split_at(60);
    let table: Vec<(&str, Vec<u8>, HelloError, u8)> = vec![
        ("garbage", b"garbage".to_vec(), NotTls, UNEXPECTED_MESSAGE),
        (
            "an alert",
            vec![21, 3, 3, 0, 2, 2, 40],
            NotTls,
            UNEXPECTED_MESSAGE,
        ),
        (
            "application data",
            vec![23, 3, 3, 0, 1, 0],
            NotTls,
            UNEXPECTED_MESSAGE,
        ),
        (
            "SSL 2.0",
            vec![0x80, 0x2E, 1, 0, 2, 0, 0x15],
            Ssl2,
            PROTOCOL_VERSION,
        ),
        (
            "SSL 3.0 in SSL 2.0",
            vec![0x80, 0x2E, 1, 3, 0, 0, 0x15],
            Ssl2,
            PROTOCOL_VERSION,
        ),
        (
            "a high byte",
            vec![0xFF, 0x2E, 2, 3, 0],
            NotTls,
            UNEXPECTED_MESSAGE,
        ),
        (
            "major version 2",
            [&[22, 2, 1][..], &vec16(&message)].concat(),
            RecordVersion,
            PROTOCOL_VERSION,
        ),
        (
            "major version 254",
            [&[22, 254, 253][..], &vec16(&message)].concat(),
            RecordVersion,
            PROTOCOL_VERSION,
        ),
        // RFC 8446 §5.1: length, no empty fragments, no interleaving
        (
            "2^14 + 1 bytes",
            [22, 3, 1, 0x40, 0x01].to_vec(),
            RecordOverflow,
            RECORD_OVERFLOW,
        ),
        ("empty", record(b""), EmptyRecord, UNEXPECTED_MESSAGE),
        (
            "empty between",
            [record(half), record(b""), record(rest)].concat(),
            EmptyRecord,
            UNEXPECTED_MESSAGE,
        ),
        (
            "an alert between",
            [record(half), vec![21, 3, 3, 0, 2, 1, 0], record(rest)].concat(),
            Interrupted,
            UNEXPECTED_MESSAGE,
        ),
        (
            "change_cipher_spec between",
            [record(half), vec![20, 3, 3, 0, 1, 1], record(rest)].concat(),
            Interrupted,
            UNEXPECTED_MESSAGE,
        ),
        (
            "the second too long",
            [record(half), vec![22, 3, 3, 0xFF, 0xFF]].concat(),
            RecordOverflow,
            RECORD_OVERFLOW,
        ),
        (
            "a ServerHello",
            record(&handshake(2, &message)),
            NotClientHello,
            UNEXPECTED_MESSAGE,
        ),
        (
            "a HelloRequest",
            record(&handshake(0, b"")),
            NotClientHello,
            UNEXPECTED_MESSAGE,
        ),
        (
            "a second message",
            record(&[&message[..], &message].concat()),
            Trailing,
            UNEXPECTED_MESSAGE,
        ),
        (
            "one byte more",
            record(&[&message[..], b"\0"].concat()),
            Trailing,
            UNEXPECTED_MESSAGE,
        ),
        (
            "one more in the second",
            [record(half), record(&[rest, b"\0"].concat())].concat(),
            Trailing,
            UNEXPECTED_MESSAGE,
        ),
    ];
    for (what, bytes, error, alert) in table {
        assert_eq!(peek(&bytes), Err(error), "{what}");
        assert_eq!(error.alert(), alert, "{what}");
        for cut in 0..bytes.len() {
            let early = peek(&bytes[..cut]);
            assert!(
                matches!(early, Ok(Peek::NeedMore { .. })) || early == Err(error),
                "{early:?}: {what} at {cut}"
            );
        }
    }
}

#[test]
fn malformed_hellos_are_refused() {
    use HelloError::{BadName, ExtensionTwice, Malformed, Ssl3};
    let extensions = |list: &[Vec<u8>]| Build::new(list);
    let name_list = |content: &[u8]| Build::new(&[extension(0, content)]);
    let protocols = |content: &[u8]| Build::new(&[extension(16, content)]);
    let supported = |content: &[u8]| Build::new(&[extension(43, content)]);
    let sni = Malformed("server_name");
    let alpn_wrong = Malformed("application_layer_protocol_negotiation");
    let versions_wrong = Malformed("supported_versions");
    let table: Vec<(&str, Build, HelloError, u8)> = vec![
        // RFC 8446 appendix D.5
        (
            "SSL 3.0",
            Build::with(|b| b.version = 0x0300),
            Ssl3,
            PROTOCOL_VERSION,
        ),
        (
            "SSL 2.0",
            Build::with(|b| b.version = 0x0002),
            Ssl3,
            PROTOCOL_VERSION,
        ),
        // RFC 8446 §4.1.2
        (
            "long session id",
            Build::with(|b| b.session_id = vec8(&[0; 33])),
            Malformed("session id"),
            DECODE_ERROR,
        ),
        (
            "no suites",
            Build::with(|b| b.suites = vec16(b"")),
            Malformed("cipher suites"),
            DECODE_ERROR,
        ),
        (
            "half a suite",
            Build::with(|b| b.suites = vec16(b"abc")),
            Malformed("cipher suites"),
            DECODE_ERROR,
        ),
        (
            "suites too long",
            Build::with(|b| b.suites[0] = 0xFF),
            Malformed("cipher suites"),
            DECODE_ERROR,
        ),
        (
            "no compression",
            Build::with(|b| b.compression = vec8(b"")),
            Malformed("compression methods"),
            DECODE_ERROR,
        ),
        (
            "one byte more",
            Build::with(|b| b.after = vec![0]),
            Malformed("more after the extensions"),
            DECODE_ERROR,
        ),
        (
            "one byte of extensions",
            Build::with(|b| b.extensions = Some(vec![0])),
            Malformed("extensions"),
            DECODE_ERROR,
        ),
        (
            "extensions too long",
            Build::with(|b| b.extensions.as_mut().unwrap()[0] = 0xFF),
            Malformed("extensions"),
            DECODE_ERROR,
        ),
        (
            "half a type",
            extensions(&[vec![0]]),
            Malformed("extension type"),
            DECODE_ERROR,
        ),
        (
            "half a length",
            extensions(&[vec![0, 21, 0]]),
            Malformed("extension length"),
            DECODE_ERROR,
        ),
        (
            "an extension too long",
            extensions(&[vec![0, 21, 0, 1]]),
            Malformed("extension length"),
            DECODE_ERROR,
        ),
        // RFC 8446 §4.2
        (
            "two names",
            extensions(&[server_name(b"a"), server_name(b"a")]),
            ExtensionTwice,
            ILLEGAL_PARAMETER,
        ),
        (
            "two unknown",
            extensions(&[
                extension(0xFAFA, b""),
                extension(1, b""),
                extension(0xFAFA, b""),
            ]),
            ExtensionTwice,
            ILLEGAL_PARAMETER,
        ),
        // RFC 6066 §3
        ("no list", name_list(b""), sni, DECODE_ERROR),
        ("an empty list", name_list(&vec16(b"")), sni, DECODE_ERROR),
        (
            "an empty name",
            name_list(&vec16(&[0, 0, 0])),
            sni,
            DECODE_ERROR,
        ),
        (
            "a name cut",
            name_list(&vec16(b"\0\0\x09example")),
            sni,
            DECODE_ERROR,
        ),
        (
            "more after the list",
            name_list(&[&vec16(b"\0\0\x01a")[..], b"\0"].concat()),
            sni,
            DECODE_ERROR,
        ),
        (
            "two host names",
            name_list(&vec16(b"\0\0\x01a\0\0\x01b")),
            sni,
            DECODE_ERROR,
        ),
        // RFC 7301 §3.1
        ("no ALPN list", protocols(b""), alpn_wrong, DECODE_ERROR),
        (
            "an empty ALPN list",
            protocols(&vec16(b"")),
            alpn_wrong,
            DECODE_ERROR,
        ),
        (
            "an empty protocol",
            protocols(&vec16(b"\x02h2\0")),
            alpn_wrong,
            DECODE_ERROR,
        ),
        (
            "a protocol cut",
            protocols(&vec16(b"\x03h2")),
            alpn_wrong,
            DECODE_ERROR,
        ),
        (
            "more after ALPN",
            protocols(&[&vec16(b"\x02h2")[..], b"\0"].concat()),
            alpn_wrong,
            DECODE_ERROR,
        ),
        // RFC 8446 §4.2.1
        ("no versions", supported(b""), versions_wrong, DECODE_ERROR),
        (
            "an empty list of versions",
            supported(b"\0"),
            versions_wrong,
            DECODE_ERROR,
        ),
        (
            "half a version",
            supported(b"\x03\x03\x04\x03"),
            versions_wrong,
            DECODE_ERROR,
        ),
        (
            "more after the versions",
            supported(b"\x02\x03\x04\x03\x03"),
            versions_wrong,
            DECODE_ERROR,
        ),
        (
            "versions too long",
            supported(b"\x04\x03\x04"),
            versions_wrong,
            DECODE_ERROR,
        ),
        (
            "a wrong name",
            extensions(&[server_name(b"a..b")]),
            BadName,
            ILLEGAL_PARAMETER,
        ),
    ];
    for (what, build, error, alert) in table {
        assert_eq!(peek(&build.bytes()), Err(error), "{what}");
        assert_eq!(
            peek(&build.fragmented(13)),
            Err(error),
            "{what}, in fragments"
        );
        assert_eq!(error.alert(), alert, "{what}");
    }
}

#[test]
fn a_hello_message_cut_anywhere_is_malformed() {
    // The message's own length agrees, its content does not.
    let whole = Build::typical().message();
    let body = &whole[4..];
    let without_extensions = 2 + 32 + 33 + 6 + 2; // which is a hello of its own
    for cut in (0..body.len()).filter(|cut| *cut != without_extensions) {
        let result = peek(&record(&handshake(1, &body[..cut]))).map(|_| ());
        assert!(
            matches!(result, Err(HelloError::Malformed(_))),
            "{result:?} at {cut}"
        );
    }
}

#[test]
fn sni_host_names_are_validated() {
    let label = "l".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}", "l".repeat(61));
    assert_eq!(longest.len(), 253);
    let good = [
        ("example.com", "example.com"),
        ("EXAMPLE.Com", "example.com"),
        ("localhost", "localhost"),
        ("a.b.c.d.e", "a.b.c.d.e"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("_acme.a_b.example", "_acme.a_b.example"),
        ("1.2.3.4a", "1.2.3.4a"),
        ("3com.example", "3com.example"),
        ("example.com.", "example.com"),
        (&longest, &longest),
    ];
    for (name, expected) in good {
        let bytes = Build::new(&[server_name(name.as_bytes())]).bytes();
        assert_eq!(hello(&bytes).server_name.as_deref(), Some(expected));
    }
    // RFC 6066 §3: "Literal IPv4 and IPv6 addresses are not permitted"
    for literal in ["192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1"] {
        let bytes = Build::new(&[server_name(literal.as_bytes()), alpn(&[b"h2"])]).bytes();
        assert_eq!(
            seen(&hello(&bytes)),
            (None, "h2".to_owned(), Some(HelloVersion::Tls12))
        );
    }
    let long = "l".repeat(64);
    let too_long = format!("{longest}x");
    let very_long = "l.".repeat(127) + "l";
    assert_eq!(very_long.len(), 255);
    let bad: [&[u8]; 21] = [
        b"exam\0ple.com",
        b"example.com\0",
        b"\0",
        b".",
        b"..",
        b".example.com",
        b"example..com",
        b"example.com..",
        b"-a.example",
        b"a-.example",
        b"a b.example",
        b"*.example.com",
        b"example.com:443",
        b"[2001:db8::1]",
        b"b\xC3\xBCcher.example",
        b"\xFF\xFE",
        b"1.2.3",
        b"example.123",
        long.as_bytes(),
        too_long.as_bytes(),
        very_long.as_bytes(),
    ];
    for name in bad {
        let bytes = Build::new(&[server_name(name)]).bytes();
        assert_eq!(
            peek(&bytes),
            Err(HelloError::BadName),
            "{}",
            name.escape_ascii()
        );
    }
}

#[test]
fn sni_host_names_are_validated_as_rustls_does() {
    for byte in 0..=u8::MAX {
        for template in ["#", "a#", "#a", "a#b.example", "a.#", "a.1#", "1#2"] {
            let name: Vec<u8> = template
                .bytes()
                .map(|at| if at == b'#' { byte } else { at })
                .collect();
            let bytes = Build::new(&[server_name(&name)]).bytes();
            let ours = peek(&bytes).is_ok();
            let theirs = rustls::pki_types::ServerName::try_from(&name[..]).is_ok();
            assert_eq!(ours, theirs, "{}", name.escape_ascii());
        }
    }
}

#[test]
fn unknown_sni_name_types_are_skipped() {
    let bytes = Build::new(&[extension(0, &vec16(b"\x07\0\x03xyz\0\0\x09localhost"))]).bytes();
    assert_eq!(hello(&bytes).server_name.as_deref(), Some("localhost"));
}

#[test]
fn the_newest_supported_version_is_found() {
    let table: [(u16, &[u16], Option<HelloVersion>); 9] = [
        (0x0301, &[], Some(HelloVersion::Tls10)),
        (0x0302, &[], Some(HelloVersion::Tls11)),
        (0x0303, &[], Some(HelloVersion::Tls12)),
        (0x0304, &[], Some(HelloVersion::Tls12)), // RFC 8446 §4.2.1: TLS 1.3 only by the extension
        (0x0303, &[0x0303, 0x0304, 0x0302], Some(HelloVersion::Tls13)),
        (0x0303, &[0x0302, 0x0301], Some(HelloVersion::Tls11)),
        (0x0303, &[0xFAFA, 0x0303], Some(HelloVersion::Tls12)),
        (0x0303, &[0x7F1C, 0x0300], None),
        (0x0301, &[0x0304], Some(HelloVersion::Tls13)),
    ];
    for (legacy, list, newest) in table {
        let mut build = if list.is_empty() {
            Build::new(&[])
        } else {
            Build::new(&[versions(list)])
        };
        build.version = legacy;
        assert_eq!(hello(&build.bytes()).newest, newest, "{legacy:#x} {list:?}");
    }
}

#[test]
fn a_hello_without_extensions_is_read() {
    // RFC 5246 §7.4.1.2
    for extensions in [None, Some(vec16(b""))] {
        let bytes = Build::with(|build| build.extensions = extensions.clone()).bytes();
        assert_eq!(
            seen(&hello(&bytes)),
            (None, String::new(), Some(HelloVersion::Tls12))
        );
    }
}

#[test]
fn thousands_of_extensions_are_parsed_once() {
    let many: Vec<Vec<u8>> = (100..15_000).map(|kind| extension(kind, b"")).collect();
    let mut twice = many.clone();
    twice.push(extension(100, b""));
    assert!(feed(&Build::new(&many).fragmented(16_384)).0.is_ok());
    assert_eq!(
        feed(&Build::new(&twice).fragmented(16_384)).0,
        Err(HelloError::ExtensionTwice)
    );
}

#[test]
fn an_owned_hello_equals_the_borrowed_one() {
    let bytes = Build::typical().bytes();
    assert_eq!(hello(&bytes).into_owned(), hello(&bytes));
}

#[test]
fn a_rustls_client_hello_is_read() {
    let mut config = rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = "Shop.example.com".try_into().unwrap();
    let mut connection = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).unwrap();
    let expected = (
        Some("shop.example.com".to_owned()),
        "h2 http/1.1".to_owned(),
        Some(HelloVersion::Tls13),
    );
    assert_eq!(first_protocol(&bytes[..1]), FirstProtocol::Tls);
    assert_eq!(seen(&feed(&bytes).0.unwrap()), expected);
}

#[test]
fn openssl_client_hellos_are_read() {
    let expected = (
        Some("shop.example.com".to_owned()),
        "h2 http/1.1".to_owned(),
        Some(HelloVersion::Tls13),
    );
    assert_eq!(seen(&feed(&unhex(OPENSSL)).0.unwrap()), expected);
    assert_eq!(
        seen(&feed(&unhex(OPENSSL_12)).0.unwrap()),
        (None, String::new(), Some(HelloVersion::Tls12))
    );
}

#[test]
fn the_first_bytes_distinguish_tls_from_http() {
    use FirstProtocol::{Http, Other, Tls, Undecided};
    let table: &[(&[u8], FirstProtocol)] = &[
        (b"", Undecided),
        (b"\x16", Tls),
        (b"\x16\x03\x01\x02\0", Tls),
        (b"\x80", Undecided),
        (b"\x80\x2E\x01\x03", Undecided),
        (b"\x80\x2E\x01\x03\x01", Tls),
        (b"\x80\x2E\x01\x00\x02", Tls),
        (b"\x80\x2E\x02\x03\x01", Other),
        (b"\xFF\xFF\xFF\xFF\xFF", Other),
        (b"G", Undecided),
        (b"GET", Undecided),
        (b"GET ", Http),
        (b"GET / HTTP/1.1\r\n", Http),
        (b"PROPPATCH", Undecided),
        (b"PROPPATCH /", Http),
        (b"PRI * HTTP/2.0\r\n", Http),
        (b"get / HTTP/1.1\r\n", Other),
        (b"GETX", Other),
        (b"EHLO mail", Other),
        (b"SSH-2.0-", Other),
        (b"\x15\x03\x01", Other),
        (b"\0", Other),
        (b"\r\n", Other),
    ];
    for (bytes, what) in table {
        assert_eq!(first_protocol(bytes), *what, "{}", bytes.escape_ascii());
    }
    for undecided in 0..10 {
        assert_ne!(first_protocol(&b"PROPPATCHES"[..undecided]), Other);
    }
    assert_eq!(first_protocol(b"PROPPATCHE"), Other);
}

#[test]
fn a_tls_alert_is_one_record() {
    // RFC 8446 §6: level fatal, description
    assert_eq!(
        fatal_alert(HelloError::Ssl3.alert()),
        [21, 3, 3, 0, 2, 2, 70]
    );
}

/// `openssl s_client -servername Shop.Example.com -alpn h2,http/1.1` of OpenSSL 3.0.19.
const OPENSSL: &str = concat!(
    "160301014f0100014b0303baebf0b4aff30e4889d7e998985d6cb9ce57a8497a4a0d6cf169ccc14ce01cee20b9eb3655089f",
    "b9150750a969f90ca55154346903876abbfbb71c1326903a136f003e130213031301c02cc030009fcca9cca8ccaac02bc02f",
    "009ec024c028006bc023c0270067c00ac0140039c009c0130033009d009c003d003c0035002f00ff010000c4000000150013",
    "00001053686f702e4578616d706c652e636f6d000b000403000102000a00160014001d0017001e0019001801000101010201",
    "030104002300000010000e000c02683208687474702f312e310016000000170000000d002a00280403050306030807080808",
    "09080a080b080408050806040105010601030303010302040205020602002b0009080304030303020301002d000201010033",
    "00260024001d0020c6e13fa7c046947c09871eaa3e768b29c314e4ba2333d3292a89ebf41b0b396d",
);

/// `openssl s_client -noservername -tls1_2` of the same: no name, no ALPN, no supported_versions.
const OPENSSL_12: &str = concat!(
    "16030100b7010000b3030357a98c8d6bafde82bab0f46ddaa402c76239c08ef80c8ae4932cf55bfc23d912000038c02cc030",
    "009fcca9cca8ccaac02bc02f009ec024c028006bc023c0270067c00ac0140039c009c0130033009d009c003d003c0035002f",
    "00ff01000052000b000403000102000a000c000a001d0017001e00190018002300000016000000170000000d002a00280403",
    "05030603080708080809080a080b080408050806040105010601030303010302040205020602",
);
