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
    /// Leaves out the flushes of one of the members that a destage waits for.
    SkipsFlushesOfOneMember,
    /// Logs no parity checksums.
    SkipsParityLog,
    /// Writes zeros over the parity of clean rows between those that are destaged.
    LosesOtherParity,
    /// Uses space again before the anchors that free it are durable.
    ReusesSpaceEarly,
    /// Writes a slot again before the commit that frees it is durable.
    ReusesSlotsEarly,
    /// Writes a slot again when that commit is durable, but nothing durable says so.
    ReusesSlotsUnconfirmed,
    /// At a start, takes the slots of an unconfirmed commit for complete.
    TrustsSlots,
    /// At a start, takes any commit for complete whose header names its place.
    TrustsCommits,
    /// Logs the sectors of a page that is written in part one too high.
    MisplacesSectors,
    /// Does not record that a device has failed.
    ForgetsLostDevices,
    /// Scrubs rows that are being written.
    ScrubsCarelessly,
    /// Writes a checkpoint of a rebuild before the spare is flushed.
    ChecksBeforeFlush,
    /// Takes half of a spare for rebuilt when its rebuild begins.
    RebuildsFromTooFar,
    /// Caches what a read returns though the page was written in the meantime.
    CachesOvertakenReads,
    /// Keeps in the cache what a scrub has repaired on the disks.
    CachesWhatWasRepaired,
    /// Identifies NVS devices by their number, not by their UUID.
    IgnoresNvsSet,
    /// Takes an unreadable block for the end of the log.
    EndsLogAtErrors,
    /// Computes parity with zeros in place of what cannot be reconstructed.
    DestagesUncomputableRows,
    /// Does not compare the sizes of devices with their superblocks.
    IgnoresSizes,
    /// Does not check whether a device is older than the others.
    IgnoresMarks,
    /// Fails devices that have no space.
    FailsFullDevices,
    /// Does not repair a damaged copy of a superblock.
    KeepsDamagedSuperblocks,
    /// Names another log before it is written.
    NamesLogEarly,
    /// Writes another log over the one that the superblocks still name.
    OverwritesNamedLog,
    /// Replaces a log that is not empty.
    ReplacesFullLog,
}

#[cfg(not(feature = "defects"))]
impl core::fmt::Debug for Defect {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Defect")
    }
}

impl Defect {
    /// Whether it is this one. Always false without the feature `defects`, so that the compiler
    /// leaves out what would carry it out.
    #[must_use]
    pub(crate) const fn is(self, which: Defect) -> bool {
        cfg!(feature = "defects") && self as u8 == which as u8
    }

    /// All of them.
    pub const ALL: &[Defect] = &[
        Defect::AcknowledgesEarly,
        Defect::ReleasesBeforeFlush,
        Defect::SkipsFlushesOfOneMember,
        Defect::SkipsParityLog,
        Defect::LosesOtherParity,
        Defect::ReusesSpaceEarly,
        Defect::ReusesSlotsEarly,
        Defect::ReusesSlotsUnconfirmed,
        Defect::TrustsSlots,
        Defect::TrustsCommits,
        Defect::MisplacesSectors,
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
        Defect::NamesLogEarly,
        Defect::OverwritesNamedLog,
        Defect::ReplacesFullLog,
    ];
}
