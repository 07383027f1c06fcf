//! The task of one certificate: it does what the schedule says, and keeps what came of it.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use lockgate_net::challenges::Challenges;
use lockgate_rules::AcmeDirectory;
use time::OffsetDateTime;
use tokio::time::sleep;

use super::status::{CertStatus, standing};
use super::{CertState, ChangedFn, WantedCert};
use crate::directory::DirectoryClient;
use crate::dns_record::DnsRecords;
use crate::error::{Failure, FailureKind};
use crate::keys;
use crate::leaf::Leaf;
use crate::order::{Attempt, ChallengeKind};
use crate::permission::{self, Permission};
use crate::schedule::{self, Next, RenewalWindow, Standing, next_window_check};
use crate::store::{
    CertFolder, CertRecord, FailureRecord, OrderRecord, PauseRecord, RenewalRecord,
};

/// The time after which an authority is asked again that has not told the window of a renewal.
const NO_WINDOW: Duration = Duration::from_secs(6 * 3600);

/// The time after which a permission is asked for again that was not given for a renewal.
const NOT_PERMITTED: Duration = Duration::from_secs(6 * 3600);

/// The age from which an order that does not end is given up for one at the next authority.
const PATIENCE: Duration = Duration::from_secs(600);

/// The task of one certificate.
pub(super) struct CertTask {
    pub(super) wanted: WantedCert,
    pub(super) clients: Rc<[Rc<DirectoryClient>]>,
    pub(super) state: Arc<CertState>,
    pub(super) folder: CertFolder,
    pub(super) challenges: Arc<Challenges>,
    pub(super) changed: ChangedFn,
    /// When the authority is asked for the window of renewal first, if not before.
    pub(super) first_check: SystemTime,
    /// Whether it has been asked.
    pub(super) asked: Cell<bool>,
}

/// The time after a start in which authorities are asked for all windows.
pub(super) const FIRST_CHECKS: Duration = Duration::from_secs(600);

/// What is known of the certificate.
pub(super) struct Known {
    pub(super) leaf: Option<Leaf>,
    pub(super) record: CertRecord,
    /// Tries that have succeeded and failed since the status was told.
    tries: (u32, u32),
}

/// Why no authority has issued a certificate.
struct Refusal {
    /// The failure at the first one, which is the preferred one.
    failure: Failure,
    /// The name of its directory.
    directory: String,
    /// The directories that have told when to try again.
    pauses: Vec<PauseRecord>,
}

impl CertTask {
    /// Runs until the certificate is no longer wanted; one on demand ends by itself when its first order
    /// has failed.
    pub(super) async fn run(self) {
        let mut known = self.read().await;
        let mut was_late = false;
        // A process may have ended before it removed them.
        self.remove_records(&mut known.record).await;
        loop {
            if let Some(revocation) = self.state.take_revocation() {
                self.revoke(&mut known, revocation).await;
            }
            let now = SystemTime::now();
            let standing = self.standing(&known);
            self.tell(&standing, &mut known);
            if standing.is_late(now) && standing.failures > 0 && !was_late {
                was_late = true;
                self.shout(&standing, &known, now);
            }
            if standing.failures > 0 && standing.validity.is_none() && self.is_on_demand() {
                return;
            }
            match schedule::next(&standing, now) {
                Next::Obtain => {
                    if self.was_obtained(&known) && !self.is_permitted().await {
                        // A revocation does not wait for the permission.
                        tokio::select! {
                            () = sleep(NOT_PERMITTED) => {}
                            () = self.state.woken.notified() => {}
                        }
                        continue;
                    }
                    self.obtain(&mut known, &standing).await;
                    was_late &= known.record.failures.is_some();
                }
                Next::CheckWindow => self.check_window(&mut known).await,
                Next::Wait(time) => {
                    tokio::select! {
                        () = sleep(time) => {}
                        () = self.state.woken.notified() => {}
                    }
                }
            }
        }
    }

    /// Whether there was a certificate before, so that a permission for it may be old.
    fn was_obtained(&self, known: &Known) -> bool {
        known.record.revoked.is_some() || self.folder.cert_file(&self.wanted.id).exists()
    }

    fn is_on_demand(&self) -> bool {
        self.wanted.permission.is_some()
    }

    /// Whether a certificate that was obtained on demand may be renewed; others may.
    async fn is_permitted(&self) -> bool {
        let Some(rules) = &self.wanted.permission else {
            return true;
        };
        let name = &self.wanted.id.name;
        match permission::ask(rules, name).await {
            Permission::Given => true,
            Permission::Denied => {
                tracing::info!(
                    name,
                    "the certificate is not renewed: the name is not permitted any more"
                );
                false
            }
            Permission::Unknown(error) => {
                tracing::warn!(
                    name,
                    error,
                    "the certificate is not renewed yet: the permission cannot be asked for"
                );
                false
            }
        }
    }

    /// What the files say. While they cannot be read the task waits: an order would end nowhere.
    async fn read(&self) -> Known {
        let id = &self.wanted.id;
        loop {
            match self.read_once() {
                Ok(known) => return known,
                Err(error) => {
                    tracing::error!(name = id.name, %error, "what is kept of the certificate cannot be read");
                    sleep(Duration::from_secs(60)).await;
                }
            }
        }
    }

    async fn remove_records(&self, record: &mut CertRecord) {
        let records = DnsRecords {
            folder: &self.folder,
            id: &self.wanted.id,
            provider: self.wanted.settings.dns.as_deref(),
        };
        records.remove_all(record).await;
    }

    fn read_once(&self) -> io::Result<Known> {
        let id = &self.wanted.id;
        let mut record = self.folder.record(id)?;
        let leaf = self.folder.cert(id)?;
        let leaf = leaf.and_then(|pem| Leaf::of_pem(&pem).ok());
        let key = self.folder.pending_key(id)?;
        // A process may have ended right after the last step of an order, or the one before.
        let public = key.as_deref().and_then(keys::public_key);
        let is_done = leaf
            .as_ref()
            .zip(public)
            .is_some_and(|(leaf, key)| leaf.public_key == key);
        let done = record.order.take_if(|_| is_done);
        if let Some(order) = done {
            (record.directory, record.failures) = (Some(order.directory), None);
            record.profile = order.profile;
            record.obtained = Some(OffsetDateTime::now_utc());
            (record.renewal, record.revoked) = (None, None);
            self.folder.keep_record(id, &record)?;
        }
        if key.is_some() && record.order.is_none() {
            self.folder.remove_pending_key(id)?;
        }
        Ok(Known {
            leaf,
            record,
            tries: (0, 0),
        })
    }

    fn standing(&self, known: &Known) -> Standing {
        let Known { leaf, record, .. } = known;
        let settings = &self.wanted.settings;
        let is_other = |directory: &String| {
            let mut directories = settings.directories.iter();
            !directories.any(|one| one.url == *directory)
        };
        let leaf = leaf.as_ref();
        let outdated = self.state.forced.load(Ordering::Relaxed)
            || record.revoked.is_some()
            || record.directory.as_ref().is_some_and(is_other)
            || (record.directory.is_some() && record.profile != settings.profile);
        let mut standing = standing(&self.wanted.id, leaf, record, outdated);
        let asks = standing.window_check.is_some();
        standing.window_check = asks.then(|| self.window_check(record.renewal.as_ref()));
        standing.retry_after = record.failures.as_ref().and_then(|failures| {
            // One that has told no time can be asked.
            let pauses = settings.directories.iter();
            let pauses = pauses.map(|directory| failures.pause(&directory.url));
            pauses.collect::<Option<Vec<_>>>()?.into_iter().min()
        });
        if self.state.hurried.load(Ordering::Relaxed) {
            // There is a reason not to wait; what the authority asks for holds on.
            standing.failed = None;
        }
        standing
    }

    /// When the authority is asked for the window next: also a while after the start of this process, if
    /// that is before. It may have been down when the authority wanted the certificate to be renewed.
    fn window_check(&self, renewal: Option<&RenewalRecord>) -> SystemTime {
        let Some(renewal) = renewal else {
            return SystemTime::UNIX_EPOCH;
        };
        let next = SystemTime::from(renewal.next_check);
        match self.asked.get() {
            true => next,
            false => next.min(self.first_check),
        }
    }

    /// Publishes how the certificate stands.
    fn tell(&self, standing: &Standing, known: &mut Known) {
        let mut status = self.state.status();
        let (tried, obtained, failed) = (status.tried, status.obtained, status.failed);
        *status = CertStatus::of(
            &self.folder,
            (&self.wanted.id, known.leaf.as_ref(), &known.record),
            standing,
            SystemTime::now(),
        );
        // With what has come of them: a client that waits for a try sees both.
        let (succeeded, refused) = std::mem::take(&mut known.tries);
        status.tried = tried;
        status.obtained = obtained.saturating_add(succeeded);
        status.failed = failed.saturating_add(refused);
        drop(status);
        self.state.told.send_replace(());
    }

    /// Says that a certificate is not renewed in time.
    fn shout(&self, standing: &Standing, known: &Known, now: SystemTime) {
        let name = &self.wanted.id.name;
        let left = standing.validity.map(|validity| {
            let left = validity.not_after.duration_since(now);
            left.unwrap_or_default().as_secs() / 3600
        });
        let error = known.record.failures.as_ref();
        let error = error.map_or("", |failures| &failures.message);
        tracing::error!(
            name,
            hours_left = left.unwrap_or_default(),
            failures = standing.failures,
            error,
            "the certificate is not renewed: it is served to its end"
        );
    }

    async fn obtain(&self, known: &mut Known, standing: &Standing) {
        let id = &self.wanted.id;
        self.state.status().tried = Some(SystemTime::now());
        self.state.hurried.store(false, Ordering::Relaxed);
        match self.try_each(known, standing).await {
            Ok((leaf, directory)) => {
                self.state.forced.store(false, Ordering::Relaxed);
                known.tries.0 += 1;
                let life = leaf.validity.not_after.duration_since(SystemTime::now());
                tracing::info!(
                    name = id.name,
                    key = id.key.name(),
                    directory,
                    challenge = known.record.challenge.as_deref().unwrap_or("none"),
                    days = life.unwrap_or_default().as_secs() / 86_400,
                    "certificate obtained"
                );
                known.leaf = Some(leaf);
                (self.changed)(&self.folder.cert_file(id));
            }
            Err(refusal) => {
                let Refusal {
                    failure,
                    directory,
                    pauses,
                } = refusal;
                known.tries.1 += 1;
                let count = standing.failures.saturating_add(1);
                known.record.failures = Some(FailureRecord {
                    count,
                    last: OffsetDateTime::now_utc(),
                    kind: failure.kind.as_str().to_owned(),
                    message: failure.message.clone(),
                    pauses,
                });
                if let Err(error) = self.folder.keep_record(id, &known.record) {
                    tracing::error!(name = id.name, %error, "the failure is not kept");
                }
                let after = self.standing(known);
                let again = match schedule::next(&after, SystemTime::now()) {
                    Next::Wait(time) => time.as_secs(),
                    _ => 0,
                };
                tracing::warn!(
                    name = id.name,
                    directory,
                    kind = failure.kind.as_str(),
                    error = failure.message,
                    failures = count,
                    again_in_seconds = again,
                    "no certificate obtained"
                );
            }
        }
    }

    /// Tries one authority after the other.
    async fn try_each(
        &self,
        known: &mut Known,
        standing: &Standing,
    ) -> Result<(Leaf, String), Refusal> {
        let (mut first, mut pauses) = (None, Vec::new());
        for client in &*self.clients {
            let AcmeDirectory { name, url } = &client.directory;
            let failures = known.record.failures.as_ref();
            let pause = failures.and_then(|failures| failures.pause(url));
            let tried = match client.allows_requests(pause) {
                Ok(()) => self.try_ways(client, known, standing).await,
                Err(failure) => Err(failure),
            };
            let failure = match tried {
                Ok(leaf) => return Ok((leaf, name.clone())),
                Err(failure) => failure,
            };
            pauses.extend(failure.retry_after.map(|until| PauseRecord {
                directory: url.clone(),
                until: until.into(),
            }));
            first.get_or_insert((failure, name.clone()));
            if known.record.order.as_ref().is_some_and(is_nearly_done) {
                break;
            }
        }
        let (failure, directory) = first.unwrap_or_else(|| {
            let failure = Failure::new(FailureKind::Rejected, "no authority is configured");
            (failure, String::new())
        });
        Err(Refusal {
            failure,
            directory,
            pauses,
        })
    }

    /// Tries one authority. The first time, each challenge that can work has a try: which of the ports
    /// can be reached from outside is known only then. Later there is one try at a time, since
    /// authorities limit failures.
    async fn try_ways(
        &self,
        client: &DirectoryClient,
        known: &mut Known,
        standing: &Standing,
    ) -> Result<Leaf, Failure> {
        let is_same = known.record.directory.as_ref() == Some(&client.directory.url);
        let leaf = known.leaf.as_ref().filter(|_| is_same);
        let mut ways = self.ways(standing, &known.record);
        let mut attempt = Attempt {
            folder: &self.folder,
            client,
            challenges: &self.challenges,
            id: &self.wanted.id,
            profile: self.wanted.settings.profile.as_deref(),
            dns: self.wanted.settings.dns.as_deref(),
            ways: ways.clone(),
            replaces: leaf.and_then(|leaf| leaf.ari.clone()),
            record: &mut known.record,
        };
        loop {
            match attempt.obtain().await {
                Err(failure)
                    if failure.kind == FailureKind::Validation
                        && standing.failures == 0
                        && ways.len() > 1 =>
                {
                    let challenge = ways.remove(0).as_str();
                    let error = failure.message;
                    tracing::info!(
                        name = self.wanted.id.name,
                        challenge,
                        error,
                        "the challenge has failed: another one is tried"
                    );
                    attempt.ways.clone_from(&ways);
                }
                result => return result,
            }
        }
    }

    /// The challenges: the one that has worked before first, and another one first after each failed
    /// validation.
    fn ways(&self, standing: &Standing, record: &CertRecord) -> Vec<ChallengeKind> {
        let mut ways = self.wanted.ways.clone();
        let worked = record.challenge.as_deref();
        ways.sort_by_key(|way| Some(way.as_str()) != worked);
        let failures = record.failures.as_ref();
        let is_of_challenge =
            failures.is_some_and(|failures| failures.kind == FailureKind::Validation.as_str());
        if is_of_challenge && !ways.is_empty() {
            let by = standing.failures as usize % ways.len();
            ways.rotate_left(by);
        }
        ways
    }

    async fn check_window(&self, known: &mut Known) {
        let id = &self.wanted.id;
        self.asked.set(true);
        let url = known.record.directory.as_ref();
        let mut clients = self.clients.iter();
        let client = clients.find(|client| Some(&client.directory.url) == url);
        let ari = known.leaf.as_ref().and_then(|leaf| leaf.ari.clone());
        let now = SystemTime::now();
        let (mut window, mut explanation, mut again) = (None, None, NO_WINDOW);
        if let (Some(client), Some(ari)) = (client, ari) {
            match client.renewal(&ari).await {
                Ok(Some(advice)) => {
                    (window, explanation, again) =
                        (Some(advice.window), advice.explanation, advice.again);
                }
                Ok(None) => {}
                // The last word of the authority stays.
                Err(failure) => {
                    tracing::debug!(
                        name = id.name,
                        error = failure.message,
                        "the authority has not told when to renew"
                    );
                    let before = known.record.renewal.take();
                    let before =
                        before.map(|before| (before.start, before.end, before.explanation));
                    if let Some((start, end, why)) = before {
                        window = start.zip(end).map(|(start, end)| RenewalWindow {
                            start: start.into(),
                            end: end.into(),
                        });
                        explanation = why;
                    }
                }
            }
        }
        known.record.renewal = Some(RenewalRecord {
            start: window.map(|window| window.start.into()),
            end: window.map(|window| window.end.into()),
            explanation,
            next_check: next_window_check(now, again).into(),
        });
        if let Err(error) = self.folder.keep_record(id, &known.record) {
            tracing::error!(name = id.name, %error, "the window of renewal is not kept");
        }
    }
}

/// Whether an order was left a short while ago because the authority is late: its certificate may be
/// there at the next try, where one of the next authority would be one too many.
fn is_nearly_done(order: &OrderRecord) -> bool {
    let age = SystemTime::now().duration_since(order.begun.into());
    age.is_ok_and(|age| age < PATIENCE)
}
