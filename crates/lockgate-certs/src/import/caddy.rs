//! What Caddy has stored: `certificates/DIRECTORY/NAME/NAME.{crt,key,json}`, and accounts in
//! `acme/DIRECTORY/users/EMAIL/`. `DIRECTORY` is the URL with `-` for `/`.

use std::io;
use std::path::Path;

use lockgate_rules::acme::KNOWN_DIRECTORIES;
use serde::Deserialize;

use super::keys;
use super::{
    FoundAccount, FoundCert, FoundCerts, LARGEST, SecretText, entries_in, folders_in, last_part,
    read_file,
};

/// What stands beside a certificate.
#[derive(Deserialize)]
struct CertResource {
    issuer_data: Option<IssuerData>,
}

#[derive(Deserialize)]
struct IssuerData {
    /// The directory's URL.
    ca: Option<String>,
}

/// What stands beside the key of an account.
#[derive(Deserialize)]
struct AccountResource {
    #[serde(default)]
    contact: Vec<String>,
    location: Option<String>,
}

/// Reads the folder of Caddy's data.
pub(super) fn read(folder: &Path) -> io::Result<FoundCerts> {
    let certificates = folder.join("certificates");
    if !certificates.is_dir() {
        let shown = folder.display();
        let message = format!("{shown} is no folder of Caddy's data: it has no `certificates`");
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    let mut found = FoundCerts::default();
    // The folder's name alone does not tell the URL of a directory without a known name.
    let mut directories = Vec::new();
    for issuer in folders_in(&certificates)? {
        let name = last_part(&issuer);
        if name == "local" {
            found.skip(
                issuer.display(),
                "issued by the authority of this Caddy itself",
            );
            continue;
        }
        for cert in folders_in(&issuer)? {
            match certificate(&cert, &name) {
                Ok(cert) => {
                    directories.extend(cert.directory.clone().map(|url| (name.clone(), url)));
                    found.certs.push(cert);
                }
                Err(error) => found.skip(cert.display(), error),
            }
        }
    }
    for issuer in folders_in(&folder.join("acme"))? {
        let name = last_part(&issuer);
        let known = directories.iter().find(|(known, _)| *known == name);
        let url = known
            .map(|(_, url)| url.clone())
            .or_else(|| known_url(&name));
        for user in folders_in(&issuer.join("users"))? {
            match account(&user, url.clone()) {
                Ok(account) => found.accounts.push(account),
                Err(why) => found.skip(user.display(), why),
            }
        }
    }
    Ok(found)
}

fn certificate(folder: &Path, issuer: &str) -> io::Result<FoundCert> {
    let name = last_part(folder);
    let read = |extension: &str| read_file(&folder.join(format!("{name}.{extension}")), LARGEST);
    let (chain, key) = (read("crt")?, read("key")?);
    let resource = read("json").ok();
    let resource = resource.and_then(|text| serde_json::from_slice::<CertResource>(&text).ok());
    let told = resource.and_then(|resource| resource.issuer_data?.ca);
    Ok(FoundCert {
        place: folder.display().to_string(),
        chain,
        key: SecretText(key),
        directory: told.or_else(|| known_url(issuer)),
    })
}

fn account(folder: &Path, directory: Option<String>) -> Result<FoundAccount, String> {
    let directory = directory.ok_or("its folder does not tell the directory")?;
    let entries = entries_in(folder).map_err(|error| error.to_string())?;
    let file = |extension: &str| {
        let is_it = |path: &&std::path::PathBuf| path.extension().is_some_and(|e| e == extension);
        let path = entries.iter().find(is_it);
        let path = path.ok_or_else(|| format!("there is no {extension} file"))?;
        read_file(path, LARGEST).map_err(|error| error.to_string())
    };
    let key = keys::account_key_of_pem(&file("key")?)?;
    let resource = file("json").ok();
    let resource = resource.and_then(|text| serde_json::from_slice::<AccountResource>(&text).ok());
    let email = resource.as_ref().and_then(|resource| {
        let mut contact = resource.contact.iter();
        contact.find_map(|contact| contact.strip_prefix("mailto:").map(str::to_owned))
    });
    Ok(FoundAccount {
        place: folder.display().to_string(),
        directory,
        url: resource.and_then(|resource| resource.location),
        email,
        key: SecretText(key.into_bytes()),
    })
}

/// The URL of a known directory, by the name that Caddy gives its folder.
fn known_url(folder: &str) -> Option<String> {
    let mut known = KNOWN_DIRECTORIES.iter().map(|(_, url)| url);
    let name = |url: &str| {
        let name = url.trim_start_matches("https://").replace('/', "-");
        name.to_ascii_lowercase()
    };
    known
        .find(|url| name(url) == folder.to_ascii_lowercase())
        .map(|url| (*url).to_owned())
}
