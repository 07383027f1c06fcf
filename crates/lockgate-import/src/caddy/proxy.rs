//! `reverse_proxy`: endpoints, balancing, checks and transports.

use super::blocks::CaddyStatement;
use super::fields;
use super::matchers::PRIVATE_RANGES;
use super::outcome::{CaddyFlow, CaddyUpstream};
use super::pool_keys::{CaddyPoolKeys, push_time};
use super::texts::{self, CaddyTextKind, CaddyTextPlace};
use super::transport;
use crate::{ConversionReport, DraftValue, Verdict};

/// Reads a `reverse_proxy`. Fields that it changes are added to `flow`.
///
/// # Errors
/// Why no endpoint is known; the verdict is set.
pub(super) fn convert(
    statement: &CaddyStatement,
    words: &[String],
    flow: &mut CaddyFlow,
    place: CaddyTextPlace<'_>,
    report: &mut ConversionReport,
) -> Option<CaddyUpstream> {
    let mut keys = CaddyPoolKeys::default();
    let mut addresses = Vec::new();
    let mut failed = false;
    for word in words {
        match address(word, &mut keys) {
            Ok((found, differs)) => {
                addresses.extend(found);
                let verdict = differs.map_or(Verdict::Converted, Verdict::differs);
                report.set(statement.id, verdict);
            }
            Err(because) => {
                report.set(statement.id, Verdict::not_supported(because, None));
                failed = true;
            }
        }
    }
    for line in statement.inner() {
        match line.name() {
            "to" => {
                for word in line.args() {
                    match address(word, &mut keys) {
                        Ok((found, differs)) => {
                            addresses.extend(found);
                            let verdict = differs.map_or(Verdict::Converted, Verdict::differs);
                            report.set(line.id, verdict);
                        }
                        Err(because) => {
                            report.set(line.id, Verdict::not_supported(because, None));
                            failed = true;
                        }
                    }
                }
            }
            "dynamic" => {
                let instead = "list the endpoints, or \"srv:NAME\" in a pool for SRV records";
                let because = "Lockgate has no dynamic upstreams";
                line.set_all(report, &Verdict::not_supported(because, Some(instead)));
                failed = true;
            }
            "handle_response" => {
                let because = "Lockgate does not choose by the response of an application";
                line.set_all(report, &Verdict::not_supported(because, None));
            }
            "method" | "rewrite" => {
                let because = "the request is changed for this application alone";
                line.set_all(report, &Verdict::not_supported(because, None));
                failed = true;
            }
            "replace_status" => {
                let because = "Lockgate does not change the status of a response";
                line.set_all(report, &Verdict::not_supported(because, None));
            }
            "header_up" => fields::header_up(line, flow, place, report),
            "header_down" => fields::header_down(line, flow, place, report),
            "transport" => transport::convert(line, &mut keys, report),
            _ => {
                let verdict = option(line, &mut keys);
                line.set_all(report, &verdict);
            }
        }
    }
    if failed || addresses.is_empty() {
        let because = match failed {
            true => "its endpoints are not all known, so the route is left out",
            false => "it names no endpoint",
        };
        statement.set_all(report, &Verdict::not_supported(because, None));
        return None;
    }
    report.set(statement.id, Verdict::Converted);
    if !keys.timeouts.is_empty() {
        let timeouts = std::mem::take(&mut keys.timeouts);
        flow.keys.insert("timeouts", DraftValue::Inline(timeouts));
    }
    name_upstream(statement, &addresses, flow, report);
    Some(upstream(addresses, keys))
}

/// Writes the host of the endpoint where a field of the request has it.
fn name_upstream(
    statement: &CaddyStatement,
    addresses: &[String],
    flow: &mut CaddyFlow,
    report: &mut ConversionReport,
) {
    let Some(at) = flow
        .request_fields
        .iter()
        .position(|(_, value)| *value == DraftValue::from(fields::UPSTREAM_HOST))
    else {
        return;
    };
    if let [address] = addresses
        && !address.starts_with("unix:")
        && let Some((_, value)) = flow.request_fields.get_mut(at)
    {
        let host = address
            .strip_suffix(":443")
            .or(address.strip_suffix(":80"))
            .unwrap_or(address);
        *value = host.into();
        return;
    }
    flow.request_fields.remove(at);
    for line in statement.inner() {
        if line.args().iter().any(|word| word.contains("upstream")) {
            let because = "a field cannot name the endpoint of several";
            report.set(line.id, Verdict::not_supported(because, None));
        }
    }
}

fn upstream(addresses: Vec<String>, keys: CaddyPoolKeys) -> CaddyUpstream {
    let mut upstream = CaddyUpstream::default();
    for (index, address) in addresses.into_iter().enumerate() {
        let mut table = Vec::new();
        if let Some(weight) = keys.weights.get(index).filter(|weight| **weight != 1) {
            table.push(("weight".to_owned(), (*weight).into()));
        }
        if let Some(max) = keys.max {
            table.push(("max".to_owned(), max.into()));
        }
        if keys.first && index > 0 {
            table.push(("backup".to_owned(), true.into()));
        }
        if table.is_empty() {
            upstream.endpoints.push(address.into());
        } else {
            table.insert(0, ("addr".to_owned(), address.into()));
            upstream.endpoints.push(DraftValue::Inline(table));
        }
    }
    let options = &mut upstream.options;
    if let Some(protocol) = keys.protocol {
        options.push(("protocol".to_owned(), protocol.into()));
    }
    if let Some(tls) = keys.tls {
        options.push(("tls".to_owned(), DraftValue::Inline(tls)));
    }
    options.extend(keys.options);
    if keys.has_path {
        let mut health = keys.health;
        let known = health.iter().any(|(name, _)| name == "expect");
        if !known {
            health.push(("expect".to_owned(), vec!["200-299"].into()));
        }
        options.push(("health".to_owned(), DraftValue::Inline(health)));
    }
    if !keys.eject.is_empty() {
        options.push(("eject".to_owned(), DraftValue::Inline(keys.eject)));
    }
    if !keys.idle.is_empty() {
        options.push(("idle".to_owned(), DraftValue::Inline(keys.idle)));
    }
    upstream
}

/// The addresses that a word stands for, and what differs.
fn address(word: &str, keys: &mut CaddyPoolKeys) -> Result<(Vec<String>, Option<String>), String> {
    let converted = texts::convert(word, CaddyTextKind::Plain, None)?;
    let (scheme, rest) = match converted.text.split_once("://") {
        Some((scheme, rest)) => (scheme, rest),
        None => match converted.text.split_once("+h2c/") {
            Some(("unix", _)) => ("h2c", converted.text.as_str()),
            _ => ("", converted.text.as_str()),
        },
    };
    let port = match scheme {
        "" | "http" | "ws" => "80",
        "https" | "wss" => {
            keys.tls.get_or_insert_default();
            "443"
        }
        "h2c" => {
            keys.protocol = Some("h2c");
            "80"
        }
        _ => return Err(format!("`{scheme}` is no scheme of an endpoint")),
    };
    for prefix in ["unix//", "unix/", "unix+h2c//", "unix+h2c/"] {
        if let Some(path) = rest.strip_prefix(prefix) {
            let path = match prefix.ends_with("//") {
                true => format!("unix:/{path}"),
                false => format!("unix:{path}"),
            };
            return Ok((vec![path], converted.differs));
        }
    }
    if rest.is_empty() || rest.contains(['/', '?', ' ', '*', '<', '>', ',']) && !rest.contains("${")
    {
        return Err(format!("`{word}` is no address"));
    }
    if rest.contains("${env:") && !rest.contains("}:") && rest.ends_with('}') {
        // All of the address comes from the environment, its port perhaps too.
        let ends_with_port = rest.contains(":${");
        let differs = match ends_with_port {
            true => converted.differs,
            false => Some(
                "the variable must be HOST:PORT, without a scheme, as Lockgate adds no port"
                    .to_owned(),
            ),
        };
        return Ok((vec![rest.to_owned()], differs));
    }
    if let Some(port) = rest.strip_prefix(':') {
        return Ok((vec![format!("localhost:{port}")], converted.differs));
    }
    let (host, found) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (rest, port),
    };
    if let Some((from, to)) = found.split_once('-') {
        let (Ok(from), Ok(to)) = (from.parse::<u16>(), to.parse::<u16>()) else {
            return Err(format!("`{word}` is no address"));
        };
        if to < from || to - from > 256 {
            return Err(format!("`{word}` has too many ports"));
        }
        let all = (from..=to).map(|port| format!("{host}:{port}")).collect();
        return Ok((all, converted.differs));
    }
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-_.[]:${}".contains(c);
    let is_port = found.parse::<u16>().is_ok_and(|port| port > 0) || found.starts_with("${");
    let bare = host.replace("${env:", "").replace('}', "");
    let has_env = bare.len() != host.len();
    let numbers = !has_env && host.chars().all(|c| c.is_ascii_digit() || c == '.');
    let is_host_here = match numbers {
        true => host.parse::<std::net::Ipv4Addr>().is_ok(),
        false => !bare.contains(['{', '$']) && (has_env || !host.contains(['{', '}'])),
    };
    if !is_port || host.is_empty() || !is_host_here || !host.chars().all(is_host) {
        return Err(format!("`{word}` is no address with a port"));
    }
    Ok((vec![format!("{host}:{found}")], converted.differs))
}

fn push_number(keys: &mut Vec<(String, DraftValue)>, key: &str, value: Option<&str>) -> Verdict {
    match value.and_then(|value| value.parse::<i64>().ok()) {
        Some(number) if (1..=1000).contains(&number) => {
            keys.push((key.to_owned(), number.into()));
            Verdict::Converted
        }
        _ => Verdict::not_supported("Lockgate takes a number from 1 to 1000 here", None),
    }
}

/// `2xx` and `200` as Lockgate writes them.
fn statuses(words: &[String]) -> Option<Vec<String>> {
    words
        .iter()
        .map(|word| match word.strip_suffix("xx") {
            Some(class) if class.len() == 1 && class.parse::<u8>().is_ok() => {
                Some(format!("{class}00-{class}99"))
            }
            _ => word
                .parse::<u16>()
                .ok()
                .filter(|status| (100..=599).contains(status))
                .map(|_| word.clone()),
        })
        .collect()
}

fn option(line: &CaddyStatement, keys: &mut CaddyPoolKeys) -> Verdict {
    let arg = line.arg();
    match line.name() {
        "flush_interval" => Verdict::Default,
        "lb_policy" => policy(line, keys),
        "lb_retries" => match arg.and_then(|value| value.parse::<i64>().ok()) {
            Some(0) => {
                keys.options.push(("retry".to_owned(), false.into()));
                Verdict::Converted
            }
            Some(1) => Verdict::Default,
            Some(times) if times <= 10 => {
                let times = vec![("times".to_owned(), times.into())];
                keys.options
                    .push(("retry".to_owned(), DraftValue::Inline(times)));
                Verdict::Converted
            }
            _ => Verdict::not_supported("Lockgate retries at most 10 times", None),
        },
        "lb_try_duration" | "lb_try_interval" => {
            Verdict::differs("Lockgate retries once and at once, not for a time")
        }
        "health_uri" | "health_path" => match arg {
            Some(path) if path.starts_with('/') => {
                keys.has_path = true;
                keys.health.insert(0, ("path".to_owned(), path.into()));
                Verdict::Converted
            }
            _ => Verdict::not_supported("this is no path", None),
        },
        "health_port" => match arg.and_then(|value| value.parse::<u16>().ok()) {
            Some(port) => {
                keys.health
                    .push(("port".to_owned(), i64::from(port).into()));
                Verdict::Converted
            }
            None => Verdict::not_supported("this is no port", None),
        },
        "health_interval" => push_time(&mut keys.health, "every", arg),
        "health_timeout" => push_time(&mut keys.health, "timeout", arg),
        "health_passes" => push_number(&mut keys.health, "rise", arg),
        "health_fails" => push_number(&mut keys.health, "fall", arg),
        "health_method" => {
            if let Some(method) = arg {
                keys.health.push(("method".to_owned(), method.into()));
            }
            Verdict::Converted
        }
        "health_status" => match statuses(line.args()) {
            Some(statuses) => {
                keys.health.push(("expect".to_owned(), statuses.into()));
                Verdict::Converted
            }
            None => Verdict::not_supported("this is no status", None),
        },
        "health_body" => match arg {
            Some(text) if !text.contains(['.', '*', '+', '?', '[', '(', '|', '^', '$', '\\']) => {
                keys.health.push(("body".to_owned(), text.into()));
                Verdict::Converted
            }
            _ => Verdict::not_supported("a check looks for a text, not for a pattern", None),
        },
        "fail_duration" => push_time(&mut keys.eject, "for", arg),
        "max_fails" => push_number(&mut keys.eject, "errors", arg),
        "unhealthy_status" => match statuses(line.args()) {
            Some(statuses) => {
                keys.eject.push(("statuses".to_owned(), statuses.into()));
                Verdict::Converted
            }
            None => Verdict::not_supported("this is no status", None),
        },
        "unhealthy_request_count" => match arg.and_then(|value| value.parse::<i64>().ok()) {
            Some(max) if max > 0 => {
                keys.max = Some(max);
                Verdict::differs("further requests wait for the endpoint")
            }
            _ => Verdict::not_supported("this is no number", None),
        },
        "trusted_proxies" => {
            let ranges = line
                .args()
                .iter()
                .all(|one| one == "private_ranges" || PRIVATE_RANGES.contains(&one.as_str()));
            let because = match ranges {
                true => {
                    "the proxies that are trusted are named once for all sites: \
                         trusted = [\"10.0.0.0/8\", \"172.16.0.0/12\", \"192.168.0.0/16\"]"
                }
                false => "the proxies that are trusted are named once for all sites, in `trusted`",
            };
            Verdict::not_supported(because, Some("write `trusted` at the top of the file"))
        }
        "stream_timeout" => Verdict::not_supported("Lockgate ends no stream by its age", None),
        "stream_close_delay" => {
            Verdict::differs("connections go on after a reload until `drain.change`, for all sites")
        }
        "request_buffers" | "response_buffers" | "stream_buffer_size" | "buffer_requests"
        | "buffer_responses" | "max_buffer_size" => Verdict::differs(
            "Lockgate passes bodies on as they arrive, without buffering them whole",
        ),
        "verbose_logs" => Verdict::Default,
        "health_headers"
        | "health_request_body"
        | "health_follow_redirects"
        | "health_upstream" => Verdict::not_supported("checks of Lockgate do not have this", None),
        "unhealthy_latency" => {
            Verdict::differs("Lockgate prefers fast endpoints, but ejects none for being slow")
        }
        "lb_retry_match" => {
            Verdict::not_supported("Lockgate retries idempotent requests alone", None)
        }
        _ => Verdict::not_supported("this option is not known", None),
    }
}

fn policy(line: &CaddyStatement, keys: &mut CaddyPoolKeys) -> Verdict {
    let args = line.args();
    let name = args.get(1).map(String::as_str);
    let mut set = |value: DraftValue| {
        keys.options.push(("balance".to_owned(), value));
        Verdict::Converted
    };
    let hash = |value: String| DraftValue::Inline(vec![("hash".to_owned(), value.into())]);
    match args.first().map(String::as_str) {
        Some("random" | "random_choose") => Verdict::Default,
        Some("round_robin") => set("round-robin".into()),
        Some("least_conn") => set("least".into()),
        Some("ip_hash" | "client_ip_hash") => set(hash("client".to_owned())),
        Some("header") => match name {
            Some(name) => set(hash(format!("header:{}", name.to_lowercase()))),
            None => Verdict::not_supported("it names no field", None),
        },
        Some("cookie") => {
            let cookie = format!("cookie:{}", name.unwrap_or("lb"));
            let sticky = vec![("sticky".to_owned(), cookie.into())];
            set(DraftValue::Inline(sticky))
        }
        Some("first") => {
            keys.first = true;
            Verdict::differs(
                "requests go to the first endpoint, and to another one while it is down",
            )
        }
        Some("weighted_round_robin") => {
            let weights: Option<Vec<i64>> = args
                .iter()
                .skip(1)
                .map(|one| one.parse().ok().filter(|one| (1..=256).contains(one)))
                .collect();
            match weights {
                Some(weights) => {
                    keys.weights = weights;
                    keys.options
                        .push(("balance".to_owned(), "round-robin".into()));
                    Verdict::Converted
                }
                None => Verdict::not_supported("weights are numbers from 1 to 256", None),
            }
        }
        _ => Verdict::not_supported(
            "Lockgate does not balance by this",
            Some("balance = { hash = \"client\" }, or by a field or a cookie"),
        ),
    }
}
