//! The certificates that are kept up to date: a task for each, which does what the schedule says.
//!
//! Everything runs in one thread. The other threads see a [`CertKeeper`], with which they say what
//! is wanted and see how it stands.

mod revocation;
pub(crate) mod status;
mod task;
mod trial;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockgate_net::challenges::Challenges;
use lockgate_rules::AcmeSettings;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::sleep;

use crate::directory::DirectoryClient;
use crate::order::ChallengeKind;
use crate::store::{CertFolder, CertId};

use revocation::PendingRevocation;
use status::CertStatus;
use task::CertTask;
use trial::PendingTrial;

pub use revocation::{RevocationError, RevocationWord, RevokedCert};
pub use trial::{CertTrial, TrialFailure};

/// The time between two tries for the lock of the folder, while another process has it.
const LOCK_TRIES: Duration = Duration::from_secs(2);

/// A certificate that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedCert {
    /// Its name, and the kind of its key.
    pub id: CertId,
    /// The authorities, and how it is ordered.
    pub settings: Arc<AcmeSettings>,
    /// The challenges that can work, the preferred one first.
    pub ways: Vec<ChallengeKind>,
}

/// The certificates that are wanted, and how they stand; at first none is. They are obtained while a
/// [`KeeperTask`] runs.
#[derive(Debug, Default)]
pub struct CertKeeper {
    wanted: watch::Sender<Arc<[WantedCert]>>,
    shared: Arc<KeeperState>,
}

/// What the thread and the others share.
#[derive(Debug, Default)]
struct KeeperState {
    certs: Mutex<BTreeMap<CertId, Arc<CertState>>>,
    /// The trials that wait for the thread.
    trials: Mutex<Option<mpsc::Sender<PendingTrial>>>,
}

/// The state of one certificate.
#[derive(Debug, Default)]
struct CertState {
    status: Mutex<CertStatus>,
    /// Whether a renewal was asked for.
    forced: AtomicBool,
    /// Whether the next try is not to wait because of failures.
    hurried: AtomicBool,
    /// A revocation that was asked for.
    revocation: Mutex<Option<PendingRevocation>>,
    /// Wakes its task.
    woken: Notify,
}

/// What the thread of certificates runs.
pub struct KeeperTask {
    wanted: watch::Receiver<Arc<[WantedCert]>>,
    trials: mpsc::Receiver<PendingTrial>,
    trial_turn: Arc<tokio::sync::Mutex<()>>,
    shared: Arc<KeeperState>,
    folder: CertFolder,
    challenges: Arc<Challenges>,
    changed: ChangedFn,
}

/// Called with the file of a certificate that has changed.
type ChangedFn = Arc<dyn Fn(&Path) + Send + Sync>;

impl CertKeeper {
    /// What a thread is to run so that the certificates are kept in `folder`. `changed` is called
    /// with each file that is new.
    pub fn task(
        &self,
        folder: CertFolder,
        challenges: Arc<Challenges>,
        changed: impl Fn(&Path) + Send + Sync + 'static,
    ) -> KeeperTask {
        KeeperTask {
            wanted: self.wanted.subscribe(),
            trials: self.trials(),
            trial_turn: Arc::default(),
            shared: Arc::clone(&self.shared),
            folder,
            challenges,
            changed: Arc::new(changed),
        }
    }

    /// Keeps these certificates, and no others, up to date from now on. Those that are in both
    /// sets go on as they are.
    pub fn keep(&self, wanted: Arc<[WantedCert]>) {
        let mut certs = self.shared.lock();
        let known = std::mem::take(&mut *certs);
        *certs = wanted
            .iter()
            .map(|wanted| {
                let state = known.get(&wanted.id).cloned().unwrap_or_default();
                (wanted.id.clone(), state)
            })
            .collect();
        drop(certs);
        self.wanted.send_if_modified(|before| {
            let is_new = **before != *wanted;
            if is_new {
                *before = wanted;
            }
            is_new
        });
    }

    /// How each certificate stands, by name.
    pub fn statuses(&self) -> Vec<(CertId, CertStatus)> {
        let certs = self.shared.lock();
        certs
            .iter()
            .map(|(id, state)| (id.clone(), state.status().clone()))
            .collect()
    }

    /// Renews the certificates of a name now, whatever the schedule says, unless the authority has
    /// asked to be left alone; returns how many there are.
    pub fn renew(&self, name: &str) -> usize {
        let certs = self.shared.lock();
        let of_name = certs.iter().filter(|(id, _)| id.name == name);
        of_name
            .map(|(_, state)| {
                state.forced.store(true, Ordering::Relaxed);
                state.hurried.store(true, Ordering::Relaxed);
                state.woken.notify_one();
            })
            .count()
    }
}

impl KeeperState {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<CertId, Arc<CertState>>> {
        self.certs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CertState {
    fn status(&self) -> MutexGuard<'_, CertStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task that runs; it ends when this is dropped.
struct RunningTask {
    wanted: WantedCert,
    task: AbortHandle,
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl KeeperTask {
    /// Keeps certificates up to date until the [`CertKeeper`] is gone. To be run in a `LocalSet`.
    ///
    /// An order that is under way when this is dropped is taken up by the next process.
    pub async fn run(mut self) {
        let mut running: HashMap<CertId, RunningTask> = HashMap::new();
        let mut clients: Vec<(Arc<AcmeSettings>, Rc<[DirectoryClient]>)> = Vec::new();
        let mut lock = None;
        loop {
            let wanted = self.wanted.borrow_and_update().clone();
            if lock.is_none() && !wanted.is_empty() {
                lock = self.take_lock();
                if lock.is_none() {
                    // The process that holds it orders for the same names.
                    tokio::select! {
                        () = sleep(LOCK_TRIES) => continue,
                        changed = self.wanted.changed() => match changed {
                            Ok(()) => continue,
                            Err(_) => return,
                        },
                    }
                }
            }
            let mut before = std::mem::take(&mut running);
            for wanted in &*wanted {
                let kept = before.remove(&wanted.id);
                let kept = kept.filter(|running| running.wanted == *wanted);
                let task = kept.unwrap_or_else(|| self.start(wanted, &mut clients));
                running.insert(wanted.id.clone(), task);
            }
            drop(before);
            let uses = |settings: &Arc<AcmeSettings>| {
                wanted.iter().any(|wanted| wanted.settings == *settings)
            };
            clients.retain(|(settings, _)| uses(settings));
            loop {
                tokio::select! {
                    changed = self.wanted.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    Some(trial) = self.trials.recv() => self.try_out(trial, &wanted, &clients),
                }
            }
        }
    }

    fn take_lock(&self) -> Option<crate::store::FolderLock> {
        let folder = self.folder.path().display();
        match self.folder.prepare().and_then(|()| self.folder.lock()) {
            Ok(lock) => {
                if lock.is_none() {
                    tracing::debug!(%folder, "another process obtains certificates in this folder");
                }
                lock
            }
            Err(error) => {
                tracing::error!(%folder, %error, "no certificate can be kept: none is obtained");
                None
            }
        }
    }

    fn start(
        &self,
        wanted: &WantedCert,
        clients: &mut Vec<(Arc<AcmeSettings>, Rc<[DirectoryClient]>)>,
    ) -> RunningTask {
        let known = clients
            .iter()
            .find(|(settings, _)| *settings == wanted.settings);
        let clients = match known {
            Some((_, clients)) => Rc::clone(clients),
            None => {
                let settings = &wanted.settings;
                let client = |directory: &lockgate_rules::AcmeDirectory| {
                    let settings = Arc::clone(settings);
                    DirectoryClient::new(directory.clone(), settings, self.folder.clone())
                };
                let made: Rc<[_]> = settings.directories.iter().map(client).collect();
                clients.push((Arc::clone(settings), Rc::clone(&made)));
                made
            }
        };
        let state = self.shared.lock().get(&wanted.id).cloned();
        let task = CertTask {
            wanted: wanted.clone(),
            clients,
            state: state.unwrap_or_default(),
            folder: self.folder.clone(),
            challenges: Arc::clone(&self.challenges),
            changed: Arc::clone(&self.changed),
        };
        RunningTask {
            wanted: wanted.clone(),
            task: spawn_local(task.run()).abort_handle(),
        }
    }
}
