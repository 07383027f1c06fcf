//! The certificates that are kept up to date: a task for each, which does what the schedule says.
//!
//! Everything runs in one thread. The other threads see a [`CertKeeper`], with which they say what
//! is wanted and see how it stands.

mod task;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use lockgate_net::challenges::Challenges;
use lockgate_rules::{AcmeDirectory, AcmeSettings};
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::sleep;

use crate::directory::DirectoryClient;
use crate::error::FailureKind;
use crate::leaves::{WantedLeaf, issue_leaves};
use crate::order::ChallengeKind;
use crate::schedule::{RenewalWindow, Validity};
use crate::store::{CertFolder, CertId, FolderLock};

use task::CertTask;

/// The time between two tries for the lock of the folder, while another process has it.
const LOCK_TRIES: Duration = Duration::from_secs(2);
/// The time between two tries to open our own authority.
const LEAVES_AGAIN: Duration = Duration::from_secs(60);

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

/// How a certificate stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CertStatus {
    /// The time in which it is valid; `None` where there is none.
    pub validity: Option<Validity>,
    /// The URL of the directory that has issued it.
    pub directory: Option<String>,
    /// The challenge by which its name was proved last.
    pub challenge: Option<String>,
    /// The window in which the authority wants it to be renewed.
    pub window: Option<RenewalWindow>,
    /// When it is to be renewed.
    pub due: Option<SystemTime>,
    /// When the last try began, if this process has made one.
    pub tried: Option<SystemTime>,
    /// Failures since the last success.
    pub failures: u32,
    /// The last of them: its kind, and its message.
    pub failure: Option<(Option<FailureKind>, String)>,
    /// When the next try is, after a failure.
    pub next_try: Option<SystemTime>,
}

/// The certificates that are wanted, and how they stand; at first none is. They are obtained while a
/// [`KeeperTask`] runs.
#[derive(Debug, Default)]
pub struct CertKeeper {
    wanted: watch::Sender<Arc<[WantedCert]>>,
    leaves: watch::Sender<Arc<[WantedLeaf]>>,
    shared: Arc<KeeperState>,
}

/// What the thread and the others share.
#[derive(Debug, Default)]
struct KeeperState {
    certs: Mutex<BTreeMap<CertId, Arc<CertState>>>,
}

/// The state of one certificate.
#[derive(Debug, Default)]
struct CertState {
    status: Mutex<CertStatus>,
    /// Whether a renewal was asked for.
    forced: AtomicBool,
    /// Wakes its task.
    woken: Notify,
}

/// What the thread of certificates runs.
pub struct KeeperTask {
    wanted: watch::Receiver<Arc<[WantedCert]>>,
    leaves: watch::Receiver<Arc<[WantedLeaf]>>,
    shared: Arc<KeeperState>,
    /// The state folder.
    state: PathBuf,
    folder: CertFolder,
    challenges: Arc<Challenges>,
    changed: ChangedFn,
}

/// Called with the file of a certificate that has changed.
type ChangedFn = Arc<dyn Fn(&Path) + Send + Sync>;

impl CertKeeper {
    /// What a thread is to run so that the certificates are kept in a `state` folder. `changed` is
    /// called with each file that is new.
    pub fn task(
        &self,
        state: &Path,
        challenges: Arc<Challenges>,
        changed: impl Fn(&Path) + Send + Sync + 'static,
    ) -> KeeperTask {
        KeeperTask {
            wanted: self.wanted.subscribe(),
            leaves: self.leaves.subscribe(),
            shared: Arc::clone(&self.shared),
            state: state.to_owned(),
            folder: CertFolder::of_state(state),
            challenges,
            changed: Arc::new(changed),
        }
    }

    /// Keeps these certificates, and no others, up to date from now on: those that are ordered, and
    /// those of our own authority. Those that are in both sets go on as they are.
    pub fn keep(&self, wanted: Arc<[WantedCert]>, leaves: Arc<[WantedLeaf]>) {
        self.leaves.send_if_modified(|before| {
            let is_new = **before != *leaves;
            *before = leaves;
            is_new
        });
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

    /// Renews the certificates of a name now, also before they are due; returns how many there are.
    pub fn renew(&self, name: &str) -> usize {
        let certs = self.shared.lock();
        let of_name = certs.iter().filter(|(id, _)| id.name == name);
        of_name
            .map(|(_, state)| {
                state.forced.store(true, Ordering::Relaxed);
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

/// Keeps certificates of our own authority up to date until their source is gone.
async fn keep_leaves(
    mut wanted: watch::Receiver<Arc<[WantedLeaf]>>,
    state: PathBuf,
    changed: ChangedFn,
) {
    let mut failing = false;
    loop {
        let leaves = wanted.borrow_and_update().clone();
        let mut again = None;
        if !leaves.is_empty() {
            let state = state.clone();
            let issued = move || issue_leaves(&state, &leaves, SystemTime::now());
            match tokio::task::spawn_blocking(issued).await {
                Ok(Ok(issued)) => {
                    failing = issued.tell();
                    issued.changed.iter().for_each(|file| changed(file));
                    again = Some(issued.again);
                }
                Ok(Err(error)) => {
                    if !failing {
                        tracing::error!(%error, "no certificate of Lockgate's own authority can be issued");
                    }
                    failing = true;
                    again = Some(LEAVES_AGAIN);
                }
                Err(error) => tracing::error!(%error, "certificates are not issued any more"),
            }
        }
        let wait = async {
            match again {
                Some(again) => sleep(again).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = wait => {}
            changed = wanted.changed() => if changed.is_err() {
                return;
            },
        }
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
    pub async fn run(self) {
        let leaves = keep_leaves(
            self.leaves.clone(),
            self.state.clone(),
            Arc::clone(&self.changed),
        );
        tokio::join!(leaves, self.keep_orders());
    }

    async fn keep_orders(mut self) {
        let mut running: HashMap<CertId, RunningTask> = HashMap::new();
        let mut clients = DirectoryClients::default();
        let (mut lock, mut refused) = (None, false);
        loop {
            let wanted = self.wanted.borrow_and_update().clone();
            if lock.is_none() && !wanted.is_empty() {
                lock = self.take_lock(&mut refused);
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
            clients.retain(&wanted);
            if self.wanted.changed().await.is_err() {
                return;
            }
        }
    }

    /// Takes the right to order; `refused` tells whether the system has refused it before.
    fn take_lock(&self, refused: &mut bool) -> Option<FolderLock> {
        let folder = self.folder.path().display();
        let taken = self.folder.prepare().and_then(|()| self.folder.lock());
        match taken {
            Ok(lock) => {
                if lock.is_none() {
                    tracing::debug!(%folder, "another process obtains certificates in this folder");
                }
                *refused = false;
                lock
            }
            Err(error) => {
                if !*refused {
                    tracing::error!(%folder, %error, "no certificate can be kept: none is obtained");
                }
                *refused = true;
                None
            }
        }
    }

    fn start(&self, wanted: &WantedCert, clients: &mut DirectoryClients) -> RunningTask {
        let clients = clients.of(&wanted.settings, &self.folder);
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

/// The clients of authorities. All settings with the same directory share one, so that there is one
/// account, which is made once.
#[derive(Default)]
struct DirectoryClients(HashMap<String, Rc<DirectoryClient>>);

impl DirectoryClients {
    /// The clients of the directories of these settings, in their order.
    fn of(
        &mut self,
        settings: &Arc<AcmeSettings>,
        folder: &CertFolder,
    ) -> Rc<[Rc<DirectoryClient>]> {
        let client = |directory: &AcmeDirectory| {
            let known = self.0.get(&directory.url);
            let known = known.filter(|client| client.has_account_of(settings));
            if let Some(client) = known {
                return Rc::clone(client);
            }
            let settings = Arc::clone(settings);
            let client = DirectoryClient::new(directory.clone(), settings, folder.clone());
            let client = Rc::new(client);
            self.0.insert(directory.url.clone(), Rc::clone(&client));
            client
        };
        settings.directories.iter().map(client).collect()
    }

    /// Forgets those that no certificate uses.
    fn retain(&mut self, wanted: &[WantedCert]) {
        let settings = wanted.iter().map(|wanted| &wanted.settings);
        let used: HashSet<_> = settings
            .flat_map(|settings| settings.directories.iter().map(|directory| &directory.url))
            .collect();
        self.0.retain(|url, _| used.contains(url));
    }
}
