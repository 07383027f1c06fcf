//! What clients may do with a route's answers, as it runs: keep them, take them compressed, show
//! them to other sites.

use lockgate_config as config;
use lockgate_content::coding::Coding;
use lockgate_proxy::transform::cors::{Origin, Origins};
use lockgate_proxy::transform::{Caching, Compress, Cors, MediaRange};

use super::Mistakes;
use super::rules::pattern_of;

pub(super) fn caching(
    mistakes: &mut Mistakes<'_>,
    route: &config::SiteRoute,
    written: &config::Caching,
) -> Option<Caching> {
    let path = |(path, said): &(config::Pattern, Option<String>)| {
        pattern_of(mistakes, route, path).map(|pattern| (pattern, said.clone()))
    };
    Some(Caching {
        paths: written.paths.iter().map(path).collect::<Option<_>>()?,
        types: written
            .types
            .iter()
            .map(|(range, said)| (media_range(range), said.clone()))
            .collect(),
        hashed: written.hashed.clone(),
        otherwise: written.otherwise.clone(),
    })
}

pub(super) fn compress(written: &config::Compression) -> Compress {
    let levels = &written.levels;
    let coding = |coding: &config::Coding| match coding {
        config::Coding::Zstd => (Coding::Zstd, levels.zstd),
        config::Coding::Brotli => (Coding::Brotli, levels.brotli),
        config::Coding::Gzip => (Coding::Gzip, levels.gzip),
    };
    Compress {
        codings: written.codings.iter().map(coding).collect(),
        types: written.types.iter().map(media_range).collect(),
        min: written.min,
    }
}

pub(super) fn cors(written: &config::Cors) -> Cors {
    let origin = |origin: &config::Origin| match origin {
        config::Origin::Exact(exact) => Origin::Exact(exact.clone()),
        config::Origin::Under(before, after) => Origin::Under(before.clone(), after.clone()),
    };
    Cors {
        origins: match &written.origins {
            config::Origins::Any => Origins::Any,
            config::Origins::Only(origins) => Origins::Only(origins.iter().map(origin).collect()),
        },
        methods: written.methods.join(", "),
        headers: written.headers.as_ref().map(|headers| headers.join(", ")),
        expose: written.expose.join(", "),
        credentials: written.credentials,
        max_age: written.max_age.as_secs(),
    }
}

pub(super) fn media_range(written: &config::MediaRange) -> MediaRange {
    match written {
        config::MediaRange::Exact(exact) => MediaRange::Exact(exact.clone()),
        config::MediaRange::Under(over) => MediaRange::Under(over.clone()),
    }
}
