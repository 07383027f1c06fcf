//! Patterns of paths and ranges of media types, as they run.

use lockgate_config as config;
use lockgate_config::{Code, Segment};
use lockgate_proxy::route::Pattern;
use lockgate_proxy::transform::MediaRange;

use super::MistakeLog;

/// The paths of `route`.
pub(super) fn pattern(mistakes: &mut MistakeLog<'_>, route: &config::SiteRoute) -> Option<Pattern> {
    pattern_of(mistakes, route, &route.pattern)
}

/// A pattern in a table of `route`.
pub(super) fn pattern_of(
    mistakes: &mut MistakeLog<'_>,
    route: &config::SiteRoute,
    written: &config::Pattern,
) -> Option<Pattern> {
    let config::Pattern::Path { segments, tail } = written else {
        return Some(Pattern::everything());
    };
    let mut text = String::new();
    for segment in segments {
        match segment {
            Segment::Literal(literal) => text.extend(["/", literal]),
            Segment::Param(name) => text.extend(["/{", name, "}"]),
        }
    }
    text.push_str(if *tail { "/*" } else { "" });
    let complain = |error: lockgate_proxy::route::PatternError| {
        mistakes.error(Code::BadPath, &route.at, error.to_string(), "");
    };
    Pattern::parse(&text).map_err(complain).ok()
}

/// A range of media types.
pub(super) fn media_range(written: &config::MediaRange) -> MediaRange {
    match written {
        config::MediaRange::Exact(exact) => MediaRange::Exact(exact.clone()),
        config::MediaRange::Under(over) => MediaRange::Under(over.clone()),
    }
}
