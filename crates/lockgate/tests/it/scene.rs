//! What most tests begin with: the program, a certificate that clients trust, an address without a
//! listener.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};

use lockgate_testkit::{
    Authority, ClientSettings, Folder, Issued, Launch, Lockgate, Origin, Tls, Wire, eventually,
};
use rustls::ProtocolVersion;
use rustls::version::{TLS12, TLS13};

/// The name that the certificates of most tests are for.
pub(crate) const NAME: &str = "app.test";

/// The program, with one worker by default.
pub(crate) fn lockgate() -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_lockgate"))
}

/// A listener of plain TCP on 127.0.0.1 in front of `proxy`, which is written as in a
/// configuration.
pub(crate) fn plain(proxy: &str) -> String {
    format!("[tcp.\"127.0.0.1:0\"]\nproxy = \"{proxy}\"\n")
}

/// An authority and a certificate of [`NAME`] on disk.
pub(crate) struct Site {
    pub(crate) folder: Folder,
    pub(crate) authority: Authority,
    pub(crate) issued: Issued,
    /// The file with the certificate and its key.
    pub(crate) cert: String,
}

impl Site {
    pub(crate) fn new() -> Self {
        let folder = Folder::new();
        let authority = Authority::new("Test Authority");
        let issued = authority.issue(&[NAME]);
        let cert = folder.certificate("app.pem", &issued);
        Self {
            folder,
            authority,
            issued,
            cert,
        }
    }

    /// A TLS listener on 127.0.0.1 with the certificate, in front of `proxy`; `more` are further
    /// keys of its `tls`.
    pub(crate) fn tls(&self, proxy: &str, more: &str) -> String {
        self.listener("127.0.0.1:0", proxy, more)
    }

    /// The same at another address.
    pub(crate) fn listener(&self, address: &str, proxy: &str, more: &str) -> String {
        format!(
            "[tcp.\"{address}\"]\ntls = {{ cert = \"{}\"{more} }}\nproxy = \"{proxy}\"\n",
            self.cert
        )
    }

    /// A client that trusts the authority.
    pub(crate) fn client(&self) -> ClientSettings {
        ClientSettings::trusting(&self.authority)
    }

    /// Connects to the first listener.
    pub(crate) fn connect(&self, gate: &Lockgate) -> Tls {
        self.client().connect(gate.address(), NAME).unwrap()
    }

    /// Connects to `address` with this version only.
    pub(crate) fn connect_by(&self, version: ProtocolVersion, address: SocketAddr) -> Tls {
        let version = if version == ProtocolVersion::TLSv1_2 {
            &TLS12
        } else {
            &TLS13
        };
        self.client()
            .version(version)
            .connect(address, NAME)
            .unwrap()
    }
}

/// Both versions that are spoken.
pub(crate) const VERSIONS: [ProtocolVersion; 2] =
    [ProtocolVersion::TLSv1_2, ProtocolVersion::TLSv1_3];

/// An address of this machine that no other test uses: a connection to it after its listener has
/// gone meets no other listener by chance.
pub(crate) fn own_host() -> Ipv4Addr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [network, host] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    Ipv4Addr::new(127, 1, network, host)
}

/// An address without a listener, now and later.
pub(crate) fn deserted() -> SocketAddr {
    TcpListener::bind((own_host(), 0))
        .unwrap()
        .local_addr()
        .unwrap()
}

/// Waits until the kernel has ended every connection to `origin`: on a busy machine that takes a
/// moment. A request that must not be sent twice, such as a POST, may fail on a connection that is
/// being closed.
pub(crate) fn ended(origin: &Origin) {
    let port = origin.socket_address().port();
    eventually("the end arrives", || {
        let stands = |line: &Connection| line.remote == port && line.established;
        (!connections().iter().any(stands)).then_some(())
    });
}

/// Waits until everything that `origin` has sent has arrived: on a busy machine that takes a
/// moment, too.
pub(crate) fn arrived(origin: &Origin) {
    let port = origin.socket_address().port();
    eventually("what was sent arrives", || {
        let waits = |line: &Connection| line.local == port && line.unacknowledged > 0;
        (!connections().iter().any(waits)).then_some(())
    });
}

/// A connection over IPv4, as in the kernel's table.
struct Connection {
    local: u16,
    remote: u16,
    established: bool,
    unacknowledged: u32,
}

fn connections() -> Vec<Connection> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    // proc_pid_net(5): addresses, the state, of which 01 is ESTABLISHED, and the lengths of both
    // queues.
    let number = |word: &str| u32::from_str_radix(word, 16).unwrap();
    let port = |address: &str| number(address.split_once(':').unwrap().1) as u16;
    let lines = table.lines().skip(1).map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        Connection {
            local: port(words[1]),
            remote: port(words[2]),
            established: words[3] == "01",
            unacknowledged: number(words[4].split_once(':').unwrap().0),
        }
    });
    lines.collect()
}

/// Sends `word`, and reads it back from the endpoint that echoes it.
pub(crate) fn echoes(wire: &mut Wire, word: &str) {
    wire.send(word);
    wire.expect(word);
}

/// The path as a string for a configuration.
pub(crate) fn text(path: &Path) -> String {
    path.display().to_string()
}
