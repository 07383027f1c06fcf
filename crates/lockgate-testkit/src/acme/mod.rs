//! A certificate authority that speaks ACME (RFC 8555) over HTTPS, and fails as a test wants it to.
//!
//! It is a real one: signatures, nonces and requests for certificates are checked, and validations
//! connect to the client under test. All names are at 127.0.0.1. It has no change of an account's
//! key (RFC 8555 §7.3.5), and no pre-authorization (§7.4.1).
//!
//! # Layout
//! `server` has the connections, `exchange` their HTTP, `answer` what each request leads to, `jws`
//! signatures, `state` all that is known, `validation` the connections to the client, `issuing` the
//! certificates, `fault` what goes wrong, `problem` errors, `record` what tests can look at.

mod answer;
mod exchange;
mod fault;
mod issuing;
mod jws;
mod problem;
mod record;
mod server;
mod state;
mod validation;

use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

pub use fault::{Fault, Resource, WrongChain};
pub use problem::Problem;
pub use record::{AccountRecord, IssuedCertificate, OrderRecord, Recorded, Validation};
pub use validation::ChallengeKind;

use crate::authority::{Authority, Folder};
use crate::port;
use crate::tls::server_config;
use server::{Shared, accept_all};

/// A running authority; it stops when it is dropped.
pub struct AcmeServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    ca_file: PathBuf,
    _folder: Folder,
    thread: Option<JoinHandle<()>>,
}

impl AcmeServer {
    /// Starts one, on a free port of 127.0.0.1, with all three challenges, and the profiles
    /// `default` of 90 days and `shortlived` of 6.
    ///
    /// # Panics
    /// When there is no port or no thread left.
    #[expect(clippy::new_without_default, reason = "it starts a thread")]
    pub fn start() -> Self {
        let https = Authority::new("ACME over HTTPS");
        let folder = Folder::new();
        let ca_file = folder.write("acme-ca.pem", https.pem());
        let tls = server_config(&https.issue(&["127.0.0.1", "localhost"]), None);
        let listener = port::listen();
        let address = listener.local_addr().expect("a bound socket has one");
        let shared = Arc::new(Shared::new());
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || accept_all(&of_thread, &listener, &tls, address));
        Self {
            shared,
            address,
            ca_file,
            _folder: folder,
            thread: Some(thread),
        }
    }

    /// The URL of its directory, under `https://127.0.0.1:…`; `localhost` instead works as well.
    pub fn directory(&self) -> String {
        format!("{}/dir", self.base())
    }

    fn base(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file with the authority that its HTTPS is to be trusted by, for `[acme].ca`. It has
    /// nothing to do with [`AcmeServer::root_pem`].
    pub fn ca_file(&self) -> &Path {
        &self.ca_file
    }

    /// The root of the certificates that it issues, in PEM.
    pub fn root_pem(&self) -> String {
        self.shared.issuing.root.clone()
    }

    // --- Settings; all count from the next request on --------------------------------------------

    /// The port of 127.0.0.1 that HTTP-01 connects to, instead of 80.
    pub fn set_http_port(&self, port: u16) {
        self.shared.change(|state| state.settings.reach.http = port);
    }

    /// The port of 127.0.0.1 that TLS-ALPN-01 connects to, instead of 443.
    pub fn set_tls_port(&self, port: u16) {
        self.shared.change(|state| state.settings.reach.tls = port);
    }

    /// What says which TXT records a name has; it gets the whole name, `_acme-challenge.…`. Without
    /// it there are none.
    pub fn set_dns(&self, txt: impl Fn(&str) -> Vec<String> + Send + Sync + 'static) {
        self.shared
            .change(|state| state.settings.reach.txt = Some(Arc::new(txt)));
    }

    /// The kinds of challenges of new authorizations.
    pub fn set_challenges(&self, kinds: &[ChallengeKind]) {
        self.shared
            .change(|state| state.settings.challenges = kinds.to_vec());
    }

    /// How long new certificates are valid, whatever their profile.
    pub fn set_validity(&self, validity: Duration) {
        self.shared
            .change(|state| state.settings.validity = Some(validity));
    }

    /// When new certificates begin to be valid, instead of at their issuance: with a start in the
    /// past, they are nearly expired.
    pub fn set_validity_start(&self, start: SystemTime) {
        self.shared
            .change(|state| state.settings.start = Some(start));
    }

    /// The profiles and how long their certificates are valid; none means that the directory names
    /// none.
    pub fn set_profiles(&self, profiles: &[(&str, Duration)]) {
        let profiles = profiles.iter();
        let profiles = profiles.map(|(name, long)| ((*name).to_owned(), *long));
        self.shared
            .change(|state| state.settings.profiles = profiles.collect());
    }

    /// New accounts must be bound to this external one (RFC 8555 §7.3.4); `secret` is the key of its
    /// MAC, decoded.
    pub fn require_external_account(&self, id: &str, secret: &[u8]) {
        self.shared.change(|state| {
            state.settings.external_account = Some((id.to_owned(), secret.to_vec()));
        });
    }

    /// Whether the directory has renewal information (RFC 9773); it has at first.
    pub fn set_renewal_info(&self, offered: bool) {
        self.shared
            .change(|state| state.settings.renewal_info = offered);
    }

    /// When the certificates that `name` has by now should be renewed; those that it gets later are
    /// not concerned.
    ///
    /// # Panics
    /// When it has none.
    pub fn set_renewal_window(&self, name: &str, window: Range<SystemTime>) {
        self.shared.change(|state| {
            let all = state.issued.iter().enumerate();
            let of_name = all.filter(|(_, issued)| issued.names.iter().any(|has| has == name));
            let places: Vec<_> = of_name.map(|(at, _)| at).collect();
            assert!(!places.is_empty(), "{name} has no certificate");
            for at in places {
                state.windows.insert(at, window.clone());
            }
        });
    }

    /// The Retry-After of renewal information, 6 hours at first; whole seconds.
    pub fn set_renewal_retry_after(&self, wait: Duration) {
        self.shared
            .change(|state| state.settings.renewal_retry_after = wait.as_secs());
    }

    /// The Retry-After of orders and authorizations that are not ready; none at first. Whole
    /// seconds.
    pub fn set_poll_retry_after(&self, wait: Option<Duration>) {
        self.shared.change(|state| {
            state.settings.poll_retry_after = wait.map(|wait| wait.as_secs());
        });
    }

    /// Whether a valid authorization also counts for later orders of its account; it does not at
    /// first.
    pub fn set_authorization_reuse(&self, reuse: bool) {
        self.shared
            .change(|state| state.settings.keeps_authorizations = reuse);
    }

    /// Of 100 nonces, about so many are refused, the same ones for the same `seed` and requests.
    pub fn refuse_nonces(&self, of_100: u64, seed: u64) {
        self.shared
            .change(|state| state.refuse_nonces(of_100, seed));
    }

    // --- Faults ----------------------------------------------------------------------------------

    /// All requests for `resource` end like this, until [`AcmeServer::clear_faults`].
    ///
    /// # Panics
    /// When the resource has no such fault: [`Fault`] says which.
    pub fn fail(&self, resource: Resource, fault: Fault) {
        self.shared
            .change(|state| state.faults.add(resource, None, None, fault));
    }

    /// The next `times` requests for `resource` end like this.
    ///
    /// # Panics
    /// As [`AcmeServer::fail`].
    pub fn fail_times(&self, resource: Resource, times: usize, fault: Fault) {
        self.shared
            .change(|state| state.faults.add(resource, None, Some(times), fault));
    }

    /// All requests for `resource` about `name` end like this, until [`AcmeServer::clear_faults`].
    /// Requests of authorizations and challenges have a wildcard's name without its asterisk.
    ///
    /// # Panics
    /// As [`AcmeServer::fail`].
    pub fn fail_name(&self, resource: Resource, name: &str, fault: Fault) {
        self.shared
            .change(|state| state.faults.add(resource, Some(name), None, fault));
    }

    /// No more faults come. Those that hold something hold it until [`AcmeServer::release`].
    pub fn clear_faults(&self) {
        self.shared.change(|state| state.faults.clear());
    }

    /// Lets go what [`Fault::Hold`] and [`Fault::Stay`] hold.
    pub fn release(&self) {
        self.shared.change(|state| state.releases += 1);
    }

    /// Forgets all accounts: their URLs lead nowhere, their keys may make new ones.
    pub fn forget_accounts(&self) {
        self.shared.change(|state| {
            for account in &mut state.accounts {
                account.forgotten = true;
            }
        });
    }

    /// Closes all connections that are open.
    pub fn close_connections(&self) {
        self.shared.close_connections();
    }

    // --- What has happened -----------------------------------------------------------------------

    /// All requests so far, in the order in which they came.
    pub fn log(&self) -> Vec<Recorded> {
        self.shared.lock().log.clone()
    }

    /// How many requests for `resource` have come.
    pub fn count(&self, resource: Resource) -> usize {
        let state = self.shared.lock();
        let of_resource = state.log.iter();
        of_resource
            .filter(|recorded| recorded.resource == resource)
            .count()
    }

    /// All accounts, forgotten ones too.
    pub fn accounts(&self) -> Vec<AccountRecord> {
        self.shared.lock().account_records(&self.base())
    }

    /// All orders.
    pub fn orders(&self) -> Vec<OrderRecord> {
        self.shared.lock().order_records(&self.base())
    }

    /// All validations that have ended.
    pub fn validations(&self) -> Vec<Validation> {
        self.shared.lock().validations.clone()
    }

    /// All certificates.
    pub fn issued(&self) -> Vec<IssuedCertificate> {
        self.shared.lock().issued.clone()
    }

    /// Waits until `seen` is true of the requests so far; it is asked after each one and each
    /// answer.
    ///
    /// # Panics
    /// When it is not within [`crate::DEADLINE`], with `what` and the requests.
    pub fn wait_for(&self, what: &str, mut seen: impl FnMut(&[Recorded]) -> bool) {
        let found = self.shared.wait(|state| seen(&state.log).then_some(()));
        assert!(found.is_some(), "{what}: not among {:#?}", self.log());
    }

    /// Waits until `count` certificates are issued, and returns them all.
    ///
    /// # Panics
    /// When they are not within [`crate::DEADLINE`], with the requests.
    pub fn wait_for_issued(&self, count: usize) -> Vec<IssuedCertificate> {
        let found = self
            .shared
            .wait(|state| (state.issued.len() >= count).then(|| state.issued.clone()));
        found.unwrap_or_else(|| panic!("not {count} certificates: {:#?}", self.log()))
    }
}

impl Drop for AcmeServer {
    fn drop(&mut self) {
        self.shared.change(|state| state.stopped = true);
        // Wakes the thread that accepts.
        let woken = TcpStream::connect(self.address).is_ok();
        if let (true, Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
        self.shared.close_connections();
    }
}
