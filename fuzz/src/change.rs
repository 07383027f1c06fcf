//! Changes of bodies: a plan and a stream make the same of a document, however it arrives, and no
//! value becomes markup.

use lockgate_content::StepProgress;
use lockgate_content::change::{
    ChangeError, ChangePlan, ChangeRule, ChangeTemplate, Changer, Changes, DocumentKind,
    SelectorEdit, TemplatePart,
};

const MAX: usize = 1 << 22;

/// What a client would like to be read as a tag.
const VALUE: &[u8] = b"<zq\"'>";

/// Rules, one in a line, an empty line, and any bytes as a document.
///
/// `t|find|with`, `p|pattern|with`, `s|selector|edit|with`, `a|selector|attribute|with`; `{0}` is a
/// value.
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
    for document in [DocumentKind::Html, DocumentKind::Other] {
        let plan = ChangePlan::new(&changes, document, content, MAX).map(|plan| {
            let (filled, mut out) = (plan.fill(&[VALUE]), Vec::new());
            filled.copy_to(&mut out);
            assert_eq!(out.len() as u64, filled.length());
            assert!(plan.is_changed() || out == content, "{document:?}");
            out
        });
        let Ok(plan) = plan else { continue };
        if document == DocumentKind::Html && !contains(data, b"zq") {
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

fn rule(line: &str) -> Option<ChangeRule> {
    let mut fields = line.split('|');
    let (kind, first, second) = (fields.next()?, fields.next()?.to_owned(), fields.next()?);
    let third = fields.next().map(template);
    Some(match kind {
        "t" => ChangeRule::Text {
            find: first.into(),
            with: template(second),
        },
        "p" => ChangeRule::Pattern {
            pattern: first,
            with: template(second),
        },
        "s" => ChangeRule::Select {
            selector: first,
            edit: edit(second, third.unwrap_or_default())?,
        },
        "a" => {
            let edit = match third {
                Some(value) => SelectorEdit::Set {
                    name: second.into(),
                    value,
                },
                None => SelectorEdit::Unset(second.into()),
            };
            ChangeRule::Select {
                selector: first,
                edit,
            }
        }
        _ => return None,
    })
}

fn edit(name: &str, with: ChangeTemplate) -> Option<SelectorEdit> {
    Some(match name {
        "before" => SelectorEdit::Before(with),
        "after" => SelectorEdit::After(with),
        "prepend" => SelectorEdit::Prepend(with),
        "append" => SelectorEdit::Append(with),
        "inner" => SelectorEdit::Inner(with),
        "replace" => SelectorEdit::Replace(with),
        "remove" => SelectorEdit::Remove,
        _ => return None,
    })
}

fn template(text: &str) -> ChangeTemplate {
    let mut parts = vec![];
    for (at, piece) in text.split("{0}").enumerate() {
        if at > 0 {
            parts.push(TemplatePart::Value(0));
        }
        parts.push(TemplatePart::Text(piece.into()));
    }
    ChangeTemplate(parts)
}

fn streamed<'a>(
    changes: &Changes,
    document: DocumentKind,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    room: usize,
) -> Result<Vec<u8>, ChangeError> {
    let (mut changer, mut out) = (
        Changer::new(changes, document, &[VALUE], MAX as u64 * 8),
        Vec::new(),
    );
    for mut piece in pieces {
        while changer.step(&mut piece, &mut out, room)? == StepProgress::Full {}
    }
    while changer.finish(&mut out, room)? == StepProgress::Full {}
    Ok(out)
}
