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

use crate::threads::Threads;

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

type Found = Result<Addresses, NameError>;
type Lookup = Box<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

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
pub struct Names {
    threads: Arc<Threads>,
    lookup: Lookup,
    kept: Mutex<Kept>,
}

/// Two generations: when the younger is full the older is dropped, at a constant cost. Clients
/// choose the names, so their hash is unpredictable (the library's SipHash).
#[derive(Default)]
struct Kept {
    young: HashMap<Box<str>, Entry>,
    old: HashMap<Box<str>, Entry>,
}

enum Entry {
    /// The look-up is under way.
    Asked {
        answer: watch::Receiver<Option<Found>>,
        /// Keeps the job alive.
        _job: oneshot::Receiver<()>,
    },
    Known {
        found: Found,
        at: Instant,
    },
}

impl Names {
    /// An empty cache over the system's resolver.
    pub fn new() -> Arc<Self> {
        Self::asking(Box::new(ask_system))
    }

    fn asking(lookup: Lookup) -> Arc<Self> {
        Arc::new(Self {
            threads: Threads::new("names", THREADS),
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
            Begun::Known(found) => return found,
            Begun::Asked(answer) => answer,
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
    pub fn doubt(&self, host: &str) {
        let mut kept = self.kept();
        let Kept { young, old } = &mut *kept;
        for generation in [young, old] {
            if let Some(Entry::Known { at, .. }) = generation.get(host)
                && at.elapsed() >= AGAIN
            {
                generation.remove(host);
            }
        }
    }

    fn begin<P: Send + 'static>(self: &Arc<Self>, host: &str, fresh: Duration, place: P) -> Begun {
        let mut kept = self.kept();
        if let Some(found) = kept.known(host, fresh) {
            return Begun::Known(found);
        }
        if let Some(Entry::Asked { answer, .. }) = kept.find(host) {
            return Begun::Asked(answer.clone());
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
                Entry::Known {
                    found: found.clone(),
                    at: Instant::now(),
                },
            );
            // The caller may be gone.
            let _ = tell.send(Some(found));
        };
        let Ok(job) = self.threads.submit(job) else {
            return Begun::Known(Err(NameError::Busy));
        };
        kept.keep(
            host.into(),
            Entry::Asked {
                answer: answer.clone(),
                _job: job,
            },
        );
        Begun::Asked(answer)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Held for one access to a table, never over a wait.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Begun {
    Known(Found),
    Asked(watch::Receiver<Option<Found>>),
}

impl Kept {
    fn find(&self, host: &str) -> Option<&Entry> {
        self.young.get(host).or_else(|| self.old.get(host))
    }

    fn known(&self, host: &str, fresh: Duration) -> Option<Found> {
        let Some(Entry::Known { found, at }) = self.find(host) else {
            return None;
        };
        let fresh = if found.is_ok() {
            fresh
        } else {
            fresh.min(FAILED_FOR)
        };
        (at.elapsed() < fresh).then(|| found.clone())
    }

    fn keep(&mut self, host: Box<str>, entry: Entry) {
        if self.young.len() >= KEPT && !self.young.contains_key(&host) {
            let forgotten = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            // Pending look-ups are kept, and there are never many of them.
            let asked = |(_, entry): &(Box<str>, Entry)| matches!(entry, Entry::Asked { .. });
            self.young = forgotten.into_iter().filter(asked).collect();
        }
        self.old.remove(&host);
        self.young.insert(host, entry);
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.kept();
        f.debug_struct("Names")
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
