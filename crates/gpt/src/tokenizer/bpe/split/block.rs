//! Where pieces begin within 64 bytes of ASCII, by operations on all of them at once.

/// Bytes of a block: as many as a word has bits.
pub(super) const LENGTH: usize = 64;

/// The last place of a block at which a beginning is certain: a contraction there is seen to its end and beyond.
const LAST: u32 = 60;

/// The places at which pieces of the rule of GPT-2 begin, but for the first, which is one. Places of which the block does not tell are
/// left out: those near its end, and all from the last one before a byte beyond ASCII.
#[inline]
pub(super) fn starts(block: &[u8; LENGTH]) -> u64 {
    let letters = mask(block, |byte| (byte | 0x20).wrapping_sub(b'a') < 26);
    let digits = mask(block, |byte| byte.wrapping_sub(b'0') < 10);
    let blanks = mask(block, |byte| byte == b' ');
    let spaces = blanks | mask(block, |byte| byte.wrapping_sub(b'\t') < 5);
    let others = !(letters | digits | spaces);
    let goes_on = (letters & letters << 1) | (digits & digits << 1) | (others & others << 1);
    let behind_blank = blanks << 1;
    let text = !(spaces | goes_on | behind_blank);
    // The first of a run of white space, and its last if text follows.
    let space = spaces & !(spaces << 1 & spaces >> 1);
    let foreign = mask(block, |byte| byte >= 0x80);
    let known = below((foreign.trailing_zeros()).saturating_sub(1).min(LAST + 1));
    let quotes = mask(block, |byte| byte == b'\'');
    // The first place counts for quotes: a contraction may stand there.
    let all = contractions(block, (text | space | 1) & known, quotes & known);
    all & known & !1
}

/// Ones at the first `count` places, of at most 63.
fn below(count: u32) -> u64 {
    (1 << count) - 1
}

/// Takes the letters of contractions to their apostrophes: no piece begins there, but one does behind.
#[inline]
fn contractions(block: &[u8; LENGTH], mut starts: u64, mut quotes: u64) -> u64 {
    while quotes != 0 {
        let place = quotes.trailing_zeros() as usize;
        quotes &= quotes - 1;
        if starts >> place & 1 == 0 {
            continue;
        }
        let end = match [block[place + 1], block[place + 2]] {
            [b's' | b'd' | b'm' | b't', _] => place + 2,
            [b'l', b'l'] | [b'v' | b'r', b'e'] => place + 3,
            _ => continue,
        };
        starts = starts & !(1 << (place + 1)) | 1 << end;
    }
    starts
}

/// One bit for each byte: whether it is of a kind.
#[inline(always)]
fn mask(block: &[u8; LENGTH], is: impl Fn(u8) -> bool) -> u64 {
    let mut found = [0_u8; LENGTH];
    for (found, &byte) in found.iter_mut().zip(block) {
        *found = u8::from(is(byte));
    }
    let (words, _) = found.as_chunks::<8>();
    let bits = words.iter().enumerate();
    bits.fold(0, |mask, (place, word)| mask | gather(*word) << (8 * place))
}

/// The lowest bits of eight bytes side by side: the product moves the bit of byte k to place 56 + k, and no two others meet.
#[inline(always)]
fn gather(bytes: [u8; 8]) -> u64 {
    u64::from_le_bytes(bytes).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts_of(text: &str) -> Vec<u32> {
        let mut block = [b'.'; LENGTH];
        block[..text.len()].copy_from_slice(text.as_bytes());
        let starts = starts(&block);
        (0..64).filter(|place| starts >> place & 1 == 1).collect()
    }

    #[test]
    fn bits_stand_where_their_bytes_do() {
        for place in 0..64 {
            let mut block = [0; LENGTH];
            block[place] = b'x';
            assert_eq!(mask(&block, |byte| byte == b'x'), 1 << place);
        }
        assert_eq!(gather([1; 8]), 0xFF);
    }

    #[test]
    fn pieces_begin_where_the_kind_changes_blanks_go_to_the_next() {
        assert_eq!(
            starts_of("one two  three\n\n4x!? ''"),
            [3, 7, 8, 14, 15, 16, 17, 18, 20]
        );
        assert_eq!(
            starts_of("don't they'll 's 'x"),
            [3, 5, 10, 13, 15, 16, 18, 19]
        );
        assert_eq!(starts_of("'sx 'll"), [2, 3, 5, 7]);
    }

    #[test]
    fn places_that_need_what_is_not_seen_are_left_out() {
        assert_eq!(starts_of("ab cd é ef"), [2]);
        let text = "a ".repeat(32);
        let found = starts_of(&text);
        assert_eq!(found.last(), Some(&59));
        for quote in 56..63 {
            let mut block = [b'a'; LENGTH];
            block[quote] = b'\'';
            block[quote + 1] = b's';
            let expected: Vec<u64> = [quote, quote + 2]
                .into_iter()
                .filter(|&it| it <= 60)
                .map(|it| 1 << it)
                .collect();
            assert_eq!(starts(&block), expected.iter().sum::<u64>(), "{quote}");
        }
    }
}
