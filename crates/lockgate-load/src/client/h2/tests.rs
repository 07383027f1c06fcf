//! Responses do not depend on how their bytes arrive.

use fastrand::Rng;
use lockgate_http::h2::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS,
};
use lockgate_http::head::Method;

use super::{BodyUse, Http2Connection, ReceiveWindows, RequestOutcome};
use crate::client::outcome::ExchangeError;
use crate::target::{Http2Request, RequestBody};

/// A connection with two requests under way.
fn asked() -> Http2Connection {
    let fields = [(":method", "GET"), (":path", "/")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (fields, body) = (fields.to_vec(), RequestBody::Fixed([].into()));
    let request = Http2Request {
        method: Method::Get,
        fields,
        varying: Vec::new(),
        body,
        is_grpc: false,
    };
    let mut connection = Http2Connection::new(2, ReceiveWindows::LARGE);
    for slot in 0..2 {
        connection.begin(slot, 0, &request, BodyUse::Hash, &mut Rng::with_seed(1));
    }
    connection
}

/// Slot, status, length, bytes and hash of each finished request, and its error.
type Answers = Vec<(
    usize,
    Option<u16>,
    u64,
    u64,
    Option<[u8; 32]>,
    Result<(), String>,
)>;

fn receive<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Answers, Option<String>) {
    let (mut connection, mut unread, mut error) = (asked(), Vec::new(), None);
    for piece in pieces {
        unread.extend_from_slice(piece);
        match connection.receive(&unread) {
            Ok(used) => drop(unread.drain(..used)),
            Err(ExchangeError { text, .. }) => {
                error = Some(text);
                break;
            }
        }
    }
    let mut answers = Vec::new();
    while let Some(finished) = connection.take_finished() {
        let response = finished.stats.response;
        let outcome = match finished.outcome {
            RequestOutcome::Answered => Ok(()),
            RequestOutcome::Failed(error) | RequestOutcome::Unprocessed(error) => Err(error.text),
        };
        // Bytes of a refused response are not counted.
        let received = if outcome.is_ok() {
            finished.stats.received
        } else {
            0
        };
        answers.push((
            finished.slot,
            response.status,
            response.length,
            received,
            response.hash,
            outcome,
        ));
    }
    (answers, error)
}

fn frames(frames: &[(u8, u8, u32, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, flags, stream, payload) in frames {
        bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
        bytes.extend_from_slice(&[*kind, *flags]);
        bytes.extend_from_slice(&stream.to_be_bytes());
        bytes.extend_from_slice(payload);
    }
    bytes
}

#[test]
fn frames_mean_the_same_however_they_arrive() {
    let settings = (SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 9][..]);
    let head = |stream: u32, block: &'static [u8]| (HEADERS, END_HEADERS, stream, block);
    for (all, answered, errs) in [
        (
            frames(&[
                settings,
                head(3, &[0x88]),
                (HEADERS, 0, 1, &[0x88, 0x5c]),
                (CONTINUATION, END_HEADERS, 1, b"\x0210"),
                (DATA, 0, 1, b"01234"),
                (DATA, 0, 3, b""),
                (DATA, END_STREAM, 3, b"a page"),
                (PING, 0, 0, b"12345678"),
                (DATA, 0x9, 1, b"\x0356789\0\0\0"),
                (GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]),
            ]),
            2,
            false,
        ),
        (
            frames(&[
                settings,
                head(1, &[0x88]),
                (RST_STREAM, 0, 1, &[0, 0, 0, 7]),
            ]),
            1,
            false,
        ),
        (
            frames(&[settings, (DATA, END_STREAM, 1, b"early"), head(3, &[0x8d])]),
            1,
            false,
        ),
        // A frame within a header block, and data of stream 0.
        (
            frames(&[settings, (HEADERS, 0, 1, &[0x88]), (DATA, 0, 1, b"012")]),
            0,
            true,
        ),
        (
            frames(&[settings, head(1, &[0x88]), (DATA, 0, 0, b"0123456789")]),
            0,
            true,
        ),
    ] {
        let whole = receive([&all[..]]);
        assert_eq!(
            (whole.0.len(), whole.1.is_some()),
            (answered, errs),
            "{whole:?}"
        );
        for cut in 0..all.len() {
            assert_eq!(receive([&all[..cut], &all[cut..]]), whole, "cut at {cut}");
        }
        assert_eq!(receive(all.chunks(1)), whole, "byte by byte");
    }
}
