//! The messages of a handover, as JSON and descriptors.

use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lockgate_net::listen::{ListenAddress, SocketOwner};
use lockgate_net::tls::HandedKeys;
use rustix::net::sockopt::socket_acceptconn;
use rustix::net::{AddressFamily, SocketAddrUnix, getsockname};
use serde_json::{Value, json};

/// What the old process offers.
pub(crate) struct HandoverOffer {
    pub(crate) listeners: Vec<OfferedListener>,
    pub(crate) metrics: Option<OfferedAddress>,
    pub(crate) admin: Option<OfferedAddress>,
    pub(crate) tickets: Vec<HandedKeys>,
    /// What operators have set while the old process ran.
    pub(crate) changes: Value,
    /// The standard error of the old process; that of the new one is a pipe at first, for the
    /// errors of its start.
    pub(crate) stderr: OwnedFd,
}

/// The sockets of one address.
pub(crate) struct OfferedListener {
    pub(crate) name: String,
    /// The address as configured, by which it is known again.
    pub(crate) address: ListenAddress,
    pub(crate) bound: ListenAddress,
    pub(crate) owner: SocketOwner,
    /// One for each worker; one for all where they share it.
    pub(crate) sockets: Arc<Vec<OwnedFd>>,
}

/// The socket of an address that the main thread serves.
pub(crate) struct OfferedAddress {
    pub(crate) address: ListenAddress,
    pub(crate) bound: ListenAddress,
    pub(crate) socket: OwnedFd,
}

/// The offered sockets that the new process has taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TakenSockets {
    /// The places of the listeners in the offer.
    pub(crate) listeners: Vec<usize>,
    pub(crate) metrics: bool,
    pub(crate) admin: bool,
}

/// What the new process says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// All is open, and these sockets are taken.
    Ready(TakenSockets),
    Serving,
    /// It cannot start, for these reasons.
    Failed(String),
}

/// The word of the old process after its offer: the new one is to serve.
pub(super) const GO: &[u8] = b"go";
/// Its last word, if it was to stop meanwhile: the new one is to stop too.
pub(super) const STOP: &[u8] = b"stop";
/// Its last word to a new process that it cannot end, if it serves again itself: the new one is to
/// end at once.
pub(super) const GIVEN_UP: &[u8] = b"given up";
/// What follows the parts of an offer.
pub(super) const END: &[u8] = b"end";

impl HandoverOffer {
    /// The text of the offer, without its descriptors.
    pub(super) fn text(&self) -> String {
        let listeners: Vec<_> = self.listeners.iter().map(OfferedListener::text).collect();
        let tickets: Vec<_> = self.tickets.iter().map(keys_text).collect();
        json!({
            "listeners": listeners,
            "metrics": self.metrics.as_ref().map(OfferedAddress::text),
            "admin": self.admin.as_ref().map(OfferedAddress::text),
            "tickets": tickets,
            "changes": self.changes,
        })
        .to_string()
    }

    /// All descriptors, in the order in which [`HandoverOffer::read`] takes them.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let single = self.metrics.iter().chain(&self.admin);
        let single = single.map(|offered| offered.socket.as_fd());
        let sockets = self.listeners.iter().flat_map(|one| one.sockets.iter());
        [self.stderr.as_fd()]
            .into_iter()
            .chain(single)
            .chain(sockets.map(|socket| socket.as_fd()))
            .collect()
    }

    /// The offer of a text and its descriptors; `None` where they do not fit together.
    pub(super) fn read(text: &[u8], descriptors: Vec<OwnedFd>) -> Option<Self> {
        let value: Value = serde_json::from_slice(text).ok()?;
        let mut descriptors = descriptors.into_iter();
        let stderr = descriptors.next()?;
        let mut single = |value: &Value| match value {
            Value::Null => Some(None),
            value => OfferedAddress::read(value, descriptors.next()?).map(Some),
        };
        let metrics = single(&value["metrics"])?;
        let admin = single(&value["admin"])?;
        let listeners = value["listeners"].as_array()?.iter();
        Some(Self {
            listeners: listeners
                .map(|value| OfferedListener::read(value, &mut descriptors))
                .collect::<Option<_>>()?,
            metrics,
            admin,
            tickets: value["tickets"]
                .as_array()?
                .iter()
                .map(read_keys)
                .collect::<Option<_>>()?,
            changes: value["changes"].clone(),
            stderr,
        })
    }

    /// The address of a socket that listens somewhere else, or not at all.
    pub(super) fn misplaced(&self) -> Option<&ListenAddress> {
        let single = self.metrics.iter().chain(&self.admin);
        let single = single.map(|offered| (&offered.bound, &offered.socket));
        let listeners = self.listeners.iter();
        let listeners =
            listeners.flat_map(|one| one.sockets.iter().map(move |socket| (&one.bound, socket)));
        let mut all = single.chain(listeners);
        let (address, _) =
            all.find(|(bound, socket)| !listens_at(socket, bound).unwrap_or(false))?;
        Some(address)
    }
}

impl OfferedListener {
    fn text(&self) -> Value {
        json!({
            "name": self.name,
            "address": self.address.to_string(),
            "bound": self.bound.to_string(),
            "own": self.owner == SocketOwner::Us,
            "sockets": self.sockets.len(),
        })
    }

    fn read(value: &Value, descriptors: &mut impl Iterator<Item = OwnedFd>) -> Option<Self> {
        let count = usize::try_from(value["sockets"].as_u64()?).ok()?;
        let sockets: Vec<_> = descriptors.take(count).collect();
        (count > 0 && sockets.len() == count).then_some(())?;
        Some(Self {
            name: value["name"].as_str()?.to_owned(),
            address: address(&value["address"])?,
            bound: address(&value["bound"])?,
            owner: match value["own"].as_bool()? {
                true => SocketOwner::Us,
                false => SocketOwner::Another,
            },
            sockets: Arc::new(sockets),
        })
    }
}

impl OfferedAddress {
    fn text(&self) -> Value {
        json!({ "address": self.address.to_string(), "bound": self.bound.to_string() })
    }

    fn read(value: &Value, socket: OwnedFd) -> Option<Self> {
        Some(Self {
            address: address(&value["address"])?,
            bound: address(&value["bound"])?,
            socket,
        })
    }
}

impl Said {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Ready(taken) => json!({
                "ready": {
                    "listeners": taken.listeners,
                    "metrics": taken.metrics,
                    "admin": taken.admin,
                },
            }),
            Self::Serving => json!({ "serving": {} }),
            Self::Failed(why) => json!({ "failed": why }),
        }
        .to_string()
    }

    /// `None` where it is none of this version.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(text).ok()?;
        if let Some(why) = value["failed"].as_str() {
            return Some(Self::Failed(why.to_owned()));
        }
        if value["serving"].is_object() {
            return Some(Self::Serving);
        }
        let ready = &value["ready"];
        let listeners = ready["listeners"].as_array()?.iter();
        let listeners = listeners.map(|index| usize::try_from(index.as_u64()?).ok());
        Some(Self::Ready(TakenSockets {
            listeners: listeners.collect::<Option<_>>()?,
            metrics: ready["metrics"].as_bool()?,
            admin: ready["admin"].as_bool()?,
        }))
    }
}

fn keys_text(keys: &HandedKeys) -> Value {
    json!({
        "rotate_ms": millis(keys.rotate),
        "keep": keys.keep,
        "age_ms": millis(keys.age),
        "keys": keys.keys,
    })
}

fn read_keys(value: &Value) -> Option<HandedKeys> {
    let millis = |name: &str| value[name].as_u64().map(Duration::from_millis);
    let byte = |byte: &Value| u8::try_from(byte.as_u64()?).ok();
    let key = |key: &Value| {
        key.as_array()?
            .iter()
            .map(byte)
            .collect::<Option<Vec<u8>>>()
    };
    Some(HandedKeys {
        rotate: millis("rotate_ms")?,
        keep: usize::try_from(value["keep"].as_u64()?).ok()?,
        age: millis("age_ms")?,
        keys: value["keys"]
            .as_array()?
            .iter()
            .map(key)
            .collect::<Option<_>>()?,
    })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// An address as it displays itself.
fn address(written: &Value) -> Option<ListenAddress> {
    let written = written.as_str()?;
    if let Some(path) = written.strip_prefix("unix:") {
        return Some(ListenAddress::Unix(path.into()));
    }
    match written.strip_prefix(':') {
        Some(port) => port.parse().ok().map(ListenAddress::All),
        None => written.parse().ok().map(ListenAddress::Ip),
    }
}

/// Whether a socket listens at this address, as it was bound.
fn listens_at(socket: impl AsFd, bound: &ListenAddress) -> io::Result<bool> {
    let found = getsockname(&socket)?;
    let is_there = match found.address_family() {
        AddressFamily::INET | AddressFamily::INET6 => {
            let found = SocketAddr::try_from(found)?;
            match bound {
                ListenAddress::All(port) => found.port() == *port && found.ip().is_unspecified(),
                ListenAddress::Ip(ip) => (found.ip(), found.port()) == (ip.ip(), ip.port()),
                ListenAddress::Unix(_) => false,
            }
        }
        AddressFamily::UNIX => {
            let found = SocketAddrUnix::try_from(found)?;
            let path = found.path().map(|path| path.to_bytes().to_owned());
            // The offer has the path as text.
            let path = path.map(|path| OsStr::from_bytes(&path).to_string_lossy().into_owned());
            match (bound, path) {
                (ListenAddress::Unix(bound), Some(path)) => bound == Path::new(&path),
                _ => false,
            }
        }
        _ => false,
    };
    Ok(is_there && socket_acceptconn(&socket)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    fn descriptor() -> OwnedFd {
        File::open("/dev/null").unwrap().into()
    }

    fn offer() -> HandoverOffer {
        let listener = |name: &str, address: &str, count, owner| OfferedListener {
            name: name.to_owned(),
            address: super::address(&json!(address)).unwrap(),
            bound: super::address(&json!(address)).unwrap(),
            owner,
            sockets: Arc::new((0..count).map(|_| descriptor()).collect()),
        };
        HandoverOffer {
            listeners: vec![
                listener("web", ":443", 2, SocketOwner::Us),
                listener("local", "unix:/run/a b.sock", 1, SocketOwner::Another),
                listener("v6", "[::1]:80", 3, SocketOwner::Us),
            ],
            metrics: None,
            admin: Some(OfferedAddress {
                address: ListenAddress::Unix("/run/admin.sock".into()),
                bound: ListenAddress::Unix("/run/admin.sock".into()),
                socket: descriptor(),
            }),
            tickets: vec![HandedKeys {
                rotate: Duration::from_secs(3600),
                keep: 2,
                age: Duration::from_millis(1500),
                keys: vec![vec![0; 48], (0..48).collect()],
            }],
            changes: json!({ "level": "debug" }),
            stderr: descriptor(),
        }
    }

    #[test]
    fn an_offer_is_read_as_it_was_made() {
        let made = offer();
        let copies = |made: &HandoverOffer| -> Vec<OwnedFd> {
            let all = made.descriptors().into_iter();
            all.map(|fd| fd.try_clone_to_owned().unwrap()).collect()
        };
        assert_eq!(made.descriptors().len(), 1 + 1 + 2 + 1 + 3);
        let read = HandoverOffer::read(made.text().as_bytes(), copies(&made)).unwrap();
        assert_eq!(read.text(), made.text());
        assert!(read.metrics.is_none());
        assert_eq!(read.listeners[2].sockets.len(), 3);
        let mut few = copies(&made);
        few.pop();
        assert!(HandoverOffer::read(made.text().as_bytes(), few).is_none());
        assert!(HandoverOffer::read(b"{}", copies(&made)).is_none());
    }

    #[test]
    fn a_socket_that_listens_elsewhere_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b.sock");
        let tcp = |at: &str| TcpListener::bind(at).unwrap();
        let of = |listener: TcpListener| {
            let at = listener.local_addr().unwrap();
            (OwnedFd::from(listener), at)
        };
        let (local, at) = of(tcp("127.0.0.1:0"));
        let (every, on_every) = of(tcp("0.0.0.0:0"));
        let unix = OwnedFd::from(UnixListener::bind(&path).unwrap());
        let unbound =
            rustix::net::socket(AddressFamily::INET, rustix::net::SocketType::STREAM, None);
        let [ip, all] = [ListenAddress::Ip(at), ListenAddress::All(on_every.port())];
        let file = ListenAddress::Unix(path);
        for (socket, place) in [(&local, &ip), (&every, &all), (&unix, &file)] {
            for bound in [&ip, &all, &file] {
                assert_eq!(
                    listens_at(socket, bound).unwrap(),
                    place == bound,
                    "{bound}"
                );
            }
        }
        let none = ListenAddress::Ip("0.0.0.0:0".parse().unwrap());
        assert!(!listens_at(unbound.unwrap(), &none).unwrap());
        // The descriptors of this offer are no sockets.
        assert_eq!(
            offer().misplaced().unwrap().to_string(),
            "unix:/run/admin.sock"
        );
        let empty = HandoverOffer {
            listeners: Vec::new(),
            admin: None,
            ..offer()
        };
        assert!(empty.misplaced().is_none());
    }

    #[test]
    fn words_of_the_new_process_are_read_as_they_were_said() {
        for said in [
            Said::Ready(TakenSockets {
                listeners: vec![0, 2],
                metrics: false,
                admin: true,
            }),
            Said::Serving,
            Said::Failed("two\nlines".to_owned()),
        ] {
            assert_eq!(Said::read(said.text().as_bytes()), Some(said));
        }
        for other in [
            "",
            "hello",
            "{}",
            "{\"ready\":{}}",
            "{\"ready\":{\"listeners\":[]}}",
            "{\"ready\":{\"listeners\":[-1],\"metrics\":true,\"admin\":true}}",
        ] {
            assert_eq!(Said::read(other.as_bytes()), None, "{other}");
        }
    }
}
