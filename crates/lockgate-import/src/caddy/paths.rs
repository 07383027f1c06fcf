//! Path patterns of Caddy, and the routes of Lockgate that stand for them.
//!
//! The paths of a site are divided into places ([`CaddyPlace`]): each is a route of Lockgate
//! without the more specific ones. Every pattern of the site has all of a place or nothing of it,
//! so that a site can be worked out place by place.

use std::collections::BTreeSet;

/// One segment between two `/` of a pattern.
type Segments = Vec<String>;

/// A pattern of a path, below the prefix that was stripped before it is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CaddyPattern {
    /// `*` and `/*`: every path.
    All,
    /// `/a`: this path alone.
    Exact(Segments),
    /// `/a/*`: paths below it, not itself.
    Below(Segments),
    /// `/a*`: everything that begins so.
    Prefix(Segments),
    /// `/a/*/b*`: a path with a last segment that begins so.
    Begins(Segments),
    /// One that no route can express, such as `*.css`.
    Other,
}

/// Paths with one outcome.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CaddyPlace {
    /// `/a/*` of Lockgate: `/a` and all paths below it.
    Below(Segments),
    /// One path.
    Exact(Segments),
    /// Paths that go on after a pattern without a `/`: `/abc` for `/a*`. Lockgate has no route for
    /// them.
    GoesOn(Segments),
}

impl CaddyPattern {
    /// Reads a pattern that is compared after `stripped` was removed.
    pub(super) fn parse(text: &str, stripped: &str) -> CaddyPattern {
        if stripped.is_empty() && matches!(text, "*" | "/*") {
            return CaddyPattern::All;
        }
        if text == "*" {
            return CaddyPattern::parse("/*", stripped);
        }
        let odd = |c: char| matches!(c, '{' | '}' | '[' | ']' | '?' | '\\' | '%' | '#');
        if !text.starts_with('/') || text.contains(odd) || text.contains("//") || !text.is_ascii() {
            return CaddyPattern::Other;
        }
        let whole = format!("{stripped}{text}");
        let (body, kind) = match (whole.strip_suffix("/*"), whole.strip_suffix('*')) {
            (Some(body), _) => (body, 'b'),
            (_, Some(body)) => (body, 'p'),
            _ => (whole.as_str(), 'e'),
        };
        let mut segments: Segments = body.split('/').skip(1).map(str::to_owned).collect();
        let stars = segments.iter().filter(|one| one.contains('*')).count();
        if segments.iter().any(|one| one.contains('*') && one != "*") {
            return CaddyPattern::Other;
        }
        for (index, segment) in segments.iter_mut().enumerate() {
            if segment == "*" {
                *segment = format!("{{p{}}}", index + 1);
            }
        }
        match kind {
            // With two stars each is one segment: `/a/*/b/*`.
            'b' if stars > 0 => {
                let last = format!("{{p{}}}", segments.len() + 1);
                segments.push(last);
                CaddyPattern::Exact(segments)
            }
            'p' if stars > 0 => CaddyPattern::Begins(segments),
            'b' => CaddyPattern::Below(segments),
            'p' => CaddyPattern::Prefix(segments),
            _ => CaddyPattern::Exact(segments),
        }
    }

    /// Adds the places that it divides paths into.
    pub(super) fn places(&self, places: &mut BTreeSet<CaddyPlace>) {
        match self {
            CaddyPattern::All | CaddyPattern::Other => {}
            CaddyPattern::Exact(path) => {
                places.insert(CaddyPlace::Exact(path.clone()));
            }
            CaddyPattern::Begins(path) => {
                places.insert(CaddyPlace::Exact(path.clone()));
                places.insert(CaddyPlace::GoesOn(path.clone()));
            }
            CaddyPattern::Below(path) => {
                places.insert(CaddyPlace::Below(path.clone()));
                places.insert(CaddyPlace::Exact(path.clone()));
            }
            CaddyPattern::Prefix(path) => {
                places.insert(CaddyPlace::Below(path.clone()));
                places.insert(CaddyPlace::Exact(path.clone()));
                places.insert(CaddyPlace::GoesOn(path.clone()));
            }
        }
    }

    /// Whether all of a place matches. If not, nothing of it does.
    pub(super) fn has(&self, place: &CaddyPlace) -> bool {
        match (self, place) {
            (CaddyPattern::All, _) => true,
            (CaddyPattern::Other, _) => false,
            (CaddyPattern::Exact(path), CaddyPlace::Exact(other)) => {
                path.len() == other.len() && covers(path, other)
            }
            (CaddyPattern::Exact(_), _) => false,
            (CaddyPattern::Begins(path), CaddyPlace::Exact(other) | CaddyPlace::GoesOn(other)) => {
                path.len() == other.len() && covers(path, other)
            }
            (CaddyPattern::Begins(_), _) => false,
            (CaddyPattern::Below(path), CaddyPlace::Below(other)) => covers(path, other),
            (CaddyPattern::Below(path), CaddyPlace::Exact(other) | CaddyPlace::GoesOn(other)) => {
                other.len() > path.len() && covers(path, other)
            }
            (CaddyPattern::Prefix(path), place) => begins(place.segments(), path),
        }
    }

    /// Whether a letter is in it: Caddy compares letters in any case.
    pub(super) fn has_letter(&self) -> bool {
        match self {
            CaddyPattern::All | CaddyPattern::Other => false,
            CaddyPattern::Exact(path)
            | CaddyPattern::Below(path)
            | CaddyPattern::Begins(path)
            | CaddyPattern::Prefix(path) => path
                .iter()
                .any(|one| !one.starts_with('{') && one.contains(|c: char| c.is_alphabetic())),
        }
    }
}

/// Whether a path begins with the segments of a pattern, of which some may be parameters.
fn covers(pattern: &[String], path: &[String]) -> bool {
    path.len() >= pattern.len()
        && pattern
            .iter()
            .zip(path)
            .all(|(one, other)| one == other || one.starts_with('{'))
}

/// Whether `path` as a text begins with `prefix`.
fn begins(path: &[String], prefix: &[String]) -> bool {
    let Some((last, whole)) = prefix.split_last() else {
        return true;
    };
    path.starts_with(whole)
        && path
            .get(whole.len())
            .is_some_and(|segment| segment.starts_with(last.as_str()))
}

impl CaddyPlace {
    /// The segments of its path.
    pub(super) fn segments(&self) -> &[String] {
        match self {
            CaddyPlace::Below(path) | CaddyPlace::Exact(path) | CaddyPlace::GoesOn(path) => path,
        }
    }

    /// The path without `/*`: nothing for the root.
    pub(super) fn path(&self) -> String {
        self.segments()
            .iter()
            .map(|segment| format!("/{segment}"))
            .collect()
    }

    /// The key of its table.
    pub(super) fn key(&self) -> String {
        match self {
            CaddyPlace::Below(_) => format!("{}/*", self.path()),
            CaddyPlace::Exact(path) if path.is_empty() => "/".to_owned(),
            _ => self.path(),
        }
    }

    /// Whether it is the whole site.
    pub(super) fn is_root(&self) -> bool {
        matches!(self, CaddyPlace::Below(path) if path.is_empty())
    }

    /// The place with the route that Lockgate takes if this one has none.
    pub(super) fn parent(&self, places: &BTreeSet<CaddyPlace>) -> CaddyPlace {
        let path = self.segments();
        let longest = match self {
            CaddyPlace::Exact(path) => path.len(),
            CaddyPlace::Below(path) | CaddyPlace::GoesOn(path) => path.len().saturating_sub(1),
        };
        for length in (1..=longest).rev() {
            let above = CaddyPlace::Below(path.get(..length).unwrap_or_default().to_vec());
            if places.contains(&above) {
                return above;
            }
        }
        CaddyPlace::Below(Vec::new())
    }

    /// A path of a request that is in it.
    pub(super) fn example(&self) -> String {
        let path: String = self
            .segments()
            .iter()
            .map(|one| match one.starts_with('{') {
                true => "/1".to_owned(),
                false => format!("/{one}"),
            })
            .collect();
        match self {
            CaddyPlace::Below(_) if path.is_empty() => "/".to_owned(),
            CaddyPlace::Below(_) => format!("{path}/x"),
            CaddyPlace::Exact(_) if path.is_empty() => "/".to_owned(),
            _ => path,
        }
    }
}
