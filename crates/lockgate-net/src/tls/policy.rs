//! TLS versions, cipher suites and key exchange groups.
//!
//! The server chooses the suite in its own order: AES-128 first. It is the cheapest on machines
//! with AES instructions, which all of ours and nearly all clients have. Clients without them
//! prefer ChaCha20; they are slower at AES, but for their own bytes only. Operators with many such
//! clients put ChaCha20 first.
//!
//! The order of the groups is the order of offers to endpoints. For clients the set counts: rustls
//! takes the first group of the *client's* list that is in it, which is X25519MLKEM768 for all that
//! support it.

use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// Versions, suites and groups; valid by construction: every version has a suite and a group, every
/// suite a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    versions: Vec<Version>,
    suites: Vec<Suite>,
    groups: Vec<Group>,
}

/// The reason why names do not form a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// An unknown or unsupported TLS version.
    #[error("unknown TLS version {name:?}; known are 1.2 and 1.3")]
    UnknownVersion {
        /// The name as the configuration has it.
        name: String,
    },
    /// An unknown or unsupported suite.
    #[error("unknown cipher suite {name:?}; known are {}", names_of(Suite::ALL))]
    UnknownSuite {
        /// The name as the configuration has it.
        name: String,
    },
    /// An unknown or unsupported group.
    #[error(
        "unknown key exchange group {name:?}; known are {}",
        names_of(Group::ALL)
    )]
    UnknownGroup {
        /// The name as the configuration has it.
        name: String,
    },
    /// A name that is in a list twice.
    #[error("{name} is named twice")]
    Repeated {
        /// The canonical spelling of the name.
        name: &'static str,
    },
    /// A version without a suite.
    #[error("no cipher suite works with TLS {}", .version.name())]
    NoSuite {
        /// The version that nothing serves.
        version: Version,
    },
    /// A suite that could never be chosen.
    #[error("{} is for TLS {}, which is not among the versions", .suite.name(), .suite.version().name())]
    SuiteWithoutVersion {
        /// The suite that no version uses.
        suite: Suite,
    },
    /// TLS 1.2 without a classical group: it has no post-quantum groups.
    #[error("TLS 1.2 needs one of the groups X25519, secp256r1, secp384r1")]
    NoGroupForTls12,
}

/// Defines an enum of values that have a name in the configuration, another spelling, and a value
/// of rustls.
macro_rules! named {
    ($(#[$doc:meta])* $kind:ident as $value:ty { $($(#[$of:meta])* $variant:ident = $name:literal, $also:literal, $is:expr;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $kind { $($(#[$of])* $variant,)+ }

        impl $kind {
            /// All values, the preferred one first.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The value with this name, in any case.
            pub fn parse(name: &str) -> Option<Self> {
                $(if name.eq_ignore_ascii_case($name) || name.eq_ignore_ascii_case($also) {
                    return Some(Self::$variant);
                })+
                None
            }

            /// The name in configuration and logs.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            fn of_rustls(self) -> $value {
                match self { $(Self::$variant => $is,)+ }
            }
        }

        impl NamedSetting for $kind {
            fn name(self) -> &'static str {
                Self::name(self)
            }
        }
    };
}

trait NamedSetting: Copy + PartialEq {
    fn name(self) -> &'static str;
}

named! {
    /// A version of TLS.
    Version as &'static SupportedProtocolVersion {
        /// RFC 5246.
        Tls12 = "1.2", "TLSv1_2", &rustls::version::TLS12;
        /// RFC 8446.
        Tls13 = "1.3", "TLSv1_3", &rustls::version::TLS13;
    }
}

named! {
    /// A cipher suite, by the names of rustls (TLS 1.3 ones also by IANA's, without the `13`).
    Suite as SupportedCipherSuite {
        /// TLS 1.3, AES-128.
        Tls13Aes128 = "TLS13_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256", cipher_suite::TLS13_AES_128_GCM_SHA256;
        /// TLS 1.3, AES-256.
        Tls13Aes256 = "TLS13_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384", cipher_suite::TLS13_AES_256_GCM_SHA384;
        /// TLS 1.3, ChaCha20.
        Tls13ChaCha20 = "TLS13_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256", cipher_suite::TLS13_CHACHA20_POLY1305_SHA256;
        /// TLS 1.2, ECDSA certificate, AES-128.
        EcdsaAes128 = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
        /// TLS 1.2, RSA certificate, AES-128.
        RsaAes128 = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256", cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256;
        /// TLS 1.2, ECDSA certificate, AES-256.
        EcdsaAes256 = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384;
        /// TLS 1.2, RSA certificate, AES-256.
        RsaAes256 = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384", cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384;
        /// TLS 1.2, ECDSA certificate, ChaCha20.
        EcdsaChaCha20 = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305", cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256;
        /// TLS 1.2, RSA certificate, ChaCha20.
        RsaChaCha20 = "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305", cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256;
    }
}

named! {
    /// A key exchange group.
    Group as &'static dyn SupportedKxGroup {
        /// X25519 and ML-KEM-768: safe against future quantum computers.
        X25519MlKem768 = "X25519MLKEM768", "X25519MLKEM768", kx_group::X25519MLKEM768;
        /// RFC 7748.
        X25519 = "X25519", "X25519", kx_group::X25519;
        /// NIST P-256.
        Secp256r1 = "secp256r1", "P-256", kx_group::SECP256R1;
        /// NIST P-384.
        Secp384r1 = "secp384r1", "P-384", kx_group::SECP384R1;
        /// NIST P-256 and ML-KEM-768.
        Secp256r1MlKem768 = "secp256r1MLKEM768", "SecP256r1MLKEM768", kx_group::SECP256R1MLKEM768;
        /// ML-KEM-768 alone.
        MlKem768 = "MLKEM768", "MLKEM768", kx_group::MLKEM768;
        /// ML-KEM-1024 alone.
        MlKem1024 = "MLKEM1024", "MLKEM1024", kx_group::MLKEM1024;
    }
}

impl Suite {
    /// The version that the suite belongs to.
    pub fn version(self) -> Version {
        match self {
            Self::Tls13Aes128 | Self::Tls13Aes256 | Self::Tls13ChaCha20 => Version::Tls13,
            _ => Version::Tls12,
        }
    }
}

impl Group {
    fn is_for_tls12(self) -> bool {
        matches!(self, Self::X25519 | Self::Secp256r1 | Self::Secp384r1)
    }
}

impl Policy {
    /// TLS 1.2 and 1.3 for general use: Mozilla's list of that name without its DHE suites.
    pub fn intermediate() -> Self {
        Self::default_for(vec![Version::Tls12, Version::Tls13])
    }

    /// TLS 1.3 only, with all its suites.
    pub fn modern() -> Self {
        Self::default_for(vec![Version::Tls13])
    }

    fn default_for(versions: Vec<Version>) -> Self {
        let suites = Suite::ALL
            .iter()
            .copied()
            .filter(|suite| versions.contains(&suite.version()))
            .collect();
        let groups = vec![
            Group::X25519MlKem768,
            Group::X25519,
            Group::Secp256r1,
            Group::Secp384r1,
        ];
        Self {
            versions,
            suites,
            groups,
        }
    }

    /// A policy by names, in order of preference; an empty list stands for that of
    /// [`Policy::intermediate`], as far as the versions allow.
    ///
    /// # Errors
    /// An unknown or repeated name; a version without a suite or group, a suite without its
    /// version.
    pub fn from_names(
        versions: &[&str],
        suites: &[&str],
        groups: &[&str],
    ) -> Result<Self, PolicyError> {
        let unknown = |name: &str| PolicyError::UnknownVersion {
            name: name.to_owned(),
        };
        let mut policy = match parse(versions, Version::parse, unknown)? {
            none if none.is_empty() => Self::intermediate(),
            some => Self::default_for(some),
        };
        let unknown = |name: &str| PolicyError::UnknownSuite {
            name: name.to_owned(),
        };
        let named = parse(suites, Suite::parse, unknown)?;
        if !named.is_empty() {
            policy.suites = named;
        }
        let unknown = |name: &str| PolicyError::UnknownGroup {
            name: name.to_owned(),
        };
        let named = parse(groups, Group::parse, unknown)?;
        if !named.is_empty() {
            policy.groups = named;
        }
        policy.checked()
    }

    fn checked(self) -> Result<Self, PolicyError> {
        for version in &self.versions {
            if !self.suites.iter().any(|suite| suite.version() == *version) {
                return Err(PolicyError::NoSuite { version: *version });
            }
        }
        if let Some(suite) = self
            .suites
            .iter()
            .find(|suite| !self.versions.contains(&suite.version()))
        {
            return Err(PolicyError::SuiteWithoutVersion { suite: *suite });
        }
        let tls12 = self.versions.contains(&Version::Tls12);
        if tls12 && !self.groups.iter().any(|group| group.is_for_tls12()) {
            return Err(PolicyError::NoGroupForTls12);
        }
        Ok(self)
    }

    /// The versions that may be negotiated.
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// The suites, the preferred one first.
    pub fn suites(&self) -> &[Suite] {
        &self.suites
    }

    /// The groups, the preferred one first.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    pub(super) fn provider(&self) -> CryptoProvider {
        CryptoProvider {
            cipher_suites: self.suites.iter().map(|suite| suite.of_rustls()).collect(),
            kx_groups: self.groups.iter().map(|group| group.of_rustls()).collect(),
            ..default_provider()
        }
    }

    pub(super) fn protocol_versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        self.versions
            .iter()
            .map(|version| version.of_rustls())
            .collect()
    }
}

fn parse<T: NamedSetting>(
    names: &[&str],
    parse: impl Fn(&str) -> Option<T>,
    unknown: impl Fn(&str) -> PolicyError,
) -> Result<Vec<T>, PolicyError> {
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        let one = parse(name).ok_or_else(|| unknown(name))?;
        if all.contains(&one) {
            return Err(PolicyError::Repeated { name: one.name() });
        }
        all.push(one);
    }
    Ok(all)
}

fn names_of<T: NamedSetting>(all: &[T]) -> String {
    all.iter()
        .map(|one| one.name())
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_and_group_name_matches_its_value() {
        for suite in Suite::ALL {
            assert_eq!(suite.name(), format!("{:?}", suite.of_rustls().suite()));
            let version = suite.version().of_rustls().version;
            assert_eq!(suite.of_rustls().version().version, version, "{suite:?}");
        }
        for group in Group::ALL {
            assert_eq!(
                Group::parse(&format!("{:?}", group.of_rustls().name())),
                Some(*group)
            );
            assert_eq!(Group::parse(group.name()), Some(*group));
        }
        for version in Version::ALL {
            assert_eq!(
                Version::parse(&format!("{:?}", version.of_rustls().version)),
                Some(*version)
            );
        }
    }

    #[test]
    fn aes_128_is_first_and_the_post_quantum_group_too() {
        let policy = Policy::intermediate();
        assert_eq!(policy.suites()[0], Suite::Tls13Aes128);
        assert_eq!(policy.groups()[0], Group::X25519MlKem768);
        assert_eq!(policy.provider().cipher_suites.len(), 9);
        assert_eq!(Policy::modern().provider().cipher_suites.len(), 3);
    }

    #[test]
    fn suites_keep_their_order_and_defaults_are_intermediate() {
        let policy = Policy::from_names(
            &["1.3"],
            &["TLS_CHACHA20_POLY1305_SHA256", "TLS13_AES_128_GCM_SHA256"],
            &[],
        );
        let policy = policy.unwrap();
        assert_eq!(policy.suites(), [Suite::Tls13ChaCha20, Suite::Tls13Aes128]);
        assert_eq!(policy.groups(), Policy::intermediate().groups());
        assert_eq!(
            Policy::from_names(&[], &[], &[]),
            Ok(Policy::intermediate())
        );
        assert_eq!(Policy::from_names(&["1.3"], &[], &[]), Ok(Policy::modern()));
    }

    #[test]
    fn invalid_suite_and_group_combinations_are_refused() {
        let refused = |versions: &[&str], suites: &[&str], groups: &[&str]| {
            Policy::from_names(versions, suites, groups).unwrap_err()
        };
        let name = || "x".to_owned();
        assert_eq!(
            refused(&["x"], &[], &[]),
            PolicyError::UnknownVersion { name: name() }
        );
        assert_eq!(
            refused(&[], &["x"], &[]),
            PolicyError::UnknownSuite { name: name() }
        );
        assert_eq!(
            refused(&[], &[], &["x"]),
            PolicyError::UnknownGroup { name: name() }
        );
        assert_eq!(
            refused(&["1.2", "TLSv1_2"], &[], &[]),
            PolicyError::Repeated { name: "1.2" }
        );
        let (new, old) = (Suite::Tls13Aes128, Suite::RsaAes128);
        assert_eq!(
            refused(&[], &[new.name()], &[]),
            PolicyError::NoSuite {
                version: Version::Tls12
            }
        );
        assert_eq!(
            refused(&["1.3"], &[new.name(), old.name()], &[]),
            PolicyError::SuiteWithoutVersion { suite: old }
        );
        assert_eq!(
            refused(&[], &[], &["MLKEM768"]),
            PolicyError::NoGroupForTls12
        );
        assert!(Policy::from_names(&["1.3"], &[], &["MLKEM768"]).is_ok());
    }
}
