//! `lockgate demo`: a site over HTTPS and HTTP/2 with a folder of files and an application of two
//! endpoints, a relay, and metrics, with everything that they need built in.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use lockgate_net::threads;

use super::{TempFolder, quote, run};
use crate::cli::DemoOptions;
use crate::echo_app::{self, ConnectionPrefix};
use crate::print::out;
use crate::supervisor::RunningServer;

/// The page of the site.
const PAGE: &str = include_str!("demo.html");

/// Runs the demo.
///
/// # Errors
/// When the temporary files or the sockets of the applications cannot be made.
pub(crate) fn demo(demo: &DemoOptions) -> anyhow::Result<ExitCode> {
    let folder = TempFolder::new().context("temporary directory")?;
    let (cert, key) = folder.certificate()?;
    let root = folder.0.join("www");
    std::fs::create_dir(&root)
        .and_then(|()| std::fs::write(root.join("index.html"), PAGE))
        .context("page")?;
    let first = application(
        &folder,
        "app-1.sock",
        "application 1 of 2",
        ConnectionPrefix::None,
    )?;
    let second = application(
        &folder,
        "app-2.sock",
        "application 2 of 2",
        ConnectionPrefix::None,
    )?;
    let relayed = application(
        &folder,
        "relayed.sock",
        "the application behind the relay",
        ConnectionPrefix::ProxyHeader,
    )?;
    let socket = |path: &PathBuf| quote(&format!("unix:{}", path.display()));
    let file = |path: &PathBuf| quote(&path.to_string_lossy());
    let tls = format!("tls = {{ cert = {}, key = {} }}", file(&cert), file(&key));
    let site = quote(&format!(":{}", demo.listen.port()));
    let config = format!(
        "metrics = {metrics}\n\n\
         [pool.app]\nendpoints = [{first}, {second}]\nhealth = \"/health\"\n\n\
         # HTTPS and HTTP/2: a folder of files, and the application below /api/\n\
         [site.{site}]\nlisten = [{address}]\n{tls}\nroot = {root}\n\n\
         [site.{site}.path.\"/api/*\"]\nproxy = \"pool:app\"\n\n\
         # TLS terminated, bytes relayed, with the client's address in a PROXY header\n\
         [tcp.{relay}]\n{tls}\nproxy = {relayed}\nproxy_protocol = \"v2\"\n",
        metrics = quote(&demo.metrics.to_string()),
        first = socket(&first),
        second = socket(&second),
        address = quote(&demo.listen.ip().to_string()),
        root = file(&root),
        relay = quote(&demo.relay().to_string()),
        relayed = socket(&relayed),
    );
    Ok(run(&config, "demo", |running| {
        print_invitation(running, &config)
    }))
}

/// Starts an application on a Unix socket of its own; returns the path.
fn application(
    folder: &TempFolder,
    socket: &str,
    name: &'static str,
    prefix: ConnectionPrefix,
) -> anyhow::Result<PathBuf> {
    let path = folder.0.join(socket);
    let listener = UnixListener::bind(&path).context("socket of the built-in application")?;
    threads::start("echo-app", move || serve(listener, name, prefix))?;
    Ok(path)
}

fn serve(listener: UnixListener, name: &'static str, prefix: ConnectionPrefix) {
    let served = listener.set_nonblocking(true).and_then(|()| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            echo_app::serve(tokio::net::UnixListener::from_std(listener)?, name, prefix).await;
            Ok(())
        })
    });
    if let Err(error) = served {
        eprintln!("lockgate: the built-in application does not run: {error}");
    }
}

fn print_invitation(running: &RunningServer, config: &str) {
    // Relays come before sites.
    let bound = running.bound();
    let ([relay, site], Some(metrics)) = (bound.as_slice(), &running.metrics_at) else {
        return;
    };
    out!(
        "This is Lockgate. Every request, and every connection of the relay, is a line of JSON below."
    );
    out!("Try, in another terminal:\n");
    let line = |command: String, what: &str| out!("  {command:<68}  # {what}");
    line(
        format!("curl -k https://{site}/"),
        "a page from a folder, over HTTP/2",
    );
    line(
        format!("curl -k https://{site}/api/hello"),
        "one of two endpoints: ask again",
    );
    line(
        format!("curl -k --http1.1 --data anything https://{site}/api/echo"),
        "the same over HTTP/1.1",
    );
    line(
        format!("curl -k https://{relay}/hello"),
        "a relay: TLS terminated, PROXY header added",
    );
    line(
        format!("curl http://{metrics}/metrics http://{metrics}/top"),
        "metrics and the busiest clients",
    );
    line(
        format!("lockgate load --insecure -d 5s https://{site}/api/hello"),
        "a load test\n",
    );
    out!("The configuration of this demo:\n");
    for line in config.lines() {
        out!("  {line}");
    }
    out!(
        "\nWrite your own: docs/config.md, then `lockgate check -v FILE` and `lockgate run FILE`. Ctrl-C ends this.\n"
    );
}
