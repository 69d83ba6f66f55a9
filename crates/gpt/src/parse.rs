//! Values on the command line.

use std::str::FromStr;

/// A whole number that is not negative.
pub(crate) fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| "expected a whole number of at least 0".to_owned())
}

/// A decimal number; its range is checked where the setting is known.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "expected a number".to_owned())
}

/// A seed: what a configuration file can store, which has signed numbers of 64 bits.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    let seed = text.parse().ok().filter(|seed| *seed <= i64::MAX as u64);
    seed.ok_or_else(|| format!("expected a whole number from 0 to {}", i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f40_what_is_no_number_is_refused_in_words() {
        assert_eq!(whole::<usize>("7"), Ok(7));
        assert_eq!(
            whole::<usize>("-1").unwrap_err(),
            "expected a whole number of at least 0"
        );
        assert_eq!(number("1e-3"), Ok(1e-3));
        assert_eq!(number("abc").unwrap_err(), "expected a number");
        assert_eq!(seed("9223372036854775807"), Ok(i64::MAX as u64));
        assert!(seed("9223372036854775808").is_err());
    }
}
