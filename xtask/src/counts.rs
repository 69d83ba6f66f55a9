//! Counting tests in what cargo prints.

/// How many tests ran, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// Tests that passed.
    pub(crate) passed: u64,
    /// Tests that failed.
    pub(crate) failed: u64,
}

impl Counts {
    /// Adds the counts of a result line such as `test result: ok. 3 passed; 0 failed; …`; other lines add nothing.
    pub(crate) fn add_line(&mut self, line: &str) {
        let Some(result) = line.trim().strip_prefix("test result: ") else {
            return;
        };
        self.passed += number_before(result, " passed;");
        self.failed += number_before(result, " failed;");
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// The number that stands directly before `label`, or 0.
fn number_before(text: &str, label: &str) -> u64 {
    let before = text
        .split(label)
        .next()
        .filter(|head| head.len() < text.len());
    let digits = before.and_then(|head| head.rsplit(' ').next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(output: &str) -> Counts {
        let mut counts = Counts::default();
        output.lines().for_each(|line| counts.add_line(line));
        counts
    }

    #[test]
    fn result_lines_are_summed() {
        let output = "running 2 tests\ntest a ... ok\n\
            test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test result: FAILED. 1234 passed; 5 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s\n";
        assert_eq!(
            count(output),
            Counts {
                passed: 1236,
                failed: 5
            }
        );
        assert_eq!(count(output).to_string(), "1236 passed, 5 failed");
    }

    #[test]
    fn other_lines_count_for_nothing() {
        assert_eq!(
            count("12 passed; 3 failed;\ntest result: unknown\n\n"),
            Counts::default()
        );
    }
}
