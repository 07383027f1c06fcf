//! In which form a client wants to read an error, by its `Accept` (RFC 9110 §12.5.1).

/// The form of an error's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BodyFormat {
    /// Plain text: for people at a terminal, and clients without a preference.
    #[default]
    Text,
    /// A page.
    Html,
    /// A problem (RFC 9457).
    Json,
}

impl BodyFormat {
    /// The format that the lines of `Accept` prefer. A page or a problem is for clients that name
    /// its type: `*/*` is no preference.
    pub fn of_accept<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut best = (0, Self::Text);
        for range in lines
            .into_iter()
            .flat_map(|line| line.split(|&byte| byte == b','))
        {
            let mut parts = range.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            let Some(form) = parts.next().and_then(Self::of_type) else {
                continue;
            };
            let weight = parts.find_map(weight).unwrap_or(1_000);
            // Of equals the first: the order that a client without weights means.
            if weight > best.0 {
                best = (weight, form);
            }
        }
        best.1
    }

    fn of_type(media_type: &[u8]) -> Option<Self> {
        let is = |name: &str| media_type.eq_ignore_ascii_case(name.as_bytes());
        let of = |names: &[&str]| names.iter().any(|name| is(name));
        if of(&["text/html", "application/xhtml+xml"]) {
            Some(Self::Html)
        } else if of(&["application/json", "application/problem+json"]) {
            Some(Self::Json)
        } else {
            is("text/plain").then_some(Self::Text)
        }
    }

    /// For `Content-Type`.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; charset=utf-8",
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/problem+json",
        }
    }
}

/// `q=0.5` in thousandths (RFC 9110 §12.4.2); what is malformed counts as not wanted.
fn weight(parameter: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', value @ ..] = parameter else {
        return None;
    };
    let (whole, digits) = match value {
        [whole @ (b'0' | b'1')] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', digits @ ..] if digits.len() <= 3 => (*whole, digits),
        _ => return Some(0),
    };
    let mut thousandths = u16::from(whole - b'0') * 1_000;
    for (digit, place) in digits.iter().zip([100, 10, 1]) {
        if !digit.is_ascii_digit() {
            return Some(0);
        }
        thousandths += u16::from(digit - b'0') * place;
    }
    Some(thousandths.min(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_selects_html_json_or_text_error_pages() {
        for (accept, expected) in [
            (&[][..], BodyFormat::Text),
            (&[""], BodyFormat::Text),
            (&["*/*"], BodyFormat::Text),
            (&["text/*"], BodyFormat::Text),
            (&["text/html"], BodyFormat::Html),
            (&["TEXT/HTML; charset=utf-8"], BodyFormat::Html),
            // as browsers send it
            (
                &["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"],
                BodyFormat::Html,
            ),
            (&["application/json, text/plain, */*"], BodyFormat::Json),
            (&["application/problem+json"], BodyFormat::Json),
            (&["application/json;q=0.5, text/html"], BodyFormat::Html),
            (
                &["text/html;q=0.5", "application/json ; q=0.501"],
                BodyFormat::Json,
            ),
            (&["text/html;q=0"], BodyFormat::Text),
            (&["text/html;q=0, application/json"], BodyFormat::Json),
            (&["text/html;q=7"], BodyFormat::Text),
            (&["text/html;q="], BodyFormat::Text),
            (&["text/html;q=0.1x"], BodyFormat::Text),
            (&["text/plain, text/html"], BodyFormat::Text),
            (&[";,;;,text/html;;"], BodyFormat::Html),
            (&["text/html\u{7f}"], BodyFormat::Text),
        ] {
            let lines = accept.iter().map(|line| line.as_bytes());
            assert_eq!(BodyFormat::of_accept(lines), expected, "{accept:?}");
        }
    }
}
