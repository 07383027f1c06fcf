//! The certificate of a run: made for it, or from files.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RsaKeySize};

use crate::placeholders::PlaceholderValues;
use crate::plan::CertificateSource;

/// Writes the certificate below `folder` and sets its placeholders: `{cert}`, `{key}`, `{pem}`.
///
/// # Errors
/// A file cannot be read or written.
pub(crate) fn provide(
    certificate: &CertificateSource,
    folder: &Path,
    values: &mut PlaceholderValues,
) -> io::Result<()> {
    let (cert, key) = match certificate {
        CertificateSource::Files { cert, key } => {
            let read = |path: &str| {
                let path = PathBuf::from(values.fill(path));
                std::fs::read_to_string(&path).map_err(|error| {
                    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
                })
            };
            (read(cert)?, read(key)?)
        }
        CertificateSource::P256 => made(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256))?,
        CertificateSource::Rsa2048 => made(KeyPair::generate_rsa_for(
            &PKCS_RSA_SHA256,
            RsaKeySize::_2048,
        ))?,
    };
    let both = format!("{}\n{}", cert.trim_end(), key);
    for (name, content, mode) in [
        ("cert", &cert, 0o644),
        ("key", &key, 0o600),
        ("pem", &both, 0o600),
    ] {
        let path = folder.join(format!("{name}.pem"));
        // Readable for this account only: the key may be in use elsewhere. Programs read it before
        // they change their account.
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)?;
        file.write_all(content.as_bytes())?;
        values.set(name, path.display().to_string());
    }
    Ok(())
}

fn made(key: Result<KeyPair, rcgen::Error>) -> io::Result<(String, String)> {
    let key = key.map_err(io::Error::other)?;
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let made = CertificateParams::new(names).and_then(|params| params.self_signed(&key));
    Ok((made.map_err(io::Error::other)?.pem(), key.serialize_pem()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn both_kinds_are_made_and_files_are_taken() {
        let folder = tempfile::tempdir().unwrap();
        for kind in [CertificateSource::P256, CertificateSource::Rsa2048] {
            let mut values = PlaceholderValues::default();
            let folder = tempfile::tempdir().unwrap();
            provide(&kind, folder.path(), &mut values).unwrap();
            for (name, mode) in [("{key}", 0o600), ("{pem}", 0o600)] {
                let found = std::fs::metadata(values.fill(name))
                    .unwrap()
                    .permissions()
                    .mode();
                assert_eq!(found & 0o777, mode, "{name}");
            }
            let pem = std::fs::read_to_string(values.fill("{pem}")).unwrap();
            assert!(
                pem.contains("BEGIN CERTIFICATE") && pem.contains("PRIVATE KEY"),
                "{kind:?}"
            );
        }
        let mut values = PlaceholderValues::default();
        let absent = CertificateSource::Files {
            cert: "/absent/a".into(),
            key: "/absent/b".into(),
        };
        assert!(
            provide(&absent, folder.path(), &mut values)
                .unwrap_err()
                .to_string()
                .contains("/absent/a")
        );
    }
}
