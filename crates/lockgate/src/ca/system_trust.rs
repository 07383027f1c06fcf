//! The trust store of the system: a folder for certificates, and the program that takes them over.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use lockgate_certs::authority::CaCert;

use super::output_file::write_public;
use crate::cli::ca::Overwrite;
use crate::print::out;

/// A kind of trust store.
#[derive(Debug)]
struct StoreKind {
    /// The folder for the certificates of this machine's owner.
    folder: &'static str,
    /// The program that takes them over.
    program: &'static str,
    arguments: &'static [&'static str],
    /// Its further arguments after a certificate was removed.
    after_removal: &'static [&'static str],
}

/// Debian's leaves links to files that are gone, unless it makes all of them anew.
const FRESH: &[&str] = &["--fresh"];

/// The kinds that are looked for, in this order.
static KINDS: [StoreKind; 4] = [
    // Fedora, RHEL and those like them
    StoreKind {
        folder: "/etc/pki/ca-trust/source/anchors",
        program: "update-ca-trust",
        arguments: &["extract"],
        after_removal: &[],
    },
    // Debian, Ubuntu, Alpine
    StoreKind {
        folder: "/usr/local/share/ca-certificates",
        program: "update-ca-certificates",
        arguments: &[],
        after_removal: FRESH,
    },
    // Arch
    StoreKind {
        folder: "/etc/ca-certificates/trust-source/anchors",
        program: "trust",
        arguments: &["extract-compat"],
        after_removal: &[],
    },
    // openSUSE
    StoreKind {
        folder: "/etc/pki/trust/anchors",
        program: "update-ca-certificates",
        arguments: &[],
        after_removal: FRESH,
    },
];

/// Where programs of root are, for a PATH without them.
const SYSTEM_PATH: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The trust store of this system.
#[derive(Debug)]
pub(super) struct SystemTrust {
    folder: PathBuf,
    program: PathBuf,
    kind: &'static StoreKind,
}

impl SystemTrust {
    /// The store of this system.
    ///
    /// # Errors
    /// When there is none of a known kind.
    pub(super) fn find() -> anyhow::Result<Self> {
        Self::below(Path::new("/"))
    }

    fn below(root: &Path) -> anyhow::Result<Self> {
        let found = KINDS.iter().find_map(|kind| {
            let folder = root.join(kind.folder.trim_start_matches('/'));
            let program = folder.is_dir().then(|| program(kind.program)).flatten()?;
            Some(Self {
                folder,
                program,
                kind,
            })
        });
        let Some(found) = found else {
            let known = KINDS.iter();
            let known = known.map(|kind| format!("{} with {}", kind.folder, kind.program));
            bail!(
                "this system has no trust store of a known kind ({}): `lockgate ca export` writes the certificate; \
                 on Debian the package ca-certificates is needed",
                known.collect::<Vec<_>>().join(", ")
            );
        };
        Ok(found)
    }

    /// Adds the certificate.
    ///
    /// # Errors
    /// When its file cannot be written, or the program fails.
    pub(super) fn add(&self, root: &CaCert) -> anyhow::Result<()> {
        let file = self.file(root);
        write_public(&file, root.pem().as_bytes(), Overwrite::Replace)?;
        out!("wrote {}", file.display());
        self.take_over(&[])
    }

    /// Takes the certificate out. The program runs also where its file is gone already: the last try
    /// may have failed there.
    ///
    /// # Errors
    /// When its file cannot be removed, or the program fails.
    pub(super) fn remove(&self, root: &CaCert) -> anyhow::Result<()> {
        let file = self.file(root);
        match fs::remove_file(&file) {
            Ok(()) => out!("removed {}", file.display()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                out!("{} is not there", file.display());
            }
            Err(error) => return Err(error).context(file.display().to_string()),
        }
        self.take_over(self.kind.after_removal)
    }

    /// The file of this root: each has its own. Debian takes only `.crt`.
    fn file(&self, root: &CaCert) -> PathBuf {
        let id: String = root
            .sha256()
            .chars()
            .filter(|c| *c != ':')
            .take(16)
            .collect();
        let name = format!("lockgate-{}.crt", id.to_ascii_lowercase());
        self.folder.join(name)
    }

    fn take_over(&self, more: &[&str]) -> anyhow::Result<()> {
        let arguments = [self.kind.arguments, more].concat();
        let shown = self.program.display();
        let output = Command::new(&self.program)
            .args(&arguments)
            .stdin(Stdio::null())
            .output()
            .with_context(|| shown.to_string())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{shown} failed ({}): {}", output.status, said.trim());
        }
        out!(
            "ran {}",
            [&[&*shown.to_string()], &*arguments].concat().join(" ")
        );
        Ok(())
    }
}

/// The path of a program.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SYSTEM_PATH.map(PathBuf::from));
    let named = folders.filter(|folder| folder.is_absolute());
    let mut files = named.map(|folder| folder.join(OsStr::new(name)));
    files.find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_without_a_known_trust_store_is_told_what_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let error = SystemTrust::below(root.path()).unwrap_err().to_string();
        assert!(error.contains("update-ca-certificates"), "{error}");
        assert!(error.contains("lockgate ca export"), "{error}");
    }

    #[test]
    fn programs_are_found_in_folders_with_absolute_paths() {
        assert!(program("sh").unwrap().is_absolute());
        assert_eq!(program("no-such-program-of-lockgate"), None);
    }
}
