//! Fields of a version 2 header beside the addresses: type, length, value (§2.2.1 to §2.2.8).

use std::borrow::Cow;
use std::str;

use super::{ProxyError, crc32c};

/// The longest value that is sent; also the longest accepted ALPN name (RFC 7301 §3.1) and
/// authority.
pub const VALUE_MAX: usize = 255;

const ALPN: u8 = 0x01;
const AUTHORITY: u8 = 0x02;
const CRC32C: u8 = 0x03;
const UNIQUE_ID: u8 = 0x05;
const UNIQUE_ID_MAX: usize = 128; // §2.2.5
const SSL: u8 = 0x20;
const SSL_VERSION: u8 = 0x21;
const SSL_CN: u8 = 0x22;
const SSL_CIPHER: u8 = 0x23;

/// The fields that a relay sends and reads; other types are skipped when parsing.
///
/// An empty value counts as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tlvs<'a> {
    /// The application protocol that was negotiated (§2.2.1), such as `h2`.
    pub alpn: Option<Cow<'a, [u8]>>,
    /// The name that the client requested, such as its SNI (§2.2.2).
    pub authority: Option<Cow<'a, str>>,
    /// The client's TLS, if any (§2.2.6).
    pub ssl: Option<Ssl<'a>>,
}

/// The TLS of the client's connection (§2.2.6).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ssl<'a> {
    /// Sum of [`Ssl::OVER_TLS`], [`Ssl::CERTIFICATE_NOW`], [`Ssl::CERTIFICATE_IN_SESSION`].
    pub client: u8,
    /// 0 if the client presented a certificate and it was verified, anything else if not.
    pub verify: u32,
    /// Such as `TLSv1.3`.
    pub version: Option<Cow<'a, str>>,
    /// Common name of the client's certificate.
    pub common_name: Option<Cow<'a, str>>,
    /// Such as `TLS_AES_128_GCM_SHA256`.
    pub cipher: Option<Cow<'a, str>>,
}

impl Ssl<'_> {
    /// PP2_CLIENT_SSL: the client connected over TLS.
    pub const OVER_TLS: u8 = 0x01;
    /// PP2_CLIENT_CERT_CONN: it presented a certificate over this connection.
    pub const CERTIFICATE_NOW: u8 = 0x02;
    /// PP2_CLIENT_CERT_SESS: it presented one at least once in the TLS session.
    pub const CERTIFICATE_IN_SESSION: u8 = 0x04;
}

/// Reads the fields from `offset` to the end of the header, and checks the checksum if there is
/// one.
pub(super) fn parse(header: &[u8], offset: usize) -> Result<Tlvs<'static>, ProxyError> {
    let mut tlvs = Tlvs::default();
    let mut seen = SeenTlvs::default();
    let mut walk = TlvReader(header.get(offset..).unwrap_or_default());
    while let Some((kind, value)) = walk.next()? {
        match kind {
            ALPN => {
                seen.once(kind, value, VALUE_MAX)?;
                tlvs.alpn = Some(value)
                    .filter(|value| !value.is_empty())
                    .map(|value| Cow::Owned(value.to_vec()));
            }
            AUTHORITY => {
                seen.once(kind, value, VALUE_MAX)?;
                tlvs.authority = text(value)?;
            }
            CRC32C => {
                seen.once(kind, value, size_of::<u32>())?;
                check_crc(header, value, header.len() - walk.0.len())?;
            }
            UNIQUE_ID => seen.once(kind, value, UNIQUE_ID_MAX)?,
            SSL => {
                seen.once(kind, value, usize::MAX)?;
                tlvs.ssl = Some(parse_ssl(value)?);
            }
            _ => {} /* NOOP, NETNS and what is reserved, custom or unknown: §2.2 lets a receiver
                     * skip them */
        }
    }
    Ok(tlvs)
}

/// Appends all fields that are present, not empty and at most [`VALUE_MAX`] bytes.
pub(super) fn encode(out: &mut Vec<u8>, tlvs: &Tlvs<'_>) {
    push(out, ALPN, tlvs.alpn.as_deref());
    push(out, AUTHORITY, tlvs.authority.as_deref().map(str::as_bytes));
    let Some(ssl) = &tlvs.ssl else { return };
    let mut value = vec![ssl.client];
    value.extend_from_slice(&ssl.verify.to_be_bytes());
    push(
        &mut value,
        SSL_VERSION,
        ssl.version.as_deref().map(str::as_bytes),
    );
    push(
        &mut value,
        SSL_CN,
        ssl.common_name.as_deref().map(str::as_bytes),
    );
    push(
        &mut value,
        SSL_CIPHER,
        ssl.cipher.as_deref().map(str::as_bytes),
    );
    push_sized(out, SSL, &value);
}

fn parse_ssl(value: &[u8]) -> Result<Ssl<'static>, ProxyError> {
    let Some(([client, verify @ ..], rest)) = value.split_first_chunk::<5>() else {
        return Err(ProxyError::TlvLength);
    };
    let mut ssl = Ssl {
        client: *client,
        verify: u32::from_be_bytes(*verify),
        ..Ssl::default()
    };
    let mut seen = SeenTlvs::default();
    let mut walk = TlvReader(rest);
    while let Some((kind, value)) = walk.next()? {
        let field = match kind {
            SSL_VERSION => &mut ssl.version,
            SSL_CN => &mut ssl.common_name,
            SSL_CIPHER => &mut ssl.cipher,
            _ => continue,
        };
        seen.once(kind, value, usize::MAX)?;
        *field = text(value)?;
    }
    Ok(ssl)
}

/// `end` is where the value ends in the header.
fn check_crc(header: &[u8], value: &[u8], end: usize) -> Result<(), ProxyError> {
    let told: [u8; 4] = value.try_into().map_err(|_| ProxyError::TlvLength)?;
    let (before, after) = header.split_at_checked(end).ok_or(ProxyError::TlvLength)?;
    let (before, _) = before
        .split_at_checked(end - told.len())
        .ok_or(ProxyError::TlvLength)?;
    match u32::from_be_bytes(told) == crc32c::of(&[before, &[0; 4], after]) {
        true => Ok(()),
        false => Err(ProxyError::Checksum),
    }
}

/// Control characters are refused: these texts go to logs and are compared with names.
fn text(value: &[u8]) -> Result<Option<Cow<'static, str>>, ProxyError> {
    let text = str::from_utf8(value).map_err(|_| ProxyError::TlvText)?;
    if text.chars().any(char::is_control) {
        return Err(ProxyError::TlvText);
    }
    Ok(Some(text)
        .filter(|text| !text.is_empty())
        .map(|text| Cow::Owned(text.to_owned())))
}

fn push(out: &mut Vec<u8>, kind: u8, value: Option<&[u8]>) {
    match value {
        Some(value) if (1..=VALUE_MAX).contains(&value.len()) => push_sized(out, kind, value),
        _ => {}
    }
}

fn push_sized(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let length = u16::try_from(value.len()).expect("at most four values of 255 bytes");
    out.push(kind);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value);
}

/// An iterator over TLVs, up to the last byte.
struct TlvReader<'a>(&'a [u8]);

impl<'a> TlvReader<'a> {
    fn next(&mut self) -> Result<Option<(u8, &'a [u8])>, ProxyError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let Some(([kind, length @ ..], rest)) = self.0.split_first_chunk::<3>() else {
            return Err(ProxyError::TlvLength);
        };
        let length = usize::from(u16::from_be_bytes(*length));
        let (value, rest) = rest.split_at_checked(length).ok_or(ProxyError::TlvLength)?;
        self.0 = rest;
        Ok(Some((*kind, value)))
    }
}

/// The types that have been seen: a bit for each type below 0x40, which include all that we read.
#[derive(Default)]
struct SeenTlvs(u64);

impl SeenTlvs {
    fn once(&mut self, kind: u8, value: &[u8], max: usize) -> Result<(), ProxyError> {
        let bit = 1 << (kind & 0x3F);
        if self.0 & bit != 0 {
            return Err(ProxyError::TlvTwice);
        }
        self.0 |= bit;
        if value.len() > max {
            Err(ProxyError::TlvTooLong)
        } else {
            Ok(())
        }
    }
}
