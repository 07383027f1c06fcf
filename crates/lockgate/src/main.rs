//! The `lockgate` command.

mod assemble;
mod background;
mod check;
mod cli;
mod configuration;
mod descriptors;
mod echo_app;
mod examine;
mod exposition;
mod fetcher;
mod load;
mod log_writer;
mod memory;
mod metrics_server;
mod one_liners;
mod opening;
mod operator_log;
mod print;
mod privileges;
mod prober;
mod resolver;
mod self_signed;
mod signals;
mod start;
mod state;
mod supervisor;
mod systemd;
mod watch;
mod worker;

use std::path::Path;
use std::process::ExitCode;

use cli::{Command, Output};
use configuration::Configuration;
use examine::examine;
use lockgate_net::listen::BindCheck;
use lockgate_net::memory::CountingAllocator;
use opening::Mode;
use print::out;

#[global_allocator]
static ALLOCATOR: CountingAllocator<mimalloc::MiMalloc> = CountingAllocator(mimalloc::MiMalloc);

fn main() -> ExitCode {
    // The allocator asks for huge pages, and then all of a buffer is resident of which one page was
    // written: that was 16 KB a kept connection of HTTP/2, and no request was cheaper for it.
    // Where the kernel has none, nothing is lost.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let done = match Command::from_environment() {
        Command::Run { config } => Ok(run(&config)),
        Command::Check(check) => Ok(check::run(&check)),
        Command::Demo(demo) => one_liners::demo(&demo),
        Command::Proxy {
            listen,
            upstream,
            tls,
        } => one_liners::proxy(&listen, &upstream, &tls),
        Command::Serve(serve) => one_liners::serve(&serve),
        Command::Tunnel(tunnel) => one_liners::tunnel(&tunnel),
        Command::Load(load) => load::run(&load),
        Command::Compare(options) => Ok(lockgate_compare::run(&options, cli::check_load)),
        Command::Guard(guard) => guard.run().map_err(Into::into),
        Command::Version { output } => Ok(version(output)),
    };
    done.unwrap_or_else(|error| {
        eprintln!("lockgate: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(config: &Path) -> ExitCode {
    let draft = match lockgate_config::read(config) {
        Ok(draft) if !draft.report().has_errors() => draft,
        // What else would stop the start is told with the mistakes in the file.
        _ => {
            print::report(&examine(config, Mode::Check(BindCheck::Port)).report);
            return ExitCode::FAILURE;
        }
    };
    let file = Configuration::new(config, &draft);
    match draft.finish() {
        Ok(loaded) => supervisor::run(&loaded, Some(file), |_| ()),
        Err(report) => {
            print::report(&report);
            ExitCode::FAILURE
        }
    }
}

fn version(output: Output) -> ExitCode {
    let version = env!("CARGO_PKG_VERSION");
    match output {
        Output::Text => out!("lockgate {version}"),
        Output::Json => out!(
            "{}",
            serde_json::json!({ "name": "lockgate", "version": version })
        ),
    }
    ExitCode::SUCCESS
}
