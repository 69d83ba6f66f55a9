//! How fast pieces of work are: measured in turns, and held against the limit that applies.

use std::hint::black_box;

use anyhow::Result;
use serde::Serialize;

use crate::limits::Peak;
use crate::report::number;
use crate::rounds::{Times, in_turns};

/// What the user asked of a suite.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// Only what has one of these words in its name; all if there is none.
    pub(crate) names: Vec<String>,
    pub(crate) json: bool,
}

impl Options {
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|word| name.contains(word))
    }
}

/// How much there is to do, and so what limits it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Amount {
    /// f32 operations, which multiply-adds in registers do two at a time.
    Operations(f64),
    /// Bytes read and written; a copy of half as many bytes moves as many.
    Bytes(f64),
}

/// A piece of work.
pub(crate) struct Work<'a> {
    pub(crate) pass: &'static str,
    pub(crate) who: &'static str,
    pub(crate) amount: Amount,
    pub(crate) call: Box<dyn FnMut() + 'a>,
}

/// A line; its fields are what other programs read.
#[derive(Debug, Serialize)]
struct Row<'a> {
    bench: &'static str,
    what: &'a str,
    pass: &'static str,
    who: &'static str,
    us: f64,
    min_us: f64,
    gflops: Option<f64>,
    gb_per_s: Option<f64>,
    times_limit: f64,
    peak_gflops: f64,
}

/// The heads of the columns.
pub(crate) fn header() -> String {
    format!(
        "{:<28} {:<15} {:<15} {:>9} {:>9} {:>8} {:>7} {:>8}",
        "what", "pass", "who", "us", "min us", "GFLOP/s", "GB/s", "x limit"
    )
}

/// Measures pieces of work in turns, with the peak probe and, where bytes are the limit, with copies of as many bytes; prints a line
/// for each.
pub(crate) fn report(
    bench: &'static str,
    what: &str,
    works: Vec<Work<'_>>,
    json: bool,
) -> Result<()> {
    let (amounts, names): (Vec<_>, Vec<_>) = works
        .iter()
        .map(|work| (work.amount, (work.pass, work.who)))
        .unzip();
    let copies: Vec<_> = amounts.iter().copied().filter_map(copy).collect();
    let mut calls: Vec<_> = works.into_iter().map(|work| work.call).collect();
    calls.extend(copies);
    let mut peak = Peak::default();
    let times = in_turns(&mut calls, || peak.probe());
    let (times, copies) = times.split_at(amounts.len());
    let mut copies = copies.iter();
    for ((amount, (pass, who)), times) in amounts.into_iter().zip(names).zip(times) {
        let limit = match amount {
            Amount::Operations(count) => 1e9 * count / peak.flops(),
            Amount::Bytes(_) => copies.next().map_or(f64::NAN, |times| times.minimum),
        };
        let row = row(bench, what, (pass, who), amount, *times, (limit, peak));
        if json {
            println!("{}", serde_json::to_string(&row)?);
        } else {
            println!("{}", row.line());
        }
    }
    Ok(())
}

/// A copy that moves as many bytes.
fn copy(amount: Amount) -> Option<Box<dyn FnMut()>> {
    let Amount::Bytes(bytes) = amount else {
        return None;
    };
    let length = (bytes / 8.0) as usize;
    let (from, mut to) = (vec![1.0_f32; length], vec![0.0_f32; length]);
    Some(Box::new(move || {
        black_box(&mut to).copy_from_slice(black_box(&from));
    }))
}

fn row<'a>(
    bench: &'static str,
    what: &'a str,
    (pass, who): (&'static str, &'static str),
    amount: Amount,
    times: Times,
    (limit, peak): (f64, Peak),
) -> Row<'a> {
    let (gflops, gb_per_s) = match amount {
        Amount::Operations(count) => (Some(count / times.minimum), None),
        Amount::Bytes(count) => (None, Some(count / times.minimum)),
    };
    Row {
        bench,
        what,
        pass,
        who,
        us: times.median / 1e3,
        min_us: times.minimum / 1e3,
        gflops,
        gb_per_s,
        times_limit: times.minimum / limit,
        peak_gflops: peak.flops() / 1e9,
    }
}

impl Row<'_> {
    fn line(&self) -> String {
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), number);
        format!(
            "{:<28} {:<15} {:<15} {:>9} {:>9} {:>8} {:>7} {:>8}",
            self.what,
            self.pass,
            self.who,
            number(self.us),
            number(self.min_us),
            shown(self.gflops),
            shown(self.gb_per_s),
            number(self.times_limit)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_that_of_the_amount() {
        let times = Times {
            minimum: 1000.0,
            median: 2000.0,
        };
        let peak = Peak::of(4e9);
        let names = ("forward", "burtorch");
        let of = |amount, limit| row("ops", "add", names, amount, times, (limit, peak));
        let operations = of(Amount::Operations(2000.0), 500.0);
        assert_eq!((operations.gflops, operations.gb_per_s), (Some(2.0), None));
        let bytes = of(Amount::Bytes(8000.0), 800.0);
        assert_eq!((bytes.gflops, bytes.gb_per_s), (None, Some(8.0)));
        assert_eq!((operations.times_limit, bytes.times_limit), (2.0, 1.25));
        let json = concat!(
            r#"{"bench":"ops","what":"add","pass":"forward","who":"burtorch","us":2.0,"min_us":1.0,"gflops":null,"#,
            r#""gb_per_s":8.0,"times_limit":1.25,"peak_gflops":4.0}"#
        );
        assert_eq!(serde_json::to_string(&bytes).unwrap(), json);
        assert!(bytes.line().ends_with(" 1.25"));
    }

    #[test]
    fn only_bytes_are_copied() {
        assert!(copy(Amount::Operations(1e3)).is_none() && copy(Amount::Bytes(1e3)).is_some());
    }

    #[test]
    fn words_select() {
        let options = |names: &[&str]| Options {
            names: names.iter().map(|&word| word.to_owned()).collect(),
            json: false,
        };
        assert!(options(&[]).wants("mini add"));
        assert!(options(&["base", "add"]).wants("mini add"));
        assert!(!options(&["base"]).wants("mini add"));
    }
}
