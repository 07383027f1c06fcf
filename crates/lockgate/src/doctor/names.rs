//! The names of the sites: their addresses by the system's resolver, and whether these are addresses
//! of this machine.
//!
//! Connects to addresses elsewhere, the only way to see from here whether something in front leads on:
//! where a site has TLS, the certificate there is compared with ours. What an authority on the
//! Internet reaches cannot be seen from here.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use lockgate_certs::{ChallengeKind, WantedSet};
use lockgate_config::{Config, ListenAddr};
use lockgate_net::tls::{CertFacts, presented};
use lockgate_rules::HostPattern;
use tokio::net::lookup_host;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use super::finding::{Finding, Group, Level};
use super::keeping::Keeping;
use super::running::RunningAnswer;

/// The most names that are looked up.
const MOST: usize = 200;
/// The names that are looked up at once.
const AT_ONCE: usize = 50;
/// The time for one name: a resolver asks again after 5 s (resolv.conf(5)).
const LOOK_UP: Duration = Duration::from_secs(6);
/// The time for one step of a connection.
const PATIENCE: Duration = Duration::from_secs(4);
/// The time for a connection and its handshake.
const WHOLE: Duration = Duration::from_secs(10);
/// Names of another certificate that are printed.
const SHOWN_NAMES: usize = 3;
/// The addresses of a name that are connected to.
const TRIED: usize = 3;
/// Domains that are no part of the public DNS (RFC 2606, RFC 6761, RFC 6762, RFC 8375).
const LOCAL: [&str; 8] = [
    "localhost",
    "test",
    "example",
    "invalid",
    "local",
    "internal",
    "lan",
    "home.arpa",
];

/// What is known of the names.
#[derive(Debug)]
pub(super) struct NameFacts {
    pub(super) names: Vec<LookedUpName>,
    /// The names that are for local use, and not looked up.
    pub(super) local: usize,
    /// The names beyond [`MOST`].
    pub(super) left_out: usize,
    /// Whether the kernel binds addresses that are not of this machine.
    pub(super) binds_any: bool,
}

/// A name, and what its addresses lead to.
#[derive(Debug)]
pub(super) struct LookedUpName {
    pub(super) name: String,
    pub(super) port: ClientPort,
    /// Whether an authority must connect to the name before it issues a certificate.
    pub(super) is_validated: bool,
    pub(super) keeping: Keeping,
    pub(super) addresses: Result<Vec<FoundAddress>, LookupFailure>,
}

/// An address of a name.
#[derive(Debug)]
pub(super) struct FoundAddress {
    pub(super) ip: IpAddr,
    /// Whether it is an address of this machine.
    pub(super) is_here: bool,
    /// Whether a listener of the site has it.
    pub(super) is_covered: bool,
    /// The result of a connection, for one of the first addresses elsewhere.
    pub(super) reached: Option<Result<Reached, String>>,
}

/// The port that clients of a name connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientPort {
    pub(super) number: u16,
    pub(super) has_tls: bool,
}

/// What answers at an address elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// A listener without TLS.
    Accepted,
    /// TLS with the key of a certificate of ours.
    Ours,
    /// TLS with another certificate, for these names.
    Another(String),
}

/// Why there is no address.
#[derive(Debug)]
pub(super) enum LookupFailure {
    /// The answer of the resolver.
    None(String),
    /// No answer in time.
    Silence,
}

/// A name that is to be looked up.
#[derive(Debug, Default)]
struct AskedName {
    port: Option<ClientPort>,
    /// The addresses of the listeners of its sites; none are known of a name without a site.
    listen: Vec<ListenAddr>,
    is_validated: bool,
    keeping: Keeping,
}

/// The usual port of clients, where a configuration leaves it to the system.
const USUAL: ClientPort = ClientPort {
    number: 443,
    has_tls: true,
};

/// Looks the names of a configuration up; `ours` are its certificates.
pub(super) fn facts(
    config: &Config,
    wanted: &WantedSet,
    ours: Vec<CertFacts>,
    running: Option<&RunningAnswer>,
) -> NameFacts {
    let mut asked = asked(config, wanted);
    let kept = config.ddns.iter().flat_map(|ddns| &ddns.names);
    for name in kept {
        if let Some(one) = asked.get_mut(name) {
            one.keeping = Keeping::of(name, running.map(|running| &*running.status.names));
        }
    }
    let all = asked.len();
    asked.retain(|name, one| one.is_validated || !is_local(name));
    let local = all - asked.len();
    // Those that certificates depend on come first.
    let mut asked: Vec<_> = asked.into_iter().collect();
    asked.sort_by_key(|(_, one)| !one.is_validated);
    let left_out = asked.len().saturating_sub(MOST);
    asked.truncate(MOST);
    NameFacts {
        names: look_up(asked, &ours.into()),
        local,
        left_out,
        binds_any: binds_any(),
    }
}

/// The names of sites and of certificates that are ordered, each once.
fn asked(config: &Config, wanted: &WantedSet) -> BTreeMap<String, AskedName> {
    let mut names: BTreeMap<String, AskedName> = BTreeMap::new();
    for site in &config.sites {
        let listener = site.listen.iter().find(|listener| !listener.redirects);
        let port = listener.and_then(|listener| {
            Some(ClientPort {
                number: port_of(&listener.addr)?,
                has_tls: listener.secure,
            })
        });
        for host in &site.hosts {
            if let HostPattern::Exact(name) = host {
                // An address is one that clients connect to, too.
                let name = name.trim_matches(['[', ']']);
                let one = names.entry(name.to_owned()).or_default();
                one.port = port;
                let listen = site.listen.iter().map(|listener| listener.addr.clone());
                one.listen.extend(listen);
            }
        }
    }
    for order in wanted.orders.iter() {
        // Where DNS-01 is possible, it is what is left when the others fail.
        let by_connection = !order.ways.contains(&ChallengeKind::Dns01);
        if by_connection && !order.id.name.starts_with("*.") {
            let one = names.entry(order.id.name.clone()).or_default();
            one.is_validated = true;
        }
    }
    names
}

fn port_of(addr: &ListenAddr) -> Option<u16> {
    let port = match addr {
        ListenAddr::All(port) => *port,
        ListenAddr::Ip(address) => address.port(),
        ListenAddr::Unix(_) => 0,
    };
    (port != 0).then_some(port)
}

fn is_local(name: &str) -> bool {
    let is_below = |domain: &str| {
        name.strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_name = name.parse::<IpAddr>().is_err();
    is_name && (!name.contains('.') || LOCAL.iter().any(|domain| is_below(domain)))
}

fn look_up(asked: Vec<(String, AskedName)>, ours: &Arc<[CertFacts]>) -> Vec<LookedUpName> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        // A look-up without an answer keeps its thread, and must not hold up those after it.
        .max_blocking_threads(MOST + AT_ONCE)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let failed = |(name, asked): (String, AskedName)| LookedUpName {
                addresses: Err(LookupFailure::None(error.to_string())),
                name,
                port: asked.port.unwrap_or(USUAL),
                is_validated: asked.is_validated,
                keeping: asked.keeping,
            };
            return asked.into_iter().map(failed).collect();
        }
    };
    let mut found = Vec::new();
    let mut asked = asked.into_iter();
    loop {
        let some: Vec<_> = asked.by_ref().take(AT_ONCE).collect();
        if some.is_empty() {
            break;
        }
        found.extend(runtime.block_on(look_up_at_once(some, ours)));
    }
    // getaddrinfo cannot be interrupted.
    runtime.shutdown_background();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

async fn look_up_at_once(
    asked: Vec<(String, AskedName)>,
    ours: &Arc<[CertFacts]>,
) -> Vec<LookedUpName> {
    let mut tasks = JoinSet::new();
    for (name, asked) in asked {
        let (port, ours) = (asked.port.unwrap_or(USUAL), Arc::clone(ours));
        tasks.spawn(async move {
            let mut addresses = addresses(&name, port, &ours).await;
            for one in addresses.iter_mut().flatten() {
                one.is_covered = is_covered(&asked.listen, one.ip);
            }
            LookedUpName {
                addresses,
                name,
                port,
                is_validated: asked.is_validated,
                keeping: asked.keeping,
            }
        });
    }
    let mut found = Vec::new();
    while let Some(done) = tasks.join_next().await {
        found.extend(done);
    }
    found
}

async fn addresses(
    name: &str,
    port: ClientPort,
    ours: &Arc<[CertFacts]>,
) -> Result<Vec<FoundAddress>, LookupFailure> {
    // RFC 6761 §6.4: no name server is asked for these.
    if name == "invalid" || name.ends_with(".invalid") {
        let why = "no name below `invalid` has one (RFC 6761)";
        return Err(LookupFailure::None(why.to_owned()));
    }
    let found = timeout(LOOK_UP, lookup_host((name, port.number))).await;
    let found = found.map_err(|_| LookupFailure::Silence)?;
    let found = found.map_err(failure_of)?;
    let mut addresses: Vec<FoundAddress> = Vec::new();
    for address in found {
        let ip = address.ip();
        if addresses.iter().any(|known| known.ip == ip) {
            continue;
        }
        let is_here = is_here(ip);
        let tried = addresses.iter().filter(|one| one.reached.is_some()).count();
        let reached = match is_here || tried == TRIED {
            true => None,
            false => Some(reach(address, (name, port.has_tls), ours).await),
        };
        addresses.push(FoundAddress {
            ip,
            is_here,
            is_covered: true,
            reached,
        });
    }
    match addresses.is_empty() {
        true => Err(LookupFailure::None("the answer is empty".to_owned())),
        false => Ok(addresses),
    }
}

/// The resolver gives up by itself with EAI_AGAIN (getaddrinfo(3)), which has only its text here.
fn failure_of(error: io::Error) -> LookupFailure {
    match error.to_string() {
        why if why.contains("Temporary failure in name resolution") => LookupFailure::Silence,
        why => LookupFailure::None(why),
    }
}

/// Whether an address can be bound, which is true of those of this machine alone, unless the kernel
/// was told to bind any.
fn is_here(ip: IpAddr) -> bool {
    !ip.is_unspecified() && UdpSocket::bind(SocketAddr::new(ip, 0)).is_ok()
}

/// Whether one of the listeners has an address. In front of a Unix socket is another server, which
/// may have any.
fn is_covered(listen: &[ListenAddr], ip: IpAddr) -> bool {
    let has = |listener: &ListenAddr| match listener {
        ListenAddr::All(_) | ListenAddr::Unix(_) => true,
        // A listener at [::] takes IPv6 alone.
        ListenAddr::Ip(at) if at.ip().is_unspecified() => at.is_ipv4() == ip.is_ipv4(),
        ListenAddr::Ip(at) => at.ip() == ip,
    };
    listen.is_empty() || listen.iter().any(has)
}

fn binds_any() -> bool {
    let is_on = |path: &str| std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1");
    [
        "/proc/sys/net/ipv4/ip_nonlocal_bind",
        "/proc/sys/net/ipv6/ip_nonlocal_bind",
    ]
    .iter()
    .any(|path| is_on(path))
}

async fn reach(
    address: SocketAddr,
    (name, has_tls): (&str, bool),
    ours: &Arc<[CertFacts]>,
) -> Result<Reached, String> {
    let (name, ours) = (name.to_owned(), Arc::clone(ours));
    let reached = spawn_blocking(move || reach_now(address, has_tls.then_some(&*name), &ours));
    // A server that sends a byte now and then would hold it up for long.
    match timeout(WHOLE, reached).await {
        Ok(reached) => {
            let reached = reached.map_err(io::Error::other);
            reached.flatten().map_err(|error| error.to_string())
        }
        Err(_) => Err(format!("no handshake within {} s", WHOLE.as_secs())),
    }
}

/// Connects, with TLS as a client of `name` if there is one. Each step has [`PATIENCE`].
fn reach_now(address: SocketAddr, name: Option<&str>, ours: &[CertFacts]) -> io::Result<Reached> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    let Some(name) = name else {
        return Ok(Reached::Accepted);
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let facts = presented(&mut stream, name)?;
    Ok(
        match ours
            .iter()
            .any(|one| one.public_key() == facts.public_key())
        {
            true => Reached::Ours,
            false => {
                let names: Vec<_> = facts.names.into_iter().take(SHOWN_NAMES).collect();
                Reached::Another(names.join(", "))
            }
        },
    )
}

/// The findings.
pub(super) fn findings(facts: &NameFacts) -> Vec<Finding> {
    let group = Group::Names;
    let mut findings = Vec::new();
    if facts.binds_any && !facts.names.is_empty() {
        findings.push(group.note(
            "ip_nonlocal_bind",
            "1: every address seems to be of this machine",
            "compare the addresses below with `ip address`",
        ));
    }
    let is_silent = |name: &&LookedUpName| matches!(name.addresses, Err(LookupFailure::Silence));
    let silent = facts.names.iter().filter(is_silent).count();
    let is_asked = |name: &&LookedUpName| name.name.parse::<IpAddr>().is_err();
    if silent > 0 && silent == facts.names.iter().filter(is_asked).count() {
        let found = format!(
            "the name server does not answer: no look-up of {silent} had an answer within {} s",
            LOOK_UP.as_secs()
        );
        let cure = "correct /etc/resolv.conf, or let this machine reach its name server";
        findings.push(group.problem("name server", found, cure));
        let others = facts.names.iter().filter(|name| !is_silent(name));
        findings.extend(others.map(finding));
    } else {
        findings.extend(facts.names.iter().map(finding));
    }
    if facts.names.iter().any(|name| name.is_validated) {
        findings.push(group.note(
            "validation",
            "whether an authority reaches the ports 80 and 443 from the Internet cannot be seen from this machine; port 80 of addresses elsewhere was not tried",
            "`lockgate cert obtain NAME --dry-run` tries a whole order at the authority's directory for trials",
        ));
    }
    if facts.local > 0 {
        let found = format!("{} for local use, not looked up (RFC 6761)", facts.local);
        findings.push(group.ok("local names", found));
    }
    if facts.left_out > 0 {
        let found = format!("{} of them are looked up, {} are not", MOST, facts.left_out);
        findings.push(group.note("names", found, ""));
    }
    findings
}

fn finding(name: &LookedUpName) -> Finding {
    let (group, what) = (Group::Names, &*name.name);
    let addresses = match &name.addresses {
        Ok(addresses) => addresses,
        Err(failure) => {
            let found = match failure {
                LookupFailure::None(why) => format!("no address: {why}"),
                LookupFailure::Silence => "the name server did not answer".to_owned(),
            };
            if matches!(failure, LookupFailure::Silence) {
                let cure = "try again, or ask its name server: `dig NAME`";
                return group.note(what, found, cure);
            }
            return without_address(name, found);
        }
    };
    if let Keeping::Failed(why) = &name.keeping {
        let addresses: Vec<_> = addresses.iter().map(|one| one.ip.to_string()).collect();
        let found = format!("{}; `[ddns]` has failed last: {why}", addresses.join(", "));
        return group.warning(what, found, FAILED);
    }
    let list = |wanted: &dyn Fn(&FoundAddress) -> bool| {
        let chosen = addresses.iter().filter(|one| wanted(one));
        chosen
            .map(|one| one.ip.to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let uncovered = list(&|one| one.is_here && !one.is_covered);
    if !uncovered.is_empty() {
        return group.warning(
            what,
            format!("{uncovered}: of this machine, but no listener of the site has it"),
            "let the site listen on that address, or remove its record: clients and authorities take IPv6 first",
        );
    }
    let here = list(&|one| one.is_here);
    let elsewhere = list(&|one| !one.is_here);
    if elsewhere.is_empty() {
        let is_loopback = addresses.iter().all(|one| one.ip.is_loopback());
        return match is_loopback && name.is_validated {
            true => group.warning(
                what,
                format!("{here}: only this machine finds it there, as /etc/hosts does"),
                "compare with a name server on the Internet: `dig @9.9.9.9 NAME`",
            ),
            false => group.ok(what, format!("{here}, of this machine")),
        };
    }
    if !here.is_empty() {
        let found = format!("{here} of this machine, and {elsewhere} elsewhere");
        let cure =
            "remove the record of the other address, unless a machine with the same site has it";
        let level = if name.is_validated {
            Level::Warning
        } else {
            Level::Note
        };
        return group.finding(level, what, found, cure);
    }
    elsewhere_only(name, addresses, &elsewhere)
}

/// A name server has no address of the name; `found` says so.
fn without_address(name: &LookedUpName, found: String) -> Finding {
    let (group, what) = (Group::Names, &*name.name);
    match (&name.keeping, name.is_validated) {
        (Keeping::Planned, _) => group.note(
            what,
            found + "; `[ddns]` sets it once Lockgate runs",
            "start Lockgate; `lockgate status` shows what was set",
        ),
        // RFC 2308: resolvers keep it, too, that there is none.
        (Keeping::Kept, _) => group.note(
            what,
            found + "; `[ddns]` keeps it",
            "`lockgate status` shows what was set; other name servers have it some minutes later",
        ),
        (Keeping::Failed(why), _) => {
            group.problem(what, format!("{found}; `[ddns]` has failed: {why}"), FAILED)
        }
        (Keeping::None, true) => group.problem(
            what,
            found + "; no authority can validate it",
            "add an A or AAAA record with an address that leads here",
        ),
        (Keeping::None, false) => group.note(
            what,
            found,
            "add an A or AAAA record, unless clients find it otherwise",
        ),
    }
}

/// None of the addresses is of this machine: something in front has them, or the record is wrong.
fn elsewhere_only(name: &LookedUpName, addresses: &[FoundAddress], list: &str) -> Finding {
    let (group, what) = (Group::Names, &*name.name);
    let port = name.port.number;
    let mut tried = addresses.iter().filter_map(|one| one.reached.as_ref());
    let fault = tried.find_map(|one| match one {
        Err(why) => Some(why.clone()),
        Ok(Reached::Another(names)) => Some(format!("another certificate, for {names}")),
        Ok(Reached::Ours | Reached::Accepted) => None,
    });
    match fault {
        None if name.port.has_tls => group.ok(
            what,
            format!("{list}, which leads here: our certificate is at its port {port}"),
        ),
        // Without TLS nothing tells which program accepts.
        None => group.note(
            what,
            format!("{list}, not of this machine; its port {port} accepts connections"),
            ELSEWHERE,
        ),
        Some(why) => {
            let found = format!("{list}, not of this machine; port {port}: {why}");
            // Many routers do not lead from inside to their own outer address.
            match (&name.keeping, name.is_validated) {
                (Keeping::None, true) => group.warning(what, found, ELSEWHERE),
                (Keeping::None, false) => group.note(what, found, ELSEWHERE),
                _ => group.note(what, found, AT_THE_ROUTER),
            }
        }
    }
}

/// What to do where the last update has failed.
const FAILED: &str = "`lockgate status` shows the next try; docs/guides/ddns.md explains `[ddns]`";

/// What to do about the router's address, which `[ddns]` sets.
const AT_THE_ROUTER: &str = "let the router forward the ports of the sites to this machine, and try from another network: many routers do not lead from inside to their own address";

/// What to do about an address elsewhere.
const ELSEWHERE: &str =
    "correct the record, unless a load balancer or NAT leads from that address to this machine";

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ip: &str, reached: Option<Result<Reached, &str>>) -> FoundAddress {
        FoundAddress {
            ip: ip.parse().unwrap(),
            is_here: reached.is_none(),
            is_covered: true,
            reached: reached.map(|result| result.map_err(str::to_owned)),
        }
    }

    fn level(is_validated: bool, addresses: Vec<FoundAddress>) -> Level {
        of_kept(Keeping::None, is_validated, addresses).level
    }

    fn of_kept(keeping: Keeping, is_validated: bool, addresses: Vec<FoundAddress>) -> Finding {
        let addresses = match addresses.is_empty() {
            true => Err(LookupFailure::None("none is known".to_owned())),
            false => Ok(addresses),
        };
        let one = finding(&LookedUpName {
            name: "a.example.com".to_owned(),
            port: USUAL,
            is_validated,
            keeping,
            addresses,
        });
        assert_eq!(one.cure.is_empty(), one.level == Level::Ok, "{one:?}");
        one
    }

    #[test]
    fn a_name_that_an_authority_validates_must_lead_here() {
        let here = || at("192.0.2.1", None);
        let loopback = || at("127.0.0.1", None);
        let lost = || at("192.0.2.9", Some(Err("refused")));
        let in_front = || at("192.0.2.9", Some(Ok(Reached::Ours)));
        let another = || at("192.0.2.9", Some(Ok(Reached::Another("b.test".to_owned()))));
        for (addresses, validated, plain) in [
            (vec![], Level::Problem, Level::Note),
            (vec![here()], Level::Ok, Level::Ok),
            (vec![loopback()], Level::Warning, Level::Ok),
            (vec![here(), lost()], Level::Warning, Level::Note),
            (vec![in_front()], Level::Ok, Level::Ok),
            (vec![in_front(), another()], Level::Warning, Level::Note),
            (vec![lost()], Level::Warning, Level::Note),
        ] {
            let again = addresses
                .iter()
                .map(|one| FoundAddress {
                    ip: one.ip,
                    is_here: one.is_here,
                    is_covered: one.is_covered,
                    reached: one.reached.clone(),
                })
                .collect();
            assert_eq!(level(true, addresses), validated);
            assert_eq!(level(false, again), plain);
        }
    }

    #[test]
    fn a_name_that_ddns_keeps_needs_no_record_by_hand() {
        let failed = || Keeping::Failed("no public address".to_owned());
        let router = || vec![at("192.0.2.9", Some(Err("refused")))];
        for (keeping, addresses, expected) in [
            (Keeping::Planned, vec![], Level::Note),
            (Keeping::Kept, vec![], Level::Note),
            (failed(), vec![], Level::Problem),
            (Keeping::Kept, router(), Level::Note),
            (Keeping::Planned, router(), Level::Note),
            (failed(), router(), Level::Warning),
            (Keeping::Kept, vec![at("192.0.2.1", None)], Level::Ok),
        ] {
            let one = of_kept(keeping, true, addresses);
            assert_eq!(one.level, expected, "{one:?}");
            assert!(!one.cure.contains("record"), "{one:?}");
        }
    }

    #[test]
    fn names_for_local_use_are_known_by_their_end() {
        for name in [
            "localhost",
            "a.localhost",
            "box",
            "a.test",
            "nas.home.arpa",
            "a.internal",
        ] {
            assert!(is_local(name), "{name}");
        }
        for name in ["a.example.com", "atest.com", "internal.example.org", "::1"] {
            assert!(!is_local(name), "{name}");
        }
    }

    #[test]
    fn names_beyond_the_most_and_for_local_use_are_told() {
        let facts = NameFacts {
            names: Vec::new(),
            local: 2,
            left_out: 7,
            binds_any: true,
        };
        let found = findings(&facts);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].found.starts_with("2 for local use"));
        assert!(found[1].found.ends_with("7 are not"));
    }

    #[test]
    fn what_answers_at_an_address_is_told_apart() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(reach_now(address, None, &[]).unwrap(), Reached::Accepted);
        let answering = std::thread::spawn(move || {
            for stream in listener.incoming().take(2) {
                let _ = io::Write::write_all(&mut stream.unwrap(), b"220 hello\r\n");
            }
        });
        assert!(reach_now(address, Some("a.test"), &[]).is_err());
        answering.join().unwrap();
        assert!(reach_now(address, None, &[]).is_err());
    }

    #[test]
    fn an_address_is_here_where_it_can_be_bound() {
        assert!(is_here("127.0.0.1".parse().unwrap()));
        // RFC 5737: no machine has it.
        assert!(binds_any() || !is_here("203.0.113.7".parse().unwrap()));
        // It is bound with a scope alone.
        assert!(!is_here("fe80::1".parse().unwrap()));
        assert!(!is_here("0.0.0.0".parse().unwrap()));
    }

    #[test]
    fn an_address_here_needs_a_listener_of_the_site() {
        let v4 = [ListenAddr::Ip("0.0.0.0:443".parse().unwrap())];
        let v6 = [ListenAddr::Ip("[::]:443".parse().unwrap())];
        let loopback = [ListenAddr::Ip("127.0.0.1:443".parse().unwrap())];
        for (listen, ip, expected) in [
            (&v4, "192.0.2.2", true),
            (&v4, "fd00::2", false),
            (&v6, "fd00::2", true),
            (&v6, "192.0.2.2", false),
            (&loopback, "127.0.0.1", true),
            (&loopback, "192.0.2.2", false),
            (&[ListenAddr::All(443)], "fd00::2", true),
        ] {
            assert_eq!(
                is_covered(listen, ip.parse().unwrap()),
                expected,
                "{listen:?} {ip}"
            );
        }
        let uncovered = FoundAddress {
            is_covered: false,
            ..at("fd00::2", None)
        };
        assert_eq!(
            level(false, vec![at("192.0.2.2", None), uncovered]),
            Level::Warning
        );
    }

    #[test]
    fn a_name_server_that_is_silent_is_one_problem() {
        let silent = |name: &str| LookedUpName {
            name: name.to_owned(),
            port: USUAL,
            is_validated: false,
            keeping: Keeping::None,
            addresses: Err(LookupFailure::Silence),
        };
        let facts = NameFacts {
            names: vec![silent("a.example.com"), silent("b.example.com")],
            local: 0,
            left_out: 0,
            binds_any: false,
        };
        let found = findings(&facts);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].level, Level::Problem);
        let again = io::Error::other("Temporary failure in name resolution");
        assert!(matches!(failure_of(again), LookupFailure::Silence));
    }
}
