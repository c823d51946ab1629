//! A drive that answers commands and says when: the only thing that a measurement sees of it.

use std::ops::Range;

use destage_engine::units::Instant;
use thiserror::Error;

use crate::disk::Disk;
use crate::head::DiskOp;
use crate::spec::DiskSpec;

/// Why a measurement ended without a result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MeasureError {
    /// The drive, or what is between, failed.
    #[error("{0}")]
    Device(String),
    /// The times are not those of a drive with a rotating medium.
    #[error("{0}")]
    NotADisk(String),
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Writes with FUA: done when it is on the medium.
    DurableWrite,
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// First sector.
    pub lbn: u64,
    /// Sectors; at least 1.
    pub sectors: u32,
    /// What it does.
    pub kind: Kind,
}

/// When a command was submitted and when it was done, in ns of the probe's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Submitted.
    pub submitted_ns: u64,
    /// Done.
    pub done_ns: u64,
}

impl Timed {
    /// From submission to completion, in ns.
    pub fn service_ns(&self) -> f64 {
        self.done_ns.saturating_sub(self.submitted_ns) as f64
    }
}

/// A drive that answers timed commands.
pub trait Probe {
    /// Sectors that it offers.
    fn sectors(&self) -> u64;

    /// Bytes in a sector; the least that a command transfers.
    fn sector_bytes(&self) -> u32;

    /// Sectors that may be overwritten; empty: none.
    fn writable(&self) -> Range<u64>;

    /// Whether the drive takes writes with FUA.
    fn offers_durable(&self) -> bool;

    /// Submits a command `delay_ns` after the last one was done, and waits for it.
    ///
    /// # Errors
    /// The drive failed.
    fn serve(&mut self, delay_ns: u64, command: Command) -> Result<Timed, MeasureError>;

    /// Serves commands with `depth` outstanding; the time from the first submission to the last
    /// completion, in ns.
    ///
    /// # Errors
    /// The drive failed.
    fn serve_all(&mut self, depth: usize, commands: &[Command]) -> Result<u64, MeasureError>;

    /// Flushes the drive's write cache.
    ///
    /// # Errors
    /// The drive failed.
    fn flush(&mut self) -> Result<Timed, MeasureError>;
}

/// A modelled drive in virtual time.
#[derive(Clone, Debug)]
pub struct ModelProbe {
    disk: Disk,
    now: Instant,
    writable: Range<u64>,
}

impl ModelProbe {
    /// A drive of a valid spec, of which `writable` may be overwritten.
    pub fn new(spec: &DiskSpec, writable: Range<u64>) -> ModelProbe {
        ModelProbe { disk: Disk::new(spec), now: Instant::ZERO, writable }
    }

    fn submit(&mut self, command: Command) {
        let Command { lbn, sectors, kind } = command;
        let op = DiskOp { lbn, sectors, write: kind != Kind::Read, tag: 0 };
        match kind {
            Kind::DurableWrite => self.disk.submit_durable(self.now, op),
            _ => self.disk.submit(self.now, op),
        }
    }

    fn finish(&mut self) {
        if let Some(done) = self.disk.start(self.now) {
            self.now = done;
            self.disk.finish(done);
        }
    }
}

impl Probe for ModelProbe {
    fn sectors(&self) -> u64 {
        self.disk.sectors()
    }

    fn sector_bytes(&self) -> u32 {
        self.disk.sector_bytes()
    }

    fn writable(&self) -> Range<u64> {
        self.writable.clone()
    }

    fn offers_durable(&self) -> bool {
        true
    }

    fn serve(&mut self, delay_ns: u64, command: Command) -> Result<Timed, MeasureError> {
        self.now = Instant(self.now.0 + delay_ns);
        let submitted_ns = self.now.0;
        self.submit(command);
        self.finish();
        Ok(Timed { submitted_ns, done_ns: self.now.0 })
    }

    fn serve_all(&mut self, depth: usize, commands: &[Command]) -> Result<u64, MeasureError> {
        let begin = self.now.0;
        let (first, rest) = commands.split_at(depth.min(commands.len()));
        first.iter().for_each(|command| self.submit(*command));
        for command in rest {
            self.finish();
            self.submit(*command);
        }
        first.iter().for_each(|_| self.finish());
        Ok(self.now.0 - begin)
    }

    fn flush(&mut self) -> Result<Timed, MeasureError> {
        let submitted_ns = self.now.0;
        self.now = self.disk.flush(self.now);
        Ok(Timed { submitted_ns, done_ns: self.now.0 })
    }
}
