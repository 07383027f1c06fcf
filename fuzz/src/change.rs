//! Changes of bodies: a plan and a stream make the same of a document, however it arrives, and no value becomes markup.

use lockgate_content::Progress;
use lockgate_content::change::{
    ChangeError, Changer, Changes, Document, Edit, Part, Plan, Rule, Template,
};

const MAX: usize = 1 << 22;

/// What a client would like to be read as a tag.
const VALUE: &[u8] = b"<zq\"'>";

/// Rules, one in a line, an empty line, and any bytes as a document.
///
/// `t|find|with`, `p|pattern|with`, `s|selector|edit|with`, `a|selector|attribute|with`; `{0}` is a value.
pub fn change_body(data: &[u8]) {
    let Some(at) = data.windows(2).position(|two| two == b"\n\n") else {
        return;
    };
    let (Ok(head), content) = (std::str::from_utf8(&data[..at]), &data[at + 2..]) else {
        return;
    };
    // What is long is slow here, and finds nothing more.
    if head.len() > 300 || content.len() > 3000 {
        return;
    }
    let rules: Vec<_> = head.lines().take(5).filter_map(rule).collect();
    let Ok(changes) = Changes::compile(&rules) else {
        return;
    };
    for document in [Document::Html, Document::Other] {
        let plan = Plan::new(&changes, document, content, MAX).map(|plan| {
            let (filled, mut out) = (plan.fill(&[VALUE]), Vec::new());
            filled.copy_to(&mut out);
            assert_eq!(out.len() as u64, filled.length());
            assert!(plan.is_changed() || out == content, "{document:?}");
            out
        });
        let Ok(plan) = plan else { continue };
        if document == Document::Html && !contains(data, b"zq") {
            assert!(
                !contains(&plan, b"<zq") && !contains(&plan, b"zq\"") && !contains(&plan, b"zq'")
            );
        }
        let cuts = crate::cuts(content.len()).step_by(5);
        for cut in cuts {
            let stream = streamed(
                &changes,
                document,
                [&content[..cut], &content[cut..]],
                1 << 20,
            );
            assert_eq!(stream.as_ref(), Ok(&plan), "{document:?}, cut at {cut}");
        }
        assert_eq!(
            streamed(&changes, document, content.chunks(1), 1).as_ref(),
            Ok(&plan),
            "{document:?}, byte by byte"
        );
    }
}

fn contains(text: &[u8], find: &[u8]) -> bool {
    text.windows(find.len()).any(|window| window == find)
}

fn rule(line: &str) -> Option<Rule> {
    let mut fields = line.split('|');
    let (kind, first, second) = (fields.next()?, fields.next()?.to_owned(), fields.next()?);
    let third = fields.next().map(template);
    Some(match kind {
        "t" => Rule::Text {
            find: first.into(),
            with: template(second),
        },
        "p" => Rule::Pattern {
            pattern: first,
            with: template(second),
        },
        "s" => Rule::Select {
            selector: first,
            edit: edit(second, third.unwrap_or_default())?,
        },
        "a" => {
            let edit = match third {
                Some(value) => Edit::Set {
                    name: second.into(),
                    value,
                },
                None => Edit::Unset(second.into()),
            };
            Rule::Select {
                selector: first,
                edit,
            }
        }
        _ => return None,
    })
}

fn edit(name: &str, with: Template) -> Option<Edit> {
    Some(match name {
        "before" => Edit::Before(with),
        "after" => Edit::After(with),
        "prepend" => Edit::Prepend(with),
        "append" => Edit::Append(with),
        "inner" => Edit::Inner(with),
        "replace" => Edit::Replace(with),
        "remove" => Edit::Remove,
        _ => return None,
    })
}

fn template(text: &str) -> Template {
    let mut parts = vec![];
    for (at, piece) in text.split("{0}").enumerate() {
        if at > 0 {
            parts.push(Part::Value(0));
        }
        parts.push(Part::Text(piece.into()));
    }
    Template(parts)
}

fn streamed<'a>(
    changes: &Changes,
    document: Document,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    room: usize,
) -> Result<Vec<u8>, ChangeError> {
    let (mut changer, mut out) = (
        Changer::new(changes, document, &[VALUE], MAX as u64 * 8),
        Vec::new(),
    );
    for mut piece in pieces {
        while changer.step(&mut piece, &mut out, room)? == Progress::Full {}
    }
    while changer.finish(&mut out, room)? == Progress::Full {}
    Ok(out)
}
