//! Field blocks that we send: heads and trailers, encoded where they go out.
//!
//! A block changes the encoder's table, so its place among the other blocks must be that in which it
//! was encoded (RFC 9113 §4.3): it is written into the connection's bytes to send, never before.

use super::Role;
use super::coded_date::CodedDate;
use super::frame_header::{self, HEADER_LEN, MAX_PAYLOAD};
use super::frames::{CONTINUATION, END_HEADERS, END_STREAM, HEADERS};
use crate::fields::{Field, Fields, Known};
use crate::hpack::{HpackEncoder, Indexing};

/// The longest value that requests of many clients have in the table of their connection, a sixteenth
/// of it.
const LONGEST_SHARED: usize = 256;

/// A field block that is being written.
#[derive(Debug)]
pub struct FieldBlock<'a> {
    encoder: &'a mut HpackEncoder,
    date: &'a mut Option<Box<CodedDate>>,
    out: &'a mut Vec<u8>,
    /// The place of the first field.
    start: usize,
}

impl FieldBlock<'_> {
    /// Adds a field; its name is in lower case, and pseudo-fields come first. The caller has checked
    /// name and value.
    pub fn field(&mut self, name: &[u8], value: &[u8], indexing: Indexing) {
        self.encoder.encode(name, value, indexing, self.out);
    }

    /// Adds the pseudo-header field of a response, before all others.
    pub fn status(&mut self, status: u16) {
        let mut digits = itoa::Buffer::new();
        let status = digits.format(status);
        self.field(b":status", status.as_bytes(), Indexing::Keep);
    }

    /// Adds a field of a message, with a name in any case. Its use of the table goes by its name: what
    /// soon changes is not added, and neither are secrets.
    pub fn message_field(&mut self, field: &Field<'_>) {
        if field.known == Some(Known::Date) {
            let date = self.date.get_or_insert_default();
            return date.write(field.value, self.encoder, self.out);
        }
        self.lower(field.name, field.value, |lowered| {
            indexing(lowered, field.known)
        });
    }

    /// Adds a field of a request, with a name in any case, on a connection that many clients share:
    /// their secrets are not added to the table (RFC 7541 §7.1.3), and otherwise only what most of
    /// their requests have in common is, since entries stay.
    pub fn request_field(&mut self, field: &Field<'_>) {
        self.lower(field.name, field.value, |lowered| {
            match indexing(lowered, field.known) {
                Indexing::Keep => Self::shared_indexing(is_common(lowered), field.value),
                indexing => indexing,
            }
        });
    }

    /// The use of the table for a value on a connection that many clients share. Entries stay, so that
    /// one client must not fill the table with long ones.
    pub fn shared_indexing(is_common: bool, value: &[u8]) -> Indexing {
        if is_common && value.len() <= LONGEST_SHARED {
            Indexing::Keep
        } else {
            Indexing::Plain
        }
    }

    /// The number of changes of the encoder's table (see [`HpackEncoder::changes`]).
    pub fn changes(&self) -> u64 {
        self.encoder.changes()
    }

    /// The fields so far, encoded.
    pub fn written(&self) -> &[u8] {
        &self.out[self.start..]
    }

    /// Adds fields that were [`written`](Self::written) on the same connection without a change of
    /// the table, then or since.
    pub fn repeat(&mut self, written: &[u8]) {
        self.out.extend_from_slice(written);
    }

    /// Adds trailers: those of a `role` that is the client, as fields of a request.
    pub(super) fn trailers(&mut self, fields: &Fields, role: Role) {
        for field in fields.iter() {
            match role {
                Role::Client => self.request_field(&field),
                Role::Server => self.message_field(&field),
            }
        }
    }

    /// Adds a field with a name in any case; `indexing` gets it in lower case.
    fn lower(&mut self, name: &[u8], value: &[u8], indexing: impl FnOnce(&[u8]) -> Indexing) {
        let mut short = [0; 64];
        let mut long = Vec::new();
        let lowered = if !name.iter().any(u8::is_ascii_uppercase) {
            name
        } else if let Some(short) = short.get_mut(..name.len()) {
            short.copy_from_slice(name);
            short.make_ascii_lowercase();
            &*short
        } else {
            long.extend(name.to_ascii_lowercase());
            &long[..]
        };
        let indexing = indexing(lowered);
        self.field(lowered, value, indexing);
    }
}

/// The use of the table for a field of a message.
fn indexing(name: &[u8], known: Option<Known>) -> Indexing {
    match (known, name) {
        (Some(Known::ContentLength | Known::XRequestId), _) => Indexing::Plain,
        (Some(_), _) => Indexing::Keep,
        (None, b"set-cookie" | b"cookie" | b"authorization" | b"proxy-authorization") => {
            Indexing::Never
        }
        (None, _) => Indexing::Keep,
    }
}

/// Whether the requests of different clients have few values of this field among them.
fn is_common(name: &[u8]) -> bool {
    matches!(
        name,
        b"accept"
            | b"accept-encoding"
            | b"accept-language"
            | b"content-type"
            | b"grpc-accept-encoding"
            | b"grpc-encoding"
            | b"te"
            | b"user-agent"
            | b"via"
            | b"x-forwarded-host"
            | b"x-forwarded-port"
            | b"x-forwarded-proto"
    )
}

/// Writes HEADERS, and CONTINUATION where the block is too long for one frame (RFC 9113 §6.10).
pub(super) fn write(
    out: &mut Vec<u8>,
    (encoder, date): (&mut HpackEncoder, &mut Option<Box<CodedDate>>),
    stream: u32,
    ended: bool,
    fill: impl FnOnce(&mut FieldBlock<'_>),
) {
    let flags = if ended { END_STREAM } else { 0 };
    let front = out.len();
    frame_header::begin(out, 0, HEADERS, flags | END_HEADERS, stream);
    let payload = out.len();
    encoder.begin(out);
    let start = out.len();
    fill(&mut FieldBlock {
        encoder,
        date,
        out,
        start,
    });
    let length = out.len() - payload;
    if length <= MAX_PAYLOAD {
        out[front..front + 3].copy_from_slice(&(length as u32).to_be_bytes()[1..]);
        return;
    }
    let block = out.split_off(payload);
    out.truncate(front);
    out.reserve(block.len() + HEADER_LEN * block.len().div_ceil(MAX_PAYLOAD));
    let mut rest = &block[..];
    let (mut kind, mut flags) = (HEADERS, flags);
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(rest.len().min(MAX_PAYLOAD));
        let last = if behind.is_empty() { END_HEADERS } else { 0 };
        frame_header::begin(out, piece.len(), kind, flags | last, stream);
        out.extend_from_slice(piece);
        (kind, flags, rest) = (CONTINUATION, 0, behind);
    }
}
