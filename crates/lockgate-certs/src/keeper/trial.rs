//! Trials of an order: at the staging directory of the configured authority, in a folder of their
//! own, which is removed afterwards. What is served and kept stays as it is.

use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_net::challenges::Challenges;
use lockgate_rules::AcmeDirectory;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, spawn_local};

use super::{CertKeeper, DirectoryClients, KeeperTask, WantedCert};
use crate::directory::DirectoryClient;
use crate::error::{Failure, FailureKind};
use crate::mutex::lock;
use crate::order::{Attempt, ChallengeKind};
use crate::store::{CertFolder, CertId, CertRecord};

/// The most trials that wait for another one.
const WAITING: usize = 4;

/// The directories that have another one for trials.
const STAGING: [(&str, &str); 2] = [
    ("letsencrypt", "letsencrypt-staging"),
    ("google", "google-staging"),
];

/// The result of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertTrial {
    /// The certificate that was tried.
    pub id: CertId,
    /// The directory that was asked.
    pub directory: AcmeDirectory,
    /// Whether it is the configured one: it has none for trials, and its limits apply.
    pub is_configured: bool,
    /// The challenge by which the name was proved; `None` where there is no certificate, or the
    /// authority has verified the name before.
    pub challenge: Option<String>,
    /// Whether there was a certificate at the end.
    pub obtained: bool,
    /// The time that it took.
    pub took: Duration,
    /// What has failed; also before another challenge has succeeded.
    pub failures: Vec<TrialFailure>,
}

/// A failure of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialFailure {
    /// The challenge that has failed, if that was the reason.
    pub challenge: Option<ChallengeKind>,
    /// What has failed.
    pub failure: Failure,
}

/// A trial that waits for the thread.
pub(super) struct PendingTrial {
    names: Vec<String>,
    answer: oneshot::Sender<Vec<CertTrial>>,
}

impl fmt::Debug for PendingTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.names.fmt(f)
    }
}

impl CertKeeper {
    /// Tries to obtain the certificates of these names; names for which none is wanted have no
    /// result. `None` where nothing is obtained, or too many trials wait.
    pub fn try_out(&self, names: Vec<String>) -> Option<oneshot::Receiver<Vec<CertTrial>>> {
        let trials = lock(&self.shared.trials).clone()?;
        let (answer, receiver) = oneshot::channel();
        trials.try_send(PendingTrial { names, answer }).ok()?;
        Some(receiver)
    }

    /// Where a new thread takes trials from.
    pub(super) fn trials(&self) -> mpsc::Receiver<PendingTrial> {
        let (sender, receiver) = mpsc::channel(WAITING);
        *lock(&self.shared.trials) = Some(sender);
        receiver
    }
}

/// One certificate of a trial.
struct OneTrial {
    wanted: WantedCert,
    client: Rc<DirectoryClient>,
    is_configured: bool,
    folder: CertFolder,
    challenges: Arc<Challenges>,
}

impl KeeperTask {
    /// Begins a trial, which goes on beside the orders. It has a turn: the folder is that of one.
    pub(super) fn try_out(
        &self,
        trial: PendingTrial,
        wanted: &[WantedCert],
        clients: &DirectoryClients,
    ) {
        let mut own: Vec<Rc<DirectoryClient>> = Vec::new();
        let is_asked = |wanted: &&WantedCert| trial.names.contains(&wanted.id.name);
        let folder = self.folder.for_trials();
        let mut trials = Vec::new();
        for wanted in wanted.iter().filter(is_asked) {
            let settings = &wanted.settings;
            let Some(configured) = settings.directories.first() else {
                continue;
            };
            let directory = trial_directory(configured);
            // An account is made once, also by a trial.
            let mut made = own.iter();
            let made = made
                .find(|client| client.directory == directory && client.has_account_of(settings));
            let known = made
                .cloned()
                .or_else(|| clients.known(&directory, settings));
            let client = known.unwrap_or_else(|| {
                let settings = Arc::clone(settings);
                let folder = self.folder.clone();
                let made = DirectoryClient::new(directory.clone(), settings, folder);
                let made = Rc::new(made);
                own.push(Rc::clone(&made));
                made
            });
            trials.push(OneTrial {
                is_configured: directory == *configured,
                wanted: wanted.clone(),
                client,
                folder: folder.clone(),
                challenges: Arc::clone(&self.challenges),
            });
        }
        let turn = Arc::clone(&self.trial_turn);
        spawn_local(async move {
            let _turn = turn.lock().await;
            let mut results = run(&folder, trials).await;
            results.sort_by(|one, other| one.id.cmp(&other.id));
            // The client may have left.
            let _ = trial.answer.send(results);
        });
    }
}

/// Tries all of them at once, as far as their authority lets us.
async fn run(folder: &CertFolder, trials: Vec<OneTrial>) -> Vec<CertTrial> {
    let prepared = remove(folder).and_then(|()| folder.prepare());
    let mut running = JoinSet::new();
    for trial in trials {
        let prepared = prepared.as_ref().map_err(|error| error.kind()).copied();
        running.spawn_local(async move {
            match prepared {
                Ok(()) => trial.run().await,
                Err(kind) => trial.failed(io::Error::from(kind).into()),
            }
        });
    }
    let results = running.join_all().await;
    if let Err(error) = remove(folder) {
        let folder = folder.path().display();
        tracing::warn!(%folder, %error, "the folder of a trial stays");
    }
    results
}

fn remove(folder: &CertFolder) -> io::Result<()> {
    match std::fs::remove_dir_all(folder.path()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

impl OneTrial {
    /// Tries one challenge after the other, until a certificate is there.
    async fn run(self) -> CertTrial {
        let begun = Instant::now();
        let client = &*self.client;
        let mut record = CertRecord::default();
        let mut ways = self.wanted.ways.clone();
        let mut failures = Vec::new();
        let obtained = loop {
            let mut attempt = Attempt {
                folder: &self.folder,
                client,
                challenges: &self.challenges,
                id: &self.wanted.id,
                profile: self.wanted.settings.profile.as_deref(),
                ways: ways.clone(),
                dns: self.wanted.settings.dns.as_deref(),
                replaces: None,
                record: &mut record,
            };
            match attempt.obtain().await {
                Ok(_) => break true,
                Err(failure) => {
                    // Other failures have nothing to do with the challenge.
                    let is_of_challenge = failure.kind == FailureKind::Validation;
                    let tried = is_of_challenge && !ways.is_empty();
                    let challenge = tried.then(|| ways.remove(0));
                    failures.push(TrialFailure { challenge, failure });
                    if !is_of_challenge || ways.is_empty() {
                        break false;
                    }
                }
            }
        };
        CertTrial {
            id: self.wanted.id.clone(),
            directory: client.directory.clone(),
            is_configured: self.is_configured,
            challenge: record.challenge.filter(|_| obtained),
            obtained,
            took: begun.elapsed(),
            failures,
        }
    }

    fn failed(self, failure: Failure) -> CertTrial {
        CertTrial {
            id: self.wanted.id,
            directory: self.client.directory.clone(),
            is_configured: self.is_configured,
            challenge: None,
            obtained: false,
            took: Duration::ZERO,
            failures: vec![TrialFailure {
                challenge: None,
                failure,
            }],
        }
    }
}

/// The directory for trials of a configured one: itself where it has no other.
fn trial_directory(configured: &AcmeDirectory) -> AcmeDirectory {
    let mut known = STAGING.iter().filter_map(|(name, staging)| {
        let is_it = AcmeDirectory::known(name)?.url == configured.url;
        AcmeDirectory::known(staging).filter(|_| is_it)
    });
    known.next().unwrap_or_else(|| configured.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_goes_to_the_staging_directory_of_the_authority_where_there_is_one() {
        let known = |name: &str| AcmeDirectory::known(name).unwrap();
        for (configured, tried) in [
            ("letsencrypt", "letsencrypt-staging"),
            ("google", "google-staging"),
            ("letsencrypt-staging", "letsencrypt-staging"),
            ("zerossl", "zerossl"),
        ] {
            assert_eq!(trial_directory(&known(configured)), known(tried));
        }
        let own = AcmeDirectory {
            name: "ca.lan".to_owned(),
            url: "https://ca.lan/directory".to_owned(),
        };
        assert_eq!(trial_directory(&own), own);
        let by_url = AcmeDirectory {
            name: "acme-v02.api.letsencrypt.org".to_owned(),
            ..known("letsencrypt")
        };
        assert_eq!(trial_directory(&by_url), known("letsencrypt-staging"));
    }
}
