//! The TLS versions, cipher suites and groups that can be named, and the two ready-made policies.
//!
//! Does not know rustls: the shell maps these names to it.

/// The versions of TLS that Lockgate speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2, as RFC 5246 defines it.
    Tls12,
    /// TLS 1.3, as RFC 8446 defines it.
    Tls13,
}

/// The cipher suites that Lockgate knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each is named by `name()`
pub enum Suite {
    Tls13Aes128GcmSha256,
    Tls13Aes256GcmSha384,
    Tls13Chacha20Poly1305Sha256,
    EcdheEcdsaAes128GcmSha256,
    EcdheEcdsaAes256GcmSha384,
    EcdheEcdsaChacha20Poly1305Sha256,
    EcdheRsaAes128GcmSha256,
    EcdheRsaAes256GcmSha384,
    EcdheRsaChacha20Poly1305Sha256,
}

/// The key exchange groups that Lockgate knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each is named by `name()`
pub enum Group {
    X25519MlKem768,
    Secp256r1MlKem768,
    X25519,
    Secp256r1,
    Secp384r1,
}

/// A ready-made choice of versions, suites and groups.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TlsPreset {
    pub(crate) versions: Vec<TlsVersion>,
    pub(crate) suites: Vec<Suite>,
    pub(crate) groups: Vec<Group>,
}

impl TlsPreset {
    /// Mozilla's intermediate profile, with AES before ChaCha20: aws-lc is much faster at it.
    pub(crate) fn intermediate() -> TlsPreset {
        TlsPreset {
            versions: TlsVersion::ALL.to_vec(),
            suites: Suite::ALL.to_vec(),
            groups: vec![
                Group::X25519MlKem768,
                Group::X25519,
                Group::Secp256r1,
                Group::Secp384r1,
            ],
        }
    }

    /// The policy `modern`: TLS 1.3 only.
    pub(crate) fn modern() -> TlsPreset {
        let mut policy = TlsPreset::intermediate();
        policy.keep_versions(&[TlsVersion::Tls13]);
        policy
    }

    /// Leaves out every other version, and the suites that only they use.
    pub(crate) fn keep_versions(&mut self, versions: &[TlsVersion]) {
        self.versions = versions.to_vec();
        self.suites
            .retain(|suite| versions.contains(&suite.version()));
    }
}

impl TlsVersion {
    /// Every version of TLS, the oldest first.
    pub const ALL: [TlsVersion; 2] = [TlsVersion::Tls12, TlsVersion::Tls13];

    /// The spelling in the configuration: `1.2`, `1.3`.
    pub fn name(self) -> &'static str {
        match self {
            TlsVersion::Tls12 => "1.2",
            TlsVersion::Tls13 => "1.3",
        }
    }
}

impl Suite {
    /// Every suite, in the order in which the policies prefer them.
    pub const ALL: [Suite; 9] = [
        Suite::Tls13Aes128GcmSha256,
        Suite::Tls13Aes256GcmSha384,
        Suite::Tls13Chacha20Poly1305Sha256,
        Suite::EcdheEcdsaAes128GcmSha256,
        Suite::EcdheRsaAes128GcmSha256,
        Suite::EcdheEcdsaAes256GcmSha384,
        Suite::EcdheRsaAes256GcmSha384,
        Suite::EcdheEcdsaChacha20Poly1305Sha256,
        Suite::EcdheRsaChacha20Poly1305Sha256,
    ];

    /// The spelling in rustls: that of IANA, but for TLS 1.3 with the prefix `TLS13_`.
    pub fn name(self) -> &'static str {
        match self {
            Suite::Tls13Aes128GcmSha256 => "TLS13_AES_128_GCM_SHA256",
            Suite::Tls13Aes256GcmSha384 => "TLS13_AES_256_GCM_SHA384",
            Suite::Tls13Chacha20Poly1305Sha256 => "TLS13_CHACHA20_POLY1305_SHA256",
            Suite::EcdheEcdsaAes128GcmSha256 => "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            Suite::EcdheEcdsaAes256GcmSha384 => "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            Suite::EcdheEcdsaChacha20Poly1305Sha256 => {
                "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
            }
            Suite::EcdheRsaAes128GcmSha256 => "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            Suite::EcdheRsaAes256GcmSha384 => "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            Suite::EcdheRsaChacha20Poly1305Sha256 => "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        }
    }

    /// The only version that can negotiate it.
    pub fn version(self) -> TlsVersion {
        if self.name().starts_with("TLS13_") {
            TlsVersion::Tls13
        } else {
            TlsVersion::Tls12
        }
    }

    /// Parses the spelling of rustls or of IANA.
    pub(crate) fn parse(text: &str) -> Option<Suite> {
        Suite::ALL
            .into_iter()
            .find(|suite| suite.name() == text || suite.iana() == text)
    }

    /// The suite that OpenSSL calls so, for suggestions.
    pub(crate) fn from_openssl(text: &str) -> Option<Suite> {
        Suite::ALL
            .into_iter()
            .find(|suite| suite.openssl().eq_ignore_ascii_case(text))
    }

    fn iana(self) -> String {
        self.name().replacen("TLS13_", "TLS_", 1)
    }

    fn openssl(self) -> String {
        let name = match self.version() {
            TlsVersion::Tls13 => return self.iana(),
            TlsVersion::Tls12 => self.name().replace("TLS_", "").replace("_WITH", ""),
        };
        let name = name.replace("POLY1305_SHA256", "POLY1305");
        name.replace("AES_128", "AES128")
            .replace("AES_256", "AES256")
            .replace('_', "-")
    }
}

impl Group {
    /// Every group that can be named.
    pub const ALL: [Group; 5] = [
        Group::X25519MlKem768,
        Group::Secp256r1MlKem768,
        Group::X25519,
        Group::Secp256r1,
        Group::Secp384r1,
    ];

    /// The spelling in IANA's registry.
    pub fn name(self) -> &'static str {
        match self {
            Group::X25519MlKem768 => "X25519MLKEM768",
            Group::Secp256r1MlKem768 => "SECP256R1MLKEM768",
            Group::X25519 => "X25519",
            Group::Secp256r1 => "secp256r1",
            Group::Secp384r1 => "secp384r1",
        }
    }

    /// The group that others call so, for suggestions.
    pub(crate) fn from_other(text: &str) -> Option<Group> {
        match text.to_ascii_lowercase().as_str() {
            "p-256" | "p256" | "prime256v1" => Some(Group::Secp256r1),
            "p-384" | "p384" => Some(Group::Secp384r1),
            "curve25519" => Some(Group::X25519),
            _ => Group::ALL
                .into_iter()
                .find(|group| group.name().eq_ignore_ascii_case(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_is_known_by_the_names_of_rustls_and_iana() {
        assert_eq!(
            Suite::parse("TLS13_AES_128_GCM_SHA256"),
            Some(Suite::Tls13Aes128GcmSha256)
        );
        assert_eq!(
            Suite::parse("TLS_AES_128_GCM_SHA256"),
            Some(Suite::Tls13Aes128GcmSha256)
        );
        assert_eq!(Suite::parse("ECDHE-RSA-AES128-GCM-SHA256"), None);
        for suite in Suite::ALL {
            assert_eq!(Suite::parse(suite.name()), Some(suite));
            assert_eq!(Suite::from_openssl(&suite.openssl()), Some(suite));
        }
    }

    #[test]
    fn openssl_names_lead_to_ours() {
        let of = |text| Suite::from_openssl(text).map(Suite::name);
        assert_eq!(
            of("ECDHE-RSA-CHACHA20-POLY1305"),
            Some("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256")
        );
        assert_eq!(
            of("ECDHE-ECDSA-AES256-GCM-SHA384"),
            Some("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384")
        );
        assert_eq!(of("AES128-SHA"), None);
    }

    #[test]
    fn modern_is_tls_1_3_only() {
        let modern = TlsPreset::modern();
        assert_eq!(modern.versions, [TlsVersion::Tls13]);
        assert_eq!(modern.suites.len(), 3);
        assert_eq!(modern.groups.first(), Some(&Group::X25519MlKem768));
    }
}
