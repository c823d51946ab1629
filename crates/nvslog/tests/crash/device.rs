//! An NVS device in memory with a volatile cache: at a crash any subset of the unflushed
//! 512-byte sectors survives, in any order.

pub const SECTOR: usize = 512;

/// Random numbers from a seed.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % below
    }
}

#[derive(Clone)]
pub struct Device {
    pub durable: Vec<u8>,
    pub cached: Vec<(usize, [u8; SECTOR])>,
}

impl Device {
    pub fn new(sectors: usize) -> Device {
        Device { durable: vec![0; sectors * SECTOR], cached: Vec::new() }
    }

    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        for (index, sector) in bytes.chunks_exact(SECTOR).enumerate() {
            self.cached.push((at + index * SECTOR, sector.try_into().unwrap()));
        }
    }

    /// What a read returns: what was written last.
    pub fn read(&self, at: usize, bytes: usize) -> Vec<u8> {
        let mut found = self.durable[at..at + bytes].to_vec();
        for (sector_at, sector) in &self.cached {
            if (at..at + bytes).contains(sector_at) {
                found[sector_at - at..][..SECTOR].copy_from_slice(sector);
            }
        }
        found
    }

    pub fn flush(&mut self) {
        for (at, sector) in self.cached.drain(..) {
            self.durable[at..at + SECTOR].copy_from_slice(&sector);
        }
    }

    /// What is left of the device if these unflushed sectors survive, in this order.
    pub fn after_crash(&self, survivors: &[usize]) -> Vec<u8> {
        let mut image = self.durable.clone();
        for index in survivors {
            let (at, sector) = &self.cached[*index];
            image[*at..at + SECTOR].copy_from_slice(sector);
        }
        image
    }

    /// A random subset in a random order; often all, none, all but one or a prefix.
    pub fn survivors(&self, random: &mut Random) -> Vec<usize> {
        let count = self.cached.len() as u64;
        let mut order: Vec<usize> = (0..count as usize).collect();
        match random.below(6) {
            0 => return order,
            1 => return Vec::new(),
            2 if count > 0 => {
                order.remove(random.below(count) as usize);
                return order;
            }
            3 => order.truncate(random.below(count + 1) as usize),
            _ => order.retain(|_| random.below(2) == 0),
        }
        for index in (1..order.len()).rev() {
            order.swap(index, random.below(index as u64 + 1) as usize);
        }
        order
    }
}
