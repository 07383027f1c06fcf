//! Comments at the start of the file: what it does otherwise than the source, without one statement
//! that could say so.

use super::Importer;

/// Listeners of IPv4 alone.
const IPV6: &str = "HAProxy binds a port alone, * and 0.0.0.0 for IPv4 only. This file binds such ports for IPv6 too: write listen = [\"0.0.0.0\"] in a site, or the key \"0.0.0.0:PORT\" in [tcp], to keep to IPv4.";

/// `timeout server`.
pub(super) const PAUSES: &str = "HAProxy's `timeout server` also ends a response that pauses in its body. timeouts.response is the time until the end of its head: later pauses are not ended.";

/// A folder of certificates.
pub(super) const DEFAULT_CERTIFICATE: &str = "HAProxy gives the first certificate of a folder to clients without a known server name. This file refuses them there: name that certificate in tls = { default = \"FILE\" }.";

impl Importer<'_> {
    /// Writes the comments.
    pub(super) fn preface(&mut self) {
        if self
            .ipv4_ports
            .difference(&self.ipv6_ports)
            .next()
            .is_some()
        {
            self.notes.insert(IPV6);
        }
        let notes = self.notes.iter().map(|note| (*note).to_owned());
        self.draft.preface.extend(notes);
    }
}
