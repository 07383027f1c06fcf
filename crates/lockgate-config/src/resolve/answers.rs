//! Settings of responses: caching, compression, CORS, security headers.

use std::cmp::Reverse;

use lockgate_rules::{
    Caching, Coding, Compression, Cors, HeaderOp, HeaderRule, MediaRange, Origin, Origins, Pattern,
    Template,
};

use crate::cache_control;
use crate::codes::Code;
use crate::keys::answers::{self, CacheRules, compress, cors, level, secure};
use crate::keys::route;
use crate::table::CheckedEntry;
use crate::values::{Items, MapEntry, ShortOrLong, Switch, media_range};

use super::{Resolver, View};

/// RFC 8246: the name changes with the content.
const HASHED: &str = "1y immutable public";
/// The same for routes with a password: a shared cache must not keep their responses (RFC 9111
/// §3.5).
const HASHED_PRIVATE: &str = "1y immutable private";

impl Resolver<'_> {
    /// The CORS policy of the nearest table that has one: it is one decision, never merged.
    pub(super) fn cors(&mut self, view: &View<'_>) -> Option<Cors> {
        let written = view.written(&answers::CORS)?;
        let (origins, long) = match written.value {
            ShortOrLong::Short(Switch::Flag(true)) => (Origins::Any, View::default()),
            ShortOrLong::Short(Switch::Flag(false)) => return None,
            ShortOrLong::Short(Switch::Value(named)) => (origins(named), View::default()),
            ShortOrLong::Long(table) => {
                let long = View::of(table);
                (origins(long.written(&cors::ORIGINS)?.value), long)
            }
        };
        let credentials = long.get(&cors::CREDENTIALS);
        if let (Origins::Any, true, Some(at)) =
            (&origins, credentials, long.written(&cors::CREDENTIALS))
        {
            let message = "`credentials` for every origin";
            let why = "any page could act as the logged-in user";
            let cure = "name the origins, or remove it";
            self.push_once(Code::Excluded, at.at, message, why, cure);
            return None;
        }
        let headers = match long.get(&cors::HEADERS) {
            Switch::Flag(true) => None,
            Switch::Flag(false) => Some(String::new()),
            Switch::Value(names) => {
                let names: Vec<_> = names.values().cloned().collect();
                Some(names.join(", "))
            }
        };
        Some(Cors {
            origins,
            methods: long.list(&cors::METHODS).join(", "),
            headers,
            expose: long.list(&cors::EXPOSE).join(", "),
            credentials,
            max_age: long.get(&cors::MAX_AGE).as_secs(),
        })
    }

    /// The fields that `headers.secure` of the nearest table adds.
    pub(super) fn secure(&mut self, view: &View<'_>, over_tls: bool) -> Vec<HeaderRule> {
        let maps = view
            .layers
            .iter()
            .filter_map(|layer| layer.value(&route::HEADERS));
        let found = maps
            .filter_map(|map| map.beside.entry(&answers::SECURE))
            .next();
        let long = match found.and_then(CheckedEntry::written::<ShortOrLong<bool>>) {
            Some(written) => match written.value {
                ShortOrLong::Short(true) => View::default(),
                ShortOrLong::Short(false) => return Vec::new(),
                ShortOrLong::Long(table) => View::of(table),
            },
            None => return Vec::new(),
        };
        if let (Some(hsts), false) = (long.written(&secure::HSTS), over_tls) {
            let why = "the site is plain HTTP, where browsers ignore it";
            self.no_effect("hsts", hsts.at, why, "remove it");
        }
        let mut fields = Vec::new();
        if let (Some(age), true) = (long.get(&secure::HSTS), over_tls) {
            let below = if long.get(&secure::SUBDOMAINS) {
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
            name: name.as_bytes().to_vec(),
            op: HeaderOp::Default(Template::text(&value, &Pattern::everything())),
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

fn origins(named: &Items<Option<Origin>>) -> Origins {
    let mut known = Vec::new();
    for origin in named.values() {
        match origin {
            Some(origin) if !known.contains(origin) => known.push(origin.clone()),
            Some(_) => {}
            None => return Origins::Any,
        }
    }
    Origins::Only(known)
}

/// Merged by key over what holds for files anyway; what a nearer table says for all hides the
/// farther ones.
pub(super) fn caching(view: &View<'_>, files: bool, by_password: bool) -> Option<Caching> {
    let of_files = |text: &str| files.then(|| cache_control::policy(text).ok()).flatten();
    let mut caching = Caching {
        hashed: of_files(if by_password { HASHED_PRIVATE } else { HASHED }),
        otherwise: of_files("no-cache"),
        ..Caching::default()
    };
    for layer in &view.layers {
        let whole = match layer.value(&answers::CACHE) {
            Some(CacheRules::Each(map)) => {
                map.entries.iter().for_each(|one| add(&mut caching, one));
                let every = map.entries.iter().find(|one| one.name == "*");
                every.map(policy)
            }
            Some(CacheRules::Every(policy)) => Some(policy.clone()),
            None => None,
        };
        if let Some(whole) = whole {
            (caching.hashed, caching.otherwise) = (None, whole);
            break;
        }
    }
    caching
        .paths
        .sort_by_key(|(pattern, _)| pattern.specificity());
    caching
        .types
        .sort_by_key(|(range, _)| Reverse(matches!(range, MediaRange::Exact(_))));
    (caching != Caching::default()).then_some(caching)
}

/// The policy of an entry; a mistake adds none.
fn policy(one: &MapEntry<Option<String>>) -> Option<String> {
    one.value.clone().flatten()
}

fn add(caching: &mut Caching, one: &MapEntry<Option<String>>) {
    let policy = policy(one);
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

/// Merged key by key; without a word only files are encoded.
pub(super) fn compression(view: &View<'_>, files: bool) -> Option<Compression> {
    match view
        .written(&answers::COMPRESS)
        .map(|written| written.value)
    {
        Some(ShortOrLong::Short(false)) => return None,
        None if !files => return None,
        _ => {}
    }
    let long = view.section(&answers::COMPRESS);
    let levels = long.section(&compress::LEVEL);
    let mut codings: Vec<(Coding, Option<u8>)> = Vec::new();
    for coding in long.list(&compress::CODINGS) {
        let level = match coding {
            Coding::Zstd => levels.get(&level::ZSTD),
            Coding::Brotli => levels.get(&level::BR),
            Coding::Gzip => levels.get(&level::GZIP),
        };
        if codings.iter().all(|(known, _)| *known != coding) {
            codings.push((coding, level));
        }
    }
    Some(Compression {
        codings,
        types: long.list(&compress::TYPES),
        min: long.get(&compress::MIN),
    })
}
