//! Middlewares that keep requests out: passwords, authentication services, networks.

use super::fields;
use super::node::{TraefikNode, is_known};
use super::route_parts::{RouteContext, RouteParts};
use super::source::TraefikItem;
use super::values::{is_network, unreadable, url};
use crate::field_names::is_of_connection;
use crate::{ConversionReport, DraftValue, Verdict};

/// Reads it.
pub(super) fn basic_auth(
    node: &TraefikNode,
    item: &TraefikItem,
    report: &mut ConversionReport,
    parts: &mut RouteParts,
) {
    parts.guards.insert(item.name.clone());
    let file = node
        .field("usersFile")
        .and_then(TraefikNode::text)
        .filter(|path| !path.is_empty());
    let users = node
        .field("users")
        .map(TraefikNode::items)
        .unwrap_or_default();
    let safe: String = item
        .name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-' || *c == '_')
        .collect();
    let path = match file {
        Some(file) => file.to_owned(),
        None => format!(
            "/etc/lockgate/{}.htpasswd",
            if safe.is_empty() { "users" } else { &safe }
        ),
    };
    let mut keys: Vec<(String, DraftValue)> = vec![("basic".to_owned(), path.as_str().into())];
    for (key, node) in node.fields() {
        let verdict = match key.to_ascii_lowercase().as_str() {
            "usersfile" if file.is_some() => Verdict::Converted,
            "users" if file.is_none() => {
                let comment = format!("{path} must have the users of {}", node.place);
                if !parts.comments.contains(&comment) {
                    parts.comments.push(comment);
                }
                users_verdict(&users, &path)
            }
            "users" => Verdict::differs(format!("the users must be in {path} too")),
            "realm" => match node.text().filter(|text| {
                text.chars()
                    .all(|c| c != '"' && c != '\\' && !c.is_control())
            }) {
                Some(realm) => {
                    keys.push(("realm".to_owned(), realm.into()));
                    Verdict::Converted
                }
                None => unreadable(),
            },
            "removeheader" if node.flag() == Some(true) => {
                parts
                    .request_headers
                    .push(("authorization".to_owned(), false.into()));
                Verdict::Converted
            }
            "removeheader" => Verdict::Default,
            "headerfield" => {
                if let Some(name) = node.text().filter(|name| fields::is_name(name)) {
                    parts
                        .request_headers
                        .push((name.to_ascii_lowercase(), false.into()));
                }
                Verdict::not_supported(
                    "the application does not get the user's name: a field of this name is removed",
                    None,
                )
            }
            _ => continue,
        };
        node.set(report, verdict);
    }
    if users.is_empty() && file.is_none() {
        parts.refuse("its users are not known");
        node.mark(report, &unreadable());
        return;
    }
    if !parts.set("auth", DraftValue::Inline(keys)) {
        parts.refuse("it needs two kinds of authentication");
        node.mark(
            report,
            &Verdict::not_supported(
                "Lockgate asks one kind of authentication: its routes are refused",
                None,
            ),
        );
    }
}

fn users_verdict(users: &[String], path: &str) -> Verdict {
    let hash = |user: &String| user.split_once(':').map(|(_, hash)| hash.to_owned());
    let old = users.iter().filter_map(hash).any(|hash| {
        is_known(&hash)
            && !["$2a$", "$2b$", "$2y$", "$5$", "$6$", "$argon2"]
                .iter()
                .any(|kind| hash.starts_with(kind))
    });
    match old {
        true => Verdict::not_supported(
            format!("{path} must be written, and MD5, SHA-1 and DES hashes are refused"),
            Some("make it with new passwords: htpasswd -B -c FILE USER"),
        ),
        false => Verdict::differs(format!(
            "users stand in a file: write these into {path}, one on each line"
        )),
    }
}

/// Reads it.
pub(super) fn forward_auth(
    node: &TraefikNode,
    item: &TraefikItem,
    report: &mut ConversionReport,
    parts: &mut RouteParts,
) {
    parts.guards.insert(item.name.clone());
    let address = node.field("address").and_then(TraefikNode::raw);
    let Some((scheme, endpoint, path)) = address.and_then(url) else {
        node.mark(report, &Verdict::not_supported("the address of the service cannot be read, or is not known here: its routes are refused", None));
        parts.refuse("its authentication service is not known");
        return;
    };
    if scheme != "http" {
        node.mark(
            report,
            &Verdict::not_supported(
                "the service is asked over TLS: its routes are refused",
                Some("write a pool with tls = {} and auth = { forward = \"pool:NAME\" }"),
            ),
        );
        parts.refuse("its authentication service is asked over TLS");
        return;
    }
    let mut keys: Vec<(String, DraftValue)> = vec![("forward".to_owned(), endpoint.into())];
    let path = match path.strip_prefix('?') {
        Some(query) => format!("/?{query}"),
        None => path.to_owned(),
    };
    let unknown = !is_known(&path);
    let path = if unknown {
        super::rule::stand_ins(&path)
    } else {
        path
    };
    if !matches!(path.as_str(), "" | "/") {
        keys.push(("path".to_owned(), path.into()));
    }
    for (key, node) in node.fields() {
        let verdict = match key.to_ascii_lowercase().as_str() {
            "address" if unknown => Verdict::differs(
                "a part of its path is not known here: write the real one in place of example.com",
            ),
            "address" => Verdict::Converted,
            "trustforwardheader" => Verdict::Default,
            "authresponseheaders" => {
                let (mut copy, mut not) = (Vec::new(), Vec::new());
                for name in node.items() {
                    let name = name.to_ascii_lowercase();
                    let ours = name.starts_with("x-forwarded-")
                        || matches!(
                            name.as_str(),
                            "forwarded"
                                | "x-request-id"
                                | "host"
                                | "via"
                                | "expect"
                                | "max-forwards"
                        );
                    match fields::is_name(&name) && !ours && !is_of_connection(&name) {
                        true => copy.push(name),
                        false => {
                            if fields::is_name(&name) && !is_of_connection(&name) && name != "host"
                            {
                                // A client must not send what the service would have set.
                                parts.request_headers.push((name.clone(), false.into()));
                            }
                            not.push(name);
                        }
                    }
                }
                if !copy.is_empty() {
                    keys.push(("copy".to_owned(), copy.into()));
                }
                match not.is_empty() {
                    true => Verdict::Converted,
                    false => Verdict::differs(format!(
                        "{} cannot be copied: the field is removed",
                        not.join(", ")
                    )),
                }
            }
            "authresponseheadersregex" => {
                parts.refuse("it copies fields by a pattern");
                Verdict::not_supported(
                    "fields are copied by name: its routes are refused, since clients could send them",
                    None,
                )
            }
            "authrequestheaders" => Verdict::differs("the service gets all fields of the request"),
            "preservelocationheader"
            | "preserverequestmethod"
            | "forwardbody"
            | "maxbodysize"
            | "addauthcookiestoresponse"
            | "headerfield" => Verdict::not_supported(
                "the service is asked by GET, without the body, and its fields are copied to requests alone",
                None,
            ),
            "tls" => {
                node.mark(report, &Verdict::Default);
                continue;
            }
            _ => continue,
        };
        node.set(report, verdict);
    }
    if !parts.set("auth", DraftValue::Inline(keys)) {
        parts.refuse("it needs two kinds of authentication");
        node.mark(
            report,
            &Verdict::not_supported(
                "Lockgate asks one kind of authentication: its routes are refused",
                None,
            ),
        );
    }
}

/// Reads it.
pub(super) fn allow(
    node: &TraefikNode,
    item: &TraefikItem,
    context: RouteContext<'_>,
    report: &mut ConversionReport,
    parts: &mut RouteParts,
) {
    parts.guards.insert(item.name.clone());
    let ranges = node
        .field("sourceRange")
        .map(TraefikNode::items)
        .unwrap_or_default();
    if ranges.is_empty() || !ranges.iter().all(|range| is_network(range)) {
        node.mark(
            report,
            &Verdict::not_supported(
                "a network of it cannot be read, or is not known here: its routes are refused",
                None,
            ),
        );
        parts.refuse("the networks that it allows are not known");
        return;
    }
    let mut verdict = Verdict::Converted;
    if context.trusted {
        verdict = Verdict::differs(
            "the address is the one that the `trusted` proxies name, not that of the proxy",
        );
    }
    if let Some(strategy) = node.field("ipStrategy") {
        strategy.mark(
            report,
            &Verdict::not_supported(
                "the client's address comes from the `trusted` proxies: its routes are refused",
                Some("name the proxies in `trusted`, and remove the refusal"),
            ),
        );
        parts.refuse("the address that it judges by is another one");
    }
    if let Some(status) = node.field("rejectStatusCode") {
        status.set(
            report,
            if status.number() == Some(403) {
                Verdict::Default
            } else {
                Verdict::differs("refused clients get 403")
            },
        );
    }
    if let Some(range) = node.field("sourceRange") {
        range.set(report, verdict);
    }
    if !parts.set("allow", ranges.into()) {
        parts.refuse("two lists of networks must both allow a client");
        node.mark(
            report,
            &Verdict::not_supported(
                "Lockgate takes one list of networks: its routes are refused",
                None,
            ),
        );
    }
}
