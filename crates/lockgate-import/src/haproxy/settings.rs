//! Statements that mean the same wherever they stand, and the `global` section.

use super::Importer;
use super::sections::{HaproxyKind, HaproxyLine, HaproxySection, HaproxySource};
use super::tls_policy::{ciphers, suites_of_tls13, tls_options};
use super::words::{haproxy_time, lockgate_time};
use crate::Verdict;

fn not(because: &str) -> Verdict {
    Verdict::not_supported(because, None)
}

fn instead(because: &str, instead: &str) -> Verdict {
    Verdict::not_supported(because, Some(instead))
}

const SYSLOG: &str = "Lockgate writes its logs to stdout and stderr, which systemd and containers keep, or to files; it does not speak syslog";

/// The verdict of a `log` line.
fn log(line: &HaproxyLine) -> Verdict {
    match line.word(1) {
        // systemd keeps what is written to stdout in the same journal.
        "global" | "stdout" | "stderr" | "fd@1" | "fd@2" | "/dev/log" => Verdict::Default,
        _ => Verdict::differs(SYSLOG),
    }
}

/// Reads the `global` section.
pub(super) fn global(section: &HaproxySection, importer: &mut Importer<'_>) {
    let report = &mut *importer.report;
    let top = &mut importer.draft.top;
    report.set(section.opening.id, Verdict::Converted);
    for line in section.lines.iter().filter(|line| !line.uncertain) {
        let value = line.word(1);
        let number = || value.parse::<i64>().ok().filter(|n| *n > 0);
        let verdict = match line.word(0) {
            "daemon"
            | "quiet"
            | "master-worker"
            | "mworker-max-reloads"
            | "pidfile"
            | "expose-experimental-directives"
            | "zero-warning"
            | "strict-limits"
            | "group"
            | "gid"
            | "ulimit-n"
            | "spread-checks"
            | "set-dumpable"
            | "nbproc"
            | "cpu-map"
            | "cpu-policy"
            | "thread-groups"
            | "thread-group"
            | "busy-polling"
            | "maxpipes"
            | "insecure-setuid-wanted"
            | "noreuseport"
            | "nosplice"
            | "noepoll"
            | "grace"
            | "ssl-dh-param-file"
            | "tune.ssl.default-dh-param"
            | "localpeer" => Verdict::Default,
            "no" if value == "strict-limits" => Verdict::Default,
            "uid" => instead("Lockgate takes the name of a user", "write user = \"NAME\""),
            "user" => {
                top.set("user", value);
                Verdict::Converted
            }
            "chroot" => instead(
                "Lockgate does not change its root",
                "systemd's ProtectSystem=strict and TemporaryFileSystem= confine it",
            ),
            "nbthread" => match number() {
                Some(number) if number <= 1024 => {
                    top.set("workers", number);
                    Verdict::Converted
                }
                _ => Verdict::Default,
            },
            "maxconn" => match number() {
                Some(number) => {
                    importer.connections.push(number);
                    Verdict::Converted
                }
                None => not("this is not a number"),
            },
            "hard-stop-after" => match haproxy_time(value) {
                Some(time) => {
                    super::inline(top, "drain", "deadline", lockgate_time(time).as_str());
                    Verdict::Converted
                }
                None => not("this is not a time"),
            },
            "log" => log(line),
            "log-tag" | "log-send-hostname" => Verdict::differs(SYSLOG),
            "stats" if value == "socket" => Verdict::differs(
                "Lockgate has an admin socket of its own, with other commands (lockgate status, pools, reload)",
            ),
            "stats" => Verdict::Default,
            "description" | "node" => not("it only stands on the page of statistics"),
            "ca-base" | "crt-base" => {
                importer
                    .bases
                    .insert(line.word(0).to_owned(), value.to_owned());
                Verdict::Converted
            }
            "ssl-default-bind-ciphers" => {
                let (list, verdict) = ciphers(value);
                importer.suites.extend(list);
                verdict
            }
            "ssl-default-bind-ciphersuites" => suites_of_tls13(value),
            "ssl-default-bind-options" => {
                let (found, verdict) = tls_options(line.from(1));
                importer.tls.merge(found);
                verdict
            }
            "ssl-default-bind-curves" => {
                Verdict::differs("Lockgate has its own groups, X25519MLKEM768 first")
            }
            "ssl-default-server-ciphers"
            | "ssl-default-server-ciphersuites"
            | "ssl-default-server-options"
            | "ssl-default-server-curves" => Verdict::Default,
            "ssl-server-verify" if value == "none" => Verdict::differs(
                "Lockgate verifies every endpoint that it speaks TLS with: name its authority by tls = { ca = … } in the pool",
            ),
            "ssl-server-verify" => Verdict::Default,
            "tune.h2.max-concurrent-streams" => match number() {
                Some(number) if number <= 10_000 => {
                    super::inline(top, "http2", "streams", number);
                    Verdict::Converted
                }
                _ => not("Lockgate has from 1 to 10000 streams on a connection"),
            },
            "tune.http.maxhdr" => match number() {
                Some(number) if number <= 10_000 => {
                    super::inline(top, "limits", "fields", number);
                    Verdict::Converted
                }
                _ => not("Lockgate takes from 1 to 10000 fields"),
            },
            "server-state-file" | "server-state-base" => {
                not("the states of endpoints are found anew by checks after a restart")
            }
            "lua-load" | "lua-load-per-thread" | "lua-prepend-path" => instead(
                "Lockgate runs no Lua",
                "do in the application what the script does",
            ),
            "external-check" | "insecure-fork-wanted" => instead(
                "Lockgate starts no programs for checks",
                "give the endpoint a path that answers for its health",
            ),
            "setenv" | "presetenv" | "resetenv" | "unsetenv" | "default-path" => instead(
                "Lockgate's file takes variables from its environment and sets none",
                "let systemd set them, by Environment=",
            ),
            "unix-bind" => not("sockets have the permissions of Lockgate's umask"),
            name if name.starts_with("tune.") || name.starts_with("profiling.") => match name {
                "tune.bufsize"
                | "tune.maxrewrite"
                | "tune.ssl.cachesize"
                | "tune.maxaccept"
                | "tune.rcvbuf.client"
                | "tune.rcvbuf.server"
                | "tune.sndbuf.client"
                | "tune.sndbuf.server"
                | "tune.ssl.maxrecord"
                | "tune.idletimer"
                | "tune.buffers.limit"
                | "tune.buffers.reserve"
                | "tune.comp.maxlevel"
                | "tune.pool-high-fd-ratio"
                | "tune.pool-low-fd-ratio"
                | "tune.runqueue-depth"
                | "tune.maxpollevents"
                | "tune.sched.low-latency"
                | "tune.listener.multi-queue"
                | "tune.ssl.lifetime"
                | "tune.recv_enough"
                | "tune.http.cookielen" => Verdict::Default,
                _ => not("Lockgate has no such setting"),
            },
            _ => continue,
        };
        report.set(line.id, verdict);
    }
}

/// Verdicts of statements in `defaults`, `frontend`, `backend` and `listen` sections that depend on
/// nothing else. Lines that have a verdict keep it.
pub(super) fn plain_statements(source: &HaproxySource, importer: &mut Importer<'_>) {
    for section in &source.sections {
        match section.kind {
            HaproxyKind::Absent(because, cure) => {
                importer
                    .report
                    .set(section.opening.id, instead(because, cure));
                for line in &section.lines {
                    importer.report.set(line.id, instead(because, cure));
                }
                continue;
            }
            HaproxyKind::Resolvers => {
                importer.report.set(section.opening.id, Verdict::Default);
                for line in &section.lines {
                    importer.report.set(
                        line.id,
                        match line.word(0) {
                            "nameserver" => Verdict::differs(
                                "host names are resolved by the system's name servers",
                            ),
                            _ => Verdict::Default,
                        },
                    );
                }
                continue;
            }
            HaproxyKind::Defaults => importer.report.set(section.opening.id, Verdict::Converted),
            _ => {}
        }
        if matches!(section.kind, HaproxyKind::Global | HaproxyKind::Userlist) {
            continue;
        }
        for line in &section.lines {
            if importer.report.has_verdict(line.id) {
                continue;
            }
            if line.uncertain {
                importer
                    .report
                    .set(line.id, not("it stands between .if and .endif"));
            } else if let Some(verdict) = plain_statement(line, importer.any_http) {
                importer.report.set(line.id, verdict);
            }
        }
    }
}

fn plain_statement(line: &HaproxyLine, http: bool) -> Option<Verdict> {
    if line.is("no option") || line.is("default option") {
        return Some(match line.word(2) {
            "httpclose"
            | "http-server-close"
            | "forceclose"
            | "http-use-proxy-header"
            | "logasap"
            | "abortonclose"
            | "accept-invalid-http-request"
            | "accept-invalid-http-response"
            | "log-health-checks"
            | "nolinger"
            | "tcp-smart-accept"
            | "tcp-smart-connect" => Verdict::Default,
            "dontlognull" => {
                Verdict::differs("connections that end without a byte are counted, not logged")
            }
            "redispatch" => {
                Verdict::differs("Lockgate tries a failed connection once more on another endpoint")
            }
            _ => return None,
        });
    }
    Some(match line.word(0) {
        "option" => return option(line.word(1), http),
        "log" => log(line),
        "no" if line.word(1) == "log" => Verdict::differs(
            "Lockgate logs all requests: access_log = false in the site turns it off",
        ),
        "log-format" | "log-format-sd" | "error-log-format" | "log-tag" => Verdict::differs(
            "the access log is of JSON objects with fixed names; format = \"combined\" and \"logfmt\" are the other forms",
        ),
        "capture" | "declare" => not("the access log has fixed fields"),
        "unique-id-format" => Verdict::differs("Lockgate makes its own request identifiers"),
        "unique-id-header" if line.word(1).eq_ignore_ascii_case("x-request-id") => Verdict::Default,
        "unique-id-header" => {
            Verdict::differs("the identifier of a request is sent as X-Request-Id")
        }
        "retries" => match line.word(1).parse::<u8>() {
            Ok(1..=3) => Verdict::Default,
            _ => Verdict::differs(
                "Lockgate tries a failed connection once more on another endpoint; retry in a pool changes it",
            ),
        },
        "retry-on" => Verdict::differs(
            "what may be retried is fixed: idempotent requests without a response, and all that was not sent",
        ),
        "fullconn"
        | "backlog"
        | "bind-process"
        | "id"
        | "disabled"
        | "enabled"
        | "clitcpka-cnt"
        | "srvtcpka-cnt"
        | "description"
        | "tcp-smart-accept"
        | "hash-balance-factor"
        | "force-persist"
        | "load-server-state-from-file"
        | "max-session-srv-conns" => match line.word(0) {
            "description" => not("it only stands on the page of statistics"),
            "load-server-state-from-file" => {
                not("the states of endpoints are found anew by checks after a restart")
            }
            "fullconn" => not("endpoints have a fixed `max`"),
            _ => Verdict::Default,
        },
        "errorfile" | "errorfiles" => errorfile(line),
        "errorloc" | "errorloc302" | "errorloc303" => {
            not("an error page is a file, not a redirect")
        }
        "stats" => instead(
            "the live page has an address of its own",
            "write metrics = \"127.0.0.1:9090\"",
        ),
        "external-check" => instead(
            "Lockgate starts no programs for checks",
            "give the endpoint a path that answers for its health",
        ),
        "http-error" => not("an error page is a file of HTML: write error_pages in the site"),
        "email-alert" => not("Lockgate sends no mail"),
        "filter" if matches!(line.word(1), "compression" | "comp-res") => Verdict::Default,
        "filter" => instead(
            "Lockgate has no such filters",
            "auth.forward asks a service about each request",
        ),
        "grace" | "maxconn" | "rate-limit" => {
            not("there is no limit for one listener; limits = { connections = … } is for all")
        }
        "ignore-persist" => not("a client that has an endpoint by its cookie keeps it"),
        "use-server" => instead(
            "an endpoint is not chosen by a rule",
            "make a pool of its own for it",
        ),
        "persist" | "rdp-cookie" => not("Lockgate does not read the cookie of RDP"),
        "dispatch" | "transparent" | "source" | "use-fcgi-app" | "usesrc" => {
            not("Lockgate connects to endpoints of a pool, from the machine's own address")
        }
        "timeout" => match line.word(1) {
            "client-fin" | "server-fin" | "client-hs" | "tarpit" | "queue" | "check" | "tunnel"
            | "connect" | "server" | "http-request" | "http-keep-alive" | "client" => {
                Verdict::Default
            }
            _ => return None,
        },
        "contimeout" | "clitimeout" | "srvtimeout" => instead(
            "HAProxy has renamed it",
            "write timeout connect, client or server there, and import again",
        ),
        // What is still without a verdict here is used by no section.
        "balance" | "cookie" | "default-server" | "http-check" | "tcp-check" | "hash-type"
        | "mode" | "default_backend" | "compression" | "monitor-uri" | "unique-id" => {
            Verdict::Default
        }
        "reqrep" | "reqirep" | "rsprep" | "rspirep" | "reqdeny" | "reqideny" | "reqallow"
        | "reqpass" | "reqtarpit" | "rspdeny" => {
            not("regular expressions over the head are not converted")
        }
        _ => return None,
    })
}

fn option(name: &str, http: bool) -> Option<Verdict> {
    Some(match name {
        "httplog"
        | "tcplog"
        | "dontlognull"
        | "redispatch"
        | "http-keep-alive"
        | "forwardfor"
        | "tcpka"
        | "clitcpka"
        | "srvtcpka"
        | "splice-auto"
        | "splice-request"
        | "splice-response"
        | "contstats"
        | "socket-stats"
        | "http-ignore-probes"
        | "log-separate-errors"
        | "log-health-checks"
        | "tcp-smart-accept"
        | "tcp-smart-connect"
        | "prefer-last-server"
        | "http-no-delay"
        | "nolinger"
        | "checkcache"
        | "abortonclose"
        | "allbackups"
        | "http-buffer-request"
        | "independent-streams"
        | "idle-close-on-response"
        | "h1-case-adjust-bogus-client"
        | "ssl-hello-chk"
        | "httpchk"
        | "tcp-check"
        | "persist" => match name {
            "log-separate-errors" => Verdict::differs("all requests are in one log"),
            "checkcache" => not("responses are not searched for cookies that a cache may keep"),
            "http-buffer-request" => Verdict::differs("a request body is streamed, not held back"),
            "prefer-last-server" => not("each request is balanced anew"),
            "persist" => not("a request does not wait for an endpoint that is down"),
            "independent-streams" => not("both directions of a relay share one idle time"),
            _ => Verdict::Default,
        },
        "http-server-close" | "httpclose" | "forceclose" if !http => Verdict::Default,
        "http-server-close"
        | "httpclose"
        | "forceclose"
        | "http-pretend-keepalive"
        | "http-tunnel" => Verdict::differs(
            "connections are kept for the next request; idle = { max = 0 } in a pool closes those to endpoints",
        ),
        "dontlog-normal" => Verdict::differs(
            "successful requests are logged too; access_log = { sample = \"1%\" } thins them out",
        ),
        "originalto" => not("Lockgate does not send the address that the client connected to"),
        "http-use-htx" | "http-restrict-req-hdr-names" | "disable-h2-upgrade" => Verdict::Default,
        "external-check" => instead(
            "Lockgate starts no programs for checks",
            "give the endpoint a path that answers for its health",
        ),
        "mysql-check" | "pgsql-check" | "redis-check" | "smtpchk" | "ldap-check" | "spop-check" => {
            Verdict::Default
        }
        "transparent" | "http_proxy" | "http-proxy" => instead(
            "Lockgate connects to endpoints of a pool",
            "a [tunnel] table with forward = true is a proxy for clients",
        ),
        "accept-invalid-http-request"
        | "accept-invalid-http-response"
        | "accept-unsafe-violations-in-http-request"
        | "accept-unsafe-violations-in-http-response" => not("malformed heads are refused"),
        "logasap" | "nolog" => not("a request is logged at its end"),
        "http-use-proxy-header" => Verdict::Default,
        _ => return None,
    })
}

/// HAProxy's own pages, which its packages install, need no counterpart.
fn errorfile(line: &HaproxyLine) -> Verdict {
    let (status, file) = (line.word(1), line.word(2));
    let own = [
        "/etc/haproxy/errors/",
        "/usr/local/etc/haproxy/errors/",
        "/etc/haproxy/errors-custom/",
    ];
    if file == "/dev/null" {
        return Verdict::differs("Lockgate answers with a page");
    }
    if own
        .iter()
        .take(2)
        .any(|folder| file == format!("{folder}{status}.http"))
    {
        return Verdict::Default;
    }
    instead(
        "the file begins with a head of HTTP, and Lockgate's error pages are HTML alone",
        "take the head off, and write error_pages in the site",
    )
}
