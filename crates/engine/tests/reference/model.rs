//! A slow reading of docs/simulator.md: plain collections and scans, no cleverness.

use crate::traces::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The policies and their options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Oldest last page write.
    Lrw,
    /// Next group of the scan.
    Cscan,
    /// Scan with a bit (frequency 1) or a counter.
    Wow { initial: u32, frequency: u32 },
    /// Two rings; H is at most this many pages per disk.
    Stow { hysteresis: u64 },
    /// As STOW; groups of RanQ with less than 3/4 of its mean pages may wait for one more turn.
    Ebb { sparse: bool },
    /// Two rings, the larger is picked from.
    Seqran,
    /// Most pages; ties to the oldest last write.
    Lst,
    /// Nearest to the last pick, ties to the lower: without modelled heads.
    Stf,
    /// The most recently written groups are hot, up to this percentage of the pages. Of the others
    /// the one with the most pages is picked.
    Hybrid { hot: u64 },
}

impl Policy {
    /// As a command line has it.
    pub fn name(self) -> String {
        match self {
            Policy::Lrw => "lrw".to_string(),
            Policy::Cscan => "cscan".to_string(),
            Policy::Wow { initial: 0, frequency: 1 } => "wow".to_string(),
            Policy::Wow { initial, frequency: 1 } => format!("wow:initial-bit={initial}"),
            Policy::Wow { initial, frequency } => {
                format!("wow:initial-bit={initial},frequency={frequency}")
            }
            Policy::Stow { hysteresis: 128 } => "stow".to_string(),
            Policy::Stow { hysteresis } => format!("stow:hysteresis={hysteresis}"),
            Policy::Ebb { sparse: true } => "ebb".to_string(),
            Policy::Ebb { sparse: false } => "ebb:sparse=off".to_string(),
            Policy::Seqran => "seqran".to_string(),
            Policy::Lst => "lst".to_string(),
            Policy::Stf => "stf".to_string(),
            Policy::Hybrid { hot } => format!("lrw-lst:hot={hot}"),
        }
    }

    /// A policy of the table with its defaults, and with others of its parameters.
    pub fn variants(policy: &str, rng: &mut Rng) -> Vec<Policy> {
        match policy {
            "lrw" => vec![Policy::Lrw],
            "cscan" => vec![Policy::Cscan],
            "wow" => vec![
                Policy::Wow { initial: 0, frequency: 1 },
                Policy::Wow { initial: 1, frequency: 1 },
                Policy::Wow { initial: 0, frequency: rng.range(2, 9) as u32 },
                Policy::Wow { initial: 1, frequency: rng.range(2, 9) as u32 },
            ],
            "stow" => {
                vec![Policy::Stow { hysteresis: 128 }, Policy::Stow { hysteresis: rng.range(1, 8) }]
            }
            "ebb" => vec![Policy::Ebb { sparse: true }, Policy::Ebb { sparse: false }],
            "seqran" => vec![Policy::Seqran],
            "lst" => vec![Policy::Lst],
            "stf" => vec![Policy::Stf],
            "lrw-lst" => vec![Policy::Hybrid { hot: rng.range(0, 100) }],
            other => panic!("{other} has no second implementation in reference/model.rs"),
        }
    }
}

/// What the command line says; thresholds in hundredths of a per cent.
#[derive(Clone, Debug)]
pub struct Config {
    pub pages: u64,
    pub group_pages: u64,
    pub disks: u64,
    pub queue_depth: u64,
    pub high: u64,
    pub low: u64,
    pub mirrored: bool,
    pub seq_threshold: u64,
}

impl Config {
    /// Places for the groups that came into SeqQ: three for each that the NVS holds.
    fn places(&self) -> u64 {
        (3 * (self.pages / self.group_pages)).clamp(256, 65_536)
    }
}

/// How often the rarer rules applied, to show that the traces reach them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coverage {
    pub empty_picks: u64,
    pub forced: u64,
    pub skips: u64,
    pub table_full: u64,
    pub decisions: u64,
    pub to_seq: u64,
    pub by_growth: u64,
    pub fallbacks: u64,
    pub decrements: u64,
    pub decrements_held: u64,
    pub decrements_to_zero: u64,
    pub increments: u64,
    pub long_stretches: u64,
    pub share_held: u64,
    pub spared: u64,
    pub spared_when_it_pays: u64,
    pub not_spared: u64,
    pub joined: u64,
    pub merged: u64,
}

struct Group {
    pages: BTreeSet<u64>,
    last_write: u64,
    bit: u32,
    in_seq: bool,
    hot: bool,
    /// It has waited for one more turn.
    spared: bool,
    /// A stream has left it.
    joining: bool,
}

/// What ebb keeps besides what STOW does.
#[derive(Default)]
struct Ebb {
    /// The last groups that came into SeqQ, each at a hash of its number.
    came: BTreeMap<u64, u64>,
    /// The last of them, and the group of the page written last.
    newest: Option<u64>,
    written: Option<u64>,
    /// Share of them whose predecessor had not come, times 65,536, without those that came in one
    /// write with their predecessor.
    starts: u64,
    joining: Vec<u64>,
    next_look: u64,
    /// Mean pages of sparse groups when they began to wait, and when they were picked, times
    /// 65,536, and of how many.
    before: (i64, i64),
    after: (i64, i64),
    /// How often RanQ was looked at.
    looks: u64,
}

impl Ebb {
    fn came(&mut self, group: u64, places: u64) {
        let place = |group: u64| {
            let multiplied = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let hash = multiplied(group);
            let hash = multiplied(hash ^ hash >> 32);
            (hash ^ hash >> 32) % places
        };
        let follows = group > 0 && self.came.get(&place(group - 1)) == Some(&(group - 1));
        self.came.insert(place(group), group);
        let same_write = group > 0 && self.newest == Some(group - 1) && self.written == self.newest;
        self.newest = Some(group);
        if same_write {
            return;
        }
        self.starts = self.starts - self.starts / 128 + if follows { 0 } else { 512 };
    }
}

/// A mean, and of the last 2,048 or so once there are more.
fn into_mean((mean, count): (i64, i64), pages: usize) -> (i64, i64) {
    let count = if count == 2048 { count } else { count + 1 };
    (mean + (pages as i64 * 65_536 - mean) / count, count)
}

/// Counts by expected next page, oldest first.
struct Detector {
    table: Vec<(u64, u64)>,
    threshold: u64,
}

impl Detector {
    /// How many of the first pages of the write are random.
    fn random_pages(&mut self, first: u64, len: u64, coverage: &mut Coverage) -> u64 {
        let mut count = 0;
        if let Some(at) = self.table.iter().position(|e| e.0 == first) {
            count = self.table.remove(at).1;
        }
        self.table.retain(|e| e.0 != first + len);
        self.table.push((first + len, count + len));
        if self.table.len() > 4096 {
            self.table.remove(0);
            coverage.table_full += 1;
        }
        len.min(self.threshold.saturating_sub(count))
    }
}

#[derive(Clone, Copy)]
struct Decision {
    seq: bool,
    ran_size: u64,
    seq_size: u64,
    destaged: u64,
}

/// What STOW keeps besides the groups.
struct Stow {
    desired: Option<f64>,
    decision: Option<Decision>,
    ran_requests: u64,
    seq_requests: u64,
    last_seq_pick: Option<u64>,
    stretch: u64,
}

/// One replay.
pub struct Model {
    config: Config,
    policy: Policy,
    groups: BTreeMap<u64, Group>,
    detector: Detector,
    clock: u64,
    /// Pages in random and in sequential groups.
    sizes: [u64; 2],
    /// Of the only ring or RanQ, and of SeqQ.
    pointers: [u64; 2],
    stow: Stow,
    ebb: Ebb,
    out: String,
    /// What the replay met.
    pub coverage: Coverage,
}

/// The whole output for a text, or the number of the first line that is in error.
pub fn replay(text: &str, config: &Config, policy: Policy) -> Result<(String, Coverage), usize> {
    let mut model = Model::new(config.clone(), policy);
    for (index, line) in text.split('\n').enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["D"] => model.destage_line(),
            ["W", first, pages] => {
                let first = first.parse::<u64>().map_err(|_| index + 1)?;
                let pages = pages.parse::<u64>().map_err(|_| index + 1)?;
                if pages == 0 || pages > config.pages {
                    return Err(index + 1);
                }
                model.write(first, pages);
            }
            _ => return Err(index + 1),
        }
    }
    model.check_sizes();
    let mut hash = 14_695_981_039_346_656_037_u64;
    for byte in model.out.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211);
    }
    writeln!(model.out, "H {hash:016x}").unwrap();
    Ok((model.out, model.coverage))
}

impl Model {
    fn new(config: Config, policy: Policy) -> Model {
        Model {
            detector: Detector { table: Vec::new(), threshold: config.seq_threshold },
            config,
            policy,
            groups: BTreeMap::new(),
            clock: 0,
            sizes: [0, 0],
            pointers: [0, 0],
            stow: Stow {
                desired: None,
                decision: None,
                ran_requests: 1,
                seq_requests: 1,
                last_seq_pick: None,
                stretch: 0,
            },
            ebb: Ebb::default(),
            out: String::new(),
            coverage: Coverage::default(),
        }
    }

    fn occupancy(&self) -> u64 {
        self.sizes[0] + self.sizes[1]
    }

    fn size(&self, seq: bool) -> u64 {
        self.sizes[usize::from(seq)]
    }

    /// Counts the sizes again.
    fn check_sizes(&self) {
        for seq in [false, true] {
            let ring = self.groups.values().filter(|g| g.in_seq == seq);
            assert_eq!(self.size(seq), ring.map(|g| g.pages.len() as u64).sum());
        }
    }

    fn missing(&self, first: u64, len: u64) -> u64 {
        let per_group = self.config.group_pages;
        let groups = self.groups.range(first / per_group..=(first + len - 1) / per_group);
        let held: usize = groups.map(|(_, g)| g.pages.range(first..first + len).count()).sum();
        len - held as u64
    }

    fn holds(&self, page: u64) -> bool {
        let group = self.groups.get(&(page / self.config.group_pages));
        group.is_some_and(|g| g.pages.contains(&page))
    }

    fn write(&mut self, first: u64, len: u64) {
        let random = self.detector.random_pages(first, len, &mut self.coverage);
        while self.missing(first, len) > self.config.pages - self.occupancy() {
            self.coverage.forced += 1;
            self.destage_line();
        }
        if random < len {
            self.stow.seq_requests += 1;
        } else {
            self.stow.ran_requests += 1;
        }
        let before: Vec<bool> = (first..first + len)
            .map(|page| self.groups.contains_key(&(page / self.config.group_pages)))
            .collect();
        let (mut page_hits, mut group_hits) = (0, 0);
        for (page, existed) in (first..first + len).zip(before) {
            page_hits += u64::from(self.holds(page));
            group_hits += u64::from(existed);
            self.write_page(page, page - first >= random, existed);
        }
        writeln!(self.out, "W {page_hits} {group_hits} {}", len - page_hits).unwrap();
        // At or above the low threshold N x L / 100, exactly.
        let reached = self.occupancy() * 10_000 >= self.config.pages * self.config.low;
        if self.stow.desired.is_none() && reached {
            self.stow.desired = Some(self.size(true) as f64);
        }
    }

    /// `existed`: the page's group did before the request.
    fn write_page(&mut self, page: u64, sequential: bool, existed: bool) {
        self.clock += 1;
        let number = page / self.config.group_pages;
        let last = page % self.config.group_pages == self.config.group_pages - 1;
        let hit = self.holds(page);
        let old_bit = self.groups.get(&number).map(|g| g.bit);
        let ebb = matches!(self.policy, Policy::Ebb { .. });
        if ebb && old_bit.is_none() && sequential {
            self.ebb.came(number, self.config.places());
        }
        self.ebb.written = Some(number);
        let in_seq = self.groups.get(&number).map_or(sequential, |g| g.in_seq);
        let no_stream = ebb && (!in_seq || self.scattered());
        let new_bit = match (self.policy, old_bit) {
            (Policy::Lrw | Policy::Cscan, _) => 0,
            (Policy::Lst | Policy::Stf | Policy::Hybrid { .. }, _) => 0,
            (Policy::Wow { initial, .. }, None) => initial,
            (Policy::Wow { frequency, .. }, Some(bit)) => {
                let sets = existed && (hit || !sequential);
                if sets { frequency.min(bit + 1) } else { bit }
            }
            (_, None) => u32::from(sequential && !last && !no_stream),
            (_, Some(_)) if sequential && !no_stream => u32::from(!last),
            (_, Some(bit)) if existed && ebb && sequential && !hit => bit,
            (_, Some(_)) if existed => 1,
            (_, Some(bit)) => bit,
        };
        // Algorithm 3 asks for the old bit only: a sequential last page counts though it leaves 0.
        let stow = matches!(self.policy, Policy::Stow { .. } | Policy::Ebb { .. });
        if stow && existed && old_bit == Some(0) && !self.groups[&number].in_seq {
            self.coverage.decrements_to_zero += u64::from(new_bit == 0);
            self.decrement(hit);
        }
        let group = self.groups.entry(number).or_insert(Group {
            pages: BTreeSet::new(),
            last_write: 0,
            bit: 0,
            in_seq: sequential,
            hot: true,
            spared: false,
            joining: false,
        });
        if ebb && !group.in_seq && sequential && last && !group.joining {
            group.joining = true;
            self.ebb.joining.push(number);
        }
        group.hot = true;
        group.pages.insert(page);
        self.sizes[usize::from(group.in_seq)] += u64::from(!hit);
        group.last_write = self.clock;
        group.bit = new_bit;
        if let Policy::Hybrid { hot } = self.policy {
            self.cool(hot);
        }
    }

    fn decrement(&mut self, hit: bool) {
        let (size, limit) = (self.size(true) as f64, self.hysteresis() as f64);
        let Some(desired) = &mut self.stow.desired else { return };
        if self.config.mirrored && !hit {
            return;
        }
        if size - *desired < limit {
            *desired -= 1.0;
            self.coverage.decrements += 1;
        } else {
            self.coverage.decrements_held += 1;
        }
    }

    /// H.
    fn hysteresis(&self) -> u64 {
        let (per_disk, two_groups) = match self.policy {
            Policy::Stow { hysteresis } => (hysteresis, 0),
            Policy::Ebb { .. } => (128, 2 * self.config.group_pages),
            _ => return 1,
        };
        let band = self.config.pages * (self.config.high - self.config.low);
        let hysteresis = (per_disk * self.config.disks).min(band / (8 * 10_000)).max(1);
        hysteresis.max(two_groups.min(band / (2 * 10_000)))
    }

    fn destage_line(&mut self) {
        let Some(number) = self.pick() else {
            self.coverage.empty_picks += 1;
            self.out.push_str("D -\n");
            return;
        };
        let group = self.groups.remove(&number).unwrap();
        self.sizes[usize::from(group.in_seq)] -= group.pages.len() as u64;
        let mask = mask(&group.pages, number, self.config.group_pages);
        writeln!(self.out, "D {number} {} {mask}", group.pages.len()).unwrap();
    }

    fn pick(&mut self) -> Option<u64> {
        if self.groups.is_empty() {
            return None;
        }
        match self.policy {
            Policy::Lrw => {
                self.groups.iter().min_by_key(|(_, g)| g.last_write).map(|(number, _)| *number)
            }
            Policy::Lst => self.largest(|_| true),
            Policy::Stf => {
                let last = self.pointers[0];
                let nearest = self.groups.keys().min_by_key(|n| (n.abs_diff(last), **n)).copied();
                self.pointers[0] = nearest.unwrap_or(last);
                nearest
            }
            Policy::Hybrid { .. } => self.largest(|g| !g.hot).or_else(|| {
                self.groups.iter().min_by_key(|(_, g)| g.last_write).map(|(number, _)| *number)
            }),
            Policy::Cscan | Policy::Wow { .. } => self.scan(|_| true, 0),
            Policy::Stow { .. } | Policy::Ebb { .. } => self.pick_stow(),
            Policy::Seqran => {
                let seq = self.size(true) > self.size(false);
                self.scan(|g| g.in_seq == seq, usize::from(seq))
            }
        }
    }

    fn largest(&self, of: impl Fn(&Group) -> bool) -> Option<u64> {
        let groups = self.groups.iter().filter(|(_, g)| of(g));
        let most = groups.min_by_key(|(_, g)| (std::cmp::Reverse(g.pages.len()), g.last_write));
        most.map(|(number, _)| *number)
    }

    /// The oldest hot groups turn cold while the hot ones are too many pages.
    fn cool(&mut self, percent: u64) {
        loop {
            let hot = || self.groups.iter().filter(|(_, g)| g.hot);
            let pages: usize = hot().map(|(_, g)| g.pages.len()).sum();
            if pages as u64 <= self.config.pages * percent / 100 {
                return;
            }
            let oldest = *hot().min_by_key(|(_, g)| g.last_write).expect("there are some").0;
            self.groups.get_mut(&oldest).unwrap().hot = false;
        }
    }

    /// Looks at groups of one ring until it meets one whose bit is 0.
    fn scan(&mut self, of_ring: impl Fn(&Group) -> bool, pointer: usize) -> Option<u64> {
        let sizes: Vec<usize> =
            self.groups.values().filter(|g| of_ring(g)).map(|g| g.pages.len()).collect();
        let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
        let spares = pointer == 0 && self.spares();
        loop {
            let at = self.pointers[pointer];
            let above = self.groups.range(at..).find(|(_, g)| of_ring(g));
            let next = *above.or_else(|| self.groups.iter().find(|(_, g)| of_ring(g)))?.0;
            self.pointers[pointer] = next + 1;
            let group = self.groups.get_mut(&next).unwrap();
            if group.bit == 0 {
                let sparse = (group.pages.len() as f64) < 0.75 * mean;
                if !spares || group.spared || !sparse {
                    return Some(next);
                }
                group.spared = true;
                self.ebb.before = into_mean(self.ebb.before, group.pages.len());
                self.coverage.spared += 1;
                self.coverage.spared_when_it_pays += u64::from(self.ebb.after.1 >= 512);
                continue;
            }
            group.bit -= 1;
            self.coverage.skips += 1;
        }
    }

    /// Whether sparse groups wait at this look at RanQ.
    fn spares(&mut self) -> bool {
        let may = self.policy == Policy::Ebb { sparse: true } && !self.config.mirrored;
        if !may || self.scattered() {
            return false;
        }
        self.ebb.looks += 1;
        let has_grown = 32 * self.ebb.after.0 >= 33 * self.ebb.before.0;
        let pays = self.ebb.after.1 < 512 || has_grown || self.ebb.looks.is_multiple_of(16);
        self.coverage.not_spared += u64::from(!pays);
        pays
    }

    /// More than three eighths of what comes into SeqQ begins a stream.
    fn scattered(&self) -> bool {
        matches!(self.policy, Policy::Ebb { .. }) && self.ebb.starts > 3 * 65_536 / 8
    }

    /// Groups that streams have left go from RanQ to SeqQ.
    fn join(&mut self) {
        while let Some(number) = self.ebb.joining.pop() {
            let group = self.groups.get_mut(&number).expect("nothing left since");
            (group.in_seq, group.bit, group.spared) = (true, 0, false);
            self.sizes[0] -= group.pages.len() as u64;
            self.sizes[1] += group.pages.len() as u64;
            self.ebb.came(number, self.config.places());
            self.coverage.joined += 1;
        }
    }

    /// Looks at the groups of both rings in the order of addresses until it meets one whose bit is
    /// 0, and whether that is in SeqQ.
    fn scan_both(&mut self) -> (bool, Option<u64>) {
        loop {
            let seq = self.seq_is_nearer();
            let from = self.pointers[usize::from(seq)];
            let of_ring = || self.groups.iter().filter(|(_, g)| g.in_seq == seq);
            let next = of_ring().find(|(n, _)| **n >= from).or_else(|| of_ring().next());
            let number = *next.expect("a group is held").0;
            self.pointers = [number + 1; 2];
            self.ebb.next_look = number + 1;
            let group = self.groups.get_mut(&number).unwrap();
            if group.bit == 0 {
                return (seq, Some(number));
            }
            group.bit -= 1;
        }
    }

    /// Whether the next group of SeqQ comes before that of RanQ, from the last look on.
    fn seq_is_nearer(&self) -> bool {
        let ahead = |seq: bool| {
            let of_ring = || self.groups.iter().filter(|(_, g)| g.in_seq == seq);
            let from = self.pointers[usize::from(seq)];
            let next = of_ring().find(|(n, _)| **n >= from).or_else(|| of_ring().next())?;
            let (next, from) = (*next.0, self.ebb.next_look);
            // Those behind come after all that are ahead.
            Some((next < from, next))
        };
        match (ahead(false), ahead(true)) {
            (Some(ran), Some(seq)) => seq < ran,
            (ran, _) => ran.is_none(),
        }
    }

    fn pick_stow(&mut self) -> Option<u64> {
        self.join();
        let merged = self.scattered();
        let (ran_size, seq_size) = (self.size(false), self.size(true));
        let (mut from_seq, mut found) = if merged {
            self.scan_both()
        } else {
            let seq = self.decide().seq;
            (seq, self.scan(|g| g.in_seq == seq, usize::from(seq)))
        };
        if merged {
            self.coverage.merged += 1;
        } else if found.is_none() {
            self.coverage.fallbacks += 1;
            from_seq = !from_seq;
            found = self.scan(|g| g.in_seq == from_seq, usize::from(from_seq));
        } else if let (Some(d), Some(group)) = (&mut self.stow.decision, found) {
            d.destaged += self.groups[&group].pages.len() as u64;
        }
        if let (true, Some(group)) = (from_seq, found) {
            self.follow_stretch(group, ran_size, seq_size);
        }
        if let (Policy::Ebb { .. }, Some(group)) = (self.policy, found) {
            self.ebb.next_look = group + 1;
            if self.groups[&group].spared {
                self.ebb.after = into_mean(self.ebb.after, self.groups[&group].pages.len());
            }
        }
        found
    }

    /// The decision in force at this pick.
    fn decide(&mut self) -> Decision {
        let (ran_size, seq_size, limit) = (self.size(false), self.size(true), self.hysteresis());
        if let Some(d) = self.stow.decision {
            let grown = ran_size > d.ran_size + limit || seq_size > d.seq_size + limit;
            if d.destaged < limit && !grown {
                return d;
            }
            self.coverage.by_growth += u64::from(d.destaged < limit);
        }
        let seq = seq_size as f64 > self.stow.desired.unwrap_or(0.0);
        let decision = Decision { seq, ran_size, seq_size, destaged: 0 };
        self.stow.decision = Some(decision);
        self.coverage.decisions += 1;
        self.coverage.to_seq += u64::from(seq);
        decision
    }

    /// A group is picked from SeqQ; the sizes still count its pages.
    fn follow_stretch(&mut self, group: u64, ran_size: u64, seq_size: u64) {
        let before = self.stow.last_seq_pick.replace(group);
        if before.is_none_or(|b| b + 1 == group) {
            self.stow.stretch += 1;
            return;
        }
        let ended = std::mem::replace(&mut self.stow.stretch, 1);
        let Some(desired) = &mut self.stow.desired else { return };
        if ended >= self.config.queue_depth {
            self.coverage.long_stretches += 1;
            return;
        }
        // |RanQ| / max(1, |RanQ| + |SeqQ|) > RanRq / (RanRq + SeqRq), in whole numbers.
        let total = (ran_size + seq_size).max(1);
        let requests = self.stow.ran_requests + self.stow.seq_requests;
        if ran_size * requests > self.stow.ran_requests * total {
            *desired += (self.config.disks * ran_size) as f64 / seq_size.max(1) as f64;
            self.coverage.increments += 1;
        } else {
            self.coverage.share_held += 1;
        }
    }
}

/// Hexadecimal, bit i for page i of the group, without leading zeros.
fn mask(pages: &BTreeSet<u64>, group: u64, group_pages: u64) -> String {
    let mut digits = String::new();
    for digit in (0..group_pages.div_ceil(4)).rev() {
        let held = |i: u64| i < group_pages && pages.contains(&(group * group_pages + i));
        let bit = |i: u64| u32::from(held(digit * 4 + i)) << i;
        digits.push(char::from_digit(bit(0) | bit(1) | bit(2) | bit(3), 16).unwrap());
    }
    digits.trim_start_matches('0').to_string()
}
