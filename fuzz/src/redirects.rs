//! Files of redirects.

use lockgate_config::{MapProblem, RedirectLine, parse_redirects, redirect_lines};

/// Any text as a file of redirects.
pub fn redirect_map(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let lines = text.split('\n').count();
    match parse_redirects(text) {
        Ok(map) => {
            let entries: Vec<RedirectLine> = redirect_lines(text)
                .map(|line| line.expect("a valid line"))
                .collect();
            assert!(entries.len() <= lines && entries.len() == map.len());
            for RedirectLine {
                from, to, status, ..
            } in &entries
            {
                let (path, to) = (from.to_string(), to.written(from));
                let path = path.strip_suffix("/*").unwrap_or(&path);
                assert!(path.is_empty() || path.starts_with('/'));
                assert!(!path.contains(['\0', '\\', '{', '}', '*']));
                assert!(
                    path.split('/')
                        .all(|segment| !matches!(segment, "." | ".."))
                );
                let elsewhere = to.starts_with("http://") || to.starts_with("https://");
                assert!(elsewhere || to.starts_with('/') && !to.starts_with("//"));
                assert!(to.bytes().all(|byte| byte.is_ascii_graphic()));
                assert!(matches!(status, 301 | 302 | 303 | 307 | 308));
            }
            // What was read means the same when it is written anew, each character of a path
            // encoded.
            let anew: String = entries
                .iter()
                .map(
                    |RedirectLine {
                         from, to, status, ..
                     }| {
                        let path = from.to_string();
                        let (path, star) = match path.strip_suffix("/*") {
                            Some(path) => (path, "/*"),
                            None => (&*path, ""),
                        };
                        let encoded: String = path
                            .bytes()
                            .map(|byte| {
                                if byte == b'/' {
                                    "/".to_owned()
                                } else {
                                    format!("%{byte:02X}")
                                }
                            })
                            .collect();
                        format!("{encoded}{star}\t{} {status}\n", to.written(from))
                    },
                )
                .collect();
            // A path that leads to what it was written as is refused, and a line can grow too long.
            if let Ok(again) = parse_redirects(&anew) {
                assert_eq!(again, map);
            }
        }
        Err(mistakes) => {
            assert!((1..=lines).contains(&mistakes.len()));
            assert!(mistakes.is_sorted_by(|one, next| one.line < next.line));
            for mistake in mistakes {
                let marked = text.get(mistake.span.clone()).expect("a place in the text");
                assert!(!marked.is_empty() && !marked.contains('\n'));
                assert_eq!(
                    text[..mistake.span.start].matches('\n').count() + 1,
                    mistake.line
                );
                if let MapProblem::Twice(first) = mistake.problem {
                    assert!(first.end < mistake.span.start && text.get(first).is_some());
                }
            }
        }
    }
}
