//! Redirects by patterns of URLs: the usual forms, for a host that is known.

/// What a pattern does with the requests for a host.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RedirectOutcome {
    /// All are redirected there.
    All(String),
    /// These paths are redirected there.
    Paths(Vec<String>, String),
    /// None matches.
    Nothing,
    /// It is none of the known forms.
    Unknown,
}

/// The rest of the URL, with its first slash, in a replacement.
const REST: char = '\u{1}';
/// The rest without that slash.
const REST_BARE: char = '\u{2}';

/// Applies a pattern to the URLs of a host; `scheme` is that of the requests.
pub(super) fn apply(regex: &str, with: &str, scheme: &str, host: &str) -> RedirectOutcome {
    let regex = regex.replace("\\/", "/").replace("(?i)", "");
    let body = regex.strip_prefix('^').unwrap_or(&regex);
    let mut groups: Vec<String> = Vec::new();
    if matches!(
        body,
        ".*" | ".+" | "(.*)" | "(.+)" | ".*$" | "(.*)$" | ".+$"
    ) {
        return match with.contains('$') {
            true => RedirectOutcome::Unknown,
            false => all(with, &groups),
        };
    }
    // The scheme.
    let schemes = ["http", "https"];
    let forms: [(&str, &[&str], bool); 9] = [
        ("https?://", &schemes, false),
        ("http(s)?://", &schemes, false),
        ("(https?)://", &schemes, true),
        ("(https?://)", &schemes, true),
        ("(http|https)://", &schemes, true),
        ("https://", &["https"], false),
        ("http://", &["http"], false),
        ("(.*)://", &schemes, true),
        (".*://", &schemes, false),
    ];
    let Some((form, matching, group)) = forms.iter().find(|(form, ..)| body.starts_with(form))
    else {
        return RedirectOutcome::Unknown;
    };
    if !matching.contains(&scheme) {
        return RedirectOutcome::Nothing;
    }
    if *group {
        let colon = if form.contains("://)") { "://" } else { "" };
        groups.push(format!("{scheme}{colon}"));
    } else if form.contains("(s)") {
        groups.push(if scheme == "https" {
            "s".to_owned()
        } else {
            String::new()
        });
    }
    let body = body.get(form.len()..).unwrap_or("");
    let body = body.strip_suffix('$').unwrap_or(body);
    let (hosts, tail) = split(body);
    // The host, and perhaps the rest with it.
    let optional = ["(?:www\\.)?", "(www\\.)?", "(?:www.)?", "(www.)?"];
    let mut hosts = hosts;
    let mut name = host.to_owned();
    for form in optional {
        if let Some(rest) = hosts.strip_prefix(form) {
            let www = host.strip_prefix("www.");
            if !form.contains("?:") {
                groups.push(if www.is_some() {
                    "www.".to_owned()
                } else {
                    String::new()
                });
            }
            hosts = rest;
            name = www.unwrap_or(host).to_owned();
            break;
        }
    }
    let mut whole = false;
    match hosts {
        "(.*)" | "(.+)" => {
            // Without more after it, it takes the rest of the URL too.
            whole = tail.is_empty();
            groups.push(if whole {
                format!("{name}{REST}")
            } else {
                name.clone()
            });
        }
        "([^/]+)" | "([^/]*)" => groups.push(name.clone()),
        "[^/]+" | "[^/]*" | ".*" => {}
        _ => {
            let (literal, group) = match ["(.*)", "(.+)", "([^/]+)"]
                .iter()
                .find_map(|form| Some((hosts.strip_suffix(form)?, *form)))
            {
                Some((literal, form)) => (literal, Some(form)),
                None => (hosts, None),
            };
            let literal = literal.replace("\\.", ".").to_ascii_lowercase();
            let plain = literal
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
            if !plain {
                return RedirectOutcome::Unknown;
            }
            match group {
                // `www\.(.*)`
                Some(form) => match name.strip_prefix(literal.as_str()) {
                    Some(rest) if !rest.is_empty() => {
                        whole = tail.is_empty() && form != "([^/]+)";
                        groups.push(if whole {
                            format!("{rest}{REST}")
                        } else {
                            rest.to_owned()
                        });
                    }
                    Some(_) => return RedirectOutcome::Unknown,
                    None => return RedirectOutcome::Nothing,
                },
                None if literal == name => {}
                None => return RedirectOutcome::Nothing,
            }
        }
    }
    match tail {
        "" if whole => {}
        "/(.*)" | "/?(.*)" | "/(.+)" => groups.push(REST_BARE.to_string()),
        "(.*)" | "(/.*)" | "(/.*)?" | "(.+)" => groups.push(REST.to_string()),
        // The rest stays as it is.
        "" => return all(&format!("{with}{REST}"), &groups),
        "/.*" | "/?.*" | ".*" | "/" if !with.contains('$') || tail != "/" => {
            let with = if tail == "/" {
                format!("{with}{REST_BARE}")
            } else {
                with.to_owned()
            };
            return all(&with, &groups);
        }
        tail => {
            let Some(paths) = literal_paths(tail, &mut groups) else {
                return RedirectOutcome::Unknown;
            };
            return match expand(with, &groups) {
                Some(to) if !to.contains([REST, REST_BARE]) && is_target(&to) => {
                    RedirectOutcome::Paths(paths, to)
                }
                _ => RedirectOutcome::Unknown,
            };
        }
    }
    all(with, &groups)
}

/// Splits the rest of a pattern into hosts and path, at the first slash outside of classes.
fn split(body: &str) -> (&str, &str) {
    let mut class = false;
    for (at, c) in body.char_indices() {
        match c {
            '[' => class = true,
            ']' => class = false,
            '/' if !class => {
                // `(/.*)` and `/?(.*)` begin with what is around the slash.
                let start = match body.get(..at) {
                    Some(before) if before.ends_with('(') => at - 1,
                    _ => at,
                };
                return body.split_at(start);
            }
            _ => {}
        }
    }
    // `host(.*)` with a literal host: the group is the rest.
    for form in ["(.*)", "(.+)"] {
        if let Some(literal) = body.strip_suffix(form)
            && literal.contains('.')
            && !literal.ends_with('.')
            && !literal.ends_with(")?")
        {
            return body.split_at(literal.len());
        }
    }
    (body, "")
}

/// The paths of a tail such as `/.well-known/(?:card|cal)dav`.
fn literal_paths(tail: &str, groups: &mut Vec<String>) -> Option<Vec<String>> {
    let tail = tail.strip_suffix("/?").unwrap_or(tail).replace("\\.", ".");
    let (before, alternatives, after) = match tail.split_once('(') {
        None => (tail.clone(), vec![String::new()], String::new()),
        Some((before, rest)) => {
            let (inner, after) = rest.split_once(')')?;
            let inner = match inner.strip_prefix("?:") {
                Some(inner) => inner,
                None => {
                    // The replacement would need the group.
                    groups.push('\u{3}'.to_string());
                    inner
                }
            };
            let list = inner.split('|').map(str::to_owned).collect();
            (before.to_owned(), list, after.to_owned())
        }
    };
    let paths: Vec<String> = alternatives
        .iter()
        .take(16)
        .map(|one| format!("{before}{one}{after}"))
        .collect();
    paths
        .iter()
        .all(|path| {
            super::rule::is_plain_path(path) && !path.contains(['(', ')', '[', ']', '+', '|', '^'])
        })
        .then_some(paths)
}

fn expand(with: &str, groups: &[String]) -> Option<String> {
    let mut out = String::new();
    let mut rest = with;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let (number, after) = match after.strip_prefix('{') {
            Some(inner) => inner.split_once('}')?,
            None => {
                let end = after
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .unwrap_or(after.len());
                after.split_at(end)
            }
        };
        let index = number.parse::<usize>().ok()?.checked_sub(1)?;
        out.push_str(groups.get(index)?);
        rest = after;
    }
    out.push_str(rest);
    (!out.contains('\u{3}')).then_some(out)
}

fn is_target(to: &str) -> bool {
    let good =
        |c: char| c.is_ascii_graphic() && !matches!(c, '{' | '}' | '$' | '"' | '\\' | '<' | '>');
    (to.starts_with("https://") || to.starts_with("http://"))
        && to.chars().all(good)
        && to.len() > 8
}

fn all(with: &str, groups: &[String]) -> RedirectOutcome {
    let Some(to) = expand(with, groups) else {
        return RedirectOutcome::Unknown;
    };
    let to = to.replace(&format!("/{REST_BARE}"), &REST.to_string());
    if to.contains(REST_BARE) {
        return RedirectOutcome::Unknown;
    }
    match to.split_once(REST) {
        None if is_target(&to) => RedirectOutcome::All(to),
        Some((target, "")) if is_target(target) && !target.contains('?') => {
            RedirectOutcome::All(format!("{}{{path}}", target.trim_end_matches('/')))
        }
        _ => RedirectOutcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_patterns_are_applied_to_a_host() {
        let all = |to: &str| RedirectOutcome::All(to.to_owned());
        for (regex, with, host, expected) in [
            (
                "^https?://www\\.(.*)",
                "https://${1}",
                "www.a.test",
                all("https://a.test{path}"),
            ),
            (
                "^https?://www\\.(.*)",
                "https://${1}",
                "a.test",
                RedirectOutcome::Nothing,
            ),
            (
                "^https://www.(.*)",
                "https://${1}",
                "www.a.test",
                all("https://a.test{path}"),
            ),
            (
                "^https://a\\.test/(.*)",
                "https://www.a.test/$1",
                "a.test",
                all("https://www.a.test{path}"),
            ),
            (
                "^https?://(?:www\\.)?a.test/(.*)",
                "https://b.test/x/${1}",
                "www.a.test",
                all("https://b.test/x{path}"),
            ),
            (".*", "https://b.test/y", "a.test", all("https://b.test/y")),
            (
                "^https?://a.test(.*)",
                "https://b.test$1",
                "a.test",
                all("https://b.test{path}"),
            ),
            (
                "https://(.*)/.well-known/(?:card|cal)dav",
                "https://${1}/remote.php/dav/",
                "a.test",
                RedirectOutcome::Paths(
                    vec![
                        "/.well-known/carddav".to_owned(),
                        "/.well-known/caldav".to_owned(),
                    ],
                    "https://a.test/remote.php/dav/".to_owned(),
                ),
            ),
            (
                "^(https?://[^/]+/x)$",
                "${1}/",
                "a.test",
                RedirectOutcome::Unknown,
            ),
            (
                "^http://a.test",
                "https://a.test",
                "a.test",
                RedirectOutcome::Nothing,
            ),
            ("/old/(.*)", "/$1", "a.test", RedirectOutcome::Unknown),
        ] {
            assert_eq!(
                apply(regex, with, "https", host),
                expected,
                "{regex} {host}"
            );
        }
    }
}
