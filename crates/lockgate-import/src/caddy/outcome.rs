//! What becomes of the requests of a place: the keys of a table of Lockgate.

use std::collections::BTreeMap;

use super::matchers::CaddyPathChange;
use super::paths::CaddyPlace;
use crate::draft::EVERY_CLIENT;
use crate::{DraftValue, Place, StatementId, Verdict};

/// Why a part of a site is closed.
pub(super) const CLOSED: &str = "the part of the site that it is for refuses every client until it is decided: remove `deny` there";

/// Fields of messages, by name in lower case, in the order in which they were set.
pub(super) type CaddyFields = Vec<(String, DraftValue)>;

/// Where an action stands in the source. It does not count in comparisons.
#[derive(Debug, Clone, Default)]
pub(super) struct CaddyOrigin(pub(super) Option<Place>);

impl PartialEq for CaddyOrigin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The statements of fields that are set only where there are none. They do not count in
/// comparisons.
#[derive(Debug, Clone, Default)]
pub(super) struct CaddyDefaults(pub(super) Vec<(String, StatementId)>);

impl PartialEq for CaddyDefaults {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Fields that must not take the place of those of an application: caching and security.
const KEPT_OF_APPLICATION: [&str; 31] = [
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "access-control-max-age",
    "age",
    "clear-site-data",
    "content-disposition",
    "content-encoding",
    "content-type",
    "cross-origin-embedder-policy",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
    "date",
    "etag",
    "expires",
    "feature-policy",
    "last-modified",
    "location",
    "permissions-policy",
    "pragma",
    "referrer-policy",
    "set-cookie",
    "strict-transport-security",
    "vary",
    "www-authenticate",
    "x-content-type-options",
    "x-frame-options",
    "x-robots-tag",
    "x-xss-protection",
];

/// Fields that Lockgate, as Caddy, sends with files and redirects of its own accord.
const OF_FILES: [&str; 10] = [
    "accept-ranges",
    "content-encoding",
    "content-range",
    "content-type",
    "date",
    "etag",
    "last-modified",
    "location",
    "vary",
    "www-authenticate",
];

/// The verdict on a field that is set only where there is none. It is left out if it is not
/// supported.
pub(super) fn of_default(name: &str, is_proxy: bool) -> Verdict {
    let kept = KEPT_OF_APPLICATION.contains(&name)
        || name.ends_with("cache-control")
        || name.starts_with("content-security-policy")
        || name.starts_with("surrogate-");
    match is_proxy {
        true if kept => Verdict::not_supported(
            "Lockgate would set it over the field that the application sends: it is left out",
            Some("set it in the application"),
        ),
        true => Verdict::differs("it also replaces the field that the application sends"),
        false if OF_FILES.contains(&name) => Verdict::not_supported(
            "Lockgate would set it over the one that belongs to its own answer: it is left out",
            None,
        ),
        false => Verdict::Converted,
    }
}

/// Endpoints, and the keys of their pool.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CaddyUpstream {
    /// The addresses.
    pub(super) endpoints: Vec<DraftValue>,
    /// Other keys of a pool.
    pub(super) options: Vec<(String, DraftValue)>,
}

/// What answers a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum CaddyAction {
    /// Nothing: Caddy sends an empty page with 200.
    #[default]
    Nothing,
    /// Something that Lockgate does not have.
    Absent,
    /// An application.
    Proxy(CaddyUpstream),
    /// Files in a folder.
    Files(String),
    /// A redirect: target and status.
    Redirect(String, i64),
    /// A fixed response: status, body, type.
    Respond(i64, String, Option<String>),
}

/// What becomes of a request before its action.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CaddyFlow {
    /// The folder of files.
    pub(super) root: Option<String>,
    /// What became of the path.
    pub(super) change: CaddyPathChange,
    /// Fields of the response.
    pub(super) fields: CaddyFields,
    /// Fields that are set when the response is sent, over those that are set at once.
    pub(super) late_fields: CaddyFields,
    /// Fields that are set only where the application sets none.
    pub(super) default_fields: CaddyFields,
    /// Where those stand.
    pub(super) defaults: CaddyDefaults,
    /// Fields of the request.
    pub(super) request_fields: CaddyFields,
    /// The value of `auth`.
    pub(super) auth: Option<DraftValue>,
    /// Whether something that is not converted may have refused the request.
    pub(super) closed: bool,
    /// The paths that are tried in `root`.
    pub(super) tried: Option<Vec<String>>,
    /// Other keys.
    pub(super) keys: BTreeMap<&'static str, DraftValue>,
    /// The constants of `vars`.
    pub(super) vars: BTreeMap<String, String>,
    /// Lines of comments above the table.
    pub(super) comments: Vec<String>,
}

/// The outcomes of all places of a site, for one host.
pub(super) type CaddyOutcomes = BTreeMap<CaddyPlace, CaddyOutcome>;

/// The outcomes of a site.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CaddyAnswers {
    /// Those of methods that no matcher names.
    pub(super) others: CaddyOutcomes,
    /// Those of each other method.
    pub(super) methods: Vec<(String, CaddyOutcomes)>,
}

impl CaddyAnswers {
    /// All outcomes.
    pub(super) fn all(&self) -> impl Iterator<Item = &CaddyOutcome> {
        let methods = self
            .methods
            .iter()
            .flat_map(|(_, outcomes)| outcomes.values());
        self.others.values().chain(methods)
    }
}

/// What becomes of the requests of a place.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CaddyOutcome {
    /// What answers them.
    pub(super) action: CaddyAction,
    /// What happens before.
    pub(super) flow: CaddyFlow,
    /// The only clients that are served.
    pub(super) allow: Option<Vec<String>>,
    /// The clients that are refused.
    pub(super) deny: Vec<String>,
    /// Where the action stands.
    pub(super) origin: CaddyOrigin,
}

impl CaddyOutcome {
    /// Whether no client is served: an error is sent.
    pub(super) fn refuses(&self) -> bool {
        matches!(self.action, CaddyAction::Respond(status, ..) if status >= 400) || self.flow.closed
    }

    /// Whether something is served.
    pub(super) fn serves(&self) -> bool {
        !matches!(self.action, CaddyAction::Nothing | CaddyAction::Absent)
    }

    /// Whether it refuses requests that `other` serves.
    pub(super) fn is_stricter(&self, other: &CaddyOutcome) -> bool {
        if other.refuses() {
            return false;
        }
        self.refuses()
            || (self.flow.auth.is_some() && self.flow.auth != other.flow.auth)
            || (self.allow.is_some() && self.allow != other.allow)
            || self
                .deny
                .iter()
                .any(|network| !other.deny.contains(network))
    }

    /// Whether requests get the same answer, wherever their path has led to.
    pub(super) fn answers_like(&self, other: &CaddyOutcome) -> bool {
        let (flow, of_other) = (&self.flow, &other.flow);
        self.action == other.action
            && self.allow == other.allow
            && self.deny == other.deny
            && flow.fields == of_other.fields
            && flow.late_fields == of_other.late_fields
            && flow.default_fields == of_other.default_fields
            && flow.request_fields == of_other.request_fields
            && flow.auth == of_other.auth
            && flow.closed == of_other.closed
            && flow.keys == of_other.keys
    }

    /// Its keys in a table of Lockgate, but for `proxy`.
    ///
    /// # Errors
    /// What cannot be expressed, as a sentence.
    pub(super) fn keys(
        &self,
        place: &CaddyPlace,
    ) -> Result<BTreeMap<&'static str, DraftValue>, String> {
        let flow = &self.flow;
        let mut keys = BTreeMap::new();
        let mut root_below = String::new();
        match (&self.action, &flow.change) {
            (CaddyAction::Proxy(_) | CaddyAction::Files(_), CaddyPathChange::None) => {}
            (CaddyAction::Proxy(_), CaddyPathChange::Stripped(prefix)) => {
                let path = place.path();
                let rest = path.strip_prefix(prefix.as_str()).unwrap_or_default();
                match place {
                    CaddyPlace::Below(_) if rest.is_empty() => {
                        keys.insert("strip_prefix", true.into());
                    }
                    CaddyPlace::Below(_) => {
                        keys.insert("rewrite", format!("{rest}/{{*}}").into());
                    }
                    _ if rest.is_empty() => {
                        keys.insert("rewrite", "/".into());
                    }
                    _ => {
                        keys.insert("rewrite", rest.into());
                    }
                }
            }
            (CaddyAction::Proxy(_), CaddyPathChange::Rewritten(path)) => {
                keys.insert("rewrite", path.as_str().into());
            }
            (CaddyAction::Files(_), CaddyPathChange::Stripped(prefix)) => {
                let path = place.path();
                let rest = path.strip_prefix(prefix.as_str()).unwrap_or_default();
                match place {
                    CaddyPlace::Below(_) => {
                        keys.insert("strip_prefix", true.into());
                        root_below = rest.to_owned();
                    }
                    _ if flow.tried.is_none() => {
                        let file = if rest.is_empty() { "/" } else { rest };
                        keys.insert("try", vec![file].into());
                    }
                    _ => {}
                }
            }
            (CaddyAction::Files(_), CaddyPathChange::Rewritten(path)) => {
                if flow.tried.is_some() {
                    return Err("files are looked up under a path that was rewritten".to_owned());
                }
                let file = path.split('?').next().unwrap_or_default();
                keys.insert("try", vec![file].into());
            }
            _ => {}
        }
        match &self.action {
            CaddyAction::Files(root) => {
                keys.insert("root", format!("{root}{root_below}").into());
                if let Some(tried) = &flow.tried {
                    if !root_below.is_empty() {
                        return Err("files are looked up below a path in the root".to_owned());
                    }
                    let path = match (&flow.change, place) {
                        (CaddyPathChange::Stripped(_), CaddyPlace::Below(_)) => "/{*}",
                        (CaddyPathChange::Stripped(prefix), _) => {
                            let path = place.path();
                            let rest = path.strip_prefix(prefix.as_str()).unwrap_or_default();
                            let rest = if rest.is_empty() { "/" } else { rest };
                            let tried = tried.iter().map(|one| one.replace("{path}", rest));
                            let tried = tried.map(|one| one.replace("//", "/"));
                            keys.insert("try", tried.collect::<Vec<_>>().into());
                            return Ok(self.finished(keys));
                        }
                        _ => "{path}",
                    };
                    let tried = tried.iter().map(|one| one.replace("{path}", path));
                    keys.insert("try", tried.collect::<Vec<_>>().into());
                }
            }
            CaddyAction::Redirect(to, status) => {
                let value = match status {
                    308 => to.as_str().into(),
                    status => DraftValue::Inline(vec![
                        ("to".to_owned(), to.as_str().into()),
                        ("status".to_owned(), (*status).into()),
                    ]),
                };
                keys.insert("redirect", value);
            }
            CaddyAction::Respond(status, body, kind) => {
                let value = match (status, body.as_str(), kind) {
                    (status, "", None) => (*status).into(),
                    (200, body, None) => body.into(),
                    (status, body, kind) => {
                        let mut value = Vec::new();
                        if *status != 200 {
                            value.push(("status".to_owned(), (*status).into()));
                        }
                        value.push(("body".to_owned(), body.into()));
                        if let Some(kind) = kind {
                            value.push(("type".to_owned(), kind.as_str().into()));
                        }
                        DraftValue::Inline(value)
                    }
                };
                keys.insert("respond", value);
            }
            _ => {}
        }
        Ok(self.finished(keys))
    }

    /// The keys with those that every action has.
    fn finished(
        &self,
        mut keys: BTreeMap<&'static str, DraftValue>,
    ) -> BTreeMap<&'static str, DraftValue> {
        let flow = &self.flow;
        let is_proxy = matches!(self.action, CaddyAction::Proxy(_));
        for (key, value) in &flow.keys {
            let wanted = match *key {
                "body" | "timeouts" | "rewrite_location" => is_proxy,
                // Files are compressed without being told.
                "compress" => is_proxy,
                "listing" | "index" | "hidden" | "not_found" | "precompressed" => {
                    matches!(self.action, CaddyAction::Files(_))
                }
                _ => true,
            };
            if wanted {
                keys.insert(key, value.clone());
            }
        }
        let mut fields = flow.fields.clone();
        for (name, value) in &flow.late_fields {
            match fields.iter_mut().find(|(known, _)| known == name) {
                Some((_, slot)) => *slot = value.clone(),
                None => fields.push((name.clone(), value.clone())),
            }
        }
        for (name, value) in &flow.default_fields {
            let is_out = matches!(of_default(name, is_proxy), Verdict::NotSupported { .. });
            if !is_out && !fields.iter().any(|(known, _)| known == name) {
                fields.push((name.clone(), value.clone()));
            }
        }
        if !is_proxy {
            // Lockgate sends no such field of its own.
            fields.retain(|(_, value)| *value != DraftValue::Flag(false));
        }
        if !fields.is_empty() {
            keys.insert("headers", DraftValue::Inline(fields));
        }
        if is_proxy && !flow.request_fields.is_empty() {
            let fields = flow.request_fields.clone();
            keys.insert("request_headers", DraftValue::Inline(fields));
        }
        if let Some(auth) = &flow.auth {
            keys.insert("auth", auth.clone());
        }
        if let Some(allow) = &self.allow {
            keys.insert("allow", allow.clone().into());
        }
        if flow.closed {
            keys.insert("deny", EVERY_CLIENT.to_vec().into());
        } else if !self.deny.is_empty() {
            keys.insert("deny", self.deny.clone().into());
        }
        keys
    }
}
