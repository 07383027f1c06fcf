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
use lockgate_rules::compression::{drop_representation_fields, is_fixed};
use lockgate_rules::{MediaRange, RequestValues, Template};

use super::body::BodyStage;

/// A route's changes of bodies.
pub struct Rewrite {
    /// The changes.
    pub changes: Changes,
    /// The values in it, by their numbers.
    pub values: Vec<RewriteValue>,
    /// The media types of bodies that are changed.
    pub types: Vec<MediaRange>,
    /// The longest body that may come out, in bytes.
    pub max: u64,
    /// The mark of these rules in entity tags.
    pub tag: String,
}

/// A value that is filled in.
pub enum RewriteValue {
    /// A template, filled in with the request's values.
    Template(Template),
    /// The time in UTC, in whole seconds: `2026-11-22T16:47:27Z` (RFC 3339).
    Time,
    /// The number of bodies that this route has changed, with the present one.
    Counter(AtomicU64),
    /// The contents of a URL or file, fetched lately.
    Fetched(FetchedValue),
}

/// The contents of a URL or file, kept up to date in the background.
pub type FetchedValue = Arc<ArcSwap<Box<[u8]>>>;

impl Rewrite {
    /// Whether a body of this type is changed.
    pub fn takes(&self, content_type: &[u8]) -> bool {
        self.types.iter().any(|range| range.matches(content_type))
    }

    /// Whether both have their fetched values from the same places.
    pub fn has_values_of(&self, other: &Self) -> bool {
        let fetched = |rewrite: &Self| -> Vec<_> {
            let values = rewrite.values.iter();
            values
                .filter_map(|value| match value {
                    RewriteValue::Fetched(value) => Some(Arc::as_ptr(value)),
                    _ => None,
                })
                .collect()
        };
        fetched(self) == fetched(other)
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

    /// Adds the stages that change an origin's response as it comes, if it is to be changed; its
    /// fields are changed accordingly. Parts are not changed: the whole is not known. Nor is a body
    /// with a coding that we do not know, or one that is not to be transformed (RFC 9110 §7.7).
    pub fn begin(
        &self,
        request: &RequestValues<'_>,
        status: u16,
        fields: &mut Fields,
        stages: &mut Vec<BodyStage>,
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
        stages.extend(coding.map(|coded| BodyStage::Decode(ContentDecoder::new(coded, self.max))));
        stages.push(BodyStage::Change(changer));
        drop_representation_fields(fields);
        // Content that is filled in for each request has no validators.
        let gone: [&[u8]; 2] = [b"etag", b"last-modified"];
        fields.retain(|field| {
            !gone
                .iter()
                .any(|name| field.name.eq_ignore_ascii_case(name))
        });
    }
}

impl RewriteValue {
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
