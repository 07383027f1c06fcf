//! Which location nginx chooses for a path: its search through the levels, those in locations too.

use std::collections::BTreeMap;

use super::locations::NginxPlace;
use super::pattern::{NginxMatch, NginxPath};
use super::regexes::MOST_REGEXES;
use crate::StatementId;

/// The locations of one level.
#[derive(Default)]
struct NginxChoices {
    /// `=`, by path.
    exact: BTreeMap<String, usize>,
    /// Prefixes as they are written, with `^~` or without.
    prefixes: BTreeMap<String, usize>,
    /// Regular expressions that are paths, in their order.
    regexes: Vec<usize>,
}

/// The locations of a server as nginx searches them.
pub(super) struct NginxSearch {
    /// By the location around them.
    levels: BTreeMap<Option<StatementId>, NginxChoices>,
}

/// A part of a path that stands for all that no location names.
const ANY: &str = "\u{1}";

impl NginxSearch {
    pub(super) fn new(places: &[NginxPlace<'_>]) -> Self {
        let mut levels: BTreeMap<Option<StatementId>, NginxChoices> = BTreeMap::new();
        let regexes = places.iter().filter(|place| place.pattern.regex).count();
        for (at, place) in places.iter().enumerate() {
            let NginxMatch::Paths(paths) = &place.pattern.what else {
                continue;
            };
            let level = levels.entry(place.around).or_default();
            if place.pattern.regex {
                // Of too many, none decides: all routes are closed then.
                if regexes <= MOST_REGEXES {
                    level.regexes.push(at);
                }
                continue;
            }
            for path in paths {
                if !path.is_prefix() {
                    level.exact.entry(path.key.clone()).or_insert(at);
                } else {
                    level.prefixes.entry(written(path)).or_insert(at);
                }
            }
        }
        Self { levels }
    }

    /// The location that answers requests of a path.
    pub(super) fn winner(&self, places: &[NginxPlace<'_>], path: &str) -> Option<usize> {
        let mut found = None;
        self.search(places, path, None, &mut found);
        found
    }

    /// As nginx does it. Says whether the search is over.
    fn search(
        &self,
        places: &[NginxPlace<'_>],
        path: &str,
        around: Option<StatementId>,
        found: &mut Option<usize>,
    ) -> bool {
        let Some(level) = self.levels.get(&around) else {
            return false;
        };
        if let Some(at) = level.exact.get(path) {
            *found = Some(*at);
            return true;
        }
        let mut strong = false;
        let ends = (1..=path.len()).rev();
        let longest = ends
            .filter_map(|end| path.get(..end))
            .find_map(|start| level.prefixes.get(start));
        if let Some((at, place)) = longest.and_then(|at| Some((*at, places.get(*at)?))) {
            *found = Some(at);
            strong = place.pattern.strong;
            if self.search(places, path, Some(place.location.id), found) {
                return true;
            }
        }
        if strong {
            return false;
        }
        for at in &level.regexes {
            if let Some(place) = places.get(*at)
                && matches(place, path)
            {
                *found = Some(*at);
                self.search(places, path, Some(place.location.id), found);
                return true;
            }
        }
        false
    }
}

/// A prefix as nginx has it: with its slash if it ends in one.
fn written(path: &NginxPath) -> String {
    match path.loose {
        true => path.base().to_owned(),
        false => format!("{}/", path.base()),
    }
}

/// Whether a regular expression matches a path.
fn matches(place: &NginxPlace<'_>, path: &str) -> bool {
    let NginxMatch::Paths(theirs) = &place.pattern.what else {
        return false;
    };
    let same = |one: &str, two: &str| match place.pattern.any_case {
        true => one.eq_ignore_ascii_case(two),
        false => one == two,
    };
    theirs.iter().any(|their| match their.is_prefix() {
        true => {
            let start = written(their);
            path.get(..start.len())
                .is_some_and(|begin| same(begin, &start))
        }
        false => same(path, &their.key),
    })
}

/// A path that stands for all those of a key that no other location names.
pub(super) fn example(key: &str) -> String {
    match key.strip_suffix("/*") {
        Some(base) => format!("{base}/{ANY}"),
        None => key.to_owned(),
    }
}
