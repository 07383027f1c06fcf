//! Requests for certificates that a client's handshake waits for, from the workers to the thread that
//! obtains certificates.
//!
//! Decides nothing: the thread does.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use crate::tls::Acceptor;

/// The most requests that wait for the thread: more handshakes are refused at once.
const WAITING: usize = 256;

/// A certificate that a client asks for.
#[derive(Debug)]
pub struct CertDemand {
    /// Its name, in lower case.
    pub name: String,
    /// The client, if it has an address.
    pub client: Option<IpAddr>,
    /// The acceptor that gets the certificate.
    pub acceptor: Arc<Acceptor>,
    /// Answered once the acceptor has the certificate; dropped where there will be none.
    pub done: oneshot::Sender<()>,
}

/// The way to the thread. Requests that come before it has started wait for it.
pub struct CertDemands {
    sender: mpsc::Sender<CertDemand>,
    receiver: Mutex<Option<mpsc::Receiver<CertDemand>>>,
}

impl CertDemands {
    /// Asks for a certificate; the answer comes once the acceptor has it, and an error where it will
    /// have none. Nothing where no thread takes the request.
    pub fn ask(
        &self,
        name: &str,
        client: Option<IpAddr>,
        acceptor: &Arc<Acceptor>,
    ) -> Option<oneshot::Receiver<()>> {
        let (done, answer) = oneshot::channel();
        let demand = CertDemand {
            name: name.to_owned(),
            client,
            acceptor: Arc::clone(acceptor),
            done,
        };
        self.sender.try_send(demand).ok()?;
        Some(answer)
    }

    /// The requests, for the one thread that meets them; nothing the second time.
    pub fn take(&self) -> Option<mpsc::Receiver<CertDemand>> {
        let mut receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        receiver.take()
    }
}

impl Default for CertDemands {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        Self {
            sender,
            receiver: Mutex::new(Some(receiver)),
        }
    }
}

impl fmt::Debug for CertDemands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertDemands").finish_non_exhaustive()
    }
}
