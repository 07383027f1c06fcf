//! The threads that check passwords, which takes 1 ms to seconds each: never a worker's time.
//!
//! There is one pool for the process and all files of users; its threads start with the first
//! password. One of them is the dispatcher, so that a query is judged at once however long other
//! checks take: a password that many connections send at once is checked once, and clients take
//! turns, one check each. One client cannot fill the queue, and several cannot keep another out;
//! past either bound the outcome is [`PasswordOutcome::Busy`]. A check without a waiting request is
//! not made.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, OnceLock};

use lockgate_net::millis::Millis;
use lockgate_net::threads;
use tokio::sync::oneshot;

use super::credential_cache::{CredentialCache, Seal};
use super::htpasswd::{PasswordEntry, UserName};

/// Requests on their way to the desk, which takes each in a moment.
const QUEUE: usize = 1024;
/// Different passwords that may wait: seconds, at the usual cost of bcrypt.
const WAITING: usize = 64;
/// The share of one client in these.
const OF_ONE_CLIENT: usize = 8;

/// The outcome of a check of user and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordOutcome {
    /// The password is the user's.
    Accepted(UserName),
    /// He is not, or there is no such user, or nothing that could be one was sent.
    Refused,
    /// Too many are waiting to be checked: 503, not 401, so that no client forgets a password that
    /// is right.
    Busy,
}

/// The threads, and the passwords that were right.
pub struct PasswordPool {
    remembered: Arc<CredentialCache>,
    threads: NonZeroUsize,
    desk: OnceLock<Option<SyncSender<PoolEvent>>>,
}

/// One request's question.
pub(super) struct PasswordQuery {
    /// The entry with the hash to check against.
    pub(super) account: Arc<PasswordEntry>,
    /// The entry is not that of the named user: the outcome is a refusal, however the check ends.
    pub(super) decoy: bool,
    pub(super) password: Box<str>,
    pub(super) seal: Seal,
    pub(super) client: IpAddr,
    /// The time of the workers' clocks.
    pub(super) now: Millis,
    pub(super) reply: oneshot::Sender<PasswordOutcome>,
}

impl PasswordPool {
    /// Will check on so many threads; they take time from the workers, so one or two are enough.
    pub fn new(threads: NonZeroUsize) -> Arc<Self> {
        Arc::new(Self {
            remembered: Arc::new(CredentialCache::new()),
            threads,
            desk: OnceLock::new(),
        })
    }

    pub(super) fn remembered(&self) -> &CredentialCache {
        &self.remembered
    }

    /// Queues a check; its outcome is sent to the query's channel.
    pub(super) fn submit(&self, job: PasswordQuery) {
        let sent = match self.desk.get_or_init(|| self.start()) {
            Some(desk) => desk.try_send(PoolEvent::Asked(job)),
            None => Err(TrySendError::Disconnected(PoolEvent::Asked(job))),
        };
        if let Err(
            TrySendError::Full(PoolEvent::Asked(job))
            | TrySendError::Disconnected(PoolEvent::Asked(job)),
        ) = sent
        {
            let _ = job.reply.send(PasswordOutcome::Busy);
        }
    }

    fn start(&self) -> Option<SyncSender<PoolEvent>> {
        let (desk, events) = mpsc::sync_channel(QUEUE);
        let mut checkers = Vec::new();
        for number in 0..self.threads.get() {
            // One check at a time is handed to a thread, and only when it has none.
            let (checks, handed) = mpsc::sync_channel::<PasswordCheck>(1);
            let (index, desk, remembered) =
                (checkers.len(), desk.clone(), Arc::clone(&self.remembered));
            let check = move || {
                for check in handed {
                    check.run(&remembered);
                    if desk.send(PoolEvent::Idle(index)).is_err() {
                        return;
                    }
                }
            };
            if spawn(format!("password-{number}"), check) {
                checkers.push(checks);
            }
        }
        let dispatches = !checkers.is_empty()
            && spawn("passwords".to_owned(), move || dispatch(&events, &checkers));
        dispatches.then_some(desk)
    }
}

impl Drop for PasswordPool {
    fn drop(&mut self) {
        // Those that check have an end of the channel too, so it would never close by itself.
        if let Some(Some(desk)) = self.desk.get() {
            let _ = desk.send(PoolEvent::End);
        }
    }
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> bool {
    let spawned = threads::start(name, run);
    if let Err(error) = &spawned {
        tracing::error!(%error, "a thread that checks passwords did not start");
    }
    spawned.is_ok()
}

impl fmt::Debug for PasswordPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordPool")
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// An event for the dispatcher.
enum PoolEvent {
    /// A query was submitted.
    Asked(PasswordQuery),
    /// The thread with this number has nothing to check.
    Idle(usize),
    /// The pool is dropped: no more queries come.
    End,
}

/// The dispatcher: judges queries, and keeps the checking threads busy.
fn dispatch(events: &Receiver<PoolEvent>, checkers: &[SyncSender<PasswordCheck>]) {
    let mut waiting = CheckQueue::default();
    let mut idle: Vec<&SyncSender<PasswordCheck>> = checkers.iter().collect();
    while let Ok(event) = events.recv() {
        match event {
            PoolEvent::Asked(job) => waiting.add(job),
            PoolEvent::Idle(index) => idle.extend(checkers.get(index)),
            PoolEvent::End => return,
        }
        while !idle.is_empty()
            && let Some(check) = waiting.next()
            && let Some(checker) = idle.pop()
        {
            // The channel has room for one. Where the thread has ended, the requests that wait are
            // told that the pool is busy.
            let _ = checker.send(check);
        }
    }
}

/// The checks that wait, by client: the first client in line is the next to have one check made.
#[derive(Default)]
struct CheckQueue {
    clients: VecDeque<ClientChecks>,
}

/// The checks of one client, in the order of their arrival; one at least.
struct ClientChecks {
    ip: IpAddr,
    checks: VecDeque<PasswordCheck>,
}

/// One password to be checked, and all requests that wait for it.
struct PasswordCheck {
    first: PasswordQuery,
    others: Vec<oneshot::Sender<PasswordOutcome>>,
}

impl CheckQueue {
    fn add(&mut self, job: PasswordQuery) {
        let mut checks = self
            .clients
            .iter_mut()
            .flat_map(|client| &mut client.checks);
        if let Some(check) = checks.find(|check| check.first.seal == job.seal) {
            // As many as there are connections at most, and they are limited.
            check.others.push(job.reply);
            return;
        }
        let ip = lockgate_limits::client(job.client);
        let has = self
            .clients
            .iter()
            .find(|client| client.ip == ip)
            .map_or(0, |client| client.checks.len());
        if has >= OF_ONE_CLIENT || (self.len() >= WAITING && !self.make_room(has)) {
            let _ = job.reply.send(PasswordOutcome::Busy);
            return;
        }
        let check = PasswordCheck {
            first: job,
            others: Vec::new(),
        };
        match self.clients.iter_mut().find(|client| client.ip == ip) {
            Some(client) => client.checks.push_back(check),
            None => self.clients.push_back(ClientChecks {
                ip,
                checks: [check].into(),
            }),
        }
    }

    fn len(&self) -> usize {
        self.clients.iter().map(|client| client.checks.len()).sum()
    }

    /// Gives up the last check of the client that has most, for one that has `has`; false where
    /// that has as many.
    fn make_room(&mut self, has: usize) -> bool {
        let most = self
            .clients
            .iter_mut()
            .max_by_key(|client| client.checks.len());
        let last = most
            .filter(|client| client.checks.len() > has + 1)
            .and_then(|client| client.checks.pop_back());
        let Some(check) = last else { return false };
        check.reply(&PasswordOutcome::Busy);
        true
    }

    /// The next check with a waiting request; its client goes to the end of the line.
    fn next(&mut self) -> Option<PasswordCheck> {
        while let Some(mut client) = self.clients.pop_front() {
            let next =
                std::iter::from_fn(|| client.checks.pop_front()).find(PasswordCheck::is_wanted);
            if !client.checks.is_empty() {
                self.clients.push_back(client);
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }
}

impl PasswordCheck {
    fn is_wanted(&self) -> bool {
        !self.first.reply.is_closed() || self.others.iter().any(|other| !other.is_closed())
    }

    fn run(self, remembered: &CredentialCache) {
        let PasswordQuery {
            account,
            decoy,
            password,
            seal,
            now,
            ..
        } = &self.first;
        // It may have been found right after these have asked. A decoy is checked too: that takes
        // as long.
        let right = remembered.has(seal, *now) || account.hash.verify(password);
        let outcome = if right && !decoy {
            remembered.insert(*seal, *now);
            PasswordOutcome::Accepted(Arc::clone(&account.name))
        } else {
            PasswordOutcome::Refused
        };
        self.reply(&outcome);
    }

    fn reply(self, outcome: &PasswordOutcome) {
        for reply in self.others.into_iter().chain([self.first.reply]) {
            // A request that has ended meanwhile needs no reply.
            let _ = reply.send(outcome.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::htpasswd::Htpasswd;

    const USERS: &str = "alice:$2y$04$2lIsLL4WkHlL1AdE.us2M.KiUDmXG4b/qmENltdLbJc9r08TNOP1m\n";

    fn job(
        password: &str,
        seal: u8,
        client: [u8; 4],
    ) -> (PasswordQuery, oneshot::Receiver<PasswordOutcome>) {
        let account = Arc::clone(
            Htpasswd::parse(USERS.as_bytes())
                .unwrap()
                .find("alice")
                .unwrap(),
        );
        let (reply, outcome) = oneshot::channel();
        let client = client.into();
        (
            PasswordQuery {
                account,
                decoy: false,
                password: password.into(),
                seal: [seal; 32],
                client,
                now: Millis::ZERO,
                reply,
            },
            outcome,
        )
    }

    #[test]
    fn a_password_sent_by_many_clients_is_checked_once() {
        let (mut waiting, remembered) = (CheckQueue::default(), CredentialCache::new());
        let mut outcomes = Vec::new();
        for client in 0..100 {
            let (job, outcome) = job("open sesame", 1, [192, 0, 2, client]);
            waiting.add(job);
            outcomes.push(outcome);
        }
        assert_eq!(waiting.len(), 1);
        waiting.next().unwrap().run(&remembered);
        let accepted = PasswordOutcome::Accepted("alice".into());
        assert!(
            outcomes
                .into_iter()
                .all(|outcome| outcome.blocking_recv() == Ok(accepted.clone()))
        );
        assert!(waiting.next().is_none() && remembered.has(&[1; 32], Millis::ZERO));
    }

    #[test]
    fn one_client_cannot_fill_the_password_check_queue() {
        let mut waiting = CheckQueue::default();
        let mut kept = Vec::new();
        for guess in 0..20 {
            let (job, mut outcome) = job("x", guess, [192, 0, 2, 1]);
            waiting.add(job);
            let busy = outcome.try_recv() == Ok(PasswordOutcome::Busy);
            assert_eq!(busy, usize::from(guess) >= OF_ONE_CLIENT);
            kept.push(outcome);
        }
        let (job, mut outcome) = job("open sesame", 200, [192, 0, 2, 2]);
        waiting.add(job);
        assert!(
            outcome.try_recv().is_err(),
            "another client's waits for its turn"
        );
    }

    #[test]
    fn the_password_check_queue_is_bounded() {
        let mut waiting = CheckQueue::default();
        let mut kept = Vec::new();
        for guess in 0..100 {
            let (job, mut outcome) = job("x", guess, [192, 0, 2, guess]);
            waiting.add(job);
            assert_eq!(
                outcome.try_recv() == Ok(PasswordOutcome::Busy),
                usize::from(guess) >= WAITING
            );
            kept.push(outcome);
        }
    }

    /// The receivers of all jobs are kept, as connections would.
    fn added(
        waiting: &mut CheckQueue,
        seals: std::ops::Range<u8>,
        client: u8,
    ) -> Vec<oneshot::Receiver<PasswordOutcome>> {
        let add = |seal| {
            let (job, outcome) = job("x", seal, [192, 0, 2, client]);
            waiting.add(job);
            outcome
        };
        seals.map(add).collect()
    }

    #[test]
    fn clients_take_turns_with_one_password_check_each() {
        let mut waiting = CheckQueue::default();
        let kept = [
            added(&mut waiting, 0..8, 1),
            added(&mut waiting, 10..12, 2),
            added(&mut waiting, 20..21, 3),
        ];
        let order: Vec<u8> = std::iter::from_fn(|| waiting.next())
            .map(|check| check.first.seal[0])
            .collect();
        assert_eq!(order, [0, 10, 20, 1, 11, 2, 3, 4, 5, 6, 7]);
        drop(kept);
    }

    #[test]
    fn a_new_client_overtakes_a_flood_of_password_checks() {
        let mut waiting = CheckQueue::default();
        let mut flood: Vec<_> = (1..=8)
            .flat_map(|client| added(&mut waiting, client * 8..client * 8 + 8, client))
            .collect();
        let mut ninth = added(&mut waiting, 200..201, 9);
        assert!(ninth[0].try_recv().is_err(), "it waits for its turn");
        let busy = flood
            .iter_mut()
            .filter_map(|outcome| outcome.try_recv().ok())
            .collect::<Vec<_>>();
        assert_eq!(busy, [PasswordOutcome::Busy], "one of the flood gave way");
        assert_eq!(waiting.len(), WAITING);
        let index =
            std::iter::from_fn(|| waiting.next()).position(|check| check.first.seal[0] == 200);
        assert_eq!(index, Some(8));
    }

    #[test]
    fn an_abandoned_password_check_is_skipped() {
        let mut waiting = CheckQueue::default();
        let (left, outcome) = job("x", 1, [192, 0, 2, 1]);
        waiting.add(left);
        drop(outcome);
        let (stayed, outcome) = job("y", 2, [192, 0, 2, 1]);
        waiting.add(stayed);
        assert_eq!(waiting.next().unwrap().first.seal, [2; 32]);
        assert!(waiting.next().is_none());
        drop(outcome);
    }

    #[test]
    fn a_decoy_is_refused_even_with_its_password() {
        let remembered = CredentialCache::new();
        let (mut job, outcome) = job("open sesame", 1, [192, 0, 2, 1]);
        job.decoy = true;
        PasswordCheck {
            first: job,
            others: Vec::new(),
        }
        .run(&remembered);
        assert_eq!(outcome.blocking_recv(), Ok(PasswordOutcome::Refused));
        assert!(!remembered.has(&[1; 32], Millis::ZERO));
    }

    #[test]
    fn password_check_threads_end_with_the_verifier() {
        let verifier = PasswordPool::new(NonZeroUsize::MIN);
        let (right, outcome) = job("open sesame", 1, [192, 0, 2, 1]);
        verifier.submit(right);
        assert_eq!(
            outcome.blocking_recv(),
            Ok(PasswordOutcome::Accepted("alice".into()))
        );
        let kept = Arc::downgrade(&verifier.remembered);
        drop(verifier);
        // The thread has the last one: it goes when the thread does.
        while kept.strong_count() > 0 {
            std::thread::yield_now();
        }
    }
}
