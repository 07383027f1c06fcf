//! A strict parser of Dictionaries, structured fields (RFC 9651 §4.2). Keeps only the types of
//! items that priorities use.

/// The value of a member; its parameters are parsed and dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberValue {
    Integer(i64),
    Boolean(bool),
    /// Of any other type, or an inner list.
    Other,
}

/// Calls `each` for every member in order; `None` if the text is no dictionary, which invalidates
/// all members.
pub(super) fn parse(text: &[u8], mut each: impl FnMut(&[u8], MemberValue)) -> Option<()> {
    // RFC 9651 §4.2 step 2; trailing whitespace is parsed with the last member.
    let mut text = DictionaryReader(text);
    text.skip(|byte| byte == b' ');
    if text.0.is_empty() {
        return Some(());
    }
    loop {
        let key = text.key()?;
        let item = if text.takes(b'=') {
            text.member()?
        } else {
            MemberValue::Boolean(true)
        };
        text.parameters()?;
        each(key, item);
        let is_space = |byte| matches!(byte, b' ' | b'\t');
        text.skip(is_space);
        // A trailing comma is an error.
        match text.next() {
            None => return Some(()),
            Some(b',') => text.skip(is_space),
            Some(_) => return None,
        };
    }
}

/// The part of the text that is not parsed yet.
struct DictionaryReader<'a>(&'a [u8]);

impl<'a> DictionaryReader<'a> {
    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn takes(&mut self, byte: u8) -> bool {
        let takes = self.0.first() == Some(&byte);
        if takes {
            self.0 = &self.0[1..];
        }
        takes
    }

    /// Takes the bytes at the front that satisfy `is_such`.
    fn skip(&mut self, is_such: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self
            .0
            .iter()
            .position(|&byte| !is_such(byte))
            .unwrap_or(self.0.len());
        let (front, rest) = self.0.split_at(end);
        self.0 = rest;
        front
    }

    /// RFC 9651 §4.2.3.3.
    fn key(&mut self) -> Option<&'a [u8]> {
        if !matches!(self.0.first()?, b'a'..=b'z' | b'*') {
            return None;
        }
        Some(
            self.skip(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*')),
        )
    }

    /// RFC 9651 §4.2.1.1, without the parameters.
    fn member(&mut self) -> Option<MemberValue> {
        if self.takes(b'(') {
            self.inner_list()
        } else {
            self.bare_item()
        }
    }

    /// RFC 9651 §4.2.1.2, behind its parenthesis.
    fn inner_list(&mut self) -> Option<MemberValue> {
        loop {
            self.skip(|byte| byte == b' ');
            if self.takes(b')') {
                return Some(MemberValue::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.0.first()?, b' ' | b')') {
                return None;
            }
        }
    }

    /// RFC 9651 §4.2.3.2.
    fn parameters(&mut self) -> Option<()> {
        while self.takes(b';') {
            self.skip(|byte| byte == b' ');
            self.key()?;
            if self.takes(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    /// RFC 9651 §4.2.3.1.
    fn bare_item(&mut self) -> Option<MemberValue> {
        match self.0.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'a'..=b'z' | b'A'..=b'Z' | b'*' => {
                self.skip(|byte| {
                    crate::h1::parse::is_token(&[byte]) || matches!(byte, b':' | b'/')
                });
                Some(MemberValue::Other)
            }
            _ => match self.next()? {
                b'?' => match self.next()? {
                    b'0' => Some(MemberValue::Boolean(false)),
                    b'1' => Some(MemberValue::Boolean(true)),
                    _ => None,
                },
                b'"' => self.string(),
                b':' => self.bytes(),
                b'@' => {
                    matches!(self.number()?, MemberValue::Integer(_)).then_some(MemberValue::Other)
                }
                b'%' => self.display_string(),
                _ => None,
            },
        }
    }

    /// RFC 9651 §4.2.4: up to 15 digits, or up to 12 and 3 behind a point.
    fn number(&mut self) -> Option<MemberValue> {
        let negative = self.takes(b'-');
        let digits = self.skip(|byte| byte.is_ascii_digit());
        if self.takes(b'.') {
            let fraction = self.skip(|byte| byte.is_ascii_digit());
            let fits = (1..=12).contains(&digits.len()) && (1..=3).contains(&fraction.len());
            return fits.then_some(MemberValue::Other);
        }
        if !(1..=15).contains(&digits.len()) {
            return None;
        }
        let number = digits
            .iter()
            .fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
        Some(MemberValue::Integer(if negative {
            -number
        } else {
            number
        }))
    }

    /// RFC 9651 §4.2.5, behind its quote.
    fn string(&mut self) -> Option<MemberValue> {
        loop {
            match self.next()? {
                b'"' => return Some(MemberValue::Other),
                b'\\' if matches!(self.next()?, b'"' | b'\\') => {}
                b'\\' => return None,
                b' '..=b'~' => {}
                _ => return None,
            }
        }
    }

    /// RFC 9651 §4.2.7, behind its colon: the base64 is not decoded.
    fn bytes(&mut self) -> Option<MemberValue> {
        self.skip(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
        self.takes(b':').then_some(MemberValue::Other)
    }

    /// RFC 9651 §4.2.10, behind its percent sign.
    fn display_string(&mut self) -> Option<MemberValue> {
        if !self.takes(b'"') {
            return None;
        }
        let mut decoded = Vec::new();
        loop {
            match self.next()? {
                b'"' => {
                    return std::str::from_utf8(&decoded)
                        .is_ok()
                        .then_some(MemberValue::Other);
                }
                b'%' => decoded.push(self.hex()? << 4 | self.hex()?),
                byte @ b' '..=b'~' => decoded.push(byte),
                _ => return None,
            }
        }
    }

    /// Lower case only.
    fn hex(&mut self) -> Option<u8> {
        match self.next()? {
            digit @ b'0'..=b'9' => Some(digit - b'0'),
            digit @ b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Vec<(String, MemberValue)>> {
        let mut members = Vec::new();
        parse(text.as_bytes(), |key, item| {
            members.push((key.escape_ascii().to_string(), item))
        })?;
        Some(members)
    }

    #[test]
    fn dictionary_members_have_structured_field_types() {
        for (text, item) in [
            ("a=1", MemberValue::Integer(1)),
            ("a=-0", MemberValue::Integer(0)),
            (
                "a=-999999999999999",
                MemberValue::Integer(-999_999_999_999_999),
            ),
            ("a=007", MemberValue::Integer(7)),
            ("a", MemberValue::Boolean(true)),
            ("a;b", MemberValue::Boolean(true)),
            ("a=?0;b=?1", MemberValue::Boolean(false)),
            ("a=1.5", MemberValue::Other),
            ("a=-123456789012.123", MemberValue::Other),
            ("a=b", MemberValue::Other),
            ("a=*b/c:d!#", MemberValue::Other),
            (r#"a="b\"\\ ~""#, MemberValue::Other),
            ("a=:aGk=:", MemberValue::Other),
            ("a=::", MemberValue::Other),
            ("a=@-1659578233", MemberValue::Other),
            (r#"a=%"b%c3%a4 %22""#, MemberValue::Other),
            ("a=()", MemberValue::Other),
            (r#"a=( 1  "b";c;d=2 :aa==: );e"#, MemberValue::Other),
        ] {
            assert_eq!(read(text), Some(vec![("a".to_owned(), item)]), "{text}");
        }
    }

    #[test]
    fn a_dictionary_may_have_many_members_or_none() {
        assert_eq!(read(""), Some(vec![]));
        assert_eq!(read("   "), Some(vec![]));
        let keys = read(" a \t,\t b=1 , *.-_9z;x;  y=2,c  ").unwrap();
        assert_eq!(
            keys.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(),
            ["a", "b", "*.-_9z", "c"]
        );
    }

    /// By the section that requires it.
    #[test]
    fn malformed_dictionaries_are_refused() {
        for text in [
            // §4.2: non-ASCII, and other whitespace.
            "a=\u{e4}",
            "\ta",
            "a\n",
            // §4.2.2: trailing commas, and text between members.
            "a,",
            "a, ",
            ",a",
            "a,,b",
            "a b",
            "a=1b",
            // §4.2.3.3.
            "A",
            "1",
            "-a",
            "=1",
            "a B",
            // §4.2.1.1: nothing behind the sign, or a space.
            "a=",
            "a= 1",
            "a =1",
            // §4.2.1.2.
            "a=(",
            "a=(1",
            "a=(1,2)",
            "a=(1\t2)",
            "a=(1\"b\")",
            "a=((1))",
            "a=1)",
            // §4.2.3.2.
            "a;",
            "a;B",
            "a;b=",
            "a ;b",
            "a;b=()",
            // §4.2.4.
            "a=-",
            "a=--1",
            "a=+1",
            "a=1000000000000000",
            "a=1.",
            "a=.5",
            "a=1.1234",
            "a=1234567890123.1",
            "a=1.1.1",
            // §4.2.5.
            "a=\"",
            "a=\"b",
            "a=\"\\",
            "a=\"\\n\"",
            "a=\"\u{7f}\"",
            "a='b'",
            // §4.2.7.
            "a=:",
            "a=:aGk",
            "a=:a-_:",
            // §4.2.8.
            "a=?",
            "a=?2",
            "a=?true",
            // §4.2.9.
            "a=@",
            "a=@1.5",
            "a=@b",
            // §4.2.10.
            "a=%",
            "a=%b",
            "a=%\"b",
            "a=%\"%\"",
            "a=%\"%C3%A4\"",
            "a=%\"%c3\"",
            "a=%\"\u{e4}\"",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
