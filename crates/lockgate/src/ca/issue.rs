//! `lockgate ca issue`: a certificate of the authority as files, which nothing renews.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use lockgate_certs::authority::{Authority, LeafRequest, LeafUsage};

use super::output_file::{check_free, write_private, write_public};
use crate::cli::ca::{IssueOptions, IssuedFiles, Overwrite};
use crate::print::out;
use crate::views::timestamp;

/// Issues the certificate, writes its files, and says how they are used.
///
/// # Errors
/// When it cannot be issued, or a file cannot be written; then neither file is left.
pub(super) fn run(authority: &Authority, options: &IssueOptions) -> anyhow::Result<ExitCode> {
    let (cert, key) = paths(&options.files)?;
    for file in [&cert, &key] {
        check_free(file, options.overwrite)?;
    }
    let request = LeafRequest {
        names: options.names.clone(),
        addresses: options.addresses.clone(),
        usage: options.usage.clone(),
        key: options.key,
        life: options.life,
    };
    let now = SystemTime::now();
    let issued = authority.issue(&request, now)?;
    let key_pem = issued.key_pem.as_str().as_bytes();
    write_private(&key, key_pem, options.overwrite)?;
    let written = write_public(&cert, issued.chain_pem.as_bytes(), options.overwrite);
    if written.is_err() && options.overwrite == Overwrite::Refuse {
        let _ = fs::remove_file(&key);
    }
    written?;
    out!("certificate  {}", cert.display());
    out!("key          {}", key.display());
    out!("valid until  {}", timestamp(issued.period.not_after));
    if issued.period.not_after + Duration::from_secs(1) < now + options.life {
        eprintln!(
            "warning: it is valid for less than was asked for: the root or the intermediate certificate ends"
        );
    }
    let (cert, key) = (shown(&cert), shown(&key));
    match options.usage {
        LeafUsage::Server => out!("in Lockgate  tls = {{ cert = \"{cert}\", key = \"{key}\" }}"),
        LeafUsage::Client { .. } => out!("with curl    curl --cert {cert} --key {key} …"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The files of certificate and key. The folder is made if it is missing.
fn paths(files: &IssuedFiles) -> anyhow::Result<(PathBuf, PathBuf)> {
    match files {
        IssuedFiles::These { cert, key } => Ok((cert.clone(), key.clone())),
        IssuedFiles::Named { folder, name } => {
            if !folder.is_dir() {
                let made = fs::create_dir(folder);
                made.with_context(|| format!("{} cannot be made", folder.display()))?;
            }
            let stem = stem(name);
            let file = |extension: &str| folder.join(format!("{stem}.{extension}"));
            Ok((file("crt"), file("key")))
        }
    }
}

/// A name as that of a file: of letters, digits and a few signs, and not hidden. `*.example.lan` is
/// `_wildcard.example.lan`.
fn stem(name: &str) -> String {
    let name = match name.strip_prefix("*.") {
        Some(rest) => format!("_wildcard.{rest}"),
        None => name.to_owned(),
    };
    let kept = |c: char| match c.is_alphanumeric() || "-_.@:".contains(c) {
        true => c,
        false => '_',
    };
    let kept: String = name.chars().map(kept).collect();
    match kept.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => kept,
    }
}

/// The absolute path, since a configuration is not read in the working directory.
fn shown(file: &Path) -> String {
    let absolute = file.canonicalize();
    absolute.as_deref().unwrap_or(file).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_the_name_of_a_file_in_the_folder() {
        for (name, expected) in [
            ("box.lan", "box.lan"),
            ("*.example.lan", "_wildcard.example.lan"),
            ("[::1]", "_::1_"),
            ("Alice Example", "Alice_Example"),
            ("alice@example.lan", "alice@example.lan"),
            ("../../etc/passwd", "_._.._etc_passwd"),
            (".", "_"),
            ("..", "_."),
            ("/", "_"),
            ("a/b\n", "a_b_"),
        ] {
            assert_eq!(stem(name), expected);
        }
    }
}
