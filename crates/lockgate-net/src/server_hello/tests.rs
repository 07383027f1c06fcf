//! ServerHellos by hand, cut at every byte.

use super::*;

fn vec16(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn record(content: &[u8]) -> Vec<u8> {
    [&[22, 3, 3][..], &vec16(content)].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &vec16(content)].concat()
}

fn handshake(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[kind], &length[1..], body].concat()
}

/// A message; `None` is without the list of extensions (RFC 5246 §7.4.1.3).
fn message(version: u16, id: &[u8], extensions: Option<&[Vec<u8>]>) -> Vec<u8> {
    let extensions = extensions
        .map(|all| vec16(&all.concat()))
        .unwrap_or_default();
    let id = [&[u8::try_from(id.len()).unwrap()], id].concat();
    let body = [
        &version.to_be_bytes()[..],
        &[7; 32],
        &id,
        &[0xC0, 0x2F, 0],
        &extensions,
    ]
    .concat();
    handshake(2, &body)
}

fn hello(version: HelloVersion, id: &[u8]) -> Option<ServerHello> {
    Some(ServerHello {
        version,
        session_id: id.into(),
    })
}

#[test]
fn version_and_session_id_of_a_server_hello_are_read() {
    let versions = |version: u16| extension(43, &version.to_be_bytes());
    // RFC 5077 §3.2, RFC 5746 §3.2
    let others = [extension(35, b""), extension(0xFF01, b"\0")];
    let id = [9; 32];
    for (what, bytes, expected) in [
        (
            "RFC 5246 §7.4.1.3",
            message(0x0303, &id, Some(&others)),
            hello(HelloVersion::Tls12, &id),
        ),
        (
            "no extensions",
            message(0x0303, &id, None),
            hello(HelloVersion::Tls12, &id),
        ),
        (
            "an empty list",
            message(0x0303, &id, Some(&[])),
            hello(HelloVersion::Tls12, &id),
        ),
        (
            "not to be resumed",
            message(0x0303, &[], Some(&others)),
            hello(HelloVersion::Tls12, &[]),
        ),
        (
            "one byte",
            message(0x0303, &[1], Some(&others)),
            hello(HelloVersion::Tls12, &[1]),
        ),
        (
            "RFC 4346",
            message(0x0302, &id, None),
            hello(HelloVersion::Tls11, &id),
        ),
        (
            "RFC 2246",
            message(0x0301, &id, None),
            hello(HelloVersion::Tls10, &id),
        ),
        (
            "RFC 8446 §4.2.1",
            message(0x0303, &id, Some(&[versions(0x0304)])),
            hello(HelloVersion::Tls13, &id),
        ),
        (
            "1.2 by the extension",
            message(0x0303, &id, Some(&[versions(0x0303)])),
            hello(HelloVersion::Tls12, &id),
        ),
    ] {
        assert_eq!(peek(&record(&bytes)), Ok(expected.clone()), "{what}");
        // RFC 5246 §6.2.1: the certificate may be in the same record.
        let with_more = record(&[&bytes[..], &handshake(11, &[0; 900])].concat());
        assert_eq!(peek(&with_more), Ok(expected), "{what}");
    }
}

#[test]
fn a_cut_hello_waits_and_fragments_give_the_same() {
    // RFC 5246 §6.2.1: a message may be spread over records.
    let message = message(0x0303, &[9; 32], Some(&[extension(0xFF01, b"\0")]));
    let expected = hello(HelloVersion::Tls12, &[9; 32]);
    for size in 1..=message.len() {
        let bytes: Vec<u8> = message.chunks(size).flat_map(record).collect();
        for cut in 0..bytes.len() {
            assert_eq!(peek(&bytes[..cut]), Ok(None), "{cut} of {size}");
        }
        assert_eq!(peek(&bytes), Ok(expected.clone()), "{size}");
    }
}

#[test]
fn bytes_that_are_no_server_hello_are_refused_early() {
    let list = |list: &[u8]| {
        let body = [&[3, 3][..], &[7; 32], &[0, 0xC0, 0x2F, 0], list].concat();
        record(&handshake(2, &body))
    };
    for (what, bytes) in [
        ("an alert, RFC 5246 §7.2", vec![21]),
        ("plain HTTP", b"HTTP/1.1 400 Bad Request".to_vec()),
        ("a greeting", b"220 mail.test ESMTP".to_vec()),
        ("SSL 2.0", vec![22, 2]),
        ("an empty record", vec![22, 3, 3, 0, 0]),
        ("a record of more than 2^14", vec![22, 3, 3, 0x40, 1]),
        ("a HelloRequest, RFC 5246 §7.4.1.1", record(&[0])),
        ("16 MB", record(&[2, 0xFF, 0xFF, 0xFF])),
        ("more than is looked at", record(&[2, 0, 0x10, 1])),
        (
            "another record between fragments",
            [&record(&[2, 0])[..], &[23]].concat(),
        ),
        ("a body of nothing", record(&handshake(2, &[]))),
        (
            "a session of 33 bytes",
            record(&message(0x0303, &[0; 33], None)),
        ),
        ("SSL 3.0", record(&message(0x0300, &[1], None))),
        (
            "a draft of 1.3",
            record(&message(0x0303, &[1], Some(&[extension(43, &[0x7F, 28])]))),
        ),
        (
            "a version of one byte",
            record(&message(0x0303, &[1], Some(&[extension(43, &[3])]))),
        ),
        ("half a length", list(&[0])),
        (
            "extensions that are longer than the rest",
            list(&[0, 5, 0, 43]),
        ),
        ("more after the extensions", list(&[0, 0, 0])),
        (
            "an extension that is longer than the list",
            list(&[0, 5, 0, 16, 0, 9, 1]),
        ),
    ] {
        assert_eq!(peek(&bytes), Err(NoServerHello), "{what}");
    }
}

#[test]
fn no_server_hello_is_read_beyond_the_limit() {
    let filled = |content: usize| {
        record(&message(
            0x0303,
            &[9; 32],
            Some(&[extension(16, &vec![0; content])]),
        ))
    };
    let fits = SERVER_HELLO_MAX - filled(0).len();
    assert_eq!(
        peek(&filled(fits)),
        Ok(hello(HelloVersion::Tls12, &[9; 32]))
    );
    let longer = filled(fits + 1);
    assert_eq!(peek(&longer), Err(NoServerHello));
    assert_eq!(peek(&longer[..SERVER_HELLO_MAX - 1]), Ok(None));
    // One byte in each record.
    let slow: Vec<u8> = message(0x0303, &[9; 32], Some(&[extension(16, &[0; 700])]))
        .chunks(1)
        .flat_map(record)
        .collect();
    assert_eq!(peek(&slow), Err(NoServerHello));
}
