//! ClientHellos: how bytes arrive does not matter, the caller is never asked for what need not
//! come, and the name that chooses a route is the name that rustls sees.

use std::io;

use lockgate_net::client_hello::{
    ClientHello, FirstProtocol, HELLO_MAX, HelloError, Peek, first_protocol, peek,
};
use rustls::server::Acceptor;

/// Any bytes as the beginning of a connection.
pub fn client_hello(data: &[u8]) {
    let result = peek(data);
    let kind = first_protocol(data);
    match &result {
        Ok(Peek::Hello(hello)) => {
            assert_eq!(kind, FirstProtocol::Tls);
            assert!(hello.len <= data.len() && hello.len <= HELLO_MAX);
            assert_eq!(peek(&data[..hello.len]), result, "what follows matters");
            agrees_with_rustls(hello, &data[..hello.len]);
            survives_fragments(hello, &data[..hello.len]);
        }
        Ok(Peek::NeedMore { at_least }) => {
            assert!(*at_least > data.len() && *at_least <= HELLO_MAX);
            assert!(
                data.is_empty() || kind == FirstProtocol::Tls || kind == FirstProtocol::Undecided
            );
        }
        Err(HelloError::NotTls) => assert_ne!(kind, FirstProtocol::Tls),
        Err(_) => assert_eq!(kind, FirstProtocol::Tls),
    }
    arrives_in_pieces(data, &result);
}

fn arrives_in_pieces(data: &[u8], result: &Result<Peek<'_>, HelloError>) {
    let end = match result {
        Ok(Peek::Hello(hello)) => hello.len,
        _ => data.len(),
    };
    for cut in crate::cuts(end) {
        match peek(&data[..cut]) {
            Ok(Peek::NeedMore { at_least }) => {
                assert!(at_least > cut);
                assert!(
                    result.is_err()
                        || at_least <= end
                        || matches!(result, Ok(Peek::NeedMore { .. }))
                );
            }
            Ok(Peek::Hello(_)) => panic!("a hello before its end"),
            Err(error) => assert_eq!(result, &Err(error)),
        }
    }
}

fn agrees_with_rustls(hello: &ClientHello<'_>, mut bytes: &[u8]) {
    let mut acceptor = Acceptor::default();
    loop {
        match acceptor.read_tls(&mut bytes) {
            Ok(0) => return, // it wants more than a hello, so it found something wrong
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Other => {} // its buffer is full: let it read
            Err(_) => return,
        }
        match acceptor.accept() {
            Ok(None) => {}
            Err(_) => return, // it judges more than we do
            Ok(Some(accepted)) => {
                let theirs = accepted.client_hello();
                let name = theirs
                    .server_name()
                    .map(|name| name.trim_end_matches('.').to_ascii_lowercase());
                assert_eq!(hello.server_name.as_deref(), name.as_deref());
                let protocols: Vec<&[u8]> = theirs.alpn().into_iter().flatten().collect();
                assert_eq!(hello.alpn().collect::<Vec<_>>(), protocols);
                return;
            }
        }
    }
}

fn survives_fragments(hello: &ClientHello<'_>, bytes: &[u8]) {
    let mut message = Vec::new();
    let mut rest = bytes;
    while let Some((&[_, _, _, high, low], content)) = rest.split_first_chunk::<5>() {
        let (content, after) = content.split_at(usize::from(u16::from_be_bytes([high, low])));
        message.extend_from_slice(content);
        rest = after;
    }
    for size in [3, 1000, 16_384] {
        let bytes: Vec<u8> = message.chunks(size).flat_map(record).collect();
        let mut again = match peek(&bytes) {
            Ok(Peek::Hello(again)) => again,
            Err(HelloError::TooLong) if bytes.len() > HELLO_MAX => continue,
            other => panic!("{other:?} in records of {size}"),
        };
        assert_eq!(again.len, bytes.len());
        again.len = hello.len;
        assert_eq!(again, *hello);
    }
}

fn record(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len())
        .expect("at most 16384")
        .to_be_bytes();
    [&[22, 3, 3], &length[..], content].concat()
}
