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
    fn times_have_two_units() {
        let texts = [0, 59, 61, 3_725].map(|s| duration(Duration::from_secs(s)));
        assert_eq!(texts, ["0 s", "59 s", "1 min 01 s", "1 h 02 min"]);
    }
}
