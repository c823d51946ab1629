//! Deliberate faults for the tests that show that they are caught. They work only with the feature
//! `defects`, which tests alone turn on.

/// Deliberate faults, for the tests that show that they are caught.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defects", derive(Debug))]
pub enum Defect {
    /// None.
    #[default]
    None,
    /// Acknowledges before the commit is durable.
    AcknowledgesEarly,
    /// Releases before the disks are flushed.
    ReleasesBeforeFlush,
    /// Logs no parity checksums.
    SkipsParityLog,
    /// Uses space again before the anchors that free it are durable.
    ReusesSpaceEarly,
    /// Writes nothing down of a device that was given up.
    ForgetsLostDevices,
    /// Scrubs rows that are being written.
    ScrubsCarelessly,
    /// Writes a checkpoint of a rebuild before the spare is flushed.
    ChecksBeforeFlush,
    /// Takes half of a spare for whole when its rebuild begins.
    RebuildsFromTooFar,
    /// Caches what a read brings though the page was written meanwhile.
    CachesOvertakenReads,
    /// Keeps cached what a scrub has put right on the disks.
    CachesWhatWasRepaired,
    /// Uses NVS devices by their number, not by which they are.
    IgnoresNvsSet,
    /// Takes what cannot be read for the end of the log.
    EndsLogAtErrors,
    /// Computes parity with zeros in place of what cannot be told.
    DestagesUncomputableRows,
    /// Does not compare the sizes of devices with their superblocks.
    IgnoresSizes,
    /// Does not look whether a device is older than the others.
    IgnoresMarks,
    /// Gives up devices that have no space.
    FailsFullDevices,
    /// Leaves a damaged copy of a superblock as it is.
    KeepsDamagedSuperblocks,
}

#[cfg(not(feature = "defects"))]
impl core::fmt::Debug for Defect {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Defect")
    }
}

impl Defect {
    /// Whether it is this one. Without the feature `defects` it is none, whatever it is set to, and
    /// the compiler leaves out what would carry it out.
    #[must_use]
    pub(crate) const fn is(self, which: Defect) -> bool {
        cfg!(feature = "defects") && self as u8 == which as u8
    }

    /// All of them.
    pub const ALL: &[Defect] = &[
        Defect::AcknowledgesEarly,
        Defect::ReleasesBeforeFlush,
        Defect::SkipsParityLog,
        Defect::ReusesSpaceEarly,
        Defect::ForgetsLostDevices,
        Defect::ScrubsCarelessly,
        Defect::ChecksBeforeFlush,
        Defect::RebuildsFromTooFar,
        Defect::CachesOvertakenReads,
        Defect::CachesWhatWasRepaired,
        Defect::IgnoresNvsSet,
        Defect::EndsLogAtErrors,
        Defect::DestagesUncomputableRows,
        Defect::IgnoresSizes,
        Defect::IgnoresMarks,
        Defect::FailsFullDevices,
        Defect::KeepsDamagedSuperblocks,
    ];
}
