//! The kinds of `location`, and which regular expressions are paths, extensions or hidden names.

use super::syntax::NginxDirective;

/// What a location matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NginxMatch {
    /// Paths that Lockgate can match.
    Paths(Vec<NginxPath>),
    /// `\.(jpg|css)$`
    Extensions(Vec<String>),
    /// `/\.`: names that begin with a dot. The texts say which, and are empty for all.
    Hidden(Vec<String>),
    /// `@name`
    Named,
    /// A regular expression that is nothing of these.
    Other,
}

/// A path of Lockgate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NginxPath {
    /// `"/x"` or `"/x/*"`.
    pub(super) key: String,
    /// Whether nginx also matches what begins with it without a slash, as `/xyz`.
    pub(super) loose: bool,
    /// Whether the first group of the regular expression is what `*` matches.
    pub(super) captures: bool,
    /// Whether nginx asks no regular expression for it: `=` and `^~`.
    pub(super) strong: bool,
}

impl NginxPath {
    fn exact(path: &str) -> Option<Self> {
        writable(path).then(|| Self {
            key: path.to_owned(),
            loose: false,
            captures: false,
            strong: false,
        })
    }

    /// All paths that begin with `prefix`.
    fn prefix(prefix: &str) -> Option<Self> {
        let base = prefix.strip_suffix('/').unwrap_or(prefix);
        (prefix == "/" || writable(prefix)).then(|| Self {
            key: format!("{base}/*"),
            loose: !prefix.ends_with('/'),
            captures: false,
            strong: false,
        })
    }

    /// Every path.
    pub(super) fn all() -> Self {
        Self {
            key: "/*".to_owned(),
            loose: false,
            captures: false,
            strong: false,
        }
    }

    /// The path without `/*`.
    pub(super) fn base(&self) -> &str {
        self.key.strip_suffix("/*").unwrap_or(&self.key)
    }

    /// Whether it stands for all paths below it.
    pub(super) fn is_prefix(&self) -> bool {
        self.key.ends_with("/*")
    }
}

/// Whether a path can be the key of a table.
fn writable(path: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._~-!$&'()+,;=:@".contains(c);
    path.starts_with('/')
        && path.len() < 512
        && path.chars().all(plain)
        && !path.contains("//")
        && path.split('/').all(|part| part != "." && part != "..")
}

/// How a location matches: its paths, and whether it is by `~*`, `~` or `^~`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NginxPattern {
    pub(super) what: NginxMatch,
    pub(super) regex: bool,
    pub(super) any_case: bool,
    /// `=` and `^~`: no regular expression is asked.
    pub(super) strong: bool,
}

/// Reads the arguments of a location.
pub(super) fn pattern_of(location: &NginxDirective) -> NginxPattern {
    let (sign, text) = match location.args.as_slice() {
        [sign, text] => (sign.as_str(), text.as_str()),
        [text] => {
            let glued = ["~*", "^~", "=", "~"]
                .into_iter()
                .find(|s| text.starts_with(s));
            match glued {
                Some(sign) => (sign, text.get(sign.len()..).unwrap_or_default()),
                None => ("", text.as_str()),
            }
        }
        _ => ("?", ""),
    };
    let strong = matches!(sign, "=" | "^~");
    let paths = |path: Option<NginxPath>| match path {
        Some(path) => NginxMatch::Paths(vec![NginxPath { strong, ..path }]),
        None => NginxMatch::Other,
    };
    let what = match sign {
        "=" => paths(NginxPath::exact(text)),
        "" if text.starts_with('@') => NginxMatch::Named,
        "" | "^~" => paths(NginxPath::prefix(text)),
        "~" | "~*" => regex(text, sign == "~*"),
        _ => NginxMatch::Other,
    };
    NginxPattern {
        what,
        regex: sign.starts_with('~'),
        any_case: sign == "~*",
        strong,
    }
}

/// What a regular expression matches.
pub(super) fn regex(text: &str, _any_case: bool) -> NginxMatch {
    if let Some(rest) = text.strip_prefix('^')
        && let Some(paths) = regex_paths(rest)
    {
        return NginxMatch::Paths(paths);
    }
    if let Some(extensions) = regex_extensions(text) {
        return NginxMatch::Extensions(extensions);
    }
    regex_hidden(text).unwrap_or(NginxMatch::Other)
}

/// `/a/(b|c)/(.*)$` and the like, after `^`.
fn regex_paths(text: &str) -> Option<Vec<NginxPath>> {
    const ENDS: &[&str] = &[
        "(/|$)",
        "($|/)",
        "(?:/|$)",
        "(?:$|/)",
        "(?:/.*)?$",
        "(/.*)?$",
    ];
    let mut literals = vec![String::new()];
    let mut rest = text;
    let mut groups = false;
    loop {
        // How it may end.
        if rest.is_empty() || rest == ".*" || rest == ".*$" {
            return literals
                .iter()
                .map(|path| NginxPath::prefix(path))
                .collect();
        }
        if rest == "(.*)" || rest == "(.*)$" {
            return literals
                .iter()
                .map(|path| {
                    let captures = path.ends_with('/') && !groups;
                    NginxPath::prefix(path).map(|p| NginxPath { captures, ..p })
                })
                .collect();
        }
        if rest == "$" {
            return literals.iter().map(|path| NginxPath::exact(path)).collect();
        }
        if rest == "/?$" {
            let both = literals.iter().flat_map(|p| [p.clone(), format!("{p}/")]);
            return both.map(|path| NginxPath::exact(&path)).collect();
        }
        if ENDS.contains(&rest) {
            let below = literals.iter().map(|path| format!("{path}/"));
            return below.map(|path| NginxPath::prefix(&path)).collect();
        }
        let c = rest.chars().next()?;
        let after = rest.get(c.len_utf8()..)?;
        let (texts, next) = match c {
            '(' => {
                let (texts, next) = alternatives(after)?;
                groups = true;
                (texts, next)
            }
            '\\' => {
                let escaped = after.chars().next()?;
                let next = after.get(escaped.len_utf8()..)?;
                (vec![literal(escaped, true)?.to_string()], next)
            }
            c => (vec![literal(c, false)?.to_string()], after),
        };
        if next.starts_with(['*', '+', '?', '{']) && next != "/?$" {
            return None;
        }
        let mut joined = Vec::new();
        for one in &literals {
            for two in &texts {
                joined.push(format!("{one}{two}"));
            }
        }
        if joined.len() > 32 {
            return None;
        }
        literals = joined;
        rest = next;
    }
}

/// The texts of `a|b|c)`, and what follows.
fn alternatives(text: &str) -> Option<(Vec<String>, &str)> {
    let text = text.strip_prefix("?:").unwrap_or(text);
    let end = text.find(')')?;
    let (inner, rest) = text.split_at(end);
    let texts: Option<Vec<String>> = inner.split('|').map(plain_text).collect();
    let texts = texts.filter(|texts| texts.iter().all(|text| !text.is_empty()))?;
    Some((texts, rest.get(1..)?))
}

/// The text that an expression without operators matches.
fn plain_text(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => literal(chars.next()?, true)?,
            c => literal(c, false)?,
        });
    }
    Some(out)
}

fn literal(c: char, escaped: bool) -> Option<char> {
    match c {
        c if escaped && c.is_ascii_alphanumeric() => None,
        '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' | '\\'
            if !escaped =>
        {
            None
        }
        c => Some(c),
    }
}

/// The extensions of `\.(jpg|jpe?g|css)$`.
fn regex_extensions(text: &str) -> Option<Vec<String>> {
    let text = ["^.+", "^.*", ".+", ".*", ""].iter().find_map(|start| {
        text.strip_prefix(start)
            .filter(|rest| rest.starts_with("\\."))
    })?;
    let rest = text.strip_prefix("\\.")?.strip_suffix('$')?;
    let inner = match rest.strip_prefix('(') {
        Some(inner) => {
            let inner = inner.strip_suffix(')')?;
            inner.strip_prefix("?:").unwrap_or(inner)
        }
        None => rest,
    };
    let mut all = Vec::new();
    for one in inner.split('|') {
        // `jpe?g` and `woff2?` stand for two.
        match one.split_once('?') {
            Some((before, after)) if !before.is_empty() => {
                let mut short = before.to_owned();
                short.pop();
                all.push(format!("{short}{after}"));
                all.push(format!("{before}{after}"));
            }
            _ => all.push(one.to_owned()),
        }
    }
    let plain = |name: &String| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    all.iter().all(plain).then_some(all)
}

/// `/\.`, `/\.(?!well-known)`, `/\.ht`, `(^|/)\.`, `/\.(git|svn)`.
fn regex_hidden(text: &str) -> Option<NginxMatch> {
    let rest = ["(^|/)\\.", "(?:^|/)\\.", "^.*/\\.", "/\\.", "^/\\."]
        .iter()
        .find_map(|start| text.strip_prefix(start))?;
    let rest = rest
        .strip_prefix("(?!well-known).*")
        .or_else(|| rest.strip_prefix("(?!well-known\\/)"))
        .or_else(|| rest.strip_prefix("(?!well-known/)"))
        .or_else(|| rest.strip_prefix("(?!well-known)"))
        .unwrap_or(rest);
    let rest = rest.strip_suffix('$').unwrap_or(rest);
    let rest = rest.strip_suffix(".*").unwrap_or(rest);
    if rest.is_empty() {
        return Some(NginxMatch::Hidden(Vec::new()));
    }
    let (names, rest) = match rest.strip_prefix('(') {
        Some(inner) => alternatives(inner)?,
        None => {
            let text = rest.strip_suffix('/').unwrap_or(rest);
            (vec![plain_text(text)?], "")
        }
    };
    matches!(rest, "" | "/" | "/?" | "(/|$)").then_some(NginxMatch::Hidden(names))
}

/// The media type of files with an extension, as Lockgate has it.
pub(super) fn media_type(extension: &str) -> Option<&'static str> {
    Some(match extension.to_ascii_lowercase().as_str() {
        "css" => "text/css",
        "js" | "mjs" => "text/javascript",
        "json" => "application/json",
        "html" | "htm" => "text/html",
        "xml" => "application/xml",
        "txt" => "text/plain",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "svg" => "image/svg+xml",
        "ico" => "image/x-icon",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "otf" => "font/otf",
        "eot" => "application/vnd.ms-fontobject",
        "wasm" => "application/wasm",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        "mp3" => "audio/mpeg",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        _ => return None,
    })
}
