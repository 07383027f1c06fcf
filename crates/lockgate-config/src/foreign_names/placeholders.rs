//! Placeholders and variables of other servers, found in texts, and ours for the same.

/// Placeholders of other servers, in lower case and without signs, and ours. Of several that match,
/// the longest counts.
const OTHERS: &[(&str, &str)] = &[
    (
        "request_uri uri http.request.uri http.request.orig_uri document_uri http.request.uri.path \
         http.request.orig_uri.path url urlpath path_and_query",
        "path",
    ),
    (
        "http_host hostport http.request.host http.request.hostport server_name http.vars.host req.host host",
        "host",
    ),
    (
        "args query_string is_args http.request.uri.query http.request.orig_uri.query querystring query",
        "query",
    ),
    (
        "http.request.scheme http_x_forwarded_proto request_scheme x_forwarded_proto scheme",
        "scheme",
    ),
    ("request_method http.request.method method", "method"),
    (
        "remote_addr client_ip remote_host remote http.request.remote http.request.remote.host realip_remote_addr \
         proxy_add_x_forwarded_for http_x_forwarded_for http_x_real_ip binary_remote_addr client.ip src client",
        "client",
    ),
    (
        "request_id uuid http.request.uuid http.request.id unique_id reqid id",
        "id",
    ),
    ("path", "path"),
];

/// Something in a text that another server would replace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Foreign<'a> {
    /// As it stands there, with its signs.
    pub(crate) written: &'a str,
    /// Our placeholder, if there is one.
    pub(crate) ours: Option<&'static str>,
    pub(crate) form: Form,
}

/// The notation of a placeholder of another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `$1`: a part of what a regular expression matched.
    Group,
    /// `$host` or `${host}`, of a name that is known.
    Dollar,
    /// `%[path]`, `%{HTTP_HOST}` or `{{ .Host }}`.
    Marked,
}

/// The first of them.
pub(crate) fn foreign(text: &str) -> Option<Foreign<'_>> {
    let marks = text.match_indices(['$', '%', '{']);
    marks.filter_map(|(at, _)| text.get(at..)).find_map(one)
}

/// Our placeholder for what others call `name`, in braces or without signs.
pub(crate) fn ours(name: &str) -> Option<&'static str> {
    let name = name
        .trim_matches(|c: char| !c.is_ascii_alphanumeric())
        .to_ascii_lowercase();
    let known = OTHERS
        .iter()
        .find(|(names, _)| names.split_ascii_whitespace().any(|one| one == name));
    known.map(|(_, ours)| *ours)
}

fn one(text: &str) -> Option<Foreign<'_>> {
    let closed =
        |open: usize, close: &str| text.get(..open + text.get(open..)?.find(close)? + close.len());
    let word = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        text.get(..from + end).unwrap_or_default()
    };
    let marked = |written: &'_ str| Foreign {
        written: "",
        ours: inner(written),
        form: Form::Marked,
    };
    match text {
        _ if text.starts_with("{{") => closed(2, "}}").map(|written| Foreign {
            written,
            ..marked(written)
        }),
        _ if text.starts_with("%[") => closed(2, "]").map(|written| Foreign {
            written,
            ..marked(written)
        }),
        _ if text.starts_with("%{") => closed(2, "}").map(|written| Foreign {
            written,
            ..marked(written)
        }),
        _ if text.starts_with("${") => {
            let written = closed(2, "}")?;
            let ours = ours(written)?;
            Some(Foreign {
                written,
                ours: Some(ours),
                form: Form::Dollar,
            })
        }
        _ if text.starts_with('$') => {
            let written = word(1);
            if written.len() == 2 && written.ends_with(|c: char| c.is_ascii_digit()) {
                return Some(Foreign {
                    written,
                    ours: None,
                    form: Form::Group,
                });
            }
            let ours = ours(written)?;
            Some(Foreign {
                written,
                ours: Some(ours),
                form: Form::Dollar,
            })
        }
        _ => None,
    }
}

/// The first word between the signs that is known: `req.hdr(host)` has two.
fn inner(written: &str) -> Option<&'static str> {
    ours(written).or_else(|| {
        written
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .find_map(ours)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_of_others_are_found_with_ours() {
        for (text, written, ours) in [
            ("https://a.b$request_uri", "$request_uri", Some("path")),
            ("https://$host$uri", "$host", Some("host")),
            ("https://${host}/", "${host}", Some("host")),
            ("/x/$1", "$1", None),
            ("%[req.hdr(host)]/x", "%[req.hdr(host)]", Some("host")),
            ("%[path]", "%[path]", Some("path")),
            ("https://%{HTTP_HOST}/", "%{HTTP_HOST}", Some("host")),
            ("{{ .Host }}", "{{ .Host }}", Some("host")),
            ("{{banana}}", "{{banana}}", None),
        ] {
            let found = foreign(text).unwrap();
            assert_eq!((found.written, found.ours), (written, ours), "{text}");
        }
        for text in [
            "",
            "$",
            "/x?$filter=a",
            "/$metadata",
            "100%",
            "%41",
            "%[",
            "{path}",
            "{{",
            "${env:HOST}",
            "$10",
            "US$ 5",
        ] {
            assert_eq!(foreign(text), None, "{text}");
        }
        assert_eq!(ours("http.request.uri"), Some("path"));
        assert_eq!(ours("banana"), None);
    }
}
