//! One stored password: which ways of hashing are taken, and whether a password is the one.
//!
//! Only hashes that can be checked are accepted: format and cost are looked at when a hash is read.
//! A check is slow on purpose, so it never happens on a worker ([`super::password_pool`]).

use std::fmt;

use argon2::password_hash::phc;
use argon2::{Argon2, PasswordVerifier};
use sha_crypt::ShaCrypt;

/// log2 of the rounds of bcrypt: 17 is what `htpasswd` can write, and takes seconds.
const BCRYPT_COST: std::ops::RangeInclusive<u32> = 4..=17;
/// Rounds of SHA-2 crypt: from what its specification demands to what takes seconds.
const SHA_ROUNDS: std::ops::RangeInclusive<u32> = 1_000..=10_000_000;
/// KiB that argon2 may fill at a time, 256 MB, and over all its passes.
const ARGON2_MEMORY: u32 = 1 << 18;
const ARGON2_WORK: u64 = 1 << 22;

/// A hash that was read from a file and can be checked. It is never shown: its holder can test
/// guesses at leisure.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    text: Box<str>,
    scheme: HashScheme,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HashScheme {
    Bcrypt,
    ShaCrypt,
    Argon2,
}

/// Why a stored password is not taken. Its text ends with what to do instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// `$apr1$`, `$1$`.
    #[error("the password is hashed with MD5, which is too weak; {ANEW}")]
    Md5,
    /// `{SHA}`, `{SSHA}`, `$sha1$`.
    #[error("the password is hashed with SHA-1, which is too weak; {ANEW}")]
    Sha1,
    /// 13 characters of the alphabet of crypt(3).
    #[error("the password looks like DES crypt, which ignores all but 8 characters; {ANEW}")]
    Des,
    /// Nothing that looks like a hash.
    #[error("the password is not hashed; {ANEW}")]
    Plain,
    /// `$2x$`: made by a version of crypt_blowfish with a fault (CVE-2011-2483).
    #[error("`$2x$` marks a faulty bcrypt; {ANEW}")]
    FaultyBcrypt,
    /// A hash of a kind that is not read, such as yescrypt or scrypt.
    #[error("this kind of hash is not supported ($2y$, $5$, $6$ and $argon2id$ are); {ANEW}")]
    Unknown,
    /// Begins as one that is known.
    #[error("the hash is damaged or was cut short; {ANEW}")]
    Malformed,
    /// So slow to check that a few requests would keep all others waiting.
    #[error(
        "the hash takes seconds to check (at most: bcrypt cost 17, 10000000 rounds of SHA-2, 256 MB of argon2); {ANEW}"
    )]
    Costly,
    /// Fewer rounds than its kind allows.
    #[error("the hash has too few rounds (at least: bcrypt cost 4, 1000 rounds of SHA-2); {ANEW}")]
    Cheap,
}

const ANEW: &str = "make a new hash with `htpasswd -B FILE USER` or `openssl passwd -6`";

impl PasswordHash {
    /// Reads a hash as it stands in the file.
    ///
    /// # Errors
    /// When it is of a kind that is not taken, is damaged, or takes too much or too little work to
    /// check.
    pub fn parse(text: &str) -> Result<Self, HashError> {
        let scheme = match text.as_bytes() {
            [b'$', b'2', b'a' | b'b' | b'y', b'$', ..] => bcrypt(text)?,
            [b'$', b'2', b'x', b'$', ..] => return Err(HashError::FaultyBcrypt),
            [b'$', b'5', b'$', ..] => sha_crypt(text, 43)?,
            [b'$', b'6', b'$', ..] => sha_crypt(text, 86)?,
            _ if text.starts_with("$argon2id$") || text.starts_with("$argon2i$") => argon2(text)?,
            _ if text.starts_with("$apr1$") || text.starts_with("$1$") => {
                return Err(HashError::Md5);
            }
            _ if text.starts_with("{SHA}")
                || text.starts_with("{SSHA}")
                || text.starts_with("$sha1$") =>
            {
                return Err(HashError::Sha1);
            }
            [b'$', ..] => return Err(HashError::Unknown),
            bytes if bytes.len() == 13 && bytes.iter().all(crypt_alphabet) => {
                return Err(HashError::Des);
            }
            _ => return Err(HashError::Plain),
        };
        Ok(Self {
            text: text.into(),
            scheme,
        })
    }

    /// Whether `password` is the one, in 1 ms to seconds, always on another thread than a worker's.
    /// As everywhere, bcrypt looks at the first 72 bytes only.
    pub fn verify(&self, password: &str) -> bool {
        let password = password.as_bytes();
        // All three compare in constant time.
        match self.scheme {
            HashScheme::Bcrypt => bcrypt::verify(password, &self.text).unwrap_or(false),
            HashScheme::ShaCrypt => ShaCrypt::default()
                .verify_password(password, &*self.text)
                .is_ok(),
            HashScheme::Argon2 => Argon2::default()
                .verify_password(password, &*self.text)
                .is_ok(),
        }
    }

    /// The hash as it was written, for what must change with it.
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordHash")
            .field("scheme", &self.scheme)
            .finish_non_exhaustive()
    }
}

/// The alphabet of crypt(3).
fn crypt_alphabet(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/')
}

fn bcrypt(text: &str) -> Result<HashScheme, HashError> {
    let parts: bcrypt::HashParts = text.parse().map_err(|_| HashError::Malformed)?;
    within(parts.get_cost(), BCRYPT_COST)?;
    Ok(HashScheme::Bcrypt)
}

/// `$5$[rounds=N$]SALT$HASH`, with up to 16 characters of salt.
fn sha_crypt(text: &str, hash_len: usize) -> Result<HashScheme, HashError> {
    let fields: Vec<_> = text.split('$').skip(2).collect();
    let (salt, hash) = match fields[..] {
        [salt, hash] => (salt, hash),
        [rounds, salt, hash] => {
            let rounds = rounds.strip_prefix("rounds=").ok_or(HashError::Malformed)?;
            // As it is written by those that hash: no sign, no leading zero.
            if !rounds.bytes().all(|byte| byte.is_ascii_digit())
                || rounds.is_empty()
                || rounds.starts_with('0')
            {
                return Err(HashError::Malformed);
            }
            within(rounds.parse().map_err(|_| HashError::Costly)?, SHA_ROUNDS)?;
            (salt, hash)
        }
        _ => return Err(HashError::Malformed),
    };
    let good = (1..=16).contains(&salt.len())
        && salt.bytes().all(|byte| crypt_alphabet(&byte))
        && hash.len() == hash_len
        && hash.bytes().all(|byte| crypt_alphabet(&byte));
    if good {
        Ok(HashScheme::ShaCrypt)
    } else {
        Err(HashError::Malformed)
    }
}

/// The PHC string format.
fn argon2(text: &str) -> Result<HashScheme, HashError> {
    let hash = phc::PasswordHash::new(text).map_err(|_| HashError::Malformed)?;
    let parameters = argon2::Params::try_from(&hash).map_err(|_| HashError::Malformed)?;
    let memory = parameters.m_cost();
    if memory > ARGON2_MEMORY || u64::from(memory) * u64::from(parameters.t_cost()) > ARGON2_WORK {
        return Err(HashError::Costly);
    }
    let version = hash
        .version
        .is_none_or(|version| argon2::Version::try_from(version).is_ok());
    let salt = hash
        .salt
        .as_ref()
        .is_some_and(|salt| salt.len() >= argon2::MIN_SALT_LEN);
    let long = hash.hash.as_ref().is_some_and(|hash| hash.len() >= 16);
    if version && salt && long {
        Ok(HashScheme::Argon2)
    } else {
        Err(HashError::Malformed)
    }
}

fn within(cost: u32, allowed: std::ops::RangeInclusive<u32>) -> Result<(), HashError> {
    if cost < *allowed.start() {
        Err(HashError::Cheap)
    } else if cost > *allowed.end() {
        Err(HashError::Costly)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by other programs, all of them for the same password.
    const OPEN_SESAME: [&str; 8] = [
        // htpasswd -nbB
        "$2y$04$2lIsLL4WkHlL1AdE.us2M.KiUDmXG4b/qmENltdLbJc9r08TNOP1m",
        // crypt(3) of glibc
        "$5$rounds=1000$lockgate$.GYOKAogvXq81dmJFZIB45OCOYsC4rvxgHsGiPHPgm6",
        "$6$rounds=1000$lockgate$GxWxLRPFe5h7KjyGNe78da89TWTrG4.m3W7usZ7yT3aDbY/Zr0U56CVtPUQJZJDyxb87BFu.lluiabwimiyxe/",
        "$5$lockgate$jAAtfkyanmgBrvpKlAREThueqqEfM8hsyNwlUbvmgcD",
        "$6$lockgatelockgate$I3A6hnWkHFwzOZ3jQUY6R.ThDBePZMadhHZVpm7daiJwhrJOXYj4BXf2z6Fx3QTiPwXcjd8/J.xxdYwFzncP90",
        // the reference implementation of argon2
        "$argon2id$v=19$m=64,t=1,p=1$K0+ebGfPos6K4Mf3u1nOzQ$SkhCjpT7TDtMP0hukuNYYCewuGZgXqT3j3bNcVxZB4M",
        "$argon2id$v=19$m=128,t=2,p=2$X1tEelYFM1rcRbDowpSLfg$4E6yINJQnYyTmZUhh9b+2AZfdsSeS86G0wENRSj7P4c",
        "$argon2i$v=19$m=64,t=1,p=1$/k/4dLWaMWc/crzddPifsw$bjUQlsW/NdCDkXld7nzKtnjaHO1fvgZo/2x+zfNVCRM",
    ];

    #[test]
    fn hashes_of_other_programs_verify_only_their_password() {
        for text in OPEN_SESAME {
            let hash = PasswordHash::parse(text).unwrap();
            assert!(hash.verify("open sesame"), "{text}");
            for wrong in [
                "",
                "open sesam",
                "open sesame ",
                "Open sesame",
                "open sesame\0",
            ] {
                assert!(!hash.verify(wrong), "{text} {wrong:?}");
            }
        }
    }

    #[test]
    fn a_non_ascii_password_is_hashed_as_utf8() {
        let texts = [
            "$2y$04$5z14e5hwzWpK4HJdbrw8Ruq6OVBoZplVvrfW5JFEZBDQ2Khs0Ha3O",
            // openssl passwd -5
            "$5$saltstring$bWOoCRTKNT.aiY/gJjvk1HjBYuRpcYQmcc5hqf6H4T4",
        ];
        assert!(
            texts
                .iter()
                .all(|text| PasswordHash::parse(text).unwrap().verify("pässwörd"))
        );
    }

    #[test]
    fn every_valid_bcrypt_prefix_is_accepted() {
        for name in ["2a", "2b", "2y"] {
            let text = OPEN_SESAME[0].replace("2y", name);
            assert!(PasswordHash::parse(&text).unwrap().verify("open sesame"));
        }
    }

    #[test]
    fn weak_password_hashes_are_refused_by_name() {
        let cases = [
            ("$apr1$XYPK3jw2$MNUJ6i3i6ZrOCA/TPkBr11", HashError::Md5),
            ("$1$abc$n6H250boi0sp0yw9RWhqY0", HashError::Md5),
            ("{SHA}EfatjsUqKYSrqv18O1FlA3hcIHI=", HashError::Sha1),
            ("{SSHA}EfatjsUqKYSrqv18O1FlA3hcIHI=", HashError::Sha1),
            ("OTunCNUuDSMPM", HashError::Des),
            ("secret", HashError::Plain),
            ("", HashError::Plain),
            ("*", HashError::Plain),
            ("{PLAIN}secret", HashError::Plain),
            ("$y$j9T$abc$def", HashError::Unknown),
            (
                "$argon2d$v=19$m=64,t=1,p=1$bG9ja2dhdGVzYWx0$d6N4GnPsHcJ+0b0QdhQ9aheZB8NP5PPZj1ZDWP8qTuo",
                HashError::Unknown,
            ),
            (
                "$2x$04$2lIsLL4WkHlL1AdE.us2M.KiUDmXG4b/qmENltdLbJc9r08TNOP1m",
                HashError::FaultyBcrypt,
            ),
        ];
        for (text, error) in cases {
            assert_eq!(PasswordHash::parse(text), Err(error), "{text}");
            assert!(error.to_string().contains("htpasswd -B"));
        }
    }

    #[test]
    fn a_truncated_or_altered_password_hash_is_refused() {
        for text in OPEN_SESAME {
            let cuts = (4..text.len())
                .map(|len| &text[..len])
                .filter(|cut| PasswordHash::parse(cut).is_ok());
            // Argon2 has no length of its own: a shorter output is a hash too.
            assert!(
                cuts.clone()
                    .all(|cut| cut.starts_with("$argon2") && cut.len() > text.len() - 22),
                "{text}"
            );
            for damaged in [
                format!("{text}$x"),
                format!("{text} "),
                text.replace(['1', 'o'], "ü"),
            ] {
                assert!(PasswordHash::parse(&damaged).is_err(), "{damaged}");
            }
        }
    }

    #[test]
    fn an_excessive_password_hash_cost_is_refused() {
        let bcrypt = |cost: &str| OPEN_SESAME[0].replace("$04$", cost);
        let sha = |rounds: &str| OPEN_SESAME[1].replace("=1000$", rounds);
        let argon2 = |cost: &str| OPEN_SESAME[5].replace("m=64,t=1,p=1", cost);
        let cases = [
            (bcrypt("$31$"), HashError::Costly),
            (bcrypt("$18$"), HashError::Costly),
            (bcrypt("$03$"), HashError::Cheap),
            (sha("=999$"), HashError::Cheap),
            (sha("=10000001$"), HashError::Costly),
            (sha("=99999999999999$"), HashError::Costly),
            (sha("=01000$"), HashError::Malformed),
            (sha("=+1000$"), HashError::Malformed),
            (sha("=$"), HashError::Malformed),
            (argon2("m=262145,t=1,p=1"), HashError::Costly),
            (argon2("m=65536,t=65,p=1"), HashError::Costly),
            (argon2("m=4294967295,t=4294967295,p=1"), HashError::Costly),
            (argon2("m=64,t=0,p=1"), HashError::Malformed),
            (argon2("m=64,t=1,p=9"), HashError::Malformed),
        ];
        for (text, error) in cases {
            assert_eq!(PasswordHash::parse(&text), Err(error), "{text}");
        }
    }

    #[test]
    fn debug_output_hides_a_password_hash() {
        for text in OPEN_SESAME {
            let shown = format!("{:?}", PasswordHash::parse(text).unwrap());
            assert!(!shown.contains(&text[text.len() - 8..]), "{shown}");
        }
    }
}
