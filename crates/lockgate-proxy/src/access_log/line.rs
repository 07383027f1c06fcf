//! The fields of one line, as JSON or as logfmt, appended to a buffer.
//!
//! Knows nothing of connections and exchanges. Allocates only when the buffer must grow.

use std::io::Write;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::time::Duration;

use super::timestamp::Timestamps;
use super::{LoggedAddress, MaskIp};
use crate::escape;

/// The syntax of a line: JSON or logfmt. A type parameter, so that the constant parts of a line are
/// put together at compile time and a name costs a move or two.
pub(super) trait LineSyntax {
    /// The text before and after the time, and at the end of the line.
    const AROUND: [&'static [u8]; 3];
    /// The quote around words and digits.
    const QUOTE: &'static [u8];

    /// A name, with what stands before its value.
    fn name(key: FieldKey) -> &'static [u8];

    /// Whether the text may stand without quotes.
    fn is_bare(text: &[u8]) -> bool;
}

/// One object a line.
pub(super) struct Json;

impl LineSyntax for Json {
    const AROUND: [&'static [u8]; 3] = [b"{\"time\":\"", b"\"", b"}\n"];
    const QUOTE: &'static [u8] = b"\"";

    #[inline(always)]
    fn name(key: FieldKey) -> &'static [u8] {
        key.json.as_bytes()
    }

    #[inline(always)]
    fn is_bare(_text: &[u8]) -> bool {
        false
    }
}

/// `name=value`, quoted where it must be.
pub(super) struct Logfmt;

impl LineSyntax for Logfmt {
    const AROUND: [&'static [u8]; 3] = [b"time=", b"", b"\n"];
    const QUOTE: &'static [u8] = b"";

    #[inline(always)]
    fn name(key: FieldKey) -> &'static [u8] {
        key.logfmt.as_bytes()
    }

    fn is_bare(text: &[u8]) -> bool {
        let bare = |&byte: &u8| matches!(byte, b'!'..=b'~') && !matches!(byte, b'"' | b'=' | b'\\');
        !text.is_empty() && text.iter().all(bare)
    }
}

/// A field's name with what stands around it, put together when the program is compiled.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldKey {
    pub(super) json: &'static str,
    pub(super) logfmt: &'static str,
}

/// The [`FieldKey`] of a name.
macro_rules! key {
    ($name:literal) => {
        $crate::access_log::line::FieldKey {
            json: concat!(",\"", $name, "\":"),
            logfmt: concat!(" ", $name, "="),
        }
    };
}
pub(super) use key;

/// Most bytes of a text that are written, by default.
const LONGEST: usize = 512;
/// Behind a text that was cut.
const MORE: &[u8] = "…".as_bytes();

/// A line being written; [`end`](Self::end) ends it.
pub(super) struct LineWriter<'a, S> {
    out: &'a mut Vec<u8>,
    syntax: PhantomData<S>,
}

impl<'a, S: LineSyntax> LineWriter<'a, S> {
    /// Begins a line by its time: milliseconds since 1970.
    pub(super) fn begin(out: &'a mut Vec<u8>, stamps: &mut Timestamps, unix_ms: u64) -> Self {
        out.extend_from_slice(S::AROUND[0]);
        stamps.write_iso(out, unix_ms);
        out.extend_from_slice(S::AROUND[1]);
        Self {
            out,
            syntax: PhantomData,
        }
    }

    pub(super) fn end(self) {
        self.out.extend_from_slice(S::AROUND[2]);
    }

    #[inline(always)]
    fn name(&mut self, key: FieldKey) {
        self.out.extend_from_slice(S::name(key));
    }

    #[inline(always)]
    fn quote(&mut self) {
        self.out.extend_from_slice(S::QUOTE);
    }

    #[inline(always)]
    pub(super) fn text(&mut self, key: FieldKey, text: &str) {
        self.bytes(key, text.as_bytes(), LONGEST);
    }

    #[inline(always)]
    pub(super) fn some_text(&mut self, key: FieldKey, text: Option<&str>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    /// Bytes that a peer sent, up to `longest` of them, and an ellipsis if there were more.
    #[inline(always)]
    pub(super) fn bytes(&mut self, key: FieldKey, text: &[u8], longest: usize) {
        self.name(key);
        self.value(text, longest);
    }

    #[inline(never)]
    fn value(&mut self, text: &[u8], longest: usize) {
        let (text, is_cut) = escape::cut(text, longest);
        if !is_cut && S::is_bare(text) {
            self.out.extend_from_slice(text);
            return;
        }
        self.out.push(b'"');
        escape::json_inside(self.out, text);
        if is_cut {
            self.out.extend_from_slice(MORE);
        }
        self.out.push(b'"');
    }

    #[inline(always)]
    pub(super) fn some_bytes(&mut self, key: FieldKey, text: Option<&[u8]>, longest: usize) {
        if let Some(text) = text {
            self.bytes(key, text, longest);
        }
    }

    /// A text of ours that needs no look.
    #[inline(always)]
    pub(super) fn word(&mut self, key: FieldKey, word: &'static str) {
        self.name(key);
        self.quote();
        self.out.extend_from_slice(word.as_bytes());
        self.quote();
    }

    #[inline(always)]
    pub(super) fn number(&mut self, key: FieldKey, n: u64) {
        self.name(key);
        write_number(self.out, n);
    }

    #[inline(always)]
    pub(super) fn yes_or_no(&mut self, key: FieldKey, yes: bool) {
        self.name(key);
        self.out
            .extend_from_slice(if yes { b"true" } else { b"false" });
    }

    /// Sixteen hexadecimal digits.
    #[inline(always)]
    pub(super) fn hex(&mut self, key: FieldKey, n: u64) {
        self.name(key);
        self.quote();
        let digits: [u8; 16] =
            std::array::from_fn(|place| b"0123456789abcdef"[(n >> (60 - 4 * place) & 15) as usize]);
        self.out.extend_from_slice(&digits);
        self.quote();
    }

    #[inline(always)]
    pub(super) fn seconds(&mut self, key: FieldKey, duration: Duration) {
        self.name(key);
        write_number(self.out, duration.as_secs());
        self.out.push(b'.');
        // Six digits: what is behind the one in front.
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(1_000_000 + duration.subsec_micros());
        self.out
            .extend_from_slice(digits.get(1..).unwrap_or_default().as_bytes());
    }

    #[inline(always)]
    pub(super) fn some_seconds(&mut self, key: FieldKey, duration: Option<Duration>) {
        if let Some(duration) = duration {
            self.seconds(key, duration);
        }
    }

    /// The address, and the port where it is shown, as two fields.
    pub(super) fn address(
        &mut self,
        [ip, port]: [FieldKey; 2],
        address: LoggedAddress,
        mask: MaskIp,
    ) {
        match address {
            LoggedAddress::Unix => self.word(ip, "unix"),
            LoggedAddress::Unknown => self.word(ip, "unknown"),
            LoggedAddress::Ip(address) => {
                self.name(ip);
                self.quote();
                write_ip(self.out, mask.shown(address.ip()));
                self.quote();
                if mask == MaskIp::Keep {
                    self.number(port, u64::from(address.port()));
                }
            }
        }
    }
}

pub(super) fn write_ip(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => {
            for (i, octet) in ip.octets().into_iter().enumerate() {
                if i > 0 {
                    out.push(b'.');
                }
                write_number(out, u64::from(octet));
            }
        }
        IpAddr::V6(ip) => write!(out, "{ip}").expect("a Vec takes everything"),
    }
}

pub(super) fn write_number(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written<S: LineSyntax>(text: &[u8], longest: usize) -> String {
        let mut out = Vec::new();
        let mut fields = LineWriter::<S>::begin(&mut out, &mut Timestamps::default(), 0);
        fields.bytes(key!("k"), text, longest);
        fields.end();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_long_value_is_truncated_visibly() {
        let time = "1970-01-01T00:00:00.000Z";
        for (text, json, logfmt) in [
            ("abc", r#""abc""#, "abc"),
            ("abcd", r#""abc…""#, r#""abc…""#),
            ("本本", r#""本…""#, r#""本…""#),
        ] {
            let line = written::<Json>(text.as_bytes(), 3);
            assert_eq!(line, format!("{{\"time\":\"{time}\",\"k\":{json}}}\n"));
            let line = written::<Logfmt>(text.as_bytes(), 3);
            assert_eq!(line, format!("time={time} k={logfmt}\n"));
        }
    }

    #[test]
    fn logfmt_quotes_values_with_spaces_quotes_and_equal_signs() {
        for (text, expected) in [
            ("/a/b?x", "/a/b?x"),
            ("", r#""""#),
            ("a b", r#""a b""#),
            ("a=b", r#""a=b""#),
            ("a\"b\\", r#""a\"b\\""#),
            ("x\nstatus=200", r#""x\nstatus=200""#),
            ("é", r#""é""#),
        ] {
            let line = written::<Logfmt>(text.as_bytes(), 100);
            assert_eq!(
                line,
                format!("time=1970-01-01T00:00:00.000Z k={expected}\n")
            );
        }
    }
}
