//! PROXY headers: the one that a client's connection begins with, the one that an endpoint is sent.

/// A version of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyVersion {
    /// The line of text.
    V1,
    /// The binary header, with TLVs.
    V2,
}

impl ProxyVersion {
    /// The word for it in a configuration: `v1`, `v2`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }
}

/// Whether a listener's clients come through a proxy that tells their address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptProxy {
    /// They do not: a header would be data.
    Never,
    /// Those from trusted addresses may.
    Optional,
    /// All do, from trusted addresses; a connection without a header is closed.
    Require,
}

impl AcceptProxy {
    /// The word for it in a configuration; `never` for `false`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Optional => "optional",
            Self::Require => "require",
        }
    }
}

/// The PROXY header that an endpoint is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SentHeader {
    /// One of our own.
    Own(ProxyVersion),
    /// The one that has come, as it came. Where none has, or it is not believed, one of version 2
    /// of our own: a header that the client wrote would be believed.
    Pass,
}

impl SentHeader {
    /// The word for it in a configuration: `v1`, `v2`, `pass`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Own(version) => version.name(),
            Self::Pass => "pass",
        }
    }
}
