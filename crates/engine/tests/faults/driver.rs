//! A driver with real bytes: disks that fail and are replaced by blank ones, an NVS, the bytes of
//! the read cache. Everything completes in random order; every read is compared with the history
//! of its pages.

use destage_engine::array::layout::DiskPage;
use destage_engine::array::safe::{RowAt, is_set};
use destage_engine::controller::{Config, Controller};
use destage_engine::event::Bytes;
use destage_engine::event::{Action, Event};
use destage_engine::event::{DiskCommand, Owner};
use destage_engine::readcache::coherent::ReadCacheChoice;
use destage_engine::request::{Direction, HostRequest, PageRange, RequestId};
use destage_engine::units::{DiskId, GroupId, Instant, Page};
use destage_parity::erasure::{missing_strips, parities};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub type Block = [u8; 4];
type Pieces = BTreeMap<(u16, u64), Block>;

#[derive(Default)]
struct Destage {
    /// Bytes and version of its pages.
    frozen: BTreeMap<u64, (Block, u64)>,
    pieces: Pieces,
    parity: Pieces,
    failures: u64,
}

struct Read {
    range: PageRange,
    /// Versions that were acknowledged when it came.
    floor: u64,
    have: BTreeMap<u64, Block>,
}

pub struct Driver {
    pub controller: Controller,
    pub disks: Vec<Vec<Block>>,
    /// No answer from these.
    gone: Vec<bool>,
    failures: u64,
    nvs: BTreeMap<u64, (Block, u64)>,
    pub cached: BTreeMap<u64, Block>,
    cache: Option<ReadCacheChoice>,
    /// By page: versions and bytes, as acknowledged.
    history: BTreeMap<u64, Vec<(u64, Block)>>,
    version: u64,
    appends: VecDeque<(RequestId, PageRange, Vec<Block>)>,
    commands: Vec<DiskCommand>,
    others: Vec<Event>,
    destages: BTreeMap<u32, Destage>,
    /// The stripe memory, and how many reads it saved.
    memory: Pieces,
    pub recalled: u64,
    reads: BTreeMap<u64, Read>,
    /// What disks gave for host reads and for windows.
    direct: BTreeMap<u32, Pieces>,
    rows: BTreeMap<u32, Pieces>,
    windows: BTreeMap<u32, Pieces>,
    regenerated: BTreeMap<u32, Vec<Block>>,
    flushing: BTreeMap<u32, u64>,
    pub unanswered: BTreeSet<u64>,
    pub scrubbing: bool,
    pub rebuilt: u64,
    pub checkpoint: Option<(DiskId, u64)>,
    /// Pages that disks cannot read.
    pub unreadable: BTreeSet<(u16, u64)>,
    pub unrecoverable: Vec<(DiskId, u64)>,
    next: u64,
    now: u64,
    state: u64,
}

impl Driver {
    pub fn new(config: &Config, cache: Option<&ReadCacheChoice>, seed: u64) -> Driver {
        let mut controller = Controller::new(config).expect("a valid configuration");
        controller.set_read_cache(cache).expect("a valid cache");
        let disk = vec![[0; 4]; config.geometry.disk_pages as usize];
        Driver {
            controller,
            disks: vec![disk; usize::from(config.geometry.disks)],
            gone: vec![false; usize::from(config.geometry.disks)],
            failures: 0,
            nvs: BTreeMap::new(),
            cached: BTreeMap::new(),
            cache: cache.cloned(),
            history: BTreeMap::new(),
            version: 0,
            appends: VecDeque::new(),
            commands: Vec::new(),
            others: Vec::new(),
            destages: BTreeMap::new(),
            memory: Pieces::new(),
            recalled: 0,
            reads: BTreeMap::new(),
            direct: BTreeMap::new(),
            rows: BTreeMap::new(),
            windows: BTreeMap::new(),
            regenerated: BTreeMap::new(),
            flushing: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            scrubbing: false,
            rebuilt: 0,
            checkpoint: None,
            unreadable: BTreeSet::new(),
            unrecoverable: Vec::new(),
            next: 0,
            now: 0,
            state: seed,
        }
    }

    pub fn random(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) % below
    }

    pub fn step(&mut self, event: Event) {
        self.now += 1000;
        let mut actions = Vec::new();
        self.controller.step(Instant(self.now), event, &mut actions);
        for action in actions {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::NvsAppend { id, range } => {
                let bytes = (0..range.pages).map(|_| self.random(u64::from(u32::MAX)));
                let bytes = bytes.map(|n| (n as u32).to_le_bytes()).collect();
                self.appends.push_back((id, range, bytes));
            }
            Action::Begin { index, group } => self.begin(index, group),
            Action::Intend { index } => {
                self.compute(index);
                self.others.push(Event::Intended(index));
            }
            Action::FlushDisks { index } => {
                self.flushing.insert(index, self.destages[&index].failures);
                self.others.push(Event::Flushed(index, true));
            }
            Action::Released { index, .. } => {
                for (page, (_, version)) in self.destages.remove(&index).expect("it ran").frozen {
                    if self.nvs.get(&page).is_some_and(|held| held.1 == version) {
                        self.nvs.remove(&page);
                    }
                }
            }
            Action::ReadAgain { index, id } => {
                self.direct.remove(&index);
                self.rows.remove(&index);
                assert!(self.reads.contains_key(&id.0));
            }
            Action::ReadRows { index, first, pages } => {
                let rows = self.rows.entry(index).or_default();
                rows.retain(|(_, page), _| !(first..first + u64::from(pages)).contains(page));
            }
            Action::ReadNow { id, .. } => self.take_held(id.0),
            Action::LeftOut { .. } => {}
            Action::Disk(command) => self.commands.push(command),
            Action::Reply { id, result } => {
                assert_eq!(result, Ok(()));
                self.reply(id.0);
            }
            Action::NvsRelease { .. } => unreachable!("only without the safe protocol"),
            Action::Recall { .. }
            | Action::Remember { .. }
            | Action::Forget { .. }
            | Action::ForgetAll => self.act_on_memory(action),
            Action::Keep { page, bytes } => self.keep(page, bytes),
            Action::Drop { page } => {
                assert!(self.cached.remove(&page.0).is_some(), "dropped what was not kept");
            }
            Action::Regenerate { window, disk, first, pages } => {
                let pieces = self.windows.remove(&window).expect("it has read");
                let page = |page| self.regenerate(&pieces, disk, page);
                let blocks = (first..first + u64::from(pages)).map(page).collect();
                self.regenerated.insert(window, blocks);
                self.others.push(Event::Regenerated(window));
            }
            Action::Checkpoint { disk, below } => self.checkpoint(disk, below),
            Action::Rebuilt { .. } => self.rebuilt += 1,
            Action::RebuildStopped { .. } => {}
            Action::ScrubCompare { index, .. } => self.others.push(Event::ScrubCompared(index)),
            Action::ScrubDone { .. } => {}
            Action::ScrubEnded { .. } => self.scrubbing = false,
            Action::Unrecoverable { disk, page } => self.unrecoverable.push((disk, page)),
        }
    }

    fn act_on_memory(&mut self, action: Action) {
        match action {
            Action::Recall { index, disk, row } => {
                let block = self.memory[&(disk.0, row)];
                assert_eq!(block, self.disks[usize::from(disk.0)][row as usize], "what is on disk");
                self.destages.get_mut(&index).expect("it runs").pieces.insert((disk.0, row), block);
                self.recalled += 1;
            }
            Action::Remember { index, row, disks } => {
                disks.iter().for_each(|disk| self.remember(index, disk, row));
            }
            Action::Forget { row } => self.memory.retain(|(_, known), _| *known != row),
            Action::ForgetAll => self.memory.clear(),
            _ => unreachable!("an action on the stripe memory"),
        }
    }

    fn remember(&mut self, index: u32, disk: DiskId, row: u64) {
        let destage = &self.destages[&index];
        let block = match self.controller.geometry().page_at(DiskPage { disk, page: row }) {
            Some(page) => destage.frozen[&page.0].0,
            None => destage.parity[&(disk.0, row)],
        };
        assert_eq!(block, self.disks[usize::from(disk.0)][row as usize], "it is written");
        self.memory.insert((disk.0, row), block);
    }

    fn keep(&mut self, page: Page, bytes: Bytes) {
        let block = match bytes {
            Bytes::Destage(index) => self.destages[&index].frozen[&page.0].0,
            Bytes::Read(id) => self.assemble(id.0, page.0),
        };
        self.cached.insert(page.0, block);
    }

    fn begin(&mut self, index: u32, group: GroupId) {
        let mask = self.controller.destage_mask(index).to_vec();
        let per_group = self.controller.geometry().pages_per_group();
        let pages = (0..per_group).filter(|bit| is_set(&mask, *bit));
        let frozen = pages.map(|bit| group.0 * per_group + bit).map(|p| (p, self.nvs[&p]));
        let frozen = frozen.collect();
        self.destages.insert(index, Destage { frozen, ..Destage::default() });
    }

    /// The strips of a row as far as pieces have them: data, P, Q.
    fn strips(&self, pieces: &Pieces, at: &RowAt) -> (Vec<Option<Block>>, Vec<Option<Block>>) {
        let geometry = self.controller.geometry();
        let get = |disk: DiskId| pieces.get(&(disk.0, at.page)).copied();
        let data =
            (0..geometry.data_strips() as u16).map(|s| get(geometry.data_disk(at.stripe, s)));
        (data.collect(), geometry.parity_disks(at.stripe).map(get).collect())
    }

    /// All data of a row; `None` if it cannot be reconstructed.
    fn solve(data: &[Option<Block>], parity: &[Option<Block>]) -> Option<Vec<Block>> {
        let known: Vec<Option<&[u8]>> =
            data.iter().map(|d| d.as_ref().map(|d| d.as_slice())).collect();
        let parity = |n: usize| parity.get(n).and_then(|p| p.as_ref()).map(|p| p.as_slice());
        let found: BTreeMap<u16, Vec<u8>> =
            missing_strips(&known, parity(0), parity(1))?.into_iter().collect();
        let strip = |(s, d): (usize, &Option<Block>)| {
            d.unwrap_or_else(|| found[&(s as u16)].clone().try_into().expect("a block"))
        };
        Some(data.iter().enumerate().map(strip).collect())
    }

    fn parity_of(&self, data: &[Block]) -> Vec<Block> {
        let with_q = self.controller.geometry().level.parities() == 2;
        let data: Vec<&[u8]> = data.iter().map(|d| d.as_slice()).collect();
        let (p, q) = parities(&data, with_q);
        std::iter::once(p).chain(q).map(|p| p.try_into().expect("a block")).collect()
    }

    /// The parity of a destage's rows, from what it read.
    fn compute(&mut self, index: u32) {
        let geometry = *self.controller.geometry();
        let destage = &self.destages[&index];
        // A plan made again, after a failure, has the parity of the first.
        let mut parity = destage.parity.clone();
        let rows: BTreeSet<u64> =
            destage.frozen.keys().map(|page| geometry.place(Page(*page)).page).collect();
        for page in rows.into_iter().filter(|_| geometry.level.parities() > 0) {
            let at = geometry.row_of_disk_page(page).1;
            if geometry.parity_disks(at.stripe).all(|d| parity.contains_key(&(d.0, page))) {
                continue;
            }
            let (old, old_parity) = self.strips(&destage.pieces, &at);
            let new: Vec<Option<Block>> = (0..geometry.data_strips() as u16)
                .map(|s| {
                    let place = DiskPage { disk: geometry.data_disk(at.stripe, s), page };
                    let page = geometry.page_at(place).expect("data");
                    destage.frozen.get(&page.0).map(|f| f.0)
                })
                .collect();
            let merged = |old: &[Option<Block>]| -> Option<Vec<Block>> {
                new.iter().zip(old).map(|(new, old)| new.or(*old)).collect()
            };
            let whole = merged(&old).map(|data| self.parity_of(&data)).or_else(|| {
                // Old parity changed by the difference of what is written.
                let zero = |b: &Option<Block>| b.is_none().then_some([0; 4]);
                let both = old.iter().zip(&new);
                let can = both.clone().all(|(o, n)| n.is_none() || o.is_some());
                let delta: Vec<Block> = both
                    .map(|(o, n)| zero(n).unwrap_or_else(|| xor(o.unwrap_or([0; 4]), n.unwrap())))
                    .collect();
                let mut pairs = geometry.parity_disks(at.stripe).zip(&old_parity);
                let failed = self.controller.failed_at(page);
                let has_all = pairs.all(|(d, p)| p.is_some() || failed.contains(d));
                (can && has_all).then(|| {
                    let change = self.parity_of(&delta);
                    let old = old_parity.iter().map(|p| p.unwrap_or([0; 4]));
                    old.zip(change).map(|(old, change)| xor(old, change)).collect()
                })
            });
            let whole = whole.or_else(|| {
                let old: Vec<Option<Block>> =
                    Self::solve(&old, &old_parity)?.into_iter().map(Some).collect();
                merged(&old).map(|data| self.parity_of(&data))
            });
            let lost = self.controller.failed_at(page);
            let survivors = geometry.parity_disks(at.stripe).any(|d| !lost.contains(d));
            let whole = whole.or_else(|| (!survivors).then(|| vec![[0; 4]; 2]));
            for (disk, block) in geometry.parity_disks(at.stripe).zip(whole.expect("reconstructed"))
            {
                parity.insert((disk.0, page), block);
            }
        }
        self.destages.get_mut(&index).expect("it runs").parity = parity;
    }

    /// A rebuild asks for a checkpoint: not of a complete disk, which says so itself.
    fn checkpoint(&mut self, disk: DiskId, below: u64) {
        assert!(below < self.controller.geometry().disk_pages, "{below}");
        self.checkpoint = Some((disk, below));
    }

    /// A page of a disk from the other disks.
    fn regenerate(&self, pieces: &Pieces, disk: DiskId, page: u64) -> Block {
        let geometry = self.controller.geometry();
        if geometry.level.parities() == 0 {
            return pieces[&(disk.0 ^ 1, page)];
        }
        let at = geometry.row_of_disk_page(page).1;
        let (data, parity) = self.strips(pieces, &at);
        let Some(data) = Self::solve(&data, &parity) else {
            assert!(!self.unreadable.is_empty(), "a row that cannot be computed");
            return [0; 4];
        };
        let strip =
            (0..geometry.data_strips() as u16).find(|s| geometry.data_disk(at.stripe, *s) == disk);
        match strip {
            Some(strip) => data[usize::from(strip)],
            None => {
                let place = geometry.parity_disks(at.stripe).position(|d| d == disk);
                self.parity_of(&data)[place.expect("it has parity")]
            }
        }
    }

    fn take_held(&mut self, id: u64) {
        let read = self.reads.get_mut(&id).expect("a read");
        for page in read.range.first.0..read.range.end().0 {
            if let Some((block, _)) = self.nvs.get(&page) {
                read.have.insert(page, *block);
            } else if let Some(block) = self.cached.get(&page) {
                read.have.insert(page, *block);
            } else {
                read.have.remove(&page);
            }
        }
    }

    /// A page of a host read that is answered.
    fn assemble(&self, id: u64, page: u64) -> Block {
        if let Some(block) = self.reads[&id].have.get(&page) {
            return *block;
        }
        let geometry = self.controller.geometry();
        let place = geometry.place(Page(page));
        let of_read = |index: &&u32| self.controller.read_id(**index).0 == id;
        let index = self.direct.keys().find(of_read).expect("something was read for it");
        let mut disks = vec![place.disk];
        if geometry.level.parities() == 0 {
            disks.push(DiskId(place.disk.0 ^ 1));
        }
        let direct = &self.direct[index];
        if let Some(block) = disks.iter().find_map(|d| direct.get(&(d.0, place.page))) {
            return *block;
        }
        let rows = self.rows.get(index).cloned().unwrap_or_default();
        self.regenerate(&rows, place.disk, place.page)
    }

    fn reply(&mut self, id: u64) {
        assert!(self.unanswered.remove(&id), "request {id} answered twice");
        let Some(range) = self.reads.get(&id).map(|read| read.range) else { return };
        for page in range.first.0..range.end().0 {
            let got = self.assemble(id, page);
            let floor = self.reads[&id].floor;
            let history = self.history.get(&page).cloned().unwrap_or_default();
            let old = history.iter().rev().find(|(version, _)| *version <= floor);
            let old = old.map_or([0; 4], |(_, block)| *block);
            let newer = history.iter().filter(|(version, _)| *version > floor);
            let good = got == old || newer.clone().any(|(_, block)| *block == got);
            assert!(good, "request {id}, page {page}: {got:?}, not {old:?} or later");
        }
        self.reads.remove(&id);
        let gone: Vec<u32> = self
            .direct
            .keys()
            .chain(self.rows.keys())
            .copied()
            .filter(|index| self.controller.read_id(*index).0 == id)
            .collect();
        for index in gone {
            self.direct.remove(&index);
            self.rows.remove(&index);
        }
    }

    pub fn host(&mut self, direction: Direction, first: u64, pages: u32) {
        let id = self.next;
        self.next += 1;
        self.unanswered.insert(id);
        let range = PageRange::new(Page(first), pages);
        if direction == Direction::Read {
            let floor = self.version;
            self.reads.insert(id, Read { range, floor, have: BTreeMap::new() });
            self.take_held(id);
        }
        self.step(Event::Host(HostRequest { id: RequestId(id), direction, range }));
    }

    /// Another read cache, or none for a while.
    pub fn exchange_cache(&mut self) {
        let cache = if self.random(2) == 0 { self.cache.clone() } else { None };
        self.controller.set_read_cache(cache.as_ref()).expect("a valid cache");
        self.cached.clear();
    }

    pub fn fail(&mut self, disk: u16) {
        self.gone[usize::from(disk)] = true;
        self.failures += 1;
        self.disks[usize::from(disk)].fill([0xEE; 4]);
        for destage in self.destages.values_mut() {
            destage.failures += 1;
        }
        self.step(Event::DiskFailed(DiskId(disk)));
    }

    pub fn replace(&mut self, disk: u16, from: u64) {
        // What the old disk was asked never comes back.
        let of_disk = |c: &DiskCommand| c.disk.0 == disk;
        let (lost, rest) = std::mem::take(&mut self.commands).into_iter().partition(of_disk);
        self.commands = rest;
        for command in Vec::<DiskCommand>::clone(&lost) {
            self.step(Event::DiskError(command));
        }
        while let Some(at) = self.commands.iter().position(of_disk) {
            let command = self.commands.swap_remove(at);
            self.step(Event::DiskError(command));
        }
        self.gone[usize::from(disk)] = false;
        self.step(Event::Rebuild { disk: DiskId(disk), from });
    }

    /// Completes one thing; whether there was one.
    pub fn complete_one(&mut self) -> bool {
        let kinds = [!self.others.is_empty(), !self.commands.is_empty(), !self.appends.is_empty()];
        let choices: Vec<usize> = (0..3).filter(|kind| kinds[*kind]).collect();
        if choices.is_empty() {
            return self.tick();
        }
        match choices[self.random(choices.len() as u64) as usize] {
            0 => {
                let at = self.random(self.others.len() as u64) as usize;
                let mut event = self.others.swap_remove(at);
                if let Event::Flushed(index, whole) = &mut event {
                    *whole = self.flushing.remove(index) == Some(self.destages[index].failures);
                }
                self.step(event);
            }
            1 => {
                let at = self.random(self.commands.len() as u64) as usize;
                let command = self.commands.swap_remove(at);
                self.complete(&command);
            }
            _ => {
                let (id, range, bytes) = self.appends.pop_front().expect("one of them");
                for (page, block) in (range.first.0..).zip(bytes) {
                    self.version += 1;
                    self.nvs.insert(page, (block, self.version));
                    self.history.entry(page).or_default().push((self.version, block));
                }
                self.step(Event::NvsDone(id));
            }
        }
        true
    }

    /// Time passes until the controller wants something.
    fn tick(&mut self) -> bool {
        let Some(deadline) = self.controller.deadline() else { return false };
        self.now = self.now.max(deadline.0);
        self.step(Event::Tick);
        !self.commands.is_empty()
    }

    fn complete(&mut self, command: &DiskCommand) {
        let DiskCommand { disk, first, pages, write, owner } = *command;
        let end = first + u64::from(pages);
        let bad = !write && (first..end).any(|page| self.unreadable.contains(&(disk.0, page)));
        if self.gone[usize::from(disk.0)] || bad {
            return self.step(Event::DiskError(*command));
        }
        for page in first..end {
            let key = (disk.0, page);
            let on_disk = self.disks[usize::from(disk.0)][page as usize];
            match (owner, write) {
                (Owner::Destage(index), false) => {
                    let destage = self.destages.get_mut(&index).expect("it runs");
                    destage.pieces.insert(key, on_disk);
                }
                (Owner::Destage(index), true) => {
                    let destage = &self.destages[&index];
                    let data = self.controller.geometry().page_at(DiskPage { disk, page });
                    let data = match (data, self.controller.geometry().level.parities()) {
                        (Some(page), 1..) => Some(page),
                        (page, _) => page,
                    };
                    let block = match data {
                        Some(page) => destage.frozen[&page.0].0,
                        // Of rows between those that are destaged: as it was read.
                        None => *destage.parity.get(&key).unwrap_or_else(|| &destage.pieces[&key]),
                    };
                    self.put(key, block);
                }
                (Owner::HostRead(index), false) => {
                    self.direct.entry(index).or_default().insert(key, on_disk);
                    self.rows.entry(index).or_default().insert(key, on_disk);
                }
                (Owner::HostRead(index), true) => {
                    let rows = self.rows.get(&index).cloned().unwrap_or_default();
                    let block = self.regenerate(&rows, disk, page);
                    self.put(key, block);
                }
                (Owner::Scrub(_), _) => {}
                (Owner::Rebuild(window), false) => {
                    self.windows.entry(window).or_default().insert(key, on_disk);
                }
                (Owner::Rebuild(window), true) => {
                    let blocks = &self.regenerated[&window];
                    self.put(key, blocks[(page - first) as usize]);
                }
            }
        }
        self.step(Event::DiskDone(disk, owner));
    }

    fn put(&mut self, (disk, page): (u16, u64), block: Block) {
        self.disks[usize::from(disk)][page as usize] = block;
        self.unreadable.remove(&(disk, page));
    }

    pub fn settle(&mut self) {
        for _ in 0..3_000_000 {
            if !self.complete_one() {
                return;
            }
        }
        panic!("it never ends");
    }

    /// Every page, from the disks alone, lost ones computed, is what was last acknowledged; and
    /// every row without a lost disk adds up.
    pub fn check_disks(&self) {
        let geometry = *self.controller.geometry();
        let newest = |page: u64| {
            let history = self.history.get(&page);
            history.and_then(|h| h.last()).map_or([0; 4], |(_, block)| *block)
        };
        let mut pieces = Pieces::new();
        for (disk, blocks) in (0u16..).zip(&self.disks) {
            for (page, block) in (0u64..).zip(blocks) {
                if !self.controller.failed_at(page).contains(DiskId(disk)) {
                    pieces.insert((disk, page), *block);
                }
            }
        }
        for page in 0..geometry.volume_pages().0 {
            let place = geometry.place(Page(page));
            let stored = pieces.get(&(place.disk.0, place.page)).copied();
            let stored = stored.unwrap_or_else(|| self.regenerate(&pieces, place.disk, place.page));
            assert_eq!(stored, newest(page), "page {page} on the disks");
        }
        for page in 0..geometry.disk_pages {
            for disk in (0..geometry.disks).filter(|d| pieces.contains_key(&(*d, page))) {
                let mut others = pieces.clone_row(page);
                others.remove(&(disk, page));
                let computable = others.len() >= geometry.data_strips() as usize;
                if geometry.level.parities() > 0 && computable {
                    let computed = self.regenerate(&others, DiskId(disk), page);
                    assert_eq!(pieces[&(disk, page)], computed, "disk {disk} page {page}");
                } else if geometry.level.parities() == 0 && others.contains_key(&(disk ^ 1, page)) {
                    assert_eq!(pieces[&(disk, page)], others[&(disk ^ 1, page)]);
                }
            }
        }
    }
}

trait CloneRow {
    fn clone_row(&self, page: u64) -> Pieces;
}

impl CloneRow for Pieces {
    fn clone_row(&self, page: u64) -> Pieces {
        (0..16).filter_map(|disk| Some(((disk, page), *self.get(&(disk, page))?))).collect()
    }
}

fn xor(a: Block, b: Block) -> Block {
    std::array::from_fn(|i| a[i] ^ b[i])
}
