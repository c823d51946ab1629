//! The served array with its bytes, as a state machine: the engine decides; this crate keeps the
//! pages, writes the NVS log, computes parity and recovers. It has no I/O, clock or threads: a
//! driver carries out its [`Op`]s and reports their results. The server and the crash tests drive
//! the same code (docs/durability.md).
//!
//! `volume/` coordinates parts that own their state and do not know each other: `engine`, `ops`,
//! `requests`, `log/`, `pages`, `read_cache`, `destages`, `devices`, `rebuilds` and `scrub`
//! (docs/served.md).
#![forbid(unsafe_code)]

mod assemble;
mod assemble_error;
mod at_risk;
mod crc;
mod defect;
mod destages;
mod devices;
mod disk_waits;
mod engine;
mod io;
mod load;
mod log;
mod lost;
mod ops;
mod pages;
mod partial;
mod read_cache;
mod reads;
mod rebuilds;
mod recent;
mod records;
mod relog;
mod request;
mod requests;
mod rows;
mod scrub;
mod settings;
mod slab;
mod store;
mod stripes;
mod superblock_repairs;
#[cfg(test)]
mod test_superblock;
mod volume;

pub use assemble::{Allow, Assembly, Found, assemble, read_superblock};
pub use assemble_error::{AssembleError, NoSuperblock};
pub use defect::Defect;
pub use destage_block::Buffer;
pub use io::{Device, IoClass, IoError, Media, Op, OpId, OpKind};
pub use load::DeviceLoad;
pub use log::{Inspection, LogError, MirrorRefusal, MirrorStatus, inspect};
pub use lost::Lost;
pub use read_cache::ReadCacheStatus;
pub use rebuilds::{RebuildStatus, ReplaceRefusal, member_bytes};
pub use recent::RECENT_DESTAGES;
pub use relog::{NewLog, RelogError, is_spent, relog};
pub use request::{Alarm, Answer, Cause, Command, Refusal, Reply, Ticket};
pub use requests::part_pages;
pub use scrub::{ScrubRange, ScrubRefusal, ScrubStatus, Wrong};
pub use settings::{Ack, Chunk, OnNvsLoss, PageMemory, Settings};
pub use slab::Slab;
pub use volume::{
    Creation, OpenError, Status, Volume, create, knows_lost_pages, open, prepare_spare,
};
