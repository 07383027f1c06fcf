//! What Lockgate connects to: a listening socket; its connections are driven by a test or served by
//! it.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::wire::Wire;
use crate::{DEADLINE, port};

/// A listening socket.
#[derive(Debug)]
pub struct Origin(Kind);

#[derive(Debug)]
enum Kind {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, PathBuf),
}

impl Origin {
    /// Listens on a free port of 127.0.0.1 that no other origin has had.
    ///
    /// # Panics
    /// When there is none.
    pub fn tcp() -> Self {
        Self::over(port::listen())
    }

    /// Listens on `address`.
    ///
    /// # Panics
    /// When it is taken.
    pub fn tcp_at(address: SocketAddr) -> Self {
        Self::over(TcpListener::bind(address).expect("the address is free"))
    }

    fn over(listener: TcpListener) -> Self {
        let address = listener.local_addr().expect("a bound socket has one");
        Self(Kind::Tcp(listener, address))
    }

    /// Listens on a Unix socket at `path`.
    ///
    /// # Panics
    /// When the path exists.
    pub fn unix(path: &Path) -> Self {
        Self(Kind::Unix(
            UnixListener::bind(path).expect("nothing is there"),
            path.to_owned(),
        ))
    }

    /// The address as a string.
    pub fn address(&self) -> String {
        match &self.0 {
            Kind::Tcp(_, address) => address.to_string(),
            Kind::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }

    /// The address, of TCP.
    ///
    /// # Panics
    /// When it listens on a Unix socket.
    pub fn socket_address(&self) -> SocketAddr {
        let Kind::Tcp(_, address) = &self.0 else {
            panic!("a Unix socket has no such address")
        };
        *address
    }

    /// The next connection.
    ///
    /// # Panics
    /// When none comes.
    pub fn accept(&self) -> Wire {
        assert!(self.has_one(DEADLINE), "nobody connects to the origin");
        self.accept_waiting()
    }

    /// Whether a connection waits, or comes within `wait`.
    pub fn has_one(&self, wait: Duration) -> bool {
        let wait = Timespec::try_from(wait).expect("a short time");
        let mut polled = [PollFd::from_borrowed_fd(self.as_fd(), PollFlags::IN)];
        poll(&mut polled, Some(&wait)).is_ok_and(|ready| ready > 0)
    }

    fn accept_waiting(&self) -> Wire {
        match &self.0 {
            Kind::Tcp(listener, _) => listener.accept().expect("a connection").0.into(),
            Kind::Unix(listener, _) => listener.accept().expect("a connection").0.into(),
        }
    }

    /// Passes every connection to `serve`, each in a thread of its own, and closes it afterwards.
    pub fn serve(self, serve: impl Fn(&mut Wire) + Send + Sync + 'static) -> Serving {
        let counts = Arc::new(Counts::default());
        let address = self.address();
        let shared = Arc::clone(&counts);
        let serve = Arc::new(serve);
        let thread = std::thread::spawn(move || {
            loop {
                let mut wire = self.accept_waiting();
                if shared.stop.load(Ordering::SeqCst) {
                    break;
                }
                shared.enter();
                let (shared, serve) = (Arc::clone(&shared), Arc::clone(&serve));
                std::thread::spawn(move || {
                    let here = ConnectionInService(&shared.open);
                    serve(&mut wire);
                    // Before the close: a client that sees it may connect again at once.
                    drop(here);
                });
            }
        });
        Serving {
            address,
            counts,
            thread: Some(thread),
        }
    }

    /// Echoes every byte until the end.
    pub fn echo(self) -> Serving {
        self.serve(|wire| {
            let mut writer = wire.another();
            // A peer that breaks off is the business of the test that made it do so.
            let _ = std::io::copy(wire, &mut writer);
        })
    }
}

impl AsFd for Origin {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Kind::Tcp(listener, _) => listener.as_fd(),
            Kind::Unix(listener, _) => listener.as_fd(),
        }
    }
}

/// An origin that serves by itself until it is dropped.
#[derive(Debug)]
pub struct Serving {
    address: String,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Counts {
    stop: AtomicBool,
    open: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

impl Counts {
    fn enter(&self) {
        self.all.fetch_add(1, Ordering::SeqCst);
        let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(open, Ordering::SeqCst);
    }
}

/// The count of one connection in service; also correct when its script panics.
struct ConnectionInService<'a>(&'a AtomicUsize);

impl Drop for ConnectionInService<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Serving {
    /// The address as a string.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The most connections in service at once.
    pub fn most_at_once(&self) -> usize {
        self.counts.most.load(Ordering::SeqCst)
    }

    /// The connections in service now.
    pub fn open(&self) -> usize {
        self.counts.open.load(Ordering::SeqCst)
    }

    /// All connections so far.
    pub fn accepted(&self) -> usize {
        self.counts.all.load(Ordering::SeqCst)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.counts.stop.store(true, Ordering::SeqCst);
        let woken = match self.address.strip_prefix("unix:") {
            Some(path) => std::os::unix::net::UnixStream::connect(path).is_ok(),
            None => std::net::TcpStream::connect(&self.address).is_ok(),
        };
        // A thread that accepts on a replaced socket file cannot be woken through that file.
        if let (true, Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}
