//! One case: an array, its settings, its load and its faults, all drawn from a seed.

use crate::memory;
use destage_engine::array::geometry::{Geometry, LEVELS, Level, Redundancy};
use destage_engine::flushes::Durability;
use destage_engine::policy::{POLICIES, PolicyChoice};
use destage_engine::readcache::coherent::{OnWrite, ReadCacheChoice};
use destage_engine::readcache::{READ_POLICIES, Vdf, choose};
use destage_engine::units::Duration;
use destage_engine::{policy, rate};
use destage_nvslog::COMMIT_PAGES_MAX;
use destage_nvslog::sizes::Sizes;
use destage_served::{Ack, Creation, Defect, OnNvsLoss, Settings};
use destage_workload::random::Seeded;

/// What the cases must be like; the rest is drawn from the seed.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// RAID level.
    pub level: Option<Level>,
    /// Destage policy.
    pub policy: Option<PolicyChoice>,
    /// When a write is acknowledged.
    pub ack: Option<Ack>,
    /// NVS devices.
    pub nvs: Option<u16>,
    /// A deliberate fault of the volume.
    pub defect: Defect,
    /// Scrubs after each recovery and under load.
    pub scrubs: bool,
    /// Failed members are replaced and rebuilt.
    pub rebuilds: bool,
    /// A read cache, or none.
    pub read_cache: Option<bool>,
    /// Devices are absent, restored from older copies, cut short, full or unreadable
    /// (`mishaps.rs`).
    pub mishaps: bool,
    /// The array gets other logs now and then (`relog.rs`).
    pub relogs: bool,
    /// What is rare is made frequent: lives in which the log comes round several times, slow
    /// operations where they hurt, writes that a power failure keeps or takes as a whole
    /// (`pressed.rs`).
    pub pressed: bool,
}

/// A case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its seed.
    pub seed: u64,
    /// The array.
    pub geometry: Geometry,
    /// Bytes in a log block.
    pub block_bytes: u32,
    /// Most dirty pages.
    pub nvs_pages: u64,
    /// How an NVS device is divided, if not as it is for that many dirty pages.
    pub nvs_sizes: Option<Sizes>,
    /// NVS devices.
    pub nvs: u16,
    /// How the volume runs.
    pub settings: Settings,
    /// Scrubs after each recovery and under load.
    pub scrubs: bool,
    /// Failed members are replaced and rebuilt.
    pub rebuilds: bool,
    /// Devices fail and media have errors.
    pub faults: bool,
    /// Devices are absent, restored, cut short, full or unreadable.
    pub mishaps: bool,
    /// The array gets other logs now and then.
    pub relogs: bool,
    /// What is rare is made frequent.
    pub pressed: bool,
    /// The NVS is almost full of pages that are not written again, next to a few that always are:
    /// the ring comes round, and what moves to its head is much.
    pub hoards: bool,
    /// The NVS devices are byte-addressable memory: a power failure tears what they write anywhere.
    pub nvs_is_memory: bool,
    /// What was asked for; it stays when settings are drawn again.
    wanted: Wanted,
    /// Steps between two faults, about.
    pub fault_steps: u64,
    /// Most requests in flight.
    pub depth: u64,
    /// Reads among a hundred requests.
    pub reads: u64,
    /// Requests to a small part of the volume, among a hundred.
    pub hot: u64,
}

/// More pages of a member than become unreadable in almost any life.
const READ_ERRORS_MAX: u32 = 12;

const RATES: &[&str] =
    &["linear:90/80", "linear:50/20", "quick", "fixed:1", "adaptive", "write-behind"];

impl Case {
    /// The case of a seed.
    ///
    /// # Panics
    /// If the sizes drawn make no array: a bug here.
    pub fn draw(seed: u64, wanted: &Wanted) -> Case {
        let mut rng = Seeded::new(seed, "torture-case");
        let drawn = LEVELS[rng.below(LEVELS.len() as u64) as usize].level;
        let level = wanted.level.unwrap_or(drawn);
        let geometry = draw_geometry(level, &mut rng);
        let volume = geometry.volume_pages().0;
        let nvs_pages = (16 + rng.below(185) * rng.below(2)).min(volume / 2).max(4);
        let mut settings = draw_settings(wanted, &mut rng);
        let drawn = [1, 2, 1, 2, 2, 0, 1, 2][rng.below(8) as usize];
        // Generators of their own, so that the other draws do not shift.
        let mut stripe_rng = Seeded::new(seed, "torture-case-stripe-memory");
        if level.parities() > 0 {
            settings.stripe_memory = [0, 8, 64, 1000][stripe_rng.below(4) as usize];
        }
        draw_idle_time(&mut settings, &mut Seeded::new(seed, "torture-case-idle-time"));
        let mut cache_rng = Seeded::new(seed, "torture-case-read-cache");
        let cached = cache_rng.below(2) == 0;
        settings.read_cache =
            wanted.read_cache.unwrap_or(cached).then(|| draw_read_cache(&mut cache_rng));
        let mut durable_rng = Seeded::new(seed, "torture-case-durability");
        draw_durability(&mut settings, geometry.disks, &mut durable_rng);
        let mut memory_rng = Seeded::new(seed, "torture-case-memory");
        let mut hoard_rng = Seeded::new(seed, "torture-case-hoard");
        let hoards = wanted.pressed && hoard_rng.below(8) == 0;
        let nvs_pages = if hoards { (volume / 2).clamp(4, 200) } else { nvs_pages };
        let mut case = Case {
            seed,
            geometry,
            block_bytes: if rng.below(4) == 0 { 4096 } else { 512 },
            nvs_pages,
            nvs_sizes: None,
            nvs: wanted.nvs.unwrap_or(drawn),
            settings,
            scrubs: wanted.scrubs,
            rebuilds: wanted.rebuilds,
            faults: rng.below(3) > 0,
            mishaps: wanted.mishaps,
            relogs: wanted.relogs,
            pressed: wanted.pressed,
            hoards,
            nvs_is_memory: wanted.mishaps && memory_rng.below(4) == 0,
            wanted: wanted.clone(),
            fault_steps: [20, 100, 400][rng.below(3) as usize],
            depth: 1 + rng.below(16),
            reads: 10 + rng.below(40),
            hot: rng.below(100),
        };
        case.hoard();
        case
    }

    /// What an array that hoards is besides.
    fn hoard(&mut self) {
        if self.hoards {
            self.settings.rate = rate::choose("linear:90/80").expect("of the table");
            (self.settings.cache_off, self.block_bytes) = (false, 512);
            self.reads = self.reads.min(15);
        }
    }

    /// Other settings for the same array.
    pub(super) fn redraw_settings(&mut self, rng: &mut Seeded) {
        let stripe_memory = self.settings.stripe_memory;
        self.settings = Settings { stripe_memory, ..draw_settings(&self.wanted, rng) };
        draw_durability(&mut self.settings, self.geometry.disks, rng);
        draw_idle_time(&mut self.settings, rng);
        let cached = self.wanted.read_cache.unwrap_or_else(|| rng.below(2) == 0);
        self.settings.read_cache = cached.then(|| draw_read_cache(rng));
        self.hoard();
    }

    /// How destages become durable on a member.
    pub(super) fn durability_of(&self, member: u16) -> Durability {
        self.settings.durability.get(usize::from(member)).copied().unwrap_or_default()
    }

    /// What creates its array.
    pub fn creation(&self) -> Creation {
        let uuid = |kind: u8, number: u16| {
            let mut uuid = [kind; 16];
            uuid[8..].copy_from_slice(&(self.seed ^ u64::from(number) << 48).to_le_bytes());
            uuid
        };
        Creation {
            geometry: self.geometry,
            block_bytes: self.block_bytes,
            sizes: self.sizes(),
            array: uuid(1, 0),
            log: uuid(2, 0),
            members: (0..self.geometry.disks).map(|member| uuid(3, member)).collect(),
            nvs: (0..self.nvs).map(|copy| uuid(4, copy)).collect(),
        }
    }

    fn sizes(&self) -> Sizes {
        self.nvs_sizes.unwrap_or_else(|| Sizes::for_pages(self.nvs_pages, self.block_bytes))
    }

    /// Most pages of a write that goes into one commit, with room for this many dirty pages.
    pub fn commit_pages(&self, dirty_pages: u64) -> u64 {
        let sizes = Sizes::for_pages(dirty_pages, self.block_bytes);
        let spare = u64::from(sizes.slots) - sizes.dirty_pages;
        (sizes.dirty_pages / 4).min(spare).min(COMMIT_PAGES_MAX as u64)
    }

    /// Bytes that an NVS device needs.
    pub fn nvs_bytes(&self) -> u64 {
        self.sizes().bytes(self.block_bytes)
    }

    /// The case in one line.
    pub fn describe(&self) -> String {
        let Case { geometry, settings, .. } = self;
        format!(
            "level {} of {} disks, strips of {} pages, groups of {}, {} pages per disk; {} NVS \
             devices{} of {} pages, blocks of {}; {}, {}, ack {:?}, members {}, depth {}, \
             window {}{}{}",
            geometry.level.entry().entry.name,
            geometry.disks,
            geometry.strip_pages,
            geometry.group_stripes,
            geometry.disk_pages,
            self.nvs,
            if self.nvs_is_memory { " (memory)" } else { "" },
            self.nvs_pages,
            self.block_bytes,
            settings.policy.choice.describe(),
            settings.rate.choice.describe(),
            settings.ack,
            settings.durability.iter().map(|how| how.name()).collect::<Vec<_>>().join(" "),
            settings.queue_depth,
            settings.window,
            match (settings.cache_off, self.faults) {
                (false, false) => "",
                (false, true) => ", with failing devices",
                (true, false) => ", cache off",
                (true, true) => ", cache off, with failing devices",
            },
            match settings.stripe_memory {
                0 => String::new(),
                pages => format!(", stripe memory of {pages} pages"),
            } + &settings.read_cache.as_ref().map_or(String::new(), |cache| {
                let (name, pages) = (cache.policy.describe(), cache.pages);
                format!(", read cache {name} of {pages} pages, {:?}", cache.on_write)
            }),
        )
    }
}

/// Sometimes idle time is used to destage.
fn draw_idle_time(settings: &mut Settings, rng: &mut Seeded) {
    if rng.below(4) == 0 {
        let with = settings.rate.choice.describe().replace("idle=off", "idle=10");
        settings.rate = rate::choose(&with).expect("a rate with its option");
    }
}

/// Settings that can be others at each start.
fn draw_settings(wanted: &Wanted, rng: &mut Seeded) -> Settings {
    let drawn = POLICIES[rng.below(POLICIES.len() as u64) as usize].entry.name;
    let policy = policy::choose(drawn).expect("of the table");
    let policy = wanted.policy.clone().unwrap_or(policy);
    let drawn = RATES[rng.below(RATES.len() as u64) as usize];
    let mut settings = Settings::new(policy, rate::choose(drawn).expect("of the table"));
    settings.pages = memory::pages();
    settings.queue_depth = 1 + rng.below(8) as u32;
    settings.window = 1 + rng.below(8) as u32;
    let drawn = if rng.below(3) == 0 { Ack::Flush } else { Ack::Nvs };
    settings.ack = wanted.ack.unwrap_or(drawn);
    settings.stall_limit = Duration::from_secs(2);
    // Often a checkpoint is due before the last one is written.
    settings.checkpoint_every = Duration(if wanted.pressed { 500_000 } else { 5_000_000 });
    if wanted.pressed {
        // Several windows of these small members.
        settings.rebuild.window_pages = [1, 4, 16, 64][rng.below(4) as usize];
        settings.rebuild.depth = 1 + rng.below(4) as usize;
        // So few that one page, read again and again, would make as many.
        settings.read_errors_max = READ_ERRORS_MAX;
    }
    settings.defect = wanted.defect;
    settings.cache_off = rng.below(16) == 0;
    if rng.below(4) == 0 {
        settings.on_nvs_loss = OnNvsLoss::Stop;
    }
    settings
}

/// How destages become durable: mostly in one way on all members. Some members are flushed after
/// every write, others when many destages wait.
fn draw_durability(settings: &mut Settings, members: u16, rng: &mut Seeded) {
    let mut draw = || Durability::NAMES[rng.below(4) as usize].1;
    let (all, mixed) = (draw(), draw() == Durability::Off);
    let one = |_| if mixed { draw() } else { all };
    settings.durability = (0..members).map(one).collect();
    settings.flush_limits.bound = Duration::from_millis([0, 20, 200][rng.below(3) as usize]);
}

fn draw_geometry(level: Level, rng: &mut Seeded) -> Geometry {
    let least = level.entry().disks_min;
    let disks = match level.entry().redundancy {
        Redundancy::None if level.entry().disks_max == 1 => 1,
        Redundancy::None => 2 + rng.below(3) as u16,
        Redundancy::Mirror => least + 2 * rng.below(3) as u16,
        Redundancy::Parity { .. } => least + rng.below(4) as u16,
    };
    let strip_pages = 1 << rng.below(5);
    let group_stripes = 1 + rng.below(3);
    let unit = strip_pages * group_stripes;
    let disk_pages = unit * (1 + rng.below(6)) + 64 / u64::from(disks);
    let geometry = Geometry { level, disks, strip_pages, group_stripes, disk_pages };
    geometry.checked().expect("sizes that make an array")
}

/// Any read cache; mostly smaller than what is read again.
pub(super) fn draw_read_cache(rng: &mut Seeded) -> ReadCacheChoice {
    let name = READ_POLICIES[rng.below(READ_POLICIES.len() as u64) as usize].plain.name;
    let form = ["off", "paper", "adaptive"][rng.below(3) as usize];
    let vdf = Vdf::parse(form).expect("a form");
    let policy = choose(name).and_then(|policy| policy.with_vdf(vdf)).expect("of the table");
    let most = [4, 40, 400][rng.below(3) as usize];
    let pages = 1 + rng.below(most);
    let on_write = [OnWrite::Invalidate, OnWrite::Update, OnWrite::Keep][rng.below(3) as usize];
    ReadCacheChoice { policy, pages, on_write }
}
