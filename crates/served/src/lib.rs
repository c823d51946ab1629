//! The served array with its bytes, as a state machine: the engine decides, this crate keeps the
//! pages, writes the NVS log, computes parity and recovers. It has no I/O, clock or threads:
//! a driver carries out its [`Op`]s and says when they are done. The server and the crash tests
//! drive the same code (docs/durability.md).
#![forbid(unsafe_code)]

mod assemble;
mod clean;
mod crc;
mod defect;
mod destages;
mod faults;
mod inspect;
mod io;
mod log;
mod lost;
mod memory;
mod mirror;
mod open;
mod ops;
mod reads;
mod rebuild;
mod records;
mod request;
mod rows;
mod scrub;
mod settings;
mod slab;
mod status;
mod volume;
mod watch;
mod writes;

pub use assemble::{
    Allow, AssembleError, Assembly, Found, NoSuperblock, assemble, read_superblock,
};
pub use clean::ReadCacheStatus;
pub use defect::Defect;
pub use destage_block::Buffer;
pub use inspect::{Inspection, inspect};
pub use io::{Device, IoClass, IoError, Media, Op, OpId, OpKind};
pub use lost::Lost;
pub use mirror::{MirrorRefusal, MirrorStatus};
pub use open::{Creation, OpenError, create, dirty_pages_of, open, prepare_spare, ring_blocks_of};
pub use rebuild::{RebuildStatus, ReplaceRefusal, member_bytes};
pub use request::{Alarm, Answer, Cause, Command, Refusal, Reply, Ticket};
pub use scrub::{ScrubRange, ScrubRefusal, ScrubStatus, Wrong};
pub use settings::{Ack, Chunk, OnNvsLoss, PageMemory, Settings};
pub use slab::Slab;
pub use status::Status;
pub use volume::Volume;
pub use watch::{DeviceLoad, RECENT_DESTAGES};
pub use writes::part_pages;
