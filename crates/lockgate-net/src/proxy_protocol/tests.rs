//! Bytes in, headers out, and back. Sections are those of the specification.

use std::borrow::Cow;
use std::net::SocketAddr;

use super::{
    HEADER_MAX, HeaderVersion, ParsedHeader, PrefixMatch, ProxiedAddresses, ProxyError,
    ProxyHeader, Ssl, Tlvs, VALUE_MAX, crc32c, encode_v1, encode_v2, may_begin, parse,
};

fn socket(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn inet(source: &str, destination: &str) -> ProxiedAddresses {
    ProxiedAddresses::Inet {
        source: socket(source),
        destination: socket(destination),
    }
}

fn v1(addresses: &ProxiedAddresses) -> String {
    let mut out = Vec::new();
    encode_v1(&mut out, addresses);
    String::from_utf8(out).unwrap()
}

fn v2(addresses: &ProxiedAddresses, tlvs: &Tlvs<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    encode_v2(&mut out, addresses, tlvs);
    out
}

/// A version 2 header by hand: command, family, and the bytes behind the length.
fn raw(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let mut out = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    out.extend([command, family]);
    out.extend(u16::try_from(rest.len()).unwrap().to_be_bytes());
    out.extend(rest);
    out
}

const BLOCK4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0x12, 0x34, 0x01, 0xBB];

/// PROXY over TCP4 with these TLV bytes after the addresses.
fn with_tlvs(tlvs: &[u8]) -> Vec<u8> {
    raw(0x21, 0x11, &[&BLOCK4, tlvs].concat())
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).unwrap().to_be_bytes();
    [&[kind], &length[..], value].concat()
}

fn full_tlvs() -> Tlvs<'static> {
    Tlvs {
        alpn: Some(Cow::Borrowed(b"h2")),
        authority: Some("shop.example.com".into()),
        ssl: Some(Ssl {
            client: Ssl::OVER_TLS | Ssl::CERTIFICATE_NOW | Ssl::CERTIFICATE_IN_SESSION,
            verify: 0,
            version: Some("TLSv1.3".into()),
            common_name: Some("Zoë".into()),
            cipher: Some("TLS_AES_128_GCM_SHA256".into()),
        }),
    }
}

fn valid() -> Vec<Vec<u8>> {
    let four = inet("192.0.2.1:4660", "198.51.100.2:443");
    let six = inet("[2001:db8::1]:1", "[2001:db8::2]:2");
    let crc = {
        let mut header =
            with_tlvs(&[tlv(0x04, b"pad"), tlv(0x03, &[0; 4]), tlv(0x01, b"h2")].concat());
        let sum = crc32c::of(&[&header]).to_be_bytes();
        let at = 16 + 12 + 6 + 3;
        header[at..at + 4].copy_from_slice(&sum);
        header
    };
    let unix = ProxiedAddresses::Unix {
        source: b"\0abstract"[..].into(),
        destination: b"/run/app.sock"[..].into(),
    };
    vec![
        v1(&four).into_bytes(),
        v1(&six).into_bytes(),
        b"PROXY UNKNOWN\r\n".to_vec(),
        b"PROXY UNKNOWN ffff:f...f:ffff anything\ti\x80s ignored\r\n".to_vec(),
        v2(&four, &Tlvs::default()),
        v2(&six, &full_tlvs()),
        v2(&unix, &full_tlvs()),
        v2(&ProxiedAddresses::Unknown, &full_tlvs()),
        v2(&ProxiedAddresses::Local, &Tlvs::default()),
        raw(0x20, 0xFF, b"whatever LOCAL carries"),
        crc,
    ]
}

#[test]
fn a_v1_line_of_the_specification_is_read() {
    // §2.1, the example before an HTTP request
    let bytes = b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\nGET / HTTP/1.1\r\n";
    let header = ProxyHeader {
        version: HeaderVersion::V1,
        addresses: inet("192.168.0.1:56324", "192.168.0.11:443"),
        tlvs: Tlvs::default(),
    };
    assert_eq!(parse(bytes), Ok(Some(ParsedHeader { header, len: 47 })));
}

#[test]
fn every_cut_of_a_valid_proxy_header_waits_for_more() {
    for header in valid() {
        for cut in 0..header.len() {
            assert_eq!(
                parse(&header[..cut]),
                Ok(None),
                "{cut} of {:?}",
                header.escape_ascii().to_string()
            );
        }
        let whole = parse(&header).unwrap().unwrap();
        assert_eq!(whole.len, header.len());
        let mut longer = header.clone();
        longer.extend(b"\r\nPROXY what the client sent");
        assert_eq!(
            parse(&longer).unwrap().unwrap(),
            whole,
            "what follows does not matter"
        );
    }
}

#[test]
fn malformed_v1_lines_are_refused() {
    use ProxyError::{Address, Fields, Keyword, LineEnd, LineTooLong, NotProxy, Port};
    let long_v6 = "1111:2222:3333:4444:5555:6666:7777:8888";
    let table: Vec<(String, ProxyError)> = [
        // §2.1: "PROXY", exactly one space
        ("proxy TCP4 1.2.3.4 5.6.7.8 1 2\r\n", NotProxy),
        ("PROXYxTCP4 1.2.3.4 5.6.7.8 1 2\r\n", NotProxy),
        ("PROXY\tTCP4 1.2.3.4 5.6.7.8 1 2\r\n", NotProxy),
        ("PROXY  TCP4 1.2.3.4 5.6.7.8 1 2\r\n", Keyword),
        ("PROXY tcp4 1.2.3.4 5.6.7.8 1 2\r\n", Keyword),
        ("PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n", Keyword),
        ("PROXY TCP4\r\n", Keyword),
        ("PROXY \r\n", Keyword),
        ("PROXY UNKNOWNS\r\n", Keyword),
        // §2.1: exactly two addresses and two ports, single spaces
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n", Fields),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n", Fields),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \r\n", Fields),
        ("PROXY TCP4 1.2.3.4  5.6.7.8 1 2\r\n", Fields),
        ("PROXY TCP4 \r\n", Fields),
        ("PROXY TCP4 1.2.3.4\t5.6.7.8 1 2\r\n", Fields),
        // §2.1: canonical addresses of the family announced
        ("PROXY TCP4 ::1 ::1 1 2\r\n", Address),
        ("PROXY TCP6 1.2.3.4 5.6.7.8 1 2\r\n", Address),
        ("PROXY TCP4 1.2.3.4 ::1 1 2\r\n", Address),
        ("PROXY TCP4 01.2.3.4 5.6.7.8 1 2\r\n", Address),
        ("PROXY TCP4 1.2.3 5.6.7.8 1 2\r\n", Address),
        ("PROXY TCP4 256.2.3.4 5.6.7.8 1 2\r\n", Address),
        ("PROXY TCP4 0x1.2.3.4 5.6.7.8 1 2\r\n", Address),
        ("PROXY TCP4 1.2.3.4\x00 5.6.7.8 1 2\r\n", Address),
        ("PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", Address),
        ("PROXY TCP6 1::2::3 ::1 1 2\r\n", Address),
        ("PROXY TCP6 [::1] ::1 1 2\r\n", Address),
        ("PROXY TCP6 12345:: ::1 1 2\r\n", Address),
        // §2.1: decimal ports, no leading zeros
        ("PROXY TCP4 1.2.3.4 5.6.7.8 65536 2\r\n", Port),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 65536\r\n", Port),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n", Port),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 00 2\r\n", Port),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n", Port),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 -1 2\r\n", Port),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 0x1 2\r\n", Port),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 4294967297\r\n", Port),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\t\r\n", Port),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 \r\n", Port),
        // §2.1: "must not tolerate a single CR or LF"
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n", LineEnd),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\rX", LineEnd),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\r\n", LineEnd),
        ("PROXY UNKNOWN\nx\r\n", LineEnd),
    ]
    .map(|(line, error)| (line.to_owned(), error))
    .into_iter()
    .chain([
        (format!("PROXY UNKNOWN {}\r\n", "x".repeat(92)), LineTooLong),
        (format!("PROXY UNKNOWN {}", "x".repeat(93)), LineTooLong),
        (
            format!("PROXY TCP6 {long_v6} {long_v6} 65535 065535\r\n"),
            Port,
        ),
        (
            format!("PROXY TCP6 {long_v6} {long_v6} 65535 65535     \r\n"),
            LineTooLong,
        ),
    ])
    .collect();
    for (line, error) in table {
        assert_eq!(parse(line.as_bytes()), Err(error), "{line:?}");
        for cut in 0..line.len() {
            let early = parse(&line.as_bytes()[..cut]);
            assert!(
                early == Ok(None) || early == Err(error),
                "{early:?} at {cut} of {line:?}"
            );
        }
    }
}

#[test]
fn the_longest_v1_lines_of_the_specification_are_read() {
    // §2.1, "maximum line lengths"
    let six = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let unknown = format!("PROXY UNKNOWN {six} {six} 65535 65535\r\n");
    assert_eq!(unknown.len(), 107);
    for (line, length) in [
        (
            "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n".to_owned(),
            56,
        ),
        (format!("PROXY TCP6 {six} {six} 65535 65535\r\n"), 104),
        (unknown, 107),
    ] {
        assert_eq!(parse(line.as_bytes()).unwrap().unwrap().len, length);
    }
}

#[test]
fn malformed_v2_headers_are_refused() {
    use ProxyError::{
        AddressBlock, Checksum, Command, Datagram, Family, NotProxy, TlvLength, TlvText,
        TlvTooLong, TlvTwice, TooLong, Version,
    };
    let too_long = u16::try_from(HEADER_MAX - 15).unwrap().to_be_bytes();
    let announces_too_much = [&raw(0x21, 0x11, b"")[..14], &too_long[..]].concat();
    let table: Vec<(Vec<u8>, ProxyError)> = vec![
        (b"\r\n\r\n\0\r\nQUIT\r".to_vec(), NotProxy),
        (b"\r\n\r\nGET / HTTP/1.1\r\n".to_vec(), NotProxy),
        (b"\x16\x03\x01".to_vec(), NotProxy),
        // §2.2: 13th and 14th byte
        (raw(0x11, 0x11, &BLOCK4), Version),
        (raw(0x31, 0x11, &BLOCK4), Version),
        (raw(0x00, 0x11, &BLOCK4), Version),
        (raw(0x22, 0x11, &BLOCK4), Command),
        (raw(0x2F, 0x11, &BLOCK4), Command),
        (raw(0x21, 0x12, &BLOCK4), Datagram),
        (raw(0x21, 0x22, &[0; 36]), Datagram),
        (raw(0x21, 0x32, &[0; 216]), Datagram),
        (raw(0x21, 0x10, &BLOCK4), Family),
        (raw(0x21, 0x01, &BLOCK4), Family),
        (raw(0x21, 0x13, &BLOCK4), Family),
        (raw(0x21, 0x41, &BLOCK4), Family),
        // §2.2: wrong lengths
        (raw(0x21, 0x11, &BLOCK4[..11]), AddressBlock),
        (raw(0x21, 0x21, &[0; 35]), AddressBlock),
        (raw(0x21, 0x31, &[0; 215]), AddressBlock),
        (announces_too_much, TooLong),
        (raw(0x20, 0x00, &[0; HEADER_MAX]), TooLong),
        (with_tlvs(b"\x04"), TlvLength),
        (with_tlvs(b"\x04\x00"), TlvLength),
        (with_tlvs(b"\x04\x00\x01"), TlvLength),
        (with_tlvs(b"\x04\xFF\xFFabc"), TlvLength),
        (with_tlvs(&[tlv(0x01, b"h2"), vec![0]].concat()), TlvLength),
        (raw(0x21, 0x00, b"\x01\x00\x03h2"), TlvLength),
        // §2.2.1 to §2.2.6
        (with_tlvs(&tlv(0x01, &[b'a'; 256])), TlvTooLong),
        (with_tlvs(&tlv(0x02, &[b'a'; 256])), TlvTooLong),
        (with_tlvs(&tlv(0x05, &[b'a'; 129])), TlvTooLong),
        (with_tlvs(&tlv(0x02, b"a\xFF")), TlvText),
        (with_tlvs(&tlv(0x02, b"a\0b")), TlvText),
        (with_tlvs(&tlv(0x02, b"a\nb")), TlvText),
        (with_tlvs(&tlv(0x01, b"h2").repeat(2)), TlvTwice),
        (with_tlvs(&tlv(0x02, b"a").repeat(2)), TlvTwice),
        (with_tlvs(&tlv(0x03, &[0; 3])), TlvLength),
        (with_tlvs(&tlv(0x03, &[0; 5])), TlvTooLong),
        (with_tlvs(&tlv(0x03, &[0; 4])), Checksum),
        (with_tlvs(&tlv(0x20, &[1, 0, 0, 0])), TlvLength),
        (with_tlvs(&tlv(0x20, &[1, 0, 0, 0, 0, 0x21])), TlvLength),
        (
            with_tlvs(&tlv(
                0x20,
                &[&[1, 0, 0, 0, 0], &tlv(0x22, b"\xC3")[..]].concat(),
            )),
            TlvText,
        ),
        (
            with_tlvs(&tlv(
                0x20,
                &[&[1, 0, 0, 0, 0], &tlv(0x22, b"a").repeat(2)[..]].concat(),
            )),
            TlvTwice,
        ),
    ];
    for (bytes, error) in table {
        assert_eq!(parse(&bytes), Err(error), "{}", bytes.escape_ascii());
        for cut in 0..bytes.len() {
            let early = parse(&bytes[..cut]);
            assert!(
                early == Ok(None) || early == Err(error),
                "{early:?} at {cut} of {}",
                bytes.escape_ascii()
            );
        }
    }
}

#[test]
fn a_v2_header_with_a_wrong_crc32c_is_refused() {
    let mut header = valid().pop().unwrap();
    assert_eq!(
        parse(&header).unwrap().unwrap().header.tlvs.alpn.as_deref(),
        Some(&b"h2"[..])
    );
    header[16] ^= 1; // an address that was changed in transit
    assert_eq!(parse(&header), Err(ProxyError::Checksum));
}

#[test]
fn a_v2_header_of_haproxy_is_read() {
    // HAProxy 2.6: send-proxy-v2-ssl-cn, with authority, unique ID, key and signature algorithms,
    // CRC32c
    let bytes =
        b"\x0D\x0A\x0D\x0A\x00\x0D\x0AQUIT\x0A!\x11\x00\x94\x7F\x00\x00\x01\x7F\x00\x00\x01\xE4T\
        \xD4=\x03\x00\x04D\xAD\x15\x0D\x01\x00\x02h2\x02\x00\x10shop.example.com\x05\x00\x1212\
        7.0.0.1:58452--- \x00Q\x07\x00\x00\x00\x00!\x00\x07TLSv1.3\x22\x00\x0Aclient one%\x00\x05\
        EC256$\x00\x11ecdsa-with-SHA256#\x00\x16TLS_AES_256_GCM_SHA384";
    let ssl = Ssl {
        client: Ssl::OVER_TLS | Ssl::CERTIFICATE_NOW | Ssl::CERTIFICATE_IN_SESSION,
        verify: 0,
        version: Some("TLSv1.3".into()),
        common_name: Some("client one".into()),
        cipher: Some("TLS_AES_256_GCM_SHA384".into()),
    };
    let tlvs = Tlvs {
        alpn: Some(Cow::Borrowed(b"h2")),
        authority: Some("shop.example.com".into()),
        ssl: Some(ssl),
    };
    let addresses = inet("127.0.0.1:58452", "127.0.0.1:54333");
    let header = ProxyHeader {
        version: HeaderVersion::V2,
        addresses,
        tlvs,
    };
    assert_eq!(
        parse(bytes),
        Ok(Some(ParsedHeader {
            header,
            len: bytes.len()
        }))
    );
}

#[test]
fn written_v1_and_v2_headers_are_read_back() {
    let unix = ProxiedAddresses::Unix {
        source: b"\0abstract"[..].into(),
        destination: b"/run/app.sock"[..].into(),
    };
    let unnamed = ProxiedAddresses::Unix {
        source: [].into(),
        destination: [b'x'; 108].into(),
    };
    let only_ssl = Tlvs {
        ssl: Some(Ssl {
            verify: u32::MAX,
            ..Ssl::default()
        }),
        ..Tlvs::default()
    };
    for addresses in [
        inet("192.0.2.1:0", "198.51.100.2:65535"),
        inet("[2001:db8::1]:1", "[::]:2"),
        inet("192.0.2.1:1", "[2001:db8::2]:2"),
        inet("[2001:db8::1]:1", "192.0.2.2:2"),
        ProxiedAddresses::Unknown,
        unix,
        unnamed,
    ] {
        for tlvs in [Tlvs::default(), full_tlvs(), only_ssl.clone()] {
            let bytes = v2(&addresses, &tlvs);
            let ParsedHeader { header, len } = parse(&bytes).unwrap().unwrap();
            assert_eq!(
                (header.addresses, header.tlvs, len),
                (addresses.clone(), tlvs, bytes.len())
            );
        }
        let line = v1(&addresses);
        let ParsedHeader { header, len } = parse(line.as_bytes()).unwrap().unwrap();
        let told = if matches!(addresses, ProxiedAddresses::Unix { .. }) {
            ProxiedAddresses::Unknown
        } else {
            addresses
        };
        assert_eq!((header.addresses, len), (told, line.len()));
    }
}

#[test]
fn mixed_address_families_are_mapped_to_one() {
    let cases = [
        (
            "192.0.2.1:1",
            "192.0.2.2:2",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        ),
        (
            "[::ffff:192.0.2.1]:1",
            "[::ffff:192.0.2.2]:2",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        ),
        (
            "192.0.2.1:1",
            "[::ffff:192.0.2.2]:2",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        ),
        (
            "192.0.2.1:1",
            "[2001:db8::2]:2",
            "PROXY TCP6 ::ffff:c000:201 2001:db8::2 1 2\r\n",
        ),
        (
            "[2001:db8::2]:2",
            "[::ffff:192.0.2.1]:1",
            "PROXY TCP6 2001:db8::2 ::ffff:c000:201 2 1\r\n",
        ),
        (
            "[fe80::1%3]:1",
            "[fe80::2%3]:2",
            "PROXY TCP6 fe80::1 fe80::2 1 2\r\n",
        ),
        ("[::1]:0", "[::]:65535", "PROXY TCP6 ::1 :: 0 65535\r\n"),
    ];
    for (source, destination, line) in cases {
        assert_eq!(v1(&inet(source, destination)), line);
        let binary = v2(&inet(source, destination), &Tlvs::default());
        let (from_text, from_binary) = (parse(line.as_bytes()).unwrap(), parse(&binary).unwrap());
        assert_eq!(
            from_text.unwrap().header.addresses,
            from_binary.unwrap().header.addresses,
            "{line:?}"
        );
    }
}

#[test]
fn an_ipv4_mapped_tcp6_client_is_read_as_ipv4() {
    let line = b"PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 1 2\r\n"; // as inet_ntop(3) writes it
    assert_eq!(
        parse(line).unwrap().unwrap().header.addresses,
        inet("192.0.2.1:1", "[2001:db8::2]:2")
    );
}

#[test]
fn an_endpoint_without_an_address_makes_the_header_unknown() {
    let known = Some(socket("192.0.2.1:1"));
    assert_eq!(ProxiedAddresses::of(None, known), ProxiedAddresses::Unknown);
    assert_eq!(ProxiedAddresses::of(known, None), ProxiedAddresses::Unknown);
    assert_eq!(
        ProxiedAddresses::of(known, Some(socket("[::ffff:192.0.2.2]:2"))),
        inet("192.0.2.1:1", "192.0.2.2:2")
    );
    assert_eq!(v1(&ProxiedAddresses::Unknown), "PROXY UNKNOWN\r\n");
    assert_eq!(
        v2(&ProxiedAddresses::Unknown, &Tlvs::default()),
        raw(0x21, 0x00, b"")
    );
    assert_eq!(
        v2(&ProxiedAddresses::Local, &full_tlvs()),
        raw(0x20, 0x00, b"")
    );
}

#[test]
fn a_v2_header_is_written_as_the_specification_shows() {
    let tlvs = Tlvs {
        alpn: Some(Cow::Borrowed(b"h2")),
        authority: Some("a.b".into()),
        ssl: Some(Ssl {
            client: 1,
            verify: 1,
            version: Some("TLSv1.3".into()),
            ..Ssl::default()
        }),
    };
    let ssl = [&[1, 0, 0, 0, 1], &tlv(0x21, b"TLSv1.3")[..]].concat();
    let expected = with_tlvs(&[tlv(0x01, b"h2"), tlv(0x02, b"a.b"), tlv(0x20, &ssl)].concat());
    assert_eq!(
        v2(&inet("192.0.2.1:4660", "198.51.100.2:443"), &tlvs),
        expected
    );
}

#[test]
fn a_tlv_value_too_long_to_send_is_left_out() {
    let long = "x".repeat(VALUE_MAX + 1);
    let tlvs = Tlvs {
        alpn: Some(Cow::Borrowed(long.as_bytes())),
        authority: Some(Cow::Borrowed(&long[..VALUE_MAX])),
        ssl: Some(Ssl {
            common_name: Some(Cow::Borrowed(&long)),
            ..Ssl::default()
        }),
    };
    let read = parse(&v2(&ProxiedAddresses::Unknown, &tlvs))
        .unwrap()
        .unwrap()
        .header
        .tlvs;
    assert_eq!(read.alpn, None);
    assert_eq!(read.authority.map(|name| name.len()), Some(VALUE_MAX));
    assert_eq!(read.ssl, Some(Ssl::default()));
}

#[test]
fn the_longest_header_we_write_is_read_back() {
    let long = || Some(Cow::Owned("x".repeat(VALUE_MAX)));
    let ssl = Ssl {
        version: long(),
        common_name: long(),
        cipher: long(),
        ..Ssl::default()
    };
    let tlvs = Tlvs {
        alpn: Some(vec![b'x'; VALUE_MAX].into()),
        authority: long(),
        ssl: Some(ssl),
    };
    let unix = ProxiedAddresses::Unix {
        source: [b's'; 300].into(),
        destination: [b'd'; 300].into(),
    };
    let ParsedHeader { header, .. } = parse(&v2(&unix, &tlvs)).unwrap().unwrap();
    assert_eq!(header.tlvs, tlvs);
    assert_eq!(
        header.addresses,
        ProxiedAddresses::Unix {
            source: [b's'; 108].into(),
            destination: [b'd'; 108].into()
        }
    );
}

#[test]
fn empty_and_unknown_tlvs_are_ignored() {
    let fields = [
        tlv(0x01, b""),
        tlv(0x02, b""),
        tlv(0x04, &[0; 1000]),
        tlv(0x04, b""),
        tlv(0xEA, b"\x01vpce"),
        tlv(0x30, b"n"),
    ];
    assert_eq!(
        parse(&with_tlvs(&fields.concat()))
            .unwrap()
            .unwrap()
            .header
            .tlvs,
        Tlvs::default()
    );
}

#[test]
fn a_proxy_header_is_recognised_as_early_as_possible() {
    let table: &[(&[u8], PrefixMatch)] = &[
        (b"", PrefixMatch::Undecided),
        (b"P", PrefixMatch::Undecided),
        (b"PROXY", PrefixMatch::Undecided),
        (b"PROXY ", PrefixMatch::Yes),
        (b"PROXY TCP4", PrefixMatch::Yes),
        (b"PROXYx", PrefixMatch::No),
        (b"POST / HTTP/1.1", PrefixMatch::No),
        (b"PO", PrefixMatch::No),
        (b"\r", PrefixMatch::Undecided),
        (b"\r\n\r\n\0\r\nQUIT", PrefixMatch::Undecided),
        (b"\r\n\r\n\0\r\nQUIT\n", PrefixMatch::Yes),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11", PrefixMatch::Yes),
        (b"\r\nG", PrefixMatch::No),
        (b"\x16\x03\x01", PrefixMatch::No),
        (b"SSH-2.0-", PrefixMatch::No),
    ];
    for (bytes, guess) in table {
        assert_eq!(may_begin(bytes), *guess, "{}", bytes.escape_ascii());
    }
}

#[test]
fn detection_of_a_proxy_header_agrees_with_the_parser() {
    for header in valid() {
        assert_eq!(may_begin(&header), PrefixMatch::Yes);
    }
    for other in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"\x16\x03\x01\x02\x00",
        b"PROXIES",
        b"\n",
    ] {
        assert_eq!(may_begin(other), PrefixMatch::No);
        assert_eq!(parse(other), Err(ProxyError::NotProxy));
    }
}
