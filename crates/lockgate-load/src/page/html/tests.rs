//! Documents against the tokenization of WHATWG HTML §13.2.5, whole and byte by byte.

use super::*;

/// Tags as text: `img[src=a]`, `/p`, and style as `{...}`.
fn tokens<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let (mut tokenizer, mut found, mut style) = (Tokenizer::new(), Vec::new(), Vec::new());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for piece in pieces {
        tokenizer.feed(piece, &mut |token| {
            if let HtmlToken::Style(part) = token {
                style.extend_from_slice(part);
                return;
            }
            if !style.is_empty() {
                found.push(format!("{{{}}}", text(&std::mem::take(&mut style))));
            }
            match token {
                HtmlToken::Start(tag) => {
                    let attributes = tag.attributes.iter().map(|(name, _)| {
                        let name = text(&tag.text[name.clone()]);
                        let value = text(&tag.attribute(&name).unwrap());
                        format!("[{name}={value}]")
                    });
                    found.push(format!(
                        "{}{}",
                        text(tag.name()),
                        attributes.collect::<String>()
                    ));
                }
                HtmlToken::End(name) => found.push(format!("/{}", text(name))),
                HtmlToken::Style(_) => {}
            }
        });
    }
    found
}

#[track_caller]
fn check(section: &str, document: &str, expected: &[&str]) {
    assert_eq!(
        tokens([document.as_bytes()]),
        expected,
        "{section}: {document}"
    );
    assert_eq!(
        tokens(document.as_bytes().chunks(1)),
        expected,
        "{section}, byte by byte: {document}"
    );
}

#[test]
fn tags_and_attributes_are_found_as_the_standard_says() {
    check("8", "a<P>b</P >c<br/>", &["p", "/p", "br"]);
    check("6", "a < b <3 <<i>", &["i"]);
    check("6", "<?xml version='1.0'?><i>", &["i"]);
    check("7", "</><b></3><i></ i><u>", &["b", "i", "u"]);
    check("33", "<a B=1 b=2 C>", &["a[b=1][b=1][c=]"]);
    check("34", "<a b c = d / e>", &["a[b=][c=d][e=]"]);
    check("35", "<a b=>", &["a[b=]"]);
    check(
        "36, 37",
        "<a b=\"x>'y\" c='\"/>\n'>",
        &["a[b=x>'y][c=\"/>\n]"],
    );
    check("38", "<a b=x/y?z=1&amp;w=2>", &["a[b=x/y?z=1&w=2]"]);
    check("38", "<a b=x/>", &["a[b=x/]"]);
    check("39", "<a b='x'c=\"y\"/d>", &["a[b=x][c=y][d=]"]);
    check("32", "<a =b=c>", &["a[=b=c]"]);
    check("40", "<a/b/>", &["a[b=]"]);
    check("8", "<img\nsrc\t=\r\n'a'\x0calt>", &["img[src=a][alt=]"]);
}

#[test]
fn comments_and_doctypes_have_no_tags() {
    check("41", "<!DOCTYPE html PUBLIC \"-//W3C\"><i>", &["i"]);
    check("42", "<![CDATA[<i>]]><b>", &["b"]);
    check("42", "<!-x--><i>", &["i"]);
    check("43", "<!--><i>", &["i"]);
    check("44", "<!---><i>", &["i"]);
    check("45", "<!-- <b> - -- > --><i>", &["i"]);
    check("46 to 49", "<!-- <!-- --><i>", &["i"]);
    check("47", "<!-- <!--><i>", &["i"]);
    check("51", "<!-- ----><i>", &["i"]);
    check("52", "<!-- --!><i>", &["i"]);
    check("52", "<!-- --!-><b>--><i>", &["i"]);
    check("45", "<!-- <i>", &[]);
}

#[test]
fn script_and_raw_text_contents_are_text() {
    check(
        "15",
        "<script>a<b;'</p>'</script><i>",
        &["script", "/script", "i"],
    );
    check(
        "17",
        "<script></scripty></SCRIPT\n><i>",
        &["script", "/script", "i"],
    );
    check(
        "17",
        "<script></script x=1/><i>",
        &["script", "/script", "i"],
    );
    check(
        "11",
        "<title><i></title><textarea><b></textarea>",
        &["title", "/title", "textarea", "/textarea"],
    );
    check(
        "12",
        "<style>a{b:url(<i>)}</style><i>",
        &["style", "{a{b:url(i>)}}", "/style", "i"],
    );
    check(
        "2",
        "<noscript><img src=a></noscript><i>",
        &["noscript", "/noscript", "i"],
    );
    check("5", "<plaintext><i></plaintext><i>", &["plaintext"]);
}

#[test]
fn scripts_that_hide_behind_comments_end_where_browsers_end_them() {
    check(
        "20",
        "<script><!-- </script><i>",
        &["script", "/script", "i"],
    );
    check(
        "26",
        "<script><!-- <script> </script> --></script><i>",
        &["script", "/script", "i"],
    );
    check(
        "27",
        "<script><!-- <script> --></script><i>",
        &["script", "/script", "i"],
    );
    check(
        "26",
        "<script><!-- <scripts> </script><i>",
        &["script", "/script", "i"],
    );
    check(
        "22",
        "<script><!--><script></script><i>",
        &["script", "/script", "i"],
    );
    check(
        "31",
        "<script><!--<script></script></script><i>",
        &["script", "/script", "i"],
    );
    check("27", "<script><!--<script></script>", &["script"]);
}

#[test]
fn bytes_beyond_the_limits_of_a_tag_are_left_out() {
    let long = "x".repeat(VALUE + 100);
    let document = format!("<{long} a='{long}' {long}=1 b=2><i c=3>");
    let mut tags = Vec::new();
    let mut tokenizer = Tokenizer::new();
    tokenizer.feed(document.as_bytes(), &mut |token| {
        if let HtmlToken::Start(tag) = token {
            tags.push(tag.clone());
        }
    });
    assert_eq!(
        (tags[0].name().len(), tags[0].attribute("a").unwrap().len()),
        (NAME, VALUE)
    );
    assert_eq!(tags[0].attribute("b").unwrap(), b"2");
    assert_eq!(tags[1].attribute("c").unwrap(), b"3");
    let many: String = (0..ATTRIBUTES + 5).map(|n| format!(" a{n}={n}")).collect();
    let mut kept = 0;
    Tokenizer::new().feed(format!("<i{many}>").as_bytes(), &mut |token| {
        if let HtmlToken::Start(tag) = token {
            kept = tag.attributes.len();
            assert_eq!(
                tag.attribute(&format!("a{}", ATTRIBUTES - 1)).unwrap(),
                b"63"
            );
        }
    });
    assert_eq!(kept, ATTRIBUTES);
}
