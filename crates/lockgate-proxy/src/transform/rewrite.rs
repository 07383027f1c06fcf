//! What is changed of bodies, and the values that each request brings.

use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use lockgate_content::change::{Changer, Changes, DocumentKind};
use lockgate_content::coding::{Coded, ContentDecoder};
use lockgate_http::date::Calendar;
use lockgate_http::fields::{Fields, Known};
use lockgate_http::media_type;
use lockgate_rules::compression::{became_another, is_fixed};
use lockgate_rules::{MediaRange, Template, RequestValues};

use super::body::Stage;

/// A route's changes of bodies.
pub struct Rewrite {
    /// What is changed.
    pub changes: Changes,
    /// The values in it, by their numbers.
    pub values: Vec<Value>,
    /// What is changed: others stay what they are.
    pub types: Vec<MediaRange>,
    /// The longest body that may come out, in bytes.
    pub max: u64,
    /// What these rules are told from others by, in entity tags.
    pub tag: String,
}

/// A value that is filled in.
pub enum Value {
    /// Of the request.
    Template(Template),
    /// The time in UTC, in whole seconds: `2026-11-22T16:47:27Z` (RFC 3339).
    Time,
    /// How many bodies have been changed by this route, this one with them.
    Counter(AtomicU64),
    /// What was read elsewhere lately.
    Fetched(Fetched),
}

/// A value that somebody keeps up to date.
pub type Fetched = Arc<ArcSwap<Box<[u8]>>>;

impl Rewrite {
    /// Whether a body of this type is changed.
    pub fn takes(&self, content_type: &[u8]) -> bool {
        self.types.iter().any(|range| range.matches(content_type))
    }

    /// The values for one request.
    pub fn fill(&self, request: &RequestValues<'_>) -> Vec<Vec<u8>> {
        self.values.iter().map(|value| value.of(request)).collect()
    }

    /// Has a request ask for what can be changed: the whole, and in a coding that can be undone.
    /// What by its name is of another type, a film, may be asked for in parts.
    pub fn ask(&self, path: &[u8], fields: &mut Fields) {
        if media_type::extension(path).is_none() || self.takes(media_type::of(path).as_bytes()) {
            fields.remove(Known::Range);
            fields.remove(Known::IfRange);
        }
        let known = |element: &&[u8]| {
            let name = element
                .split(|byte| *byte == b';')
                .next()
                .unwrap_or_default()
                .trim_ascii();
            name.eq_ignore_ascii_case(b"identity") || Coded::of(name).is_some()
        };
        let elements = || fields.tokens(Known::AcceptEncoding);
        if !elements().all(|element| known(&element)) {
            let kept = elements()
                .filter(known)
                .collect::<Vec<_>>()
                .join(&b", "[..]);
            fields.set(Known::AcceptEncoding, &kept);
        }
    }

    /// What changes an origin's answer as it comes, if something does; its fields are made to say
    /// so. Parts are not changed: what they are parts of is not known. Nor is what has a coding
    /// that we do not know, or is not to be transformed (RFC 9110 §7.7).
    pub fn begin(
        &self,
        request: &RequestValues<'_>,
        status: u16,
        fields: &mut Fields,
        stages: &mut Vec<Stage>,
    ) {
        let Some(content_type) = fields
            .named(b"content-type")
            .next()
            .filter(|of| self.takes(of))
        else {
            return;
        };
        let coding = match *fields.named(b"content-encoding").collect::<Vec<_>>() {
            [] => None,
            [coding] if coding.eq_ignore_ascii_case(b"identity") => None,
            [coding] => match Coded::of(coding) {
                Some(coded) => Some(coded),
                None => return,
            },
            _ => return,
        };
        if matches!(status, 204 | 206 | 304) || is_fixed(fields) {
            return;
        }
        let values = self.fill(request);
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let changer = Changer::new(
            &self.changes,
            DocumentKind::of(content_type),
            &values,
            self.max,
        );
        stages.extend(coding.map(|coded| Stage::Decode(ContentDecoder::new(coded, self.max))));
        stages.push(Stage::Change(changer));
        became_another(fields);
        // Of what is filled in anew each time there are no validators.
        let gone: [&[u8]; 2] = [b"etag", b"last-modified"];
        fields.retain(|field| {
            !gone
                .iter()
                .any(|name| field.name.eq_ignore_ascii_case(name))
        });
    }
}

impl Value {
    // Into a vector all can be written.
    fn of(&self, request: &RequestValues<'_>) -> Vec<u8> {
        let mut text = Vec::new();
        match self {
            Self::Template(template) => template.render(request, &mut text),
            Self::Time => {
                let now = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                let Calendar {
                    year,
                    month,
                    day,
                    hour,
                    minute,
                    second,
                    ..
                } = Calendar::of_unix(now.as_secs());
                let _ = write!(
                    text,
                    "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
                );
            }
            Self::Counter(counter) => {
                let _ = write!(text, "{}", counter.fetch_add(1, Ordering::Relaxed) + 1);
            }
            Self::Fetched(fetched) => text.extend_from_slice(&fetched.load()),
        }
        text
    }
}

impl fmt::Debug for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rewrite")
            .field("tag", &self.tag)
            .finish_non_exhaustive()
    }
}
