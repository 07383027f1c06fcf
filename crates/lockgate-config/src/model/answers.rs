//! What clients may do with answers: keep them, take them encoded, show them to other sites.

use std::time::Duration;

use crate::pattern::Pattern;

/// How long answers may be kept. The first of `paths` that matches holds, else the first of
/// `types`, else `hashed` for a file with a hash of its content in its name, else `otherwise`.
///
/// Each is the value of Cache-Control; `None` is what the application says, or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caching {
    /// By the path of the request, without parameters, the more specific before the less.
    pub paths: Vec<(Pattern, Option<String>)>,
    /// By media type, the more specific before the less.
    pub types: Vec<(MediaRange, Option<String>)>,
    /// Of files with a hash in their name; only where files are served.
    pub hashed: Option<String>,
    /// The policy of every other answer.
    pub otherwise: Option<String>,
}

/// One media type, or all with the same beginning. In lower case, without parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaRange {
    /// One media type: `text/css`.
    Exact(String),
    /// What stands before the slash: `text` of `text/*`.
    Under(String),
}

impl MediaRange {
    /// Whether the range has the media type of a Content-Type. Parameters do not count.
    pub fn matches(&self, media_type: &str) -> bool {
        let essence = media_type.split(';').next().unwrap_or_default().trim_end();
        match self {
            Self::Exact(exact) => essence.eq_ignore_ascii_case(exact),
            Self::Under(over) => essence
                .split_once('/')
                .is_some_and(|(first, _)| first.eq_ignore_ascii_case(over)),
        }
    }
}

/// How answers are encoded for clients that take it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compression {
    /// Those that are offered, best first, each once; never empty.
    pub codings: Vec<Coding>,
    /// What is encoded; never empty.
    pub types: Vec<MediaRange>,
    /// In bytes; what is known to be shorter is sent as it is.
    pub min: u64,
    /// What was said about levels.
    pub levels: Levels,
}

/// A coding of content (RFC 9110 §8.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// `zstd`, as RFC 8878 defines it.
    Zstd,
    /// `br`, as RFC 7932 defines it.
    Brotli,
    /// `gzip`, as RFC 1952 defines it.
    Gzip,
}

/// Levels of codings; `None` leaves it to what is encoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Levels {
    /// The level of `zstd`, from 1 to 19.
    pub zstd: Option<u8>,
    /// The level of `br`, from 0 to 11.
    pub brotli: Option<u8>,
    /// The level of `gzip`, from 1 to 9.
    pub gzip: Option<u8>,
}

/// The pages of other sites that may read answers in a browser (Fetch, "CORS protocol").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// The origins of the pages that may read answers.
    pub origins: Origins,
    /// The methods that they may use, each once; never empty.
    pub methods: Vec<String>,
    /// The fields that they may send; `None` is those that they ask for.
    pub headers: Option<Vec<String>>,
    /// The fields that they may read besides those that they always may.
    pub expose: Vec<String>,
    /// Whether requests carry cookies; never with `Origins::Any`.
    pub credentials: bool,
    /// How long what was asked may be remembered, in whole seconds.
    pub max_age: Duration,
}

/// The origins that a CORS policy allows (RFC 6454).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origins {
    /// Every origin, also that of sandboxed pages.
    Any,
    /// A list of origins, never empty.
    Only(Vec<Origin>),
}

/// An origin, as browsers write it: in lower case, without the port that its scheme has anyway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// One origin, such as `https://app.example.com:8443`.
    Exact(String),
    /// Any subdomain: what begins with the one and ends with the other, with a name between them.
    /// The one ends in `://`, the other begins with a dot.
    Under(String, String),
}
