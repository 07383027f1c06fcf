//! Results of rules on documents, by plan and by stream, in any pieces.

use super::*;
use crate::StepProgress;

fn text(find: &str, with: impl Into<ChangeTemplate>) -> ChangeRule {
    ChangeRule::Text {
        find: find.into(),
        with: with.into(),
    }
}

fn pattern(pattern: &str, with: impl Into<ChangeTemplate>) -> ChangeRule {
    ChangeRule::Pattern {
        pattern: pattern.into(),
        with: with.into(),
    }
}

fn select(selector: &str, edit: SelectorEdit) -> ChangeRule {
    ChangeRule::Select {
        selector: selector.into(),
        edit,
    }
}

/// A template in which `{0}` is value 0 and `{!0}` the same value raw.
fn with(text: &str) -> ChangeTemplate {
    let mut parts = vec![];
    for (at, piece) in text.split(['{', '}']).enumerate() {
        let number = piece
            .trim_start_matches('!')
            .parse()
            .ok()
            .filter(|_| at % 2 == 1);
        parts.push(match number {
            Some(number) if piece.starts_with('!') => TemplatePart::Raw(number),
            Some(number) => TemplatePart::Value(number),
            None if at % 2 == 1 => TemplatePart::Text(format!("{{{piece}}}").into()),
            None => TemplatePart::Text(piece.into()),
        });
    }
    ChangeTemplate(parts)
}

fn compiled(rules: &[ChangeRule]) -> Changes {
    Changes::compile(rules).unwrap()
}

fn planned(changes: &Changes, document: DocumentKind, content: &[u8], values: &[&[u8]]) -> Vec<u8> {
    let plan = ChangePlan::new(changes, document, content, 1 << 24).unwrap();
    let (filled, mut out) = (plan.fill(values), Vec::new());
    filled.copy_to(&mut out);
    assert_eq!(out.len() as u64, filled.length());
    assert_eq!(filled.pieces().map(<[u8]>::len).sum::<usize>(), out.len());
    assert!(filled.piece(filled.count()).is_none() && filled.piece(usize::MAX).is_none());
    out
}

fn streamed<'a>(
    changes: &Changes,
    document: DocumentKind,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    values: &[&[u8]],
    room: usize,
) -> Vec<u8> {
    let (mut changer, mut out) = (Changer::new(changes, document, values, 1 << 24), Vec::new());
    for mut piece in pieces {
        while changer.step(&mut piece, &mut out, room).unwrap() == StepProgress::Full {}
        assert!(piece.is_empty());
    }
    while changer.finish(&mut out, room).unwrap() == StepProgress::Full {}
    out
}

/// The result of rules on a document, by plan and by stream alike.
fn changed(
    rules: &[ChangeRule],
    document: DocumentKind,
    content: &[u8],
    values: &[&[u8]],
) -> String {
    let changes = compiled(rules);
    let plan = planned(&changes, document, content, values);
    let show = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for size in [1, 2, 3, 7, 100, 1 << 20] {
        let stream = streamed(&changes, document, content.chunks(size), values, usize::MAX);
        assert_eq!(show(&stream), show(&plan), "pieces of {size}");
    }
    for cut in 0..content.len().min(500) {
        let (front, back) = content.split_at(cut);
        let stream = streamed(&changes, document, [front, back], values, usize::MAX);
        assert_eq!(show(&stream), show(&plan), "cut at {cut}");
    }
    assert!(
        streamed(&changes, document, [content], values, 1) == plan,
        "one byte of room"
    );
    show(&plan)
}

fn html(rules: &[ChangeRule], content: &str) -> String {
    changed(
        rules,
        DocumentKind::Html,
        content.as_bytes(),
        &[b"<&\"'>", b"two"],
    )
}

fn other(rules: &[ChangeRule], content: &str) -> String {
    changed(
        rules,
        DocumentKind::Other,
        content.as_bytes(),
        &[b"<v>", b"two"],
    )
}

#[test]
fn texts_are_replaced_at_every_occurrence() {
    let table = [
        ("a", "b", "banana", "bbnbnb"),
        ("banana", "", "banana", ""),
        ("na", "{0}", "banana", "ba<v><v>"),
        ("x", "y", "banana", "banana"),
        ("x", "y", "", ""),
        ("aa", "b", "aaaaa", "bba"),
        ("abab", "X", "ababab", "Xab"),
        ("\u{e9}", "e", "caf\u{e9}", "cafe"),
    ];
    for (find, replacement, content, result) in table {
        assert_eq!(
            other(&[text(find, with(replacement))], content),
            result,
            "{find} in {content}"
        );
    }
}

#[test]
fn replaced_text_is_never_matched_again() {
    assert_eq!(other(&[text("a", "b"), text("b", "a")], "abba"), "baab");
    assert_eq!(other(&[text("a", "aa")], "aaa"), "aaaaaa");
    // A value and the text beside it make no match either.
    assert_eq!(
        other(
            &[text("<", "("), text("1", with("{0}")), text("v>", "!")],
            "1<1v>"
        ),
        "<v>(<v>!"
    );
    assert_eq!(
        html(
            &[
                select("p", SelectorEdit::Append("word".into())),
                text("word", "W")
            ],
            "<p>word</p>"
        ),
        "<p>Wword</p>"
    );
    assert_eq!(
        html(
            &[select("b", SelectorEdit::Remove), text("xy", "!")],
            "x<b>1</b>y xy"
        ),
        "xy !"
    );
}

#[test]
fn the_first_of_several_matching_rules_is_applied() {
    assert_eq!(other(&[text("ab", "1"), text("abc", "2")], "abcab"), "1c1");
    assert_eq!(other(&[text("abc", "2"), text("ab", "1")], "abcab"), "21");
    assert_eq!(
        other(&[text("bc", "1"), text("ab", "2")], "abc"),
        "2c",
        "what begins earlier comes first"
    );
    assert_eq!(
        other(&[pattern("[ab]+", "1"), text("ab", "2")], "abc"),
        "1c"
    );
    assert_eq!(
        other(&[text("ab", "2"), pattern("[ab]+", "1")], "abc"),
        "2c"
    );
}

#[test]
fn regex_replacements_insert_capture_groups() {
    let table = [
        (r"(\w+)@(\w+)", "$2 at $1", "me@home", "home at me"),
        (r"(?<user>\w+)@", "$$1 $ $x", "me@home", "$1 $ $xhome"),
        (r"(a)|(b)", "[$1$2]", "abc", "[a][b]c"),
        (r"(?i)WORD", "{0}$0", "Word word", "<v>Word <v>word"),
        (r"^a", "b", "aa\na", "ba\na"),
        (r"(?m)^a", "b", "aa\na", "ba\nb"),
        (r"a$", "b", "aa", "ab"),
        (r"\ba\b", "b", "a ab a", "b ab b"),
        (r"a.*z", "-", "xazz\naz", "x-\n-"),
        (r"(?s)a.*z", "-", "xazz\nazb", "x-b"),
        (r"é+", "e", "caféé", "cafe"),
        (r"a{3,5}", "-", "aaaaaaaaa", "--"),
    ];
    for (find, replacement, content, result) in table {
        assert_eq!(
            other(&[pattern(find, with(replacement))], content),
            result,
            "{find} in {content}"
        );
    }
    assert_eq!(
        other(&[pattern(r"(?<user>\w+)@", "${user}:${1}:")], "me@home"),
        "me:me:home"
    );
    // The same on bytes that are not UTF-8.
    let out = changed(
        &[pattern(r"(?-u:\xff)(.)", "$1")],
        DocumentKind::Other,
        b"a\xffb\xfe",
        &[],
    );
    assert_eq!(out, "ab\u{fffd}");
}

#[test]
fn html_elements_are_edited_by_css_selectors() {
    let page = "<html><head><title>t</title></head><body class=a><p id=\"x\">one<br>two</p><img src=i></body></html>";
    let table = [
        (
            "head",
            SelectorEdit::Append("<!--n-->".into()),
            "</title></head>",
            "</title><!--n--></head>",
        ),
        (
            "head",
            SelectorEdit::Prepend("<!--n-->".into()),
            "<head>",
            "<head><!--n-->",
        ),
        ("#x", SelectorEdit::Before("<hr>".into()), "<p", "<hr><p"),
        ("#x", SelectorEdit::After("<hr>".into()), "</p>", "</p><hr>"),
        (
            "img",
            SelectorEdit::After("<hr>".into()),
            "<img src=i>",
            "<img src=i><hr>",
        ),
        ("img", SelectorEdit::Append("<hr>".into()), "", ""),
        (
            "title",
            SelectorEdit::Inner("other".into()),
            ">t<",
            ">other<",
        ),
        (
            "p",
            SelectorEdit::Replace("<q></q>".into()),
            "<p id=\"x\">one<br>two</p>",
            "<q></q>",
        ),
        ("p br", SelectorEdit::Remove, "<br>", ""),
        ("p", SelectorEdit::Remove, "<p id=\"x\">one<br>two</p>", ""),
        (
            "body",
            SelectorEdit::Set {
                name: "Class".into(),
                value: "b\"".into(),
            },
            "class=a",
            "class=\"b&quot;\"",
        ),
        (
            "p",
            SelectorEdit::Set {
                name: "lang".into(),
                value: "en".into(),
            },
            "\"x\">",
            "\"x\" lang=\"en\">",
        ),
        (
            "body",
            SelectorEdit::Unset("class".into()),
            "<body class=a>",
            "<body>",
        ),
        ("body", SelectorEdit::Unset("id".into()), "", ""),
        (
            "[src=i]",
            SelectorEdit::Set {
                name: "src".into(),
                value: "j".into(),
            },
            "src=i",
            "src=\"j\"",
        ),
        ("nothing", SelectorEdit::Remove, "", ""),
    ];
    for (selector, edit, was, is) in table {
        let name = format!("{selector} {edit:?}");
        assert_eq!(
            html(&[select(selector, edit)], page),
            page.replacen(was, is, 1),
            "{name}"
        );
    }
}

#[test]
fn rules_on_one_element_apply_in_order() {
    let of = |edits: &[SelectorEdit]| {
        let rules: Vec<_> = edits.iter().map(|edit| select("p", edit.clone())).collect();
        html(&rules, "-<p class=c>x</p>-")
    };
    let (a, b) = (ChangeTemplate::from("a"), ChangeTemplate::from("b"));
    assert_eq!(
        of(&[
            SelectorEdit::Append(a.clone()),
            SelectorEdit::Append(b.clone())
        ]),
        "-<p class=c>xab</p>-"
    );
    assert_eq!(
        of(&[
            SelectorEdit::Prepend(a.clone()),
            SelectorEdit::Prepend(b.clone())
        ]),
        "-<p class=c>bax</p>-"
    );
    assert_eq!(
        of(&[
            SelectorEdit::Before(a.clone()),
            SelectorEdit::Before(b.clone())
        ]),
        "-ab<p class=c>x</p>-"
    );
    assert_eq!(
        of(&[
            SelectorEdit::After(a.clone()),
            SelectorEdit::After(b.clone())
        ]),
        "-<p class=c>x</p>ba-"
    );
    assert_eq!(
        of(&[
            SelectorEdit::Append(a.clone()),
            SelectorEdit::Inner(b.clone())
        ]),
        "-<p class=c>b</p>-"
    );
    assert_eq!(
        of(&[
            SelectorEdit::Inner(a.clone()),
            SelectorEdit::Append(b.clone())
        ]),
        "-<p class=c>ab</p>-"
    );
    assert_eq!(
        of(&[
            SelectorEdit::Before(a.clone()),
            SelectorEdit::Remove,
            SelectorEdit::Append(b.clone())
        ]),
        "-a-"
    );
    let set = |name: &str, value: &ChangeTemplate| SelectorEdit::Set {
        name: name.into(),
        value: value.clone(),
    };
    assert_eq!(
        of(&[set("id", &a), set("CLASS", &b), set("id", &b)]),
        "-<p class=\"b\" id=\"b\">x</p>-"
    );
    assert_eq!(
        of(&[set("id", &a), SelectorEdit::Unset("id".into())]),
        "-<p class=\"c\">x</p>-"
    );
    assert_eq!(
        of(&[set("id", &a), SelectorEdit::Replace(b.clone())]),
        "-b-"
    );
    assert_eq!(of(&[SelectorEdit::Remove, set("id", &a)]), "--");
    assert_eq!(
        of(&[set("id", &a), SelectorEdit::Prepend(b)]),
        "-<p class=\"c\" id=\"a\">bx</p>-"
    );
}

#[test]
fn inserted_values_cannot_become_markup() {
    let escaped = "&lt;&amp;&quot;&#39;&gt;";
    let rules = [select("p", SelectorEdit::Append(with("{0}{!1}")))];
    assert_eq!(html(&rules, "<p></p>"), format!("<p>{escaped}two</p>"));
    let rules = [select(
        "p",
        SelectorEdit::Set {
            name: "title".into(),
            value: with("v {0}"),
        },
    )];
    assert_eq!(html(&rules, "<p>"), format!("<p title=\"v {escaped}\">"));
    assert_eq!(html(&[text("X", with("{0}"))], "X"), escaped);
    assert_eq!(html(&[pattern("[X]", with("{0}"))], "X"), escaped);
    assert_eq!(html(&[text("X", with("{!0}"))], "X"), "<&\"'>");
    // No escaping helps there: only text of the configuration goes in.
    for tag in ["script", "style", "SCRIPT"] {
        let rules = [
            select(tag, SelectorEdit::Append(with("x='{0}'"))),
            select(tag, SelectorEdit::Inner(with("{0}y"))),
        ];
        assert_eq!(
            html(&rules[..1], &format!("<{tag}>1</{tag}>")),
            format!("<{tag}>1x=''</{tag}>")
        );
        assert_eq!(
            html(&rules[1..], &format!("<{tag}>1</{tag}>")),
            format!("<{tag}>y</{tag}>")
        );
    }
    let rules = [select(
        "script",
        SelectorEdit::Set {
            name: "nonce".into(),
            value: with("{1}"),
        },
    )];
    assert_eq!(
        html(&rules, "<script>1</script>"),
        "<script nonce=\"two\">1</script>"
    );
}

#[test]
fn inserted_values_are_escaped_for_the_document_type() {
    let rules = [text("X", with("{0}"))];
    let value: &[u8] = "a\"'\\<&>`$\u{2028}\n\u{e9}".as_bytes();
    let table = [
        (
            DocumentKind::Html,
            "a&quot;&#39;\\&lt;&amp;&gt;`$\u{2028}\n\u{e9}",
        ),
        (
            DocumentKind::Xml,
            "a&quot;&#39;\\&lt;&amp;&gt;`$\u{2028}\n\u{e9}",
        ),
        (
            DocumentKind::Script,
            r"a\u0022\u0027\u005c\u003c\u0026\u003e\u0060\u0024\u2028\u000aé",
        ),
        (DocumentKind::Other, "a\"'\\<&>`$\u{2028}\n\u{e9}"),
    ];
    for (document, result) in table {
        assert_eq!(
            changed(&rules, document, b"X", &[value]),
            result,
            "{document:?}"
        );
    }
    assert_eq!(
        changed(&rules, DocumentKind::Script, b"X", &[b"\xff"]),
        "\u{fffd}",
        "JSON is UTF-8"
    );
    assert_eq!(
        changed(&rules, DocumentKind::Html, b"X", &[]),
        "",
        "a value that is missing is empty"
    );
}

#[test]
fn media_types_select_the_document_type() {
    let table = [
        ("text/html", DocumentKind::Html),
        ("Text/HTML; charset=utf-8", DocumentKind::Html),
        ("application/xhtml+xml", DocumentKind::Xml),
        ("image/svg+xml", DocumentKind::Xml),
        ("application/json", DocumentKind::Script),
        ("application/ld+json ;x", DocumentKind::Script),
        ("text/javascript", DocumentKind::Script),
        ("text/plain", DocumentKind::Other),
        ("", DocumentKind::Other),
    ];
    for (media_type, document) in table {
        assert_eq!(
            DocumentKind::of(media_type.as_bytes()),
            document,
            "{media_type}"
        );
    }
}

#[test]
fn css_selectors_apply_to_html_only() {
    let rules = [select("p", SelectorEdit::Remove), text("a", "b")];
    assert_eq!(
        changed(&rules, DocumentKind::Xml, b"<p>a</p>", &[]),
        "<p>b</p>"
    );
    assert_eq!(changed(&rules, DocumentKind::Html, b"<p>a</p>a", &[]), "b");
}

#[test]
fn bytes_that_no_rule_touches_stay_unchanged() {
    let every: Vec<u8> = (0..=255)
        .filter(|byte| !b"<>\"'& ".contains(byte))
        .collect();
    let page = [b"<p title=\"", &every[..], b"\">", &every, b"</p>"].concat();
    let rules = [
        select(
            "p",
            SelectorEdit::Set {
                name: "id".into(),
                value: "i".into(),
            },
        ),
        select("p", SelectorEdit::Append("!".into())),
    ];
    let expected = [
        b"<p title=\"",
        &every[..],
        b"\" id=\"i\">",
        &every,
        b"!</p>",
    ]
    .concat();
    let changes = compiled(&rules);
    assert!(planned(&changes, DocumentKind::Html, &page, &[]) == expected);
    assert!(streamed(&changes, DocumentKind::Html, page.chunks(1), &[], 10) == expected);
    assert_eq!(
        html(
            &[select("[title='é']", SelectorEdit::Remove)],
            "<p title='é'>1</p><p>2</p>"
        ),
        "<p>2</p>"
    );
}

#[test]
fn an_edit_is_a_boundary_for_regex_anchors() {
    let rules = [
        select("b", SelectorEdit::Before("!".into())),
        pattern("^x", "1"),
        pattern("y$", "2"),
        text("yx", "3"),
    ];
    assert_eq!(html(&rules, "xy<b>x</b>"), "12!<b>x</b>");
    assert_eq!(html(&rules[..3], "xyx<b>x</b>"), "1yx!<b>x</b>");
}

#[test]
fn a_faulty_rule_is_refused_with_its_number() {
    let long = "x".repeat(LONGEST_MATCH + 1);
    let set = |name: &str, value: &str| {
        select(
            "a",
            SelectorEdit::Set {
                name: name.into(),
                value: with(value),
            },
        )
    };
    let code = |name: &str| RuleFault::Code(name.into());
    let scheme = |name: &str| RuleFault::Scheme(name.into());
    let host = |name: &str| RuleFault::Host(name.into());
    let table = [
        (text("", "x"), RuleFault::Empty),
        (text(&long, "x"), RuleFault::TooLong),
        (pattern("x*", "x"), RuleFault::Empty),
        (pattern("^|a", "x"), RuleFault::Empty),
        (pattern("(a)", "$2"), RuleFault::Group("2".into())),
        (pattern("(a)", "${name}"), RuleFault::Group("name".into())),
        (pattern(r"\w{1000}", ""), RuleFault::TooLarge),
        (set("onClick", "{0}"), code("onclick")),
        (set("style", "color:{0}"), code("style")),
        (set("srcdoc", "/{0}"), code("srcdoc")),
        (set("href", "{0}"), scheme("href")),
        (set("src", "java{0}"), scheme("src")),
        (set("href", " JavaScript:/{0}"), scheme("href")),
        (set("href", "data:/{0}"), scheme("href")),
        (set("values", "/x;{0}"), code("values")),
        (set("src", "/{0}"), host("src")),
        (set("src", "\\{0}"), host("src")),
        (set("src", " /\t{0}"), host("src")),
        (set("src", "{!0}/{0}"), host("src")),
        (set("href", "//{0}"), host("href")),
        (set("href", "//a.example{0}/x"), host("href")),
        (set("action", "https://{0}/x"), host("action")),
        (set("action", "https:///{0}"), host("action")),
        (set("action", "https:\\/a.example{0}"), host("action")),
        (set("a b", ""), RuleFault::Name("a b".into())),
        (set("", ""), RuleFault::Name(String::new())),
    ];
    for (rule, fault) in table {
        let rules = [text("fine", "x"), rule];
        let error = Changes::compile(&rules).err();
        assert_eq!(
            error,
            Some(ChangeRuleError { rule: 1, fault }),
            "{:?}",
            rules[1]
        );
    }
    for rule in [
        pattern("(", ""),
        select("a:hover(", SelectorEdit::Remove),
        select("", SelectorEdit::Remove),
    ] {
        let error = Changes::compile(&[rule]).err().unwrap();
        assert!(
            matches!(error.fault, RuleFault::Pattern(_) | RuleFault::Selector(_))
                && error.rule == 0,
            "{error}"
        );
    }
    // One line each: a report shows the position itself.
    for find in ["a(b", "(?<a>b)(?<a>c)", "a\nb(", "[z-a]"] {
        let error = Changes::compile(&[pattern(find, "")])
            .err()
            .unwrap()
            .to_string();
        assert!(!error.contains('\n') && error.len() > 10, "{error}");
    }
    for rule in [
        set("href", "/x/{0}"),
        set("href", "/x{0}"),
        set("href", "x/{0}"),
        set("href", "?{0}"),
        set("href", "/?{0}"),
        set("href", "/x/{0}/{0}"),
        set("href", "//a.example/{0}"),
        set("src", "https://a.example/{0}"),
        set("src", "https://a.example?{0}"),
        set("onclick", "{!0}"),
        set("alt", "{0}"),
    ] {
        Changes::compile(&[rule]).unwrap();
    }
    assert_eq!(compiled(&[text("a", with("{1}{!4}"))]).values(), 5);
    assert_eq!(compiled(&[]).values(), 0);
}

/// Escaping makes no value harmless in these places (WHATWG HTML, 13.2.5).
#[test]
fn template_values_are_refused_where_they_could_become_code() {
    let inside = |name: &str| Some(RuleFault::Inside(name.into()));
    let (code, host) = (
        |name: &str| Some(RuleFault::Code(name.into())),
        |name: &str| Some(RuleFault::Host(name.into())),
    );
    let unquoted = || Some(RuleFault::Unquoted);
    let table = [
        ("<script>go(`{0}`)</script>", inside("script")),
        ("<SCRIPT type=module>{0}", inside("script")),
        ("<script></scripts>{0}", inside("script")),
        ("<script/>{0}", inside("script")),
        ("<script>a<</script {!0}>{0}", None),
        ("<script>{!0}</script>{0}", None),
        ("<style\n>p::before{0}</style>", inside("style")),
        ("<!--><script>{0}", inside("script")),
        ("<!---><script>{0}", inside("script")),
        ("<!----!><script>{0}", inside("script")),
        (
            "<!-- > -- <script> {0} --->{0}<script>{0}",
            inside("script"),
        ),
        ("<!-- <script> {0} -->{0}", None),
        ("<!doctype {0}><script>{0}", inside("script")),
        ("</ <script>{0}", None),
        ("<textarea><script>{0}</textarea>{0}", None),
        ("<title><a b='</title><script>{0}", inside("script")),
        ("<meta content={0}>", unquoted()),
        ("<meta content=a{0}>", unquoted()),
        ("<meta content= {0}>", unquoted()),
        ("<meta content={!0}{0}>", unquoted()),
        ("<meta {0}>", unquoted()),
        ("<meta a{0}='1'>", unquoted()),
        ("<meta a='1'{0}>", unquoted()),
        ("<{0}>", unquoted()),
        ("</{0}>", unquoted()),
        ("<<{0}>", unquoted()),
        ("<m{0}>", unquoted()),
        ("<meta name=id content='{0}'>{0}", None),
        ("<meta content = \"'>{0}\">{0}", None),
        ("<p title='>'>1 < {0} = {0}</p {!0}>", None),
        ("<p ONclick='go(\"{0}\")'>", code("onclick")),
        ("<p style='color:{0}'>", code("style")),
        ("<a href='{0}'>", Some(RuleFault::Scheme("href".into()))),
        ("<a href='/{0}'>", host("href")),
        ("<a/href='//{0}'>", host("href")),
        (
            "<img srcset='{0} 2x'>",
            Some(RuleFault::Scheme("srcset".into())),
        ),
        ("<video poster='/{0}'>", host("poster")),
        ("<a title href='/x/{0}' alt='{0}'>", None),
        ("<a x=1 =href='{0}'>", None),
        ("{0}' onclick='{0}", None),
    ];
    let edits = [
        SelectorEdit::Before,
        SelectorEdit::After,
        SelectorEdit::Prepend,
        SelectorEdit::Append,
        SelectorEdit::Inner,
        SelectorEdit::Replace,
    ];
    for (template, fault) in table {
        let rules = [text("a", with(template)), pattern("a", with(template))];
        for rule in rules
            .into_iter()
            .chain(edits.map(|edit| select("p", edit(with(template)))))
        {
            let error = Changes::compile(std::slice::from_ref(&rule)).err();
            assert_eq!(
                error.map(|error| error.fault),
                fault,
                "{template} in {rule:?}"
            );
        }
    }
}

#[test]
fn a_match_of_bounded_length_is_found_across_chunks() {
    for len in [1, 100, LONGEST_MATCH] {
        for offset in [
            0,
            1,
            LONGEST_MATCH - 1,
            LONGEST_MATCH,
            2 * LONGEST_MATCH - 1,
            40_000,
        ] {
            let content = [".".repeat(offset), "a".repeat(len), ".".repeat(5)].concat();
            let expected = [".".repeat(offset), "!".into(), ".".repeat(5)].concat();
            for rules in [
                [pattern("a[^.]*", "!")],
                [pattern(&format!("(?-u)a{{{}}}", len.min(900)), "!")],
                [text(&"a".repeat(len), "!")],
            ] {
                let changes = compiled(&rules);
                let plan = planned(&changes, DocumentKind::Other, content.as_bytes(), &[]);
                for size in [999, 16_384, 1 << 20] {
                    let stream = streamed(
                        &changes,
                        DocumentKind::Other,
                        content.as_bytes().chunks(size),
                        &[],
                        1 << 20,
                    );
                    assert!(stream == plan, "{len} at {offset} in {size}");
                }
                if len <= 900
                    || !matches!(&rules[0], ChangeRule::Pattern { pattern, .. } if pattern.contains('{'))
                {
                    assert!(
                        plan == expected.as_bytes(),
                        "{len} at {offset}, {:?}",
                        plan.len()
                    );
                }
            }
        }
    }
}

#[test]
fn a_match_beyond_the_bound_is_cut_independently_of_chunks() {
    let content = ["x".repeat(3000), "a".repeat(20_000), "z".into()].concat();
    for find in [
        "a+",
        "a+z",
        "(?s)x.*z",
        r"\ba+",
        "a+$",
        "a(.*z)?",
        "aa?(a*z)?",
    ] {
        let changes = compiled(&[pattern(find, "[$0]")]);
        let plan = planned(&changes, DocumentKind::Other, content.as_bytes(), &[]);
        for size in [1, 5000, 8192, 30_000] {
            assert!(
                streamed(
                    &changes,
                    DocumentKind::Other,
                    content.as_bytes().chunks(size),
                    &[],
                    7
                ) == plan,
                "{find} {size}"
            );
        }
    }
}

#[test]
fn a_stream_holds_back_few_bytes() {
    let changes = compiled(&[text("</head>", "!</head>")]);
    let (mut changer, mut out) = (
        Changer::new(&changes, DocumentKind::Html, &[], 100),
        Vec::new(),
    );
    changer
        .step(&mut &b"some text, </hea"[..], &mut out, 100)
        .unwrap();
    assert_eq!(out, b"some text,");
    changer.step(&mut &b"d>"[..], &mut out, 100).unwrap();
    changer.finish(&mut out, 100).unwrap();
    assert_eq!(out, b"some text, !</head>");
}

#[test]
fn output_beyond_the_limit_is_refused_in_bounded_steps() {
    let content = "a".repeat(100_000);
    let long = ChangeTemplate(vec![
        TemplatePart::Text(vec![b'b'; 1000]),
        TemplatePart::Value(0),
    ]);
    for rules in [
        vec![text("a", long.clone())],
        vec![pattern("[a]", long.clone())],
    ] {
        let changes = compiled(&rules);
        let plan = ChangePlan::new(&changes, DocumentKind::Other, content.as_bytes(), 5_000_000);
        assert_eq!(plan.err(), Some(ChangeError::TooLong));
        let (mut changer, mut out) = (
            Changer::new(&changes, DocumentKind::Other, &[b"v"], 50_000_000),
            Vec::new(),
        );
        let mut input = content.as_bytes();
        let mut steps = 0;
        let error = loop {
            out.clear();
            match changer.step(&mut input, &mut out, 64 * 1024) {
                Ok(progress) => assert_eq!(progress, StepProgress::Full),
                Err(error) => break error,
            }
            assert!(out.len() < 64 * 1024 + 2000, "{}", out.len());
            steps += 1;
        };
        assert_eq!(error, ChangeError::TooLong);
        assert!(steps > 700, "{steps}");
    }
    let rules = [select("b", SelectorEdit::Append(long))];
    let page = "<b></b>".repeat(10_000);
    let plan = ChangePlan::new(
        &compiled(&rules),
        DocumentKind::Html,
        page.as_bytes(),
        5_000_000,
    );
    assert_eq!(plan.err(), Some(ChangeError::TooLong));
    // Exactly the limit is not too long.
    let changes = compiled(&[text("a", "bb")]);
    for (max, fits) in [(20, true), (19, false)] {
        let (mut changer, mut out) = (
            Changer::new(&changes, DocumentKind::Other, &[], max),
            Vec::new(),
        );
        let done = changer.step(&mut &[b'a'; 10][..], &mut out, 1 << 20);
        assert_eq!(
            done.and_then(|_| changer.finish(&mut out, 1 << 20)).is_ok(),
            fits
        );
        assert_eq!(
            ChangePlan::new(&changes, DocumentKind::Other, &[b'a'; 10], max as usize).is_ok(),
            fits
        );
    }
}

#[test]
fn an_unterminated_html_tag_is_refused_at_the_length_limit() {
    let changes = compiled(&[select("p[title]", SelectorEdit::Remove)]);
    let (mut changer, mut out) = (
        Changer::new(&changes, DocumentKind::Html, &[], u64::MAX),
        Vec::new(),
    );
    let mut piece = &b"<p title=\""[..];
    let mut written = 0;
    let error = loop {
        match changer.step(&mut piece, &mut out, 1 << 20) {
            Ok(_) => piece = &[b'x'; 10_000],
            Err(error) => break error,
        }
        written += 10_000;
        assert!(written < 2 * LONGEST_TAG);
    };
    assert_eq!(error, ChangeError::TagTooLong);
}

#[test]
fn compiled_changes_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Changes>();
    shared::<ChangePlan>();
}

#[test]
fn a_plan_knows_the_values_it_needs() {
    let rules = [
        text("a", with("{0}")),
        text("b", with("{2}-{!2}")),
        text("c", "d"),
    ];
    let changes = compiled(&rules);
    let plan = |content: &str| {
        ChangePlan::new(&changes, DocumentKind::Html, content.as_bytes(), 1000).unwrap()
    };
    let none = plan("xyz");
    assert!(!none.is_changed() && none.is_fixed() && none.fill(&[]).count() == 1);
    let fixed = plan("xcz");
    assert!(fixed.is_changed() && fixed.is_fixed() && fixed.fill(&[]).length() == 3);
    let both = plan("aaab");
    assert!(both.is_changed() && !both.is_fixed());
    assert_eq!(both.numbers().collect::<Vec<_>>(), [0, 2, 2]);
    let filled = both.fill(&[b"<", b"", b">"]);
    assert_eq!(
        filled.pieces().collect::<Vec<_>>(),
        [&b"&lt;"[..], b"&lt;", b"&lt;", b"&gt;", b"-", b">"]
    );
    assert_eq!(filled.length(), 18);
    // Adjacent pieces become one.
    let long = plan(&"xcx".repeat(1000 / 3));
    assert_eq!(long.fill(&[]).pieces().count(), 1);
    assert!(long.size() < 1200, "{}", long.size());
}

/// Pseudo-random numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

#[test]
fn plan_and_stream_agree_for_random_rules_and_chunks() {
    const WORDS: [&str; 16] = [
        "a",
        "ab",
        "abc",
        "b",
        "<p>",
        "</p>",
        "<b class=c>",
        "</b>",
        "<script>",
        "</script>",
        "<!--",
        "-->",
        "<img src='",
        "'>",
        " ",
        "\u{e9}",
    ];
    const PATTERNS: [&str; 8] = [
        "a+",
        "(a|ab)(c|bcd)?",
        "<[^>]*>",
        r"\bb\b",
        "a.*c",
        "(?s)a.*b",
        "é|p",
        "[^a]b$",
    ];
    const SELECTORS: [&str; 5] = ["p", "b", ".c", "p b", "img[src]"];
    let mut dice = Dice(7);
    for round in 0..400 {
        let mut rules = vec![];
        for _ in 0..=dice.below(4) {
            let template = with(dice.of(&["", "ab", "{0}", "<p>{1}</p>", "a{!0}b"]));
            rules.push(match dice.below(4) {
                0 => text(dice.of(&WORDS), template),
                1 => pattern(dice.of(&PATTERNS), template),
                _ => select(
                    dice.of(&SELECTORS),
                    match dice.below(9) {
                        0 => SelectorEdit::Before(template),
                        1 => SelectorEdit::After(template),
                        2 => SelectorEdit::Prepend(template),
                        3 => SelectorEdit::Append(template),
                        4 => SelectorEdit::Inner(template),
                        5 => SelectorEdit::Replace(template),
                        6 => SelectorEdit::Set {
                            name: "class".into(),
                            value: template,
                        },
                        7 => SelectorEdit::Unset("class".into()),
                        _ => SelectorEdit::Remove,
                    },
                ),
            });
        }
        let content: String = (0..dice.below(60)).map(|_| dice.of(&WORDS)).collect();
        let document = dice.of(&[DocumentKind::Html, DocumentKind::Html, DocumentKind::Other]);
        let changes = compiled(&rules);
        let values: [&[u8]; 2] = [b"<a>", b""];
        let plan = planned(&changes, document, content.as_bytes(), &values);
        for _ in 0..6 {
            let mut pieces = vec![];
            let mut rest = content.as_bytes();
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(1 + dice.below(rest.len().min(20)));
                pieces.push(piece);
                rest = behind;
            }
            let stream = streamed(
                &changes,
                document,
                pieces.clone(),
                &values,
                1 + dice.below(50),
            );
            assert!(
                stream == plan,
                "round {round}: {rules:?}\n{content:?}\n{pieces:?}\n{:?}\n{:?}",
                String::from_utf8_lossy(&stream),
                String::from_utf8_lossy(&plan)
            );
        }
    }
}
