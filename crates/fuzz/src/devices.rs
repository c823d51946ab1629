//! Devices in memory: the images of `served/tests/golden`, and what a fuzzer makes of them.

use destage_served::{Device, IoError, Media};
use std::collections::BTreeMap;
use std::ops::Range;

pub(crate) const SECTOR: usize = 512;
const SECTOR_BYTES: u64 = SECTOR as u64;

/// One device.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    pub(crate) bytes: u64,
    /// Those that are not zeros.
    sectors: BTreeMap<u64, [u8; SECTOR]>,
    /// Sectors that cannot be read until they are written.
    pub(crate) bad: Range<u64>,
}

/// The devices of an array.
#[derive(Clone, Default)]
pub(crate) struct Devices(pub(crate) BTreeMap<Device, Disk>);

impl Disk {
    /// The bytes of a place, which may be any.
    pub(crate) fn get(&self, at: u64, bytes: usize) -> Vec<u8> {
        let mut found = Vec::with_capacity(bytes + 2 * SECTOR);
        for sector in at / SECTOR_BYTES..(at + bytes as u64).div_ceil(SECTOR_BYTES) {
            found.extend_from_slice(self.sectors.get(&sector).unwrap_or(&[0; SECTOR]));
        }
        found.drain(..(at % SECTOR_BYTES) as usize);
        found.truncate(bytes);
        found
    }

    pub(crate) fn put(&mut self, mut at: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let from = (at % SECTOR_BYTES) as usize;
            let (front, rest) = bytes.split_at(bytes.len().min(SECTOR - from));
            let sector = self.sectors.entry(at / SECTOR_BYTES).or_insert([0; SECTOR]);
            sector[from..from + front.len()].copy_from_slice(front);
            (at, bytes) = (at + front.len() as u64, rest);
        }
    }

    /// The sectors of a request, if the device has them all.
    fn span(&self, offset: u64, bytes: usize) -> Result<Range<u64>, IoError> {
        assert!(offset.is_multiple_of(SECTOR_BYTES) && bytes.is_multiple_of(SECTOR), "not aligned");
        let end = offset.checked_add(bytes as u64).filter(|end| *end <= self.bytes);
        let end = end.ok_or(IoError::SHORT)?;
        Ok(offset / SECTOR_BYTES..end / SECTOR_BYTES)
    }
}

impl Devices {
    fn of(&mut self, device: Device) -> Result<&mut Disk, IoError> {
        self.0.get_mut(&device).ok_or(IoError::GONE)
    }

    /// The devices of a text: a line for each, then one for each sector that is not zeros.
    pub(crate) fn of_text(text: &str) -> Devices {
        let mut devices = Devices::default();
        let mut disk = &mut Disk::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |word: &str| word.parse::<u64>().expect("a number");
            if let [kind, which, bytes] = words[..] {
                let kind = if kind == "nvs" { Device::Nvs } else { Device::Member };
                disk = devices.0.entry(kind(number(which) as u16)).or_default();
                disk.bytes = number(bytes);
                continue;
            }
            let byte = |hex: &str| u8::from_str_radix(hex, 16).expect("hex");
            let bytes: Vec<u8> = match words[1].strip_prefix('=') {
                Some(all) => vec![byte(all); SECTOR],
                None => (0..words[1].len()).step_by(2).map(|i| byte(&words[1][i..i + 2])).collect(),
            };
            disk.put(number(words[0]) * SECTOR_BYTES, &bytes);
        }
        devices
    }
}

impl Media for Devices {
    fn bytes(&mut self, device: Device) -> Result<u64, IoError> {
        Ok(self.of(device)?.bytes)
    }

    fn read(&mut self, device: Device, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        let disk = self.of(device)?;
        let span = disk.span(offset, into.len())?;
        if disk.bad.start < span.end && span.start < disk.bad.end {
            return Err(IoError::MEDIUM);
        }
        for (sector, into) in span.zip(into.chunks_exact_mut(SECTOR)) {
            into.copy_from_slice(disk.sectors.get(&sector).unwrap_or(&[0; SECTOR]));
        }
        Ok(())
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        let disk = self.of(device)?;
        let span = disk.span(offset, bytes.len())?;
        if disk.bad.start < span.end && span.start < disk.bad.end {
            disk.bad = 0..0;
        }
        for (sector, from) in span.zip(bytes.chunks_exact(SECTOR)) {
            disk.sectors.insert(sector, from.try_into().expect("a sector"));
        }
        Ok(())
    }

    fn flush(&mut self, device: Device) -> Result<(), IoError> {
        self.of(device).map(|_| ())
    }
}
