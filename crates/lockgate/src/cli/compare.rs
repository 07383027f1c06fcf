//! The arguments of `compare` and of the guard that it starts programs through.

use std::ffi::OsString;

use clap::Args;
use lockgate_load::compare::cpus::Cpus;
use lockgate_load::compare::guard::Guard;

#[derive(Args)]
pub(super) struct GuardTyped {
    #[arg(long)]
    cpus: Option<Cpus>,
    #[arg(long, value_name = "PID")]
    parent: Option<u32>,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl GuardTyped {
    pub(super) fn resolve(self) -> Guard {
        Guard { cpus: self.cpus, parent: self.parent, command: self.command }
    }
}
