//! PROXY headers: received from clients' proxies, and sent to endpoints.

/// A version of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyVersion {
    /// Version 1, a line of text.
    V1,
    /// Version 2, binary, with TLVs.
    V2,
}

impl ProxyVersion {
    /// The word in the configuration: `v1`, `v2`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }
}

/// Whether connections of a listener begin with a PROXY header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptProxy {
    /// Never: a header would count as data.
    Never,
    /// Optional, from trusted addresses.
    Optional,
    /// Always, from trusted addresses; a connection without a header is closed.
    Require,
}

impl AcceptProxy {
    /// The word in the configuration; `never` for `false`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Optional => "optional",
            Self::Require => "require",
        }
    }
}

/// The PROXY header that endpoints receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SentHeader {
    /// A header that Lockgate writes.
    Own(ProxyVersion),
    /// The received header, unchanged. Without a trusted one, Lockgate writes its own of version 2:
    /// an untrusted header from a client would be believed by the endpoint.
    Pass,
}

impl SentHeader {
    /// The word in the configuration: `v1`, `v2`, `pass`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Own(version) => version.name(),
            Self::Pass => "pass",
        }
    }
}
