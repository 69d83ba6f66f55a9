//! The parts of Markdown that the checks look at: fenced blocks, tables and links.

/// A fenced block of code.
#[derive(Debug, PartialEq)]
pub(crate) struct Block {
    /// The line of its opening fence, counted from one.
    pub(crate) line: usize,
    /// What follows the opening fence, such as `sh` or `rust,no_run`.
    pub(crate) language: String,
    /// The lines between the fences.
    pub(crate) body: Vec<String>,
    /// The line before the opening fence.
    pub(crate) before: String,
}

const FENCE: &str = "```";

/// The fenced blocks of a text, in order.
pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut before = "";
    for (index, line) in text.lines().enumerate() {
        match (line.trim_start().strip_prefix(FENCE), open.as_mut()) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => {
                let (language, before) = (language.trim().to_owned(), before.trim().to_owned());
                open = Some(Block {
                    line: index + 1,
                    language,
                    body: Vec::new(),
                    before,
                });
            }
            (None, Some(block)) => block.body.push(line.to_owned()),
            (None, None) => {}
        }
        before = line;
    }
    blocks
}

/// A table.
#[derive(Debug, PartialEq)]
pub(crate) struct Table {
    /// The titles of its columns.
    pub(crate) header: Vec<String>,
    /// Its rows, each with its line counted from one.
    pub(crate) rows: Vec<(usize, Vec<String>)>,
    /// The line before it.
    pub(crate) before: String,
}

/// The tables of a text outside fenced blocks, in order.
pub(crate) fn tables(text: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    let (mut fenced, mut within, mut before) = (false, false, "");
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        fenced ^= line.starts_with(FENCE);
        let is_row = !fenced && line.starts_with('|');
        match tables.last_mut().filter(|_| within && is_row) {
            Some(_) if is_rule(line) => {}
            Some(table) => table.rows.push((index + 1, cells(line))),
            None if is_row => tables.push(Table {
                header: cells(line),
                rows: Vec::new(),
                before: before.to_owned(),
            }),
            None => {}
        }
        (within, before) = (is_row, line);
    }
    tables
}

/// Whether a row is the line between header and body.
fn is_rule(row: &str) -> bool {
    row.chars().all(|letter| "|-: ".contains(letter))
}

fn cells(row: &str) -> Vec<String> {
    let row = row.trim_start_matches('|').trim_end_matches('|');
    row.split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// The targets of the links and images outside fenced blocks and code spans, each with its line counted from one.
pub(crate) fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with(FENCE) {
            fenced = !fenced;
        } else if !fenced {
            links.extend(
                links_of_line(line)
                    .into_iter()
                    .map(|target| (index + 1, target)),
            );
        }
    }
    links
}

fn links_of_line(line: &str) -> Vec<String> {
    // Every second piece between backticks is a code span.
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let inline = prose
        .split("](")
        .skip(1)
        .filter_map(|tail| tail.split(')').next());
    let definition = prose
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .map(|(_, target)| target);
    // A title may follow the target after a space.
    inline
        .chain(definition)
        .filter_map(|link| link.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_carry_their_surroundings() {
        let text = "# Title\n<!-- ci -->\n```sh\n$ true\n\nfalse\n```\n\n  ```text\n  out\n  ```\n";
        let found = blocks(text);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (
                found[0].line,
                found[0].language.as_str(),
                found[0].before.as_str()
            ),
            (3, "sh", "<!-- ci -->")
        );
        assert_eq!(found[0].body, ["$ true", "", "false"]);
        assert_eq!(
            (
                found[1].line,
                found[1].language.as_str(),
                found[1].before.as_str()
            ),
            (9, "text", "")
        );
    }

    #[test]
    fn tables_carry_their_surroundings() {
        let text = "<!-- mark -->\n| a | b |\n|---|--:|\n| `1` | 2 |\n| 3 | 4 |\n\n```\n| no |\n```\n| c |\n|---|\n";
        let found = tables(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].before, "<!-- mark -->");
        assert_eq!(found[0].header, ["a", "b"]);
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(
            found[0].rows,
            [(4, row(["`1`", "2"])), (5, row(["3", "4"]))]
        );
        assert_eq!(
            (found[1].header.as_slice(), found[1].rows.len()),
            (&["c".to_owned()][..], 0)
        );
    }

    #[test]
    fn links_are_found_outside_code() {
        let text = "See [a](a.md) and ![b](img/b.svg \"B\").\n`[c](c.md)` [`d`](d.md)\n```\n[e](e.md)\n```\n[f]: f.md\n";
        let expected = [(1, "a.md"), (1, "img/b.svg"), (2, "d.md"), (6, "f.md")];
        assert_eq!(
            links(text),
            expected.map(|(line, target)| (line, target.to_owned()))
        );
    }
}
