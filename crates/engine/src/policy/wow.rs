//! WOW: CSCAN order, but a group rewritten since the pointer last passed is spared once.
//!
//! Its authors name two further ideas (section III-E), which are options here: a history of
//! destaged groups, and an adaptive balance between temporal and spatial locality.

use super::history::History;
use super::scan::{Ring, Sparse};
use super::{DestagePolicy, PageWrite, PolicyContext, PolicyEntry};
use crate::bounded::cover;
use crate::conditions::Conditions;
use crate::nvs::directory::{Directory, Slot};
use crate::registry::{Choice, ChoiceError, Entry, Param};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    entry: Entry {
        name: "wow",
        summary: "CSCAN order with a recency bit per group: spatial and temporal locality",
        source: "WOW (FAST'05) Fig. 4, sections III-E and IV-E for the options; docs/simulator.md",
        params: &[
            Param {
                name: "initial-bit",
                unit: "-",
                default: "0",
                range: "0, 1 or adaptive",
                help: "recency bit of a new group; adaptive: of a share that history balances",
            },
            Param {
                name: "frequency",
                unit: "-",
                default: "1",
                range: "1 to 100",
                help: "count hits up to this number instead of one bit; the scan counts down",
            },
            Param {
                name: "history",
                unit: "% of NVS",
                default: "0",
                range: "0 to 100",
                help: "destaged groups remembered, a page each: one that returns has its bit set",
            },
        ],
    },
    make: |choice, context| {
        let most_count = choice.number("frequency", 1, 100)?;
        let history: u64 = choice.number("history", 0, 100)?;
        let initial = initial(choice, history > 0)?;
        let remembered = (context.nvs_pages * history).div_ceil(100);
        Ok(Box::new(Wow::new(context, initial, most_count, History::new(remembered))))
    },
};

fn initial(choice: &Choice, remembers: bool) -> Result<Initial, ChoiceError> {
    let wrong = |expected: &str| ChoiceError::BadValue {
        entry: choice.entry.name,
        param: "initial-bit",
        value: choice.text("initial-bit").into(),
        expected: expected.into(),
    };
    match choice.text("initial-bit") {
        "0" => Ok(Initial::Clear),
        "1" => Ok(Initial::Set),
        "adaptive" if remembers => Ok(Initial::Adaptive { share: 0, due: 0 }),
        "adaptive" => Err(wrong("0 or 1 without a history (history=50, for instance)")),
        _ => Err(wrong("0, 1 or adaptive")),
    }
}

/// All new groups.
const ALL: u32 = 1024;
/// What one group moves the balance by.
const STEP: u32 = 16;
/// In a counter: the group was given its bit when it was new, and no write has come since.
const GIVEN: u8 = 0x80;
const COUNT: u8 = 0x7F;

/// The recency bit of new groups.
enum Initial {
    Clear,
    Set,
    /// Of a share of them, of [`ALL`]. A group that returns soon after its destage would have
    /// gained by a longer life: the share grows. One that had a longer life and was not written
    /// again has cost space for nothing: it shrinks.
    Adaptive {
        share: u32,
        due: u32,
    },
}

/// One ring with a counter per group.
pub struct Wow {
    ring: Ring,
    counter: Vec<u8>,
    initial: Initial,
    most_count: u8,
    most_groups: usize,
    history: History,
}

impl Wow {
    /// `most_count` is 1 for the paper's bit.
    fn new(context: &PolicyContext, initial: Initial, most_count: u8, history: History) -> Wow {
        Wow {
            ring: Ring::new(context.groups, context.nvs_pages),
            counter: Vec::new(),
            initial,
            most_count,
            most_groups: context.nvs_pages as usize,
            history,
        }
    }

    /// A bit that is never set.
    pub fn cscan(context: &PolicyContext) -> Wow {
        Wow::new(context, Initial::Clear, 0, History::new(0))
    }

    /// The counter of a new group.
    fn of_new(&mut self, write: PageWrite) -> u8 {
        let returns = self.history.recall(write.group) && !write.sequential();
        match &mut self.initial {
            Initial::Set => 1,
            Initial::Adaptive { share, .. } if returns => {
                *share = (*share + STEP).min(ALL);
                1
            }
            Initial::Adaptive { share, due } if !write.sequential() => {
                *due += *share;
                if *due < ALL {
                    return 0;
                }
                *due -= ALL;
                GIVEN | 1
            }
            _ => u8::from(returns),
        }
    }
}

impl DestagePolicy for Wow {
    fn needs_detector(&self) -> bool {
        self.most_count > 0
    }

    fn on_write(&mut self, write: PageWrite, _now: &Conditions<'_>) {
        let slot = write.slot.index();
        if write.created() {
            self.ring.insert(write.group);
            cover(&mut self.counter, slot, 0, self.most_groups);
            self.counter[slot] = self.of_new(write);
        } else if write.existed() && (write.page_hit() || !write.sequential()) {
            self.counter[slot] = ((self.counter[slot] & COUNT) + 1).min(self.most_count);
        }
    }

    fn pick(&mut self, directory: &Directory, _now: &Conditions<'_>) -> Option<Slot> {
        let looks = self.ring.laps(u64::from(self.most_count) + 1);
        let (group, slot) =
            self.ring.take(directory, looks, &mut self.counter, COUNT, Sparse::Never, |_| ())?;
        self.history.remember(group);
        if let Initial::Adaptive { share, .. } = &mut self.initial
            && self.counter[slot.index()] & GIVEN != 0
        {
            *share = share.saturating_sub(STEP);
        }
        Some(slot)
    }

    fn candidate(&self, directory: &Directory) -> Option<Slot> {
        self.ring.candidate(directory)
    }
}
