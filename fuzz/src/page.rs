//! Pages: how a document arrives does not matter, and what it names is asked for as a request can
//! say it.

use lockgate_load::page::reference::{Base, UrlReference};
use lockgate_load::page::scan::{FoundObject, ObjectScanner};
use lockgate_load::target::Url;

/// Any bytes as a document.
pub fn page_html(data: &[u8]) {
    let base = Base::new(&Url::parse("http://a.test/b/c?d").expect("a URL"));
    let whole = found(&base, [data]);
    for cut in crate::cuts(data.len()) {
        assert_eq!(
            found(&base, [&data[..cut], &data[cut..]]),
            whole,
            "cut at {cut}"
        );
    }
    assert_eq!(found(&base, data.chunks(1)), whole, "byte by byte");
    for object in whole {
        let (UrlReference::Same(target) | UrlReference::Other(target)) = object.reference;
        resolved(&base, target.as_bytes());
    }
    resolved(&base, data);
}

/// The objects of a document.
fn found<'a>(base: &Base, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<FoundObject> {
    let (mut scanner, mut found) = (ObjectScanner::page(base.clone()), Vec::new());
    for piece in pieces {
        scanner.feed(piece, &mut |object| found.push(object));
    }
    found
}

fn resolved(base: &Base, written: &[u8]) {
    match base.resolve(written) {
        Some(UrlReference::Same(target)) => {
            assert!(
                target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic()),
                "{target}"
            );
            assert!(!target.contains('#'), "{target}");
            let path = target.split('?').next().unwrap_or_default();
            assert!(
                !path.split('/').any(|segment| matches!(segment, "." | "..")),
                "{target}"
            );
            // What is resolved already leads to itself, unless it begins like an authority.
            if !target.starts_with("//") {
                assert_eq!(
                    base.resolve(format!("http://a.test{target}").as_bytes()),
                    Some(UrlReference::Same(target))
                );
            }
        }
        Some(UrlReference::Other(url)) => {
            let parsed = Url::parse(&url).expect("a whole URL");
            assert!(
                parsed.host != "a.test" || parsed.port != 80 || url.starts_with("https"),
                "{url}"
            );
        }
        None => {}
    }
}
