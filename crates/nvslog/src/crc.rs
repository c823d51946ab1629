//! CRC-32C (Castagnoli), eight table look-ups for eight bytes.

const POLYNOMIAL: u32 = 0x82F6_3B78;

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        tables[0][byte] = value;
        byte += 1;
    }
    let mut byte = 0;
    while byte < 256 {
        let mut table = 1;
        while table < 8 {
            let value = tables[table - 1][byte];
            tables[table][byte] = value >> 8 ^ tables[0][(value & 0xFF) as usize];
            table += 1;
        }
        byte += 1;
    }
    tables
}

static TABLES: [[u32; 256]; 8] = tables();

/// A CRC-32C that is being computed.
#[derive(Clone, Copy, Debug)]
pub struct Crc(u32);

impl Default for Crc {
    fn default() -> Crc {
        Crc(u32::MAX)
    }
}

impl Crc {
    /// With these bytes behind those so far.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Crc {
        let mut crc = self.0;
        let (eights, rest) = bytes.as_chunks::<8>();
        for eight in eights {
            let word = u64::from_le_bytes(*eight) ^ u64::from(crc);
            let part = |byte: u32| TABLES[7 - byte as usize][(word >> (8 * byte) & 0xFF) as usize];
            crc = part(0) ^ part(1) ^ part(2) ^ part(3) ^ part(4) ^ part(5) ^ part(6) ^ part(7);
        }
        for byte in rest {
            crc = crc >> 8 ^ TABLES[0][((crc ^ u32::from(*byte)) & 0xFF) as usize];
        }
        Crc(crc)
    }

    /// The checksum.
    #[must_use]
    pub const fn value(self) -> u32 {
        !self.0
    }
}

/// CRC-32C of some bytes.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    Crc::default().with(bytes).value()
}

/// CRC-32C of some bytes and those behind them.
#[must_use]
pub fn crc32c_of_both(first: &[u8], second: &[u8]) -> u32 {
    Crc::default().with(first).with(second).value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        // The check value of the catalogue of CRCs, and RFC 3720, B.4.
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        let up: [u8; 32] = core::array::from_fn(|i| i as u8);
        assert_eq!(crc32c(&up), 0x46DD_794E);
        let down: [u8; 32] = core::array::from_fn(|i| 31 - i as u8);
        assert_eq!(crc32c(&down), 0x113F_DB5C);
        let read10 = [
            0x01, 0xC0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0, 0,
            0, 0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(crc32c(&read10), 0xD996_3A56);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn any_split_gives_the_same() {
        let bytes: [u8; 41] = core::array::from_fn(|i| (i * 37) as u8);
        for at in 0..=41 {
            assert_eq!(
                Crc::default().with(&bytes[..at]).with(&bytes[at..]).value(),
                crc32c(&bytes)
            );
        }
    }
}
