//! The reasons why handshakes fail, for logs and metrics.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

use super::super::client::ConnectorError;
use super::super::verify;

/// The reason why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The connection broke before the end.
    #[error("connection broke: {0}")]
    Io(#[from] io::Error),
    /// The peer closed before the handshake was over.
    #[error("peer closed during the handshake")]
    Closed,
    /// TLS could not agree, or the peer did not prove its identity.
    #[error("{}", shown(.0))]
    Tls(#[from] Error),
    /// The endpoint has no name to verify its certificate against.
    #[error(transparent)]
    Name(#[from] ConnectorError),
    /// The peer sends without ever completing a message.
    #[error("handshake message too long")]
    TooLong,
}

impl HandshakeError {
    /// Whether the peer's certificate was refused.
    pub fn is_certificate(&self) -> bool {
        matches!(
            self,
            Self::Tls(Error::InvalidCertificate(_) | Error::InvalidCertRevocationList(_))
        )
    }

    /// Whether the peer's certificate was refused because it is an authority's own.
    pub fn is_authority(&self) -> bool {
        matches!(
            self,
            Self::Tls(Error::InvalidCertificate(CertificateError::Other(other)))
                if verify::is_authority(other)
        )
    }

    /// The reason as a word of a closed list, for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Io(_) | Self::Closed => "closed",
            Self::TooLong => "malformed",
            Self::Name(_) => "other",
            Self::Tls(error) => reason(error),
        }
    }
}

/// The message of rustls, except where only its source explains the error.
fn shown(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::Other(other))
            if verify::is_old_version(other) =>
        {
            "the peer's certificate is X.509 version 1 or 2; version 3 is needed".to_owned()
        }
        Error::InvalidCertificate(CertificateError::Other(other))
            if verify::is_authority(other) =>
        {
            "the peer's certificate is an authority's own (CA:TRUE, as `openssl req -x509` makes it), \
             which no server may have; make it with -addext basicConstraints=CA:FALSE"
                .to_owned()
        }
        error => error.to_string(),
    }
}

fn reason(error: &Error) -> &'static str {
    match error {
        Error::NoApplicationProtocol => "no_application_protocol",
        Error::PeerIncompatible(
            PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::Tls13RequiredForQuic
            | PeerIncompatible::ServerDoesNotSupportTls12Or13,
        ) => "no_common_version",
        Error::PeerIncompatible(_) => "no_common_cipher",
        Error::NoCertificatesPresented => "no_client_certificate",
        Error::InvalidCertificate(_) | Error::InvalidCertRevocationList(_) => "bad_certificate",
        Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::UnsupportedCertificate,
        ) => "refused_our_certificate",
        Error::AlertReceived(_) => "alert",
        Error::InvalidMessage(_)
        | Error::PeerMisbehaved(_)
        | Error::InappropriateMessage { .. } => "malformed",
        Error::InappropriateHandshakeMessage { .. } | Error::DecryptError => "malformed",
        _ => "other",
    }
}
