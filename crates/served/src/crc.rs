//! CRC-32C, with the processor's instructions where it has them.

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of some bytes.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The checksum of two runs of bytes, one after the other.
pub(crate) fn crc32c_of_both(first: &[u8], second: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(first);
    digest.update(second);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_nvslog::crc;

    /// What is written with one is read with the other.
    #[test]
    fn it_is_the_engines() {
        let bytes: Vec<u8> = (0..9000).map(|n| (n * 7 % 251) as u8).collect();
        for length in (0..300).chain([511, 512, 4000, 4095, 4096, 4097, 8999]) {
            let expected = crc::crc32c(&bytes[..length]);
            assert_eq!(crc32c(&bytes[..length]), expected, "{length}");
            for at in [0, 1, 16, length / 2, length] {
                let (first, second) = bytes[..length].split_at(at.min(length));
                assert_eq!(crc32c_of_both(first, second), expected, "{length} at {at}");
            }
        }
    }
}
