//! The id of one exchange: the same in the log, in the request to the origin, and in an error to
//! the client.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use lockgate_http::trace::{SpanId, TraceId};

/// Most bytes of an id that came with the request: two UUIDs with a separator, or a trace's id with
/// much beside it.
const LONGEST: usize = 80;
/// Each byte in hexadecimal digits.
const HEX: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    pairs
};

/// An id: 32 hexadecimal digits if we made it, 1 to 80 harmless characters if a trusted peer did.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestId(IdText);

/// The text of an id. Every waiting request has one: it is short where it can be.
#[derive(Clone, PartialEq, Eq)]
enum IdText {
    Own([u8; 32]),
    Accepted(Box<[u8]>),
}

impl RequestId {
    /// Takes an id from a request's field, if it is one; whether its sender is trusted is for the
    /// caller to know.
    ///
    /// Letters, digits and `-._~+:`: nothing that a log, a page or a shell could read as more than
    /// a name.
    pub fn accept(value: &[u8]) -> Option<Self> {
        let harmless = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+:".contains(byte);
        let is_id = (1..=LONGEST).contains(&value.len()) && value.iter().all(harmless);
        is_id.then(|| Self(IdText::Accepted(value.into())))
    }

    /// The id, in ASCII.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            IdText::Own(digits) => digits,
            IdText::Accepted(text) => text,
        }
    }

    /// The same as text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Makes the ids of one process.
///
/// An id is a keyed permutation of the connection's number and the exchange's, so no two exchanges
/// of a process have the same, and none tells how many there were. It is not a secret: its holder
/// proves nothing by it.
#[derive(Debug, Clone, Copy)]
pub struct RequestIds {
    keys: [u64; 4],
}

impl RequestIds {
    /// Ids of a process with `keys`, which are to be random.
    pub const fn new(keys: [u64; 4]) -> Self {
        Self { keys }
    }

    /// Ids with keys from the operating system.
    pub fn random() -> Self {
        // The standard library's hasher is keyed from there; its outputs are as good as what it was
        // keyed with.
        let random = RandomState::new();
        Self::new([1_u64, 2, 3, 4].map(|n| random.hash_one(n)))
    }

    /// The id of an exchange: number `exchange` of the connection numbered `connection`.
    pub fn id(&self, connection: u64, exchange: u64) -> RequestId {
        RequestId(IdText::Own(self.digits(connection, exchange)))
    }

    /// The id of the trace that begins with an exchange (W3C Trace Context §3.2.2.3): that of the
    /// exchange, where we made it.
    pub fn trace(&self, connection: u64, exchange: u64) -> TraceId {
        TraceId::new(self.digits(connection, exchange))
    }

    /// The same as a number.
    pub fn trace_number(&self, connection: u64, exchange: u64) -> u128 {
        // A Feistel network of four rounds is a permutation for any round function.
        let (mut left, mut right) = (connection, exchange);
        for key in self.keys {
            (left, right) = (right, left ^ mix(right, key));
        }
        u128::from(left) << 64 | u128::from(right)
    }

    /// The ids of what we do for an exchange, as parts of its trace (W3C Trace Context §3.2.2.4): of
    /// the whole, and of what we ask others.
    pub fn spans(&self, connection: u64, exchange: u64) -> ExchangeSpans {
        // No connection has such a number.
        let digits = self.digits(!connection, exchange);
        let half = |half: Option<&[u8; 16]>| SpanId::new(half.copied().unwrap_or_default());
        ExchangeSpans {
            server: half(digits.first_chunk()),
            client: half(digits.last_chunk()),
        }
    }

    fn digits(&self, connection: u64, exchange: u64) -> [u8; 32] {
        let mut text = [0; 32];
        let bytes = self.trace_number(connection, exchange).to_be_bytes();
        for (digits, byte) in text.as_chunks_mut().0.iter_mut().zip(bytes) {
            *digits = HEX[usize::from(byte)];
        }
        text
    }
}

/// The ids of an exchange's spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeSpans {
    /// Of the exchange with the client: we are its server.
    pub server: SpanId,
    /// Of the exchange with an endpoint: we are its client.
    pub client: SpanId,
}

/// Every bit of the input and of the key reaches every bit of the output: two products, each folded
/// onto itself.
fn mix(n: u64, key: u64) -> u64 {
    let fold = |n: u64, by: u64| {
        let product = u128::from(n) * u128::from(by);
        (product as u64) ^ ((product >> 64) as u64)
    };
    // Odd numbers without a pattern: digits of π and of e.
    fold(
        fold(n ^ key, 0x9216_d5d9_8979_fb1b) ^ key.rotate_left(32),
        0xb7e1_5162_8aed_2a6b,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn request_ids_are_unique() {
        let ids = RequestIds::random();
        let mut seen = HashSet::new();
        for connection in (0..200).chain(u64::MAX - 200..=u64::MAX) {
            for exchange in 0..50 {
                let id = ids.id(connection, exchange);
                assert_eq!(id.as_str().len(), 32);
                assert!(
                    id.as_str()
                        .bytes()
                        .all(|byte| b"0123456789abcdef".contains(&byte))
                );
                assert!(
                    seen.insert(id.as_str().to_owned()),
                    "{connection} {exchange}"
                );
            }
        }
    }

    #[test]
    fn request_ids_of_processes_have_nothing_in_common() {
        let ids = RequestIds::new([
            0x1234_5678,
            u64::MAX / 3,
            0xfeed_f00d_dead_beef,
            0x0bad_cafe_0000_0001,
        ]);
        let common = |a: RequestId, b: RequestId| {
            a.as_str()
                .bytes()
                .zip(b.as_str().bytes())
                .filter(|(a, b)| a == b)
                .count()
        };
        // Of 32 digits two are the same by chance.
        for n in 0..1_000 {
            assert!(common(ids.id(7, n), ids.id(7, n + 1)) < 14, "{n}");
            assert!(common(ids.id(n, 0), ids.id(n + 1, 0)) < 14, "{n}");
        }
        assert!(common(RequestIds::random().id(1, 1), RequestIds::random().id(1, 1)) < 14);
    }

    #[test]
    fn only_a_short_harmless_request_id_is_accepted() {
        let own = RequestIds::random().id(1, 2);
        for accepted in [
            "a",
            "5f0c2b1e-7c1d-4e5a-9b1f-0a2b3c4d5e6f",
            "1:2_3.4~5+6",
            own.as_str(),
        ] {
            assert_eq!(
                RequestId::accept(accepted.as_bytes()).unwrap().as_str(),
                accepted
            );
        }
        for refused in [
            &b""[..],
            b"a b",
            b"a\"b",
            b"a\\",
            b"<b>",
            b"a\r\nb",
            b"\0",
            "é".as_bytes(),
            &[b'a'; LONGEST + 1],
        ] {
            assert_eq!(RequestId::accept(refused), None);
        }
        assert!(RequestId::accept(&[b'a'; LONGEST]).is_some());
    }
}
