//! Imports between the files of a crate, and their cycles.
//!
//! An import goes from a file to the file that defines a name that it uses, by `use` or by path.
//! Re-exports are followed. Imports between a module and its direct parent are left out.

use std::collections::{HashMap, HashSet};

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Ident, Item, ItemMod, ItemUse, Macro, Path, UseTree, VisRestricted};

use super::components::components;
use super::sources::SourceFile;
use super::tokens::Lexemes;

/// Re-exports that are followed for one name. A name may lead back to itself.
const MOST_REEXPORTS: usize = 8;

/// Files that import each other, directly or through others: a strongly connected component.
pub(super) struct Component {
    pub(super) files: Vec<String>,
    pub(super) edges: Vec<(String, String)>,
}

/// The components of more than one file, the largest first.
pub(super) fn cycles(files: &[SourceFile]) -> Vec<Component> {
    let edges = imports(files)
        .iter()
        .map(|import| (import.from, import.to))
        .collect();
    let path = |file: &usize| files[*file].path.clone();
    let mut cycles: Vec<_> = components(files.len(), &edges)
        .into_iter()
        .filter(|members| members.len() > 1)
        .map(|members| Component {
            files: members.iter().map(path).collect(),
            edges: edges
                .iter()
                .filter(|(from, to)| members.contains(from) && members.contains(to))
                .map(|(from, to)| (path(from), path(to)))
                .collect(),
        })
        .collect();
    cycles.sort_by_key(|component| std::cmp::Reverse(component.files.len()));
    cycles
}

/// An import of one file from another.
pub(super) struct FileImport {
    /// The index of the file that imports.
    pub(super) from: usize,
    /// The index of the file that defines the name.
    pub(super) to: usize,
    /// The line of the import, from 1.
    pub(super) line: usize,
    /// The path as it is written, with the groups of a `use` resolved.
    pub(super) path: String,
}

/// The imports between files.
pub(super) fn imports(files: &[SourceFile]) -> Vec<FileImport> {
    let mut modules = Modules::default();
    for (index, file) in files.iter().enumerate() {
        // A binary's root beside a library's: nothing imports from it.
        if !modules.0.contains_key(&file.module) {
            modules.add(index, &file.module, &file.syntax.items);
        }
    }
    let mut found = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let mut imports = Imports {
            modules: &modules,
            file: index,
            module: file.module.clone(),
            found: Vec::new(),
        };
        imports.visit_file(&file.syntax);
        found.extend(imports.found.into_iter().filter(|import| {
            let other = &files[import.to].module;
            *other != file.module
                && !is_parent(other, &file.module)
                && !is_parent(&file.module, other)
        }));
    }
    found
}

fn is_parent(parent: &[String], child: &[String]) -> bool {
    child.split_last().is_some_and(|(_, rest)| rest == parent)
}

/// The modules of a crate by their paths, inline ones too.
#[derive(Default)]
struct Modules(HashMap<Vec<String>, Module>);

/// The names that a module gives to others.
#[derive(Default)]
struct Module {
    /// The index of the file that the module is in.
    file: usize,
    defined: HashSet<String>,
    /// Imported names with their paths.
    imports: HashMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

impl Modules {
    fn add(&mut self, file: usize, path: &[String], items: &[Item]) {
        let mut module = Module {
            file,
            ..Module::default()
        };
        for item in items {
            match item {
                Item::Use(item) => module.import(&item.tree),
                Item::Mod(ItemMod {
                    ident,
                    content: Some((_, items)),
                    ..
                }) => {
                    self.add(file, &[path, &[ident.to_string()]].concat(), items);
                }
                _ => module.defined.extend(defined_name(item)),
            }
        }
        self.0.insert(path.to_vec(), module);
    }

    /// The file that defines what `path` names in the module `from`; none for other crates' names.
    fn resolve(&self, from: &[String], path: &[String], reexports: usize) -> Option<usize> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Vec::new(),
            "self" => from.to_vec(),
            "super" => parent(from)?,
            name if self.0.contains_key(&child(from, name)) => child(from, name),
            name => return self.follow(from, name, rest, reexports),
        };
        while let Some((name, after)) = rest.split_first() {
            if name == "super" {
                at = parent(&at)?;
            } else if self.0.contains_key(&child(&at, name)) {
                at = child(&at, name);
            } else {
                let definition = self.follow(&at, name, after, reexports);
                return definition.or_else(|| Some(self.0.get(&at)?.file));
            }
            rest = after;
        }
        Some(self.0.get(&at)?.file)
    }

    /// The file that defines `name` if the module `at` has imported it.
    fn follow(
        &self,
        at: &[String],
        name: &str,
        rest: &[String],
        reexports: usize,
    ) -> Option<usize> {
        let module = self.0.get(at)?;
        if reexports == MOST_REEXPORTS || module.defined.contains(name) {
            return None;
        }
        if let Some(path) = module.imports.get(name) {
            return self.resolve(at, &[path.as_slice(), rest].concat(), reexports + 1);
        }
        let globs = module.globs.iter();
        let mut files = globs.filter_map(|glob| {
            let path = [glob.as_slice(), &[name.to_owned()]].concat();
            let file = self.resolve(at, &path, reexports + 1)?;
            self.defines(file, name).then_some(file)
        });
        files.next()
    }

    fn defines(&self, file: usize, name: &str) -> bool {
        let mut modules = self.0.values();
        modules.any(|module| module.file == file && module.defined.contains(name))
    }
}

fn child(module: &[String], name: &str) -> Vec<String> {
    [module, &[name.to_owned()]].concat()
}

fn parent(module: &[String]) -> Option<Vec<String>> {
    module.split_last().map(|(_, parent)| parent.to_vec())
}

impl Module {
    fn import(&mut self, tree: &UseTree) {
        for import in flatten(tree) {
            match import.name {
                Some(name) => {
                    self.imports.insert(name, import.path);
                }
                None => self.globs.push(import.path),
            }
        }
    }
}

/// One path of a `use`.
struct Import {
    path: Vec<String>,
    /// The name that it gets; none for `*`.
    name: Option<String>,
    line: usize,
}

fn flatten(tree: &UseTree) -> Vec<Import> {
    match tree {
        UseTree::Path(tree) => {
            let mut imports = flatten(&tree.tree);
            for import in &mut imports {
                import.path.insert(0, tree.ident.to_string());
                // `a::{self}` is `a` by its own name.
                if import.path.get(1).is_some_and(|second| second == "self") {
                    import.path.truncate(1);
                    if import.name.as_deref() == Some("self") {
                        import.name = Some(tree.ident.to_string());
                    }
                }
            }
            imports
        }
        UseTree::Name(tree) => vec![Import::of(&tree.ident, &tree.ident)],
        UseTree::Rename(tree) => vec![Import::of(&tree.ident, &tree.rename)],
        UseTree::Glob(tree) => vec![Import {
            path: Vec::new(),
            name: None,
            line: line(tree),
        }],
        UseTree::Group(tree) => tree.items.iter().flat_map(flatten).collect(),
    }
}

impl Import {
    fn of(ident: &Ident, name: &Ident) -> Import {
        Import {
            path: vec![ident.to_string()],
            name: Some(name.to_string()),
            line: line(ident),
        }
    }
}

fn line(code: &impl Spanned) -> usize {
    code.span().start().line
}

fn defined_name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(name.to_string())
}

/// The imports of one file.
struct Imports<'a> {
    modules: &'a Modules,
    file: usize,
    /// The module that is being visited.
    module: Vec<String>,
    found: Vec<FileImport>,
}

impl Imports<'_> {
    fn note(&mut self, path: &[String], line: usize) {
        let file = self.modules.resolve(&self.module, path, 0);
        self.found.extend(file.map(|to| FileImport {
            from: self.file,
            to,
            line,
            path: path.join("::"),
        }));
    }
}

impl<'ast> Visit<'ast> for Imports<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        for import in flatten(&item.tree) {
            self.note(&import.path, import.line);
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let names: Vec<_> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if names.len() > 1 {
            self.note(&names, line(path));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        for path in Lexemes::of(&call.tokens).paths() {
            self.note(&path, line(&call.path));
        }
        visit::visit_macro(self, call);
    }

    /// `pub(in path)` imports nothing.
    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {}
}
