//! Addresses of the host names that clients ask for: looked up off the workers, cached, one look-up
//! per name at a time.
//!
//! Uses the system's getaddrinfo, so `/etc/hosts`, `nsswitch.conf` and search domains count. It has
//! no TTL: the caller decides how old an entry may be. Does not know which names are allowed, and
//! does not dial. The names of endpoints are few, known in advance and resolved elsewhere.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};

use crate::thread_pool::ThreadPool;

/// A silent name server takes up to half a minute (resolv.conf(5)), and getaddrinfo cannot be
/// interrupted: this many names may hang before others have to wait. A waiting thread costs some 20
/// KB.
const THREADS: NonZeroUsize = NonZeroUsize::new(64).unwrap();
/// The most cached names, in each of two generations.
const KEPT: usize = 4096;
/// The most addresses of one name: clients would not try more.
const ADDRESSES: usize = 32;
/// The time that a failure is cached. Short: the name server may have just restarted.
const FAILED_FOR: Duration = Duration::from_secs(5);

/// The least time between two look-ups of an unreachable name.
const AGAIN: Duration = Duration::from_secs(1);

/// The addresses of a name, in the order of the system's preference (RFC 6724).
pub type Addresses = Arc<[IpAddr]>;

type LookupResult = Result<Addresses, NameError>;
type LookupFunction = Box<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// The reason why a name has no addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It does not resolve, or the name server is silent; the system's message.
    #[error("{0}")]
    Failed(Arc<str>),
    /// Too many names are being looked up.
    #[error("too many names are being looked up")]
    Busy,
}

/// The cache of names, for the process.
pub struct NameCache {
    threads: Arc<ThreadPool>,
    lookup: LookupFunction,
    kept: Mutex<NameGenerations>,
}

/// Two generations: when the younger is full the older is dropped, at a constant cost. Clients
/// choose the names, so their hash is unpredictable (the library's SipHash).
#[derive(Default)]
struct NameGenerations {
    young: HashMap<Box<str>, NameEntry>,
    old: HashMap<Box<str>, NameEntry>,
}

enum NameEntry {
    /// The look-up is under way.
    Asked {
        answer: watch::Receiver<Option<LookupResult>>,
        _job: oneshot::Receiver<()>,
    },
    Known {
        found: LookupResult,
        at: Instant,
    },
}

impl NameCache {
    /// An empty cache over the system's resolver.
    pub fn new() -> Arc<Self> {
        Self::asking(Box::new(ask_system))
    }

    fn asking(lookup: LookupFunction) -> Arc<Self> {
        Arc::new(Self {
            threads: ThreadPool::new("names", THREADS),
            lookup,
            kept: Mutex::default(),
        })
    }

    /// The cached addresses of `host`, in lower case, not older than `fresh`. `None` if a look-up
    /// is needed.
    ///
    /// # Errors
    /// When a recent look-up failed.
    pub fn known(&self, host: &str, fresh: Duration) -> Option<Result<Addresses, NameError>> {
        self.kept().known(host, fresh)
    }

    /// The addresses of `host`, in lower case: the cached ones if not older than `fresh`, else the
    /// system's. Concurrent callers wait for the same look-up. Dropping the future does not affect
    /// the others.
    ///
    /// `place` is dropped when the look-up has ended, even if its caller is gone: it cannot be
    /// interrupted, and a client that leaves must not have more look-ups than its share.
    ///
    /// # Errors
    /// When the name has none, or too many others are being looked up.
    pub async fn look_up<P: Send + 'static>(
        self: &Arc<Self>,
        host: &str,
        fresh: Duration,
        place: P,
    ) -> Result<Addresses, NameError> {
        let mut answer = match self.begin(host, fresh, place) {
            StartedLookup::Known(found) => return found,
            StartedLookup::Asked(answer) => answer,
        };
        let found = answer
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|found| found.clone());
        // Without a result there was no look-up.
        found.unwrap_or(Err(NameError::Busy))
    }

    /// Marks the addresses of `host` as unreachable: the next caller looks it up again, unless it
    /// was just looked up.
    pub fn mark_unreachable(&self, host: &str) {
        let mut kept = self.kept();
        let NameGenerations { young, old } = &mut *kept;
        for generation in [young, old] {
            if let Some(NameEntry::Known { at, .. }) = generation.get(host)
                && at.elapsed() >= AGAIN
            {
                generation.remove(host);
            }
        }
    }

    fn begin<P: Send + 'static>(
        self: &Arc<Self>,
        host: &str,
        fresh: Duration,
        place: P,
    ) -> StartedLookup {
        let mut kept = self.kept();
        if let Some(found) = kept.known(host, fresh) {
            return StartedLookup::Known(found);
        }
        if let Some(NameEntry::Asked { answer, .. }) = kept.find(host) {
            return StartedLookup::Asked(answer.clone());
        }
        let (tell, answer) = watch::channel(None);
        let (names, name): (_, Box<str>) = (Arc::clone(self), host.into());
        let job = move || {
            let found = match (names.lookup)(&name) {
                Ok(found) if found.is_empty() => {
                    Err(NameError::Failed("the name has no address".into()))
                }
                Ok(found) => Ok(distinct(found)),
                Err(error) => Err(NameError::Failed(error.to_string().into())),
            };
            drop(place);
            names.kept().keep(
                name,
                NameEntry::Known {
                    found: found.clone(),
                    at: Instant::now(),
                },
            );
            // The caller may be gone.
            let _ = tell.send(Some(found));
        };
        let Ok(job) = self.threads.submit(job) else {
            return StartedLookup::Known(Err(NameError::Busy));
        };
        kept.keep(
            host.into(),
            NameEntry::Asked {
                answer: answer.clone(),
                _job: job,
            },
        );
        StartedLookup::Asked(answer)
    }

    fn kept(&self) -> MutexGuard<'_, NameGenerations> {
        // Held for one access to a table, never over a wait.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum StartedLookup {
    Known(LookupResult),
    Asked(watch::Receiver<Option<LookupResult>>),
}

impl NameGenerations {
    fn find(&self, host: &str) -> Option<&NameEntry> {
        self.young.get(host).or_else(|| self.old.get(host))
    }

    fn known(&self, host: &str, fresh: Duration) -> Option<LookupResult> {
        let Some(NameEntry::Known { found, at }) = self.find(host) else {
            return None;
        };
        let fresh = if found.is_ok() {
            fresh
        } else {
            fresh.min(FAILED_FOR)
        };
        (at.elapsed() < fresh).then(|| found.clone())
    }

    fn keep(&mut self, host: Box<str>, entry: NameEntry) {
        if self.young.len() >= KEPT && !self.young.contains_key(&host) {
            let forgotten = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            // Pending look-ups are kept, and there are never many of them.
            let asked =
                |(_, entry): &(Box<str>, NameEntry)| matches!(entry, NameEntry::Asked { .. });
            self.young = forgotten.into_iter().filter(asked).collect();
        }
        self.old.remove(&host);
        self.young.insert(host, entry);
    }
}

impl fmt::Debug for NameCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.kept();
        f.debug_struct("NameCache")
            .field("kept", &(kept.young.len() + kept.old.len()))
            .finish_non_exhaustive()
    }
}

fn ask_system(host: &str) -> io::Result<Vec<IpAddr>> {
    Ok((host, 0)
        .to_socket_addrs()?
        .map(|address: SocketAddr| address.ip())
        .collect())
}

fn distinct(found: Vec<IpAddr>) -> Addresses {
    let mut distinct = Vec::with_capacity(found.len().min(ADDRESSES));
    for address in found {
        if distinct.len() < ADDRESSES && !distinct.contains(&address) {
            distinct.push(address);
        }
    }
    distinct.into()
}

#[cfg(test)]
mod tests;
