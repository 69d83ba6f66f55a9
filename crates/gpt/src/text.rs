//! Numbers and times as people read them.

use std::time::Duration;

/// A whole number with a comma before every third digit from the right.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes in units of 10⁹.
pub(crate) fn gigabytes(bytes: f64) -> String {
    format!("{:.1} GB", bytes / 1e9)
}

/// A number of bytes in units of 10⁶.
pub(crate) fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}

/// A learning rate in as few characters as tell it.
pub(crate) fn rate(rate: f64) -> String {
    match rate {
        0.0 | 0.01..1e6 => rate.to_string(),
        rate => format!("{rate:e}"),
    }
}

/// A word of a command as a shell takes it: in quotes where it needs some.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./+:@%,=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A time in its two largest units.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s:02} s"),
        (h, m, _) => format!("{h} h {m:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_in_threes() {
        let texts = [0, 999, 1000, 46_337, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "46,337", "1,234,567"]);
    }

    #[test]
    fn words_of_a_command_are_quoted_where_they_must_be() {
        let words = ["runs/small-1", "a b", "it's", ""].map(quoted);
        assert_eq!(words, ["runs/small-1", "'a b'", r"'it'\''s'", "''"]);
    }

    #[test]
    fn rates_are_short() {
        let texts = [0.0, 3e-4, 0.05, 10.0, 1e7].map(rate);
        assert_eq!(texts, ["0", "3e-4", "0.05", "10", "1e7"]);
    }

    #[test]
    fn times_have_two_units() {
        let texts = [0, 59, 61, 3_725].map(|s| duration(Duration::from_secs(s)));
        assert_eq!(texts, ["0 s", "59 s", "1 min 01 s", "1 h 02 min"]);
    }
}
