//! Binding: which listeners may share an address, and the addresses of accepted clients.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};

use socket2::{Domain, Type};

use super::*;
use crate::reactor::testing::run;

const PLAIN: ListenOptions = ListenOptions {
    backlog: 16,
    fast_open: false,
    defer_accept: None,
};

fn any_port() -> ListenAddress {
    ListenAddress::Ip("127.0.0.1:0".parse().unwrap())
}

fn ip_of(bound: &BoundListener) -> SocketAddr {
    match bound.address {
        ListenAddress::Ip(ip) => ip,
        ref other => panic!("{other}"),
    }
}

fn refusal(address: &ListenAddress) -> io::ErrorKind {
    bind(address, &PLAIN, 2).unwrap_err().kind()
}

/// The next connection of any socket that has one.
fn accept_any(listeners: &[Listener]) -> (usize, Peer) {
    for (place, listener) in listeners.iter().enumerate().cycle() {
        if let Some((_, peer)) = listener.accept().unwrap() {
            return (place, peer);
        }
    }
    unreachable!("there are listeners")
}

fn listeners(bound: BoundListener, family: SocketFamily) -> Vec<Listener> {
    bound
        .sockets
        .into_iter()
        .map(|fd| Listener::new(fd, family, SocketOwner::Us).unwrap())
        .collect()
}

#[test]
fn reuseport_sockets_of_all_workers_share_one_port() {
    run(async {
        let bound = bind(&any_port(), &PLAIN, 2).unwrap();
        let ip = ip_of(&bound);
        assert_ne!(ip.port(), 0, "the port that was chosen is told");
        let listeners = listeners(bound, SocketFamily::Tcp);
        assert_eq!(listeners.len(), 2);
        let mut served = [0; 2];
        // 1 in 2^63 that the kernel's hash sends all to one socket.
        for _ in 0..64 {
            let client = TcpStream::connect(ip).unwrap();
            let (place, peer) = accept_any(&listeners);
            assert_eq!(peer, Peer::Ip(client.local_addr().unwrap()));
            served[place] += 1;
        }
        assert!(served.iter().all(|&served| served > 0), "{served:?}");
    });
}

#[test]
fn a_port_of_another_listener_is_refused_despite_reuseport() {
    for shares in [false, true] {
        let foreign = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        foreign.set_reuse_address(true).unwrap();
        foreign.set_reuse_port(shares).unwrap();
        foreign
            .bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into())
            .unwrap();
        foreign.listen(1).unwrap();
        let ip = foreign.local_addr().unwrap().as_socket().unwrap();
        assert_eq!(refusal(&ListenAddress::Ip(ip)), io::ErrorKind::AddrInUse);
        assert_eq!(
            refusal(&ListenAddress::All(ip.port())),
            io::ErrorKind::AddrInUse
        );
        drop(foreign);
        bind(&ListenAddress::Ip(ip), &PLAIN, 2).unwrap();
    }
}

#[test]
fn our_own_port_cannot_be_bound_twice() {
    let bound = bind(&any_port(), &PLAIN, 2).unwrap();
    assert_eq!(refusal(&bound.address), io::ErrorKind::AddrInUse);
    let all = bind(&ListenAddress::All(0), &PLAIN, 1).unwrap();
    assert_eq!(refusal(&all.address), io::ErrorKind::AddrInUse);
}

#[test]
fn a_port_in_time_wait_can_be_bound_again() {
    let bound = bind(&any_port(), &PLAIN, 1).unwrap();
    let ip = ip_of(&bound);
    let client = TcpStream::connect(ip).unwrap();
    let (accepted, _) =
        rustix::net::acceptfrom_with(&bound.sockets[0], SocketFlags::empty()).unwrap();
    // We close first: our end waits in TIME_WAIT.
    drop((accepted, bound));
    drop(client);
    bind(&ListenAddress::Ip(ip), &PLAIN, 2).unwrap();
}

#[test]
fn a_wildcard_listener_accepts_ipv4_and_ipv6() {
    run(async {
        let bound = bind(&ListenAddress::All(0), &PLAIN, 1).unwrap();
        let ListenAddress::All(port) = bound.address else {
            panic!("{}", bound.address)
        };
        let listeners = listeners(bound, SocketFamily::Tcp);
        for host in ["127.0.0.1", "::1"] {
            let host: IpAddr = host.parse().unwrap();
            let Ok(client) = TcpStream::connect((host, port)) else {
                assert!(host.is_ipv6(), "a host without IPv6 still has IPv4");
                continue;
            };
            let (fd, peer) = loop {
                if let Some(accepted) = listeners[0].accept().unwrap() {
                    break accepted;
                }
            };
            assert_eq!(peer, Peer::Ip(client.local_addr().unwrap()));
            assert_eq!(local_address(&fd).unwrap(), client.peer_addr().unwrap());
        }
    });
}

#[test]
fn an_ipv6_wildcard_leaves_the_ipv4_port_free() {
    let Ok(v6) = bind(&ListenAddress::Ip("[::]:0".parse().unwrap()), &PLAIN, 1) else {
        return;
    };
    let port = ip_of(&v6).port();
    bind(
        &ListenAddress::Ip(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)),
        &PLAIN,
        1,
    )
    .unwrap();
}

#[test]
fn an_accepted_socket_has_nodelay_and_is_nonblocking() {
    run(async {
        let bound = bind(&any_port(), &PLAIN, 1).unwrap();
        let _client = TcpStream::connect(ip_of(&bound)).unwrap();
        let listeners = listeners(bound, SocketFamily::Tcp);
        let waiting = listeners[0].ready().await.unwrap();
        let (fd, _) = listeners[0].accept().unwrap().unwrap();
        assert!(rustix::net::sockopt::tcp_nodelay(&fd).unwrap());
        let mut buffer = [0; 1];
        assert_eq!(rustix::io::read(&fd, &mut buffer), Err(Errno::AGAIN));
        assert!(listeners[0].accept().unwrap().is_none());
        waiting.none();
    });
}

#[test]
fn options_that_the_kernel_has_are_taken() {
    let options = ListenOptions {
        backlog: u32::MAX,
        fast_open: true,
        defer_accept: Some(Duration::from_secs(10)),
    };
    assert_eq!(bind(&any_port(), &options, 2).unwrap().sockets.len(), 2);
}

#[test]
fn options_of_a_listening_socket_are_changed() {
    let deferred = ListenOptions {
        defer_accept: Some(Duration::from_secs(60)),
        fast_open: true,
        ..PLAIN
    };
    run(async {
        let bound = bind(&any_port(), &deferred, 1).unwrap();
        let ip = ip_of(&bound);
        let socket = bound.sockets[0].try_clone().unwrap();
        let listener = &listeners(bound, SocketFamily::Tcp)[0];
        let _silent = TcpStream::connect(ip).unwrap();
        assert!(listener.accept().unwrap().is_none());
        set_options(&socket, &PLAIN).unwrap();
        let client = TcpStream::connect(ip).unwrap();
        let (_, Peer::Ip(peer)) = listener.accept().unwrap().unwrap() else {
            panic!("a client of another family");
        };
        assert_eq!(peer, client.local_addr().unwrap());
        set_options(&socket, &deferred).unwrap();
        let _silent = TcpStream::connect(ip).unwrap();
        assert!(listener.accept().unwrap().is_none());
    });
}

#[test]
fn the_backlog_of_a_unix_socket_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let address = ListenAddress::Unix(folder.path().join("s"));
    let bound = bind(&address, &PLAIN, 1).unwrap();
    let options = ListenOptions {
        backlog: 1,
        fast_open: true,
        ..PLAIN
    };
    set_options(&bound.sockets[0], &options).unwrap();
}

#[test]
fn a_minimum_ttl_drops_new_syns_and_spares_started_handshakes() {
    // With it a handshake is over, for the listener, with the first data: it can begin before and
    // end after.
    let options = ListenOptions {
        defer_accept: Some(Duration::from_secs(60)),
        ..PLAIN
    };
    for ip in ["127.0.0.1:0", "[::1]:0"] {
        run(async {
            // A host without IPv6 still has IPv4.
            let Ok(bound) = bind(&ListenAddress::Ip(ip.parse().unwrap()), &options, 1) else {
                return;
            };
            let ip = ip_of(&bound);
            let listener = &listeners(bound, SocketFamily::Tcp)[0];
            let mut before = TcpStream::connect(ip).unwrap();
            assert!(listener.accept().unwrap().is_none());
            listener.refuse_by_ttl().unwrap();
            let after =
                socket2::Socket::new(Domain::for_address(ip), Type::STREAM.nonblocking(), None)
                    .unwrap();
            after.connect(&ip.into()).unwrap_err();

            before.write_all(b"first").unwrap();
            let accepted = loop {
                if let Some((fd, peer)) = listener.accept().unwrap() {
                    assert_eq!(peer, Peer::Ip(before.local_addr().unwrap()));
                    break fd;
                }
            };
            before.write_all(b", then more").unwrap();
            let mut accepted = TcpStream::from(accepted);
            accepted.set_nonblocking(false).unwrap();
            let mut data = [0; 16];
            accepted.read_exact(&mut data).unwrap();
            assert_eq!(&data, b"first, then more");
            assert_eq!(
                after.peer_addr().unwrap_err().kind(),
                io::ErrorKind::NotConnected
            );
            assert!(
                listener.accept().unwrap().is_none(),
                "the other's SYN was dropped"
            );
        });
    }
}

fn unix(folder: &tempfile::TempDir) -> (PathBuf, ListenAddress) {
    let path = folder.path().join("lockgate.sock");
    (path.clone(), ListenAddress::Unix(path))
}

#[test]
fn a_unix_socket_is_shared_by_all_workers() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let (path, address) = unix(&folder);
        let bound = bind(&address, &PLAIN, 3).unwrap();
        assert_eq!(bound.address, address);
        let listeners = listeners(bound, SocketFamily::Unix);
        assert_eq!(listeners.len(), 3);
        for listener in &listeners {
            let _client = UnixStream::connect(&path).unwrap();
            let (fd, peer) = listener.accept().unwrap().unwrap();
            assert_eq!((peer, listener.family()), (Peer::Unix, SocketFamily::Unix));
            assert!(local_address(&fd).is_err());
        }
    });
}

#[test]
fn a_stale_unix_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = unix(&folder);
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "the file stays behind");
    let _bound = bind(&address, &PLAIN, 1).unwrap();
    UnixStream::connect(&path).unwrap();
}

#[test]
fn a_unix_socket_with_a_listener_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = unix(&folder);
    let foreign = UnixListener::bind(&path).unwrap();
    assert_eq!(refusal(&address), io::ErrorKind::AddrInUse);
    UnixStream::connect(&path).unwrap();
    foreign.accept().unwrap();
}

/// The kernel refuses to connect to a file that is no socket, as to a socket without a listener.
#[test]
fn a_file_that_is_no_socket_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = unix(&folder);
    std::fs::write(&path, "precious").unwrap();
    let bound = bind(&address, &PLAIN, 1);
    assert_eq!(
        std::fs::read_to_string(&path).ok().as_deref(),
        Some("precious")
    );
    assert_eq!(bound.unwrap_err().kind(), io::ErrorKind::AddrInUse);
}

#[test]
fn a_datagram_socket_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (path, address) = unix(&folder);
    let _foreign = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    assert_eq!(refusal(&address), io::ErrorKind::AddrInUse);
    assert!(path.exists());
}

#[test]
fn a_path_that_cannot_be_a_socket_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing").join("lockgate.sock");
    assert_eq!(
        refusal(&ListenAddress::Unix(missing)),
        io::ErrorKind::NotFound
    );
    assert_eq!(
        refusal(&ListenAddress::Unix(folder.path().join("x".repeat(120)))),
        io::ErrorKind::InvalidInput
    );
}

#[test]
fn addresses_are_displayed_as_in_the_configuration() {
    for (address, written) in [
        (ListenAddress::All(443), ":443"),
        (ListenAddress::Ip("[::1]:443".parse().unwrap()), "[::1]:443"),
        (
            ListenAddress::Unix("/run/a.sock".into()),
            "unix:/run/a.sock",
        ),
    ] {
        assert_eq!(address.to_string(), written);
    }
    assert_eq!(
        Peer::Ip("192.0.2.1:5".parse().unwrap()).to_string(),
        "192.0.2.1:5"
    );
    assert_eq!(Peer::Unix.to_string(), "unix");
}

#[test]
fn an_ipv4_mapped_address_is_ipv4() {
    let canonical = |address: &str| canonical(address.parse().unwrap()).to_string();
    assert_eq!(canonical("[::ffff:192.0.2.1]:5"), "192.0.2.1:5");
    assert_eq!(canonical("[2001:db8::1]:5"), "[2001:db8::1]:5");
    assert_eq!(canonical("[::1]:5"), "[::1]:5");
}

#[test]
fn a_foreign_ipv4_listener_keeps_its_port_from_our_wildcard() {
    let foreign = TcpListener::bind("0.0.0.0:0").unwrap();
    assert_eq!(
        refusal(&ListenAddress::All(foreign.local_addr().unwrap().port())),
        io::ErrorKind::AddrInUse
    );
}

#[test]
fn a_trial_bind_finds_errors_and_leaves_no_socket() {
    let tried =
        |address: &ListenAddress, trial| try_bind(address, trial).map_err(|error| error.kind());
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = ListenAddress::Ip(other.local_addr().unwrap());
    assert_eq!(tried(&taken, BindCheck::Address), Ok(()));
    assert_eq!(
        tried(&taken, BindCheck::Port),
        Err(io::ErrorKind::AddrInUse)
    );
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| ListenAddress::Unix(folder.path().join(name));
    let bound = bind(&any_port(), &PLAIN, 2).unwrap();
    let ours = ListenAddress::Ip(ip_of(&bound));
    assert_eq!(tried(&ours, BindCheck::Address), Ok(()));
    assert_eq!(
        tried(&ours, BindCheck::Port),
        Err(io::ErrorKind::AddrInUse),
        "our own sockets share their port"
    );
    // A documentation address (RFC 5737) is on no host.
    let foreign = ListenAddress::Ip("192.0.2.1:443".parse().unwrap());
    assert_eq!(
        tried(&foreign, BindCheck::Address),
        Err(io::ErrorKind::AddrNotAvailable)
    );
    for trial in [BindCheck::Address, BindCheck::Port] {
        assert_eq!(tried(&ListenAddress::All(0), trial), Ok(()));
        assert_eq!(tried(&path("a.sock"), trial), Ok(()));
        assert_eq!(
            tried(&path("missing/a.sock"), trial),
            Err(io::ErrorKind::NotFound)
        );
    }
    std::fs::write(folder.path().join("file"), "").unwrap();
    assert_eq!(
        tried(&path("file"), BindCheck::Address),
        Err(io::ErrorKind::AddrInUse)
    );
    let served = UnixListener::bind(folder.path().join("served.sock")).unwrap();
    assert_eq!(tried(&path("served.sock"), BindCheck::Address), Ok(()));
    assert_eq!(
        tried(&path("served.sock"), BindCheck::Port),
        Err(io::ErrorKind::AddrInUse)
    );
    drop(served);
    assert_eq!(
        tried(&path("served.sock"), BindCheck::Port),
        Ok(()),
        "one that is left over is replaced"
    );
    assert!(!folder.path().join("a.sock").exists());
}
