//! What clients may do with the answers of a route: keep them, take them encoded, show them to
//! other sites.

use std::cmp::Reverse;
use std::time::Duration;

use crate::cache_control;
use crate::check::{Checked, Named, Value, media_range};
use crate::codes::Code;
use crate::model::{
    Caching, Coding, Compression, Cors, HeaderChange, HeaderRule, Levels, MediaRange, Origins,
    Pattern,
};

use super::files::specificity;
use super::{Resolver, View};

/// RFC 8246: the name changes with the content.
const HASHED: &str = "1y immutable public";
/// The same behind a password: what shared caches keep is for everybody (RFC 9111 §3.5).
const HASHED_PRIVATE: &str = "1y immutable private";

impl Resolver<'_> {
    /// From the nearest table that says something: who may read is one decision.
    pub(super) fn cors(&mut self, view: &View<'_>) -> Option<Cors> {
        let written = view.written("cors")?;
        let mut long = view.section("cors");
        long.layers
            .truncate(usize::from(matches!(written.value, Value::Table(_))));
        let origins = match &written.value {
            Value::Bool(true) => Origins::Any,
            Value::Bool(false) => return None,
            Value::Table(_) => origins(&long.written("origins")?.value),
            short => origins(short),
        };
        let credentials = long.on("credentials");
        if let (Origins::Any, true, Some(at)) = (&origins, credentials, long.written("credentials"))
        {
            if !self.warned(Code::Excluded, &at.at) {
                let message = "`credentials` for every origin";
                let why = "any page could act as whoever is logged in";
                let cure = "name the origins, or remove it";
                self.report
                    .push_at(Code::Excluded, &at.at, message, why, cure);
            }
            return None;
        }
        let headers = match long.value("headers") {
            Value::Bool(true) => None,
            _ => Some(long.texts("headers")),
        };
        Some(Cors {
            origins,
            methods: long.texts("methods"),
            headers,
            expose: long.texts("expose"),
            credentials,
            max_age: Duration::from_secs(long.duration("max_age").as_secs()),
        })
    }

    /// What `headers.secure` of the nearest table that has it adds.
    pub(super) fn secure(&mut self, view: &View<'_>, over_tls: bool) -> Vec<HeaderRule> {
        let mut found = None;
        for layer in &view.layers {
            let Some(Checked {
                value: Value::Map(map),
                ..
            }) = layer.entries.get("headers")
            else {
                continue;
            };
            found = map.iter().find(|one| one.name == "secure");
            if found.is_some() {
                break;
            }
        }
        let keys = crate::keys::find(view.keys, "headers")
            .and_then(|key| key.kind.table())
            .unwrap_or(&[]);
        let keys = crate::keys::find(keys, "secure")
            .and_then(|key| key.kind.table())
            .unwrap_or(&[]);
        let long = match found.map(|one| &one.value.value) {
            Some(Value::Bool(true)) => View {
                keys,
                layers: Vec::new(),
            },
            Some(Value::Table(table)) => View {
                keys,
                layers: vec![table],
            },
            _ => return Vec::new(),
        };
        let vain = long
            .written("hsts")
            .filter(|hsts| !over_tls && !self.warned(Code::NoEffect, &hsts.at));
        if let Some(hsts) = vain {
            let why = "the site is plain HTTP, where browsers do not believe it";
            self.report.push_at(
                Code::NoEffect,
                &hsts.at,
                "`hsts` has no effect",
                why,
                "remove it",
            );
        }
        let mut fields = Vec::new();
        if let (Value::Duration(age), true) = (long.value("hsts"), over_tls) {
            let below = if long.on("subdomains") {
                "; includeSubDomains"
            } else {
                ""
            };
            fields.push((
                "strict-transport-security",
                format!("max-age={}{below}", age.as_secs()),
            ));
        }
        fields.extend(CAREFUL.map(|(name, value)| (name, value.to_owned())));
        let rule = |(name, value): (&str, String)| HeaderRule {
            name: name.to_owned(),
            change: HeaderChange::Default(value),
        };
        fields.into_iter().map(rule).collect()
    }
}

const CAREFUL: [(&str, &str); 4] = [
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "strict-origin-when-cross-origin"),
    ("x-frame-options", "SAMEORIGIN"),
    (
        "permissions-policy",
        "camera=(), geolocation=(), microphone=()",
    ),
];

fn origins(value: &Value) -> Origins {
    let each: Vec<&Value> = match value {
        Value::List(items) => items.iter().map(|item| &item.value).collect(),
        one => vec![one],
    };
    let mut known = Vec::new();
    for one in each {
        match one {
            Value::Origin(Some(origin)) if !known.contains(origin) => known.push(origin.clone()),
            Value::Origin(None) => return Origins::Any,
            _ => {}
        }
    }
    Origins::Only(known)
}

/// Merged by key over what holds for files anyway; what a nearer table says for all hides the
/// farther ones.
pub(super) fn caching(view: &View<'_>, files: bool, by_password: bool) -> Option<Caching> {
    let of_files = |text: &str| cache_control::policy(text).ok().filter(|_| files);
    let mut caching = Caching {
        hashed: of_files(if by_password { HASHED_PRIVATE } else { HASHED }),
        otherwise: of_files("no-cache"),
        ..Caching::default()
    };
    for layer in &view.layers {
        let Some(Checked { value, .. }) = layer.entries.get("cache") else {
            continue;
        };
        let whole = match value {
            Value::Map(map) => {
                map.iter().for_each(|one| add(&mut caching, one));
                map.iter()
                    .find(|one| one.name == "*")
                    .map(|one| &one.value.value)
            }
            Value::Invalid => None,
            short => Some(short),
        };
        if let Some(whole) = whole {
            (caching.hashed, caching.otherwise) = (None, text(whole));
            break;
        }
    }
    caching
        .paths
        .sort_by_key(|(pattern, _)| specificity(pattern));
    caching
        .types
        .sort_by_key(|(range, _)| Reverse(matches!(range, MediaRange::Exact(_))));
    (caching != Caching::default()).then_some(caching)
}

fn add(caching: &mut Caching, one: &Named) {
    let policy = text(&one.value.value);
    // The nearer table has been first.
    if let Ok(pattern) = Pattern::parse(&one.name) {
        if caching.paths.iter().all(|(told, _)| *told != pattern) {
            caching.paths.push((pattern, policy));
        }
        return;
    }
    let Some(range) = media_range(&one.name) else {
        return;
    };
    if caching.types.iter().all(|(told, _)| *told != range) {
        caching.types.push((range, policy));
    }
}

fn text(value: &Value) -> Option<String> {
    if let Value::Text(text) = value {
        Some(text.clone())
    } else {
        None
    }
}

/// Merged key by key; without a word only files are encoded.
pub(super) fn compression(view: &View<'_>, files: bool) -> Option<Compression> {
    match view.written("compress").map(|written| written.value) {
        Some(Value::Bool(false)) => return None,
        None if !files => return None,
        _ => {}
    }
    let long = view.section("compress");
    let mut codings = Vec::new();
    for item in long.list("codings") {
        let coding = match item.value {
            Value::Word("zstd") => Coding::Zstd,
            Value::Word("br") => Coding::Brotli,
            _ => Coding::Gzip,
        };
        if !codings.contains(&coding) {
            codings.push(coding);
        }
    }
    let range = |item: Checked| {
        if let Value::MediaRange(range) = item.value {
            Some(range)
        } else {
            None
        }
    };
    let levels = long.section("level");
    let level = |name: &str| {
        levels
            .count(name)
            .and_then(|level| u8::try_from(level).ok())
    };
    Some(Compression {
        codings,
        types: long.list("types").into_iter().filter_map(range).collect(),
        min: long.size("min"),
        levels: Levels {
            zstd: level("zstd"),
            brotli: level("br"),
            gzip: level("gzip"),
        },
    })
}
