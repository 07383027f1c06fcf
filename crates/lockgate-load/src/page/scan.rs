//! Preload scanner: the objects of a page in the order of the document, as a browser's preload
//! scanner finds them, each with its kind and priority.

use std::cell::RefCell;
use std::rc::Rc;

use lol_html::html_content::Element;
use lol_html::{HtmlRewriter, MemorySettings, Settings, element, end_tag, text};

use super::characters;
use super::reference::{Base, UrlReference};
use super::result::ObjectKind;
use super::style::{StyleScanner, UrlUse};

/// Priority of a fetch; objects of one priority are fetched in the order of the document.
///
/// Three of the classes of browsers, which also change them after layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FetchPriority {
    /// Render-blocking: style sheets, scripts that block the parser, fonts.
    First,
    /// Scripts that do not block: async, defer, modules.
    Second,
    /// Images, media and icons, which block nothing.
    Last,
}

/// An object that a page or style sheet names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundObject {
    /// Kind, as far as element and attributes say.
    pub kind: ObjectKind,
    /// When it is fetched.
    pub priority: FetchPriority,
    /// Where it is.
    pub reference: UrlReference,
}

/// Scanner of a page or style sheet.
pub struct ObjectScanner(Scanner);

enum Scanner {
    Page(PageScanner),
    Sheet { style: StyleScanner, base: Base },
}

impl ObjectScanner {
    /// A scanner of an HTML document.
    pub fn page(base: Base) -> Self {
        Self(Scanner::Page(PageScanner::new(base)))
    }

    pub(super) fn sheet(base: Base) -> Self {
        let style = StyleScanner::new();
        Self(Scanner::Sheet { style, base })
    }

    /// Scans the next bytes; `each` gets the objects in them.
    pub fn feed(&mut self, input: &[u8], each: &mut impl FnMut(FoundObject)) {
        match &mut self.0 {
            Scanner::Page(page) => page.feed(input, each),
            Scanner::Sheet { style, base } => {
                style.feed(input, &mut |used_for, url| {
                    each_named(base, used_for, url, each);
                });
            }
        }
    }
}

/// Elements that name objects or contain elements that do.
const ELEMENTS: &str =
    "audio, base, img, input, link, picture, script, source, style, template, video";
/// Memory limit of unfinished tags and open elements, in bytes; tags with inline images are long.
const MAX_MEMORY: usize = 4 << 20;

/// A rewriter with an output that is discarded.
type Rewriter = HtmlRewriter<'static, fn(&[u8])>;

/// Scanner of a page: lol_html finds the elements.
struct PageScanner {
    /// `None` after a tag beyond the memory limit: the rest of the page is not scanned.
    rewriter: Option<Box<Rewriter>>,
    finder: Rc<RefCell<ObjectFinder>>,
}

impl PageScanner {
    fn new(base: Base) -> Self {
        let finder = Rc::new(RefCell::new(ObjectFinder {
            base,
            rebased: false,
            template: 0,
            picture: Choice::None,
            media: Choice::None,
            style: StyleScanner::new(),
            found: Vec::new(),
        }));
        let (elements, styles) = (Rc::clone(&finder), Rc::clone(&finder));
        let memory = MemorySettings::new().with_max_allowed_memory_usage(MAX_MEMORY);
        let settings = Settings::new()
            .with_strict(false)
            .with_memory_settings(memory)
            .append_element_content_handler(element!(ELEMENTS, move |element| {
                elements.borrow_mut().start(element);
                if element.can_have_content() {
                    let ends = Rc::clone(&elements);
                    element.on_end_tag(end_tag!(move |tag| {
                        ends.borrow_mut().end(&tag.name());
                        Ok(())
                    }))?;
                }
                Ok(())
            }))
            .append_element_content_handler(text!("style", move |text| {
                styles.borrow_mut().style_text(text.as_str().as_bytes());
                Ok(())
            }));
        let discard: fn(&[u8]) = |_| ();
        Self {
            rewriter: Some(Box::new(Rewriter::new(settings, discard))),
            finder,
        }
    }

    fn feed(&mut self, input: &[u8], each: &mut impl FnMut(FoundObject)) {
        if let Some(rewriter) = &mut self.rewriter
            && rewriter.write(input).is_err()
        {
            self.rewriter = None;
        }
        for found in self.finder.borrow_mut().found.drain(..) {
            each(found);
        }
    }
}

/// A browser's choice among several sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// There is no choice to make.
    None,
    /// The next source is taken.
    Open,
    /// A source was taken, or none is fetched.
    Made,
}

#[derive(Debug)]
struct ObjectFinder {
    base: Base,
    rebased: bool,
    /// Depth within templates, which are inert (WHATWG HTML §4.12.3).
    template: usize,
    picture: Choice,
    media: Choice,
    /// Scanner of the current style element.
    style: StyleScanner,
    found: Vec<FoundObject>,
}

/// The value of an attribute, character references replaced.
fn attribute(tag: &Element<'_, '_>, name: &str) -> Option<Vec<u8>> {
    let value = tag.get_attribute(name)?;
    Some(characters::decode(value.as_bytes()))
}

impl ObjectFinder {
    fn end(&mut self, name: &str) {
        match name {
            "template" => self.template = self.template.saturating_sub(1),
            _ if self.template > 0 => {}
            "picture" => self.picture = Choice::None,
            "video" | "audio" => self.media = Choice::None,
            "style" => self.style = StyleScanner::new(),
            _ => {}
        }
    }

    fn style_text(&mut self, text: &[u8]) {
        if self.template == 0 {
            let (base, found) = (&self.base, &mut self.found);
            self.style.feed(text, &mut |used_for, url| {
                each_named(base, used_for, url, &mut |each| found.push(each))
            });
        }
    }

    fn start(&mut self, tag: &Element<'_, '_>) {
        let name = tag.tag_name();
        if name == "template" && tag.can_have_content() {
            self.template += 1;
        }
        if self.template > 0 {
            return;
        }
        let (base, objects) = (&self.base, &mut self.found);
        let mut find = |kind, priority, written: Option<Vec<u8>>| {
            if let Some(reference) = written.and_then(|written| base.resolve(&written)) {
                objects.push(FoundObject {
                    kind,
                    priority,
                    reference,
                });
            }
        };
        match name.as_bytes() {
            b"base" if !self.rebased => {
                if let Some(href) = attribute(tag, "href") {
                    self.base.rebase(&href);
                    self.rebased = true;
                }
            }
            b"script" if is_javascript(tag) => {
                let waits = ["async", "defer"]
                    .iter()
                    .all(|name| attribute(tag, name).is_none());
                let priority = if waits && !is_module(tag) {
                    FetchPriority::First
                } else {
                    FetchPriority::Second
                };
                find(ObjectKind::Script, priority, attribute(tag, "src"));
            }
            b"link" => {
                if let Some((kind, priority)) = link(tag) {
                    find(kind, priority, attribute(tag, "href"));
                }
            }
            b"picture" => self.picture = Choice::Open,
            b"source" if self.picture == Choice::Open => {
                if let Some(srcset) = attribute(tag, "srcset") {
                    find(
                        ObjectKind::Image,
                        FetchPriority::Last,
                        Some(candidate(&srcset)),
                    );
                    self.picture = Choice::Made;
                }
            }
            b"img" => {
                let srcset = attribute(tag, "srcset").map(|srcset| candidate(&srcset));
                if self.picture != Choice::Made {
                    find(
                        ObjectKind::Image,
                        FetchPriority::Last,
                        srcset.or_else(|| attribute(tag, "src")),
                    );
                }
            }
            b"video" | b"audio" => {
                find(
                    ObjectKind::Image,
                    FetchPriority::Last,
                    attribute(tag, "poster"),
                );
                let none =
                    attribute(tag, "preload").is_some_and(|how| how.eq_ignore_ascii_case(b"none"));
                let source = attribute(tag, "src").filter(|_| !none);
                self.media = if none || source.is_some() {
                    Choice::Made
                } else {
                    Choice::Open
                };
                find(ObjectKind::Media, FetchPriority::Last, source);
            }
            b"source" if self.media == Choice::Open => {
                if let Some(source) = attribute(tag, "src") {
                    find(ObjectKind::Media, FetchPriority::Last, Some(source));
                    self.media = Choice::Made;
                }
            }
            b"input"
                if attribute(tag, "type")
                    .is_some_and(|kind| kind.eq_ignore_ascii_case(b"image")) =>
            {
                find(
                    ObjectKind::Image,
                    FetchPriority::Last,
                    attribute(tag, "src"),
                );
            }
            _ => {}
        }
    }
}

fn each_named(base: &Base, used_for: UrlUse, url: &[u8], each: &mut impl FnMut(FoundObject)) {
    let (kind, priority) = match used_for {
        UrlUse::Import => (ObjectKind::Style, FetchPriority::First),
        UrlUse::Font => (ObjectKind::Font, FetchPriority::First),
        UrlUse::Image => (ObjectKind::Image, FetchPriority::Last),
    };
    if let Some(reference) = base.resolve(url) {
        each(FoundObject {
            kind,
            priority,
            reference,
        });
    }
}

/// Kind and priority of a link that is fetched (WHATWG HTML §4.6.8).
fn link(tag: &Element<'_, '_>) -> Option<(ObjectKind, FetchPriority)> {
    let rel = attribute(tag, "rel")?.to_ascii_lowercase();
    let says = |word: &[u8]| rel.split(u8::is_ascii_whitespace).any(|one| one == word);
    if says(b"stylesheet") {
        let wanted = !says(b"alternate") && attribute(tag, "disabled").is_none();
        return wanted.then_some((ObjectKind::Style, FetchPriority::First));
    }
    if says(b"modulepreload") {
        return Some((ObjectKind::Script, FetchPriority::Second));
    }
    if says(b"preload") {
        return match &*attribute(tag, "as")?.to_ascii_lowercase() {
            b"style" => Some((ObjectKind::Style, FetchPriority::First)),
            b"script" => Some((ObjectKind::Script, FetchPriority::First)),
            b"font" => Some((ObjectKind::Font, FetchPriority::First)),
            b"image" => Some((ObjectKind::Image, FetchPriority::Last)),
            b"fetch" => Some((ObjectKind::Other, FetchPriority::Second)),
            b"track" => Some((ObjectKind::Media, FetchPriority::Last)),
            // Other destinations are not fetched.
            _ => None,
        };
    }
    says(b"icon").then_some((ObjectKind::Icon, FetchPriority::Last))
}

/// Whether a browser runs the script (WHATWG HTML §4.12.1.1).
fn is_javascript(tag: &Element<'_, '_>) -> bool {
    if attribute(tag, "nomodule").is_some() && !is_module(tag) {
        return false;
    }
    let Some(kind) = attribute(tag, "type") else {
        return true;
    };
    let kind = kind.trim_ascii().to_ascii_lowercase();
    kind.is_empty()
        || kind == b"module"
        || kind.ends_with(b"javascript")
        || kind.ends_with(b"ecmascript")
}

fn is_module(tag: &Element<'_, '_>) -> bool {
    attribute(tag, "type").is_some_and(|kind| kind.trim_ascii().eq_ignore_ascii_case(b"module"))
}

/// The URL of the first candidate of a srcset (WHATWG HTML §4.8.4.2.1).
fn candidate(srcset: &[u8]) -> Vec<u8> {
    let begin = srcset
        .iter()
        .position(|byte| !byte.is_ascii_whitespace() && *byte != b',');
    let rest = &srcset[begin.unwrap_or(srcset.len())..];
    let url = &rest[..rest
        .iter()
        .position(u8::is_ascii_whitespace)
        .unwrap_or(rest.len())];
    let end = url
        .iter()
        .rposition(|byte| *byte != b',')
        .map_or(0, |last| last + 1);
    url[..end].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Url;

    fn found(document: &str) -> Vec<String> {
        let scan = |piece: usize| {
            let base = Base::new(&Url::parse("http://a/dir/page").unwrap());
            let (mut scanner, mut found) = (ObjectScanner::page(base), Vec::new());
            for bytes in document.as_bytes().chunks(piece) {
                scanner.feed(bytes, &mut |each| {
                    let (UrlReference::Same(to) | UrlReference::Other(to)) = each.reference;
                    found.push(format!("{:?} {:?} {to}", each.priority, each.kind));
                });
            }
            found
        };
        let whole = scan(usize::MAX);
        assert_eq!(scan(1), whole, "byte by byte: {document}");
        whole
    }

    #[test]
    fn each_kind_of_object_is_found_with_its_priority() {
        for (document, expected) in [
            (
                "<link rel=stylesheet href=a.css>",
                vec!["First Style /dir/a.css"],
            ),
            (
                "<link rel='Shortcut ICON' href=/i.ico>",
                vec!["Last Icon /i.ico"],
            ),
            (
                "<link rel='alternate stylesheet' href=a><link rel=stylesheet disabled href=b>",
                vec![],
            ),
            (
                "<link rel=preload as=font href=f><link rel=preload href=x>",
                vec!["First Font /dir/f"],
            ),
            (
                "<link rel=modulepreload href=m.js>",
                vec!["Second Script /dir/m.js"],
            ),
            (
                "<link rel=canonical href=c><link rel=next href=n><a href=x>",
                vec![],
            ),
            (
                "<script src=a.js></script><script async src=b.js></script><script type=module src=c.js></script>",
                vec![
                    "First Script /dir/a.js",
                    "Second Script /dir/b.js",
                    "Second Script /dir/c.js",
                ],
            ),
            (
                "<script type=text/JavaScript src=a></script><script type=application/json src=b></script>\
                 <script nomodule src=c></script><script>'<img src=d>'</script>",
                vec!["First Script /dir/a"],
            ),
            (
                "<img src=a.png><img srcset='b.png 1x, c.png 2x' src=d.png>",
                vec!["Last Image /dir/a.png", "Last Image /dir/b.png"],
            ),
            (
                "<picture><source srcset='a.avif'><source srcset=b.webp><img src=c.png></picture><img src=d.png>",
                vec!["Last Image /dir/a.avif", "Last Image /dir/d.png"],
            ),
            (
                "<video poster=p.jpg><source src=a.webm><source src=b.mp4></video><audio src=c.ogg></audio>",
                vec![
                    "Last Image /dir/p.jpg",
                    "Last Media /dir/a.webm",
                    "Last Media /dir/c.ogg",
                ],
            ),
            ("<video preload=none src=a><source src=b></video>", vec![]),
            (
                "<template><img src=a></template><img src=b>",
                vec!["Last Image /dir/b"],
            ),
            (
                "<noscript><img src=a></noscript><!-- <img src=b> -->",
                vec![],
            ),
            (
                "<base href=/other/><base href=/x/><img src=a>",
                vec!["Last Image /other/a"],
            ),
            (
                "<style>@import 'a.css';p{b:url(c.png)}</style>",
                vec!["First Style /dir/a.css", "Last Image /dir/c.png"],
            ),
            (
                "<img src='data:image/png;base64,AA'><img src=//b/c>",
                vec!["Last Image http://b/c"],
            ),
            (
                "<input type=image src=a><input src=b>",
                vec!["Last Image /dir/a"],
            ),
        ] {
            assert_eq!(found(document), expected, "{document}");
        }
    }

    #[test]
    fn markup_is_found_where_browsers_find_it() {
        for (document, expected) in [
            ("a < b <3 <<img src=a>", vec!["a"]),
            ("<img/src='a>b'alt>", vec!["a%3Eb"]),
            ("<IMG SRC=a SRC=b>", vec!["a"]),
            ("<img src=x/y?z=1&amp;w=2>", vec!["x/y?z=1&w=2"]),
            ("<![CDATA[<img src=a>]]><img src=b>", vec!["b"]),
            (
                "<!--><img src=a><!-- --!><img src=b><!-- <img src=c>",
                vec!["a", "b"],
            ),
            ("<script>'</p><img src=a>'</script x><img src=b>", vec!["b"]),
            (
                "<script><!-- <script> </script> <img src=a> --></script><img src=b>",
                vec!["b"],
            ),
            ("<script><!-- <script> --></script><img src=b>", vec!["b"]),
            (
                "<title><img src=a></title><textarea><img src=b></textarea>",
                vec![],
            ),
            ("<plaintext><img src=a></plaintext><img src=b>", vec![]),
            // Foreign elements (WHATWG HTML §13.2.6.5).
            ("<svg><![CDATA[<img src=a>]]></svg><img src=b>", vec!["b"]),
            ("<svg><template/><style/></svg><img src=b>", vec!["b"]),
        ] {
            let expected = expected.iter().map(|url| format!("Last Image /dir/{url}"));
            assert_eq!(found(document), expected.collect::<Vec<_>>(), "{document}");
        }
    }

    #[test]
    fn a_tag_beyond_the_memory_limit_ends_the_scan() {
        let base = Base::new(&Url::parse("http://a/").unwrap());
        let (mut scanner, mut found) = (ObjectScanner::page(base), 0);
        let long = "x".repeat(MAX_MEMORY);
        for piece in ["<img src=a><img title='", &long, "' src=b>", "<img src=c>"] {
            scanner.feed(piece.as_bytes(), &mut |_| found += 1);
        }
        assert_eq!(found, 1);
    }

    #[test]
    fn the_first_candidate_of_a_set_is_taken_without_its_comma() {
        for (srcset, url) in [
            ("a.png 1x, b.png 2x", "a.png"),
            (" , a.png, b.png 2x", "a.png"),
            ("a,b.png 100w", "a,b.png"),
            ("", ""),
            (" ,, ", ""),
        ] {
            assert_eq!(
                String::from_utf8(candidate(srcset.as_bytes())).unwrap(),
                url,
                "{srcset}"
            );
        }
    }
}
