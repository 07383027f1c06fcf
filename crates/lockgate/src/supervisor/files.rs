//! The files that are read again while Lockgate runs: certificates, authorities, ticket keys,
//! users. A file that cannot be read leaves the old content in use.

use std::path::PathBuf;
use std::time::Instant;

use lockgate_net::tls::{Acceptor, KeyRotation, KeysReloaded, TicketRing, TlsSetupError};
use lockgate_proxy::admit::basic_auth::PasswordFile;
use tokio::sync::mpsc::UnboundedSender;

use super::RunningServer;
use crate::file_watcher::FileWatcher;

impl RunningServer {
    /// Makes new keys for session tickets where they are due.
    pub(super) fn rotate(&self) {
        for ring in &self.generation.assembly.rings {
            match ring.rotate_if_due(Instant::now()) {
                Ok(KeyRotation::NotDue) => {}
                Ok(KeyRotation::Rotated) => tracing::info!("session tickets have a new key"),
                Err(error) => {
                    tracing::error!(%error, "session tickets have no new key: the old one stays in use")
                }
            }
        }
    }

    /// Reads certificates, authorities, ticket keys and users again; those that cannot be read stay
    /// as they were.
    pub(super) fn reread(&self, changed: &[PathBuf]) {
        if !changed.is_empty() {
            tracing::debug!(files = ?changed, "files have changed");
        }
        for planned in &self.generation.assembly.listeners {
            for acceptor in planned.listener.acceptors() {
                reload_certificates(&planned.listener.name, acceptor);
            }
        }
        self.reread_shared(changed);
    }

    /// Watches the files that are read again, and those of the configuration.
    pub(super) fn watch_files(&self) {
        let mut files = self.generation.assembly.files();
        if let Some(file) = &self.generation.file {
            files.extend(file.watched().iter().cloned());
        }
        self.watched.set(files);
    }

    /// Those of the files, or folders, that make up the configuration.
    pub(super) fn of_configuration(&self, mut changed: Vec<PathBuf>) -> Vec<PathBuf> {
        let watched = self.generation.file.as_ref().map(|file| file.watched());
        changed.retain(|path| watched.as_ref().is_some_and(|files| files.contains(path)));
        changed
    }

    /// The same of all but certificates: what generations share.
    pub(super) fn reread_shared(&self, changed: &[PathBuf]) {
        let assembly = &self.generation.assembly;
        for (pool, connector) in &assembly.connectors {
            match connector.reload() {
                Ok(true) => tracing::info!(pool, "authorities of the endpoints replaced"),
                Err(error) => tracing::error!(pool, %error, "the old authorities stay in use"),
                Ok(false) => {}
            }
        }
        for connector in assembly.sink_connectors.values() {
            match connector.reload() {
                Ok(true) => tracing::info!("authorities of sinks of `export` replaced"),
                Err(error) => {
                    tracing::error!(%error, "the old authorities of sinks of `export` stay in use");
                }
                Ok(false) => {}
            }
        }
        assembly.rings.iter().for_each(|ring| reload_ring(ring));
        for checker in &assembly.checkers {
            let is_named = changed.iter().any(|path| path == checker.path());
            if is_named || changed.is_empty() {
                reload_users(checker, is_named);
            }
        }
    }
}

/// Tells of changed files, watched in a task of its own: it waits until writes to them pause, which
/// nothing else may interrupt.
pub(super) fn tell_changes(mut watch: FileWatcher, changed: UnboundedSender<Vec<PathBuf>>) {
    tokio::spawn(async move { while changed.send(watch.changed().await).is_ok() {} });
}

fn reload_certificates(listener: &str, acceptor: &Acceptor) {
    let report = acceptor.reload();
    for path in &report.changed {
        tracing::info!(listener, path = %path.display(), "certificate replaced");
    }
    for error in &report.failed {
        match error {
            TlsSetupError::ClientCa { .. } => {
                tracing::error!(listener, %error, "the old authorities of clients stay in use");
            }
            error => tracing::error!(listener, %error, "the old certificate stays in use"),
        }
    }
    for warning in &report.warnings {
        tracing::warn!(listener, "{warning}");
    }
}

fn reload_users(checker: &PasswordFile, changed: bool) {
    match checker.reload() {
        Ok(()) if changed => tracing::info!(path = %checker.path().display(), "users replaced"),
        Ok(()) => {}
        Err(error) => tracing::error!(%error, "the old users stay in use"),
    }
}

fn reload_ring(ring: &TicketRing) {
    match ring.reload() {
        Ok(KeysReloaded::Read(warnings)) => {
            warnings
                .iter()
                .for_each(|warning| tracing::warn!("{warning}"));
        }
        Ok(_) => {}
        Err(error) => tracing::error!(%error, "the old ticket keys stay in use"),
    }
}
