//! Naive read caches, straight from the definitions: vectors, scans of everything, no classes kept.

use destage_engine::readcache::Access;
use destage_engine::readcache::penalty::Penalties;
use std::collections::BTreeMap;

/// A held block.
#[derive(Clone, Copy)]
pub struct Held {
    block: u64,
    /// Last access.
    ts: u64,
    /// Accesses since it was loaded, or reference bits.
    count: u64,
    /// Order of joining its queue.
    joined: u64,
}

/// How a model orders blocks.
pub enum Kind {
    Lru,
    Lfu {
        literal: bool,
    },
    /// Frames and a hand, as textbooks draw it; no fault-aware form.
    Ring {
        hand: usize,
    },
    Clock,
    Sieve {
        hands: [Option<u64>; 2],
    },
    Arc {
        t2: Vec<Held>,
        b1: Vec<u64>,
        b2: Vec<u64>,
        p: usize,
    },
    S3Fifo {
        main: Vec<Held>,
        ghosts: Vec<u64>,
    },
    Slru {
        protected: Vec<Held>,
        protected_max: usize,
    },
    TwoQ {
        main: Vec<Held>,
        ghosts: Vec<u64>,
        shares: [usize; 2],
    },
    /// `held` is the window.
    WTinyLfu {
        probation: Vec<Held>,
        protected: Vec<Held>,
        window_max: usize,
        protected_max: usize,
        sketch: Sketch,
    },
}

/// A count-min sketch of four rows as docs/readcache.md describes it, counter by counter.
pub struct Sketch {
    counters: BTreeMap<(u64, u64), u64>,
    width: u64,
    requests: u64,
    reset_at: u64,
}

/// The finaliser of splitmix64.
fn splitmix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Sketch {
    fn new(size: usize) -> Sketch {
        let mut width = 1;
        while width < 4 * size as u64 {
            width *= 2;
        }
        Sketch { counters: BTreeMap::new(), width, requests: 0, reset_at: 10 * size as u64 }
    }

    fn keys(&self, block: u64) -> Vec<(u64, u64)> {
        let (a, b) = (splitmix(block), splitmix(splitmix(block)) | 1);
        (0..4u64).map(|row| (row, a.wrapping_add(row.wrapping_mul(b)) % self.width)).collect()
    }

    fn frequency(&self, block: u64) -> u64 {
        let keys = self.keys(block);
        keys.iter().map(|key| self.counters.get(key).copied().unwrap_or(0)).min().unwrap()
    }

    fn add(&mut self, block: u64) {
        let old = self.frequency(block);
        for key in self.keys(block) {
            let counter = self.counters.entry(key).or_insert(0);
            if *counter == old && old < 15 {
                *counter += 1;
            }
        }
        self.requests += 1;
        if self.requests == self.reset_at {
            self.requests /= 2;
            self.counters.values_mut().for_each(|counter| *counter /= 2);
        }
    }
}

/// A cache.
pub struct Model {
    kind: Kind,
    /// Everything held; T1 of ARC, the small queue of S3-FIFO. In order of joining.
    held: Vec<Held>,
    size: usize,
    gts: u64,
    joins: u64,
    fault: Option<Penalties>,
}

impl Model {
    /// The model of a policy of the table.
    pub fn of(name: &str, size: usize) -> Model {
        let kind = match name.trim_start_matches("vdf-") {
            "lru" => Kind::Lru,
            "lfu" => Kind::Lfu { literal: false },
            "lfu:literal" => Kind::Lfu { literal: true },
            "clock" if name == "clock" => Kind::Ring { hand: 0 },
            "clock" => Kind::Clock,
            "sieve" => Kind::Sieve { hands: [None; 2] },
            "arc" => Kind::Arc { t2: vec![], b1: vec![], b2: vec![], p: 0 },
            "s3-fifo" => Kind::S3Fifo { main: vec![], ghosts: vec![] },
            "slru" => Kind::Slru { protected: vec![], protected_max: size * 4 / 5 },
            "slru:protected=30" => Kind::Slru { protected: vec![], protected_max: size * 3 / 10 },
            "2q" => Model::two_q([(size / 4).max(1), (size / 2).max(1)]),
            "2q:in=50,out=100" => Model::two_q([(size / 2).max(1), size]),
            "w-tinylfu" => Model::w_tinylfu(size, 1, 80),
            "w-tinylfu:window=20,protected=50" => Model::w_tinylfu(size, 20, 50),
            other => panic!("{other} has no model: write one"),
        };
        Model { kind, held: Vec::new(), size, gts: 1, joins: 0, fault: None }
    }

    fn two_q(shares: [usize; 2]) -> Kind {
        Kind::TwoQ { main: vec![], ghosts: vec![], shares }
    }

    fn w_tinylfu(size: usize, window: usize, protected: usize) -> Kind {
        let window_max = (size * window / 100).max(1);
        Kind::WTinyLfu {
            probation: vec![],
            protected: vec![],
            window_max,
            protected_max: (size - window_max) * protected / 100,
            sketch: Sketch::new(size),
        }
    }

    pub fn set_fault(&mut self, fault: Option<Penalties>) {
        let old = std::mem::replace(&mut self.fault, fault);
        let lost = |fault: &Option<Penalties>, block| {
            usize::from(fault.as_ref().is_some_and(|f| f.is_lost(block)))
        };
        if let Kind::Sieve { hands } = &mut self.kind {
            let empty = [0, 1].map(|c| !self.held.iter().any(|h| lost(&old, h.block) == c));
            let before = *hands;
            for class in [0, 1] {
                let place = if empty[class] { before[1 - class] } else { before[class] };
                let of_class = |h: &&Held| lost(&self.fault, h.block) == class;
                let after = self.held.iter().filter(of_class).map(|h| h.joined);
                hands[class] = place.and_then(|p| after.filter(|j| *j >= p).min());
            }
        }
    }

    fn class(&self, block: u64) -> usize {
        usize::from(self.fault.as_ref().is_some_and(|f| f.is_lost(block)))
    }

    fn join(&mut self, block: u64, count: u64) -> Held {
        self.joins += 1;
        Held { block, ts: self.gts, count, joined: self.joins }
    }

    /// Of blocks offered, the one with the greatest age x the other penalty; the oldest of equals.
    fn oldest_weighed(&self, offers: &[Held]) -> u64 {
        let n1 = self.fault.as_ref().map_or(1, Penalties::of_lost);
        let weight = |h: &Held| (self.gts - h.ts) * if self.class(h.block) == 1 { 1 } else { n1 };
        let best = offers.iter().max_by_key(|h| (weight(h), u64::MAX - h.ts));
        best.expect("something is offered").block
    }

    fn position(list: &[Held], block: u64) -> usize {
        list.iter().position(|h| h.block == block).expect("held")
    }

    pub fn access(&mut self, block: u64) -> Access {
        let access = match self.kind {
            Kind::Lru | Kind::Lfu { .. } => self.scan(block),
            Kind::Ring { .. } => self.ring(block),
            Kind::Clock => self.clock(block),
            Kind::Sieve { .. } => self.sieve(block),
            Kind::Arc { .. } => self.arc(block),
            Kind::S3Fifo { .. } => self.s3fifo(block),
            Kind::Slru { .. } => self.slru(block),
            Kind::TwoQ { .. } => self.two_q_access(block),
            Kind::WTinyLfu { .. } => self.w_tinylfu_access(block),
        };
        self.gts += 1;
        access
    }

    fn touch(&mut self, block: u64, count_max: u64) -> bool {
        let gts = self.gts;
        let Some(held) = self.held.iter_mut().find(|h| h.block == block) else { return false };
        held.ts = gts;
        held.count = (held.count + 1).min(count_max);
        true
    }

    fn miss(evicted: Option<u64>) -> Access {
        Access { hit: false, evicted }
    }

    const HIT: Access = Access { hit: true, evicted: None };

    fn scan(&mut self, block: u64) -> Access {
        if self.touch(block, u64::MAX) {
            return Model::HIT;
        }
        let mut evicted = None;
        if self.held.len() == self.size {
            let block = match self.kind {
                Kind::Lfu { literal } => {
                    let weight =
                        |h: &Held| h.count * self.fault.as_ref().map_or(1, |f| f.of(h.block));
                    let tie = |h: &Held| if literal { u64::MAX - h.ts } else { h.ts };
                    self.held.iter().min_by_key(|h| (weight(h), tie(h))).expect("full").block
                }
                _ => self.oldest_weighed(&self.held),
            };
            self.held.remove(Model::position(&self.held, block));
            evicted = Some(block);
        }
        let held = self.join(block, 1);
        self.held.push(held);
        Model::miss(evicted)
    }

    fn ring(&mut self, block: u64) -> Access {
        if self.touch(block, 1) {
            return Model::HIT;
        }
        let new = self.join(block, 0);
        if self.held.len() < self.size {
            self.held.push(new);
            return Model::miss(None);
        }
        let Kind::Ring { hand } = &mut self.kind else { unreachable!() };
        while self.held[*hand].count == 1 {
            self.held[*hand].count = 0;
            *hand = (*hand + 1) % self.size;
        }
        let evicted = self.held[*hand].block;
        self.held[*hand] = new;
        *hand = (*hand + 1) % self.size;
        Model::miss(Some(evicted))
    }

    /// The first block of a class without a reference, those before it sent to the end with one
    /// reference less.
    fn second_chances(&mut self, list: &mut Vec<Held>, class: usize) -> Option<Held> {
        loop {
            let at = list.iter().position(|h| self.class(h.block) == class)?;
            if list[at].count == 0 {
                return Some(list[at]);
            }
            let mut held = list.remove(at);
            held.count -= 1;
            list.push(held);
        }
    }

    fn clock(&mut self, block: u64) -> Access {
        if self.touch(block, 1) {
            return Model::HIT;
        }
        let mut evicted = None;
        if self.held.len() == self.size {
            let mut list = std::mem::take(&mut self.held);
            let offers: Vec<Held> =
                [0, 1].into_iter().filter_map(|c| self.second_chances(&mut list, c)).collect();
            let victim = self.oldest_weighed(&offers);
            list.remove(Model::position(&list, victim));
            (self.held, evicted) = (list, Some(victim));
        }
        let held = self.join(block, 0);
        self.held.push(held);
        Model::miss(evicted)
    }

    fn sieve(&mut self, block: u64) -> Access {
        if self.touch(block, 1) {
            return Model::HIT;
        }
        let mut evicted = None;
        if self.held.len() == self.size {
            let Kind::Sieve { mut hands } = self.kind else { unreachable!() };
            let mut offers = Vec::new();
            for class in [0, 1] {
                let of_class: Vec<usize> = (0..self.held.len())
                    .filter(|at| self.class(self.held[*at].block) == class)
                    .collect();
                if of_class.is_empty() {
                    continue;
                }
                let start =
                    of_class.iter().position(|at| Some(self.held[*at].joined) == hands[class]);
                let mut at = start.unwrap_or(0);
                while self.held[of_class[at]].count == 1 {
                    self.held[of_class[at]].count = 0;
                    at = (at + 1) % of_class.len();
                }
                hands[class] = Some(self.held[of_class[at]].joined);
                let next = of_class.get(at + 1).map(|at| self.held[*at].joined);
                offers.push((class, next, self.held[of_class[at]]));
            }
            let found: Vec<Held> = offers.iter().map(|o| o.2).collect();
            let victim = self.oldest_weighed(&found);
            let (class, next, _) = offers.iter().find(|o| o.2.block == victim).expect("offered");
            hands[*class] = *next;
            self.held.remove(Model::position(&self.held, victim));
            (self.kind, evicted) = (Kind::Sieve { hands }, Some(victim));
        }
        let held = self.join(block, 0);
        self.held.push(held);
        Model::miss(evicted)
    }

    /// The least recently used of each class, and of them the one to go.
    fn lru_of(&self, list: &[Held]) -> u64 {
        let class = |c| list.iter().filter(move |h| self.class(h.block) == c).min_by_key(|h| h.ts);
        let offers: Vec<Held> = [class(0), class(1)].into_iter().flatten().copied().collect();
        self.oldest_weighed(&offers)
    }

    fn arc(&mut self, block: u64) -> Access {
        let kind = std::mem::replace(&mut self.kind, Kind::Lru);
        let Kind::Arc { mut t2, mut b1, mut b2, mut p } = kind else { unreachable!() };
        let (c, new) = (self.size, self.join(block, 0));
        let mut access = Model::miss(None);
        let replace = |model: &mut Model,
                       t2: &mut Vec<Held>,
                       b1: &mut Vec<u64>,
                       b2: &mut Vec<u64>,
                       p: usize| {
            let t1 = model.held.len();
            if t1 > 0 && (b2.contains(&block) && t1 == p || t1 > p) {
                let victim = model.lru_of(&model.held);
                model.held.remove(Model::position(&model.held, victim));
                b1.push(victim);
                return Some(victim);
            }
            let victim = model.lru_of(t2);
            t2.remove(Model::position(t2, victim));
            b2.push(victim);
            Some(victim)
        };
        if self.held.iter().chain(&t2).any(|h| h.block == block) {
            self.held.retain(|h| h.block != block);
            t2.retain(|h| h.block != block);
            t2.push(new);
            access = Model::HIT;
        } else if b1.contains(&block) {
            p = c.min(p + (b2.len() / b1.len()).max(1));
            access.evicted = replace(self, &mut t2, &mut b1, &mut b2, p);
            b1.retain(|b| *b != block);
            t2.push(new);
        } else if b2.contains(&block) {
            p = p.saturating_sub((b1.len() / b2.len()).max(1));
            access.evicted = replace(self, &mut t2, &mut b1, &mut b2, p);
            b2.retain(|b| *b != block);
            t2.push(new);
        } else {
            let l1 = self.held.len() + b1.len();
            let all = l1 + t2.len() + b2.len();
            if l1 == c && self.held.len() == c {
                let victim = self.lru_of(&self.held);
                self.held.remove(Model::position(&self.held, victim));
                access.evicted = Some(victim);
            } else if l1 == c || all >= c {
                match l1 == c {
                    true => drop(b1.remove(0)),
                    false if all == 2 * c => drop(b2.remove(0)),
                    false => {}
                }
                access.evicted = replace(self, &mut t2, &mut b1, &mut b2, p);
            }
            self.held.push(new);
        }
        self.kind = Kind::Arc { t2, b1, b2, p };
        access
    }

    /// The first of each class in the order of a list, and of them the one to go.
    fn first_of(&self, list: &[Held]) -> u64 {
        let class = |c| list.iter().find(move |h| self.class(h.block) == c);
        let offers: Vec<Held> = [class(0), class(1)].into_iter().flatten().copied().collect();
        self.oldest_weighed(&offers)
    }

    fn slru(&mut self, block: u64) -> Access {
        let kind = std::mem::replace(&mut self.kind, Kind::Lru);
        let Kind::Slru { mut protected, protected_max } = kind else { unreachable!() };
        let (mut access, new) = (Model::HIT, self.join(block, 0));
        if self.held.iter().chain(&protected).any(|h| h.block == block) {
            self.held.retain(|h| h.block != block);
            protected.retain(|h| h.block != block);
            protected.push(new);
            if protected.len() > protected_max {
                self.held.push(protected.remove(0));
            }
        } else {
            access = Model::miss(None);
            if self.held.len() + protected.len() == self.size {
                let victim = self.first_of(&self.held);
                self.held.remove(Model::position(&self.held, victim));
                access.evicted = Some(victim);
            }
            self.held.push(new);
        }
        self.kind = Kind::Slru { protected, protected_max };
        access
    }

    fn two_q_access(&mut self, block: u64) -> Access {
        let kind = std::mem::replace(&mut self.kind, Kind::Lru);
        let Kind::TwoQ { mut main, mut ghosts, shares } = kind else { unreachable!() };
        let new = self.join(block, 0);
        let mut access = Model::HIT;
        if main.iter().any(|h| h.block == block) {
            main.retain(|h| h.block != block);
            main.push(new);
        } else if !self.touch(block, 1) {
            access = Model::miss(None);
            let is_known = ghosts.contains(&block);
            ghosts.retain(|b| *b != block);
            if self.held.len() + main.len() == self.size {
                let victim = if self.held.len() > shares[0] || main.is_empty() {
                    let victim = self.first_of(&self.held);
                    self.held.remove(Model::position(&self.held, victim));
                    ghosts.push(victim);
                    let over = ghosts.len().saturating_sub(shares[1]);
                    ghosts.drain(..over);
                    victim
                } else {
                    let victim = self.lru_of(&main);
                    main.remove(Model::position(&main, victim));
                    victim
                };
                access.evicted = Some(victim);
            }
            if is_known { main.push(new) } else { self.held.push(new) }
        }
        self.kind = Kind::TwoQ { main, ghosts, shares };
        access
    }

    fn w_tinylfu_access(&mut self, block: u64) -> Access {
        let kind = std::mem::replace(&mut self.kind, Kind::Lru);
        let Kind::WTinyLfu { mut probation, mut protected, window_max, protected_max, mut sketch } =
            kind
        else {
            unreachable!()
        };
        let (mut access, new) = (Model::HIT, self.join(block, 0));
        if self.held.iter().any(|h| h.block == block) {
            self.held.retain(|h| h.block != block);
            self.held.push(new);
        } else if probation.iter().chain(&protected).any(|h| h.block == block) {
            probation.retain(|h| h.block != block);
            protected.retain(|h| h.block != block);
            protected.push(new);
            if protected.len() > protected_max {
                probation.push(protected.remove(0));
            }
        } else {
            access = Model::miss(None);
            if self.held.len() + probation.len() + protected.len() == self.size {
                let main = if probation.is_empty() { &protected } else { &probation };
                let victim = self.w_tinylfu_victim(main, &sketch);
                for list in [&mut self.held, &mut probation, &mut protected] {
                    list.retain(|h| h.block != victim);
                }
                access.evicted = Some(victim);
            }
            self.held.push(new);
            if self.held.len() > window_max {
                probation.push(self.held.remove(0));
            }
        }
        sketch.add(block);
        self.kind = Kind::WTinyLfu { probation, protected, window_max, protected_max, sketch };
        access
    }

    /// In each class the oldest of the window against the main part's, then class against class.
    fn w_tinylfu_victim(&self, main: &[Held], sketch: &Sketch) -> u64 {
        let frequency = |h: &Held| sketch.frequency(h.block);
        let mut offers = Vec::new();
        for class in [0, 1] {
            let first = |list: &[Held]| list.iter().copied().find(|h| self.class(h.block) == class);
            offers.extend(match (first(&self.held), first(main)) {
                (Some(new), Some(old)) if frequency(&new) > frequency(&old) => Some(old),
                (new, old) => new.or(old),
            });
        }
        let weight = |h: &Held| frequency(h) * self.fault.as_ref().map_or(1, |f| f.of(h.block));
        offers.iter().min_by_key(|h| (weight(h), h.ts)).expect("full").block
    }

    fn s3fifo(&mut self, block: u64) -> Access {
        let kind = std::mem::replace(&mut self.kind, Kind::Lru);
        let Kind::S3Fifo { mut main, mut ghosts } = kind else { unreachable!() };
        let small = (self.size / 10).max(1);
        let mut access = Model::HIT;
        if let Some(held) = self.held.iter_mut().chain(&mut main).find(|h| h.block == block) {
            (held.ts, held.count) = (self.gts, (held.count + 1).min(3));
        } else {
            let was_ghost = ghosts.contains(&block);
            ghosts.retain(|b| *b != block);
            access = Model::miss(None);
            if self.held.len() + main.len() == self.size {
                let evicted = self.s3fifo_evict(&mut main, &mut ghosts, small);
                access.evicted = Some(evicted);
            }
            let new = self.join(block, 0);
            if was_ghost { main.push(new) } else { self.held.push(new) }
        }
        self.kind = Kind::S3Fifo { main, ghosts };
        access
    }

    fn s3fifo_evict(&mut self, main: &mut Vec<Held>, ghosts: &mut Vec<u64>, small: usize) -> u64 {
        let mut offers = Vec::new();
        for class in [0, 1] {
            while self.held.len() >= small {
                let first = self.held.iter().position(|h| self.class(h.block) == class);
                let Some(at) = first else { break };
                if self.held[at].count <= 1 {
                    offers.push(self.held[at]);
                    break;
                }
                main.push(Held { count: 0, ..self.held.remove(at) });
            }
        }
        if self.held.len() >= small {
            let victim = self.oldest_weighed(&offers);
            self.held.remove(Model::position(&self.held, victim));
            if ghosts.len() == self.size - small {
                ghosts.drain(..ghosts.len().min(1));
            }
            if self.size > small {
                ghosts.push(victim);
            }
            return victim;
        }
        let offers: Vec<Held> =
            [0, 1].into_iter().filter_map(|c| self.second_chances(main, c)).collect();
        let victim = self.oldest_weighed(&offers);
        main.remove(Model::position(main, victim));
        victim
    }
}
