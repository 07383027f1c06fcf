//! `lockgate doctor`: whether this machine is fit for a configuration, and which limit is reached
//! first.
//!
//! The facts are read first, and each check is a function from facts to findings. Changes nothing and
//! writes no file. Mistakes of the configuration are those of `check`.

mod certificates;
mod disk;
mod finding;
mod keeping;
mod limits;
mod machine;
mod names;
mod needs;
mod ports;
mod running;
mod sockets;
mod system;
mod text;

use std::process::ExitCode;
use std::time::SystemTime;

use lockgate_config::{Code, LoadedConfig, Report};
use lockgate_net::listen::BindCheck;
use serde_json::json;

use crate::assemble::Assembly;
use crate::check::units::counted;
use crate::cli::PrintFormat;
use crate::cli::check::WarningPolicy;
use crate::cli::doctor::DoctorOptions;
use crate::examine::examine_draft;
use crate::print::{self, out};
use crate::start_steps::Mode;

use finding::{Finding, Group, Level};
use machine::MachineFacts;
use needs::Needs;
use running::Running;

/// Examines the machine, and prints the findings.
///
/// # Errors
/// Never: what cannot be found out is a finding.
pub(crate) fn run(options: &DoctorOptions) -> anyhow::Result<ExitCode> {
    let draft = match lockgate_config::read(&options.config) {
        Ok(draft) => draft,
        Err(report) => return Ok(refuse(&report, options.output)),
    };
    let loaded = draft.understood();
    // All of this before the examination, which becomes `user` for good: root sees the processes of
    // all users, and binds as the start does.
    let running = Running::ask(&options.socket, &options.config, &loaded.config);
    let ports = ports::facts(&loaded.config, &running);
    let machine = MachineFacts::read(running.process());
    let (report, assembly) = examine_draft(&draft, Mode::Check(BindCheck::Address));
    let Some(assembly) = assembly else {
        return Ok(refuse(&report, options.output));
    };
    let findings = Patient {
        loaded,
        assembly: &assembly,
        report: &report,
        running: &running,
        machine: &machine,
    }
    .findings(&ports);
    match options.output {
        PrintFormat::Json => out!("{:#}", json_of(options, &running, &findings)),
        PrintFormat::Text => out!("{}", text::of(&findings).trim_end()),
    }
    let limit = match options.warnings {
        WarningPolicy::Printed => Level::Problem,
        WarningPolicy::Fatal => Level::Warning,
    };
    Ok(match findings.iter().any(|found| found.level >= limit) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// Prints the mistakes of a configuration that cannot run.
fn refuse(report: &Report, output: PrintFormat) -> ExitCode {
    match output {
        PrintFormat::Json => out!("{:#}", json!({ "report": report.to_json() })),
        PrintFormat::Text => print::report(report),
    }
    ExitCode::FAILURE
}

fn json_of(options: &DoctorOptions, running: &Running, findings: &[Finding]) -> serde_json::Value {
    let count = |level| findings.iter().filter(|found| found.level == level).count();
    json!({
        "file": options.config.display().to_string(),
        "running": running.pid(),
        "problems": count(Level::Problem),
        "warnings": count(Level::Warning),
        "notes": count(Level::Note),
        "findings": findings,
    })
}

/// A valid configuration, and all that is known of the machine.
struct Patient<'a> {
    loaded: &'a LoadedConfig,
    assembly: &'a Assembly,
    report: &'a Report,
    running: &'a Running,
    machine: &'a MachineFacts,
}

impl Patient<'_> {
    /// The findings of all groups, in their order.
    fn findings(&self, ports: &[ports::PortFacts]) -> Vec<Finding> {
        let config = &*self.loaded.config;
        let now = SystemTime::now();
        let certs = certificates::facts(config, self.assembly, now);
        let ours = certificates::contents(self.assembly);
        let running = self.running.answer();
        let names = names::facts(config, &self.assembly.wanted_certs, ours, running);
        let folders = disk::facts(config);
        let needs = Needs::of(config, self.assembly, self.machine);
        let mut findings = self.configuration();
        findings.extend(ports::findings(ports, config.user.as_deref()));
        findings.extend(names::findings(&names));
        findings.extend(certificates::findings(&certs, self.report, now));
        findings.extend(system::findings(self.machine, &needs));
        findings.extend(disk::findings(&folders, self.unexamined_user()));
        findings.extend(limits::findings(
            &needs,
            self.running.answer(),
            self.machine,
        ));
        findings
    }

    /// The configuration file, and the Lockgate that runs it.
    fn configuration(&self) -> Vec<Finding> {
        let group = Group::Configuration;
        let is_told_below = |code| certificates::tells(code) || code == Code::NotExamined;
        let warnings = self.report.iter();
        let warnings = warnings
            .filter(|found| !is_told_below(found.code()))
            .count();
        let listeners = counted(self.assembly.listeners.len(), "listener");
        let file = match warnings {
            0 => group.ok("file", format!("valid, {listeners}, no warning")),
            _ => group.note(
                "file",
                format!("valid, {listeners}, {}", counted(warnings, "warning")),
                "`lockgate check` prints them",
            ),
        };
        let mut findings = vec![file];
        findings.extend(self.running.findings());
        findings
    }

    /// The user of the start, where its files were not tried as that user.
    fn unexamined_user(&self) -> Option<&str> {
        let mut report = self.report.iter();
        let is_unexamined = report.any(|found| found.code() == Code::NotExamined);
        let user = self.loaded.config.user.as_deref();
        user.filter(|_| is_unexamined)
    }
}
