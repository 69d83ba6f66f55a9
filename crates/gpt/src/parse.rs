//! Values on the command line.

/// A whole number that is not negative and that a configuration file can store, which has signed numbers of 64 bits.
pub(crate) fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = text.parse().ok().filter(|n| *n <= i64::MAX as u64);
    number
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| format!("expected a whole number from 0 to {}", i64::MAX))
}

/// A decimal number; its range is checked where the setting is known.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "expected a number".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f40_what_is_no_number_is_refused_in_words() {
        assert_eq!(whole::<usize>("7"), Ok(7));
        assert_eq!(
            whole::<usize>("-1").unwrap_err(),
            "expected a whole number from 0 to 9223372036854775807"
        );
        assert_eq!(number("1e-3"), Ok(1e-3));
        assert_eq!(number("abc").unwrap_err(), "expected a number");
        assert_eq!(whole("9223372036854775807"), Ok(i64::MAX as u64));
        assert!(whole::<u64>("9223372036854775808").is_err());
        assert!(whole::<u64>("18446744073709551615").is_err());
    }
}
