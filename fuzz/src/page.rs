//! Pages: how a document arrives does not matter, what is kept of it is bounded, and what it names is asked for as a
//! request can say it.

use lockgate_load::page::html::{HtmlToken, Tag, Tokenizer};
use lockgate_load::page::reference::{Base, UrlReference};
use lockgate_load::target::Url;

/// Attributes with URLs.
const NAMES: [&str; 4] = ["href", "src", "srcset", "poster"];

/// Any bytes as a document.
pub fn page_html(data: &[u8]) {
    let whole = read([data]);
    for cut in crate::cuts(data.len()) {
        assert_eq!(read([&data[..cut], &data[cut..]]), whole, "cut at {cut}");
    }
    assert_eq!(read(data.chunks(1)), whole, "byte by byte");
    let mut base = Base::new(&Url::parse("http://a.test/b/c?d").expect("a URL"));
    for tag in &whole.tags {
        // What is found is not made of nothing: a tag has its name and its brackets in the document.
        assert!(!tag.name().is_empty() && tag.name().len() <= 32);
        for value in NAMES.iter().filter_map(|name| tag.attribute(name)) {
            resolved(&base, &value);
            if tag.name() == b"base" {
                base.rebase(&value);
            }
        }
    }
    resolved(&base, data);
}

/// What a document says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    tags: Vec<Tag>,
    ends: Vec<Vec<u8>>,
    style: Vec<u8>,
}

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let (mut tokenizer, mut read) = (Tokenizer::new(), Read::default());
    for piece in pieces {
        tokenizer.feed(piece, &mut |token| match token {
            HtmlToken::Start(tag) => read.tags.push(tag.clone()),
            HtmlToken::End(name) => read.ends.push(name.to_vec()),
            HtmlToken::Style(text) => read.style.extend_from_slice(text),
        });
    }
    read
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
