//! Tokens of code, counted so that neither layout nor comments change the count.

use proc_macro2::{Delimiter, Group, Punct, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

/// Operators of more than one character. `<<` and `>>` count as two tokens: without a parser they
/// cannot be told from nested generics.
const OPERATORS: [&str; 19] = [
    "::", "->", "=>", "==", "!=", "<=", ">=", "&&", "||", "+=", "-=", "*=", "/=", "%=", "^=", "&=",
    "|=", "..", "..=",
];

/// The tokens of some code as texts, without documentation and trailing commas.
///
/// An operator, a lifetime, a literal and each bracket is one.
pub(super) struct Lexemes(Vec<String>);

impl Lexemes {
    pub(super) fn of(code: &impl ToTokens) -> Lexemes {
        let mut lexemes = Lexemes(Vec::new());
        lexemes.read(code.to_token_stream());
        lexemes
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Calls of `unwrap` and `expect`.
    pub(super) fn unwraps(&self) -> usize {
        let calls = self.0.windows(3).filter(|three| {
            three[0] == "." && ["unwrap", "expect"].contains(&three[1].as_str()) && three[2] == "("
        });
        calls.count()
    }

    pub(super) fn unsafe_sites(&self) -> usize {
        self.0.iter().filter(|text| *text == "unsafe").count()
    }

    /// The paths that begin at `crate` or `super`.
    pub(super) fn paths(&self) -> Vec<Vec<String>> {
        let starts = (0..self.0.len()).filter(|&at| {
            let follows = at > 0 && self.0[at - 1] == "::";
            !follows && ["crate", "super"].contains(&self.0[at].as_str())
        });
        starts
            .map(|at| {
                let steps = self.0[at + 1..].chunks_exact(2);
                let names = steps
                    .take_while(|step| step[0] == "::")
                    .map(|step| &step[1]);
                std::iter::once(&self.0[at]).chain(names).cloned().collect()
            })
            .collect()
    }

    fn read(&mut self, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut rest = tokens.as_slice();
        while let Some((first, after)) = rest.split_first() {
            rest = match (first, after) {
                (TokenTree::Punct(hash), [TokenTree::Group(group), after @ ..])
                    if is_documentation(hash, group) =>
                {
                    after
                }
                (
                    TokenTree::Punct(hash),
                    [TokenTree::Punct(_), TokenTree::Group(group), after @ ..],
                ) if is_documentation(hash, group) => after,
                (TokenTree::Punct(punct), after) => self.read_operator(punct, after),
                (TokenTree::Group(group), after) => {
                    self.read_group(group);
                    after
                }
                (other, after) => {
                    self.0.push(other.to_string());
                    after
                }
            };
        }
    }

    /// Takes the longest operator, or a lifetime, and returns the tokens behind it.
    fn read_operator<'a>(&mut self, first: &'a Punct, after: &'a [TokenTree]) -> &'a [TokenTree] {
        let mut rest = after;
        let mut last = first;
        let mut text = first.as_char().to_string();
        while let (Spacing::Joint, [TokenTree::Punct(next), after @ ..]) = (last.spacing(), rest) {
            let longer = format!("{text}{}", next.as_char());
            if !OPERATORS.contains(&longer.as_str()) {
                break;
            }
            (text, last, rest) = (longer, next, after);
        }
        if let ("'", [TokenTree::Ident(name), after @ ..]) = (text.as_str(), rest) {
            text = format!("'{name}");
            rest = after;
        }
        self.0.push(text);
        rest
    }

    fn read_group(&mut self, group: &Group) {
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => return self.read(group.stream()),
        };
        self.0.push(open.to_owned());
        self.read(group.stream());
        if self.0.last().is_some_and(|last| last == ",") {
            self.0.pop();
        }
        self.0.push(close.to_owned());
    }
}

/// Whether the tokens are a comment that documents: `#[doc = "…"]`.
fn is_documentation(hash: &Punct, group: &Group) -> bool {
    let first = group.stream().into_iter().next();
    hash.as_char() == '#' && matches!(first, Some(TokenTree::Ident(name)) if name == "doc")
}
