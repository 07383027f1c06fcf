//! The steps of a start, in their order: certificates are read and addresses bound first, then root
//! is given up while there is one thread, then the state and the logs are opened as the user that
//! remains.
//!
//! `check` takes the same steps, and so does a start once a step has failed, so that every mistake
//! is reported at once. They only try whether a step would succeed, and leave nothing behind.

mod addresses;
mod admin_socket;
mod logs;
mod next;

use std::path::Path;
use std::sync::Arc;
use std::thread;

use lockgate_config::{Code, Config, LoadedConfig, Report, RouteAction, Workers};
use lockgate_net::listen::{BindCheck, BoundListener, ListenAddress};
use rustix::fs::{Access, access};

use crate::admin::AdminListener;
use crate::assemble::{self, Assembly, Previous, ReadAccess};
use crate::endpoint_changes::EndpointChanges;
use crate::folders::writable;
use crate::handover::{HandedSockets, TakenSockets};
use crate::log_writer::LogWriter;
use crate::privileges::ServiceUser;
use crate::{metrics_server, privileges, state};

pub(crate) use logs::Logs;
pub(crate) use next::{NextSteps, OpenedNext};

/// How far the steps of a start go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Everything is opened, and stays open.
    Start,
    /// Nothing is opened; the process becomes the user, to try the files as that user.
    Check(BindCheck),
    /// Nothing is opened, and the process keeps its user: it serves.
    Serving,
}

/// Everything that a start has opened, ready to run.
pub(crate) struct Prepared {
    pub(crate) config: Arc<Config>,
    pub(crate) assembly: Assembly,
    pub(crate) bound: Vec<BoundListener>,
    pub(crate) metrics: Option<(metrics_server::MetricsListener, ListenAddress)>,
    pub(crate) admin: Option<AdminListener>,
    pub(crate) logs: Logs,
    pub(crate) workers: usize,
    /// The sockets that were taken over from an earlier process.
    pub(crate) taken: TakenSockets,
    /// The configuration as it was loaded.
    pub(crate) loaded: Arc<LoadedConfig>,
}

/// Takes every step that can fail; mistakes are added to `report`, and then nothing runs.
/// Sockets that were `handed` over are taken instead of bound ones; `changes` are put on top of the
/// configuration.
pub(crate) fn prepare(
    loaded: LoadedConfig,
    handed: HandedSockets,
    changes: EndpointChanges,
    report: &mut Report,
) -> Option<Prepared> {
    let workers = worker_count(loaded.config.workers);
    let mut steps = StartSteps {
        loaded: &loaded,
        report,
        mode: Mode::Start,
        access: ReadAccess::AsStart,
        failed: false,
        handed,
        changes,
        open_logs: Vec::new(),
    };
    let OpenedResources {
        assembly,
        bound,
        metrics,
        admin,
        logs,
    } = steps.run(workers);
    let failed = steps.failed;
    // What was not taken is closed.
    let taken = steps.handed.taken();
    let mut assembly = assembly.filter(|_| !failed)?;
    let addresses: Vec<_> = bound.iter().map(|bound| &bound.address).collect();
    assembly.redirect_to(&addresses);
    Some(Prepared {
        config: Arc::clone(&loaded.config),
        loaded: Arc::new(loaded),
        assembly,
        bound,
        metrics,
        admin,
        logs: logs?,
        workers,
        taken,
    })
}

/// The number of worker threads.
pub(crate) fn worker_count(written: Workers) -> usize {
    match written {
        Workers::Count(count) => count.get(),
        // Follows the CPU quota of a container and the affinity of the process.
        Workers::Auto => thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Tries the steps of a start, and leaves nothing behind; mistakes are added to `report`. In
/// [`Mode::Check`] the process becomes the user for good.
pub(crate) fn rehearse(loaded: &LoadedConfig, mode: Mode, report: &mut Report) -> Option<Assembly> {
    StartSteps {
        loaded,
        report,
        mode,
        access: ReadAccess::AsStart,
        failed: false,
        handed: HandedSockets::default(),
        changes: EndpointChanges::default(),
        open_logs: Vec::new(),
    }
    .run(1)
    .assembly
}

/// The results of the steps; empty where a step is only tried.
struct OpenedResources {
    assembly: Option<Assembly>,
    bound: Vec<BoundListener>,
    metrics: Option<(metrics_server::MetricsListener, ListenAddress)>,
    admin: Option<AdminListener>,
    logs: Option<Logs>,
}

struct StartSteps<'a> {
    loaded: &'a LoadedConfig,
    report: &'a mut Report,
    mode: Mode,
    access: ReadAccess,
    failed: bool,
    handed: HandedSockets,
    /// The endpoints that operators have added and removed.
    changes: EndpointChanges,
    /// Logs that are open already.
    open_logs: Vec<Arc<LogWriter>>,
}

impl StartSteps<'_> {
    fn run(&mut self, workers: usize) -> OpenedResources {
        let config = &self.loaded.config;
        let account = self.account();
        self.access = self.access_of(account.as_ref());
        let previous = Previous {
            changes: std::mem::take(&mut self.changes),
            ..Previous::default()
        };
        let assembly = assemble::assemble(config, self.access, previous, self.report);
        self.failed |= assembly.is_none();
        let bound = self.listeners(assembly.as_ref(), workers);
        let metrics = config
            .metrics
            .as_ref()
            .and_then(|metrics| self.metrics(&assemble::address(&metrics.at)));
        let admin = self.admin(account.as_ref());
        self.make_state(account.as_ref());
        if self.access == ReadAccess::Less {
            self.warn_unexamined();
        } else if !self.become_user() {
            self.access = ReadAccess::Less;
        } else if config.user.is_some() {
            self.warn_unreadable(assembly.as_ref());
        }
        if self.is_real() {
            privileges::warn_of_kept();
        }
        let logs = self.logs();
        self.keep_state();
        OpenedResources {
            assembly,
            bound,
            metrics,
            admin,
            logs,
        }
    }

    /// Whether steps are taken, not only tried.
    fn is_real(&self) -> bool {
        self.mode == Mode::Start && !self.failed
    }

    /// The user to become; `None` also where it is unknown.
    fn account(&mut self) -> Option<ServiceUser> {
        match self
            .loaded
            .config
            .user
            .as_deref()
            .map(ServiceUser::look_up)
            .transpose()
        {
            Ok(account) => account,
            Err(error) => {
                self.error("user", Code::UnknownUser, &format!("{error:#}"), "");
                None
            }
        }
    }

    /// Whether this process may read the files that the start may read: a process that is not root
    /// cannot read as root, nor as another user.
    fn access_of(&self, account: Option<&ServiceUser>) -> ReadAccess {
        let root = nix::unistd::geteuid().is_root();
        match (self.mode, account) {
            (Mode::Start, _) | (_, None) => ReadAccess::AsStart,
            (Mode::Check(_), Some(account)) if root || account.is_current() => ReadAccess::AsStart,
            (Mode::Serving, Some(_)) if root => ReadAccess::AsStart,
            _ => ReadAccess::Less,
        }
    }

    /// Makes the folder of `state` while the process is root.
    fn make_state(&mut self, account: Option<&ServiceUser>) {
        let Some(dir) = &self.loaded.config.state else {
            return;
        };
        let made = match (self.is_real(), self.access) {
            (true, _) => state::prepare(dir, account.map(ServiceUser::ids)),
            (false, ReadAccess::AsStart) => state::try_prepare(dir),
            (false, ReadAccess::Less) => Ok(()),
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

    /// Gives up root for good; no later step needs it. Returns whether the process now has the user
    /// of the start.
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
        if ServiceUser::look_up(user).is_err() {
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

    fn warn_unexamined(&mut self) {
        let user = self.loaded.config.user.as_deref().unwrap_or_default();
        let message = format!("the files that {user:?} may read and write were not checked");
        let cure = "run `check` as root, as the service starts";
        self.report_key("user", Code::NotExamined, &message, cure);
    }

    /// Warns of files that only root can read, because a renewed file could not be read, and of
    /// served folders that the user cannot read.
    fn warn_unreadable(&mut self, assembly: Option<&Assembly>) {
        let mut files = assembly.map(Assembly::files).unwrap_or_default();
        files.sort();
        files.dedup();
        for path in files {
            if let Err(error) = std::fs::File::open(&path) {
                let message = format!("a renewed {} could not be read: {error}", path.display());
                let cure = "let the group of `user` read it (chgrp, chmod 640), or restart after every renewal";
                self.report_key("user", Code::UnreadableLater, &message, cure);
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
        let mut reported: Vec<&Path> = Vec::new();
        for files in served {
            // A missing folder was reported before.
            let readable = access(&files.root, Access::READ_OK | Access::EXEC_OK);
            if readable.is_err_and(|error| error == rustix::io::Errno::ACCESS)
                && !reported.contains(&&*files.root)
            {
                reported.push(&files.root);
                let message = "`user` cannot read this folder";
                let cure = "let the group of `user` read it: chgrp -R, chmod -R g+rX";
                self.report.push_at(
                    Code::RootMissing,
                    &files.at,
                    message,
                    "requests for its files get 403",
                    cure,
                );
            }
        }
    }

    fn keep_state(&mut self) {
        let Some(dir) = &self.loaded.config.state else {
            return;
        };
        let kept = match (self.is_real(), self.access) {
            (true, _) => state::keep_last_good(dir, &self.loaded.merged_toml()),
            (false, ReadAccess::AsStart) if dir.is_dir() => writable(dir),
            // The start makes the folder, or has rights that this process does not have.
            (false, _) => Ok(()),
        };
        if let Err(error) = kept {
            self.report_key(
                "state",
                Code::StateUnwritten,
                &format!("{}: {error}", dir.display()),
                "",
            );
        }
    }

    fn error(&mut self, key: &str, code: Code, message: &str, cure: &str) {
        self.failed = true;
        self.report_key(key, code, message, cure);
    }

    /// Reports a mistake with a key at the top of the file, at its place if the file has it.
    fn report_key(&mut self, key: &str, code: Code, message: &str, cure: &str) {
        match self.loaded.at(key) {
            Some(at) => self.report.push_at(code, at, message, "", cure),
            None => self.report.push(code, message, "", cure),
        }
    }
}
