//! The crates of a checkout and their files, without tests.

use std::error::Error;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Attribute, Item, Meta};

/// Folders without code of the product, the crates for tests and tasks among them.
const LEFT_OUT: [&str; 10] = [
    "target",
    "tests",
    "test",
    "bench",
    "benches",
    "examples",
    "fixtures",
    "fuzz",
    "lockgate-testkit",
    "xtask",
];

/// Files that hold tests by the convention of their names.
const TEST_FILES: [&str; 3] = ["tests", "test", "fixtures"];

/// A crate and the files below its `src`.
pub(super) struct Crate {
    pub(super) name: String,
    /// The path of its `Cargo.toml` from the root of the checkout.
    pub(super) manifest: String,
    /// Those that its tests do not have alone.
    pub(super) dependencies: Vec<Dependency>,
    pub(super) files: Vec<SourceFile>,
}

/// A dependency in a manifest.
pub(super) struct Dependency {
    pub(super) name: String,
    /// Its line, from 1.
    pub(super) line: usize,
}

/// A file without its tests.
pub(super) struct SourceFile {
    /// From the root of the checkout.
    pub(super) path: String,
    /// The names from the crate's root to the module; none for the root itself.
    pub(super) module: Vec<String>,
    /// Numbered from 1.
    pub(super) lines: Vec<(usize, String)>,
    pub(super) syntax: syn::File,
    /// The modules in other files that only tests have: `#[cfg(test)] mod name;`.
    test_modules: Vec<Vec<String>>,
}

/// Every crate below `root`, sorted by path.
pub(super) fn crates(root: &Path) -> Result<Vec<Crate>, Box<dyn Error>> {
    let mut paths = Vec::new();
    walk(root, &mut paths)?;
    paths.sort();
    let mut crates = Vec::new();
    for manifest in paths.iter().filter(|path| path.ends_with("Cargo.toml")) {
        let text = std::fs::read_to_string(manifest)?;
        let Some(name) = package_name(&text) else {
            continue;
        };
        let src = manifest.with_file_name("src");
        let files = files(
            root,
            &src,
            paths.iter().filter(|path| path.starts_with(&src)),
        )?;
        if !files.is_empty() {
            crates.push(Crate {
                name,
                manifest: manifest.strip_prefix(root)?.display().to_string(),
                dependencies: dependencies(&text),
                files,
            });
        }
    }
    Ok(crates)
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_file() {
            found.push(entry.path());
        } else if entry.file_type()?.is_dir()
            && !name.starts_with('.')
            && !LEFT_OUT.contains(&name.as_str())
        {
            walk(&entry.path(), found)?;
        }
    }
    Ok(())
}

/// The name in a manifest, unless it is the manifest of a workspace alone.
fn package_name(manifest: &str) -> Option<String> {
    let package = manifest.split("[package]").nth(1)?;
    let line = package.lines().find(|line| line.starts_with("name"))?;
    line.split('"').nth(1).map(str::to_owned)
}

/// The lines of the section `[dependencies]`.
pub(super) fn dependencies(manifest: &str) -> Vec<Dependency> {
    let lines = (1..).zip(manifest.lines());
    let section = lines
        .skip_while(|(_, line)| *line != "[dependencies]")
        .skip(1);
    section
        .take_while(|(_, line)| !line.starts_with('['))
        .filter_map(|(number, line)| {
            let end = line.find(['.', ' ', '='])?;
            (!line.starts_with('#')).then(|| Dependency {
                name: line[..end].to_owned(),
                line: number,
            })
        })
        .collect()
}

fn files<'a>(
    root: &Path,
    src: &Path,
    paths: impl Iterator<Item = &'a PathBuf>,
) -> Result<Vec<SourceFile>, Box<dyn Error>> {
    let mut files = Vec::new();
    for path in paths.filter(|path| path.extension().is_some_and(|end| end == "rs")) {
        let module = module_of(path.strip_prefix(src)?);
        if module
            .last()
            .is_some_and(|name| TEST_FILES.contains(&name.as_str()))
        {
            continue;
        }
        let name = path.strip_prefix(root)?.display().to_string();
        let text = std::fs::read_to_string(path)?;
        let file = SourceFile::parse(name, module, &text);
        files.push(file.map_err(|error| format!("{}: {error}", path.display()))?);
    }
    let tests: Vec<_> = files
        .iter()
        .flat_map(|file| file.test_modules.clone())
        .collect();
    files.retain(|file| !tests.iter().any(|test| file.module.starts_with(test)));
    Ok(files)
}

/// The module that a file below `src` holds.
fn module_of(path: &Path) -> Vec<String> {
    let path = path.with_extension("");
    let mut names: Vec<_> = path
        .iter()
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    let is_root = names.len() == 1 && (names[0] == "lib" || names[0] == "main");
    if is_root || names.last().is_some_and(|name| name == "mod") {
        names.pop();
    }
    names
}

impl SourceFile {
    pub(super) fn parse(path: String, module: Vec<String>, text: &str) -> syn::Result<SourceFile> {
        let mut syntax = syn::parse_file(text)?;
        let mut tests = Tests::default();
        tests.take_from(&module, &mut syntax.items);
        let lines = (1..).zip(text.lines().map(str::to_owned));
        Ok(SourceFile {
            path,
            module,
            lines: lines
                .filter(|(number, _)| !tests.has_line(*number))
                .collect(),
            syntax,
            test_modules: tests.modules,
        })
    }
}

/// The items that only tests have.
#[derive(Default)]
struct Tests {
    lines: Vec<RangeInclusive<usize>>,
    modules: Vec<Vec<String>>,
}

impl Tests {
    fn has_line(&self, number: usize) -> bool {
        self.lines.iter().any(|lines| lines.contains(&number))
    }

    fn take_from(&mut self, module: &[String], items: &mut Vec<Item>) {
        items.retain_mut(|item| {
            let is_test = self.take(item);
            match item {
                Item::Mod(inner) => {
                    let module = [module, &[inner.ident.to_string()]].concat();
                    match &mut inner.content {
                        Some((_, items)) if !is_test => self.take_from(&module, items),
                        None if is_test => self.modules.push(module),
                        _ => {}
                    }
                }
                Item::Impl(block) => block.items.retain(|item| !self.take(item)),
                _ => {}
            }
            !is_test
        });
    }

    /// Notes the lines of `item` if it is a test's.
    fn take(&mut self, item: &impl ToTokens) -> bool {
        let attributes = attributes
            .parse2(item.to_token_stream())
            .unwrap_or_default();
        let is_test = attributes.iter().any(is_of_tests);
        if is_test {
            let span = item.span();
            self.lines.push(span.start().line..=span.end().line);
        }
        is_test
    }
}

/// The outer attributes at the front of any item.
fn attributes(input: ParseStream<'_>) -> syn::Result<Vec<Attribute>> {
    let attributes = Attribute::parse_outer(input)?;
    input.parse::<TokenStream>()?;
    Ok(attributes)
}

/// Whether an attribute is `#[test]`, `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn is_of_tests(attribute: &Attribute) -> bool {
    if attribute.path().is_ident("test") {
        return true;
    }
    if !attribute.path().is_ident("cfg") {
        return false;
    }
    match attribute.parse_args::<Meta>() {
        Ok(Meta::Path(path)) => path.is_ident("test"),
        Ok(Meta::List(list)) if list.path.is_ident("all") => {
            let mut tokens = list.tokens.into_iter();
            tokens.any(|token| matches!(token, TokenTree::Ident(name) if name == "test"))
        }
        _ => false,
    }
}
