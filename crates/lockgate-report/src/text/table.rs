//! Rows in columns, as wide as their widest cells.

/// Each row as a line with its indent: the first column to the left, the others to the right.
pub(crate) fn aligned(indent: usize, rows: &[Vec<String>]) -> String {
    columns(indent, rows, |column| column > 0)
}

/// Each row as a line with its indent, columns to the right where `is_right` says so; shorter rows
/// are filled up.
pub fn columns(indent: usize, rows: &[Vec<String>], is_right: impl Fn(usize) -> bool) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| letters(cell)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let blanks = " ".repeat(widths[column] - letters(cell));
            if is_right(column) {
                blanks + cell
            } else {
                format!("{cell}{blanks}")
            }
        });
        let line = " ".repeat(indent) + &cells.collect::<Vec<_>>().join("  ");
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
