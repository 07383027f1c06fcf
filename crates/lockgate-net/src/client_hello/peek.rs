//! The records of a ClientHello (RFC 8446 §5.1), reassembled.

use super::{ClientHello, HelloError, message};

/// The size limit of a hello, records' headers included; no [`Peek`] asks for more. rustls stops at
/// 64 KB too.
pub const HELLO_MAX: usize = 65_536;

pub(crate) const RECORD_HEADER: usize = 5;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const RECORD_MAX: usize = 1 << 14;
const CLIENT_HELLO: u8 = 1;
pub(crate) const MESSAGE_HEADER: usize = 4;

/// The result of looking at the first bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peek<'a> {
    /// The hello needs `at_least` bytes in all; that is more than there are now and at most
    /// [`HELLO_MAX`].
    NeedMore {
        /// Bytes since the beginning of the connection.
        at_least: usize,
    },
    /// The hello is complete, and was parsed.
    Hello(ClientHello<'a>),
}

/// Parses a ClientHello at the beginning of `bytes`, which may be longer.
///
/// Pass all bytes since the beginning each time. The way they arrive does not change the result.
/// Until the hello is complete only the headers of its records are read. A caller that waits for
/// `at_least` bytes calls a few times only, for any client: the missing rest shrinks by a
/// constant share each time, even with one byte per record.
///
/// # Errors
/// [`HelloError`]: send its alert and close.
pub fn peek(bytes: &[u8]) -> Result<Peek<'_>, HelloError> {
    if bytes.is_empty() {
        return Ok(Peek::NeedMore { at_least: 1 });
    }
    let mut progress = HelloProgress::default();
    loop {
        let Some(record) = next_record(bytes, progress.end)? else {
            return Ok(progress.need());
        };
        progress.add(&record)?;
        if record.missing > 0 {
            return Ok(progress.need());
        }
        if progress.message() == Some(progress.carried) {
            break;
        }
    }
    let carried = bytes.get(..progress.end).unwrap_or_default();
    if progress.records == 1 {
        let message = carried
            .get(RECORD_HEADER + MESSAGE_HEADER..)
            .unwrap_or_default();
        return Ok(Peek::Hello(message::parse(message, progress.end)?));
    }
    let message = join(carried, progress.carried)?;
    let body = message.get(MESSAGE_HEADER..).unwrap_or_default();
    Ok(Peek::Hello(
        message::parse(body, progress.end)?.into_owned(),
    ))
}

/// A hello of SSL 2.0 (RFC 5246 appendix E.2): length with the high bit, CLIENT-HELLO, version.
pub(super) fn is_ssl2(bytes: &[u8]) -> bool {
    matches!(
        bytes,
        [0x80..=0xFF, _, 1, 0, 2, ..] | [0x80..=0xFF, _, 1, 3, 0..=4, ..]
    )
}

/// The available content of one record.
struct RecordPart<'a> {
    content: &'a [u8],
    missing: usize,
}

/// The record at `at`; `None` if its header is incomplete.
fn next_record(bytes: &[u8], at: usize) -> Result<Option<RecordPart<'_>>, HelloError> {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.first() {
        None | Some(&HANDSHAKE) => {}
        Some(0x80..=0xFF) if at == 0 && rest.len() < RECORD_HEADER => return Ok(None),
        Some(_) if at == 0 => {
            return Err(if is_ssl2(rest) {
                HelloError::Ssl2
            } else {
                HelloError::NotTls
            });
        }
        Some(_) => return Err(HelloError::Interrupted),
    }
    let Some((&[_, major, _, high, low], rest)) = rest.split_first_chunk::<RECORD_HEADER>() else {
        return Ok(None);
    };
    if major != 3 {
        return Err(HelloError::RecordVersion); // the minor version must be ignored (RFC 8446 §5.1)
    }
    match usize::from(u16::from_be_bytes([high, low])) {
        0 => Err(HelloError::EmptyRecord),
        length if length > RECORD_MAX => Err(HelloError::RecordOverflow),
        length => {
            let content = rest.get(..length).unwrap_or(rest);
            Ok(Some(RecordPart {
                content,
                missing: length - content.len(),
            }))
        }
    }
}

/// The contents of all records, `length` bytes in all.
fn join(bytes: &[u8], length: usize) -> Result<Vec<u8>, HelloError> {
    let mut message = Vec::with_capacity(length);
    let mut at = 0;
    while let Some(record) = next_record(bytes, at)? {
        message.extend_from_slice(record.content);
        at += RECORD_HEADER + record.content.len();
    }
    Ok(message)
}

/// The progress of the hello, with the last record counted as complete.
#[derive(Default)]
struct HelloProgress {
    records: usize,
    /// The end of the last record.
    end: usize,
    /// Bytes of handshake messages in the records.
    carried: usize,
    /// The message's header, as far as available; it may be spread over records.
    header: [u8; MESSAGE_HEADER],
    header_len: usize,
}

impl HelloProgress {
    fn add(&mut self, record: &RecordPart<'_>) -> Result<(), HelloError> {
        let free = self.header.get_mut(self.header_len..).unwrap_or_default();
        for (slot, byte) in free.iter_mut().zip(record.content) {
            *slot = *byte;
            self.header_len += 1;
        }
        if self.header_len > 0 && self.header[0] != CLIENT_HELLO {
            return Err(HelloError::NotClientHello);
        }
        let length = record.content.len() + record.missing;
        self.records += 1;
        self.end += RECORD_HEADER + length;
        self.carried += length;
        // Checked at every record, not only if more is needed: otherwise the way the bytes arrive
        // would choose between two errors.
        if self.message().is_some_and(|message| self.carried > message) {
            return Err(HelloError::Trailing);
        }
        if self.at_least() > HELLO_MAX {
            Err(HelloError::TooLong)
        } else {
            Ok(())
        }
    }

    /// The length of the whole message with its header, once the header is complete.
    fn message(&self) -> Option<usize> {
        let [_, a, b, c] = self.header;
        let body = usize::try_from(u32::from_be_bytes([0, a, b, c])).ok()?;
        (self.header_len == MESSAGE_HEADER).then_some(MESSAGE_HEADER + body)
    }

    fn need(&self) -> Peek<'static> {
        Peek::NeedMore {
            at_least: self.at_least(),
        }
    }

    /// The bytes that the hello needs at least: to the end of the current record, then the rest of
    /// the message in a single record.
    fn at_least(&self) -> usize {
        match self
            .message()
            .unwrap_or(MESSAGE_HEADER)
            .saturating_sub(self.carried)
        {
            0 => self.end,
            missing => self.end + RECORD_HEADER + missing,
        }
    }
}
