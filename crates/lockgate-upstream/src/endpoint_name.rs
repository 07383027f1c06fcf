//! A host name of an endpoint and the addresses that it has now, shared by the resolver and every
//! worker.
//!
//! Does not resolve: that waits, so it happens off the workers, and its results arrive here.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};

/// A host and port to dial, and its addresses in the order of attempts.
///
/// The resolver writes, workers read; no reader ever waits.
pub struct EndpointName {
    host: Box<str>,
    port: u16,
    addresses: ArcSwap<Vec<SocketAddr>>,
    doubted: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl EndpointName {
    /// The name of an SRV record. Its addresses have their own ports and vanish with the record.
    pub fn of_record(
        service: impl Into<Box<str>>,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self::new(service, 0, wake)
    }

    /// Whether it stands for an SRV record that does not exist now.
    pub fn is_vacant(&self) -> bool {
        self.port == 0 && self.addresses.load().is_empty()
    }

    /// A name without addresses so far. `wake` is called by [`EndpointName::failed`] in the
    /// caller's thread, so it must neither wait nor panic.
    pub fn new(
        host: impl Into<Box<str>>,
        port: u16,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            host: host.into(),
            port,
            addresses: ArcSwap::default(),
            doubted: AtomicBool::new(false),
            wake: Box::new(wake),
        }
    }

    /// The host, as configured.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, which every address has too; 0 where each has its own.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The addresses now, best first; empty until the name resolved for the first time.
    ///
    /// Not to be held over an await: the guard pins the old list.
    pub fn addresses(&self) -> Guard<Arc<Vec<SocketAddr>>> {
        self.addresses.load()
    }

    /// Replaces the old addresses; connections to those live on.
    pub fn publish(&self, addresses: Vec<SocketAddr>) {
        self.addresses.store(Arc::new(addresses));
    }

    /// Notes that the addresses did not answer, or that there were none: the name is resolved again
    /// soon.
    ///
    /// Cheap however often it is called: between two resolutions only the first call does more than
    /// read a flag.
    pub fn failed(&self) {
        if !self.doubted.load(Ordering::Relaxed) && !self.doubted.swap(true, Ordering::AcqRel) {
            (self.wake)();
        }
    }

    /// Whether [`EndpointName::failed`] was called since the last call of this. For the resolver,
    /// right before it resolves: a later failure starts another resolution.
    pub fn take_failed(&self) -> bool {
        self.doubted.swap(false, Ordering::AcqRel)
    }
}

impl fmt::Debug for EndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointName")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("addresses", &self.addresses.load())
            .finish_non_exhaustive()
    }
}

/// As in the configuration: `host:port`.
impl fmt::Display for EndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn readers_see_the_last_published_addresses() {
        let name = EndpointName::new("app.internal", 8080, || {});
        assert_eq!(
            (name.host(), name.port(), name.to_string().as_str()),
            ("app.internal", 8080, "app.internal:8080")
        );
        assert!(name.addresses().is_empty());
        let first = vec![
            "[::1]:8080".parse().unwrap(),
            "127.0.0.1:8080".parse().unwrap(),
        ];
        name.publish(first.clone());
        let held = name.addresses();
        name.publish(vec!["127.0.0.2:8080".parse().unwrap()]);
        assert_eq!(**held, first);
        assert_eq!(name.addresses()[0], "127.0.0.2:8080".parse().unwrap());
    }

    #[test]
    fn many_failures_wake_the_resolver_once() {
        let woken = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&woken);
        let name = EndpointName::new("app.internal", 8080, move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        assert!(!name.take_failed());
        (0..3).for_each(|_| name.failed());
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        assert!(name.take_failed());
        assert!(!name.take_failed());
        name.failed();
        assert_eq!(woken.load(Ordering::Relaxed), 2);
    }
}
