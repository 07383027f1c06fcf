//! Hosts and paths that conditions name, as Lockgate's tables name them.

/// A host, or all hosts below one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum HostPattern {
    Exact(String),
    Below(String),
}

impl HostPattern {
    pub(super) fn exact(name: &str) -> Option<Self> {
        host(name).map(Self::Exact)
    }

    pub(super) fn below(suffix: &str) -> Option<Self> {
        host(suffix).map(Self::Below)
    }

    /// Whether all hosts of the other pattern are hosts of this one.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(one), Self::Exact(two)) => one == two,
            (Self::Exact(_), Self::Below(_)) => false,
            (Self::Below(suffix), Self::Exact(name)) => is_below(name, suffix),
            (Self::Below(suffix), Self::Below(name)) => suffix == name || is_below(name, suffix),
        }
    }

    /// As the key of a table.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Exact(name) => name.clone(),
            Self::Below(suffix) => format!("*.{suffix}"),
        }
    }

    /// A host that it stands for.
    pub(super) fn example(&self) -> String {
        match self {
            Self::Exact(name) => name.clone(),
            Self::Below(suffix) => format!("any-host.{suffix}"),
        }
    }
}

fn is_below(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix)
        .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

/// A host name or an address, in lower case.
fn host(name: &str) -> Option<String> {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    (name.len() <= 253 && name.split('.').all(label)).then(|| name.to_ascii_lowercase())
}

/// A path, or one and all paths below it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum PathPattern {
    Exact(String),
    /// Without the `/` at its end: `/x` for `/x/*`; empty for every path.
    Below(String),
}

impl PathPattern {
    pub(super) fn exact(path: &str) -> Option<Self> {
        let path = plain_path(path)?;
        Some(Self::Exact(path.to_owned()))
    }

    pub(super) fn below(path: &str) -> Option<Self> {
        let path = plain_path(path)?;
        Some(Self::Below(
            path.strip_suffix('/').unwrap_or(path).to_owned(),
        ))
    }

    pub(super) fn is_every(&self) -> bool {
        matches!(self, Self::Below(path) if path.is_empty())
    }

    /// Whether all paths of the other pattern are paths of this one.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(one), Self::Exact(two)) => one == two,
            (Self::Exact(_), Self::Below(_)) => false,
            (Self::Below(prefix), Self::Exact(path) | Self::Below(path)) => path
                .strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        }
    }

    /// As the key of a table.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Exact(path) => path.clone(),
            Self::Below(path) => format!("{path}/*"),
        }
    }

    /// A path that it stands for.
    pub(super) fn example(&self) -> String {
        match self {
            Self::Exact(path) => path.clone(),
            Self::Below(path) => format!("{path}/any-path"),
        }
    }
}

/// A path that means the same in a key of Lockgate.
fn plain_path(path: &str) -> Option<&str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/!$&'()+,;=:@".contains(&b);
    let dots = |part: &str| part == "." || part == "..";
    (path.starts_with('/')
        && path.len() <= 1024
        && path.bytes().all(plain)
        && !path.contains("//")
        && !path.split('/').any(dots))
    .then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_what_lockgate_matches() {
        let host = |text: &str| match text.strip_prefix("*.") {
            Some(suffix) => HostPattern::below(suffix).unwrap(),
            None => HostPattern::exact(text).unwrap(),
        };
        for (one, two, covers) in [
            ("a.test", "a.test", true),
            ("*.a.test", "a.test", false),
            ("*.a.test", "b.a.test", true),
            ("*.a.test", "ba.test", false),
            ("*.a.test", "*.b.a.test", true),
            ("a.test", "*.a.test", false),
        ] {
            assert_eq!(host(one).covers(&host(two)), covers, "{one} {two}");
        }
        let path = |text: &str| match text.strip_suffix('*') {
            Some(prefix) => PathPattern::below(prefix).unwrap(),
            None => PathPattern::exact(text).unwrap(),
        };
        for (one, two, covers) in [
            ("/x/*", "/x", true),
            ("/x/*", "/x/y", true),
            ("/x/*", "/xy", false),
            ("/x/*", "/x/y/*", true),
            ("/*", "/x", true),
            ("/x", "/x/*", false),
        ] {
            assert_eq!(path(one).covers(&path(two)), covers, "{one} {two}");
        }
        for bad in ["x", "/a//b", "/a/../b", "/a%2f", "/{x}", "/a*", "/a?b"] {
            assert_eq!(PathPattern::exact(bad), None, "{bad}");
        }
        for bad in ["", "a..b", "-a", "a b", "a:1", "*"] {
            assert_eq!(HostPattern::exact(bad), None, "{bad}");
        }
    }
}
