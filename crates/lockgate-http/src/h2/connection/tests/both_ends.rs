//! A client and a server of this layer: what both are told does not depend on how bytes are cut.

use super::*;
use crate::fields::Fields;

/// An end with bytes that it could not handle yet.
struct Side {
    end: End,
    unread: Vec<u8>,
    /// Data that is to be sent on each stream.
    uploads: Vec<(u32, Vec<u8>)>,
}

impl Side {
    fn new(role: Role) -> Self {
        Self {
            end: End::new(role, SETTINGS_OF_TESTS, Budget::UNLIMITED),
            unread: Vec::new(),
            uploads: Vec::new(),
        }
    }

    fn receive(&mut self, piece: &[u8]) {
        self.unread.extend_from_slice(piece);
        let unread = std::mem::take(&mut self.unread);
        let used = self.end.feed_some(&unread).expect("both keep the rules");
        self.unread.extend_from_slice(&unread[used..]);
    }

    /// Writes what windows allow, and gives windows back for all data that was seen since `from`.
    fn write(&mut self, from: usize) {
        let connection = &mut self.end.connection;
        for seen in &self.end.seen[from..] {
            if let Seen::Data(stream, data, _) = seen
                && let Some(key) = connection.streams.find(*stream)
            {
                connection.used(key, data.len());
            }
        }
        for (stream, left) in &mut self.uploads {
            let Some(key) = connection.streams.find(*stream) else {
                continue;
            };
            loop {
                let taken = connection.data(key, left, true);
                left.drain(..taken);
                if taken == 0 {
                    break;
                }
            }
        }
        self.uploads.retain(|(_, left)| !left.is_empty());
    }
}

/// Moves what one side has to send to the other, in pieces of so many bytes; `false`: nothing.
fn pass(from: &mut Side, to: &mut Side, step: usize) -> bool {
    let bytes = from.end.connection.unsent().to_vec();
    from.end.connection.note_sent(bytes.len());
    for piece in bytes.chunks(step) {
        to.receive(piece);
    }
    !bytes.is_empty()
}

/// What was seen, with the data of each stream in one piece.
fn joined(seen: &[Seen]) -> Vec<Seen> {
    let mut joined: Vec<Seen> = Vec::new();
    for seen in seen {
        let Seen::Data(stream, data, ended) = seen else {
            joined.push(seen.clone());
            continue;
        };
        let before = joined.iter_mut().find_map(|one| match one {
            Seen::Data(other, data, ended) if other == stream => Some((data, ended)),
            _ => None,
        });
        match before {
            Some((whole, end)) => {
                whole.extend_from_slice(data);
                *end |= ended;
            }
            None => joined.push(Seen::Data(*stream, data.clone(), *ended)),
        }
    }
    joined.retain(|seen| !matches!(seen, Seen::WindowOpened(_)));
    joined.sort_by_key(|seen| format!("{seen:?}"));
    joined
}

fn body(stream: u32, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u32 * stream) as u8).collect()
}

/// Three requests: one without a body, one with a body above both windows and an answer as large,
/// one that the client cancels. Then the server drains.
fn conversation(step: usize) -> (Vec<Seen>, Vec<Seen>) {
    let (mut client, mut server) = (Side::new(Role::Client), Side::new(Role::Server));
    for (method, ended) in [
        (Method::Get, true),
        (Method::Post, false),
        (Method::Post, false),
    ] {
        let next = client.end.connection.next_id;
        let block = if ended { GET } else { POST };
        let key = client
            .end
            .connection
            .open(method, next, ended, |out| out.repeat(block));
        let stream = key.expect("there is room").stream();
        if stream == 3 {
            client.uploads.push((stream, body(stream, 150_000)));
        }
    }
    let (mut of_client, mut of_server, mut drained) = (0, 0, false);
    loop {
        client.write(of_client);
        of_client = client.end.seen.len();
        let mut moved = pass(&mut client, &mut server, step);
        let fresh = server.end.seen[of_server..].to_vec();
        for seen in fresh {
            let Seen::Request(stream, ..) = seen else {
                continue;
            };
            let key = server.end.key(stream);
            let connection = &mut server.end.connection;
            connection.interim(key, &ResponseHead::of(103));
            let mut head = ResponseHead::of(200);
            head.fields
                .append(b"X-Stream", stream.to_string().as_bytes());
            connection.respond(key, &head, false);
            match stream {
                1 => {
                    assert_eq!(connection.data(key, b"small", false), 5);
                    let mut trailers = Fields::default();
                    trailers.append(b"x-sum", b"1");
                    connection.trailers(key, &trailers);
                }
                3 => server.uploads.push((stream, body(stream, 200_000))),
                _ => {
                    client.end.close(stream, code::CANCEL);
                }
            }
        }
        server.write(of_server);
        of_server = server.end.seen.len();
        moved |= pass(&mut server, &mut client, step);
        if !moved && drained {
            break;
        }
        if !moved {
            server.end.connection.drain();
            drained = true;
        }
    }
    assert!(client.unread.is_empty() && server.unread.is_empty());
    assert!(client.uploads.is_empty() && server.uploads.is_empty());
    for stream in [1, 3] {
        client.end.close(stream, code::INTERNAL_ERROR);
        server.end.close(stream, code::INTERNAL_ERROR);
    }
    server.end.close(5, code::CANCEL);
    // All had ended: neither end is told anything.
    assert_eq!((client.end.sent(), server.end.sent()), (vec![], vec![]));
    (joined(&client.end.seen), joined(&server.end.seen))
}

#[test]
fn two_ends_of_the_layer_understand_each_other_in_any_pieces() {
    let whole = conversation(usize::MAX);
    let (client, server) = &whole;
    assert!(server.contains(&Seen::Data(3, body(3, 150_000), true)));
    assert!(server.contains(&Seen::Reset(5, code::CANCEL, None, false)));
    assert!(client.contains(&Seen::Data(3, body(3, 200_000), true)));
    assert!(client.contains(&Seen::Trailers(1, 1)));
    assert!(client.contains(&Seen::Goaway(code::NO_ERROR)));
    for step in [1, 2, 3, 8, 9, 10, 1_000, 16_384] {
        assert_eq!(conversation(step), whole, "pieces of {step}");
    }
}

/// Every frame that has a meaning, each cut at every byte.
#[test]
fn frames_mean_the_same_wherever_they_are_cut() {
    use crate::h2::frames::{CONTINUATION, DATA, PRIORITY};
    let bytes = [
        PREFACE.to_vec(),
        settings(&[(1, 100), (3, 9), (4, 1_000)]),
        frame(SETTINGS, ACK, 0, b""),
        frame(HEADERS, 0x8, 1, &[b"\x02", POST, b"\0\0"].concat()),
        frame(CONTINUATION, 0, 1, b"\x00\x01a"),
        frame(CONTINUATION, END_HEADERS, 1, b"\x01b"),
        frame(DATA, 0, 1, b"first"),
        frame(PING, 0, 0, b"12345678"),
        frame(DATA, 0x8, 1, b"\x03second\0\0\0"),
        frame(0x77, 1, 7, b"unknown"),
        headers(END_STREAM, 3, GET),
        frame(PRIORITY, 0, 3, b"\0\0\0\x01\x10"),
        frame(0x10, 0, 0, b"\0\0\0\x03u=2"),
        frame(DATA, END_STREAM | 0x8, 1, b"\x02\0\0"),
        headers(0, 5, POST),
        headers(END_STREAM, 5, b"\x00\x01a\x01b"),
        headers(0, 7, POST),
        frame(RST_STREAM, 0, 7, &[0, 0, 0, 8]),
        frame(WINDOW_UPDATE, 0, 3, &[0, 0, 1, 0]),
        frame(GOAWAY, 0, 0, &[0; 8]),
    ]
    .concat();
    let fed = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut server = Side::new(Role::Server);
        for piece in pieces {
            server.receive(piece);
        }
        assert!(server.unread.is_empty());
        (joined(&server.end.seen), server.end.sent())
    };
    let whole = fed(&mut [&bytes[..]].into_iter());
    assert_eq!(whole.0.len(), 9, "{:?}", whole.0);
    for cut in 0..bytes.len() {
        let (front, rest) = bytes.split_at(cut);
        assert_eq!(fed(&mut [front, rest].into_iter()), whole, "cut at {cut}");
    }
    assert_eq!(fed(&mut bytes.chunks(1)), whole, "byte by byte");
}
