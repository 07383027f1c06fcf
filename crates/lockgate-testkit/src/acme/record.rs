//! What the authority remembers of what clients did, for tests to look at.

use std::time::SystemTime;

use super::fault::Resource;

/// One request.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// When it came.
    pub at: SystemTime,
    /// What it was for.
    pub resource: Resource,
    /// Who signed it, as the place in [`crate::AcmeServer::accounts`]; `None` when it was not signed
    /// by an account.
    pub account: Option<usize>,
    /// The names that it is about.
    pub names: Vec<String>,
    /// The profile of a new order.
    pub profile: Option<String>,
    /// The certificate that a new order replaces (RFC 9773 §5).
    pub replaces: Option<String>,
    /// The status of the response; `None` while there is none, or when there was never one.
    pub status: Option<u16>,
    /// The type of the error that was the response.
    pub problem: Option<String>,
}

/// An account.
#[derive(Clone, Debug)]
pub struct AccountRecord {
    /// Its URL.
    pub url: String,
    /// Its contacts, as URLs.
    pub contact: Vec<String>,
    /// The thumbprint of its key (RFC 7638).
    pub thumbprint: String,
    /// Its identifier outside ACME, where one was bound to it (RFC 8555 §7.3.4).
    pub external: Option<String>,
}

/// An order.
#[derive(Clone, Debug)]
pub struct OrderRecord {
    /// Its URL.
    pub url: String,
    /// Whose it is, as the place in [`crate::AcmeServer::accounts`].
    pub account: usize,
    /// The names.
    pub names: Vec<String>,
    /// The profile that was asked for.
    pub profile: Option<String>,
    /// The certificate that it replaces (RFC 9773 §5).
    pub replaces: Option<String>,
    /// Its status (RFC 8555 §7.1.6).
    pub status: &'static str,
}

/// A validation that came to its end.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The name.
    pub name: String,
    /// The kind of the challenge: `http-01`, `tls-alpn-01`, `dns-01`.
    pub kind: &'static str,
    /// The type of the error that it ended with, and its text.
    pub error: Option<(String, String)>,
}

/// A certificate that was issued.
#[derive(Clone, Debug)]
pub struct IssuedCertificate {
    /// The names.
    pub names: Vec<String>,
    /// Whose it is, as the place in [`crate::AcmeServer::accounts`].
    pub account: usize,
    /// The profile that its order asked for.
    pub profile: Option<String>,
    /// What RFC 9773 §4.1 calls it.
    pub id: String,
    /// The first moment of its validity, in whole seconds.
    pub not_before: SystemTime,
    /// The last moment of its validity, in whole seconds.
    pub not_after: SystemTime,
    /// The certificate.
    pub der: Vec<u8>,
    /// The certificate and the one that issued it, in PEM.
    pub chain: String,
    /// The reason of its revocation (RFC 5280 §5.3.1), once it is revoked.
    pub revoked: Option<u64>,
}
