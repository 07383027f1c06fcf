//! What certbot has stored: `live/NAME/fullchain.pem` and `privkey.pem`, `renewal/NAME.conf` with the
//! directory's URL, `accounts/…/private_key.json` (a JWK, RFC 7517).

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::keys::{self, JsonWebKey};
use super::{
    FoundAccount, FoundCert, FoundCerts, LARGEST, SecretText, entries_in, folders_in, last_part,
    read_file,
};

/// How deep the folders of accounts are.
const DEPTH: usize = 6;

#[derive(Deserialize)]
struct Registration {
    uri: Option<String>,
}

/// Reads `/etc/letsencrypt`, or its like.
pub(super) fn read(folder: &Path) -> io::Result<FoundCerts> {
    let live = folder.join("live");
    if !live.is_dir() {
        let message = format!(
            "{} is no folder of certbot: it has no `live`",
            folder.display()
        );
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    let mut found = FoundCerts::default();
    for lineage in folders_in(&live)? {
        let directory = directory_of(folder, &last_part(&lineage));
        let chain = read_file(&lineage.join("fullchain.pem"), LARGEST);
        let key = read_file(&lineage.join("privkey.pem"), LARGEST);
        match chain.and_then(|chain| Ok((chain, key?))) {
            Ok((chain, key)) => found.certs.push(FoundCert {
                place: lineage.display().to_string(),
                chain,
                key: SecretText(key),
                directory,
            }),
            Err(error) => found.skip(lineage.display(), error),
        }
    }
    let accounts = folder.join("accounts");
    find_accounts(&accounts, &accounts, DEPTH, &mut found)?;
    Ok(found)
}

/// The directory's URL in the settings of a renewal, which are lines `name = value`.
fn directory_of(folder: &Path, lineage: &str) -> Option<String> {
    let file = folder.join("renewal").join(format!("{lineage}.conf"));
    let text = read_file(&file, LARGEST).ok()?;
    let text = String::from_utf8(text).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once('='));
    let (_, url) = lines.find(|(name, _)| name.trim() == "server")?;
    let url = url.trim();
    url.starts_with("https://").then(|| url.to_owned())
}

/// The accounts in a folder: its path below `accounts` is that of the directory's URL.
fn find_accounts(
    accounts: &Path,
    folder: &Path,
    depth: usize,
    found: &mut FoundCerts,
) -> io::Result<()> {
    for entry in entries_in(folder)? {
        // A link leads to the accounts of another version of the same authority.
        if entry.is_symlink() || !entry.is_dir() {
            continue;
        }
        if entry.join("private_key.json").is_file() {
            match account(accounts, &entry) {
                Ok(account) => found.accounts.push(account),
                Err(why) => found.skip(entry.display(), why),
            }
        } else if depth > 0 {
            find_accounts(accounts, &entry, depth - 1, found)?;
        }
    }
    Ok(())
}

fn account(accounts: &Path, folder: &Path) -> Result<FoundAccount, String> {
    let server: Option<PathBuf> = folder
        .parent()
        .and_then(|parent| parent.strip_prefix(accounts).ok())
        .map(Path::to_owned);
    let server = server.as_deref().and_then(Path::to_str);
    let server = server.filter(|server| !server.is_empty());
    let server = server.ok_or("its folder does not tell the directory")?;
    let text = |name: &str| {
        let read = read_file(&folder.join(name), LARGEST);
        read.map_err(|error| error.to_string())
    };
    let key: JsonWebKey = serde_json::from_slice(&text("private_key.json")?)
        .map_err(|_| "private_key.json is no JSON Web Key")?;
    let key = keys::account_key_of_jwk(&key)?;
    let registration = text("regr.json").ok();
    let registration =
        registration.and_then(|text| serde_json::from_slice::<Registration>(&text).ok());
    Ok(FoundAccount {
        place: folder.display().to_string(),
        directory: format!("https://{server}"),
        url: registration.and_then(|registration| registration.uri),
        email: None,
        key: SecretText(key.into_bytes()),
    })
}
