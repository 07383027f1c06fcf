//! Connection to the first of a host's addresses that accepts (Happy Eyeballs, RFC 8305 §5).

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::Poll;

use super::{SocketSettings, dial_tcp, is_exhaustion};
use crate::socket::Socket;

type Attempt = Pin<Box<dyn Future<Output = io::Result<Socket>>>>;

/// Connects to the first of `addresses` that accepts, and returns its address. The next attempt
/// starts when the last has failed, or after `pause` (RFC 8305 §5: 250 ms); earlier attempts
/// continue, and all end with the first connection.
///
/// # Errors
/// That of the first address if none accepts; at once an error that descriptors or memory have run
/// out.
pub async fn race<P: Future<Output = ()>>(
    addresses: &[SocketAddr],
    mut pause: impl FnMut() -> P,
) -> io::Result<(Socket, SocketAddr)> {
    let mut rest = addresses.iter();
    let mut attempts: Vec<(SocketAddr, Attempt)> = Vec::new();
    let mut waiting = pin!(pause());
    let mut first_error: Option<io::Error> = None;
    poll_fn(|cx| {
        loop {
            let (mut at, before) = (0, attempts.len());
            while let Some((address, attempt)) = attempts.get_mut(at) {
                match attempt.as_mut().poll(cx) {
                    Poll::Ready(Ok(socket)) => return Poll::Ready(Ok((socket, *address))),
                    Poll::Ready(Err(error)) if is_exhaustion(&error) => {
                        return Poll::Ready(Err(error));
                    }
                    Poll::Ready(Err(error)) => {
                        first_error.get_or_insert(error);
                        drop(attempts.remove(at));
                    }
                    Poll::Pending => at += 1,
                }
            }
            let failed = attempts.len() < before || attempts.is_empty();
            // A wait that has completed must not be polled again.
            let due =
                !rest.as_slice().is_empty() && (failed || waiting.as_mut().poll(cx).is_ready());
            match due.then(|| rest.next()).flatten() {
                Some(address) => {
                    attempts.push((
                        *address,
                        Box::pin(dial_tcp(*address, SocketSettings::default())),
                    ));
                    waiting.set(pause());
                }
                None if attempts.is_empty() => {
                    let none = || io::Error::new(io::ErrorKind::NotFound, "there is no address");
                    return Poll::Ready(Err(first_error.take().unwrap_or_else(none)));
                }
                None => return Poll::Pending,
            }
        }
    })
    .await
}

/// Alternates the address families, beginning with that of the first (RFC 8305 §4 with a First
/// Address Family Count of 1), so that one broken family costs one attempt. Removes duplicates.
pub fn interleave(found: impl IntoIterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut distinct: Vec<SocketAddr> = Vec::new();
    for address in found {
        if !distinct.contains(&address) {
            distinct.push(address);
        }
    }
    let Some(first_is_v6) = distinct.first().map(SocketAddr::is_ipv6) else {
        return distinct;
    };
    let count = distinct.len();
    let (preferred, other): (Vec<_>, Vec<_>) = distinct
        .into_iter()
        .partition(|address| address.is_ipv6() == first_is_v6);
    let mut mixed = Vec::with_capacity(count);
    let (mut preferred, mut other) = (preferred.into_iter(), other.into_iter());
    while mixed.len() < count {
        mixed.extend(preferred.next());
        mixed.extend(other.next());
    }
    mixed
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::net::TcpListener;

    use super::*;
    use crate::reactor::testing::run;

    fn listening() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// An address that does not answer: its queue of one is full (listen(2)).
    fn silent() -> (Vec<std::net::TcpStream>, rustix::fd::OwnedFd, SocketAddr) {
        use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
        let fd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&fd, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        listen(&fd, 0).unwrap();
        let address = SocketAddr::try_from(getsockname(&fd).unwrap()).unwrap();
        let mut held = Vec::new();
        while let Ok(stream) =
            std::net::TcpStream::connect_timeout(&address, std::time::Duration::from_millis(50))
        {
            held.push(stream);
        }
        (held, fd, address)
    }

    fn refusing() -> SocketAddr {
        listening().1
    }

    #[test]
    fn happy_eyeballs_tries_the_next_address_at_once_after_refusal() {
        run(async {
            let (_listener, address) = listening();
            let (_, to) = race(&[refusing(), refusing(), address], pending)
                .await
                .unwrap();
            assert_eq!(to, address);
        });
    }

    #[test]
    fn happy_eyeballs_tries_the_next_address_after_a_pause() {
        run(async {
            let ((_held, _fd, unreachable), (_listener, address)) = (silent(), listening());
            let (_, to) = race(&[unreachable, address], || ready(())).await.unwrap();
            assert_eq!(to, address);
        });
    }

    #[test]
    fn the_first_address_wins_unless_a_later_one_connects_sooner() {
        run(async {
            let ((_first, one), (_second, other)) = (listening(), listening());
            let (_, to) = race(&[one, other], pending).await.unwrap();
            assert_eq!(to, one);
        });
    }

    #[test]
    fn a_race_that_all_addresses_refuse_reports_connection_refused() {
        run(async {
            let error = race(&[refusing(), refusing()], || ready(()))
                .await
                .unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            let error = race(&[], || ready(())).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        });
    }

    #[test]
    fn ipv6_and_ipv4_addresses_alternate() {
        let addresses = |list: &[&str]| {
            list.iter()
                .map(|address| address.parse().unwrap())
                .collect::<Vec<SocketAddr>>()
        };
        for (found, expected) in [
            (vec![], vec![]),
            (vec!["10.0.0.1:1", "10.0.0.1:1"], vec!["10.0.0.1:1"]),
            (
                vec!["[::1]:1", "[::2]:1", "[::3]:1", "10.0.0.1:1"],
                vec!["[::1]:1", "10.0.0.1:1", "[::2]:1", "[::3]:1"],
            ),
            (
                vec!["10.0.0.1:1", "10.0.0.2:1", "[::1]:1", "[::2]:1"],
                vec!["10.0.0.1:1", "[::1]:1", "10.0.0.2:1", "[::2]:1"],
            ),
        ] {
            assert_eq!(
                interleave(addresses(&found)),
                addresses(&expected),
                "{found:?}"
            );
        }
    }
}
