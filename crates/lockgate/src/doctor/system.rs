//! The kernel, the clock, descriptors, queues of connections, ports of sockets, memory and CPUs.

use super::finding::{Finding, Group};
use super::machine::MachineFacts;
use super::needs::Needs;
use crate::admin_client::units::bytes_of;

/// Pages of a pipe for splicing: 256 KB.
const PAGES_OF_PIPE: u64 = 64;
/// Sockets towards one endpoint for which source ports are expected: past this, an endpoint is busy.
const BUSY_ENDPOINT: u64 = 10_000;

const GROUP: Group = Group::System;

/// The findings.
pub(super) fn findings(machine: &MachineFacts, needs: &Needs) -> Vec<Finding> {
    let mut findings = features(machine);
    findings.push(clock(machine));
    findings.push(descriptors(machine, needs));
    findings.extend(backlog(machine, needs));
    findings.extend(syn_queue(machine, needs));
    findings.extend(source_ports(machine, needs));
    findings.extend(congestion(machine));
    findings.extend(pipes(machine, needs));
    findings.push(memory(needs));
    findings.push(cpus(machine, needs));
    findings
}

/// Features that the server has no other way for; without the others it is slower.
fn is_needed(name: &str) -> bool {
    matches!(name, "SO_REUSEPORT" | "TCP_DEFER_ACCEPT")
}

fn features(machine: &MachineFacts) -> Vec<Finding> {
    let features = machine.features.iter();
    let works = features.clone().filter(|feature| feature.trial.is_ok());
    let works: Vec<_> = works.map(|feature| feature.name).collect();
    let found = format!(
        "{}; used: {}; not used: kTLS, MSG_ZEROCOPY",
        machine.kernel,
        works.join(", ")
    );
    let mut findings = vec![GROUP.ok("kernel", found)];
    for feature in features {
        let Err(error) = &feature.trial else { continue };
        let found = format!("{error}: {}", feature.without);
        let cure = "use a newer kernel, or let the sandbox (seccomp, gVisor) allow the call";
        findings.push(match is_needed(feature.name) {
            true => GROUP.problem(feature.name, found, cure),
            false => GROUP.warning(feature.name, found, cure),
        });
    }
    findings
}

fn clock(machine: &MachineFacts) -> Finding {
    match &machine.clock {
        Ok(true) => GROUP.ok("clock", "kept right by a time service"),
        Ok(false) => GROUP.warning(
            "clock",
            "no time service keeps it right: certificates and logs depend on it",
            "run chrony or systemd-timesyncd: `timedatectl set-ntp true`",
        ),
        Err(error) => GROUP.note(
            "clock",
            format!("not known: {error}"),
            "compare `date -u` with another machine",
        ),
    }
}

fn descriptors(machine: &MachineFacts, needs: &Needs) -> Finding {
    let what = "open descriptors";
    let of = match machine.are_of_running {
        true => "of the running Lockgate",
        false => "of this shell; a service has its own",
    };
    let limit = match machine.descriptors {
        u64::MAX => "no limit".to_owned(),
        limit => format!("{limit}"),
    };
    let fitting = needs.fitting;
    let found = format!(
        "{limit} ({of}): enough for {fitting} connections with a socket towards an endpoint each"
    );
    match needs.wanted {
        Some(wanted) if wanted > fitting => GROUP.warning(
            what,
            format!("{found}, and limits.connections is {wanted}"),
            "raise the hard limit (systemd: LimitNOFILE=, shell: ulimit -Hn), or lower limits.connections",
        ),
        _ => GROUP.ok(what, found),
    }
}

fn backlog(machine: &MachineFacts, needs: &Needs) -> Option<Finding> {
    let (limit, wanted) = (machine.backlog?, u64::from(needs.backlog));
    let what = "net.core.somaxconn";
    Some(match limit < wanted {
        true => GROUP.warning(
            what,
            format!("{limit}: connections beyond it are dropped while a worker is busy, though socket.backlog is {wanted}"),
            format!("sysctl -w net.core.somaxconn={wanted}"),
        ),
        false => GROUP.ok(what, format!("{limit}, for a socket.backlog of {wanted}")),
    })
}

fn syn_queue(machine: &MachineFacts, needs: &Needs) -> Option<Finding> {
    let (limit, wanted) = (machine.syn_backlog?, u64::from(needs.backlog));
    let what = "net.ipv4.tcp_max_syn_backlog";
    Some(match machine.syn_cookies {
        // Only without cookies the kernel drops what is beyond it (tcp(7)).
        Some(false) if limit < wanted => GROUP.warning(
            what,
            format!("{limit}, without SYN cookies, though socket.backlog is {wanted}"),
            "sysctl -w net.ipv4.tcp_syncookies=1",
        ),
        Some(false) => GROUP.note(
            what,
            format!("{limit}, without SYN cookies: a flood of openings shuts clients out"),
            "sysctl -w net.ipv4.tcp_syncookies=1",
        ),
        _ => GROUP.ok(what, format!("{limit}, with SYN cookies beyond it")),
    })
}

fn source_ports(machine: &MachineFacts, needs: &Needs) -> Option<Finding> {
    let (first, last) = machine.source_ports?;
    let ports = (last + 1).saturating_sub(first);
    let endpoints = needs.tcp_endpoints as u64;
    if endpoints == 0 {
        return None;
    }
    let what = "net.ipv4.ip_local_port_range";
    let sockets = needs.division.sockets as u64;
    let each = (sockets / endpoints).min(BUSY_ENDPOINT);
    let found = format!("{ports} source ports: as many connections to one endpoint at most");
    Some(match ports < each {
        true => GROUP.warning(
            what,
            format!("{found}, and there may be {sockets} sockets towards {endpoints}"),
            "sysctl -w net.ipv4.ip_local_port_range=\"10240 65535\"",
        ),
        false => GROUP.ok(what, found),
    })
}

fn congestion(machine: &MachineFacts) -> Option<Finding> {
    let used = machine.congestion.as_deref()?;
    let what = "net.ipv4.tcp_congestion_control";
    if used == "bbr" {
        return Some(GROUP.ok(what, "bbr"));
    }
    let has_bbr = machine.congestions.iter().any(|name| name == "bbr");
    let first = if has_bbr { "" } else { "modprobe tcp_bbr && " };
    let found = format!("{used}: a client with a lossy link downloads slower than by bbr");
    let cure = format!(
        "{first}sysctl -w net.core.default_qdisc=fq net.ipv4.tcp_congestion_control=bbr, if such clients matter"
    );
    Some(GROUP.note(what, found, cure))
}

fn pipes(machine: &MachineFacts, needs: &Needs) -> Option<Finding> {
    let soft = machine.pipe_pages?;
    let pipes = (needs.division.pipes * needs.workers) as u64;
    let what = "fs.pipe-user-pages-soft";
    let full = soft / PAGES_OF_PIPE;
    // pipe(7): of processes without CAP_SYS_RESOURCE and CAP_SYS_ADMIN.
    let enough = match soft {
        0 => Some("0: no limit".to_owned()),
        _ if needs.is_root => Some(format!("{soft} pages, a limit that does not hold for root")),
        _ if full >= pipes => Some(format!("{soft} pages, enough for {pipes} pipes of splice")),
        _ => None,
    };
    if let Some(found) = enough {
        return Some(GROUP.ok(what, found));
    }
    let wanted = pipes.saturating_mul(PAGES_OF_PIPE);
    Some(GROUP.note(
        what,
        format!("{soft} pages: {full} of {pipes} pipes of splice have 256 KB, further relays have smaller ones"),
        format!("sysctl -w fs.pipe-user-pages-soft={wanted}, if hundreds of relays move bulk at once"),
    ))
}

fn memory(needs: &Needs) -> Finding {
    let limit = &needs.memory;
    match limit.bytes {
        Some(bytes) => GROUP.ok("memory", format!("{} ({})", bytes_of(bytes), limit.why)),
        None => GROUP.note(
            "memory",
            format!("no limit ({})", limit.why),
            "set limits.memory: without it the kernel ends the process when memory runs out",
        ),
    }
}

fn cpus(machine: &MachineFacts, needs: &Needs) -> Finding {
    let (cpus, workers) = (machine.cpus, needs.workers);
    let found = format!("{cpus} by quota and affinity, {workers} workers");
    match workers > cpus {
        true => GROUP.note(
            "CPUs",
            format!("{found}, which take turns"),
            "leave `workers` out: one for each CPU",
        ),
        false => GROUP.ok("CPUs", found),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use lockgate_config::Memory;
    use lockgate_net::kernel::KernelFeature;

    use super::super::finding::Level;
    use super::*;
    use crate::descriptors::Division;
    use crate::memory;

    fn machine() -> MachineFacts {
        MachineFacts {
            kernel: "6.12".to_owned(),
            features: Vec::new(),
            clock: Ok(true),
            is_root: true,
            cpus: 2,
            descriptors: 65_536,
            open_descriptors: None,
            are_of_running: false,
            backlog: Some(4_096),
            syn_backlog: Some(1_024),
            syn_cookies: Some(true),
            source_ports: Some((32_768, 60_999)),
            congestion: Some("bbr".to_owned()),
            congestions: Vec::new(),
            pipe_pages: Some(16_384),
        }
    }

    fn needs() -> Needs {
        Needs {
            workers: 2,
            wanted: None,
            fitting: 28_000,
            division: Division {
                connections: 28_000,
                sockets: 28_000,
                pipes: 100,
            },
            handshakes: 1_024,
            memory: memory::allowed(Memory::Bytes(1 << 30)),
            backlog: 1_024,
            tcp_endpoints: 1,
            is_root: false,
        }
    }

    fn worst(machine: &MachineFacts, needs: &Needs) -> (Level, String) {
        let worst = findings(machine, needs)
            .into_iter()
            .max_by_key(|one| one.level);
        let worst = worst.unwrap();
        assert_eq!(worst.cure.is_empty(), worst.level == Level::Ok, "{worst:?}");
        (worst.level, worst.what)
    }

    #[test]
    fn a_machine_that_is_fit_has_no_finding() {
        assert_eq!(worst(&machine(), &needs()).0, Level::Ok);
    }

    #[test]
    fn settings_of_the_kernel_are_compared_with_the_needs() {
        type Change = fn(&mut MachineFacts, &mut Needs);
        let cases: [(Change, Level, &str); 13] = [
            (
                |machine, _| machine.backlog = Some(128),
                Level::Warning,
                "net.core.somaxconn",
            ),
            (
                |machine, _| (machine.syn_cookies, machine.syn_backlog) = (Some(false), Some(128)),
                Level::Warning,
                "net.ipv4.tcp_max_syn_backlog",
            ),
            (
                |machine, _| machine.syn_cookies = Some(false),
                Level::Note,
                "net.ipv4.tcp_max_syn_backlog",
            ),
            (
                |machine, _| machine.source_ports = Some((60_000, 60_999)),
                Level::Warning,
                "net.ipv4.ip_local_port_range",
            ),
            (
                |machine, _| machine.congestion = Some("cubic".to_owned()),
                Level::Note,
                "net.ipv4.tcp_congestion_control",
            ),
            (
                |machine, _| machine.pipe_pages = Some(1_024),
                Level::Note,
                "fs.pipe-user-pages-soft",
            ),
            (
                |machine, _| machine.clock = Ok(false),
                Level::Warning,
                "clock",
            ),
            (
                |machine, _| machine.clock = Err(io::ErrorKind::PermissionDenied.into()),
                Level::Note,
                "clock",
            ),
            (
                |_, needs| needs.wanted = Some(30_000),
                Level::Warning,
                "open descriptors",
            ),
            (|_, needs| needs.workers = 3, Level::Note, "CPUs"),
            (
                |_, needs| needs.memory = memory::allowed(Memory::Off),
                Level::Note,
                "memory",
            ),
            (
                |machine, _| machine.features.push(missing("splice")),
                Level::Warning,
                "splice",
            ),
            (
                |machine, _| machine.features.push(missing("SO_REUSEPORT")),
                Level::Problem,
                "SO_REUSEPORT",
            ),
        ];
        for (change, level, what) in cases {
            let (mut machine, mut needs) = (machine(), needs());
            change(&mut machine, &mut needs);
            assert_eq!(worst(&machine, &needs), (level, what.to_owned()));
        }
    }

    fn missing(name: &'static str) -> KernelFeature {
        KernelFeature {
            name,
            trial: Err(io::ErrorKind::Unsupported.into()),
            without: "it is slower",
        }
    }

    #[test]
    fn pages_of_pipes_are_limited_for_users_alone() {
        let found = |pages, is_root| {
            let machine = MachineFacts {
                pipe_pages: Some(pages),
                ..machine()
            };
            let needs = Needs { is_root, ..needs() };
            let found = pipes(&machine, &needs).unwrap();
            (found.level, found.found)
        };
        let (level, text) = found(64, true);
        assert_eq!(level, Level::Ok);
        assert!(text.ends_with("does not hold for root"), "{text}");
        for is_root in [true, false] {
            assert_eq!(found(0, is_root), (Level::Ok, "0: no limit".to_owned()));
        }
        assert_eq!(found(64, false).0, Level::Note);
        let (level, text) = found(16_384, false);
        assert_eq!(level, Level::Ok);
        assert!(text.ends_with("enough for 200 pipes of splice"), "{text}");
    }
}
