//! The addresses of a start: bound, taken over from systemd, or only tried.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use lockgate_config::{Code, Config, SourceSpan};
use lockgate_net::listen::{self, BindCheck, BoundListener, ListenAddress, SocketOwner};

use super::{Mode, StartSteps};
use crate::assemble::{self, Assembly, PlannedListener, ReadAccess};
use crate::folders::parent;
use crate::metrics_server::MetricsListener;
use crate::systemd::{Inherited, InheritedAddress};
use crate::{handover, systemd};

impl StartSteps<'_> {
    /// The bound listeners, in their order; none where they are only tried.
    pub(super) fn listeners(
        &mut self,
        assembly: Option<&Assembly>,
        workers: usize,
    ) -> Vec<BoundListener> {
        match (assembly, self.mode) {
            (Some(assembly), Mode::Start) if self.is_real() => {
                let bound = self.bind(assembly.listeners.iter(), workers);
                self.warn_spare(&assembly.listeners);
                bound
            }
            _ => {
                for (address, at) in addresses(&self.loaded.config) {
                    if let Err(error) = self.try_bind(&address) {
                        self.cannot_listen(&address, &at, &error);
                    }
                }
                Vec::new()
            }
        }
    }

    pub(super) fn try_bind(&self, address: &ListenAddress) -> io::Result<()> {
        let trial = match self.mode {
            // The process that hands them over has the ports.
            Mode::Start if handover::is_begun() => BindCheck::Address,
            Mode::Start => BindCheck::Port,
            Mode::Check(trial) => trial,
            // This process has the ports.
            Mode::Serving => BindCheck::Address,
        };
        match (address, self.access) {
            // The process that hands its sockets over may have made the file.
            (ListenAddress::Unix(_), _) if handover::is_begun() => Ok(()),
            // Perhaps only the user of the start may write to the folder.
            (ListenAddress::Unix(_), ReadAccess::Less) => Ok(()),
            _ => listen::try_bind(address, trial),
        }
    }

    pub(super) fn bind<'p>(
        &mut self,
        listeners: impl Iterator<Item = &'p PlannedListener>,
        workers: usize,
    ) -> Vec<BoundListener> {
        let inherited = match systemd::inherited_sockets() {
            Ok(inherited) => inherited,
            Err(error) => {
                self.failed = true;
                self.report.push(
                    Code::AddressUnavailable,
                    format!("sockets from systemd: {error}"),
                    "",
                    "",
                );
                return Vec::new();
            }
        };
        let mut bound = Vec::new();
        for planned in listeners {
            let (name, address) = (&planned.listener.name, &planned.address);
            let activated = inherited
                .iter()
                .find(|inherited| is_at(&inherited.address, address));
            let result = match self.handed.listener(name, address, workers).transpose() {
                Some(handed) => handed,
                None => match activated {
                    Some(inherited) => share(&inherited.socket, address, workers),
                    None => listen::bind(address, &planned.options, workers),
                },
            };
            match result {
                Ok(sockets) => bound.push(sockets),
                Err(error) => self.cannot_listen(&planned.address, &planned.at, &error),
            }
        }
        bound
    }

    fn warn_spare(&self, listeners: &[PlannedListener]) {
        let is_known = |one: &Inherited| {
            let mut planned = listeners.iter();
            planned.any(|planned| is_at(&one.address, &planned.address))
        };
        let inherited = systemd::inherited_sockets().unwrap_or_default();
        for spare in inherited.iter().filter(|one| !is_known(one)) {
            tracing::warn!(address = ?spare.address, "a socket from systemd belongs to no listener");
        }
    }

    pub(super) fn cannot_listen(
        &mut self,
        address: &ListenAddress,
        at: &SourceSpan,
        error: &io::Error,
    ) {
        self.failed = true;
        let (code, cure) = binding_failed(address, error);
        self.report.push_at(
            code,
            at,
            format!("cannot listen on {address}: {error}"),
            "",
            cure,
        );
    }

    pub(super) fn metrics(
        &mut self,
        address: &ListenAddress,
    ) -> Option<(MetricsListener, ListenAddress)> {
        if let Some((socket, address)) = self.handed.metrics(address) {
            return Some((MetricsListener::of(socket, &address), address));
        }
        let bound = if self.is_real() {
            let options = listen::ListenOptions {
                backlog: 128,
                fast_open: false,
                defer_accept: None,
            };
            listen::bind(address, &options, 1).map(Some)
        } else {
            self.try_bind(address).map(|()| None)
        };
        match bound {
            Ok(bound) => {
                let BoundListener {
                    address, sockets, ..
                } = bound?;
                let socket = sockets.into_iter().next()?;
                Some((MetricsListener::of(socket, &address), address))
            }
            Err(error) => {
                let (code, cure) = binding_failed(address, &error);
                self.error(
                    "metrics",
                    code,
                    &format!("cannot listen on {address}: {error}"),
                    &cure,
                );
                None
            }
        }
    }
}

/// Every address of the listeners, each once, with its place in the configuration.
fn addresses(config: &Config) -> Vec<(ListenAddress, SourceSpan)> {
    let relays = config.tcp.iter().map(|tcp| (&tcp.listen, &tcp.at));
    let tunnels = config
        .tunnels
        .iter()
        .map(|tunnel| (&tunnel.listen, &tunnel.at));
    let sites = config
        .sites
        .iter()
        .flat_map(|site| site.listen.iter().map(|listen| (&listen.addr, &site.at)));
    let mut addresses: Vec<(ListenAddress, SourceSpan)> = Vec::new();
    for (written, at) in relays.chain(tunnels).chain(sites) {
        let address = assemble::address(written);
        if !addresses.iter().any(|(known, _)| *known == address) {
            addresses.push((address, at.clone()));
        }
    }
    addresses
}

fn is_at(inherited: &InheritedAddress, planned: &ListenAddress) -> bool {
    match (inherited, planned) {
        (InheritedAddress::Tcp(at), ListenAddress::Ip(address)) => at == address,
        (InheritedAddress::Tcp(at), ListenAddress::All(port)) => {
            at.port() == *port && at.ip().is_unspecified()
        }
        (InheritedAddress::Unix(at), ListenAddress::Unix(path)) => at == path,
        _ => false,
    }
}

/// The sockets of the workers for one inherited socket, which they share.
fn share(socket: &OwnedFd, address: &ListenAddress, workers: usize) -> io::Result<BoundListener> {
    let sockets = (0..workers)
        .map(|_| socket.try_clone())
        .collect::<Result<_, _>>()?;
    rustix::io::ioctl_fionbio(socket.as_fd(), true)?;
    if !matches!(address, ListenAddress::Unix(_)) {
        rustix::net::sockopt::set_tcp_nodelay(socket, true)?;
    }
    Ok(BoundListener {
        address: address.clone(),
        sockets,
        owner: SocketOwner::Another,
    })
}

/// The code and the cure of an address that cannot be bound.
pub(super) fn binding_failed(address: &ListenAddress, error: &io::Error) -> (Code, String) {
    use io::ErrorKind::{AddrInUse, AddrNotAvailable, NotFound, PermissionDenied};
    match (address, error.kind()) {
        (ListenAddress::Unix(path), NotFound) => (
            Code::AddressUnavailable,
            format!("make the folder: mkdir -p {}", parent(path).display()),
        ),
        (ListenAddress::Unix(path), PermissionDenied) => {
            let folder = parent(path).display();
            (
                Code::AddressForbidden,
                format!("the user that starts Lockgate must be able to write to {folder}"),
            )
        }
        (ListenAddress::Unix(_), AddrInUse) => (
            Code::AddressInUse,
            "another process listens there, or the file is no socket: `ss -lxp`".to_owned(),
        ),
        (_, AddrInUse) => (
            Code::AddressInUse,
            "`ss -ltnp` says which process listens there".to_owned(),
        ),
        (_, PermissionDenied) => {
            let cure =
                "ports below 1024 need root or CAP_NET_BIND_SERVICE; `user` drops root afterwards";
            (Code::AddressForbidden, cure.to_owned())
        }
        (_, AddrNotAvailable) => (
            Code::AddressUnavailable,
            "this machine has no such address: `ip addr` lists those it has".to_owned(),
        ),
        _ => (Code::AddressUnavailable, String::new()),
    }
}
