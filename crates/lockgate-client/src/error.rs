//! Errors of a client, in words for logs and metrics.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::Duration;

use lockgate_http::h1::body::BodyError;
use lockgate_net::tls::handshake::HandshakeError;

/// The reason why there is no whole response.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no address.
    #[error("its name does not resolve")]
    Unresolved,
    /// No address accepts; the reason of the last one.
    #[error("cannot connect: {0}")]
    Unreachable(io::Error),
    /// The handshake failed, or the server is another than expected.
    #[error("TLS: {0}")]
    Tls(#[from] HandshakeError),
    /// A reset, or a refused record of TLS.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// The connection ended, without an error, before the end of the response.
    #[error("no response before the connection ended")]
    Ended,
    /// A head, trailers or the coding of a body are invalid.
    #[error("the response is malformed: {0}")]
    Malformed(String),
    /// The heads together exceed their limit.
    #[error("the response is too long")]
    TooLong,
    /// The stream or the connection failed.
    #[error("HTTP/2: {0}")]
    Http2(String),
    /// The method, host, path or a field is none.
    #[error("the request cannot be sent")]
    InvalidRequest,
    /// The time of [`ExchangeLimits`](crate::ExchangeLimits) is up.
    #[error("no response within {0:?}")]
    Late(Duration),
}

impl ClientError {
    /// What hyper says of a chunked body, and the judge of a head, in the words of our codec where
    /// it has them.
    fn chunked(text: String) -> Self {
        let known = [
            ("extension", BodyError::Extension),
            ("size", BodyError::Size),
            ("body", BodyError::LineEnd),
        ];
        let word = known.iter().find(|(word, _)| text.contains(word));
        Self::Malformed(word.map_or(text, |(_, error)| error.to_string()))
    }
}

impl From<hyper::Error> for ClientError {
    fn from(error: hyper::Error) -> Self {
        let mut cause: &(dyn Error + 'static) = &error;
        while !cause.is::<io::Error>()
            && let Some(next) = cause.source()
        {
            cause = next;
        }
        let text = cause.to_string();
        match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(ErrorKind::UnexpectedEof) => Self::Ended,
            Some(ErrorKind::FileTooLarge) => Self::TooLong,
            Some(ErrorKind::InvalidInput | ErrorKind::InvalidData) => Self::chunked(text),
            Some(kind) => Self::Broken(io::Error::new(kind, text)),
            None if error.is_parse() => Self::Malformed(text),
            // Otherwise hyper has no cause but the end.
            None if cause.is::<hyper::Error>() => Self::Ended,
            None => Self::Broken(io::Error::other(text)),
        }
    }
}
