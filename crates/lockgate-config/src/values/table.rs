//! Tables of known keys.

use serde_json::Value as Json;

use crate::document::{Item, Node};
use crate::key_paths::FEW;
use crate::language::{Checker, Language, Row, Syntax, names, table_schema};
use crate::table::Table;

/// A table of these keys.
pub(crate) struct TableOf(pub(crate) &'static [Row]);

impl Syntax for TableOf {
    fn expected(&self) -> String {
        let names: Vec<_> = self.0.iter().map(|key| key.name).take(FEW).collect();
        let more = if self.0.len() > FEW { " and more" } else { "" };
        format!("a table of {}{more}", names.join(", "))
    }

    fn reference(&self) -> String {
        names("a table of ", self.0.iter().map(|key| key.name))
    }

    fn schema(&self) -> Json {
        table_schema(self.0)
    }

    fn takes(&self, node: &Node) -> bool {
        matches!(node, Node::Table(_))
    }

    fn table(&self) -> Option<&'static [Row]> {
        Some(self.0)
    }
}

impl Language for TableOf {
    type Value = Table;

    fn read(&self, item: &Item, path: &str, checker: &mut Checker<'_>) -> Option<Table> {
        match &item.node {
            Node::Table(branch) => Some(checker.table(self.0, branch, path, Some(&item.at))),
            _ => checker.wrong_type(self, item, path),
        }
    }
}
