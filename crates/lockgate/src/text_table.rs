//! Plain tables for people: columns of one width each, numbers to the right.

use crate::printable::printable;

/// A table with a head.
pub(crate) struct TextTable {
    rows: Vec<Vec<String>>,
}

/// The space between two columns.
const GAP: &str = "  ";

impl TextTable {
    /// A table with the names of its columns.
    pub(crate) fn new(head: &[&str]) -> Self {
        let head = head.iter().map(ToString::to_string).collect();
        Self { rows: vec![head] }
    }

    /// Adds a row; an empty cell is shown as `-`. No cell has more than one line.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let shown = |cell: String| {
            if cell.is_empty() {
                "-".to_owned()
            } else {
                printable(&cell).into_owned()
            }
        };
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    /// The lines, each with its end.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let columns: Vec<(usize, bool)> = (0..columns).map(|at| self.column(at)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&columns).map(|(cell, (width, is_number))| {
                if *is_number {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            });
            let line = cells.collect::<Vec<_>>().join(GAP);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// The width of a column, and whether it has numbers.
    fn column(&self, at: usize) -> (usize, bool) {
        let cells = || self.rows.iter().filter_map(move |row| row.get(at));
        let width = cells().map(|cell| cell.chars().count()).max().unwrap_or(0);
        // Units may follow a number, but no other part of an address or a date.
        let is_number = |cell: &String| {
            cell == "-"
                || cell.starts_with(|first: char| first.is_ascii_digit())
                    && !cell.contains([':', '/'])
                    && cell.matches('.').count() < 2
                    && cell.matches('-').count() < 2
        };
        let mut values = cells().skip(1).peekable();
        let is_number = values.peek().is_some() && values.all(is_number);
        (width, is_number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_cannot_break_the_table() {
        let mut table = TextTable::new(&["CLIENT", "REASON"]);
        table.row(["10.0.0.1", "a\u{1b}[2J\nb\u{202e}c"].map(str::to_owned));
        table.row(["10.0.0.2", "scans"].map(str::to_owned));
        assert_eq!(
            table.render(),
            "CLIENT    REASON\n\
             10.0.0.1  a\\u{1b}[2J\\nb\\u{202e}c\n\
             10.0.0.2  scans\n"
        );
    }

    #[test]
    fn numbers_stand_to_the_right_and_texts_to_the_left() {
        let mut table = TextTable::new(&["POOL", "ADDRESS", "REQ/S", "P99"]);
        for cells in [
            ["app", "10.0.0.1:80", "9.5", "3.2 ms"],
            ["a", "unix:/run/a.sock", "1200", ""],
        ] {
            table.row(cells.map(str::to_owned));
        }
        assert_eq!(
            table.render(),
            "POOL  ADDRESS           REQ/S     P99\n\
             app   10.0.0.1:80         9.5  3.2 ms\n\
             a     unix:/run/a.sock   1200       -\n"
        );
        assert_eq!(TextTable::new(&["A", "B"]).render(), "A  B\n");
    }
}
