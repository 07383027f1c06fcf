//! The global options.

use super::blocks::CaddyStatement;
use super::listen;
use super::log;
use super::matchers::{self, PRIVATE_RANGES};
use super::order::CaddyOrder;
use super::texts::{self, CaddyTextKind};
use crate::{ConversionReport, DraftTable, DraftValue, Verdict};

/// What the global options say about all sites.
#[derive(Debug)]
pub(super) struct CaddyOptions {
    /// The port of plain HTTP.
    pub(super) http_port: u16,
    /// The port of TLS.
    pub(super) https_port: u16,
    /// `auto_https off` or `disable_certs`.
    pub(super) auto_https_off: bool,
    /// All certificates are those of the server's own authority.
    pub(super) local_certs: bool,
    /// Whether something of all sites is not known, so that they are closed.
    pub(super) closed: bool,
    /// Whether `protocols` leaves HTTP/3 out.
    pub(super) without_http3: bool,
    /// Whether clients may use HTTP/1 alone.
    pub(super) only_http1: bool,
    /// The order of directives.
    pub(super) order: CaddyOrder,
    /// The keys of `[acme]`.
    pub(super) acme: Vec<(String, DraftValue)>,
    /// The addresses that sites bind.
    pub(super) bind: Vec<String>,
}

impl Default for CaddyOptions {
    fn default() -> Self {
        Self {
            http_port: 80,
            https_port: 443,
            auto_https_off: false,
            local_certs: false,
            closed: false,
            without_http3: false,
            only_http1: false,
            order: CaddyOrder::default(),
            acme: Vec::new(),
            bind: Vec::new(),
        }
    }
}

fn of_text(word: Option<&str>) -> Result<(String, Verdict), Verdict> {
    let word = word.unwrap_or_default();
    match texts::convert(word, CaddyTextKind::Plain, None) {
        Ok(text) => Ok(text.with_verdict()),
        Err(because) => Err(Verdict::not_supported(because, None)),
    }
}

impl CaddyOptions {
    /// Sets a key of `[acme]`; whether it has another value already.
    pub(super) fn set_acme(&mut self, key: &str, value: DraftValue) -> bool {
        match self.acme.iter().find(|(name, _)| name == key) {
            Some((_, known)) => *known != value,
            None => {
                self.acme.push((key.to_owned(), value));
                false
            }
        }
    }

    /// Reads the options, and writes what they mean for the whole file.
    pub(super) fn read(
        &mut self,
        statements: &[CaddyStatement],
        top: &mut DraftTable,
        report: &mut ConversionReport,
    ) {
        for statement in statements {
            let verdict = self.option(statement, top, report);
            if let Some(verdict) = verdict {
                statement.set_all(report, &verdict);
            }
        }
    }

    fn option(
        &mut self,
        statement: &CaddyStatement,
        top: &mut DraftTable,
        report: &mut ConversionReport,
    ) -> Option<Verdict> {
        let arg = statement.arg();
        let verdict = match statement.name() {
            "http_port" | "https_port" => {
                let http = statement.name() == "http_port";
                let Some(port) = arg.and_then(|port| port.parse::<u16>().ok()) else {
                    let because = "the port has to be a number in the file";
                    return Some(Verdict::not_supported(
                        because,
                        Some("ports = { http = 80 }"),
                    ));
                };
                let (slot, key, usual) = match http {
                    true => (&mut self.http_port, "http", 80),
                    false => (&mut self.https_port, "https", 443),
                };
                *slot = port;
                if port != usual {
                    top.table("ports").set(key, i64::from(port));
                }
                Verdict::Converted
            }
            "email" => self.email(arg),
            "acme_ca" => self.directory(arg),
            "acme_ca_root" => match of_text(arg) {
                Ok((file, verdict)) => {
                    self.set_acme("ca", file.into());
                    verdict
                }
                Err(verdict) => verdict,
            },
            "acme_dns" => self.dns(statement.args(), statement.inner()),
            "acme_eab" => {
                let value = |name: &str| {
                    let line = statement.inner().iter().find(|line| line.name() == name);
                    line.and_then(|line| of_text(line.arg()).ok())
                };
                match (value("key_id"), value("mac_key")) {
                    (Some((id, _)), Some((key, _))) => {
                        let eab = vec![
                            ("key_id".to_owned(), id.into()),
                            ("mac_key".to_owned(), key.into()),
                        ];
                        self.set_acme("eab", DraftValue::Inline(eab));
                        Verdict::Converted
                    }
                    _ => Verdict::not_supported("it lacks a key", None),
                }
            }
            "on_demand_tls" => {
                report.set(statement.id, Verdict::Converted);
                for line in statement.inner() {
                    let verdict = match (line.name(), line.arg()) {
                        ("ask", Some(url))
                            if url.starts_with("http") && !url.contains(['{', '"', ' ']) =>
                        {
                            let ask = vec![("ask".to_owned(), url.into())];
                            self.set_acme("on_demand", DraftValue::Inline(ask));
                            Verdict::Converted
                        }
                        ("interval" | "burst", _) => Verdict::differs(
                            "orders are limited by the hour: acme.on_demand.per_hour",
                        ),
                        _ => Verdict::not_supported("this permission is not known", None),
                    };
                    line.set_all(report, &verdict);
                }
                return None;
            }
            "admin" => match arg {
                Some("off") => {
                    top.set("admin", false);
                    Verdict::Converted
                }
                _ => Verdict::differs(
                    "Lockgate's admin interface is a Unix socket with commands of its own",
                ),
            },
            "auto_https" => match arg {
                Some("off" | "disable_certs") => {
                    self.auto_https_off = true;
                    Verdict::Default
                }
                Some("disable_redirects") => Verdict::differs(
                    "sites on TLS without a port redirect from port 80 to themselves",
                ),
                Some("ignore_loaded_certs" | "prefer_wildcard") => Verdict::Default,
                _ => Verdict::not_supported("this mode is not known", None),
            },
            "local_certs" => {
                self.local_certs = true;
                Verdict::Converted
            }
            "skip_install_trust" => Verdict::Default,
            "persist_config" | "grace_period" | "shutdown_delay" | "debug" => {
                match (statement.name(), arg.and_then(texts::duration)) {
                    ("persist_config", _) => Verdict::Default,
                    ("debug", _) => {
                        top.set("log", "debug");
                        Verdict::Converted
                    }
                    ("grace_period", Some(time)) => {
                        top.table("drain").set("deadline", time);
                        Verdict::Converted
                    }
                    ("shutdown_delay", Some(time)) => {
                        top.table("drain").set("delay", time);
                        Verdict::Converted
                    }
                    _ => Verdict::not_supported("this is no duration", None),
                }
            }
            "default_bind" => match listen::addresses(statement.args()) {
                Some((listen, differs)) => {
                    self.bind = listen;
                    differs.map_or(Verdict::Converted, Verdict::differs)
                }
                None => {
                    self.closed = true;
                    let because = "Lockgate binds addresses, not interfaces, so all sites \
                                       refuse every client until it is decided: remove `deny` there";
                    Verdict::not_supported(because, Some("listen = [\"127.0.0.1\"]"))
                }
            },
            "order" => match self.order.change(statement.args()) {
                true => Verdict::Converted,
                false => Verdict::not_supported("this order is not known", None),
            },
            "log" => {
                log::global(statement, top, report);
                return None;
            }
            "servers" => {
                self.servers(statement, top, report);
                return None;
            }
            "metrics" => Verdict::differs(
                "metrics have an address of their own: metrics = \"127.0.0.1:9090\"",
            ),
            "storage" => Verdict::differs(
                "certificates are kept in the folder `state`, and are obtained anew",
            ),
            "ocsp_stapling" | "ocsp_interval" | "storage_clean_interval" => Verdict::Default,
            "renew_interval" | "key_type" | "preferred_chains" | "cert_lifetime"
            | "default_sni" | "fallback_sni" | "cert_issuer" => self.certificates(statement),
            "layer4" => Verdict::not_supported(
                "the tables of this plugin are not read",
                Some("[tcp.\":PORT\"] with `sni` and `default`"),
            ),
            "frankenphp" => Verdict::not_supported(
                "Lockgate runs no PHP",
                Some("run PHP behind a server of HTTP, and proxy to it"),
            ),
            name if name.starts_with("{$") => {
                Verdict::not_supported("the options in this variable are not known here", None)
            }
            _ => Verdict::not_supported("this option is not one that is known", None),
        };
        Some(verdict)
    }

    fn certificates(&mut self, statement: &CaddyStatement) -> Verdict {
        match (statement.name(), statement.arg()) {
            ("key_type", Some("p256")) => Verdict::Default,
            ("key_type", Some("rsa2048")) => {
                self.set_acme("key", "rsa2048".into());
                Verdict::Converted
            }
            ("key_type", _) => Verdict::differs("keys are p256 or rsa2048"),
            ("cert_issuer", Some("internal")) => {
                self.local_certs = true;
                Verdict::Converted
            }
            ("default_sni" | "fallback_sni", _) => Verdict::not_supported(
                "clients without a server name get the certificate of `tls.default`",
                Some("tls.default = \"FILE\""),
            ),
            ("renew_interval" | "cert_lifetime", _) => {
                Verdict::differs("certificates are renewed as the authority advises")
            }
            _ => Verdict::not_supported("this is not known of certificates", None),
        }
    }

    /// The account's address.
    pub(super) fn email(&mut self, arg: Option<&str>) -> Verdict {
        match of_text(arg) {
            Ok((email, verdict))
                if (email.contains('@') || email.contains("${"))
                    && !email.contains([',', ' ', '<', '>', '"']) =>
            {
                match self.set_acme("email", email.into()) {
                    true => Verdict::differs("all sites have one account, with another address"),
                    false => verdict,
                }
            }
            Ok(_) => Verdict::not_supported("this is no address of electronic mail", None),
            Err(verdict) => verdict,
        }
    }

    /// The authority.
    pub(super) fn directory(&mut self, arg: Option<&str>) -> Verdict {
        let Ok((url, verdict)) = of_text(arg) else {
            return Verdict::not_supported("this is no URL", None);
        };
        let name = match url.as_str() {
            "https://acme-v02.api.letsencrypt.org/directory" => return Verdict::Default,
            "https://acme-staging-v02.api.letsencrypt.org/directory" => "letsencrypt-staging",
            url if url.starts_with("https://") || url.contains("${") => url,
            _ => return Verdict::not_supported("the directory is a URL with https", None),
        };
        match self.set_acme("directory", name.into()) {
            true => Verdict::differs("another authority stands in [acme] already"),
            false => verdict,
        }
    }

    /// The provider of DNS-01.
    pub(super) fn dns(&mut self, words: &[String], block: &[CaddyStatement]) -> Verdict {
        const BY_TOKEN: [&str; 12] = [
            "cloudflare",
            "desec",
            "digitalocean",
            "duckdns",
            "gandi",
            "hetzner",
            "ionos",
            "linode",
            "netlify",
            "vercel",
            "vultr",
            "bunny",
        ];
        let Some((provider, rest)) = words.split_first() else {
            return Verdict::not_supported("it names no provider", None);
        };
        let instead = Some("acme.dns = { provider = \"…\", token = \"${file:…}\" }");
        if !BY_TOKEN.contains(&provider.as_str()) {
            let because = "this provider's parameters are not read from a Caddyfile";
            return Verdict::not_supported(because, instead);
        }
        if rest.len() > 1 {
            return Verdict::not_supported("it has more than a token", instead);
        }
        let token = rest.first().map(String::as_str).or_else(|| {
            block
                .iter()
                .find(|line| line.name().contains("token") || line.name() == "api_key")
                .and_then(CaddyStatement::arg)
        });
        match of_text(token) {
            Ok((token, verdict)) if !token.is_empty() => {
                let dns = vec![
                    ("provider".to_owned(), provider.as_str().into()),
                    ("token".to_owned(), token.into()),
                ];
                match self.set_acme("dns", DraftValue::Inline(dns)) {
                    true => Verdict::differs("another provider stands in [acme] already"),
                    false => verdict,
                }
            }
            Ok(_) => Verdict::not_supported("it has no token", instead),
            Err(verdict) => verdict,
        }
    }

    fn servers(
        &mut self,
        statement: &CaddyStatement,
        top: &mut DraftTable,
        report: &mut ConversionReport,
    ) {
        let verdict = match statement.arg() {
            None => Verdict::Converted,
            Some(_) => Verdict::differs("what it sets holds for all listeners"),
        };
        report.set(statement.id, verdict);
        let strict = statement
            .inner()
            .iter()
            .any(|line| line.name() == "trusted_proxies_strict");
        for line in statement.inner() {
            let verdict = match line.name() {
                "trusted_proxies" => trusted(line, strict, top),
                "trusted_proxies_strict" | "strict_sni_host" | "enable_full_duplex" => {
                    Verdict::Default
                }
                "client_ip_headers" => match line.args() {
                    [one] if one.eq_ignore_ascii_case("x-forwarded-for") => Verdict::Default,
                    _ => Verdict::not_supported(
                        "the client's address is that of X-Forwarded-For alone",
                        None,
                    ),
                },
                "protocols" => {
                    let has = |name: &str| line.args().iter().any(|one| one == name);
                    self.without_http3 = !has("h3");
                    self.only_http1 = has("h1") && !has("h2");
                    match has("h3") {
                        true => Verdict::differs("Lockgate speaks HTTP/1.1 and HTTP/2"),
                        false => Verdict::Converted,
                    }
                }
                "metrics" => Verdict::differs(
                    "metrics have an address of their own: metrics = \"127.0.0.1:9090\"",
                ),
                "timeouts" => {
                    timeouts(line, top, report);
                    continue;
                }
                "max_header_size" => match line.arg().and_then(texts::size) {
                    Some(_) => Verdict::differs("heads of up to 64 KB are read: `limits.head`"),
                    None => Verdict::not_supported("this is no size", None),
                },
                "keepalive_interval" | "name" => Verdict::Default,
                "listener_wrappers" => Verdict::not_supported(
                    "PROXY headers and the like are settings of sites",
                    Some("accept_proxy = \"require\", and `trusted`"),
                ),
                "log_credentials" => {
                    Verdict::not_supported("Lockgate never logs credentials", None)
                }
                _ => Verdict::not_supported("this setting is not known", None),
            };
            line.set_all(report, &verdict);
        }
    }
}

fn trusted(line: &CaddyStatement, strict: bool, top: &mut DraftTable) -> Verdict {
    let Some(("static", words)) = line
        .args()
        .split_first()
        .map(|(kind, words)| (kind.as_str(), words))
    else {
        let because = "the networks of this source are not known";
        return Verdict::not_supported(because, Some("trusted = [\"NETWORK\"]"));
    };
    let mut networks: Vec<String> = Vec::new();
    for word in words {
        match word.as_str() {
            "private_ranges" => networks.extend(PRIVATE_RANGES.map(str::to_owned)),
            word => match matchers::network(word) {
                Some(network) => networks.push(network),
                None => {
                    let because = "the networks have to be in the file";
                    return Verdict::not_supported(because, Some("trusted = [\"NETWORK\"]"));
                }
            },
        }
    }
    top.set("trusted", networks);
    match strict {
        true => Verdict::Converted,
        false => Verdict::differs(
            "the client is the last address in X-Forwarded-For that is not trusted, not the first",
        ),
    }
}

fn timeouts(line: &CaddyStatement, top: &mut DraftTable, report: &mut ConversionReport) {
    report.set(line.id, Verdict::Converted);
    for inner in line.inner() {
        let time = inner
            .arg()
            .and_then(texts::duration)
            .filter(|time| time != "0s");
        let key = match inner.name() {
            "read_header" => Some("head"),
            "idle" => Some("idle"),
            _ => None,
        };
        let verdict = match (key, time) {
            (Some(key), Some(time)) => {
                top.table("timeouts").set(key, time);
                Verdict::Converted
            }
            (None, Some(_)) if matches!(inner.name(), "read_body" | "write") => {
                Verdict::differs("slow clients are found by `rates`, not by the whole time")
            }
            _ => Verdict::not_supported("this is no time that Lockgate has", None),
        };
        inner.set_all(report, &verdict);
    }
}
