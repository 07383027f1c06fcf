//! Small sources in, figures out.

use super::floors::Floors;
use super::sources::SourceFile;
use super::*;

fn source(path: &str, text: &str) -> SourceFile {
    let names = path.trim_end_matches(".rs").split('/').map(str::to_owned);
    let module = names.filter(|name| name != "lib").collect();
    SourceFile::parse(path.to_owned(), module, text).unwrap()
}

fn workspace(files: &[(&str, &str)]) -> Workspace {
    let source = Crate {
        name: "sample".to_owned(),
        manifest: "Cargo.toml".to_owned(),
        dependencies: Vec::new(),
        files: files
            .iter()
            .map(|(path, text)| source(path, text))
            .collect(),
    };
    Workspace {
        crates: vec![CrateFigures::of(&source)],
    }
}

fn figures(text: &str) -> FileFigures {
    FileFigures::of(&source("lib.rs", text))
}

/// A row of the table of one file; the only crate has the figures of the total.
fn row(text: &str, name: &str) -> String {
    let table = workspace(&[("lib.rs", text)]).table();
    let row = table
        .lines()
        .find(|line| line.starts_with(&format!("| {name} |")));
    let cells: Vec<_> = row.expect("the row").split('|').map(str::trim).collect();
    assert_eq!(cells[2], cells[3]);
    cells[2].to_owned()
}

#[test]
fn tokens_do_not_depend_on_layout_or_comments() {
    let tokens = |text| figures(text).lexemes.len();
    let packed = "fn f<'a>(a: &'a [u8]) -> usize { g(a, 1) }";
    let spread =
        "/// Doc.\nfn f<'a>(\n    a: &'a [u8],\n) -> usize {\n    // Why.\n    g(a, 1,)\n}";
    // fn f < 'a > ( a : & 'a [ u8 ] ) -> usize { g ( a , 1 ) }
    assert_eq!(tokens(packed), 24);
    assert_eq!(tokens(spread), 24);
}

#[test]
fn operators_are_one_token() {
    assert_eq!(
        figures("const A: bool = b::C >= 1 && d != 2;")
            .lexemes
            .len(),
        15
    );
}

#[test]
fn test_modules_are_left_out_of_lines_and_tokens() {
    let text = "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() { h().unwrap(); }\n}\nstruct S;\n";
    let figures = figures(text);
    assert_eq!(
        (figures.lines, figures.code_lines, figures.lexemes.len()),
        (2, 2, 9)
    );
    assert_eq!(figures.items.functions.len(), 1);
    assert_eq!(figures.lexemes.unwraps(), 0);
}

#[test]
fn code_outside_of_tests_stays() {
    let text = "#[cfg(not(test))]\nfn f() {}\n#[cfg(unix)]\nfn g() {}\n#[cfg(all(test, unix))]\nfn h() {}\n";
    assert_eq!(figures(text).items.functions.len(), 2);
}

#[test]
fn functions_are_measured_from_fn_to_brace() {
    let text =
        "/// Doc.\n#[inline]\npub fn f(\n    a: u8,\n) {\n    g();\n    h();\n}\nfn i() {}\n";
    let figures = figures(text);
    let sizes: Vec<_> = figures
        .items
        .functions
        .iter()
        .map(|f| (f.lines, f.tokens, f.statements))
        .collect();
    assert_eq!(sizes, [(6, 17, 2), (1, 6, 0)]);
    assert_eq!(row(text, "fn lines p50/p90/p99/max"), "1/6/6/6");
    assert_eq!(row(text, "fn tokens p50, > 1 statement"), "17");
}

#[test]
fn parameters_are_counted_without_self() {
    let five = "impl S { fn f(&self, a: A, b: A, c: A, d: A, e: A) {} }";
    let six = "trait T { fn f(&self, a: A, b: A, c: A, d: A, e: A, f: A); }";
    assert_eq!(figures(five).items.long_signatures, 0);
    assert_eq!(figures(six).items.long_signatures, 1);
}

#[test]
fn structs_are_wide_from_ten_fields_on() {
    let nine = "struct S { a: A, b: A, c: A, d: A, e: A, f: A, g: A, h: A, i: A }";
    let ten = "struct S(A, A, A, A, A, A, A, A, A, A);";
    assert_eq!(figures(nine).items.wide_structs, 0);
    assert_eq!(figures(ten).items.wide_structs, 1);
}

#[test]
fn unwrap_and_unsafe_are_found_in_macros_too() {
    let text = "fn f() { a.unwrap(); println!(\"{}\", b.expect(\"c\")); unsafe { d() } }";
    let lexemes = figures(text).lexemes;
    assert_eq!((lexemes.unwraps(), lexemes.unsafe_sites()), (2, 1));
}

#[test]
fn public_items_without_documentation_are_noticed() {
    let text =
        "/// A.\npub struct A;\npub fn b() {}\nfn c() {}\nimpl A {\n    pub(crate) fn d() {}\n}\n";
    assert_eq!(row(text, "pub items documented"), "50.0 %");
}

#[test]
fn vague_words_are_found_as_whole_words() {
    let text = "// Whoever reads\n// the whole\n// somebody's code.\nfn who() {}\n";
    let vague: Vec<_> = figures(text)
        .comments
        .vague
        .iter()
        .map(|(number, _)| *number)
        .collect();
    assert_eq!(vague, [1, 3]);
    assert_eq!(row(text, "comment lines / lines not blank"), "75.0 %");
}

#[test]
fn short_docs_are_single_lines_of_four_words() {
    let text = "//! One two three four\n\n/// One two three four five\nfn f() {}\n/// One\n/// two\nfn g() {}\n";
    let comments = figures(text).comments;
    assert_eq!((comments.short_docs, comments.doc_lines), (1, 4));
}

#[test]
fn type_names_count_but_for_private_local_ones() {
    let workspace = workspace(&[
        ("a.rs", "pub struct Twice;\nstruct Error;\npub struct Kind;"),
        (
            "b.rs",
            "trait Twice {}\nenum Error {}\ntype Kind = u8;\nstruct Once;",
        ),
    ]);
    assert_eq!(
        workspace.list_names(),
        "type names that are defined more than once\nTwice: a.rs b.rs\n"
    );
}

#[test]
fn import_cycles_follow_reexports_to_definitions() {
    let workspace = workspace(&[
        ("lib.rs", "pub use b::B;\nmod a;\nmod b;\nmod c;"),
        ("a.rs", "pub struct A(crate::B);"),
        (
            "b.rs",
            "pub use self::inner::B;\nmod inner { pub struct B(super::super::c::C); }",
        ),
        ("c.rs", "pub struct C;\nfn f() { g!(super::a::A) }"),
    ]);
    assert_eq!(
        workspace.list_cycles(),
        "import cycles\nsample: 3 files\n  a.rs -> b.rs\n  b.rs -> c.rs\n  c.rs -> a.rs\n"
    );
}

#[test]
fn import_cycles_leave_parents_and_foreign_names_out() {
    let workspace = workspace(&[
        ("lib.rs", "mod a;\nmod b;"),
        ("a.rs", "mod c;\nuse c::C;\nuse b::B;\npub struct A;"),
        ("a/c.rs", "use super::A;\npub struct C;"),
        ("b.rs", "pub(in crate::a) struct B(crate::a::A);"),
    ]);
    assert_eq!(workspace.list_cycles(), "import cycles\n");
}

#[test]
fn import_cycles_see_groups_globs_and_renames() {
    let workspace = workspace(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;"),
        (
            "a.rs",
            "use crate::{b::{self as other}, c::*};\npub struct A(other::B);",
        ),
        ("b.rs", "pub struct B;\nuse super::a::A as First;"),
        ("c.rs", "pub struct C;"),
    ]);
    assert_eq!(
        workspace.list_cycles(),
        "import cycles\nsample: 2 files\n  a.rs -> b.rs\n  b.rs -> a.rs\n"
    );
}

/// What breaks these floors in a crate with one top-level module a file.
fn breaches(floors: &Floors, files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| source(path, text))
        .collect();
    floors::import_breaches(floors, &files)
}

#[test]
fn modules_may_import_from_lower_floors_and_themselves() {
    let files = [
        ("lib.rs", "pub use top::Top;\nmod low;\nmod top;"),
        ("low.rs", "mod inner;\npub struct Low;"),
        ("low/inner.rs", "use crate::low::Low;"),
        ("top.rs", "use super::low::Low;\npub struct Top;"),
    ];
    assert_eq!(breaches(&[&["low"], &["top"]], &files), [""; 0]);
}

#[test]
fn imports_from_the_same_floor_or_higher_are_named() {
    let files = [
        (
            "lib.rs",
            "pub use top::Top;\nmod beside;\nmod low;\nmod top;",
        ),
        ("beside.rs", "pub struct Beside;"),
        (
            "low.rs",
            "use std::fmt;\nuse crate::{\n    beside::Beside,\n    Top,\n};\nfn f() { crate::top::g() }",
        ),
        ("top.rs", "pub struct Top;\npub fn g() {}"),
    ];
    assert_eq!(
        breaches(&[&["beside", "low"], &["top"]], &files),
        [
            "low.rs:3: crate::beside::Beside: beside is on floor 1, low on floor 1",
            "low.rs:4: crate::Top: top is on floor 2, low on floor 1",
            "low.rs:6: crate::top::g: top is on floor 2, low on floor 1",
        ]
    );
}

#[test]
fn every_module_has_a_floor_and_every_floor_its_modules() {
    let files = [("lib.rs", "mod a;\nmod b;"), ("a.rs", ""), ("b.rs", "")];
    assert_eq!(
        breaches(&[&["a"], &["c"]], &files),
        [
            "b.rs: the module b has no floor",
            "there is a floor for c, and no such module",
        ]
    );
}

#[test]
fn dependencies_from_the_same_floor_or_higher_are_named() {
    let manifest = "[package]\nname = \"b\"\n\n[dependencies]\n# Why.\na.workspace = true # why\nc = { workspace = true }\nother = \"1\"\n\n[dev-dependencies]\nd.workspace = true\n";
    let source = |name: &str| Crate {
        name: name.to_owned(),
        manifest: format!("{name}/Cargo.toml"),
        dependencies: sources::dependencies(manifest),
        files: Vec::new(),
    };
    let floors: &Floors = &[&["a"], &["b", "c"], &["d"]];
    assert_eq!(
        floors::dependency_breaches(floors, &source("b")),
        ["b/Cargo.toml:7: c is on floor 2, b on floor 2"]
    );
    assert_eq!(
        floors::dependency_breaches(floors, &source("e")),
        ["e/Cargo.toml: the crate has no floor"]
    );
}

#[test]
fn percentiles_of_no_functions_are_zero() {
    assert_eq!(row("struct S;", "fn lines p50/p90/p99/max"), "0/0/0/0");
}
