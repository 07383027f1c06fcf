//! Bytes to heads (RFC 9112 §2–§5).
//!
//! A head is parsed once, when its last byte is there; before that only its end is looked for, from where the last look
//! stopped, so that a head that comes byte by byte costs no more than one that comes whole.

use memchr::memchr;

use super::{HeadError, Limits};
use crate::fields::{Fields, Span};
use crate::head::{Method, RequestHead, ResponseHead, Version};

/// How far a head that is not all there was looked through.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    scanned: usize,
}

/// Parses the request head at the front of `input` into `head`; says how many bytes it took, or `None` while it is not
/// all there: then call again with the same bytes and more, and the same `progress`.
///
/// # Errors
/// When it is malformed or longer than `limits` say; as early as that is certain.
pub fn request(
    input: &[u8],
    progress: &mut Progress,
    limits: &Limits,
    head: &mut RequestHead,
) -> Result<Option<usize>, HeadError> {
    // RFC 9112 §2.2: one empty line before a request is passed over; old clients send it behind a body.
    let skipped = if input.starts_with(b"\r\n") { 2 } else { 0 };
    let Some(text) = whole(&input[skipped..], progress, limits)? else { return Ok(None) };
    head.fields.restart(text);
    let (line, rest) = split_line(text, 0)?;
    let line = &text[line.0..line.1];
    let after_method = memchr(b' ', line).ok_or(HeadError::FirstLine)?;
    let after_target =
        after_method + 1 + memchr(b' ', &line[after_method + 1..]).ok_or(HeadError::FirstLine)?;
    let (method, target) = (&line[..after_method], &line[after_method + 1..after_target]);
    if !is_token(method) || target.is_empty() || !target.iter().all(u8::is_ascii_graphic) {
        return Err(HeadError::FirstLine);
    }
    head.version = version(&line[after_target + 1..])?;
    head.method = Method::of(method);
    head.method_name = Span::new(0..after_method);
    head.target = Span::new(after_method + 1..after_target);
    fields(text, rest, limits, &mut head.fields)?;
    *progress = Progress::default();
    Ok(Some(skipped + text.len()))
}

/// Parses the answer's head at the front of `input` into `head`; otherwise as [`request`].
///
/// # Errors
/// When it is malformed or longer than `limits` say.
pub fn response(
    input: &[u8],
    progress: &mut Progress,
    limits: &Limits,
    head: &mut ResponseHead,
) -> Result<Option<usize>, HeadError> {
    let Some(text) = whole(input, progress, limits)? else { return Ok(None) };
    head.fields.restart(text);
    let ((start, end), rest) = split_line(text, 0)?;
    let line = &text[start..end];
    // "HTTP/1.1 200 OK"; the reason may be empty, and some origins leave the space before it out as well.
    let (name, status) = line.split_at_checked(9).ok_or(HeadError::FirstLine)?;
    head.version = version(name.strip_suffix(b" ").ok_or(HeadError::FirstLine)?)?;
    let (digits, reason) = status.split_at_checked(3).ok_or(HeadError::FirstLine)?;
    if !digits.iter().all(u8::is_ascii_digit)
        || digits[0] == b'0'
        || !matches!(reason, [] | [b' ', ..])
        || !is_text(reason)
    {
        return Err(HeadError::FirstLine);
    }
    head.status = digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
    head.reason = Span::new((start + 13).min(end)..end);
    fields(text, rest, limits, &mut head.fields)?;
    *progress = Progress::default();
    Ok(Some(text.len()))
}

/// Parses the trailer section at the front of `input`, its empty line included, into `trailers`; as [`request`].
///
/// # Errors
/// As for the fields of a head.
pub(super) fn trailers(
    input: &[u8],
    limits: &Limits,
    trailers: &mut Fields,
) -> Result<Option<usize>, HeadError> {
    // Without a first line the section may be its empty line alone.
    let scan = if input.starts_with(b"\r\n") { Scan::End(2) } else { end_of_fields(input, 0)? };
    let end = match scan {
        Scan::End(end) if end <= limits.head => end,
        Scan::More(_) if input.len() < limits.head => return Ok(None),
        Scan::End(_) | Scan::More(_) => return Err(HeadError::TooLong),
    };
    trailers.restart(&input[..end]);
    fields(&input[..end], 0, limits, trailers)?;
    Ok(Some(end))
}

/// The bytes of the head, once its empty line is there.
fn whole<'a>(
    input: &'a [u8],
    progress: &mut Progress,
    limits: &Limits,
) -> Result<Option<&'a [u8]>, HeadError> {
    // The last line that was looked at may be the one before the empty one.
    let from = progress.scanned.min(input.len());
    match end_of_fields(input, from)? {
        Scan::End(end) if end > limits.head => Err(HeadError::TooLong),
        Scan::End(end) => Ok(Some(&input[..end])),
        Scan::More(_) if input.len() >= limits.head => Err(HeadError::TooLong),
        Scan::More(scanned) => {
            progress.scanned = scanned;
            Ok(None)
        }
    }
}

/// What looking for an empty line found.
enum Scan {
    /// It ends here.
    End(usize),
    /// It is not there; what begins here was not looked at as a whole line.
    More(usize),
}

/// Looks for the empty line behind the line that begins at `from`, line by line: waiting for the rest of a head that is
/// wrong helps nobody.
fn end_of_fields(input: &[u8], from: usize) -> Result<Scan, HeadError> {
    let mut at = from;
    while let Some(found) = memchr(b'\n', &input[at..]) {
        let end = at + found;
        if end == 0 || input[end - 1] != b'\r' {
            return Err(HeadError::LineEnd);
        }
        match &input[end + 1..] {
            [b'\r', b'\n', ..] => return Ok(Scan::End(end + 3)),
            // The empty line may be cut in two: this line is looked at again.
            [] | [b'\r'] => return Ok(Scan::More(at)),
            _ => at = end + 1,
        }
    }
    Ok(Scan::More(at))
}

/// The line at `from` without its end, as a range, and where the next one begins.
fn split_line(text: &[u8], from: usize) -> Result<((usize, usize), usize), HeadError> {
    let end = from + memchr(b'\n', &text[from..]).ok_or(HeadError::LineEnd)?;
    if end == from || text[end - 1] != b'\r' {
        return Err(HeadError::LineEnd);
    }
    Ok(((from, end - 1), end + 1))
}

/// RFC 9112 §2.3: the name is case-sensitive, each number is one digit.
fn version(name: &[u8]) -> Result<Version, HeadError> {
    match name {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => Ok(Version::Http11),
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Err(HeadError::Version)
        }
        _ => Err(HeadError::FirstLine),
    }
}

/// The lines from `from` to the empty one.
fn fields(text: &[u8], from: usize, limits: &Limits, fields: &mut Fields) -> Result<(), HeadError> {
    let mut at = from;
    loop {
        let ((start, end), next) = split_line(text, at)?;
        at = next;
        let line = &text[start..end];
        let Some(&first) = line.first() else { return Ok(()) };
        if matches!(first, b' ' | b'\t') {
            return Err(HeadError::Folded);
        }
        if fields.len() >= limits.fields {
            return Err(HeadError::TooManyFields);
        }
        let colon = token_length(line);
        if colon == 0 || line.get(colon) != Some(&b':') {
            return Err(HeadError::FieldName);
        }
        let value = &line[colon + 1..];
        if !is_text(value) {
            return Err(if memchr(b'\r', value).is_some() {
                HeadError::LineEnd
            } else {
                HeadError::FieldValue
            });
        }
        let mut from = start + colon + 1;
        let mut to = end;
        while from < to && is_space(text[from]) {
            from += 1;
        }
        while from < to && is_space(text[to - 1]) {
            to -= 1;
        }
        fields.push(start..start + colon, from..to);
    }
}

/// How many bytes at the front are those of a token.
fn token_length(text: &[u8]) -> usize {
    text.iter().position(|&byte| !TOKEN[usize::from(byte)]).unwrap_or(text.len())
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// RFC 9110 §5.6.2.
pub(crate) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&byte| TOKEN[usize::from(byte)])
}

/// RFC 9110 §5.5: visible characters, space, tab, and bytes that mean nothing to us. Eight at a time: values are what
/// most of a head is.
pub(crate) fn is_text(text: &[u8]) -> bool {
    let (words, rest) = text.as_chunks::<8>();
    words
        .iter()
        .all(|word| !may_be_control(u64::from_le_bytes(*word)) || word.iter().all(|byte| !is_control(*byte)))
        && rest.iter().all(|byte| !is_control(*byte))
}

fn is_control(byte: u8) -> bool {
    byte < b' ' && byte != b'\t' || byte == 0x7f
}

/// Whether one of eight bytes is below a space, or DEL; it may say so of a tab.
fn may_be_control(word: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGH;
    below(word, 0x20) | below(word ^ (ONES * 0x7f), 1) != 0
}

const TOKEN: [bool; 256] = {
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
