//! Rows in columns: the first to the left, figures to the right.

/// Each row as a line with its indent; a column is as wide as its widest cell, and shorter rows are
/// filled up.
pub(crate) fn aligned(indent: usize, rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| letters(cell))
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = " ".repeat(indent);
        for (column, cell) in row.iter().enumerate() {
            let fill = " ".repeat(widths[column] - letters(cell));
            if column == 0 {
                line.push_str(cell);
                line.push_str(&fill);
            } else {
                line.push_str("  ");
                line.push_str(&fill);
                line.push_str(cell);
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn letters(cell: &str) -> usize {
    cell.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_under_each_other_whatever_their_unit() {
        let row = |cells: &[&str]| {
            cells
                .iter()
                .map(|cell| (*cell).to_owned())
                .collect::<Vec<_>>()
        };
        let table = aligned(
            2,
            &[
                row(&["p50", "12.3 µs"]),
                row(&["p99.9", "1 s", "x"]),
                row(&["max"]),
            ],
        );
        assert_eq!(table, "  p50    12.3 µs\n  p99.9      1 s  x\n  max\n");
        assert_eq!(aligned(2, &[]), "");
    }
}
