//! A scanner of elements in XML 1.0: names, text, ends.
//!
//! It is for the few elements that a router's answers are read for. Prefixes of names, attributes,
//! comments and processing instructions are passed over and not checked; of entities it knows the
//! five that XML defines and numbers. A declaration (`<!DOCTYPE`) is refused, since it could define
//! more. Nothing is read twice and nothing grows: neither time nor memory exceeds a multiple of the
//! text.

use std::borrow::Cow;

/// A piece of an XML text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XmlEvent<'a> {
    /// An element begins: its name without a prefix.
    Open(&'a str),
    /// Text in the innermost element, with entities resolved. An element may have several.
    Text(Cow<'a, str>),
    /// The innermost element ends.
    Close,
}

/// Why a text is not read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    /// It ends before its first element does.
    #[error("the XML is cut off")]
    CutOff,
    /// An element has no name.
    #[error("the XML has an element without a name")]
    NoName,
    /// An element ends that is not the innermost one.
    #[error("the XML has an element that ends inside of another")]
    Unbalanced,
    /// It declares a document type, which could define entities.
    #[error("the XML declares a document type")]
    Declaration,
    /// More than [`DEEPEST`] elements are in each other.
    #[error("more than {DEEPEST} elements of the XML are in each other")]
    TooDeep,
}

/// So many elements may be in each other. A description of a gateway has nine.
pub const DEEPEST: usize = 32;

/// The events of a text, up to the end of its first element; an error is the last one.
#[derive(Debug)]
pub struct XmlScanner<'a> {
    rest: &'a str,
    /// The full names of the elements that have not ended.
    open: Vec<&'a str>,
    /// Whether the innermost element has no content: `<a/>`.
    is_empty_element: bool,
    /// Whether there was an element.
    has_begun: bool,
    has_ended: bool,
}

impl<'a> XmlScanner<'a> {
    /// Begins to scan a text.
    pub fn new(text: &'a str) -> Self {
        Self {
            rest: text,
            open: Vec::new(),
            is_empty_element: false,
            has_begun: false,
            has_ended: false,
        }
    }

    fn step(&mut self) -> Result<Option<XmlEvent<'a>>, XmlError> {
        if self.is_empty_element {
            self.is_empty_element = false;
            self.open.pop();
            return Ok(Some(XmlEvent::Close));
        }
        loop {
            if self.has_begun && self.open.is_empty() {
                return Ok(None);
            }
            let at = self.rest.find('<').ok_or(XmlError::CutOff)?;
            let (text, markup) = self.rest.split_at(at);
            self.rest = markup;
            if !text.is_empty() && self.has_begun {
                return Ok(Some(XmlEvent::Text(resolve_entities(text))));
            }
            if let Some(comment) = markup.strip_prefix("<!--") {
                self.rest = split(comment, "-->")?.1;
            } else if let Some(instruction) = markup.strip_prefix("<?") {
                self.rest = split(instruction, "?>")?.1;
            } else if let Some(data) = markup.strip_prefix("<![CDATA[") {
                let (data, rest) = split(data, "]]>")?;
                self.rest = rest;
                if self.has_begun {
                    return Ok(Some(XmlEvent::Text(Cow::Borrowed(data))));
                }
            } else if markup.starts_with("<!") {
                return Err(XmlError::Declaration);
            } else if let Some(tag) = markup.strip_prefix("</") {
                let (name, rest) = split(tag, ">")?;
                self.rest = rest;
                return match self.open.pop() {
                    Some(open) if open == name.trim_ascii_end() => Ok(Some(XmlEvent::Close)),
                    _ => Err(XmlError::Unbalanced),
                };
            } else {
                return self
                    .open_element(markup.get(1..).unwrap_or_default())
                    .map(Some);
            }
        }
    }

    /// Reads what follows the `<` of an element.
    fn open_element(&mut self, tag: &'a str) -> Result<XmlEvent<'a>, XmlError> {
        let end = tag_end(tag).ok_or(XmlError::CutOff)?;
        let (tag, rest) = tag.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        self.is_empty_element = tag.ends_with('/');
        let name_end = tag.find(|c: char| c.is_ascii_whitespace() || c == '/');
        let name = tag.get(..name_end.unwrap_or(tag.len())).unwrap_or_default();
        let local = name.rsplit(':').next().unwrap_or_default();
        if local.is_empty() {
            return Err(XmlError::NoName);
        }
        if self.open.len() == DEEPEST {
            return Err(XmlError::TooDeep);
        }
        self.has_begun = true;
        self.open.push(name);
        Ok(XmlEvent::Open(local))
    }
}

impl<'a> Iterator for XmlScanner<'a> {
    type Item = Result<XmlEvent<'a>, XmlError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let event = self.step();
        self.has_ended = !matches!(event, Ok(Some(_)));
        event.transpose()
    }
}

fn split<'a>(text: &'a str, end: &str) -> Result<(&'a str, &'a str), XmlError> {
    text.split_once(end).ok_or(XmlError::CutOff)
}

/// The index of the `>` that ends a tag: values of attributes may have one too.
fn tag_end(tag: &str) -> Option<usize> {
    let mut quote = None;
    tag.bytes().position(|byte| {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
        quote.is_none() && byte == b'>'
    })
}

/// The longest entity that is known, without `&` and `;`: the number of the last character.
const LONGEST_ENTITY: usize = "#x0010FFFF".len();

/// Text with its entities resolved (XML 1.0 §4.1, §4.6); those that are not known stay as they are.
fn resolve_entities(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut resolved = String::with_capacity(text.len());
    let mut pieces = text.split('&');
    resolved.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let known = piece.split_once(';').and_then(|(entity, rest)| {
            let known = entity.len() <= LONGEST_ENTITY;
            known.then(|| character(entity)).flatten().zip(Some(rest))
        });
        match known {
            Some((character, rest)) => {
                resolved.push(character);
                resolved.push_str(rest);
            }
            None => {
                resolved.push('&');
                resolved.push_str(piece);
            }
        }
    }
    Cow::Owned(resolved)
}

fn character(entity: &str) -> Option<char> {
    let number = match entity {
        "amp" => return Some('&'),
        "lt" => return Some('<'),
        "gt" => return Some('>'),
        "quot" => return Some('"'),
        "apos" => return Some('\''),
        _ => entity.strip_prefix('#')?,
    };
    let (digits, radix) = match number.strip_prefix('x') {
        Some(digits) => (digits, 16),
        None => (number, 10),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    char::from_u32(u32::from_str_radix(digits, radix).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a text: names, `"text"`, `/`, and an error.
    fn events(text: &str) -> String {
        let shown = XmlScanner::new(text).map(|event| match event {
            Ok(XmlEvent::Open(name)) => name.to_owned(),
            Ok(XmlEvent::Text(text)) => format!("\"{text}\""),
            Ok(XmlEvent::Close) => "/".to_owned(),
            Err(error) => format!("{error:?}"),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn elements_and_text_are_told_in_their_order() {
        for (text, expected) in [
            // XML 1.0 §2.1, §3.1
            ("<a>b</a>", "a \"b\" /"),
            ("<a><b/>c<d e='f'/></a>", "a b / \"c\" d / /"),
            ("<a ></a >", "a /"),
            ("\u{feff}<?xml version=\"1.0\"?>\r\n<a>\n</a>", "a \"\n\" /"),
            // Attributes with any content.
            ("<a b=\"/>\" c='<\"'>d</a>", "a \"d\" /"),
            ("<a b=c/>", "a /"),
            // Namespaces in XML 1.0 §4: only the local name.
            ("<s:a xmlns:s=\"u\">b</s:a>", "a \"b\" /"),
            // §2.5, §2.6, §2.7
            (
                "<!-- <x> --><a>b<!-- > --><?c <d>?>e</a>",
                "a \"b\" \"e\" /",
            ),
            ("<a><![CDATA[<b>&amp;]]></a>", "a \"<b>&amp;\" /"),
            // What follows the first element is not read.
            ("<a/><b", "a /"),
            ("<a></a>\0\0</x>", "a /"),
            ("<\u{e9}>\u{fffd}</\u{e9}>", "\u{e9} \"\u{fffd}\" /"),
        ] {
            assert_eq!(events(text), expected, "{text}");
        }
    }

    #[test]
    fn entities_are_the_five_and_numbers() {
        for (text, expected) in [
            // XML 1.0 §4.6
            ("&amp;&lt;&gt;&quot;&apos;", "&<>\"'"),
            // §4.1
            ("&#65;&#x42;&#x0010FFFF;", "AB\u{10ffff}"),
            ("&amp;amp;", "&amp;"),
            ("a & b; &c; &;", "a & b; &c; &;"),
            (
                "&#xD800; &#x110000; &#; &#x; &#-1; &#+1; &#1a;",
                "&#xD800; &#x110000; &#; &#x; &#-1; &#+1; &#1a;",
            ),
            ("&amp", "&amp"),
        ] {
            assert_eq!(resolve_entities(text), expected, "{text}");
        }
    }

    #[test]
    fn texts_that_are_not_well_formed_are_refused() {
        for (text, expected) in [
            ("", "CutOff"),
            ("a", "CutOff"),
            ("<!-- a --", "CutOff"),
            ("<?a", "CutOff"),
            ("<a", "CutOff"),
            ("<a b='>", "CutOff"),
            ("<a>", "a CutOff"),
            ("<a>b", "a CutOff"),
            ("<a></a", "a CutOff"),
            ("<a><![CDATA[]]", "a CutOff"),
            ("<>", "NoName"),
            ("< a>", "NoName"),
            ("<a:>", "NoName"),
            ("</a>", "Unbalanced"),
            ("<a></b>", "a Unbalanced"),
            ("<s:a></a>", "a Unbalanced"),
        ] {
            assert_eq!(events(text), expected, "{text}");
        }
    }

    #[test]
    fn document_types_are_refused_before_their_entities() {
        let text = "<!DOCTYPE a [<!ENTITY b \"bb\"><!ENTITY c \"&b;&b;\">]><a>&c;</a>";
        assert_eq!(events(text), "Declaration");
        assert_eq!(events("<a><!ELEMENT b ANY></a>"), "a Declaration");
    }

    #[test]
    fn depth_is_limited() {
        let nested = |depth| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        assert!(!events(&nested(DEEPEST)).contains("TooDeep"));
        assert!(events(&nested(DEEPEST + 1)).ends_with(" TooDeep"));
        // Beside each other there may be any number.
        let wide = format!("<a>{}</a>", "<b/>".repeat(1000));
        assert_eq!(XmlScanner::new(&wide).filter(Result::is_err).count(), 0);
    }
}
