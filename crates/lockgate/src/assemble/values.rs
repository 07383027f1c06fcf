//! The values that are fetched while Lockgate runs: their sources and intervals.

use lockgate_config as config;
use lockgate_upstream::EndpointAddress;

use crate::fetcher::{Fetcher, Source, Url};
use crate::resolver::EndpointResolver;

/// Has `fetcher` fetch `values`; `resolver` gets the host names of their URLs.
pub(super) fn fetcher(
    mut fetcher: Fetcher,
    values: &[config::NamedValue],
    resolver: &mut EndpointResolver,
) -> Fetcher {
    for value in values {
        let source = match &value.source {
            config::ValueSource::File(path) => Source::File(path.clone()),
            config::ValueSource::Url(url) => {
                let address = match &url.addr {
                    config::EndpointAddr::Ip(address) => EndpointAddress::Ip(*address),
                    config::EndpointAddr::Unix(path) => EndpointAddress::Unix(path.clone()),
                    config::EndpointAddr::Name { host, port } => {
                        EndpointAddress::Name(resolver.register(host, *port))
                    }
                    // No URL has one.
                    config::EndpointAddr::Srv(_) => continue,
                };
                Source::Url(Url {
                    address,
                    host: url.host.clone(),
                    path: url.path.clone(),
                })
            }
        };
        fetcher.keep(&value.name, source, value.every, &value.default);
    }
    fetcher
}
