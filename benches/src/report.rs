//! Rows of results: as a table for people, as JSON for programs.

use anyhow::Result;
use serde::Serialize;

use crate::contender::{Author, Contest};
use crate::rounds::Times;

/// What is reported of one contender.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    bench: &'static str,
    variant: &'static str,
    author: Author,
    /// What is wrong with what it computed.
    fault: Option<String>,
    times: Times,
    /// Nanoseconds of the hand-written code.
    hand: f64,
    /// Name and nanoseconds of the fastest crate that was right.
    fastest_crate: Option<(&'static str, f64)>,
    instructions: Option<f64>,
}

/// A row of ours in JSON; its fields are what other programs read.
#[derive(Serialize)]
struct Object {
    bench: &'static str,
    variant: &'static str,
    min_ns: f64,
    median_ns: f64,
    hand_ns: f64,
    times_hand: Option<f64>,
    fastest_crate: Option<&'static str>,
    fastest_crate_ns: Option<f64>,
    faster_than_crate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<f64>,
}

/// One row per contender. `counts` may be shorter than the list of contenders.
pub(crate) fn rows(
    bench: &'static str,
    contest: &Contest,
    times: &[Times],
    counts: &[Option<f64>],
) -> Vec<Row> {
    let faults = contest.faults();
    let all = || contest.contenders.iter().zip(times).zip(&faults);
    let fastest_crate = all()
        .filter(|((contender, _), fault)| contender.author == Author::Crate && fault.is_none())
        .map(|((contender, times), _)| (contender.name, times.minimum))
        .min_by(|a, b| a.1.total_cmp(&b.1));
    let counts = counts.iter().copied().chain(std::iter::repeat(None));
    all()
        .zip(counts)
        .map(|(((contender, &measured), fault), instructions)| Row {
            bench,
            variant: contender.name,
            author: contender.author,
            fault: fault.clone(),
            times: measured,
            hand: times[0].minimum,
            fastest_crate,
            instructions,
        })
        .collect()
}

impl Row {
    fn is_ours(&self) -> bool {
        self.author == Author::Ours
    }

    /// Whether this is no reason to fail: other people's faults are not.
    pub(crate) fn is_fine(&self) -> bool {
        self.fault.is_none() || self.author == Author::Crate
    }

    fn times_hand(&self) -> f64 {
        self.times.minimum / self.hand
    }

    fn faster_than_crate(&self) -> Option<f64> {
        self.fastest_crate
            .map(|(_, crate_ns)| crate_ns / self.times.minimum)
    }

    /// What JSON says of the row. What is wrong has no ratios: it does not count.
    fn object(&self) -> Object {
        let right = self.fault.is_none();
        Object {
            bench: self.bench,
            variant: self.variant,
            min_ns: self.times.minimum,
            median_ns: self.times.median,
            hand_ns: self.hand,
            times_hand: right.then(|| self.times_hand()),
            fastest_crate: self.fastest_crate.map(|(name, _)| name),
            fastest_crate_ns: self.fastest_crate.map(|(_, crate_ns)| crate_ns),
            faster_than_crate: self.faster_than_crate().filter(|_| right),
            instructions: self.instructions,
        }
    }

    /// What is wrong, as a line for the standard error.
    pub(crate) fn fault(&self) -> Option<String> {
        let fault = self.fault.as_ref()?;
        Some(format!(
            "{} {}: wrong, and does not count: {fault}",
            self.bench, self.variant
        ))
    }

    fn line(&self) -> String {
        let times = format!(
            "{:<10} {:<12} {:>11} {:>11}",
            self.bench,
            self.variant,
            number(self.times.minimum),
            number(self.times.median)
        );
        let instructions = self.instructions.map_or(String::new(), |count| {
            format!("  {} instructions", number(count))
        });
        match &self.fault {
            Some(fault) => format!("{times}  WRONG: {fault}"),
            None => format!(
                "{times} {:>8}x {:>10}{instructions}",
                number(self.times_hand()),
                self.faster_than_crate()
                    .map_or("-".to_owned(), |ratio| format!("{}x", number(ratio)))
            ),
        }
    }
}

/// Three digits, or all before the point.
pub(crate) fn number(x: f64) -> String {
    match x.abs() {
        ..9.995 => format!("{x:.2}"),
        ..99.95 => format!("{x:.1}"),
        _ => format!("{x:.0}"),
    }
}

/// The rows of ours as JSON, one object per line.
pub(crate) fn json_lines(rows: &[Row]) -> Result<String> {
    let ours = rows.iter().filter(|row| row.is_ours());
    let lines: Result<Vec<_>, _> = ours
        .map(|row| serde_json::to_string(&row.object()))
        .collect();
    Ok(lines?.join("\n"))
}

/// The rows of one contest as a table.
pub(crate) fn table(rows: &[Row]) -> String {
    let header = format!(
        "{:<10} {:<12} {:>11} {:>11} {:>9} {:>10}",
        "bench", "variant", "min ns", "median ns", "of hand", "of crate"
    );
    let fastest = rows.first().and_then(|row| row.fastest_crate);
    let legend = match fastest {
        Some((name, _)) => format!(
            "of hand: time over the hand-written code's; of crate: speed over the fastest right crate's, {name}"
        ),
        None => "of hand: time over the hand-written code's".to_owned(),
    };
    let lines = rows.iter().map(Row::line);
    std::iter::once(header)
        .chain(lines)
        .chain([legend, String::new()])
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::{Contender, Sample};

    /// Reference, a fast but wrong crate, a right one, and ours.
    fn contest(ours: f64) -> Contest {
        let contender = |name, author, value: f64| {
            Contender::of_few(name, author, [0.0], move |x| Ok::<_, String>((value, x)))
        };
        Contest {
            expected: vec![Sample {
                value: 1.0,
                gradient: vec![0.0],
            }],
            contenders: vec![
                contender("hand", Author::Hand, 1.0),
                contender("hasty", Author::Crate, 2.0),
                contender("steady", Author::Crate, 1.0),
                contender("tape", Author::Ours, ours),
            ],
        }
    }

    fn rows_of(ours: f64, counts: &[Option<f64>]) -> Vec<Row> {
        let times = [2.0, 1.0, 80.0, 10.0].map(|minimum| Times {
            minimum,
            median: minimum + 1.0,
        });
        rows("tiny", &contest(ours), &times, counts)
    }

    #[test]
    fn the_json_has_every_field() {
        let rows = rows_of(1.0, &[]);
        let expected = concat!(
            r#"{"bench":"tiny","variant":"tape","min_ns":10.0,"median_ns":11.0,"hand_ns":2.0,"times_hand":5.0,"#,
            r#""fastest_crate":"steady","fastest_crate_ns":80.0,"faster_than_crate":8.0}"#
        );
        assert_eq!(json_lines(&rows).unwrap(), expected, "one line, ours");
        assert!(rows[3].is_fine() && rows[3].fault().is_none());
    }

    #[test]
    fn a_wrong_crate_is_shown_and_does_not_count() {
        let rows = rows_of(1.0, &[]);
        assert!(rows[1].is_fine() && !rows[1].is_ours());
        let table = table(&rows);
        assert!(table.contains("WRONG: value 2 instead of 1"), "{table}");
        assert!(table.contains("fastest right crate's, steady"), "{table}");
        assert!(table.contains("8.00x"), "{table}");
        let fault = rows[1].fault().expect("it is wrong");
        assert!(fault.starts_with("tiny hasty: wrong, and does"), "{fault}");
    }

    #[test]
    fn a_wrong_variant_of_ours_has_no_ratios() {
        let ours = &rows_of(7.0, &[])[3];
        assert!(!ours.is_fine());
        let object = ours.object();
        assert!(object.times_hand.is_none() && object.faster_than_crate.is_none());
    }

    #[test]
    fn counts_are_added_where_there_are_some() {
        let rows = rows_of(1.0, &[Some(20.0), None, None, Some(123.4)]);
        let json = json_lines(&rows).unwrap();
        assert!(json.ends_with(r#","instructions":123.4}"#), "{json}");
        assert!(table(&rows).contains("123 instructions"));
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(
            [1.234, 12.34, 123.4, 12345.6].map(number),
            ["1.23", "12.3", "123", "12346"]
        );
    }
}
