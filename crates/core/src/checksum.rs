//! The checksum of our files: FNV-1a of 64 bits (Fowler, Noll and Vo).

/// The checksum of no bytes.
pub(crate) const OF_NOTHING: u64 = 0xcbf2_9ce4_8422_2325;

pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    extended(OF_NOTHING, bytes)
}

/// The checksum of the bytes behind `sum` and of `bytes` after them. Any one byte changed changes it: each step is one to one.
pub(crate) fn extended(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        assert_eq!(checksum(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(checksum(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(checksum(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(extended(checksum(b"foo"), b"bar"), checksum(b"foobar"));
    }
}
