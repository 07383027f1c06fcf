//! The request target that is sent to the origin: as received, without its prefix, or from a
//! template.

use crate::pattern::Pattern;
use crate::template::{RequestValues, Template};

/// The change of the request target by a route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TargetRewrite {
    /// Unchanged.
    #[default]
    None,
    /// Without the text that the pattern has before `/*`, otherwise unchanged: with `/api/*`,
    /// `/api/v1` becomes `/v1`, and `/api/` and `/api` become `/`.
    StripPrefix,
    /// Rendered from a template for [`Purpose::Target`](crate::Purpose::Target).
    Template(Template),
}

impl TargetRewrite {
    /// Appends the new target of a request that matched `pattern`.
    pub fn write(&self, pattern: &Pattern, values: &RequestValues<'_>, out: &mut Vec<u8>) {
        let path = match self {
            Self::None => values.path,
            Self::StripPrefix => match pattern.split(values.path) {
                // A pattern without a star has no prefix to remove.
                _ if !pattern.is_prefix() => values.path,
                (_, []) => b"/",
                (_, rest) => rest,
            },
            Self::Template(template) => return template.render(values, out),
        };
        out.extend_from_slice(path);
        if let Some(query) = values.query {
            out.push(b'?');
            out.extend_from_slice(query);
        }
    }

    /// The new target of a request that matched `pattern`; `None` if it is unchanged.
    pub fn rewritten(&self, pattern: &Pattern, values: &RequestValues<'_>) -> Option<Vec<u8>> {
        (*self != Self::None).then(|| {
            let mut target = Vec::new();
            self.write(pattern, values, &mut target);
            target
        })
    }

    /// The removed prefix of the path. URLs in the origin's responses lack it.
    pub fn stripped<'p>(&self, pattern: &Pattern, path: &'p [u8]) -> &'p [u8] {
        match self {
            Self::StripPrefix if pattern.is_prefix() => pattern.split(path).0,
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Purpose;
    use crate::template::tests::values;

    fn rewritten(
        rewrite: &TargetRewrite,
        pattern: &str,
        path: &str,
        query: Option<&str>,
    ) -> String {
        let mut out = Vec::new();
        rewrite.write(
            &Pattern::parse(pattern).unwrap(),
            &values(path, query),
            &mut out,
        );
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strip_prefix_forwards_all_other_bytes_unchanged() {
        for (pattern, path, query, target) in [
            ("/api/*", "/api/v1", None, "/v1"),
            ("/api/*", "/api", None, "/"),
            ("/api/*", "/api/", None, "/"),
            ("/api/*", "/api", Some("a?b"), "/?a?b"),
            ("/api/*", "/api/", Some(""), "/?"),
            (
                "/api/*",
                "/%61p%69/%76%31;x=%2C",
                Some("%zz"),
                "/%76%31;x=%2C?%zz",
            ),
            ("/api/*", "/api//v1/", None, "//v1/"),
            ("/api/*", "/api/api/x", None, "/api/x"),
            ("/api/*", "//api/x", None, "/x"),
            ("/t/{tenant}/*", "//t///a//x/y", None, "//x/y"),
            ("/t/{tenant}/*", "/t/%41/x", None, "/x"),
            ("/*", "/a", None, "/a"),
            ("/a", "/a", None, "/a"),
        ] {
            let strip = TargetRewrite::StripPrefix;
            assert_eq!(
                rewritten(&strip, pattern, path, query),
                target,
                "{pattern} {path}"
            );
            let whole = format!(
                "{path}{}",
                query.map(|query| format!("?{query}")).unwrap_or_default()
            );
            assert_eq!(rewritten(&TargetRewrite::None, pattern, path, query), whole);
        }
    }

    #[test]
    fn the_stripped_prefix_is_known() {
        let pattern = Pattern::parse("/t/{tenant}/*").unwrap();
        assert_eq!(
            TargetRewrite::StripPrefix.stripped(&pattern, b"/t/%41/x"),
            b"/t/%41"
        );
        assert_eq!(TargetRewrite::None.stripped(&pattern, b"/t/%41/x"), b"");
        assert_eq!(
            TargetRewrite::StripPrefix.stripped(&Pattern::parse("/a").unwrap(), b"/a"),
            b""
        );
    }

    #[test]
    fn a_rewrite_template_replaces_the_request_target() {
        let pattern = Pattern::parse("/api/*").unwrap();
        let template = Template::parse("/v1/{*}", Purpose::Target, &pattern).unwrap();
        assert_eq!(
            rewritten(
                &TargetRewrite::Template(template),
                "/api/*",
                "/api/a",
                Some("b")
            ),
            "/v1/a?b"
        );
    }
}
