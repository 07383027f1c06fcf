//! The `lockgate` command.

mod accept_loop;
mod admin;
mod admin_client;
mod assemble;
mod background;
mod ca;
mod cert;
mod check;
mod cli;
mod configuration;
mod descriptors;
mod doctor;
mod echo_app;
mod endpoint_changes;
mod examine;
mod explain;
mod exporter;
mod exposition;
mod fetcher;
mod file_watcher;
mod fmt;
mod folders;
mod generation;
mod handover;
mod healthcheck;
mod import;
mod live_page;
mod load;
mod local_request;
mod log_writer;
mod memory;
mod metrics_server;
mod operator_log;
mod plan;
mod print;
mod printable;
mod privileges;
mod prober;
mod quick_start;
mod resolver;
mod self_signed;
mod served_body;
mod signals;
mod socket_file;
mod start;
mod start_steps;
mod state;
mod supervisor;
mod systemd;
mod text_table;
mod top;
mod views;
mod worker;
mod write_limit;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use cli::{Command, PrintFormat};
use configuration::Configuration;
use examine::examine;
use handover::StartKind;
use lockgate_net::listen::BindCheck;
use lockgate_net::memory::CountingAllocator;
use print::out;
use start_steps::Mode;

#[global_allocator]
static ALLOCATOR: CountingAllocator<mimalloc::MiMalloc> = CountingAllocator(mimalloc::MiMalloc);

fn main() -> ExitCode {
    // With huge pages a buffer is resident as a whole once one page of it is written: 16 KB more
    // for each kept connection of HTTP/2, and no request was faster. An error means that the kernel
    // has no huge pages.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let done = match Command::from_environment() {
        Command::Run { config, kind } => Ok(run(&config, kind)),
        Command::RunLastGood { config, kind } => run_last_good(&config, kind),
        Command::Check(check) => Ok(check::run(&check)),
        Command::Doctor(options) => doctor::run(&options),
        Command::Explain(options) => explain::run(&options),
        Command::Trace(options) => explain::trace(&options),
        Command::Plan(options) => plan::run(&options),
        Command::Fmt(options) => fmt::run(&options),
        Command::Import(options) => import::run(&options),
        Command::Demo(demo) => quick_start::demo(&demo),
        Command::Proxy {
            listen,
            upstream,
            tls,
        } => quick_start::proxy(&listen, &upstream, tls.as_ref()),
        Command::Serve(serve) => quick_start::serve(&serve),
        Command::Tunnel(tunnel) => quick_start::tunnel(&tunnel),
        Command::Load(load) => load::run(&load),
        Command::Compare(options) => Ok(lockgate_compare::run(&options, cli::check_load)),
        Command::Guard(guard) => guard.run().map_err(Into::into),
        Command::Version { output } => Ok(version(output)),
        Command::Admin(options) => admin_client::run(&options),
        Command::Cert(options) => cert::run(&options),
        Command::Connections(options) => admin_client::connections::run(&options),
        Command::Tail(options) => admin_client::tail::run(&options),
        Command::Top(options) => top::run(&options),
        Command::Healthcheck(options) => healthcheck::run(&options),
        Command::Ca(options) => ca::run(&options),
        Command::Completion(shell) => cli::print_completion(shell).map_err(Into::into),
        Command::Man(command) => cli::print_manual(command.as_deref()).map_err(Into::into),
    };
    done.unwrap_or_else(|error| {
        eprintln!("lockgate: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(config: &Path, kind: StartKind) -> ExitCode {
    let draft = match lockgate_config::read(config) {
        Ok(draft) if !draft.report().has_errors() => draft,
        // The other mistakes that would stop a start are reported with those in the file.
        _ => {
            // The process that hands its sockets over has the ports.
            let ports = match kind == StartKind::Takeover || handover::is_begun() {
                true => BindCheck::Address,
                false => BindCheck::Port,
            };
            print::report(&examine(config, Mode::Check(ports)).report);
            return ExitCode::FAILURE;
        }
    };
    let file = Configuration::new(config, &draft);
    match draft.finish() {
        Ok(loaded) => supervisor::run(loaded, Some(file), kind, |_| ()),
        Err(report) => {
            print::report(&report);
            ExitCode::FAILURE
        }
    }
}

/// Serves with what the folder of `state` keeps; a reload takes over the file at `config`.
fn run_last_good(config: &Path, kind: StartKind) -> anyhow::Result<ExitCode> {
    let draft = lockgate_config::read(config).ok();
    let state = draft
        .as_ref()
        .and_then(|draft| draft.understood().config.state.as_deref());
    let Some(state) = state else {
        bail!(
            "{}: no folder of `state` can be read from it, which would have the last good configuration",
            config.display()
        );
    };
    let Some(good) = state::last_good(state) else {
        bail!("{} has no last good configuration", state.display());
    };
    let text = std::fs::read_to_string(&good);
    let text = text.with_context(|| format!("{} cannot be read", good.display()))?;
    let draft = lockgate_config::read_text(&text, &good);
    let file = Configuration::new(config, &draft);
    Ok(match draft.finish() {
        Ok(loaded) => supervisor::run(loaded, Some(file), kind, |_| ()),
        Err(report) => {
            print::report(&report);
            ExitCode::FAILURE
        }
    })
}

fn version(output: PrintFormat) -> ExitCode {
    let version = env!("CARGO_PKG_VERSION");
    match output {
        PrintFormat::Text => out!("lockgate {version}"),
        PrintFormat::Json => out!(
            "{}",
            serde_json::json!({ "name": "lockgate", "version": version })
        ),
    }
    ExitCode::SUCCESS
}
