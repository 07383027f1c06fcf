//! Certificates of our own authority, as listeners read them: issued where they are missing, and
//! renewed before they end.
//!
//! Orders nothing from others: see `keeper`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use lockgate_rules::CertKeyKind;

use crate::authority::{Authority, AuthorityError, LEAF_LIFE, LeafRequest, LeafUsage};
use crate::leaf::Leaf;
use crate::private_file;
use crate::store::{CertFolder, LeafFile};

/// The longest wait until leaves are looked at again: the clock may have been set.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// The wait after a failure.
const AGAIN: Duration = Duration::from_secs(60);
/// The largest file of a leaf, in bytes.
const LARGEST: u64 = 1 << 20;

/// A certificate of our own authority that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WantedLeaf {
    /// Its DNS names, in lower case; a wildcard as `*.example.lan`.
    pub names: Vec<String>,
    /// Its IP addresses.
    pub addresses: Vec<IpAddr>,
}

/// What [`issue_leaves`] has done.
#[derive(Debug)]
pub struct IssuedLeaves {
    /// The files that are new.
    pub changed: Vec<PathBuf>,
    /// The leaves that could not be issued or kept, with the reason.
    pub failed: Vec<(WantedLeaf, AuthorityError)>,
    /// When to look at them again.
    pub again: Duration,
}

impl IssuedLeaves {
    /// Logs what was issued and what failed; returns whether anything has failed.
    pub fn tell(&self) -> bool {
        for file in &self.changed {
            tracing::info!(file = %file.display(), "certificate of Lockgate's own authority issued");
        }
        for (leaf, error) in &self.failed {
            let names = leaf.names.join(", ");
            tracing::error!(names, addresses = ?leaf.addresses, %error, "no certificate of Lockgate's own authority");
        }
        !self.failed.is_empty()
    }
}

impl WantedLeaf {
    /// The identity of its file.
    pub fn file(&self) -> LeafFile<'_> {
        let first = self.addresses.first();
        let name = self.names.first().map(String::as_str);
        match first {
            Some(address) => LeafFile::Address(*address),
            None => LeafFile::Name(name.unwrap_or("localhost")),
        }
    }

    fn request(&self) -> LeafRequest {
        LeafRequest {
            names: self.names.clone(),
            addresses: self.addresses.clone(),
            usage: LeafUsage::Server,
            key: CertKeyKind::EcdsaP256,
            life: LEAF_LIFE,
        }
    }

    /// When the certificate in a file is to be replaced; nothing where that is now.
    fn renewal(&self, file: &Path, authority: &Authority, now: SystemTime) -> Option<SystemTime> {
        let pem = private_file::read(file, LARGEST).ok().flatten()?;
        let leaf = Leaf::of_pem(&pem).ok()?;
        let covers = self.names.iter().all(|name| leaf.names.contains(name))
            && self
                .addresses
                .iter()
                .all(|address| leaf.addresses.contains(address));
        let is_ours = leaf.issuer == authority.intermediate().subject();
        let life = leaf.validity.life();
        let renewal = leaf.validity.not_after.checked_sub(life / 3)?;
        (covers && is_ours && leaf.validity.not_before <= now && now < renewal).then_some(renewal)
    }
}

/// Issues the leaves that are missing, end soon, or lack a name. The authority in `state` is made if
/// there is none.
///
/// # Errors
/// When there is no authority. Single leaves that fail are in the result.
pub fn issue_leaves(
    state: &Path,
    wanted: &[WantedLeaf],
    now: SystemTime,
) -> Result<IssuedLeaves, AuthorityError> {
    let folder = CertFolder::of_state(state);
    folder
        .prepare()
        .map_err(AuthorityError::io(folder.path()))?;
    let mut authority = Authority::open_or_create(&state.join("ca"), now)?;
    if let Err(error) = authority.renew(now) {
        // The one that is there issues as long as it is valid.
        tracing::warn!(%error, "the intermediate certificate of Lockgate's own authority is not renewed");
    }
    let mut issued = IssuedLeaves {
        changed: Vec::new(),
        failed: Vec::new(),
        again: LONGEST_WAIT,
    };
    for leaf in wanted {
        let file = folder.leaf_file(&leaf.file());
        let renewal = leaf.renewal(&file, &authority, now);
        if let Some(left) = renewal.and_then(|renewal| renewal.duration_since(now).ok()) {
            issued.again = issued.again.min(left);
            continue;
        }
        let made = authority.issue(&leaf.request(), now).and_then(|cert| {
            let pem = format!("{}{}", cert.chain_pem, cert.key_pem.as_str());
            private_file::replace(&file, pem.as_bytes()).map_err(AuthorityError::io(&file))
        });
        match made {
            Ok(()) => issued.changed.push(file),
            Err(error) => {
                issued.again = issued.again.min(AGAIN);
                issued.failed.push((leaf.clone(), error));
            }
        }
    }
    Ok(issued)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn wanted(names: &[&str], addresses: &[&str]) -> WantedLeaf {
        WantedLeaf {
            names: names.iter().map(ToString::to_string).collect(),
            addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn internal_leaves_are_issued_once_and_renewed_in_time() {
        let state = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let leaves = [
            wanted(&["box.lan"], &[]),
            wanted(&["*.box.lan"], &[]),
            wanted(&["localhost"], &["127.0.0.1", "::1"]),
        ];
        let issue = |at| issue_leaves(state.path(), &leaves, at).unwrap();
        let first = issue(now);
        assert_eq!(first.changed.len(), 3);
        assert!(first.failed.is_empty());
        assert!(issue(now).changed.is_empty());
        assert!(issue(now + DAY * 4).changed.is_empty());
        assert_eq!(issue(now + DAY * 5).changed.len(), 3);
        assert_eq!(issue(now + DAY * 60).changed.len(), 3);
        let pem = private_file::read(&first.changed[2], LARGEST)
            .unwrap()
            .unwrap();
        let leaf = Leaf::of_pem(&pem).unwrap();
        assert_eq!(leaf.names, ["localhost"]);
        assert_eq!(leaf.addresses, leaves[2].addresses);
    }

    #[test]
    fn an_internal_leaf_that_lacks_a_name_is_issued_again() {
        let state = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let issue = |leaf: WantedLeaf| issue_leaves(state.path(), &[leaf], now).unwrap();
        assert_eq!(issue(wanted(&[], &["192.0.2.1"])).changed.len(), 1);
        assert_eq!(issue(wanted(&["a.lan"], &["192.0.2.1"])).changed.len(), 1);
        assert_eq!(issue(wanted(&[], &["192.0.2.1"])).changed.len(), 0);
        // Another authority has issued what is there.
        std::fs::remove_dir_all(state.path().join("ca")).unwrap();
        assert_eq!(issue(wanted(&[], &["192.0.2.1"])).changed.len(), 1);
    }

    #[test]
    fn a_name_that_no_certificate_may_have_fails_alone() {
        let state = tempfile::tempdir().unwrap();
        let leaves = [wanted(&["*.lan"], &[]), wanted(&["box.lan"], &[])];
        let issued = issue_leaves(state.path(), &leaves, SystemTime::now()).unwrap();
        assert_eq!((issued.changed.len(), issued.failed.len()), (1, 1));
        assert_eq!(issued.again, AGAIN);
    }
}
