//! Random configurations and traces, the same ones on every machine.

use crate::model::Config;
use std::fmt::Write;

/// splitmix64.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// From `low` to `high`, both possible.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// A random configuration.
pub fn config(rng: &mut Rng) -> Config {
    let pages = match rng.below(8) {
        0 => rng.range(1, 4),
        1 => rng.range(5, 40),
        2..=4 => rng.range(41, 600),
        5 | 6 => rng.range(601, 2000),
        _ => rng.range(2001, 4000),
    };
    // Often a number that the thresholds divide.
    let pages = if rng.one_in(2) { pages.next_multiple_of(20) } else { pages };
    let thresholds = [
        (9000, 8000),
        (9000, 8000),
        (7000, 4000),
        (6000, 1000),
        (5000, 100),
        (10_000, 0),
        (2050, 1025),
        (9999, 9998),
        (3333, 3333),
    ];
    let (high, low) = rng.of(&thresholds);
    Config {
        pages,
        group_pages: rng.of(&[1, 4, 16, 16, 48, 64, 64, 200, 256]),
        disks: rng.range(1, 16),
        queue_depth: rng.of(&[1, 2, 3, 4, 8, 20, 40]),
        high,
        low,
        mirrored: rng.one_in(3),
        seq_threshold: rng.of(&[0, 1, 16, 16, 16, 64]),
    }
}

struct Stream {
    next: u64,
    size: u64,
    jitter: bool,
}

struct Writer<'a> {
    rng: &'a mut Rng,
    pages: u64,
    group: u64,
    bases: Vec<u64>,
    streams: Vec<Stream>,
    recent: Vec<(u64, u64)>,
    text: String,
}

/// A random trace of about `lines` lines for this configuration.
pub fn trace(rng: &mut Rng, config: &Config, lines: u64) -> String {
    let far = [1 << 20, 1 << 33, (1 << 40) + 12_345, 1 << 52, (1 << 62) + 77];
    let mut bases = vec![0, rng.below(1 << 24)];
    for _ in 0..rng.below(3) {
        bases.push(rng.of(&far));
    }
    let mut writer = Writer {
        pages: config.pages,
        group: config.group_pages,
        bases,
        streams: Vec::new(),
        recent: Vec::new(),
        text: String::new(),
        rng,
    };
    for _ in 0..writer.rng.range(1, 5) {
        let stream = writer.stream();
        writer.streams.push(stream);
    }
    if writer.rng.one_in(3) {
        writer.destages(5);
    }
    // The share of each kind of line differs from trace to trace.
    let weights: Vec<u64> = (0..8).map(|_| writer.rng.of(&[0, 1, 4, 20])).collect();
    let total: u64 = weights.iter().sum::<u64>() + 1;
    for _ in 0..lines {
        let mut draw = writer.rng.below(total);
        let kind = weights.iter().position(|&w| {
            let here = draw < w;
            draw = draw.wrapping_sub(if here { 0 } else { w });
            here
        });
        writer.line(kind);
    }
    if writer.rng.one_in(3) {
        writer.destages(config.pages.min(200) + 3);
    }
    writer.text
}

impl Writer<'_> {
    fn line(&mut self, kind: Option<usize>) {
        let base = self.rng.of(&self.bases);
        let page = match kind {
            Some(0) => base + self.rng.below(2 * self.pages),
            Some(1) => base + self.rng.below(self.pages.div_ceil(2)),
            Some(2) => base + self.rng.below(1 << 30),
            Some(3 | 4) => return self.stream_write(),
            Some(5) => return self.overwrite(),
            Some(6) => {
                let most = self.rng.of(&[1, 1, 2, 3, 12]);
                return self.destages(most);
            }
            Some(7) => {
                let page = base + self.rng.below(4 * self.pages);
                let most = (self.group * self.rng.range(1, 5)).min(self.pages);
                let len = self.rng.range(1, most);
                return self.write(page, len);
            }
            _ => return self.odd_line(base),
        };
        let most = self.rng.of(&[1, 1, 2, 8]).min(self.pages);
        let len = self.rng.range(1, most);
        self.write(page, len);
    }

    fn odd_line(&mut self, base: u64) {
        match self.rng.below(6) {
            0 => self.text.push('\n'),
            1 => self.text.push_str("# W 1 0 in a comment\n"),
            2 => self.text.push_str("#\n"),
            3 => self.write(base, self.pages),
            4 => {
                let len = self.pages - self.rng.below(self.pages.min(10));
                let page = base + self.rng.below(self.pages);
                self.write(page, len);
            }
            _ => self.destages(self.pages.min(100) + 1),
        }
    }

    fn write(&mut self, page: u64, len: u64) {
        writeln!(self.text, "W {page} {len}").unwrap();
        self.recent.push((page, len));
    }

    fn destages(&mut self, most: u64) {
        for _ in 0..self.rng.range(1, most) {
            self.text.push_str("D\n");
        }
    }

    fn stream(&mut self) -> Stream {
        let start = self.rng.below(8 * self.pages + 1);
        Stream {
            next: self.rng.of(&self.bases) + start,
            size: self.rng.of(&[1, 2, 4, 5, 16, 24, 64]).min(self.pages),
            jitter: self.rng.one_in(3),
        }
    }

    fn stream_write(&mut self) {
        let at = self.rng.below(self.streams.len() as u64) as usize;
        if self.rng.one_in(60) {
            self.streams[at] = self.stream();
        }
        for _ in 0..self.rng.of(&[1, 1, 1, 4, 12]) {
            let Stream { next, size, jitter } = self.streams[at];
            let len = if jitter { self.rng.range(1, size) } else { size };
            self.streams[at].next += len;
            self.write(next, len);
        }
    }

    fn overwrite(&mut self) {
        let Some(last) = self.recent.len().checked_sub(1) else { return };
        let back = self.rng.of(&[2, 10, 100]).min(self.recent.len() as u64);
        let (page, len) = self.recent[last - self.rng.below(back) as usize];
        let skipped = self.rng.below(len);
        let more = self.rng.below(3);
        self.write(page + skipped, (len - skipped + more).min(self.pages));
    }
}

/// More streams than the detector's table holds, then just as many.
pub fn many_streams(rng: &mut Rng) -> String {
    let mut text = String::new();
    let mut next: Vec<u64> = (0..4200).map(|i| i * 1000).collect();
    let mut write = |page: &mut u64, destages: bool| {
        writeln!(text, "W {page} 8").unwrap();
        *page += 8;
        if destages {
            text.push_str("D\n");
        }
    };
    for _ in 0..12_000 {
        let at = rng.below(4200) as usize;
        write(&mut next[at], rng.one_in(9));
    }
    // In turn: of 4097 streams each is forgotten just before it continues, of 4096 none is.
    for streams in [4097, 4096] {
        for _ in 0..4 {
            next[..streams].iter_mut().for_each(|page| write(page, false));
        }
    }
    text
}
