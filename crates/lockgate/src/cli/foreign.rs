//! Commands and options of other servers that Lockgate does not have, with the advice for each.
//!
//! Those that Lockgate has under another name are aliases (`validate`, `-f`, `-T`).

use clap::error::{ContextKind, ContextValue, ErrorKind};

const RELOAD: &str = "run `lockgate reload`, or send HUP to the process: it takes over a changed configuration, and drops nothing.";
const RESTART: &str = "run `lockgate reload` for a changed configuration: nothing is dropped. `systemctl restart lockgate` \
    is for `user`, `workers`, `state` and `admin`.";
const STOP: &str = "run `lockgate stop`, `systemctl stop lockgate`, or send TERM to the process: open connections may \
    finish until `drain.deadline`.";
const START: &str = "`lockgate run -c FILE` serves in the foreground; `systemctl start lockgate` starts the service.";
const STATUS: &str = "run `lockgate status`, or set `metrics = \"127.0.0.1:9090\"` and ask http://127.0.0.1:9090/ready, \
    /top and /metrics.";
const REOPEN: &str =
    "run `lockgate reopen`, or send USR1 to the process: it opens its access logs again.";
const FORMAT: &str = "run `lockgate fmt FILE`; `lockgate check -c FILE` finds mistakes.";
const ADAPT: &str = "run `lockgate import caddy FILE`, or name nginx, haproxy, traefik or hitch: the only format of the \
    configuration is TOML, as docs/config.md has it.";

/// The commands of other servers, and the advice for each.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["reload", "graceful", "hup"], RELOAD),
    (&["restart"], RESTART),
    (&["stop", "quit", "shutdown", "kill", "graceful-stop"], STOP),
    (&["start", "daemon", "server"], START),
    (&["stats", "ps", "top"], STATUS),
    (&["reopen", "rotate", "logrotate"], REOPEN),
    (&["format"], FORMAT),
    (&["adapt", "convert"], ADAPT),
];

/// The advice for a command, or for the signal of `-s`.
pub(super) fn advice(word: &str) -> Option<&'static str> {
    COMMANDS
        .iter()
        .find(|(words, _)| words.contains(&word))
        .map(|(_, advice)| *advice)
}

/// The error for `-s SIGNAL`, which nginx has.
pub(super) fn signal(word: &str) -> clap::Error {
    let text = match advice(word) {
        Some(advice) => advice.to_owned(),
        None => "`-s` sends no signal: use `systemctl kill -s SIGNAL lockgate`. TERM stops, HUP reads certificates again, \
                 USR1 opens the access logs again."
            .to_owned(),
    };
    error(&format!("-s {word}"), &text)
}

/// The error instead of clap's, where a command of another server was given.
pub(super) fn replace(found: clap::Error) -> clap::Error {
    let typed = match (found.kind(), found.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) => word.clone(),
        _ => return found,
    };
    match advice(&typed) {
        Some(advice) => error(&typed, advice),
        None => found,
    }
}

fn error(typed: &str, advice: &str) -> clap::Error {
    let text = format!("Lockgate has no `{typed}`: {advice}\n");
    clap::Error::raw(ErrorKind::InvalidSubcommand, text)
}
