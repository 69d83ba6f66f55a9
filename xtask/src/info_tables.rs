//! Tables on pages that hold what `burtorch-gpt info` says, held against it.
//!
//! Such a table follows the line `<!-- info FLAGS -->`. The first cell of a row holds further flags between backticks; the columns
//! named in [`COLUMNS`] must be what `info` prints with all those flags, other columns are the author's.

use crate::markdown::{Table, tables};
use crate::product::Product;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

const MARK: (&str, &str) = ("<!-- info", "-->");

/// What a column holds: its title, the name in the JSON, and how the number is written.
type Column = (&'static str, &'static str, fn(f64) -> String);

const COLUMNS: [Column; 3] = [
    ("parameters", "params", whole),
    ("GFLOP a step", "flops_per_step", billions),
    ("memory, MB", "peak_rss_mb", whole),
];

/// Compares the tables of a page; the number of rows it found.
pub(crate) fn check(page: &str, text: &str, product: &Product) -> Result<usize> {
    let mut rows = 0;
    for table in tables(text) {
        let Some(flags) = flags(&table.before) else {
            continue;
        };
        for (line, cells) in &table.rows {
            let place = || format!("{page}:{line}");
            let info = product
                .info(&format!("{flags} {}", cells[0].trim_matches('`')))
                .with_context(place)?;
            check_row(&table, cells, &info).with_context(place)?;
            rows += 1;
        }
    }
    Ok(rows)
}

/// The flags that hold for a whole table, if the line before it marks it.
fn flags(before: &str) -> Option<&str> {
    Some(before.strip_prefix(MARK.0)?.strip_suffix(MARK.1)?.trim())
}

fn check_row(table: &Table, cells: &[String], info: &Value) -> Result<()> {
    let mut compared = 0;
    for (title, cell) in table.header.iter().zip(cells) {
        let Some((_, name, written)) = COLUMNS.iter().find(|column| column.0 == title) else {
            continue;
        };
        let number = info[name]
            .as_f64()
            .with_context(|| format!("info says nothing of {name}"))?;
        let expected = written(number);
        ensure!(
            *cell == expected,
            "{title}: info says {expected}, the page {cell}"
        );
        compared += 1;
    }
    ensure!(compared > 0, "the table has no column that info knows");
    Ok(())
}

/// A whole number with a comma before every third digit from the right.
fn whole(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Units of 10⁹, to three digits.
fn billions(number: f64) -> String {
    let number = number / 1e9;
    match number {
        100.0.. => whole(number),
        10.0.. => format!("{number:.1}"),
        1.0.. => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(cells: &[&str]) -> Result<()> {
        let text = format!(
            "<!-- info --threads 1 -->\n| flags | parameters | memory, MB | ms |\n|---|---|---|---|\n| {} |\n",
            cells.join(" | ")
        );
        let table = &tables(&text)[0];
        assert_eq!(flags(&table.before), Some("--threads 1"));
        let info = json!({"params": 804096, "peak_rss_mb": 35.6});
        check_row(table, &table.rows[0].1, &info)
    }

    #[test]
    fn rows_are_compared() {
        assert!(row(&["`--preset small`", "804,096", "36", "any"]).is_ok());
        let error = row(&["`--preset small`", "804,095", "36", "any"]).expect_err("one too few");
        assert_eq!(
            error.to_string(),
            "parameters: info says 804,096, the page 804,095"
        );
        assert!(row(&["`--preset small`", "804,096", "35", "any"]).is_err());
    }

    #[test]
    fn a_marked_table_must_hold_something_to_compare() {
        let text = "<!-- info -->\n| flags | ms |\n|---|---|\n| `a` | 1 |\n";
        let table = &tables(text)[0];
        assert!(check_row(table, &table.rows[0].1, &json!({})).is_err());
    }

    #[test]
    fn other_tables_are_left_alone() {
        assert_eq!(flags("Some text:"), None);
        assert_eq!(flags("<!-- info -->"), Some(""));
    }

    #[test]
    fn numbers_are_written_as_people_read_them() {
        assert_eq!([whole(999.6), whole(1_234_567.0)], ["1,000", "1,234,567"]);
        let written = [3.964e9, 0.1399e9, 72.64e9, 1_234.5e9].map(billions);
        assert_eq!(written, ["3.96", "0.140", "72.6", "1,234"]);
    }
}
