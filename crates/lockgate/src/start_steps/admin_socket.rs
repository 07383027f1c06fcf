//! The admin socket of a start: bound, or only tried.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use lockgate_config::Code;
use lockgate_net::listen::{self, ListenAddress, ListenOptions};

use super::StartSteps;
use super::addresses::binding_failed;
use crate::admin::{self, AdminListener, AllowedPeers, SocketFileRights};
use crate::folders::writable;
use crate::privileges::{ServiceUser, find_group};

/// Connections that wait to be accepted.
const BACKLOG: u32 = 128;

impl StartSteps<'_> {
    /// The admin socket: it belongs to the user that remains. `None` without one, also where
    /// another Lockgate has the default place, and where it is only tried.
    pub(super) fn admin(&mut self, account: Option<&ServiceUser>) -> Option<AdminListener> {
        let socket = self.loaded.config.admin.clone()?;
        let group = match socket.group.as_deref().map(find_group).transpose() {
            Ok(group) => group.map(nix::unistd::Gid::as_raw),
            Err(error) => {
                let cure = "name a group of /etc/group, or its number";
                self.error("admin", Code::UnknownGroup, &format!("{error:#}"), cure);
                return None;
            }
        };
        let (user, own_group) = account.map(ServiceUser::ids).unzip();
        let rights = SocketFileRights {
            user,
            group: group.or(own_group),
            mode: socket.permissions(),
        };
        let path = match &socket.at {
            Some(path) => path.clone(),
            // A default place that cannot be used stops no start.
            None if !self.is_real() => return None,
            None => default_folder(&rights)?.join(admin::FILE_NAME),
        };
        let address = ListenAddress::Unix(path.clone());
        if !self.is_real() {
            if let Err(error) = self.try_bind(&address) {
                self.no_admin(&address, &error);
            }
            return None;
        }
        let peers = AllowedPeers { group };
        if let Some(handed) = self.handed.admin(&address) {
            return Some(AdminListener {
                socket: handed.into(),
                address,
                peers,
                rights: Some(rights),
            });
        }
        match open(&path, &rights) {
            Ok(bound) => Some(AdminListener {
                socket: bound,
                address,
                peers,
                rights: None,
            }),
            Err(BindFailure::Owner(error)) if group.is_some() => {
                let message = format!("the admin socket cannot be given to its group: {error}");
                let cure = "the user that starts Lockgate must be root or a member of the group";
                self.error("admin", Code::UnknownGroup, &message, cure);
                None
            }
            Err(BindFailure::Bind(error)) if socket.at.is_some() || is_no_socket(&path) => {
                self.no_admin(&address, &error);
                None
            }
            Err(BindFailure::Bind(error)) if error.kind() == io::ErrorKind::AddrInUse => {
                tracing::warn!(
                    %address,
                    "another Lockgate has the default admin socket, so this one has none: give it its own by `admin`"
                );
                None
            }
            Err(BindFailure::Bind(error) | BindFailure::Owner(error)) => {
                tracing::warn!(%address, %error, "there is no admin socket");
                None
            }
        }
    }

    fn no_admin(&mut self, address: &ListenAddress, error: &io::Error) {
        let (code, cure) = match (address, error.kind()) {
            (ListenAddress::Unix(path), io::ErrorKind::AddrInUse) if is_no_socket(path) => (
                Code::AddressInUse,
                "the file there is no socket: remove it, or name another path in `admin`".to_owned(),
            ),
            (_, io::ErrorKind::AddrInUse) => (
                Code::AddressInUse,
                "another Lockgate or program listens there (`ss -lxp`): stop it, or name another path in `admin`"
                    .to_owned(),
            ),
            _ => binding_failed(address, error),
        };
        let message = format!("cannot listen on {address}: {error}");
        self.error("admin", code, &message, &cure);
    }
}

/// The reason why there is no socket.
enum BindFailure {
    Bind(io::Error),
    /// The file cannot be given to its user and group.
    Owner(io::Error),
}

/// The first default folder that can be used or made.
fn default_folder(rights: &SocketFileRights) -> Option<PathBuf> {
    let found = admin::folders_to_make()
        .into_iter()
        .find(|folder| usable(folder, rights));
    if found.is_none() {
        tracing::info!("there is no folder for an admin socket: `admin` can name one");
    }
    found
}

fn usable(folder: &Path, rights: &SocketFileRights) -> bool {
    if folder.is_dir() {
        return writable(folder).is_ok();
    }
    // The file's permissions are the guard; users look for the file there.
    let made = DirBuilder::new().mode(0o755).create(folder);
    made.and_then(|()| rights.give(folder)).is_ok()
}

/// A new socket.
fn open(path: &Path, rights: &SocketFileRights) -> Result<UnixListener, BindFailure> {
    let listener = bind(&ListenAddress::Unix(path.to_owned())).map_err(BindFailure::Bind)?;
    // Until then peers of other users could connect, and are refused by the server.
    if let Err(error) = rights.set(path) {
        let _ = std::fs::remove_file(path);
        return Err(BindFailure::Owner(error));
    }
    Ok(UnixListener::from(listener))
}

fn bind(address: &ListenAddress) -> io::Result<OwnedFd> {
    let options = ListenOptions {
        backlog: BACKLOG,
        fast_open: false,
        defer_accept: None,
    };
    let bound = listen::bind(address, &options, 1)?;
    let socket = bound.sockets.into_iter().next();
    socket.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// Whether another file is where the socket should be.
fn is_no_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| !found.file_type().is_socket())
}
