//! What a start opens, in its order: certificates are read and addresses bound first, then
//! privileges are dropped while there is one thread, then the state and the logs are opened as the
//! user that remains.
//!
//! `check` goes the same way step by step, and so does a start once a step has failed: every
//! mistake is told at once. They only find out whether a step would succeed, and leave nothing
//! behind.

mod addresses;
mod logs;

use std::io;
use std::path::Path;
use std::thread;

use lockgate_config::{Code, Config, LoadedConfig, Report, RouteAction, Workers};
use lockgate_net::listen::{BindCheck, BoundListener, ListenAddress};
use rustix::fs::{Access, access};

use crate::assemble::{self, Assembly, Sight};
use crate::privileges::Account;
use crate::{descriptors, metrics_server, privileges, state};

pub(crate) use logs::Logs;

/// How far the steps of a start go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Everything is opened, and stays open.
    Start,
    /// Nothing is opened; the process becomes the user, to see what that user may.
    Check(BindCheck),
    /// Nothing is opened, and the process stays what it is: it serves.
    Serving,
}

/// Bound, read and allowed: what is left is to run.
pub(crate) struct Prepared {
    pub(crate) config: Config,
    pub(crate) assembly: Assembly,
    pub(crate) bound: Vec<BoundListener>,
    pub(crate) metrics: Option<(metrics_server::Listener, ListenAddress)>,
    pub(crate) logs: Logs,
    pub(crate) workers: usize,
}

/// Does everything that can fail; what is wrong is added to `report`, and then nothing runs.
pub(crate) fn prepare(loaded: &LoadedConfig, report: &mut Report) -> Option<Prepared> {
    match descriptors::raise() {
        Ok(raised) => tracing::debug!(
            from = raised.from,
            to = raised.to,
            "limit on open descriptors"
        ),
        Err(error) => tracing::warn!(%error, "the limit on open descriptors stays as it is"),
    }
    let workers = match loaded.config.workers {
        Workers::Count(count) => count.get(),
        // Follows the CPU quota of a container and the affinity of the process.
        Workers::Auto => thread::available_parallelism().map_or(1, usize::from),
    };
    let mut opening = Opening {
        loaded,
        report,
        mode: Mode::Start,
        sight: Sight::AsStart,
        failed: false,
    };
    let Opened {
        assembly,
        bound,
        metrics,
        logs,
    } = opening.run(workers);
    let failed = opening.failed;
    let mut assembly = assembly.filter(|_| !failed)?;
    assembly.redirect_to(&bound);
    Some(Prepared {
        config: loaded.config.clone(),
        assembly,
        bound,
        metrics,
        logs: logs?,
        workers,
    })
}

/// Finds out what a start would fail with, and leaves nothing behind; what it finds is added to
/// `report`. In [`Mode::Check`] the process becomes the user for good.
pub(crate) fn rehearse(loaded: &LoadedConfig, mode: Mode, report: &mut Report) -> Option<Assembly> {
    Opening {
        loaded,
        report,
        mode,
        sight: Sight::AsStart,
        failed: false,
    }
    .run(1)
    .assembly
}

/// What the steps have opened; nothing of it where it was not to be opened.
struct Opened {
    assembly: Option<Assembly>,
    bound: Vec<BoundListener>,
    metrics: Option<(metrics_server::Listener, ListenAddress)>,
    logs: Option<Logs>,
}

struct Opening<'a> {
    loaded: &'a LoadedConfig,
    report: &'a mut Report,
    mode: Mode,
    sight: Sight,
    failed: bool,
}

impl Opening<'_> {
    fn run(&mut self, workers: usize) -> Opened {
        let config = &self.loaded.config;
        let account = self.account();
        self.sight = self.sight_of(account.as_ref());
        let assembly = assemble::assemble(config, self.sight, self.report);
        self.failed |= assembly.is_none();
        let bound = self.listeners(assembly.as_ref(), workers);
        let metrics = config
            .metrics
            .as_ref()
            .and_then(|metrics| self.metrics(&assemble::address(&metrics.at)));
        self.make_state(account.as_ref());
        if self.sight == Sight::Less {
            self.doubt_sight();
        } else if !self.become_user() {
            self.sight = Sight::Less;
        } else if config.user.is_some() {
            self.doubt_reading(assembly.as_ref());
        }
        let logs = self.logs();
        self.keep_state();
        Opened {
            assembly,
            bound,
            metrics,
            logs,
        }
    }

    /// Whether a step is taken, rather than tried.
    fn is_real(&self) -> bool {
        self.mode == Mode::Start && !self.failed
    }

    /// The user to become; none where it is unknown, too.
    fn account(&mut self) -> Option<Account> {
        match self
            .loaded
            .config
            .user
            .as_deref()
            .map(Account::look_up)
            .transpose()
        {
            Ok(account) => account,
            Err(error) => {
                self.error("user", Code::UnknownUser, &format!("{error:#}"), "");
                None
            }
        }
    }

    /// Whether this process may read what the start may: one that is not root cannot look with the
    /// eyes of root, nor with those of another user.
    fn sight_of(&self, account: Option<&Account>) -> Sight {
        let root = nix::unistd::geteuid().is_root();
        match (self.mode, account) {
            (Mode::Start, _) | (_, None) => Sight::AsStart,
            (Mode::Check(_), Some(account)) if root || account.is_current() => Sight::AsStart,
            (Mode::Serving, Some(_)) if root => Sight::AsStart,
            _ => Sight::Less,
        }
    }

    /// The folder of `state`, made while there are privileges for it.
    fn make_state(&mut self, account: Option<&Account>) {
        let Some(dir) = &self.loaded.config.state else {
            return;
        };
        let made = match (self.is_real(), self.sight) {
            (true, _) => state::prepare(dir, account.map(Account::ids)),
            (false, Sight::AsStart) => state::try_prepare(dir),
            (false, Sight::Less) => Ok(()),
        };
        if let Err(error) = made {
            let cure = "name a folder that can be made, or leave `state` out";
            self.error(
                "state",
                Code::StateUnwritable,
                &format!("{}: {error}", dir.display()),
                cure,
            );
        }
    }

    /// Gives up privileges for good; nothing that needs them comes after this. Whether this process
    /// now is what the start would be.
    fn become_user(&mut self) -> bool {
        let Some(user) = self
            .loaded
            .config
            .user
            .as_deref()
            .filter(|_| self.mode != Mode::Serving)
        else {
            return true;
        };
        if Account::look_up(user).is_err() {
            return false;
        }
        match privileges::drop_to(user) {
            Ok(()) => true,
            Err(error) => {
                self.error("user", Code::UnknownUser, &format!("{error:#}"), "");
                false
            }
        }
    }

    fn doubt_sight(&mut self) {
        let user = self.loaded.config.user.as_deref().unwrap_or_default();
        let message = format!("what {user:?} may read and write was not looked at");
        let cure = "run `check` as root, as the start is";
        self.complain("user", Code::NotExamined, &message, cure);
    }

    /// What only root could read was read just now; a renewed one could not be. And folders that
    /// are served.
    fn doubt_reading(&mut self, assembly: Option<&Assembly>) {
        let mut files = assembly.map(Assembly::files).unwrap_or_default();
        files.sort();
        files.dedup();
        for path in files {
            if let Err(error) = std::fs::File::open(&path) {
                let message = format!("a renewed {} will not be taken up: {error}", path.display());
                let cure = "let the group of `user` read it (chgrp, chmod 640), or restart after every renewal";
                self.complain("user", Code::UnreadableLater, &message, cure);
            }
        }
        let routes = self
            .loaded
            .config
            .sites
            .iter()
            .flat_map(|site| &site.routes);
        let served = routes.filter_map(|route| match &route.action {
            RouteAction::Files(files) => Some(files),
            _ => None,
        });
        let mut told: Vec<&Path> = Vec::new();
        for files in served {
            // One that is not there has been told.
            let readable = access(&files.root, Access::READ_OK | Access::EXEC_OK);
            if readable.is_err_and(|error| error == rustix::io::Errno::ACCESS)
                && !told.contains(&&*files.root)
            {
                told.push(&files.root);
                let message = "`user` cannot read this folder";
                let cure = "let the group of `user` read it: chgrp -R, chmod -R g+rX";
                self.report.push_at(
                    Code::RootMissing,
                    &files.at,
                    message,
                    "its files are answered with 403",
                    cure,
                );
            }
        }
    }

    fn keep_state(&mut self) {
        let Some(dir) = &self.loaded.config.state else {
            return;
        };
        let kept = match (self.is_real(), self.sight) {
            (true, _) => state::keep_last_good(dir, &self.loaded.merged_toml()),
            (false, Sight::AsStart) if dir.is_dir() => writable(dir),
            // The start makes it, or may do what this process may not.
            (false, _) => Ok(()),
        };
        if let Err(error) = kept {
            self.complain(
                "state",
                Code::StateUnwritten,
                &format!("{}: {error}", dir.display()),
                "",
            );
        }
    }

    fn error(&mut self, key: &str, code: Code, message: &str, cure: &str) {
        self.failed = true;
        self.complain(key, code, message, cure);
    }

    /// Reports what is wrong with a key at the top of the file, at its place if it was written.
    fn complain(&mut self, key: &str, code: Code, message: &str, cure: &str) {
        match self.loaded.at(key) {
            Some(at) => self.report.push_at(code, at, message, "", cure),
            None => self.report.push(code, message, "", cure),
        }
    }
}

/// Whether this process may make files in `folder`.
pub(crate) fn writable(folder: &Path) -> io::Result<()> {
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// The folder that a file is in.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}
