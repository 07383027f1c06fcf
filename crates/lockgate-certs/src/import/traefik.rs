//! What Traefik has stored: `acme.json`, with an account and certificates for each resolver.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use base64ct::{Base64, Encoding as _};
use lockgate_rules::acme::KNOWN_DIRECTORIES;
use serde::Deserialize;

use super::keys;
use super::{FoundAccount, FoundCert, FoundCerts, LARGEST_WHOLE, SecretText, read_file};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Resolver {
    account: Option<Account>,
    #[serde(default)]
    certificates: Option<Vec<Certificate>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Account {
    email: Option<String>,
    registration: Option<Registration>,
    private_key: Option<String>,
}

#[derive(Deserialize)]
struct Registration {
    uri: Option<String>,
}

#[derive(Deserialize)]
struct Certificate {
    domain: Option<Domain>,
    certificate: Option<String>,
    key: Option<String>,
}

#[derive(Deserialize)]
struct Domain {
    main: Option<String>,
}

/// Reads `acme.json`, or the folder that has it.
pub(super) fn read(path: &Path) -> io::Result<FoundCerts> {
    let in_folder = path.join("acme.json");
    let file = if path.is_dir() { &in_folder } else { path };
    let text = read_file(file, LARGEST_WHOLE)?;
    // Each resolver by itself: one that is broken does not hide the others.
    let resolvers: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&text).map_err(|error| {
            let message = format!("{} is no acme.json of Traefik: {error}", file.display());
            io::Error::new(io::ErrorKind::InvalidData, message)
        })?;
    let mut found = FoundCerts::default();
    for (name, resolver) in resolvers {
        let place = format!("{}: {name}", file.display());
        match serde_json::from_value::<Resolver>(resolver) {
            Ok(resolver) => resolver.add(&place, &mut found),
            Err(error) => found.skip(place, format!("no resolver of Traefik: {error}")),
        }
    }
    Ok(found)
}

impl Resolver {
    fn add(self, place: &str, found: &mut FoundCerts) {
        let uri = self.account.as_ref().and_then(|account| {
            let registration = account.registration.as_ref();
            registration?.uri.clone()
        });
        let directory = uri.as_deref().and_then(directory_of);
        if let Some(account) = self.account {
            match account.read(place, uri, directory.clone()) {
                Ok(account) => found.accounts.push(account),
                Err(why) => found.skip(format!("{place}, account"), why),
            }
        }
        for certificate in self.certificates.into_iter().flatten() {
            let main = certificate.domain.as_ref();
            let main = main.and_then(|domain| domain.main.as_deref());
            let place = format!("{place}, {}", main.unwrap_or("without a name"));
            let decoded = |text: &Option<String>, what: &str| {
                let text = text.as_deref().unwrap_or_default();
                Base64::decode_vec(text).map_err(|_| format!("{what} is no base64"))
            };
            let read = decoded(&certificate.certificate, "certificate")
                .and_then(|chain| Ok((chain, decoded(&certificate.key, "key")?)));
            match read {
                Ok((chain, key)) => found.certs.push(FoundCert {
                    place,
                    chain,
                    key: SecretText(key),
                    directory: directory.clone(),
                }),
                Err(why) => found.skip(place, why),
            }
        }
    }
}

impl Account {
    fn read(
        self,
        place: &str,
        url: Option<String>,
        directory: Option<String>,
    ) -> Result<FoundAccount, String> {
        let key = self.private_key.unwrap_or_default();
        let der = Base64::decode_vec(&key).map_err(|_| "PrivateKey is no base64")?;
        let key = keys::account_key_of_der(&der)?;
        let directory = directory.ok_or("its URL is that of no known authority")?;
        Ok(FoundAccount {
            place: format!("{place}, account"),
            directory,
            url,
            email: self.email.filter(|email| !email.is_empty()),
            key: SecretText(key.into_bytes()),
        })
    }
}

/// The directory of the authority that has an account's URL: Traefik keeps its own URL elsewhere.
fn directory_of(account: &str) -> Option<String> {
    let host = |url: &str| {
        let rest = url.strip_prefix("https://")?;
        rest.split('/').next().map(str::to_ascii_lowercase)
    };
    let of_account = host(account)?;
    let mut known = KNOWN_DIRECTORIES.iter().map(|(_, url)| url);
    known
        .find(|url| host(url).as_ref() == Some(&of_account))
        .map(|url| (*url).to_owned())
}
