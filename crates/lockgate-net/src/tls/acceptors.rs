//! The choice between the TLS rules of one address, by SNI.
//!
//! The caller compares the rules of the connection with those of the host that a request names.

use std::collections::HashMap;
use std::sync::Arc;

use super::cert_store::Lowercase;
use super::server::Acceptor;
use super::sni_pattern::SniPattern;
use crate::index_type;

index_type! {
    /// The index of an acceptor among those of one address.
    AcceptorIndex;
}

/// The acceptors of one address, mostly one.
#[derive(Debug)]
pub struct Acceptors {
    all: Vec<Arc<Acceptor>>,
    exact: HashMap<Box<str>, AcceptorIndex>,
    under: HashMap<Box<str>, AcceptorIndex>,
    default: AcceptorIndex,
}

impl From<Arc<Acceptor>> for Acceptors {
    /// A single acceptor for all clients.
    fn from(only: Arc<Acceptor>) -> Self {
        Self::new(vec![only], [], AcceptorIndex::new(0))
    }
}

impl Acceptors {
    /// Each name has the index of its acceptor in `all`; `default` is for clients without SNI or
    /// with an unknown name. The last of equal names counts.
    pub fn new(
        all: Vec<Arc<Acceptor>>,
        names: impl IntoIterator<Item = (SniPattern, AcceptorIndex)>,
        default: AcceptorIndex,
    ) -> Self {
        let (mut exact, mut under) = (HashMap::new(), HashMap::new());
        for (name, place) in names {
            match name {
                SniPattern::Exact(name) => exact.insert(name.to_ascii_lowercase().into(), place),
                SniPattern::Under(name) => under.insert(name.to_ascii_lowercase().into(), place),
                // That is what the default is for.
                SniPattern::Any => None,
            };
        }
        Self {
            all,
            exact,
            under,
            default,
        }
    }

    /// The acceptor for a client with the SNI `name` (any case), and its index; `None` calls for
    /// the alert unrecognized_name (RFC 6066 §3). As for sites, an exact name precedes the longest
    /// matching suffix.
    pub fn choose(&self, name: Option<&str>) -> Option<(AcceptorIndex, &Arc<Acceptor>)> {
        self.of(name).filter(|(_, chosen)| chosen.serves(name))
    }

    /// The index of the acceptor for a client with the SNI `name` (any case), where its certificate
    /// is to be obtained yet, or may be obtained on demand.
    pub fn awaiting(&self, name: Option<&str>) -> Option<AcceptorIndex> {
        let (index, acceptor) = self.of(name)?;
        let lower = name.and_then(Lowercase::new);
        let obtains = lower.is_some_and(|name| acceptor.obtains(name.as_str()));
        (acceptor.awaits(name) || obtains).then_some(index)
    }

    /// Whether the certificate for a client with the SNI `name` (any case) is to be obtained yet.
    pub fn awaits(&self, name: Option<&str>) -> bool {
        let acceptor = self.of(name);
        acceptor.is_some_and(|(_, acceptor)| acceptor.awaits(name))
    }

    /// The acceptor, and its index, that may obtain a certificate on demand for a name in lower case
    /// which it has none for.
    pub fn obtaining(&self, name: &str) -> Option<(AcceptorIndex, &Arc<Acceptor>)> {
        self.of(Some(name))
            .filter(|(_, acceptor)| acceptor.obtains(name))
    }

    /// The acceptor for a client with the SNI `name`, whether it has a certificate or not.
    fn of(&self, name: Option<&str>) -> Option<(AcceptorIndex, &Arc<Acceptor>)> {
        let place = if self.all.len() > 1 {
            self.place(name)
        } else {
            self.default
        };
        self.all.get(place.get()).map(|acceptor| (place, acceptor))
    }

    /// Whether the acceptor with this index has the rules of `other`, which may be one of an earlier
    /// configuration: a connection made by that serves as well.
    pub fn has_rules_of(&self, index: AcceptorIndex, other: &Acceptor) -> bool {
        let acceptor = self.all.get(index.get());
        acceptor.is_some_and(|acceptor| acceptor.has_rules_of(other))
    }

    /// Every acceptor of the address, by index.
    pub fn all(&self) -> &[Arc<Acceptor>] {
        &self.all
    }

    fn place(&self, name: Option<&str>) -> AcceptorIndex {
        let Some(name) = name.and_then(Lowercase::new) else {
            return self.default;
        };
        let name = name.as_str();
        let parents = name
            .match_indices('.')
            .filter_map(|(dot, _)| self.under.get(name.get(dot + 1..)?));
        self.exact
            .get(name)
            .into_iter()
            .chain(parents)
            .next()
            .copied()
            .unwrap_or(self.default)
    }
}
