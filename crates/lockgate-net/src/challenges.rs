//! Answers to an authority's challenges while orders of certificates are under way.
//!
//! The thread that orders presents them, the workers look them up. Neither waits for the other.
//! Proves nothing itself: it holds what the order has made.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::OwnedMutexGuard;

use crate::client_hello::ClientHello;
use crate::tls::{ACME_TLS, ChallengeCert};

/// The path of HTTP-01, up to its token (RFC 8555 §8.3).
pub const HTTP_PATH: &str = "/.well-known/acme-challenge/";

/// The answers that are presented now.
#[derive(Default)]
pub struct Challenges {
    /// By token: the key authorization.
    http: Presented<Arc<str>>,
    /// By name in lower case: the certificate with the acmeIdentifier.
    tls: Presented<ChallengeCert>,
    /// By name: the turns of its orders.
    turns: Mutex<HashMap<Box<str>, Arc<tokio::sync::Mutex<()>>>>,
}

/// An answer that is presented until this is dropped.
#[must_use = "dropping this takes the answer back"]
pub struct PresentedAnswer {
    challenges: Arc<Challenges>,
    answer: PresentedKey,
}

enum PresentedKey {
    Http(Box<str>),
    Tls(Box<str>),
}

/// A table that is replaced whole: readers are on the path of connections.
struct Presented<T> {
    table: ArcSwap<HashMap<Box<str>, T>>,
    writing: Mutex<()>,
}

impl Challenges {
    /// Waits for the turn of an order of a name, which ends when the guard is dropped: two orders of the
    /// same name would answer for each other.
    pub async fn turn_of(&self, name: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(name.to_ascii_lowercase().into()).or_default())
        };
        turn.lock_owned().await
    }

    /// Presents the key authorization of a token of HTTP-01.
    pub fn present_http(self: &Arc<Self>, token: &str, key_authorization: &str) -> PresentedAnswer {
        self.http.change(|table| {
            table.insert(token.into(), key_authorization.into());
        });
        PresentedAnswer {
            challenges: Arc::clone(self),
            answer: PresentedKey::Http(token.into()),
        }
    }

    /// Presents the certificate of TLS-ALPN-01 for a name.
    pub fn present_tls(self: &Arc<Self>, name: &str, cert: ChallengeCert) -> PresentedAnswer {
        let name: Box<str> = name.to_ascii_lowercase().into();
        self.tls.change(|table| {
            table.insert(name.clone(), cert);
        });
        PresentedAnswer {
            challenges: Arc::clone(self),
            answer: PresentedKey::Tls(name),
        }
    }

    /// The answer to a request for this path, if it is that of a challenge under way.
    pub fn of_path(&self, path: &[u8]) -> Option<Arc<str>> {
        let token = path.strip_prefix(HTTP_PATH.as_bytes())?;
        let token = std::str::from_utf8(token).ok()?;
        self.http.table.load().get(token).cloned()
    }

    /// The certificate for a handshake of TLS-ALPN-01, which offers its protocol alone (RFC 8737
    /// §3).
    pub fn of_hello(&self, hello: &ClientHello<'_>) -> Option<ChallengeCert> {
        let table = self.tls.table.load();
        if table.is_empty() || !hello.alpn().eq([ACME_TLS]) {
            return None;
        }
        table.get(hello.server_name.as_deref()?).cloned()
    }
}

impl Drop for PresentedAnswer {
    fn drop(&mut self) {
        match &self.answer {
            PresentedKey::Http(token) => self.challenges.http.change(|table| {
                table.remove(token);
            }),
            PresentedKey::Tls(name) => self.challenges.tls.change(|table| {
                table.remove(name);
            }),
        }
    }
}

impl<T: Clone> Presented<T> {
    fn change(&self, change: impl FnOnce(&mut HashMap<Box<str>, T>)) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = HashMap::clone(&self.table.load());
        change(&mut table);
        self.table.store(Arc::new(table));
    }
}

impl<T> Default for Presented<T> {
    fn default() -> Self {
        Self {
            table: ArcSwap::default(),
            writing: Mutex::default(),
        }
    }
}

impl fmt::Debug for Challenges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Challenges").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_http_01_answer_is_presented_until_it_is_dropped() {
        let challenges = Arc::new(Challenges::default());
        let one = challenges.present_http("one", "one.key");
        let _two = challenges.present_http("two", "two.key");
        let of_path = |path: &str| challenges.of_path(path.as_bytes());
        let path = "/.well-known/acme-challenge/one";
        assert_eq!(of_path(path).as_deref(), Some("one.key"));
        assert_eq!(of_path("/.well-known/acme-challenge/"), None);
        assert_eq!(of_path("/.well-known/acme-challenge/one/"), None);
        assert_eq!(of_path("/one"), None);
        drop(one);
        assert_eq!(of_path(path), None);
        let path = "/.well-known/acme-challenge/two";
        assert_eq!(of_path(path).as_deref(), Some("two.key"));
    }
}
