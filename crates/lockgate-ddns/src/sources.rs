//! The sources of an address, each asked where those before have none.

use lockgate_rules::{AddressSource, DynamicDns};

use crate::family::AddressFamily;
use crate::interface;
use crate::router_source::RouterSource;
use crate::settling::{Asked, Sighting};
use crate::url::AnsweringServer;

/// The sources of both families.
pub(crate) struct Sources {
    ipv4: Vec<Source>,
    ipv6: Vec<Source>,
    private: bool,
}

enum Source {
    Interface(Option<String>),
    Router(RouterSource),
    Server(Box<AnsweringServer>),
    /// It cannot be asked, and why.
    Broken(String),
}

impl Sources {
    /// The sources of some settings.
    pub(crate) fn new(settings: &DynamicDns) -> Self {
        let sources = |of: &[AddressSource]| of.iter().map(Source::new).collect();
        Self {
            ipv4: sources(&settings.ipv4),
            ipv6: sources(&settings.ipv6),
            private: settings.private,
        }
    }

    /// What is asked for a family; none where it has no sources.
    pub(crate) fn asked(&self, family: AddressFamily) -> Option<Asked> {
        let sources = match family {
            AddressFamily::Ipv4 => &self.ipv4,
            AddressFamily::Ipv6 => &self.ipv6,
        };
        let is_kernel = |source: &Source| matches!(source, Source::Interface(_));
        match &**sources {
            [] => None,
            sources if sources.iter().all(is_kernel) => Some(Asked::Kernel),
            _ => Some(Asked::Others),
        }
    }

    /// This machine is in another network: what was learnt of the last one is forgotten.
    pub(crate) fn network_changed(&mut self) {
        for source in &mut self.ipv4 {
            if let Source::Router(router) = source {
                router.network_changed();
            }
        }
    }

    /// Asks for the address of a family.
    pub(crate) async fn look(&mut self, family: AddressFamily) -> Sighting {
        let mut reasons = Vec::new();
        let private = self.private;
        let sources = match family {
            AddressFamily::Ipv4 => &mut self.ipv4,
            AddressFamily::Ipv6 => &mut self.ipv6,
        };
        for source in sources {
            let why = match source {
                Source::Interface(name) => {
                    match interface::addresses(name.as_deref(), family, private) {
                        Ok(found) => return Sighting::Interfaces(found),
                        Err(why) => why,
                    }
                }
                Source::Server(server) => match server.ask(family, private).await {
                    Ok(address) => return Sighting::Reported(address),
                    Err(why) => why,
                },
                Source::Router(router) => match router.ask().await {
                    Ok(address) => return Sighting::Reported(address),
                    Err(why) => why,
                },
                Source::Broken(why) => why.clone(),
            };
            reasons.push(why);
        }
        Sighting::Nothing(reasons.join("; "))
    }
}

impl Source {
    fn new(source: &AddressSource) -> Self {
        match source {
            AddressSource::Interface(name) => Self::Interface(name.clone()),
            AddressSource::Router => Self::Router(RouterSource::default()),
            AddressSource::Url(url) => match AnsweringServer::new(url.clone()) {
                Ok(server) => Self::Server(Box::new(server)),
                Err(why) => Self::Broken(format!("{url}: {why}")),
            },
        }
    }
}
