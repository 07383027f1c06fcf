//! The host names that requests to the metrics address may have. The name of a web page could lead
//! here, and the page could read the responses (DNS rebinding), so only names that such a page
//! cannot have are allowed.
//!
//! Makes no DNS look-up: the machine's names are in its files.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::{Request, Version};

/// Fetch Metadata: the origin of a browser's fetch, and its mode.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The allowed names, beside IP addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AllowedHosts(Vec<String>);

/// The reason for a refused request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostRefusal {
    /// No host, several, or an unreadable one (RFC 9112 §3.2).
    Malformed,
    /// A host that is not allowed, or a page of another origin.
    Foreign,
}

impl AllowedHosts {
    /// The configured names, and those of the machine.
    pub(crate) fn new(configured: &[String]) -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let machine = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let mut hosts = vec!["localhost".to_owned()];
        hosts.extend(names(
            &machine,
            &read("/etc/hosts"),
            &read("/etc/resolv.conf"),
        ));
        hosts.extend(configured.iter().cloned());
        Self(hosts.iter().map(|host| plain(host)).collect())
    }

    /// Checks the host and origin of a request.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<(), HostRefusal> {
        let fields = request.headers();
        let mut named = fields.get_all(HOST).iter();
        let host = match (named.next(), named.next()) {
            (Some(host), None) => Some(host.to_str().map_err(|_| HostRefusal::Malformed)?),
            (None, _) if request.version() < Version::HTTP_11 => None,
            _ => return Err(HostRefusal::Malformed),
        };
        // RFC 9112 §3.2.2: the host of an absolute target overrides the field.
        let host = request
            .uri()
            .authority()
            .map(|authority| authority.as_str())
            .or(host);
        let ours = host.is_none_or(|host| self.has(host)) && self.allows_origin(fields);
        if ours {
            Ok(())
        } else {
            Err(HostRefusal::Foreign)
        }
    }

    /// Whether the origin of the page that fetches, if there is one, is allowed.
    fn allows_origin(&self, fields: &HeaderMap) -> bool {
        let is = |name: &HeaderName, value: &str| fields.get(name).is_some_and(|is| is == value);
        match fields.get(ORIGIN).map(HeaderValue::to_str) {
            // Pages without an origin of their own send "null", so it may be any page.
            Some(origin) => origin.is_ok_and(|origin| {
                origin
                    .split_once("://")
                    .is_some_and(|(_, authority)| self.has(authority))
            }),
            // A link that a user follows may be on any page.
            None => !is(&SITE, "cross-site") || is(&MODE, "navigate"),
        }
    }

    fn has(&self, authority: &str) -> bool {
        let host = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        host.parse::<IpAddr>().is_ok() || self.0.contains(&plain(host))
    }
}

/// A name in the form that is compared.
fn plain(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

/// The names of a machine by its files: its own name, the other names of its line in `/etc/hosts`,
/// and its name in the domains of `/etc/resolv.conf`.
fn names(machine: &str, hosts: &str, resolv: &str) -> Vec<String> {
    let is_named = !matches!(machine, "" | "localhost" | "(none)");
    let words = |line: &str| -> Vec<String> {
        let line = line.split(['#', ';']).next().unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect()
    };
    let mut names = Vec::new();
    if !is_named {
        return names;
    }
    names.push(machine.to_owned());
    for line in hosts.lines().map(words) {
        let of_line = line.get(1..).unwrap_or_default();
        if of_line
            .iter()
            .any(|name| name.eq_ignore_ascii_case(machine))
        {
            names.extend_from_slice(of_line);
        }
    }
    if !machine.contains('.') {
        for line in resolv.lines().map(words) {
            if let [key, domains @ ..] = &*line
                && matches!(&**key, "search" | "domain")
            {
                names.extend(domains.iter().map(|domain| format!("{machine}.{domain}")));
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(request: &[(&str, &str)]) -> Result<(), HostRefusal> {
        let hosts = AllowedHosts(vec![
            "localhost".into(),
            "gate".into(),
            "metrics.example.com".into(),
        ]);
        let mut made = Request::get("/metrics");
        for (name, value) in request {
            made = made.header(*name, *value);
        }
        hosts.check(&made.body(()).unwrap())
    }

    #[test]
    fn addresses_and_names_of_ours_are_taken_with_any_port() {
        for host in [
            "127.0.0.1:9090",
            "192.0.2.1",
            "[::1]:9090",
            "localhost",
            "LOCALHOST:1",
            "gate.:80",
            "Metrics.example.com",
        ] {
            assert_eq!(checked(&[("host", host)]), Ok(()), "{host}");
        }
    }

    #[test]
    fn other_hosts_are_refused() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:9090",
            "",
            ":9090",
            "2130706433",
        ] {
            assert_eq!(
                checked(&[("host", host)]),
                Err(HostRefusal::Foreign),
                "{host}"
            );
        }
    }

    #[test]
    fn a_request_without_host_or_with_two_is_malformed() {
        assert_eq!(checked(&[]), Err(HostRefusal::Malformed));
        assert_eq!(
            checked(&[("host", "gate"), ("host", "gate")]),
            Err(HostRefusal::Malformed)
        );
        let old = Request::get("/metrics")
            .version(Version::HTTP_10)
            .body(())
            .unwrap();
        assert_eq!(AllowedHosts(Vec::new()).check(&old), Ok(()));
    }

    #[test]
    fn the_host_of_an_absolute_target_goes_over_the_field() {
        let request = |target: &str| {
            Request::get(target)
                .header("host", "localhost")
                .body(())
                .unwrap()
        };
        let hosts = AllowedHosts(vec!["localhost".into()]);
        assert_eq!(
            hosts.check(&request("http://evil.example/metrics")),
            Err(HostRefusal::Foreign)
        );
        assert_eq!(
            hosts.check(&request("http://localhost:9090/metrics")),
            Ok(())
        );
    }

    #[test]
    fn pages_of_other_origins_are_refused_and_links_are_not() {
        let at = |origin| checked(&[("host", "localhost:9090"), ("origin", origin)]);
        assert_eq!(at("http://localhost:3000"), Ok(()));
        for origin in ["https://evil.example", "null", ""] {
            assert_eq!(at(origin), Err(HostRefusal::Foreign), "{origin}");
        }
        let fetched = |site, mode| {
            checked(&[
                ("host", "localhost"),
                ("sec-fetch-site", site),
                ("sec-fetch-mode", mode),
            ])
        };
        assert_eq!(fetched("cross-site", "no-cors"), Err(HostRefusal::Foreign));
        assert_eq!(fetched("cross-site", "navigate"), Ok(()));
        assert_eq!(fetched("same-origin", "cors"), Ok(()));
        assert_eq!(fetched("none", "navigate"), Ok(()));
    }

    #[test]
    fn a_machine_has_the_names_that_its_files_give_it() {
        let hosts = "127.0.0.1 localhost\n# 192.0.2.9 gate old\n192.0.2.1\tgate.example.com gate # this one\n192.0.2.2 other\n";
        let resolv = "nameserver 192.0.2.53\nsearch lan example.net\n";
        assert_eq!(
            names("gate", hosts, resolv),
            [
                "gate",
                "gate.example.com",
                "gate",
                "gate.lan",
                "gate.example.net"
            ]
        );
        assert_eq!(names("gate.example.com", "", resolv), ["gate.example.com"]);
        for unnamed in ["", "localhost", "(none)"] {
            assert_eq!(
                names(unnamed, "127.0.0.1 localhost all.example", resolv),
                Vec::<String>::new()
            );
        }
    }
}
