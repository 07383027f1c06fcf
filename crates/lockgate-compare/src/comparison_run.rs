//! Run of a comparison: origins once, then program after program under load after load, round after
//! round.
//!
//! Each measurement has a fresh process, alone but for the origins: memory layout, and traces of
//! earlier loads, differ from round to round for all alike. The order of the programs is balanced
//! over the rounds ([`order`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use crate::certificate;
use crate::order::order;
use crate::placeholders::{PlaceholderValues, names};
use crate::plan::{CertificateSource, ComparisonPlan, LoadCommand, Program};
use crate::running::{RunningProgram, Starter, find, first_line, fresh_directory};
use crate::sample::{CpuLayout, LoadSample, read};

/// Measurement of a program under a load in one round.
#[derive(Debug)]
pub struct Measurement {
    /// Name of the load, from the file.
    pub load: String,
    /// Name of the program, from the file.
    pub program: String,
    /// Number of the round, from 1 on.
    pub round: usize,
    /// Samples of its stages, or why there are none.
    pub outcome: Result<Vec<LoadSample>, String>,
}

/// Findings of a run so far.
#[derive(Debug, Default)]
pub struct Findings {
    /// Measurements, in the order of the run.
    pub measured: Vec<Measurement>,
    /// Versions that programs print, by program.
    pub versions: BTreeMap<String, String>,
    /// Left out programs, with the reasons.
    pub skipped: Vec<(String, String)>,
}

/// A prepared run: every placeholder has its value.
pub(crate) struct ComparisonRun<'p> {
    plan: &'p ComparisonPlan,
    starter: Starter,
    folder: tempfile::TempDir,
    here: PathBuf,
    values: PlaceholderValues,
    ports: BTreeMap<String, u16>,
    _claimed: PortClaims,
}

impl<'p> ComparisonRun<'p> {
    /// Sets every placeholder: makes directories and the certificate, chooses ports.
    pub(crate) fn prepare(plan: &'p ComparisonPlan, file: &Path) -> Result<Self, String> {
        let say = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
        let executable = std::env::current_exe().map_err(|error| say("this executable", &error))?;
        let folder = tempfile::Builder::new()
            .prefix("lockgate-compare-")
            .tempdir();
        let folder = folder.map_err(|error| say("a directory for this run", &error))?;
        // Accounts that programs change to may pass through it, but not list it.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o711))
            .map_err(|error| say("a directory for this run", &error))?;
        let here = file
            .canonicalize()
            .map_err(|error| say(&file.display().to_string(), &error))?;
        let here = here.parent().unwrap_or(Path::new("/")).to_owned();
        let mut values = PlaceholderValues::default();
        values.set("dir", folder.path().display().to_string());
        values.set("here", here.display().to_string());
        values.set("account", account());
        let all: BTreeSet<&str> = plan.texts().flat_map(names).collect();
        if let Some(absent) = all
            .iter()
            .filter_map(|name| name.strip_prefix("env:"))
            .find(|v| std::env::var(v).is_err())
        {
            return Err(format!(
                "the file uses {{env:{absent}}}, but this environment variable is not set"
            ));
        }
        let mut free = PortClaims::default();
        for name in all.iter().filter(|name| name.starts_with("port:")) {
            values.set(name, free.next()?.to_string());
        }
        let mut ports = BTreeMap::new();
        for program in &plan.programs {
            ports.insert(program.name.clone(), free.next()?);
        }
        if all.contains("lockgate") {
            let copy = folder.path().join("lockgate");
            std::fs::copy(&executable, &copy)
                .map_err(|error| say("a copy of this executable", &error))?;
            values.set("lockgate", copy.display().to_string());
        }
        if let Some(job) = &plan.job {
            upstreams(job.upstream.as_deref(), &mut values);
            if let Some(root) = &job.root {
                let root = values.fill(root);
                values.set("root", root);
            }
        }
        let made = plan
            .job
            .as_ref()
            .map_or(&CertificateSource::P256, |job| &job.certificate);
        certificate::provide(made, folder.path(), &mut values)
            .map_err(|error| say("the certificate", &error))?;
        Ok(Self {
            plan,
            starter: Starter { executable },
            folder,
            here,
            values,
            ports,
            _claimed: free,
        })
    }

    /// Makes all measurements. The findings so far stay when this is dropped; `tell` gets each
    /// step.
    ///
    /// # Errors
    /// An origin does not start, or has ended.
    pub(crate) async fn run(
        &self,
        findings: &mut Findings,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        let mut present = Vec::new();
        for program in &self.plan.programs {
            match self.missing_reason(program) {
                Some(why) => {
                    tell(&format!("{} is left out: {why}", program.name));
                    findings.skipped.push((program.name.clone(), why));
                }
                None => {
                    let version: Vec<_> = program
                        .version
                        .iter()
                        .map(|word| self.values.fill(word))
                        .collect();
                    findings
                        .versions
                        .insert(program.name.clone(), first_line(&version).await);
                    present.push(program);
                }
            }
        }
        let mut origins = Vec::new();
        for (name, service) in &self.plan.origins {
            let own = self.own(&format!("origin-{name}"))?;
            let mut values = self.values.clone();
            values.set("own", own.display().to_string());
            let started = self
                .starter
                .serve(service, &values, &own, &self.plan.others_on)
                .await;
            origins.push((
                name,
                started.map_err(|why| format!("origin {name}: {why}"))?,
            ));
        }
        for round in 1..=self.plan.rounds {
            // A program that did not start is not started again under the next loads; the next
            // round is another chance.
            let mut broken = BTreeMap::new();
            for (at, load) in self.plan.loads.iter().enumerate() {
                // Loads begin at other rounds of the order, two by two, as it is balanced.
                for nth in order(round - 1 + 2 * at, present.len()) {
                    let program = present[nth];
                    for (name, origin) in &mut origins {
                        if origin.has_ended() {
                            return Err(format!("origin {name} has ended{}", origin.last_words()));
                        }
                    }
                    let of = self.plan.rounds;
                    let step = format!("round {round} of {of}, {}, {}", load.name, program.name);
                    tell(&step);
                    let started = match broken.get(&program.name) {
                        Some(why) => Err(String::clone(why)),
                        None => self
                            .start(program)
                            .await
                            .map_err(|why| format!("did not start: {why}")),
                    };
                    let outcome = match started {
                        Ok(running) => self.measure(load, program, running).await,
                        Err(why) => {
                            broken.insert(program.name.clone(), why.clone());
                            Err(why)
                        }
                    };
                    if let Err(why) = &outcome {
                        tell(&format!("{step}: {why}"));
                    }
                    let (load, program) = (load.name.clone(), program.name.clone());
                    findings.measured.push(Measurement {
                        load,
                        program,
                        round,
                        outcome,
                    });
                }
            }
        }
        for (_, origin) in origins {
            origin.stop().await;
        }
        Ok(())
    }

    /// The reason why a program is left out, if there is one.
    fn missing_reason(&self, program: &Program) -> Option<String> {
        if let Err(why) = &program.service {
            return Some(why.clone());
        }
        let absent = program
            .executables()
            .map(|name| self.values.fill(name))
            .find(|name| find(name).is_none());
        absent.map(|name| format!("{name} is not installed"))
    }

    fn own(&self, name: &str) -> Result<PathBuf, String> {
        let own = self.folder.path().join(name);
        fresh_directory(&own).map_err(|error| format!("{}: {error}", own.display()))?;
        Ok(own)
    }

    fn values_of(&self, program: &Program) -> PlaceholderValues {
        let mut values = self.values.clone();
        if let Some(port) = self.ports.get(&program.name) {
            values.set("port", port.to_string());
        }
        values
    }

    async fn start(&self, program: &Program) -> Result<RunningProgram, String> {
        let service = program.service.as_ref().map_err(Clone::clone)?;
        let own = self.own(&format!("program-{}", program.name))?;
        let mut values = self.values_of(program);
        values.set("own", own.display().to_string());
        let cpus = if program.baseline {
            &self.plan.others_on
        } else {
            &self.plan.programs_on
        };
        self.starter.serve(service, &values, &own, cpus).await
    }

    /// Makes one measurement, and ends the program.
    async fn measure(
        &self,
        load: &LoadCommand,
        program: &Program,
        mut running: RunningProgram,
    ) -> Result<Vec<LoadSample>, String> {
        let outcome = self.load(load, program, running.pid).await;
        let ended = running
            .has_ended()
            .then(|| format!("it ended under the load{}", running.last_words()));
        running.stop().await;
        match ended {
            Some(why) => Err(why),
            None => outcome,
        }
    }

    async fn load(
        &self,
        load: &LoadCommand,
        program: &Program,
        pid: u32,
    ) -> Result<Vec<LoadSample>, String> {
        let own = self.own("load")?;
        let report = own.join("report.json");
        let values = self.values_of(program);
        let mut command = vec![
            self.starter.executable.display().to_string(),
            "load".to_owned(),
        ];
        command.extend(load.arguments.iter().map(|word| values.fill(word)));
        command.extend(["--cpus".to_owned(), self.plan.others_on.to_string()]);
        command.extend(["--json".to_owned(), report.display().to_string()]);
        // The process at the top is our guard.
        let watched = format!("{}={pid}", program.name);
        command.extend(["--watch-below".to_owned(), watched]);
        let log = own.join("output");
        let mut running = self
            .starter
            .start(&command, &[], &self.here, &log, &self.plan.others_on)
            .map_err(|error| format!("the load could not be started: {error}"))?;
        let status = running
            .wait()
            .await
            .map_err(|error| format!("the load: {error}"))?;
        // The load may have failed; its report is there all the same.
        let written = std::fs::read(&report).unwrap_or_default();
        let Ok(report) = serde_json::from_slice(&written) else {
            let last = running.last_words();
            return Err(format!("the load ended without a report, {status}{last}"));
        };
        // A baseline runs on the CPUs of the origins.
        let layout = if program.baseline {
            CpuLayout {
                program: &self.plan.others_on,
                others: None,
            }
        } else {
            CpuLayout {
                program: &self.plan.programs_on,
                others: Some(&self.plan.others_on),
            }
        };
        read(&report, &program.name, layout)
    }
}

/// Ports of this run, below the ephemeral ports, so that no connection has a port that a program is
/// about to listen on.
///
/// Most of the time there is no listener on them: an abstract Unix socket for each tells other runs
/// on this machine that it is taken.
#[derive(Debug, Default)]
struct PortClaims {
    tried: u16,
    claims: Vec<UnixListener>,
}

impl PortClaims {
    fn next(&mut self) -> Result<u16, String> {
        while self.tried < 12_000 {
            let port = 20_000 + self.tried;
            self.tried += 1;
            let name = SocketAddr::from_abstract_name(format!("lockgate-compare-port-{port}"));
            let Ok(claim) = name.and_then(|name| UnixListener::bind_addr(&name)) else {
                continue;
            };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                self.claims.push(claim);
                return Ok(port);
            }
        }
        Err("there is no free port between 20000 and 32000".to_owned())
    }
}

/// An account without rights where this process is root, else its own account.
fn account() -> String {
    if rustix::process::geteuid().is_root() {
        return "nobody".to_owned();
    }
    std::env::var("USER").unwrap_or_else(|_| "nobody".to_owned())
}

fn upstreams(written: Option<&str>, values: &mut PlaceholderValues) {
    let Some(written) = written else { return };
    let plain = values.fill(written);
    let (haproxy, hitch, caddy) = match plain.strip_prefix("unix:") {
        Some(path) => (
            format!("unix@{path}"),
            path.to_owned(),
            format!("unix/{path}"),
        ),
        None => {
            let (host, port) = plain.rsplit_once(':').unwrap_or((&plain, "80"));
            let host = host.trim_matches(['[', ']']);
            (plain.clone(), format!("[{host}]:{port}"), plain.clone())
        }
    };
    values.set("upstream:haproxy", haproxy);
    values.set("upstream:hitch", hitch);
    values.set("upstream:caddy", caddy);
    values.set("upstream", plain);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_written_as_each_program_wants_it() {
        let written = |upstream| {
            let mut values = PlaceholderValues::default();
            upstreams(Some(upstream), &mut values);
            values.fill("{upstream} {upstream:haproxy} {upstream:hitch} {upstream:caddy}")
        };
        assert_eq!(
            written("127.0.0.1:80"),
            "127.0.0.1:80 127.0.0.1:80 [127.0.0.1]:80 127.0.0.1:80"
        );
        assert_eq!(written("[::1]:80"), "[::1]:80 [::1]:80 [::1]:80 [::1]:80");
        assert_eq!(
            written("unix:/run/a"),
            "unix:/run/a unix@/run/a /run/a unix//run/a"
        );
    }

    #[test]
    fn two_runs_never_have_the_same_port() {
        let (mut one, mut other) = (PortClaims::default(), PortClaims::default());
        let ports = [
            one.next().unwrap(),
            other.next().unwrap(),
            one.next().unwrap(),
            other.next().unwrap(),
        ];
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), 4, "{ports:?}");
    }
}
