//! PEM texts (RFC 7468) of certificates and of their keys.

use std::fmt;

use base64ct::{Base64, Encoding as _};
use x509_parser::pem::Pem;

/// Bytes of DER in a line of 64 characters.
const OF_LINE: usize = 48;

/// A private key as PEM (PKCS #8). `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPem(String);

impl KeyPem {
    /// Of a text that is PEM.
    pub(super) fn new(pem: String) -> Self {
        Self(pem)
    }

    /// The text, which is the secret.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for KeyPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPem(…)")
    }
}

/// A certificate as PEM, with a line end behind it.
pub(super) fn certificate_pem(der: &[u8]) -> String {
    pem(der, "CERTIFICATE")
}

/// DER as PEM with this label, with a line end behind it.
pub(crate) fn pem(der: &[u8], label: &str) -> String {
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(OF_LINE) {
        pem.push_str(&Base64::encode_string(line));
        pem.push('\n');
    }
    pem + &format!("-----END {label}-----\n")
}

/// The first section of a text with a label that ends in `kind`: `CERTIFICATE`, or `PRIVATE KEY` of any
/// kind.
pub(super) fn section(text: &[u8], kind: &str) -> Option<Vec<u8>> {
    let sections = Pem::iter_from_buffer(text).filter_map(Result::ok);
    let mut found = sections.filter(|pem| pem.label.ends_with(kind));
    found.next().map(|pem| pem.contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_of_a_certificate_is_read_back_and_that_of_a_key_not_shown() {
        for len in [0, 1, 47, 48, 49, 500] {
            let der = vec![7; len];
            let pem = certificate_pem(&der);
            assert!(pem.lines().all(|line| line.len() <= 64), "{pem}");
            assert_eq!(section(pem.as_bytes(), "CERTIFICATE"), Some(der), "{len}");
            assert_eq!(section(pem.as_bytes(), "PRIVATE KEY"), None);
        }
        assert_eq!(section(b"no PEM \xff", "CERTIFICATE"), None);
        let key = KeyPem::new("-----BEGIN PRIVATE KEY-----\nsecret".to_owned());
        assert!(!format!("{key:?}").contains("secret"));
    }
}
