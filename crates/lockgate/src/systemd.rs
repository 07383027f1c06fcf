//! The interface to systemd: readiness, the watchdog, inherited listening sockets.
//!
//! Everything here does nothing when systemd did not start the process. Which socket belongs to
//! which listener is decided where listeners are bound, by address.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::sockopt::{socket_acceptconn, socket_type};
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketType, getsockname};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use sd_notify::NotifyState;

/// Reports that every listener accepts, with a status line.
pub(crate) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Reports that a reload begins; [`ready`] ends it.
pub(crate) fn reloading() {
    // systemd takes a reload without the time as one that it did not ask for (sd_notify(3),
    // MONOTONIC_USEC).
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "no monotonic clock to tell systemd"),
    }
}

/// Reports that the drain begins.
pub(crate) fn stopping(status: &str) {
    tell(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

/// Asks for `more` time before systemd counts the present start, reload or stop as failed: a drain
/// may outlast the unit's own timeout. To be repeated while it lasts.
pub(crate) fn extend_timeout(more: Duration) {
    tell(&[NotifyState::ExtendTimeoutUsec(
        u32::try_from(more.as_micros()).unwrap_or(u32::MAX),
    )]);
}

/// Tells the watchdog that this task still runs, twice per interval; ends at once where the unit
/// has none.
pub(crate) async fn keep_watchdog_calm() {
    let Some(interval) = sd_notify::watchdog_enabled() else {
        return;
    };
    loop {
        tell(&[NotifyState::Watchdog]);
        tokio::time::sleep((interval / 2).max(Duration::from_millis(1))).await;
    }
}

/// Reports that the process `pid` is the main one of the service from now on. This process then
/// tells nothing more: where systemd listens to every process, it would take an end for that of the
/// service.
pub(crate) fn hand_over(pid: u32) {
    tell(&[NotifyState::MainPid(pid)]);
    HANDED_OVER.store(true, Ordering::Relaxed);
}

/// Whether another process is the main one of the service.
static HANDED_OVER: AtomicBool = AtomicBool::new(false);

fn tell(states: &[NotifyState<'_>]) {
    if HANDED_OVER.load(Ordering::Relaxed) {
        return;
    }
    if let Err(error) = sd_notify::notify(states) {
        // A manager that went away is no reason to stop serving.
        tracing::debug!(%error, "systemd was not told");
    }
}

/// A listening socket that the process was started with (socket activation).
#[derive(Debug)]
pub(crate) struct Inherited {
    /// A duplicate of the inherited descriptor. The original stays open as long as the process, so
    /// a socket that is closed here goes on queueing connections, as it does in systemd
    /// anyway.
    pub(crate) socket: OwnedFd,
    pub(crate) address: InheritedAddress,
}

/// Where an inherited socket is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InheritedAddress {
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// The listening stream sockets that systemd handed over (`LISTEN_FDS`); none when there are none
/// for us.
///
/// # Errors
/// Environment variables that are not numbers, a descriptor that is not open, or is not a listening
/// TCP or Unix stream socket with an address: the unit and its sockets then do not fit together.
pub(crate) fn inherited_sockets() -> io::Result<Vec<Inherited>> {
    sd_notify::listen_fds()?.map(inherited_socket).collect()
}

fn inherited_socket(number: RawFd) -> io::Result<Inherited> {
    let wrong = |why: String| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("descriptor {number}: {why}"),
        )
    };
    let socket =
        duplicate(number).map_err(|error| wrong(format!("cannot be taken over: {error}")))?;
    let address = listening_address(&socket).map_err(|error| wrong(error.to_string()))?;
    Ok(Inherited { socket, address })
}

/// Duplicates a descriptor that is known by number only. Through the process's own pidfd (Linux
/// 5.6), because taking ownership of a number is `unsafe`: nothing proves that it has no other
/// owner.
fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    let process = pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(pidfd_getfd(process, number, PidfdGetfdFlags::empty())?)
}

fn listening_address(socket: &impl AsFd) -> io::Result<InheritedAddress> {
    let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
    if socket_type(socket)? != SocketType::STREAM || !socket_acceptconn(socket)? {
        return Err(wrong(
            "not a listening stream socket: the unit needs ListenStream= and Accept=no",
        ));
    }
    let address = getsockname(socket)?;
    match address.address_family() {
        AddressFamily::INET | AddressFamily::INET6 => {
            Ok(InheritedAddress::Tcp(address.try_into()?))
        }
        AddressFamily::UNIX => {
            unix_path(address).ok_or_else(|| wrong("a Unix socket without a path"))
        }
        _ => Err(wrong("neither a TCP nor a Unix socket")),
    }
}

fn unix_path(address: SocketAddrAny) -> Option<InheritedAddress> {
    let address = SocketAddrUnix::try_from(address).ok()?;
    let path = address.path()?;
    Some(InheritedAddress::Unix(
        std::ffi::OsStr::from_bytes(path.to_bytes()).into(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::{UnixDatagram, UnixListener};
    use std::process::{Command, Stdio};

    /// The ignored test `name` of this binary with `variables`, which only another process can be
    /// given.
    fn with_variables(name: &str, variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--ignored", &format!("systemd::tests::{name}")]);
        command.envs(variables.iter().copied());
        command
    }

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 512];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn systemd_hears_every_step_of_a_life() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let variables = [
            ("NOTIFY_SOCKET", path.to_str().unwrap()),
            ("WATCHDOG_USEC", "20000"),
        ];
        let mut child = with_variables("child_tells", &variables)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        assert_eq!(received(&socket), "READY=1\nSTATUS=serving 1 listener\n");
        let reload = received(&socket);
        let usec = reload
            .strip_prefix("RELOADING=1\nMONOTONIC_USEC=")
            .expect(&reload);
        assert!(usec.trim_end().parse::<u64>().is_ok(), "{reload}");
        assert_eq!(received(&socket), "READY=1\nSTATUS=serving 2 listeners\n");
        assert_eq!(received(&socket), "STOPPING=1\nSTATUS=draining\n");
        assert_eq!(received(&socket), "EXTEND_TIMEOUT_USEC=30000000\n");
        assert_eq!(received(&socket), "WATCHDOG=1\n");
        assert_eq!(received(&socket), "WATCHDOG=1\n");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    #[ignore = "needs a socket in its environment: run by systemd_hears_every_step_of_a_life"]
    fn child_tells() {
        ready("serving 1 listener");
        reloading();
        ready("serving 2 listeners");
        stopping("draining");
        extend_timeout(Duration::from_secs(30));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(keep_watchdog_calm());
    }

    #[test]
    fn without_systemd_nothing_happens() {
        ready("serving");
        stopping("draining");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(keep_watchdog_calm());
        assert!(inherited_sockets().unwrap().is_empty());
    }

    #[test]
    fn sockets_for_another_process_are_left_alone() {
        let variables = [("LISTEN_PID", "1"), ("LISTEN_FDS", "3")];
        let output = with_variables("child_inherits_nothing", &variables)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }

    #[test]
    #[ignore = "needs variables in its environment: run by sockets_for_another_process_are_left_alone"]
    fn child_inherits_nothing() {
        assert!(inherited_sockets().unwrap().is_empty());
    }

    #[test]
    fn an_inherited_listener_is_known_by_its_address_and_accepts() {
        let original = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = original.local_addr().unwrap();
        let inherited = inherited_socket(original.as_raw_fd()).unwrap();
        assert_eq!(inherited.address, InheritedAddress::Tcp(address));
        let listener = TcpListener::from(inherited.socket);
        let client = std::net::TcpStream::connect(address).unwrap();
        assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lockgate.sock");
        let original = UnixListener::bind(&path).unwrap();
        let inherited = inherited_socket(original.as_raw_fd()).unwrap();
        assert_eq!(inherited.address, InheritedAddress::Unix(path));
    }

    #[test]
    fn what_is_not_a_listening_stream_socket_is_refused_by_number() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = inherited_socket(udp.as_raw_fd()).unwrap_err().to_string();
        assert!(
            error.contains(&format!("descriptor {}", udp.as_raw_fd())),
            "{error}"
        );
        assert!(error.contains("ListenStream="), "{error}");
        let file = tempfile::tempfile().unwrap();
        assert!(inherited_socket(file.as_raw_fd()).is_err());
        assert!(
            inherited_socket(1_000_000)
                .unwrap_err()
                .to_string()
                .contains("cannot be taken over")
        );
    }
}
