//! Requests for certificates that a client's handshake waits for, from the workers to the thread that
//! obtains certificates.
//!
//! Decides nothing: the thread does.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
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

/// The way to the thread, while there is one.
#[derive(Default)]
pub struct CertDemands {
    sender: ArcSwapOption<mpsc::Sender<CertDemand>>,
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
        let sender = self.sender.load();
        let (done, answer) = oneshot::channel();
        let demand = CertDemand {
            name: name.to_owned(),
            client,
            acceptor: Arc::clone(acceptor),
            done,
        };
        sender.as_ref()?.try_send(demand).ok()?;
        Some(answer)
    }

    /// The requests from now on; those of an earlier call end.
    pub fn open(&self) -> mpsc::Receiver<CertDemand> {
        let (sender, receiver) = mpsc::channel(WAITING);
        self.sender.store(Some(Arc::new(sender)));
        receiver
    }
}

impl fmt::Debug for CertDemands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertDemands").finish_non_exhaustive()
    }
}
