//! TLS on both sides: certificates, tickets, policy, handshakes and records.
//!
//! The only module of the project that names a type of rustls. It reads files on request and
//! watches nothing: the supervisor decides when to call `reload` and `rotate_if_due`.
//!
//! - `server`: [`Acceptor`], TLS to clients · `acceptors`: the choice of one by SNI · `client`:
//!   [`Connector`], TLS to endpoints · `presented`: the certificate of a server
//! - `cert_store`: certificates by SNI · `certs`: one certificate from its files (`cert_files`) ·
//!   `pem`, `x509`, `private_key`, `ocsp`: the contents of these · `file_stamp`: whether they
//!   changed · `challenge_cert`: the certificate of a challenge by TLS-ALPN-01
//! - `tickets`: session tickets · `policy`: versions, suites, groups · `verify`: client
//!   certificates

mod acceptors;
mod cert_files;
mod cert_store;
mod certs;
mod challenge_cert;
mod client;
mod error;
mod file_stamp;
#[cfg(test)]
mod fixtures;
pub mod handshake;
mod ocsp;
mod pem;
mod policy;
mod presented;
mod private_key;
pub mod record;
mod server;
pub mod session;
mod sni_pattern;
#[cfg(test)]
mod tests;
mod tickets;
mod verify;
mod x509;

pub use acceptors::{AcceptorIndex, Acceptors};
pub use cert_files::{CertFiles, ManagedCert};
pub use cert_store::{CertStore, CertSummary, ReloadReport};
pub(crate) use challenge_cert::ACME_TLS;
pub use challenge_cert::ChallengeCert;
pub use client::{CaSource, ClientSettings, Connector, ConnectorError};
pub use error::{CertError, TlsSetupError, Warning};
pub use file_stamp::{FileStamp, stamp};
pub use policy::{Group, Policy, PolicyError, Suite, Version};
pub use presented::presented;
pub use private_key::{KeyKind, is_readable_by_all};
pub use server::{Acceptor, HandshakeSettings, ServerSettings};
pub use sni_pattern::SniPattern;
pub use tickets::{HandedKeys, KeyRotation, KeysReloaded, TicketError, TicketRing};
pub use verify::{ClientAuthMode, ClientAuthSettings, common_name};
pub use x509::CertFacts;
