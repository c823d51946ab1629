//! Another NVS log for a served array, on a thread of the control socket: other sizes on the NVS
//! devices in use, or the first device of an array without NVS. The data thread drains the array
//! and then carries out the operations of this one (`backend/relog.rs`).

use super::Absent;
use super::backend::{ArrayHandle, Held};
use super::create::Uuids;
use super::device_watch::{DeviceWatch, Watched};
use super::refusal::Refusal;
use destage_block::Driver;
use destage_engine::units::Instant;
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::{NVS_MAX, Uuid};
use destage_served::{
    Allow, AssembleError, Assembly, Buffer, Defect, Device, Found, IoError, Media, NewLog,
    NoSuperblock, OpKind, RelogError, Settings, Volume, assemble, open, read_superblock, relog,
};
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How often a client hears how many pages are dirty.
const REPORT: Duration = Duration::from_millis(500);

/// The log that the array is to get.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) block_bytes: u32,
    pub(super) sizes: Sizes,
    /// The only device of the log, if no NVS device is in use: its place and its UUID.
    pub(super) first: Option<(u16, Uuid)>,
}

/// Drains the array, replaces its log and continues. `progress` gets the dirty pages that are left.
pub(super) fn replace_log(
    array: &ArrayHandle,
    wanted: Wanted,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<(), Refusal> {
    let log = Uuids::new()?.next()?;
    let (ready, held) = channel();
    array.answer(move |array, port| array.begin_relog(port.now(), ready))??;
    let held = drained(array, &held, progress)?;
    let mut offline = Offline { array: array.clone(), ended: false };
    let mut media = ArrayMedia::new(array, &held);
    let (defect, Wanted { block_bytes, sizes, first }) = (Defect::None, wanted);
    let Held { places, settings, rows_fit, .. } = *held;
    let new = NewLog { log, block_bytes, sizes, nvs: [None; NVS_MAX], rows_fit, defect };
    match relogged(&mut media, &places, new, first) {
        // Nothing was changed.
        Err(why @ Unchanged(_)) => {
            offline.end(|array, port| array.end_relog(port, Ok(())));
            Err(Refusal::NotRelogged(why.0))
        }
        Ok(result) => {
            let reopened = reopen(&mut media, &places, &settings);
            offline.serve(reopened, result.is_err());
            result.map_err(|why| Refusal::NotRelogged(why.to_string()))
        }
    }
}

/// Waits until the array is drained and nothing is in flight.
fn drained(
    array: &ArrayHandle,
    held: &Receiver<Result<Box<Held>, Refusal>>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Box<Held>, Refusal> {
    loop {
        match held.recv_timeout(REPORT) {
            Ok(held) => return held,
            Err(RecvTimeoutError::Disconnected) => return Err(Refusal::Ending),
            Err(RecvTimeoutError::Timeout) => {
                // It may hold what is not urgent by now, until this thread continues.
                progress(array.answer_now(|array, _| array.dirty_pages())?);
            }
        }
    }
}

/// Why the log is still the old one.
struct Unchanged(String);

/// Replaces the log. The inner error is of a try that has changed something.
fn relogged(
    media: &mut ArrayMedia<'_>,
    places: &[Device],
    mut new: NewLog,
    first: Option<(u16, Uuid)>,
) -> Result<Result<(), RelogError>, Unchanged> {
    let found = superblocks(media, places, &[]);
    let assembly = assemble(&found, &Allow::default());
    let assembly = assembly.map_err(|why| Unchanged(not_as_left(&why)))?;
    new.nvs = assembly.nvs_in_use();
    if let Some((place, device)) = first {
        new.nvs[usize::from(place)] = Some(device);
    }
    match relog(media, &assembly, &new) {
        Err(why @ RelogError::Io(..)) => Ok(Err(why)),
        Err(why) => Err(Unchanged(why.to_string())),
        Ok(()) => Ok(Ok(())),
    }
}

/// Why devices that were in use a moment ago make no array.
fn not_as_left(why: &AssembleError) -> String {
    match why.device() {
        Some(device) => format!("{device} cannot be used, or is not as the array left it"),
        None => "too few devices are left, or they are not as the array left them".to_string(),
    }
}

fn superblocks(
    media: &mut ArrayMedia<'_>,
    places: &[Device],
    unusable: &[(Device, NoSuperblock)],
) -> Vec<Found> {
    let known = |device| unusable.iter().find(|(other, _)| *other == device);
    let mut said = |device| match known(device) {
        Some((_, why)) => Err(*why),
        None => read_superblock(media, device),
    };
    places.iter().map(|device| (*device, said(*device))).collect()
}

/// An array that was opened again.
struct Reopened {
    volume: Volume,
    assembly: Assembly,
    /// Devices that cannot be used, and why.
    unusable: Vec<(Device, String)>,
}

/// Opens the array as a start does. A device that cannot be used is left out, where the array
/// tolerates that.
fn reopen(
    media: &mut ArrayMedia<'_>,
    places: &[Device],
    settings: &Settings,
) -> Result<Reopened, String> {
    let mut without = Vec::new();
    loop {
        let found = superblocks(media, places, &without);
        let assembly = assemble(&found, &Allow::degraded()).map_err(|why| not_as_left(&why))?;
        match open(media, &assembly, settings.clone()) {
            Ok(volume) => {
                let why = |(device, said): &Found| Some((*device, said.err()?.to_string()));
                let unusable = found.iter().filter_map(why).collect();
                return Ok(Reopened { volume, assembly, unusable });
            }
            Err(why) => match why.unusable().filter(|_| without.len() < places.len()) {
                Some(device) => without.push(device),
                None => return Err(why.to_string()),
            },
        }
    }
}

/// The data thread holds all requests until this ends.
struct Offline {
    array: ArrayHandle,
    ended: bool,
}

impl Offline {
    fn end(
        &mut self,
        work: impl FnOnce(&mut super::ArrayBackend, &mut crate::Port) + Send + 'static,
    ) {
        self.ended = true;
        let (sender, done) = channel();
        self.array.run_now(move |array, port| {
            work(array, port);
            let _ = sender.send(());
        });
        // What follows relies on it; without an answer the server has ended.
        let _ = done.recv();
    }

    /// Continues with an array that was opened again. `failed`: the log was not replaced.
    fn serve(&mut self, reopened: Result<Reopened, String>, failed: bool) {
        match reopened {
            Err(why) => self.end(move |array, port| array.halt(port, &why)),
            Ok(Reopened { mut volume, assembly, unusable }) => {
                let needs = destage_served::member_bytes(&assembly.superblock.geometry);
                for (member, device) in assembly.spares {
                    // The array took it before; a refusal is reported as before a start.
                    let _ = volume.replace(Instant::ZERO, member, device, needs);
                }
                let absent = Absent { devices: unusable, spares: Vec::new() };
                let news = failed || !assembly.newly_failed.is_empty();
                self.end(move |array, port| {
                    array.relogged(port, volume);
                    if news {
                        array.report_absent(absent);
                    }
                });
            }
        }
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        if !self.ended {
            self.end(|array, port| array.halt(port, "the thread that replaced the log has died"));
        }
    }
}

/// The devices of the array, through the data thread.
struct ArrayMedia<'a> {
    array: &'a ArrayHandle,
    watch: DeviceWatch,
    /// A device that does not answer for this long is not used again.
    limit: Duration,
    gone: BTreeSet<Device>,
}

impl ArrayMedia<'_> {
    fn new<'a>(array: &'a ArrayHandle, held: &Held) -> ArrayMedia<'a> {
        let limit = Duration::from_nanos(held.settings.stall_limit.0);
        ArrayMedia { array, watch: held.watch.clone(), limit, gone: BTreeSet::new() }
    }

    fn carry_out(&mut self, device: Device, kind: OpKind) -> Result<Option<Buffer>, IoError> {
        if self.gone.contains(&device) {
            return Err(IoError::GONE);
        }
        let (sender, result) = channel();
        self.array.run_now(move |array, port| array.offline_op(port, device, kind, sender));
        result.recv_timeout(self.limit).unwrap_or_else(|_| {
            self.gone.insert(device);
            Err(IoError::GONE)
        })
    }
}

impl Media for ArrayMedia<'_> {
    fn bytes(&mut self, device: Device) -> Result<u64, IoError> {
        let whose = match device {
            Device::Member(number) => Watched::Member(number),
            Device::Nvs(number) => Watched::Nvs(number),
        };
        // One that another server serves has the size that it had when it was connected.
        Ok(self.watch.bytes(&whose).unwrap_or(u64::MAX))
    }

    fn read(&mut self, device: Device, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        let read = self.carry_out(device, OpKind::Read { offset, bytes: into.len() })?;
        let read = read.ok_or(IoError::GONE)?;
        into.copy_from_slice(read.get(..into.len()).ok_or(IoError::SHORT)?);
        Ok(())
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        let buffer = Buffer::copy_of(bytes).into();
        self.carry_out(device, OpKind::Write { offset, buffer, durable: false }).map(|_| ())
    }

    fn flush(&mut self, device: Device) -> Result<(), IoError> {
        self.carry_out(device, OpKind::Flush).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::tests::with_array;

    /// The array may be drained just as the client is to hear how many pages are dirty.
    #[test]
    fn a_client_hears_of_dirty_pages_when_nothing_is_served_any_more() {
        with_array(|client| {
            let (ready, held) = channel();
            client.asks(move |array, port| array.begin_relog(port.now(), ready)).expect("begun");
            let held = held.recv().expect("an answer").expect("held");
            let (late, held_late) = channel();
            let (sender, said) = channel();
            let (array, mut held) = (client.array.clone(), Some(held));
            let waits = std::thread::spawn(move || {
                let mut progress = |pages| {
                    let _ = sender.send(pages);
                    held.take().is_some_and(|held| late.send(Ok(held)).is_ok())
                };
                drained(&array, &held_late, &mut progress).is_ok()
            });
            let pages = said.recv_timeout(Duration::from_secs(20));
            client.array.run_now(|array, port| array.end_relog(port, Ok(())));
            assert_eq!((pages, waits.join().expect("ended")), (Ok(0), true));
        });
    }
}
