//! A parser of heads (RFC 9112 §2–§5).
//!
//! Nearly every head arrives whole and is parsed in one pass. An incomplete one is parsed once more
//! when its last byte is there; until then only its end is searched for, from where the last search
//! stopped, so that a head that arrives byte by byte costs little more than a whole one.

use memchr::memchr;

use super::{HeadError, HeadLimits, NOMINATED};
use crate::fields::{Fields, Known, TextSpan};
use crate::head::{HttpVersion, Method, RequestHead, ResponseHead};

/// The progress in an incomplete head or trailer section.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeadProgress {
    /// Whether it was parsed already, as far as it went.
    tried: bool,
    /// All line ends before this byte have been checked.
    scanned: usize,
}

/// Parses the request head at the front of `input` into `head`; returns its length, or `None` while
/// it is incomplete: then call again with the same bytes and more, and the same `progress`. `head`
/// is valid only once it is complete.
///
/// # Errors
/// When it is malformed or exceeds `limits`; as early as that is certain.
pub fn request(
    input: &[u8],
    progress: &mut HeadProgress,
    limits: &HeadLimits,
    head: &mut RequestHead,
) -> Result<Option<usize>, HeadError> {
    // RFC 9112 §2.2: one empty line before a request is skipped; old clients send it behind a body.
    let skipped = match input {
        [b'\r', b'\n', ..] => 2,
        [b'\r'] => return Ok(None),
        _ => 0,
    };
    let unread = &input[skipped..];
    let end = progress.parse(unread, limits, |text| {
        let Some(rest) = request_line(text, head)? else {
            return Ok(None);
        };
        fields(text, rest, limits, &mut head.fields)
    });
    Ok(end
        .map_err(|error| too_long(error, unread, limits))?
        .map(|end| skipped + end))
}

/// Parses the response head at the front of `input` into `head`; otherwise as [`request`].
///
/// # Errors
/// When it is malformed or exceeds `limits`.
pub fn response(
    input: &[u8],
    progress: &mut HeadProgress,
    limits: &HeadLimits,
    head: &mut ResponseHead,
) -> Result<Option<usize>, HeadError> {
    progress.parse(input, limits, |text| {
        let Some(rest) = status_line(text, head)? else {
            return Ok(None);
        };
        fields(text, rest, limits, &mut head.fields)
    })
}

/// Parses the trailer section at the front of `input`, its empty line included, into `trailers`; as
/// [`request`].
///
/// # Errors
/// As for the fields of a head.
pub(super) fn trailers(
    input: &[u8],
    progress: &mut HeadProgress,
    limits: &HeadLimits,
    trailers: &mut Fields,
) -> Result<Option<usize>, HeadError> {
    // Without a first line the section may be its empty line alone, which `progress` does not
    // search for.
    if matches!(input, [] | [b'\r']) {
        return Ok(None);
    }
    progress.parse(input, limits, |text| fields(text, 0, limits, trailers))
}

/// RFC 9112 §3: in a head with a first line that exceeds the limit, the target is too long.
fn too_long(error: HeadError, input: &[u8], limits: &HeadLimits) -> HeadError {
    let first_line = input.get(..limits.head).unwrap_or(input);
    if error == HeadError::TooLong && memchr(b'\n', first_line).is_none() {
        HeadError::TargetTooLong
    } else {
        error
    }
}

impl HeadProgress {
    /// Calls `parse` with the head at the front of `text`, unless it must be incomplete.
    fn parse(
        &mut self,
        text: &[u8],
        limits: &HeadLimits,
        parse: impl FnOnce(&[u8]) -> Result<Option<usize>, HeadError>,
    ) -> Result<Option<usize>, HeadError> {
        let text = &text[..text.len().min(limits.head)];
        if !self.tried || self.finds_end(text)? {
            if let Some(end) = parse(text)? {
                *self = Self::default();
                return Ok(Some(end));
            }
            self.tried = true;
            self.finds_end(text)?;
        }
        if text.len() == limits.head {
            Err(HeadError::TooLong)
        } else {
            Ok(None)
        }
    }

    /// Searches for the empty line, checking each line: a malformed head is refused before its end.
    fn finds_end(&mut self, text: &[u8]) -> Result<bool, HeadError> {
        while let Some(found) = memchr(b'\n', &text[self.scanned.min(text.len())..]) {
            let end = self.scanned + found;
            if end == 0 || text[end - 1] != b'\r' {
                return Err(HeadError::LineEnd);
            }
            match &text[end + 1..] {
                [b'\r', b'\n', ..] => return Ok(true),
                // The empty line may be cut in two: this line's end is checked again.
                [] | [b'\r'] => {
                    self.scanned = end;
                    return Ok(false);
                }
                _ => self.scanned = end + 1,
            }
        }
        self.scanned = text.len();
        Ok(false)
    }
}

/// RFC 9112 §3; returns where the fields begin.
fn request_line(text: &[u8], head: &mut RequestHead) -> Result<Option<usize>, HeadError> {
    let method = token_length(text);
    let target = method + 1;
    match text.get(method) {
        None => return Ok(None),
        Some(b' ') if method > 0 => {}
        Some(&byte) => return Err(misplaced(byte, HeadError::FirstLine)),
    }
    let Some(length) = text[target..]
        .iter()
        .position(|byte| !byte.is_ascii_graphic())
    else {
        return Ok(None);
    };
    let after_target = target + length;
    match text[after_target] {
        b' ' if length > 0 => {}
        byte => return Err(misplaced(byte, HeadError::FirstLine)),
    }
    let Some((version, rest)) = version(text, after_target + 1)? else {
        return Ok(None);
    };
    match &text[rest..] {
        [b'\r', b'\n', ..] => {}
        [] | [b'\r'] => return Ok(None),
        &[byte, ..] => return Err(misplaced(byte, HeadError::FirstLine)),
    }
    (head.version, head.secure) = (version, None);
    head.method = Method::of(&text[..method]);
    head.method_name = TextSpan::new(0..method);
    head.target = TextSpan::new(target..after_target);
    Ok(Some(rest + 2))
}

/// RFC 9112 §4; returns where the fields begin.
fn status_line(text: &[u8], head: &mut ResponseHead) -> Result<Option<usize>, HeadError> {
    // "HTTP/1.1 200 OK"; the reason may be empty, and some origins omit the space before it as
    // well.
    let Some((version, space)) = version(text, 0)? else {
        return Ok(None);
    };
    let after_status = space + 4;
    let Some(status) = text.get(space..after_status) else {
        return Ok(None);
    };
    let [
        b' ',
        hundreds @ b'1'..=b'9',
        tens @ b'0'..=b'9',
        ones @ b'0'..=b'9',
    ] = *status
    else {
        return Err(HeadError::FirstLine);
    };
    let Some(end) = text_length(&text[after_status..]).map(|length| after_status + length) else {
        return Ok(None);
    };
    match &text[end..] {
        [b'\r', b'\n', ..] => {}
        [b'\r'] => return Ok(None),
        [b'\r', ..] => return Err(HeadError::FirstLine),
        &[byte, ..] => return Err(misplaced(byte, HeadError::FirstLine)),
        [] => return Ok(None),
    }
    if end > after_status && text[after_status] != b' ' {
        return Err(HeadError::FirstLine);
    }
    head.version = version;
    head.status = [hundreds, tens, ones]
        .iter()
        .fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
    head.reason = TextSpan::new((after_status + 1).min(end)..end);
    Ok(Some(end + 2))
}

/// The error for an invalid byte: a bare LF is an error of the line's end in any place.
fn misplaced(byte: u8, otherwise: HeadError) -> HeadError {
    if byte == b'\n' {
        HeadError::LineEnd
    } else {
        otherwise
    }
}

/// RFC 9112 §2.3: the name is case-sensitive, each number is one digit. Returns where it ends.
fn version(text: &[u8], from: usize) -> Result<Option<(HttpVersion, usize)>, HeadError> {
    let end = from + 8;
    let Some(name) = text.get(from..end) else {
        return match memchr(b'\n', &text[from..]).map(|found| text[..from + found].last()) {
            Some(Some(b'\r')) => Err(HeadError::FirstLine),
            Some(_) => Err(HeadError::LineEnd),
            None => Ok(None),
        };
    };
    let version = match name {
        b"HTTP/1.1" => HttpVersion::Http11,
        b"HTTP/1.0" => HttpVersion::Http10,
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => HttpVersion::Http11,
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
            return Err(HeadError::Version);
        }
        _ => return Err(HeadError::FirstLine),
    };
    Ok(Some((version, end)))
}

/// Parses the lines from `from` to the empty one; returns where that ends, or `None` if `text` ends
/// before.
fn fields(
    text: &[u8],
    from: usize,
    limits: &HeadLimits,
    fields: &mut Fields,
) -> Result<Option<usize>, HeadError> {
    fields.clear();
    let mut at = from;
    loop {
        let line = &text[at..];
        match line {
            [b'\r', b'\n', ..] => {
                fields.hold(&text[..at + 2]);
                nominated(fields)?;
                return Ok(Some(at + 2));
            }
            [] | [b'\r'] => return Ok(None),
            [b' ' | b'\t', ..] => return Err(HeadError::Folded),
            _ => {}
        }
        if fields.len() >= limits.fields {
            return Err(HeadError::TooManyFields);
        }
        let colon = token_length(line);
        match line.get(colon) {
            None => return Ok(None),
            Some(b':') if colon > 0 => {}
            Some(&byte) => return Err(misplaced(byte, HeadError::FieldName)),
        }
        let behind = at + colon + 1;
        let Some(end) = text_length(&text[behind..]).map(|length| behind + length) else {
            return Ok(None);
        };
        let next = match &text[end..] {
            [b'\r', b'\n', ..] => end + 2,
            [b'\r'] => return Ok(None),
            [b'\r' | b'\n', ..] => return Err(HeadError::LineEnd),
            _ => return Err(HeadError::FieldValue),
        };
        let (mut from, mut to) = (behind, end);
        while from < to && is_space(text[from]) {
            from += 1;
        }
        while from < to && is_space(text[to - 1]) {
            to -= 1;
        }
        fields.push(text, at..at + colon, from..to);
        at = next;
    }
}

/// Refuses a Connection with more than [`NOMINATED`] elements.
fn nominated(fields: &Fields) -> Result<(), HeadError> {
    // That many elements need that many bytes: most values are shorter.
    let elements = |value: &[u8]| match value.len() < NOMINATED {
        true => 1,
        false => 1 + memchr::memchr_iter(b',', value).count(),
    };
    let all: usize = fields.values(Known::Connection).map(elements).sum();
    if all > NOMINATED {
        Err(HeadError::TooManyNominated)
    } else {
        Ok(())
    }
}

/// Whether a text is a token, as methods and field names are (RFC 9110 §5.6.2).
pub fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && token_length(text) == text.len()
}

/// Whether a text is a valid field value: no control characters but tabs (RFC 9110 §5.5).
pub fn is_text(text: &[u8]) -> bool {
    text_length(text).is_none()
}

/// The number of bytes at the front that belong to a token.
fn token_length(text: &[u8]) -> usize {
    text.iter()
        .position(|&byte| !TOKEN[usize::from(byte)])
        .unwrap_or(text.len())
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The number of bytes before the first that is not text (RFC 9110 §5.5: visible characters, space,
/// tab, and opaque bytes), if there is one. Eight at a time: values are most of a head.
fn text_length(text: &[u8]) -> Option<usize> {
    let (words, rest) = text.as_chunks::<8>();
    let mut at = 0;
    for word in words {
        let marks = may_be_controls(u64::from_le_bytes(*word));
        if marks != 0 {
            // The first mark is nearly always the end of the line; tabs are marked, too.
            let first = (marks.trailing_zeros() / 8) as usize;
            if is_control(word[first]) {
                return Some(at + first);
            }
            if let Some(found) = word.iter().position(|byte| is_control(*byte)) {
                return Some(at + found);
            }
        }
        at += 8;
    }
    rest.iter()
        .position(|byte| is_control(*byte))
        .map(|found| at + found)
}

fn is_control(byte: u8) -> bool {
    byte < b' ' && byte != b'\t' || byte == 0x7f
}

/// Marks the bytes below a space, and DEL, in the highest bit of each of eight bytes. The lowest
/// mark is right, except for a tab; higher ones may be false.
fn may_be_controls(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGH;
    below(word, 0x20) | below(word ^ (ONES * 0x7f), 1)
}

/// The bytes that a token may have (RFC 9110 §5.6.2).
pub(crate) const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let of_token = b"!#$%&'*+-.^_`|~";
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        let mut at = 0;
        while at < of_token.len() {
            if of_token[at] == byte as u8 {
                table[byte] = true;
            }
            at += 1;
        }
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests;
