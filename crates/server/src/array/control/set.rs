//! `set`: another policy, rate, read cache or rebuild limit.

use super::command::{About, Argument, Command, Context, Kind};
use crate::array::backend::commands::Change;
use crate::array::readcache::ReadCacheChange;
use crate::array::refusal::Refusal;
use destage_engine::readcache::coherent::OnWrite;
use serde::{Deserialize, Serialize};

/// Changes settings until the server ends; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Set {
    /// Destage policy with parameters.
    pub policy: Option<String>,
    /// Rate with parameters.
    pub rate: Option<String>,
    /// Limits of rebuilds.
    pub rebuild: Option<String>,
    /// Read-cache policy, or `off`.
    pub read_cache: Option<String>,
    /// Bytes of the read cache.
    pub read_cache_size: Option<u64>,
    /// Failed-disk awareness of the read cache.
    pub vdf: Option<String>,
    /// What happens to a cached page when it is written.
    pub read_cache_writes: Option<String>,
}

/// The arguments of a read cache.
const READ_CACHE: [Argument; 4] = [
    Argument::option(
        "read-cache",
        Kind::Text("POLICY"),
        "Read-cache policy, see `destage policies`; or off",
    ),
    Argument::option(
        "read-cache-size",
        Kind::Bytes(None),
        "Read-cache size, e.g. 1G [default on first use: 128M]",
    ),
    Argument::option(
        "vdf",
        Kind::Text("FORM"),
        "Failed-disk awareness (VDF): off, paper, adaptive[:..], auto",
    ),
    Argument::option(
        "read-cache-writes",
        Kind::Choice(&ON_WRITE),
        "What happens to a cached page when it is written: `invalidate` (drop it), `update` \
               (refresh it on destage), `keep` (also cache newly destaged pages)",
    ),
];

const ON_WRITE: [&str; OnWrite::NAMES.len()] = {
    let mut names = [""; OnWrite::NAMES.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = OnWrite::NAMES[at].0;
        at += 1;
    }
    names
};

impl Set {
    /// The arguments of a read cache, which `create` and `serve` have too.
    pub const READ_CACHE: &[Argument] = &READ_CACHE;

    /// What is to change of the read cache.
    pub fn read_cache_change(&self) -> ReadCacheChange {
        ReadCacheChange {
            policy: self.read_cache.clone(),
            bytes: self.read_cache_size,
            vdf: self.vdf.clone(),
            writes: self.read_cache_writes.clone(),
        }
    }
}

impl Command for Set {
    const ABOUT: About = About {
        name: "set",
        help: "Change policy, rate, read cache or rebuild limits until the server stops",
        details: "A changed read cache starts empty. Rebuild limits: window=PAGES, depth=N, \
                  share=% (of the time), min=MB/S (that share and reads-under leave), \
                  reads-under=MS (of host reads), separated by commas; any limit you omit keeps \
                  its default (unlimited).\n\
                  Examples:\n  destage set tank --policy wow --rate linear:70/40\n  \
                  destage set tank --read-cache lru --read-cache-size 1G --vdf adaptive\n  \
                  destage set tank --rebuild share=50,min=20",
        arguments: &[
            Argument::option(
                "policy",
                Kind::Text("POLICY"),
                "Destage policy, see `destage policies`",
            ),
            Argument::option("rate", Kind::Text("RATE"), "Destage rate, see `destage policies`"),
            Argument::option(
                "rebuild",
                Kind::Text("LIMITS"),
                "Rebuild limits, e.g. share=50,min=20",
            ),
            READ_CACHE[0],
            READ_CACHE[1],
            READ_CACHE[2],
            READ_CACHE[3],
        ],
        changes: true,
        http: true,
        question: "Switch to policy {policy} and rate {rate} until the server stops?",
        done: "changed",
    };
    type Reply = ();

    fn check(&self) -> Result<(), Refusal> {
        if *self == Set::default() { Err(Refusal::NothingToSet) } else { Ok(()) }
    }

    fn run(self, context: &mut Context<'_>) -> Result<(), Refusal> {
        let read_cache = self.read_cache_change();
        let Set { policy, rate, rebuild, .. } = self;
        let change = Change { policy, rate, rebuild, read_cache };
        context.array.answer(move |array, _| array.change(change))?
    }
}
