//! The new process of a handover: what it was offered, and what it says.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use lockgate_net::listen::{BoundListener, ListenAddress};
use lockgate_net::tls::HandedKeys;
use serde_json::Value;

use super::message::{
    END, GIVEN_UP, GO, HandoverOffer, OfferedAddress, OfferedListener, STOP, Said, TakenSockets,
};
use super::packets::PacketSocket;
use super::{VARIABLE, VERSION, takeover_request};

/// Whether this process takes the place of another Lockgate, which has the ports still.
pub(crate) fn is_begun() -> bool {
    std::env::var_os(VARIABLE).is_some() || TAKES_OVER.load(Ordering::Relaxed)
}

/// Whether this process has asked for a takeover, and has the offer.
static TAKES_OVER: AtomicBool = AtomicBool::new(false);

/// The handover to this process.
pub(crate) struct Handover {
    socket: PacketSocket,
    /// The keys of session tickets.
    pub(crate) tickets: Vec<HandedKeys>,
    /// What operators have set while the old process ran.
    pub(crate) changes: Value,
}

/// How the old process has ended the handover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandoverEnd {
    /// This process is the one that serves.
    Served,
    /// The old one was to stop, which is meant for this one.
    Stopped,
    /// The old one has waited too long, and serves again: this one is to end at once.
    GivenUp,
}

/// The sockets that were handed over; none where this process takes the place of no other.
#[derive(Default)]
pub(crate) struct HandedSockets {
    /// Each with its place in the offer.
    listeners: Vec<(usize, OfferedListener)>,
    metrics: Option<OfferedAddress>,
    admin: Option<OfferedAddress>,
    taken: TakenSockets,
}

impl Handover {
    /// Receives the offer, if there is one. From then on standard error is that of the old process,
    /// and standard input is empty.
    ///
    /// # Errors
    /// A version of the protocol that this program does not know, or an old process that is gone.
    pub(crate) fn receive() -> anyhow::Result<Option<(Self, HandedSockets)>> {
        let Some(version) = std::env::var_os(VARIABLE) else {
            return Ok(None);
        };
        if version != VERSION {
            bail!(
                "this program knows only version {VERSION} of the handover ({VARIABLE}), not {version:?}: restart instead"
            );
        }
        let stdin = io::stdin().as_fd().try_clone_to_owned();
        let socket = PacketSocket::of(stdin.context("there is no standard input")?);
        socket.limit_wait(Some(ANSWER)).with_context(|| {
            format!("the standard input is not the socket of a handover, which {VARIABLE} promises")
        })?;
        let offer = receive_offer(&socket).context("the upgrade failed")?;
        rustix::stdio::dup2_stderr(&offer.stderr)?;
        rustix::stdio::dup2_stdin(&std::fs::File::open("/dev/null")?)?;
        Ok(Some(Self::of(offer, socket)))
    }

    /// Asks the Lockgate that answers at the first of `places`, those of admin sockets, to hand
    /// over. It must run as root, as the user of this process, or as `user`. `None` where there is
    /// none.
    ///
    /// # Errors
    /// When it refuses, or another program answers.
    pub(crate) fn take_over(
        places: &[PathBuf],
        user: Option<u32>,
    ) -> anyhow::Result<Option<(Self, HandedSockets)>> {
        let Some(socket) = takeover_request::ask(places, user)? else {
            return Ok(None);
        };
        socket.limit_wait(Some(ANSWER))?;
        let offer = receive_offer(&socket).context("the takeover failed")?;
        TAKES_OVER.store(true, Ordering::Relaxed);
        Ok(Some(Self::of(offer, socket)))
    }

    fn of(offer: HandoverOffer, socket: PacketSocket) -> (Self, HandedSockets) {
        let sockets = HandedSockets {
            listeners: offer.listeners.into_iter().enumerate().collect(),
            metrics: offer.metrics,
            admin: offer.admin,
            taken: TakenSockets::default(),
        };
        let handover = Self {
            socket,
            tickets: offer.tickets,
            changes: offer.changes,
        };
        (handover, sockets)
    }

    /// Says why this process cannot start.
    pub(crate) fn fail(&self, why: &str) {
        // A text that does not fit is cut at a character.
        let cut = why.floor_char_boundary(LONGEST_REASON.min(why.len()));
        let _ = self.say(&Said::Failed(why[..cut].to_owned()));
    }

    /// Says that all is open, and waits until this process is to serve.
    ///
    /// # Errors
    /// When the old process has given the upgrade up, or has ended.
    pub(crate) fn ready(&self, taken: TakenSockets) -> io::Result<()> {
        let said = self.say(&Said::Ready(taken));
        match said.and_then(|()| self.socket.receive()) {
            // From here on it may take its time.
            Ok(Some(packet)) if packet.bytes == GO => self.socket.limit_wait(None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(silent()),
            Err(error) if !is_hang_up(&error) => Err(error),
            Ok(_) | Err(_) => Err(io::Error::other(
                "the old process has ended, or has given up the handover",
            )),
        }
    }

    /// Says that this process serves.
    pub(crate) fn serving(&self) {
        // An old process that is gone needs not know.
        let _ = self.say(&Said::Serving);
    }

    /// Waits until the old process has told the service manager which process is the main one.
    pub(crate) fn ended(&self) -> HandoverEnd {
        let mut end = HandoverEnd::Served;
        loop {
            match self.socket.receive() {
                Ok(Some(packet)) if packet.bytes == STOP => end = HandoverEnd::Stopped,
                Ok(Some(packet)) if packet.bytes == GIVEN_UP => return HandoverEnd::GivenUp,
                Ok(Some(_)) => {}
                // It has left before it read a word. Its own come after this error.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
                Ok(None) | Err(_) => return end,
            }
        }
    }

    fn say(&self, said: &Said) -> io::Result<()> {
        self.socket.send(said.text().as_bytes(), &[])
    }
}

/// The longest reason of a failed start: it fits into one packet, even with every byte escaped.
const LONGEST_REASON: usize = 4 << 10;

/// The time in which the old process must go on until this one is to serve: it may be frozen.
const ANSWER: Duration = Duration::from_secs(20);

fn receive_offer(socket: &PacketSocket) -> anyhow::Result<HandoverOffer> {
    let (mut text, mut descriptors) = (Vec::new(), Vec::new());
    loop {
        let packet = match socket.receive() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(silent().into()),
            received => received?.context("the old process has ended")?,
        };
        descriptors.extend(packet.descriptors);
        if packet.bytes == END {
            break;
        }
        text.extend(packet.bytes);
    }
    let offer = HandoverOffer::read(&text, descriptors);
    let offer = offer.context("the offer is none of this version")?;
    if let Some(address) = offer.misplaced() {
        bail!("the socket that was offered for {address} does not listen there");
    }
    Ok(offer)
}

/// Whether the other end is closed.
fn is_hang_up(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

fn silent() -> io::Error {
    io::Error::other("the old process does not answer")
}

impl HandedSockets {
    /// The sockets of a listener, if its address was handed over: at least one for each of the
    /// workers. Of several on one address (port 0) the one with its name is preferred.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub(crate) fn listener(
        &mut self,
        name: &str,
        address: &ListenAddress,
        workers: usize,
    ) -> io::Result<Option<BoundListener>> {
        let of = |is_wanted: &dyn Fn(&OfferedListener) -> bool| {
            let mut listeners = self.listeners.iter();
            listeners.position(|(_, offered)| offered.address == *address && is_wanted(offered))
        };
        let Some(at) = of(&|offered| offered.name == name).or_else(|| of(&|_| true)) else {
            return Ok(None);
        };
        let (place, offered) = self.listeners.remove(at);
        let mut sockets = Arc::try_unwrap(offered.sockets).unwrap_or_default();
        let count = sockets.len();
        for copy in count..workers {
            let socket = sockets[copy % count].try_clone()?;
            sockets.push(socket);
        }
        self.taken.listeners.push(place);
        Ok(Some(BoundListener {
            address: offered.bound,
            sockets,
            owner: offered.owner,
        }))
    }

    /// The socket of the metrics address, if it was handed over.
    pub(crate) fn metrics(&mut self, address: &ListenAddress) -> Option<(OwnedFd, ListenAddress)> {
        let is_it = |offered: &mut OfferedAddress| offered.address == *address;
        let offered = self.metrics.take_if(is_it)?;
        self.taken.metrics = true;
        Some((offered.socket, offered.bound))
    }

    /// The admin socket, if it was handed over.
    pub(crate) fn admin(&mut self, address: &ListenAddress) -> Option<OwnedFd> {
        let is_it = |offered: &mut OfferedAddress| offered.address == *address;
        let offered = self.admin.take_if(is_it)?;
        self.taken.admin = true;
        Some(offered.socket)
    }

    /// The sockets that were taken.
    pub(crate) fn taken(self) -> TakenSockets {
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_decides_how_a_handover_ends() {
        for (words, expected) in [
            (vec![], HandoverEnd::Served),
            (vec![STOP], HandoverEnd::Stopped),
            (vec![GIVEN_UP], HandoverEnd::GivenUp),
            (vec![&b"unknown"[..], GIVEN_UP], HandoverEnd::GivenUp),
        ] {
            let (old, other) = PacketSocket::pair().unwrap();
            let new = Handover {
                socket: PacketSocket::of(other),
                tickets: Vec::new(),
                changes: Value::Null,
            };
            // A word that the old process does not read.
            new.serving();
            for word in words {
                old.send(word, &[]).unwrap();
            }
            drop(old);
            assert_eq!(new.ended(), expected);
        }
    }
}
