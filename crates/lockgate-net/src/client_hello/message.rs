//! The ClientHello message (RFC 8446 §4.1.2, RFC 5246 §7.4.1.2) and the extensions that choose a
//! route.

use std::borrow::Cow;

use super::HelloError::{self, Malformed};
use super::server_name;
use super::vector_reader::VectorReader;

pub(crate) const RANDOM: usize = 32;
pub(crate) const SESSION_ID_MAX: usize = 32;

const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
const ALPN: u16 = 16;
pub(crate) const SUPPORTED_VERSIONS: u16 = 43;

/// The contents of a ClientHello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientHello<'a> {
    /// The DNS name in SNI (RFC 6066 §3), in lower case, without a dot at the end. `None` if there
    /// is none, or it is the literal of an IP address.
    pub server_name: Option<Box<str>>,
    /// The session to resume (RFC 5246 §7.4.1.2), at most 32 bytes; empty if there is none. With a
    /// ticket, or TLS 1.3, it is often random.
    pub session_id: Cow<'a, [u8]>,
    /// The newest version on offer; `None` if none is known here.
    pub newest: Option<HelloVersion>,
    /// The length of the hello with its records' headers. Never more than the given bytes.
    pub len: usize,
    /// The ProtocolNameList without its length, checked; empty if there is none.
    alpn: Cow<'a, [u8]>,
}

/// A version of TLS, as hellos name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HelloVersion {
    /// TLS 1.0
    Tls10,
    /// TLS 1.1
    Tls11,
    /// TLS 1.2
    Tls12,
    /// TLS 1.3
    Tls13,
}

impl ClientHello<'_> {
    /// The offered protocols (RFC 7301 §3.1), the preferred one first, GREASE values included.
    pub fn alpn(&self) -> impl Iterator<Item = &[u8]> {
        let mut list = VectorReader(&self.alpn);
        std::iter::from_fn(move || list.vec8())
    }

    /// The same with owned bytes.
    pub fn into_owned(self) -> ClientHello<'static> {
        let session_id = Cow::Owned(self.session_id.into_owned());
        ClientHello {
            alpn: Cow::Owned(self.alpn.into_owned()),
            session_id,
            ..self
        }
    }
}

/// Parses the whole body of the message; `len` is its length on the wire.
pub(super) fn parse(body: &[u8], len: usize) -> Result<ClientHello<'_>, HelloError> {
    let mut body = VectorReader(body);
    let legacy_version = body.u16().ok_or(Malformed("version"))?;
    if legacy_version <= 0x0300 {
        return Err(HelloError::Ssl3); // RFC 8446 appendix D.5, whatever the extensions say
    }
    body.take(RANDOM).ok_or(Malformed("random"))?;
    let session_id = body
        .vec8()
        .filter(|id| id.len() <= SESSION_ID_MAX)
        .ok_or(Malformed("session id"))?;
    body.vec16()
        .filter(|suites| is_list_of_u16(suites))
        .ok_or(Malformed("cipher suites"))?;
    body.vec8()
        .filter(|methods| !methods.is_empty())
        .ok_or(Malformed("compression methods"))?;
    let newest = HelloVersion::newest_of([legacy_version.min(0x0303)]);
    let session_id = Cow::Borrowed(session_id);
    let mut hello = ClientHello {
        server_name: None,
        session_id,
        newest,
        len,
        alpn: Cow::Borrowed(&[]),
    };
    if body.is_empty() {
        return Ok(hello); // RFC 5246 §7.4.1.2: extensions may be missing altogether
    }
    let extensions = body.vec16().ok_or(Malformed("extensions"))?;
    if !body.is_empty() {
        return Err(Malformed("more after the extensions"));
    }
    read_extensions(&mut hello, VectorReader(extensions))?;
    Ok(hello)
}

fn read_extensions<'a>(
    hello: &mut ClientHello<'a>,
    mut extensions: VectorReader<'a>,
) -> Result<(), HelloError> {
    let mut seen = SeenExtensions::new();
    while !extensions.is_empty() {
        let kind = extensions.u16().ok_or(Malformed("extension type"))?;
        let content = extensions.vec16().ok_or(Malformed("extension length"))?;
        seen.once(kind)?;
        match kind {
            SERVER_NAME => hello.server_name = server_name(content)?,
            ALPN => hello.alpn = Cow::Borrowed(protocol_names(content)?),
            SUPPORTED_VERSIONS => hello.newest = supported_versions(content)?,
            _ => {}
        }
    }
    Ok(())
}

/// RFC 6066 §3: a list with one name of each type. Types to come begin with a 16-bit length too.
fn server_name(content: &[u8]) -> Result<Option<Box<str>>, HelloError> {
    const WRONG: HelloError = Malformed("server_name");
    let mut list = VectorReader(only_vec16(content).ok_or(WRONG)?);
    let mut host_name = None;
    while !list.is_empty() {
        let kind = list.u8().ok_or(WRONG)?;
        let name = list.vec16().filter(|name| !name.is_empty()).ok_or(WRONG)?;
        if kind == HOST_NAME && host_name.replace(name).is_some() {
            return Err(WRONG);
        }
    }
    host_name.map_or(Ok(None), server_name::read)
}

/// RFC 7301 §3.1: names of at least one byte, at least one of them.
fn protocol_names(content: &[u8]) -> Result<&[u8], HelloError> {
    const WRONG: HelloError = Malformed("application_layer_protocol_negotiation");
    let names = only_vec16(content).ok_or(WRONG)?;
    let mut list = VectorReader(names);
    while !list.is_empty() {
        list.vec8().filter(|name| !name.is_empty()).ok_or(WRONG)?;
    }
    Ok(names)
}

/// RFC 8446 §4.2.1
fn supported_versions(content: &[u8]) -> Result<Option<HelloVersion>, HelloError> {
    const WRONG: HelloError = Malformed("supported_versions");
    let mut content = VectorReader(content);
    let list = content
        .vec8()
        .filter(|list| is_list_of_u16(list))
        .ok_or(WRONG)?;
    if !content.is_empty() {
        return Err(WRONG);
    }
    let mut list = VectorReader(list);
    Ok(HelloVersion::newest_of(std::iter::from_fn(|| list.u16())))
}

/// A non-empty vector that fills all of `content`.
fn only_vec16(content: &[u8]) -> Option<&[u8]> {
    let mut content = VectorReader(content);
    content
        .vec16()
        .filter(|vector| !vector.is_empty() && content.is_empty())
}

fn is_list_of_u16(list: &[u8]) -> bool {
    !list.is_empty() && list.len().is_multiple_of(2)
}

impl HelloVersion {
    /// GREASE (RFC 8701), drafts and SSL 3.0 do not count.
    pub(crate) fn newest_of(versions: impl IntoIterator<Item = u16>) -> Option<Self> {
        let known = versions.into_iter().filter_map(|version| match version {
            0x0301 => Some(Self::Tls10),
            0x0302 => Some(Self::Tls11),
            0x0303 => Some(Self::Tls12),
            0x0304 => Some(Self::Tls13),
            _ => None,
        });
        known.max()
    }
}

/// The extension types that have been seen, one bit each: a hello has room for thousands of
/// extensions, and comparing each with all earlier ones would let the client decide how long we
/// work.
struct SeenExtensions([u64; 1024]);

impl SeenExtensions {
    fn new() -> Self {
        Self([0; 1024])
    }

    fn once(&mut self, kind: u16) -> Result<(), HelloError> {
        let bit = 1 << (kind % 64);
        let word = self
            .0
            .get_mut(usize::from(kind / 64))
            .expect("65536 bits, one for each type");
        let twice = *word & bit != 0;
        *word |= bit;
        if twice {
            Err(HelloError::ExtensionTwice)
        } else {
            Ok(())
        }
    }
}
