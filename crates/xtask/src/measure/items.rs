//! Items of a file: functions, structs, names of types, documentation of what is public.

use std::collections::BTreeMap;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, FnArg, ImplItemFn, ItemConst, ItemEnum, ItemFn, ItemStatic, ItemStruct,
    ItemTrait, ItemType, Signature, TraitItemFn, Visibility,
};

use super::tokens::Lexemes;

/// Names that each file may give to a private type.
const LOCAL_NAMES: [&str; 3] = ["State", "Error", "Kind"];

const MANY_FIELDS: usize = 10;
const MOST_PARAMETERS: usize = 5;

/// The figures of a file's items.
#[derive(Default)]
pub(super) struct Items {
    pub(super) functions: Vec<Function>,
    pub(super) structs: usize,
    /// Structs with ten fields or more.
    pub(super) wide_structs: usize,
    /// Functions with more than five parameters besides `self`.
    pub(super) long_signatures: usize,
    /// `pub` items and methods; modules, fields and variants are not counted.
    pub(super) public: usize,
    pub(super) documented: usize,
    /// The names of structs, enums, traits and type aliases.
    pub(super) types: Vec<String>,
}

/// A function with a body, from `fn` to the closing brace.
pub(super) struct Function {
    pub(super) lines: usize,
    pub(super) tokens: usize,
    pub(super) statements: usize,
}

impl Items {
    pub(super) fn of(file: &syn::File) -> Items {
        let mut items = Items::default();
        items.visit_file(file);
        items
    }

    fn note_public(&mut self, visibility: &Visibility, attributes: &[Attribute]) {
        if !matches!(visibility, Visibility::Public(_)) {
            return;
        }
        self.public += 1;
        let is_documented = attributes.iter().any(|one| one.path().is_ident("doc"));
        self.documented += usize::from(is_documented);
    }

    fn note_type(&mut self, visibility: &Visibility, name: &syn::Ident) {
        let name = name.to_string();
        let is_private = matches!(visibility, Visibility::Inherited);
        if !(is_private && LOCAL_NAMES.contains(&name.as_str())) {
            self.types.push(name);
        }
    }

    fn note_signature(&mut self, signature: &Signature) {
        let inputs = signature.inputs.iter();
        let parameters = inputs.filter(|input| matches!(input, FnArg::Typed(_)));
        self.long_signatures += usize::from(parameters.count() > MOST_PARAMETERS);
    }

    fn note_function(&mut self, signature: &Signature, block: &Block) {
        let first = signature.span().start().line;
        let last = block.span().end().line;
        self.functions.push(Function {
            lines: last - first + 1,
            tokens: Lexemes::of(signature).len() + Lexemes::of(block).len(),
            statements: block.stmts.len(),
        });
    }
}

impl<'ast> Visit<'ast> for Items {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.note_public(&item.vis, &item.attrs);
        self.note_function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.note_public(&item.vis, &item.attrs);
        self.note_function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.note_function(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.note_signature(signature);
        visit::visit_signature(self, signature);
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.note_public(&item.vis, &item.attrs);
        self.note_type(&item.vis, &item.ident);
        self.structs += 1;
        self.wide_structs += usize::from(item.fields.len() >= MANY_FIELDS);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.note_public(&item.vis, &item.attrs);
        self.note_type(&item.vis, &item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.note_public(&item.vis, &item.attrs);
        self.note_type(&item.vis, &item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        self.note_public(&item.vis, &item.attrs);
        self.note_type(&item.vis, &item.ident);
        visit::visit_item_type(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast ItemConst) {
        self.note_public(&item.vis, &item.attrs);
        visit::visit_item_const(self, item);
    }

    fn visit_item_static(&mut self, item: &'ast ItemStatic) {
        self.note_public(&item.vis, &item.attrs);
        visit::visit_item_static(self, item);
    }
}

/// The names that more than one type has.
pub(super) struct SharedNames<'a> {
    /// Each name with the files that define it, one entry per definition.
    pub(super) names: BTreeMap<&'a str, Vec<&'a str>>,
    /// All definitions, shared or not.
    pub(super) types: usize,
}

impl<'a> SharedNames<'a> {
    /// From pairs of a type's name and the file that defines it.
    pub(super) fn of(types: impl Iterator<Item = (&'a str, &'a str)>) -> SharedNames<'a> {
        let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut count = 0;
        for (name, path) in types {
            names.entry(name).or_default().push(path);
            count += 1;
        }
        names.retain(|_, paths| paths.len() > 1);
        SharedNames {
            names,
            types: count,
        }
    }

    /// Definitions whose name is another definition's as well.
    pub(super) fn definitions(&self) -> usize {
        self.names.values().map(Vec::len).sum()
    }
}
