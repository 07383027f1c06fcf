//! The certificates that are kept up to date: a task for each, which does what the schedule says.
//!
//! Everything runs in one thread. The other threads see a [`CertKeeper`], with which they say what
//! is wanted and see how it stands.

mod demand;
mod revocation;
pub(crate) mod status;
mod task;
mod trial;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use lockgate_net::cert_demand::CertDemand;
use lockgate_net::challenges::Challenges;
use lockgate_rules::{AcmeDirectory, AcmeSettings, HostPattern, OnDemand};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::sleep;

use crate::directory::DirectoryClient;
use crate::leaves::{WantedLeaf, issue_leaves};
use crate::mutex::lock;
use crate::order::ChallengeKind;
use crate::schedule::spread_of;
use crate::store::{CertFolder, CertId, FolderLock};

use demand::Demands;
use revocation::PendingRevocation;
use status::CertStatus;
use task::{CertTask, FIRST_CHECKS};
use trial::PendingTrial;

pub use revocation::{RevocationError, RevocationWord, RevokedCert};
pub use trial::{CertTrial, TrialFailure};

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
    /// The permission that it needs anew for each order, if it was obtained on demand.
    pub permission: Option<Arc<OnDemand>>,
}

/// Hosts with certificates that are obtained when a client asks for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnDemandHosts {
    /// The hosts.
    pub hosts: Vec<HostPattern>,
    /// The permission, and the limits.
    pub rules: Arc<OnDemand>,
    /// The authorities, and how it is ordered.
    pub settings: Arc<AcmeSettings>,
    /// The challenges that can work, the preferred one first.
    pub ways: Vec<ChallengeKind>,
}

/// All certificates that are wanted.
#[derive(Debug, Clone, Default)]
pub struct WantedSet {
    /// Those that are ordered.
    pub orders: Arc<[WantedCert]>,
    /// Those of our own authority.
    pub leaves: Arc<[WantedLeaf]>,
    /// Those that clients may ask for.
    pub on_demand: Arc<[OnDemandHosts]>,
}

impl WantedSet {
    /// Whether nothing is wanted.
    pub fn is_empty(&self) -> bool {
        self.orders.is_empty() && self.leaves.is_empty() && self.on_demand.is_empty()
    }
}

/// The certificates that are wanted, and how they stand; at first none is. They are obtained while a
/// [`KeeperTask`] runs.
#[derive(Debug, Default)]
pub struct CertKeeper {
    wanted: watch::Sender<Arc<[WantedCert]>>,
    leaves: watch::Sender<Arc<[WantedLeaf]>>,
    on_demand: watch::Sender<Arc<[OnDemandHosts]>>,
    shared: Arc<KeeperState>,
}

/// What the thread and the others share.
#[derive(Debug, Default)]
struct KeeperState {
    certs: Mutex<BTreeMap<CertId, Arc<CertState>>>,
    /// The way to the thread, for trials.
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
    /// Changes each time that the status is told.
    told: watch::Sender<()>,
}

/// What the thread of certificates runs.
pub struct KeeperTask {
    wanted: watch::Receiver<Arc<[WantedCert]>>,
    leaves: watch::Receiver<Arc<[WantedLeaf]>>,
    on_demand: watch::Receiver<Arc<[OnDemandHosts]>>,
    demands: mpsc::Receiver<CertDemand>,
    trials: mpsc::Receiver<PendingTrial>,
    trial_turn: Arc<tokio::sync::Mutex<()>>,
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
    /// What a thread is to run so that the certificates are kept in a `state` folder, and `demands` of
    /// clients are met. `changed` is called with each file that is new.
    pub fn task(
        &self,
        state: &Path,
        challenges: Arc<Challenges>,
        demands: mpsc::Receiver<CertDemand>,
        changed: impl Fn(&Path) + Send + Sync + 'static,
    ) -> KeeperTask {
        KeeperTask {
            wanted: self.wanted.subscribe(),
            leaves: self.leaves.subscribe(),
            on_demand: self.on_demand.subscribe(),
            demands,
            trials: self.trials(),
            trial_turn: Arc::default(),
            shared: Arc::clone(&self.shared),
            state: state.to_owned(),
            folder: CertFolder::of_state(state),
            challenges,
            changed: Arc::new(changed),
        }
    }

    /// Keeps these certificates, and no others, up to date from now on. Those that are in both sets go
    /// on as they are.
    pub fn keep(&self, wanted: WantedSet) {
        let WantedSet {
            orders: wanted,
            leaves,
            on_demand,
        } = wanted;
        self.on_demand.send_if_modified(|before| {
            let is_new = **before != *on_demand;
            *before = on_demand;
            is_new
        });
        self.leaves.send_if_modified(|before| {
            let is_new = **before != *leaves;
            *before = leaves;
            is_new
        });
        let mut certs = self.shared.lock();
        let mut known = std::mem::take(&mut *certs);
        for wanted in &*wanted {
            let state = known.remove(&wanted.id).unwrap_or_default();
            certs.insert(wanted.id.clone(), state);
        }
        // Orders on demand may be under way.
        certs.extend(known.into_iter().filter(|(id, _)| id.on_demand));
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

    /// Renews the certificates of a name now, also before they are due or the time after a failure is
    /// over, unless the authority has asked to be left alone; returns how many there are.
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

    /// Tries a name again now where the last try has failed, unless the authority has asked to be left
    /// alone: the name leads to this machine since then. A wildcard has the names below it, too. A
    /// certificate that is not due is not renewed by that.
    pub fn retry(&self, name: &str) {
        let parent = name.strip_prefix('*');
        let certs = self.shared.lock();
        for (id, state) in &*certs {
            if id.name == name || parent.is_some_and(|parent| id.name.ends_with(parent)) {
                state.hurried.store(true, Ordering::Relaxed);
                state.woken.notify_one();
            }
        }
    }
}

impl OnDemandHosts {
    /// Whether a name in lower case is one of the hosts.
    pub fn has(&self, name: &str) -> bool {
        self.hosts.iter().any(|host| match host {
            HostPattern::Any => true,
            HostPattern::Exact(own) => own == name,
            HostPattern::Under(parent) => name
                .strip_suffix(&**parent)
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        })
    }
}

/// The tasks that run, and the clients that they use.
#[derive(Default)]
struct OrderTasks {
    running: HashMap<CertId, RunningTask>,
    clients: DirectoryClients,
}

impl KeeperState {
    /// The state of a certificate that is wanted.
    fn get(&self, id: &CertId) -> Option<Arc<CertState>> {
        self.lock().get(id).cloned()
    }

    /// The state of a certificate that is wanted from now on.
    fn add(&self, id: &CertId) -> Arc<CertState> {
        Arc::clone(self.lock().entry(id.clone()).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<CertId, Arc<CertState>>> {
        lock(&self.certs)
    }
}

impl CertState {
    fn status(&self) -> MutexGuard<'_, CertStatus> {
        lock(&self.status)
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
    pub async fn run(mut self) {
        let leaves = keep_leaves(
            self.leaves.clone(),
            self.state.clone(),
            Arc::clone(&self.changed),
        );
        let (begun, beginning) = mpsc::unbounded_channel();
        let asked = std::mem::replace(&mut self.demands, mpsc::channel(1).1);
        let demands = Rc::new(Demands {
            shared: Arc::clone(&self.shared),
            folder: self.folder.clone(),
            hosts: self.on_demand.clone(),
            begun,
            orders: watch::Sender::default(),
            limits: RefCell::default(),
        });
        tokio::join!(
            leaves,
            Rc::clone(&demands).serve(asked),
            self.keep_orders(&demands, beginning)
        );
    }

    async fn keep_orders(
        mut self,
        demands: &Rc<Demands>,
        mut beginning: mpsc::UnboundedReceiver<WantedCert>,
    ) {
        let mut tasks = OrderTasks::default();
        let (mut lock, mut refused) = (None, false);
        loop {
            let wanted = self.wanted.borrow_and_update().clone();
            let on_demand = self.on_demand.borrow_and_update().clone();
            if lock.is_none() && !(wanted.is_empty() && on_demand.is_empty()) {
                lock = self.take_lock(&mut refused);
                demands.orders.send_replace(Some(lock.is_some()));
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
            let running = tasks.running.values().map(|task| &task.wanted);
            let on_demand_running = running.filter(|wanted| wanted.id.on_demand);
            tasks.clients.retain(wanted.iter().chain(on_demand_running));
            let mut before = std::mem::take(&mut tasks.running);
            for wanted in &*wanted {
                let kept = before.remove(&wanted.id);
                let kept = kept.filter(|running| running.wanted == *wanted);
                let task = kept.unwrap_or_else(|| self.start(wanted, &mut tasks.clients, demands));
                tasks.running.insert(wanted.id.clone(), task);
            }
            // Orders on demand that are under way, if they are still permitted.
            before.retain(|id, task| {
                let permits =
                    |hosts: &OnDemandHosts| hosts.has(&id.name) && hosts.rules.lists(&id.name);
                id.on_demand && !task.task.is_finished() && on_demand.iter().any(permits)
            });
            tasks.running.extend(before);
            // The state of an order that has begun meanwhile is not to be taken for a leftover.
            while let Ok(begun) = beginning.try_recv() {
                self.begin(begun, &mut tasks, demands);
            }
            self.shared
                .lock()
                .retain(|id, _| !id.on_demand || tasks.running.contains_key(id));
            loop {
                tokio::select! {
                    Some(begun) = beginning.recv() => self.begin(begun, &mut tasks, demands),
                    Some(trial) = self.trials.recv() => {
                        self.try_out(trial, &wanted, &tasks.clients);
                    }
                    changed = self.wanted.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    changed = self.on_demand.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                }
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

    /// Starts an order on demand, unless it is under way.
    fn begin(&self, wanted: WantedCert, tasks: &mut OrderTasks, demands: &Rc<Demands>) {
        let known = tasks.running.get(&wanted.id);
        if known.is_none_or(|task| task.task.is_finished()) {
            let task = self.start(&wanted, &mut tasks.clients, demands);
            tasks.running.insert(wanted.id, task);
        }
    }

    fn start(
        &self,
        wanted: &WantedCert,
        clients: &mut DirectoryClients,
        demands: &Rc<Demands>,
    ) -> RunningTask {
        let clients = clients.of(&wanted.settings, &self.folder);
        let state = self.shared.lock().get(&wanted.id).cloned();
        let task = CertTask {
            wanted: wanted.clone(),
            clients,
            state: state.unwrap_or_default(),
            folder: self.folder.clone(),
            challenges: Arc::clone(&self.challenges),
            changed: Arc::clone(&self.changed),
            first_check: SystemTime::now() + FIRST_CHECKS.mul_f64(spread_of(&wanted.id.name)),
            asked: Cell::new(false),
        };
        let (id, demands) = (wanted.id.clone(), Rc::clone(demands));
        let run = async move {
            // It ends by itself where an order on demand has failed: the next client asks again.
            task.run().await;
            demands.end(&id);
        };
        RunningTask {
            wanted: wanted.clone(),
            task: spawn_local(run).abort_handle(),
        }
    }
}

/// The clients of authorities. All settings with the same directory and `eab` share one, so that there
/// is one account, which is made once; its email is that of the first settings.
#[derive(Default)]
struct DirectoryClients(Vec<Rc<DirectoryClient>>);

impl DirectoryClients {
    /// The clients of the directories of these settings, in their order.
    fn of(
        &mut self,
        settings: &Arc<AcmeSettings>,
        folder: &CertFolder,
    ) -> Rc<[Rc<DirectoryClient>]> {
        let client = |directory: &AcmeDirectory| {
            if let Some(client) = self.known(directory, settings) {
                return client;
            }
            let settings = Arc::clone(settings);
            let client = DirectoryClient::new(directory.clone(), settings, folder.clone());
            let client = Rc::new(client);
            self.0.push(Rc::clone(&client));
            client
        };
        settings.directories.iter().map(client).collect()
    }

    /// The client of a directory for the account of these settings, if there is one.
    fn known(
        &self,
        directory: &AcmeDirectory,
        settings: &AcmeSettings,
    ) -> Option<Rc<DirectoryClient>> {
        let mut clients = self.0.iter();
        let of_account = |client: &&Rc<DirectoryClient>| {
            client.directory.url == directory.url && client.has_account_of(settings)
        };
        clients.find(of_account).cloned()
    }

    /// Forgets those that no certificate uses, and those with an email that no settings have any more.
    fn retain<'w>(&mut self, wanted: impl Iterator<Item = &'w WantedCert>) {
        let used: HashSet<_> = wanted.map(|wanted| &wanted.settings).collect();
        self.0.retain(|client| {
            used.iter().any(|settings| {
                let mut directories = settings.directories.iter();
                directories.any(|directory| directory.url == client.directory.url)
                    && client.has_account_of(settings)
                    && client.has_email_of(settings)
            })
        });
    }
}
