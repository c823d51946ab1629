//! A change of the set of devices that was cut short is used where the older set would lack too
//! many members (docs/durability.md, "Marks").

mod common;

use common::found::{Array, GONE, M, N, degraded, superblock, used, uuid};
use destage_engine::array::geometry::Level;
use destage_nvslog::LogId;
use destage_nvslog::superblock::{Chosen, NOT_JOINED, Superblock};
use destage_served::{Allow, AssembleError, Device};

/// What was built: members 1 and 3 have failed, and these of them are being rebuilt.
fn built(device: Device, rebuilt: &[u16]) -> Superblock {
    let mut said = superblock(device);
    said.geometry.level = Level::Raid6;
    [1, 3].iter().for_each(|member| said.mark(*member, true));
    for member in rebuilt {
        assert!(said.set_rebuild(*member, Some(uuid(M[usize::from(*member)]))));
    }
    said
}

/// A try on that: member 3 is in sync, and these others are left out.
fn tried(number: u64, device: Device, rebuilt: &[u16], without: &[u16]) -> Superblock {
    let mut said = built(device, rebuilt);
    (said.base_identity, said.generation, said.base) = (said.identity(), number, 9);
    said.mark(3, false);
    [1, 3].iter().for_each(|member| assert!(said.set_rebuild(*member, None)));
    without.iter().for_each(|member| said.mark(*member, true));
    if device == M[3] {
        said.joined = 10;
    }
    said
}

/// Member 1 was away when member 3 came back in sync with the number 10. A start without another
/// member wrote the second copies that the others lacked, and was interrupted when the first NVS
/// device alone had its own mark, which leaves out that member: the number 11.
fn interrupted_after(rebuilt: &[u16], without: u16) -> Array {
    let said = |superblock, older: Option<Superblock>| {
        let confirmed = older.is_none();
        Ok(Chosen { superblock, confirmed, damaged: [false; 2], older })
    };
    let mut array = Array::current();
    for device in [M[0], M[2], M[3], N[1]] {
        array.0.insert(device, said(tried(10, device, rebuilt, &[]), None));
    }
    let newest = tried(11, N[0], rebuilt, &[without]);
    array.0.insert(N[0], said(newest, Some(tried(10, N[0], rebuilt, &[]))));
    let away = Superblock { joined: NOT_JOINED, ..built(M[1], rebuilt) };
    array.0.insert(M[1], said(away, None));
    array
}

fn interrupted(without: u16) -> Array {
    interrupted_after(&[1, 3], without)
}

/// Members that are left out, NVS devices that are used, and the generation that counts and that on
/// which something was built.
type Started = (Vec<u16>, Vec<u16>, [u64; 2]);

/// A start with `--degraded`.
fn starts(array: &Array) -> Result<Started, AssembleError> {
    let assembly = array.assembled(&degraded())?;
    let (left_out, nvs) = used(&Ok(assembly.clone())).expect("an array");
    Ok((left_out, nvs, [assembly.superblock.generation, assembly.built_on()]))
}

#[test]
fn a_try_counts_where_what_was_built_lacks_too_many_members() {
    // What was built would lack members 1, 2 and 3.
    let array = interrupted(2).without(M[2]);
    assert_eq!(starts(&array), Ok((vec![1, 2], vec![0, 1], [11, 9])));
    // It is a start with `--degraded`, and only that.
    assert!(array.assembled(&Allow::default()).is_err());
    // With all of them what was built counts, and the rebuild continues.
    assert_eq!(starts(&interrupted(2)), Ok((vec![1, 3], vec![0, 1], [9, 9])));
    // Nothing counts that is older than what a device that cannot be written has.
    let allow = Allow { at_least: 10, ..degraded() };
    assert_eq!(array.assembled(&allow).err(), Some(AssembleError::TooManyMissing));
}

#[test]
fn of_several_tries_one_counts_that_has_enough_members() {
    // The newest leaves out member 2, which is back; now member 0 is away.
    let array = interrupted(2).without(M[0]);
    assert_eq!(starts(&array), Ok((vec![0, 1], vec![0, 1], [10, 9])));
    // So, too, if nobody has what was built.
    let array = array.without(M[1]);
    assert_eq!(starts(&array), Ok((vec![0, 1], vec![0, 1], [10, 9])));
    // And if the newest leaves out an NVS device besides.
    let mut fewer = array.clone();
    let first = fewer.said(N[0]);
    first.superblock.nvs[1] = None;
    assert_eq!(starts(&fewer), Ok((vec![0, 1], vec![0, 1], [10, 9])));
    // It may be in second copies alone.
    let rest = [M[2], M[3], N[1]];
    let array = interrupted(2).without(M[0]).without(M[1]);
    let mut array = array.with(&rest, false, |_| ());
    for device in rest {
        let own = array.said(device);
        own.older = Some(own.superblock);
        own.superblock = tried(11, device, &[1, 3], &[2]);
    }
    assert_eq!(starts(&array), Ok((vec![0, 1], vec![0, 1], [10, 9])));
}

#[test]
fn a_try_that_an_operator_forced_does_not_count() {
    // It begins another log: the loss of the old one was accepted.
    let mut array = interrupted(2).without(M[2]);
    let first = array.said(N[0]);
    first.superblock.log = LogId([3; 16]);
    assert_eq!(starts(&array), Ok((vec![1, 2], vec![1], [10, 9])));
    // It leaves out an NVS device, or both, which are away now: they may have what nobody else has.
    let mut array = interrupted(2).without(M[2]);
    let first = array.said(N[0]);
    first.superblock.nvs = [Some(uuid(N[0])), None];
    assert_eq!(starts(&array), Ok((vec![1, 2], vec![0], [11, 9])));
    for (device, own) in &mut array.0 {
        let Ok(own) = own else { continue };
        let copies = [Some(&mut own.superblock), own.older.as_mut()];
        for said in copies.into_iter().flatten().filter(|_| *device != M[1]) {
            said.nvs = [None; 2];
        }
    }
    let array = array.with(&[M[0]], false, |_| ()).without(N[0]).without(N[1]);
    assert_eq!(starts(&array), Err(AssembleError::NvsMissing(N[0], GONE)));
    // A member that was not being rebuilt is back in sync.
    let mut array = interrupted_after(&[1], 2).without(M[2]);
    assert_eq!(starts(&array), Err(AssembleError::TooManyMissing));
    // A repaired second copy has the number of what was built, and the rest of the try.
    let own = array.said(M[0]);
    own.confirmed = false;
    own.older = Some(Superblock { generation: 9, base: 9, ..own.superblock });
    assert_eq!(starts(&array), Err(AssembleError::TooManyMissing));
}

/// Devices of another half, which has the same number, are left alone.
#[test]
fn a_try_on_something_else_does_not_count() {
    let stale = AssembleError::Stale { device: M[0], has: 10, newest: 9 };
    for (identity, starts_with) in [(0, Ok((vec![1, 2], vec![0, 1], [10, 9]))), (2, Err(stale))] {
        let other = |said: &mut Superblock| said.base_identity ^= identity;
        let mut array = interrupted(2).without(M[2]).with(&[M[0], M[3], N[1]], true, other);
        let own = array.said(N[0]);
        own.superblock.mark(0, true);
        own.older = Some(built(N[0], &[1, 3]));
        assert_eq!(starts(&array), starts_with);
    }
}

/// A start that knew only the number of what was before wrote a second copy again.
#[test]
fn a_copy_that_has_only_the_number_of_what_was_built_is_no_try() {
    let rest = [M[2], M[3], N[1]];
    let mut array = interrupted(2).without(M[0]);
    for device in rest {
        let own = array.said(device);
        own.superblock = built(device, &[1, 3]);
    }
    let own = array.said(N[0]);
    own.older = Some(Superblock { generation: 9, base: 9, ..tried(9, N[0], &[1, 3], &[]) });
    assert_eq!(starts(&array), Err(AssembleError::TooManyMissing));
}

/// Another half gave the same number, and there no member was being rebuilt.
#[test]
fn what_another_half_says_of_rebuilds_does_not_count() {
    let mut array = interrupted(0);
    let own = array.said(M[0]);
    own.superblock = built(M[0], &[]);
    assert_eq!(starts(&array), Ok((vec![0, 1], vec![0, 1], [11, 9])));
}

/// A start with an accepted loss, which was to use a stale device, was interrupted: the loss is to
/// be accepted again. A new mirror has everything.
#[test]
fn a_stale_device_with_a_try_that_was_to_use_it_is_stale() {
    let mut array = Array::current().with(&M, true, |said| said.nvs[0] = None).without(N[1]);
    let tried = |device, second: Option<u64>, joined| {
        let mut said = superblock(device);
        said.nvs = [Some(uuid(N[0])), None];
        let mut older = said;
        (older.generation, older.base) = (second.unwrap_or(0), 6);
        (said.generation, said.base, said.joined) = (10, 9, joined);
        let older = second.map(|_| older);
        Ok(Chosen { superblock: said, confirmed: false, damaged: [false; 2], older })
    };
    let refused = Some(AssembleError::NvsMissing(N[1], GONE));
    for (second, refused) in [(Some(7), refused), (Some(1), refused), (None, None), (Some(0), None)]
    {
        array.0.insert(N[0], tried(N[0], second, 10));
        for allow in [Allow::default(), degraded()] {
            assert_eq!(array.assembled(&allow).err(), refused, "{second:?}");
        }
    }
    let mut array = Array::current();
    for (second, joined, stale) in [(7, 10, true), (9, 10, false), (7, 9, false)] {
        array.0.insert(M[2], tried(M[2], Some(second), joined));
        let refused = stale.then_some(AssembleError::Stale { device: M[2], has: 7, newest: 9 });
        assert_eq!(array.assembled(&Allow::default()).err(), refused, "{second:?}");
    }
}

/// The NVS was lost, member 3 failed as it got the second copy of that, and the change that leaves
/// it out is on member 0 alone. While that was away a start found the NVS again, continued from
/// before, and was cut short. The two tries have one number, and the one on the newer base is of
/// less.
#[test]
fn a_try_on_a_base_that_another_try_has_passed_over_does_not_count() {
    let before = superblock(M[0]);
    let lost = |said: &mut Superblock| {
        (said.base_identity, said.base, said.generation) = (before.identity(), 9, 10);
        said.nvs = [None; 2];
    };
    let without_nvs = |device| {
        let mut said = superblock(device);
        lost(&mut said);
        said
    };
    let all = [M[0], M[1], M[2], M[3]];
    let mut array = Array::current().with(&all, true, lost).with(&[M[3]], false, |_| {});
    array.said(M[3]).older = Some(superblock(M[3]));
    let on_it = |said: &mut Superblock| {
        (said.base_identity, said.base, said.generation) = (said.identity(), 10, 11);
        said.mark(3, true);
    };
    array = array.with(&[M[0]], false, on_it);
    array.said(M[0]).older = Some(without_nvs(M[0]));
    let passed_over = |said: &mut Superblock| {
        (said.base_identity, said.base, said.generation) = (before.identity(), 9, 11);
        said.nvs = before.nvs;
        said.mark(0, true);
    };
    array = array.with(&[M[1], N[0], N[1]], false, passed_over);
    array.said(M[1]).older = Some(without_nvs(M[1]));
    N.iter().for_each(|device| array.said(*device).older = Some(superblock(*device)));
    assert_eq!(used(&array.assembled(&degraded())), Some((vec![0], vec![0, 1])));
    let without = array.without(M[0]).assembled(&degraded());
    assert_eq!(used(&without), Some((vec![0], vec![0, 1])), "as it was decided then");
}
