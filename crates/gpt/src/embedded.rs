//! The text that comes with the program.

/// What messages and run records call the embedded text.
pub const NAME: &str = "the embedded tales";

/// Short tales in plain English, written for this project: what `train` learns when no other text is given.
pub const TEXT: &str = concat!(
    include_str!("../text/tales_one.txt"),
    "\n\n",
    include_str!("../text/tales_two.txt")
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_plain_text_of_a_useful_size() {
        assert!(TEXT.len() > 100_000, "{}", TEXT.len());
        assert!(TEXT.chars().all(|c| c == '\n' || (' '..='~').contains(&c)));
    }
}
