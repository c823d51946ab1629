//! Read caches: the trait of their policies and the table. One file per policy; `fault.rs` has the
//! fault-aware form `vdf-NAME` of all of them. What each decides is in docs/readcache.md.

pub mod adaptive;
mod arc;
mod cache;
mod clock;
pub mod coherent;
mod fault;
mod ghosts;
mod lfu;
mod lru;
pub mod optimum;
pub mod penalty;
mod place;
pub mod replay;
mod s3fifo;
mod sieve;
mod slru;
pub(crate) mod store;
mod two_q;
mod w_tinylfu;

use crate::registry::{Choice, ChoiceError, Entry, Param, nearest_first};
use crate::request::PageRange;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
pub use fault::Weight;
use fault::Worth;
use penalty::Penalties;
use replay::Tally;
use store::Store;

/// Most blocks of a cache: nodes, with as many ghosts, are numbered in 32 bits.
pub const BLOCKS_MAX: u64 = 1 << 30;

/// What one block request did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The block was held.
    pub hit: bool,
    /// The block that made way for it. It was chosen before the new one came in.
    pub evicted: Option<u64>,
}

/// A read cache of a fixed number of blocks. Every missed block is loaded.
pub trait ReadCache: Send {
    /// Asks for one block.
    fn access(&mut self, block: u64) -> Access;

    /// Asks for every block of the ranges in order, and counts. One call for many requests.
    fn run(&mut self, ranges: &[PageRange], penalties: &Penalties, tally: &mut Tally);

    /// Whether a block is held.
    fn holds(&self, block: u64) -> bool;

    /// Blocks held.
    fn held(&self) -> usize;

    /// Blocks that it can hold.
    fn blocks(&self) -> usize;

    /// Evicts the block that would go next; none if nothing is held.
    fn evict(&mut self) -> Option<u64>;

    /// Drops a block whose contents are out of date; whether it was held.
    fn forget(&mut self, block: u64) -> bool;

    /// Disks failed, or were rebuilt in part or completely. From now on a fault-aware cache takes
    /// its victims accordingly; what it holds and knows stays. It takes one pass over the
    /// blocks held. A plain cache takes no notice.
    fn set_fault(&mut self, fault: Option<Penalties>);

    /// What a block of a failed disk weighs from now on, as long as one is failed; none: its
    /// penalty. At [`Weight::PLAIN`] a fault-aware cache does what the plain one does.
    /// A plain cache takes no notice.
    fn set_weight(&mut self, _weight: Option<Weight>) {}

    /// What a block of a failed disk weighs now; none while no disk is failed.
    fn weight(&self) -> Option<Weight> {
        None
    }

    /// How often the weight was changed for a better one.
    fn weight_changes(&self) -> u64 {
        0
    }

    /// Bytes that it takes for what it knows of blocks, held or not; 0 where nobody has counted.
    fn memory_bytes(&self) -> usize {
        0
    }

    /// Another cache that holds and knows the same; caches of the table can be copied.
    fn copy(&self) -> Option<Box<dyn ReadCache>> {
        None
    }
}

/// An order of eviction. The cache ([`cache::Cache`]) finds blocks, stamps each access, asks the
/// policy for its best victim of each class and chooses between the two.
trait EvictionOrder: Send {
    /// A held block was accessed; its stamp is new.
    fn hit(&mut self, store: &mut Store, slot: u32);

    /// A ghost was asked for: takes it out of its list.
    fn recall(&mut self, _store: &mut Store, _slot: u32) {}

    /// A victim is wanted, for a block that was a ghost (`recalled`) or not.
    fn prepare(&mut self, _store: &mut Store, _recalled: bool) {}

    /// The best victim of a class, or none if the class has no block where victims now come from.
    fn candidate(&mut self, store: &mut Store, class: u8) -> u32;

    /// Takes a held block out of its list.
    fn unlink(&mut self, store: &mut Store, slot: u32);

    /// The block was evicted and unlinked: free it or keep it as a ghost.
    fn evicted(&mut self, store: &mut Store, slot: u32) {
        store.free(slot);
    }

    /// A block was loaded; its stamp and class are set.
    fn insert(&mut self, store: &mut Store, slot: u32, recalled: bool);

    /// What a candidate is worth, to be compared with the other class's.
    fn worth(&self, store: &Store, slot: u32) -> Worth;

    /// Of equal worth, the newer goes.
    fn newest_ties(&self) -> bool {
        false
    }

    /// Bytes that it takes in proportion to the cache, next to the store.
    fn memory_bytes(&self) -> usize {
        0
    }

    /// Classes have changed: sets each held block's class and files it there, order kept.
    fn refile(&mut self, store: &mut Store, class_of: &dyn Fn(u64) -> u8);
}

/// What a cache is made with.
#[derive(Clone, Copy, Debug)]
pub struct ReadConfig {
    /// Blocks that it can hold, at least 1.
    pub blocks: usize,
    /// Fault-aware.
    aware: bool,
}

/// A cache, or why it cannot be made.
pub type Made = Result<Box<dyn ReadCache>, ChoiceError>;

/// A table entry.
pub struct ReadPolicyEntry {
    /// The policy.
    pub plain: Entry,
    /// Its fault-aware form; `None` if the policy gives no order among its victims.
    pub aware: Option<Entry>,
    make: fn(&Choice, &ReadConfig) -> Made,
}

const fn entry(
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    params: &'static [Param],
) -> Entry {
    Entry { name, summary, source, params }
}

/// All read-cache policies.
pub const READ_POLICIES: &[ReadPolicyEntry] = &[
    lru::ENTRY,
    lfu::ENTRY,
    clock::ENTRY,
    arc::ENTRY,
    sieve::ENTRY,
    s3fifo::ENTRY,
    slru::ENTRY,
    two_q::ENTRY,
    w_tinylfu::ENTRY,
];

/// Every entry, plain forms first.
pub fn entries() -> Vec<&'static Entry> {
    let plain = READ_POLICIES.iter().map(|p| &p.plain);
    plain.chain(READ_POLICIES.iter().filter_map(|p| p.aware.as_ref())).collect()
}

/// Why a read cache cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadPolicyError {
    /// The name or a parameter is not known.
    Choice(ChoiceError),
    /// The policy has no fault-aware form.
    NoOrder(&'static str),
    /// A parameter of the adaptive form, given with the policy.
    OfTheForm {
        /// The policy, without a prefix.
        policy: &'static str,
        /// The parameter.
        param: String,
    },
    /// An invalid number of blocks.
    Blocks(u64),
}

impl core::fmt::Display for ReadPolicyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ReadPolicyError::Choice(error) => error.fmt(f),
            ReadPolicyError::NoOrder(name) => write!(
                f,
                "`{name}` has no fault-aware form: it gives no order among its victims by which \
                 those of the failed disk could be weighed"
            ),
            ReadPolicyError::OfTheForm { policy, param } => write!(
                f,
                "`adaptive-{policy}` takes no `{param}` itself: give `{policy}`, and `{param}` \
                 with the form (--vdf adaptive:{param}=...)"
            ),
            ReadPolicyError::Blocks(blocks) => {
                write!(f, "a read cache takes 1 to {BLOCKS_MAX} blocks, not {blocks}")
            }
        }
    }
}

impl core::error::Error for ReadPolicyError {}

/// Whether and how a cache takes failed disks into account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vdf {
    /// It does not: the plain policy.
    Off,
    /// A lost block weighs its penalty.
    Paper,
    /// What it weighs is chosen while running.
    Adaptive(adaptive::AdaptiveSettings),
}

impl Vdf {
    /// What [`Vdf::parse`] takes.
    pub const RANGE: &str = "off, paper, adaptive[:start=plain|1/4|1/2|1|2|4|8,shadow=BLOCKS]";

    /// Reads a form; see [`Vdf::RANGE`].
    pub fn parse(text: &str) -> Option<Vdf> {
        match text.split_once(':').unwrap_or((text, "")) {
            ("off", "") => Some(Vdf::Off),
            ("paper", "") => Some(Vdf::Paper),
            ("adaptive", rest) => adaptive::AdaptiveSettings::parse(rest).map(Vdf::Adaptive),
            _ => None,
        }
    }
}

/// A read-cache policy chosen with its parameters.
#[derive(Clone, Debug)]
pub struct ReadChoice {
    choice: Choice,
    /// Fault-aware.
    pub vdf: Vdf,
    make: fn(&Choice, &ReadConfig) -> Made,
}

/// Parses `[vdf-|adaptive-]name:parameters`.
///
/// # Errors
/// An unknown name or parameter, a value out of range, or a policy without a fault-aware form.
pub fn choose(text: &str) -> Result<ReadChoice, ReadPolicyError> {
    choose_from(READ_POLICIES, text)
}

fn choose_from(
    table: &'static [ReadPolicyEntry],
    text: &str,
) -> Result<ReadChoice, ReadPolicyError> {
    let name = text.split(':').next().unwrap_or(text);
    let (adaptive, text) = match text.strip_prefix("adaptive-") {
        Some(rest) => (true, alloc::format!("vdf-{rest}")),
        None => (false, String::from(text)),
    };
    let base = name.strip_prefix("vdf-").or(name.strip_prefix("adaptive-")).unwrap_or(name);
    let Some(row) = table.iter().find(|row| row.plain.name == base) else {
        let (kind, name) = ("read policy", String::from(name));
        let all = table.iter().flat_map(|row| [Some(&row.plain), row.aware.as_ref()]);
        let known = nearest_first(&name, all.flatten().map(|entry| entry.name));
        return Err(ReadPolicyError::Choice(ChoiceError::Unknown { kind, name, known }));
    };
    let aware = base != name;
    let entry = match (&row.aware, aware) {
        (_, false) => &row.plain,
        (Some(entry), true) => entry,
        (None, true) => return Err(ReadPolicyError::NoOrder(row.plain.name)),
    };
    let choice = Choice::parse("read policy", &[entry], &text).map_err(|error| match error {
        ChoiceError::UnknownParam { param, .. } if adaptive && is_of_the_form(&param) => {
            ReadPolicyError::OfTheForm { policy: row.plain.name, param }
        }
        error => ReadPolicyError::Choice(error),
    })?;
    let vdf = match (aware, adaptive) {
        (false, _) => Vdf::Off,
        (true, false) => Vdf::Paper,
        (true, true) => Vdf::Adaptive(adaptive::AdaptiveSettings::default()),
    };
    let chosen = ReadChoice { choice, vdf, make: row.make };
    // Values are checked now, not when the size is known.
    chosen.build(1)?;
    Ok(chosen)
}

/// Whether [`Vdf::Adaptive`] has a parameter of this name.
fn is_of_the_form(param: &str) -> bool {
    ["start", "shadow"].contains(&param)
}

/// Whether a cache can have this many blocks.
///
/// # Errors
/// No blocks or too many.
pub fn check_blocks(blocks: u64) -> Result<(), ReadPolicyError> {
    match (1..=BLOCKS_MAX).contains(&blocks) {
        true => Ok(()),
        false => Err(ReadPolicyError::Blocks(blocks)),
    }
}

impl ReadChoice {
    /// Whether a cache can have this many blocks.
    ///
    /// # Errors
    /// No blocks or too many.
    pub fn check(&self, blocks: u64) -> Result<(), ReadPolicyError> {
        check_blocks(blocks)
    }

    /// An empty cache.
    ///
    /// # Errors
    /// No blocks or too many, or a value out of range.
    pub fn build(&self, blocks: u64) -> Result<Box<dyn ReadCache>, ReadPolicyError> {
        self.check(blocks)?;
        let make = |blocks| {
            let config = ReadConfig { blocks, aware: self.vdf != Vdf::Off };
            (self.make)(&self.choice, &config).map_err(ReadPolicyError::Choice)
        };
        let blocks = blocks as usize;
        let Vdf::Adaptive(settings) = self.vdf else { return make(blocks) };
        let shadow = make(adaptive::Adaptive::shadow_blocks(blocks, &settings))?;
        Ok(Box::new(adaptive::Adaptive::new(make(blocks)?, shadow, settings)))
    }

    /// The same policy in another form.
    ///
    /// # Errors
    /// It has no fault-aware form.
    pub fn with_vdf(mut self, vdf: Vdf) -> Result<ReadChoice, ReadPolicyError> {
        let own = |entry: &Entry| entry.name == self.choice.entry.name;
        let of = |row: &&ReadPolicyEntry| own(&row.plain) || row.aware.as_ref().is_some_and(own);
        let row = READ_POLICIES.iter().find(of).expect("it is of the table");
        self.choice.entry = match vdf {
            Vdf::Off => &row.plain,
            _ => row.aware.as_ref().ok_or(ReadPolicyError::NoOrder(row.plain.name))?,
        };
        self.vdf = vdf;
        Ok(self)
    }

    /// Its entry.
    pub fn entry(&self) -> &'static Entry {
        self.choice.entry
    }

    /// The choice written out in full.
    pub fn describe(&self) -> String {
        let text = self.choice.describe();
        match (self.vdf, text.strip_prefix("vdf-")) {
            (Vdf::Adaptive(_), Some(name)) => alloc::format!("adaptive-{name}"),
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    static UNORDERED: [ReadPolicyEntry; 1] = [ReadPolicyEntry {
        plain: entry("unordered", "", "", &[]),
        aware: None,
        make: |choice, config| (lru::ENTRY.make)(choice, config),
    }];

    #[test]
    fn a_policy_without_an_order_has_no_fault_aware_form() {
        assert!(choose_from(&UNORDERED, "unordered").is_ok());
        let error = choose_from(&UNORDERED, "vdf-unordered").unwrap_err().to_string();
        assert!(error.starts_with("`unordered` has no fault-aware form"), "{error}");
    }

    #[test]
    fn names_and_values_are_checked_when_chosen() {
        let error = choose("vdf-lro").unwrap_err().to_string();
        assert!(error.starts_with("unknown read policy `vdf-lro`; known: vdf-lru"), "{error}");
        assert!(choose("lfu:newest").unwrap_err().to_string().contains("oldest or literal"));
        assert!(choose("lru:ties=oldest").is_err());
        assert_eq!(choose("vdf-lfu:literal").unwrap().describe(), "vdf-lfu:ties=literal");
        assert!(choose("lru").unwrap().build(0).is_err());
    }

    #[test]
    fn every_fault_aware_form_is_named_after_its_policy() {
        for row in READ_POLICIES {
            let aware = row.aware.as_ref().expect("each gives an order");
            assert_eq!(aware.name.strip_prefix("vdf-"), Some(row.plain.name));
            assert_eq!(aware.params, row.plain.params);
        }
    }
}
