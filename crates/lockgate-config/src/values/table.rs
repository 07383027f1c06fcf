//! The language of a table with known keys.

use serde_json::Value as Json;

use crate::document::{TomlItem, TomlValue};
use crate::key_paths::FEW;
use crate::language::{KeyRow, Language, Notation, TreeChecker, names, table_schema};
use crate::table::CheckedTable;

/// A table of these keys.
pub(crate) struct TableOf(pub(crate) &'static [KeyRow]);

impl Notation for TableOf {
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

    fn accepts(&self, node: &TomlValue) -> bool {
        matches!(node, TomlValue::Table(_))
    }

    fn table(&self) -> Option<&'static [KeyRow]> {
        Some(self.0)
    }
}

impl Language for TableOf {
    type Value = CheckedTable;

    fn read(
        &self,
        item: &TomlItem,
        path: &str,
        checker: &mut TreeChecker<'_>,
    ) -> Option<CheckedTable> {
        match &item.node {
            TomlValue::Table(branch) => Some(checker.table(self.0, branch, path, Some(&item.at))),
            _ => checker.wrong_type(self, item, path),
        }
    }
}
