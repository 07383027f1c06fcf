//! TLS after the handshake: whatever a client seals, spoils, repeats or makes up, and however it
//! arrives, nothing comes out that was not sealed, and what we send is understood.
//!
//! An input is a script (see `script`), so that it means the same under the new keys of every run.

mod ends;
mod script;

use lockgate_net::tls::record::{ContentType, RecordOpener, RecordSealer};
use lockgate_net::tls::session::{SessionError, TlsSession};

use ends::Ends;
use script::{Script, Step};

/// A script for a client: which records to send, and how they are cut.
pub fn tls_session(data: &[u8]) {
    let Some(script) = Script::parse(data) else {
        return;
    };
    let mut ends = ends::shake_hands(script.terms);
    let mut sent = Sent::default();
    for step in script.steps {
        sent.take(step, &mut ends);
    }
    let mut received = Vec::new();
    let outcome = feed(&mut ends.session, &sent.wire, script.cuts, &mut received);
    assert!(
        sent.data.starts_with(&received),
        "data that was not sealed, or not in its turn"
    );
    match outcome {
        Ok(()) => {
            if sent.is_plain_data {
                assert!(received == sent.data, "data that is lost");
            }
            answer(ends);
        }
        Err(error) => assert!(!sent.is_plain_data, "honest data is refused: {error}"),
    }
}

/// What a client has put on the wire.
struct Sent {
    wire: Vec<u8>,
    /// Where the last record begins.
    last: usize,
    /// All data that was sealed, in order.
    data: Vec<u8>,
    /// Whether there was nothing but data and key updates, and all of it whole.
    is_plain_data: bool,
}

impl Default for Sent {
    fn default() -> Self {
        Self {
            wire: Vec::new(),
            last: 0,
            data: Vec::new(),
            is_plain_data: true,
        }
    }
}

impl Sent {
    fn take(&mut self, step: Step<'_>, ends: &mut Ends) {
        match step {
            Step::Data(content) => {
                // More than a few empty records may be refused.
                self.is_plain_data &= !content.is_empty();
                self.seal(&mut ends.sealer, ContentType::ApplicationData, &content);
                self.data.extend_from_slice(&content);
            }
            Step::Record(kind, content) => {
                self.is_plain_data = false;
                self.seal(&mut ends.sealer, kind, content);
            }
            Step::KeyUpdate(request) => {
                // More than a few in a row may be refused.
                self.is_plain_data = false;
                self.seal(
                    &mut ends.sealer,
                    ContentType::Handshake,
                    &[24, 0, 0, 1, request],
                );
                ends.rekey_sealer();
            }
            Step::Spoil { place, change } => {
                let record = &mut self.wire[self.last..];
                if let Some(byte) = place
                    .checked_rem(record.len())
                    .and_then(|place| record.get_mut(place))
                {
                    *byte ^= change;
                }
                self.is_plain_data &= change == 0;
            }
            Step::Repeat => {
                let again = self.wire.len();
                self.wire.extend_from_within(self.last..);
                self.last = again;
                self.is_plain_data = false;
            }
            Step::Lose => {
                self.wire.truncate(self.last);
                self.is_plain_data = false;
            }
            Step::Raw(bytes) => {
                self.last = self.wire.len();
                self.wire.extend_from_slice(bytes);
                self.is_plain_data &= bytes.is_empty();
            }
        }
    }

    fn seal(&mut self, sealer: &mut RecordSealer, kind: ContentType, content: &[u8]) {
        self.last = self.wire.len();
        self.wire
            .resize(self.last + RecordSealer::sealed_len(content.len()), 0);
        let used = sealer
            .seal(kind, content, &mut self.wire[self.last..])
            .expect("the key is new");
        self.wire.truncate(self.last + used);
    }
}

/// Hands `wire` to the session in pieces, the way a relay does.
fn feed(
    session: &mut TlsSession,
    wire: &[u8],
    cuts: &[u8],
    received: &mut Vec<u8>,
) -> Result<(), SessionError> {
    let mut cuts = cuts.iter().cycle();
    let mut at = 0;
    while at < wire.len() {
        let piece = match cuts.next() {
            None | Some(0) => wire.len(),
            Some(&length) => usize::from(length),
        };
        let end = wire.len().min(at + piece);
        let mut whole = session.take_partial();
        whole.extend_from_slice(&wire[at..end]);
        at = end;
        let mut plain = vec![0; whole.len()];
        let done = session.open(&whole, &mut plain)?;
        assert!(done.consumed <= whole.len() && done.produced <= done.consumed);
        received.extend_from_slice(&plain[..done.produced]);
        session.keep_partial(&whole[done.consumed..]);
        assert!(
            !session.has_waiting(),
            "a relay would read what waits for ever"
        );
    }
    Ok(())
}

/// The session can still send, and owes what it was asked for.
fn answer(mut ends: Ends) {
    let mut wire = Vec::new();
    let owes = ends.session.owes();
    ends.session
        .seal_owed(&mut wire)
        .expect("keys can be derived");
    if owes {
        let (kind, content) = open_one(&mut ends.opener, &mut wire);
        assert_eq!(
            (kind, content.as_slice()),
            (ContentType::Handshake, &[24, 0, 0, 1, 0][..])
        );
        ends.rekey_opener();
    }
    assert!(wire.is_empty() && !ends.session.owes());
    wire.resize(TlsSession::sealed_len(6), 0);
    let used = ends
        .session
        .seal(b"answer", &mut wire)
        .expect("the key is new");
    wire.truncate(used);
    ends.session.seal_close(&mut wire);
    assert_eq!(
        open_one(&mut ends.opener, &mut wire),
        (ContentType::ApplicationData, b"answer".to_vec())
    );
    assert_eq!(
        open_one(&mut ends.opener, &mut wire),
        (ContentType::Alert, vec![1, 0])
    );
    assert!(wire.is_empty());
}

/// Takes the first record off `wire`.
fn open_one(opener: &mut RecordOpener, wire: &mut Vec<u8>) -> (ContentType, Vec<u8>) {
    let length = opener
        .frame(wire)
        .expect("we send what is right")
        .expect("and all of it");
    let mut plain = vec![0; length];
    let opened = opener
        .open(&wire[..length], &mut plain)
        .expect("it authenticates");
    wire.drain(..length);
    plain.truncate(opened.len);
    (opened.kind, plain)
}
