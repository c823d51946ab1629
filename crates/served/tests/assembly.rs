//! Which devices make an array, and which superblock counts, from what superblocks can say
//! (docs/durability.md, "Marks").

mod common;

use common::found::{ALL, Array, GONE, M, N, chosen, degraded, stale, superblock, used, uuid};
use destage_engine::array::geometry::Level;
use destage_nvslog::superblock::{Chosen, NOT_JOINED, Role, Superblock};
use destage_served::{Allow, AssembleError, Device, IoError, NoSuperblock};

/// Refused without permission; with it, these members are left out and these NVS devices used.
/// The refusal names the device.
#[test]
fn a_device_that_does_not_belong_is_named_and_left_out_only_if_that_is_allowed() {
    let is = |number: u16| move |said: &mut Superblock| said.role = Role::Member(number);
    let older = |said: &mut Superblock| (said.generation, said.base) = (7, 6);
    let gone = NoSuperblock::Io(IoError::GONE);
    let old = |device| AssembleError::Stale { device, has: 7, newest: 9 };
    let spare = |said: &mut Superblock| (said.role, said.generation) = (Role::Spare, 0);
    let other_array = |said: &mut Superblock| said.array = [99; 16];
    let disagrees = |said: &mut Superblock| said.lost_pages = true;
    let current = Array::current;
    let swapped = current().with(&[M[1]], true, is(2)).with(&[M[2]], true, is(1));
    let (all, both): (&[u16], &[u16]) = (&[], &[0, 1]);
    for (what, array, refusal, left_out) in [
        (
            "missing",
            current().without(M[1]),
            AssembleError::Degraded(M[1], gone),
            Some((&[1][..], both)),
        ),
        ("older", current().with(&[M[1]], true, older), old(M[1]), Some((&[1], both))),
        (
            "missing NVS",
            current().without(N[0]),
            AssembleError::Degraded(N[0], gone),
            Some((all, &[1])),
        ),
        ("older NVS", current().with(&[N[1]], true, older), old(N[1]), Some((all, &[0]))),
        (
            "disagrees",
            current().with(&[M[3]], true, disagrees),
            AssembleError::Disagrees(M[3]),
            Some((&[3], both)),
        ),
        (
            "NVS that disagrees",
            current().with(&[N[0]], true, disagrees),
            AssembleError::Disagrees(N[0]),
            Some((all, &[1])),
        ),
        (
            "new spare",
            current().with(&[M[1]], true, spare),
            AssembleError::WrongPlace(M[1], Role::Spare),
            Some((&[1], both)),
        ),
        ("swapped", swapped, AssembleError::WrongPlace(M[1], Role::Member(2)), None),
        (
            "other array",
            current().with(&[M[2]], true, other_array),
            AssembleError::OtherArray(M[2]),
            None,
        ),
    ] {
        let refused = array.assembled(&Allow::default()).err();
        assert_eq!(refused, Some(refusal), "{what}");
        let device = array.0.keys().copied().find(|device| refusal.device() == Some(*device));
        assert!(device.is_some(), "{what}: the refusal names no device");
        let allowed = array.assembled(&degraded());
        let left_out = left_out.map(|(failed, copies)| (failed.to_vec(), copies.to_vec()));
        assert_eq!(used(&allowed), left_out, "{what}: {:?}", allowed.err());
    }
    assert_eq!(used(&current().assembled(&Allow::default())), Some((vec![], vec![0, 1])));
    let two_of_a_pair = current().without(M[0]).without(M[1]).assembled(&degraded()).err();
    assert_eq!(two_of_a_pair, Some(AssembleError::TooManyMissing));
    assert_eq!(AssembleError::TooManyMissing.device(), None);
}

/// Whoever is out of date is used only if an operator names it.
#[test]
fn a_device_that_is_out_of_date_is_used_if_its_loss_is_accepted() {
    let missing = Array::current().without(N[0]).assembled(&stale(N[0])).err();
    let gone = NoSuperblock::Io(IoError::GONE);
    assert_eq!(missing, Some(AssembleError::NvsMissing(N[0], gone)), "it cannot be used");
    let older = |said: &mut Superblock| (said.generation, said.base) = (7, 6);
    let array = Array::current().with(&[M[1]], true, older);
    let assembly = array.assembled(&stale(M[1])).expect("an array");
    assert_eq!((assembly.failed, assembly.stale), (vec![], vec![M[1]]));
    let array = Array::current().with(&N, true, older);
    assert!(array.assembled(&degraded()).is_err());
    let assembly = array.assembled(&stale(N[1])).expect("an array");
    assert_eq!((assembly.copies, assembly.stale), (vec![1], vec![N[1]]));
    let disagrees = |said: &mut Superblock| said.lost_pages = true;
    let array = Array::current().with(&N[..1], true, disagrees);
    for named in [0, 1] {
        let assembly = array.assembled(&stale(N[named])).expect("the other one is left out");
        assert_eq!((assembly.copies, assembly.stale), (vec![named as u16], vec![N[named]]));
    }
    // A current one has another history, and is not used with it.
    let array = Array::current().with(&N[1..], true, older);
    let assembly = array.assembled(&stale(N[1])).expect("an array");
    assert_eq!((assembly.copies, assembly.stale), (vec![1], vec![N[1]]));
}

/// Member 1 is recorded as failed.
fn one_failed() -> Array {
    let rest = [M[0], M[2], M[3], N[0], N[1]];
    Array::current().with(&rest, true, |said| said.mark(1, true))
}

#[test]
fn a_spare_in_the_place_of_a_failed_member_is_taken_for_it() {
    let spare = |said: &mut Superblock| (said.role, said.generation) = (Role::Spare, 0);
    let assembly = one_failed().with(&[M[1]], true, spare).assembled(&Allow::default());
    let assembly = assembly.expect("an array");
    assert_eq!((assembly.failed, assembly.newly_failed), (vec![1], vec![]));
    assert_eq!((assembly.spares, assembly.rebuilds), (vec![(1, [11; 16])], vec![]));
    // The member itself stays away: it missed what was written since it failed.
    let older = |said: &mut Superblock| (said.generation, said.base) = (8, 7);
    let assembly = one_failed().with(&[M[1]], true, older).assembled(&Allow::default());
    let assembly = assembly.expect("an array");
    assert_eq!((assembly.failed, assembly.spares), (vec![1], vec![]));
    // A rebuild that the superblocks name continues.
    let rest = [M[0], M[2], M[3], N[0], N[1]];
    let named = one_failed().with(&rest, true, |said| {
        said.set_rebuild(1, Some([11; 16]));
    });
    let assembly = named.clone().with(&[M[1]], true, spare).assembled(&Allow::default());
    let assembly = assembly.expect("an array");
    assert_eq!((assembly.spares, assembly.rebuilds), (vec![], vec![1]));
    // Not onto a device that was absent in between, nor onto a failed member that nobody named,
    // though it knows of its failure.
    let absent = named.with(&[M[1]], true, |said| (said.generation, said.base) = (7, 6));
    let knows = one_failed().with(&[M[1]], true, |said| said.mark(1, true));
    for array in [absent, knows] {
        let assembly = array.assembled(&Allow::default()).expect("an array");
        assert_eq!((assembly.failed, assembly.rebuilds), (vec![1], vec![]));
    }
}

/// The change that a crash interrupted is on some devices, in first copies alone: nothing was built
/// on it, and the generation before counts if any device in use still has that alone.
#[test]
fn a_change_that_not_all_devices_have_does_not_count() {
    let fails = |said: &mut Superblock| {
        (said.generation, said.base) = (10, 9);
        said.mark(2, true);
    };
    let counts = |devices: &[Device], confirmed: &[Device]| {
        let array = Array::current().with(devices, false, fails).with(confirmed, true, |_| ());
        let assembly = array.assembled(&Allow::default()).expect("an array");
        let Superblock { generation, .. } = assembly.superblock;
        assert_eq!(assembly.copies, [0, 1]);
        (generation, assembly.failed)
    };
    let before = (9, vec![]);
    assert_eq!(counts(&N[..1], &[]), before);
    assert_eq!(counts(&N, &[]), before);
    assert_eq!(counts(&[N[0], N[1], M[0]], &[]), before);
    // The member that fails is in use by the generation before, and has only that.
    let all = [N[0], N[1], M[0], M[1], M[3]];
    assert_eq!(counts(&all, &[]), before);
    assert_eq!(counts(&all, &all[..1]), before, "not all have it in both copies");
    assert_eq!(counts(&all, &all), (10, vec![2]));
}

/// Two starts were interrupted: the first named both NVS devices, the second, while one was away,
/// only the other. Nothing was built on either, so the one that was away has everything.
#[test]
fn of_two_changes_that_were_interrupted_the_devices_of_either_are_as_good() {
    let first = |said: &mut Superblock| (said.generation, said.base) = (10, 9);
    let second = |said: &mut Superblock| {
        (said.generation, said.base) = (11, 9);
        said.nvs[1] = None;
    };
    let rest = [N[0], M[0], M[1], M[2], M[3]];
    let array = Array::current().with(&[N[1]], false, first).with(&rest, false, second);
    let assembly = array.assembled(&Allow::default()).expect("an array");
    assert_eq!((assembly.superblock.generation, &assembly.copies[..]), (11, &[0][..]));
    let assembly = array.without(N[0]).assembled(&Allow::default()).expect("an array");
    assert_eq!((assembly.superblock.generation, &assembly.copies[..]), (11, &[1][..]));
    // One that the change in question was about to leave out, and that did not name itself, has
    // not everything.
    let third = |said: &mut Superblock| {
        (said.generation, said.base) = (10, 9);
        said.nvs[1] = None;
    };
    let array = Array::current().with(&[N[1]], false, third).with(&rest, false, second);
    assert!(array.without(N[0]).assembled(&Allow::default()).is_err());
}

/// The first also recorded a failure. An NVS device that has it in its first copy alone was not
/// used with it, so nothing was written without that member.
#[test]
fn a_device_with_a_try_in_its_first_copy_alone_was_not_used_apart() {
    let second = |said: &mut Superblock| {
        (said.generation, said.base) = (11, 9);
        said.nvs[1] = None;
    };
    let rest = [N[0], M[0], M[1], M[2], M[3]];
    let array = Array::current().with(&[N[1]], false, one_fails).with(&rest, false, second);
    assert_eq!(used(&array.assembled(&Allow::default())), Some((vec![], vec![0])));
    let array = array.with(&[N[1]], true, |_| ());
    let refused = array.assembled(&Allow::default()).err();
    assert_eq!(refused, Some(AssembleError::Disagrees(N[1])), "it was used with it");
}

/// The try that a member has failed.
fn one_fails(said: &mut Superblock) {
    (said.generation, said.base) = (10, 9);
    said.mark(1, true);
}

/// A generation that was made without the first NVS device.
fn without_first_nvs(generation: u64) -> impl Fn(&mut Superblock) + Copy {
    move |said| {
        (said.generation, said.base) = (generation, generation - 1);
        said.nvs[0] = None;
    }
}

/// An NVS device got a try to record a failure, and its second copy was damaged; it was away when
/// the others gave the same number again. Now it is back, and the next change was interrupted.
#[test]
fn of_equal_numbers_the_one_counts_that_others_have_in_both_copies() {
    let array = Array::current().with(&[M[2], M[3]], true, without_first_nvs(10));
    let array = array.with(&[N[1], M[0], M[1]], false, without_first_nvs(11));
    let mut array = array.with(&[N[0]], true, one_fails);
    array.damage(N[0]);
    let refused = array.assembled(&Allow::default()).err();
    assert_eq!(refused, Some(AssembleError::Disagrees(N[0])));
    for allow in [degraded(), stale(N[1])] {
        assert_eq!(used(&array.assembled(&allow)), Some((vec![], vec![1])));
    }
}

/// A new NVS device alone got the try that names it, and was away when the others gave that number
/// again. It is back, and its second copy is damaged: it does not have what was acknowledged since.
#[test]
fn a_new_nvs_device_that_may_have_come_alone_is_not_used() {
    let alone = |said: &mut Superblock| {
        (said.generation, said.base, said.joined) = (10, 9, 10);
    };
    let next = |said: &mut Superblock| {
        (said.generation, said.base) = (11, 10);
        said.nvs[1] = None;
    };
    let rest = [N[0], M[0], M[1], M[2], M[3]];
    let array = Array::current().with(&rest, true, next).with(&[M[3]], false, |_| ());
    let mut array = array.with(&[N[1]], true, alone);
    array.damage(N[1]);
    for allow in [Allow::default(), degraded()] {
        let assembly = array.assembled(&allow).expect("an array");
        assert_eq!((assembly.superblock.generation, &assembly.copies[..]), (11, &[0][..]));
        assert!(array.clone().without(N[0]).assembled(&allow).is_err());
    }
    // One that came with the change before had been there: what it has does count, though all who
    // have it have a damaged copy.
    for (joined, counts) in [(9, 10), (10, 9)] {
        let having = [M[0], M[1], M[2], N[1]];
        let mut array = Array::current().without(N[0]).with(&having, true, |said| {
            (said.generation, said.base, said.joined) = (10, 9, joined);
        });
        having.into_iter().for_each(|device| array.damage(device));
        let assembly = array.assembled(&degraded()).expect("an array");
        assert_eq!(assembly.superblock.generation, counts);
    }
}

/// The only NVS device failed, or both; the change to none was interrupted, and then its second
/// copy was damaged. It may have what nobody else has: nothing starts without it.
#[test]
fn an_nvs_device_that_may_have_been_in_use_is_not_forgotten() {
    let before = |said: &mut Superblock| {
        (said.generation, said.base) = (10, 9);
        said.nvs = [Some([20; 16]), None];
    };
    let none = |said: &mut Superblock| {
        (said.generation, said.base) = (11, 10);
        said.nvs = [None, None];
    };
    for joined in [0, 10] {
        let array = Array::current().with(&M, false, none).with(&N[..1], true, before);
        let array = array.with(&N[..1], true, |said| said.joined = joined);
        let mut array = array.without(N[1]);
        array.damage(N[0]);
        for allow in [Allow::default(), degraded()] {
            let refused = array.assembled(&allow).err();
            assert_eq!(refused, Some(AssembleError::Stale { device: N[0], has: 10, newest: 11 }));
        }
        let without = Allow { without_nvs: true, ..Allow::default() };
        assert_eq!(used(&array.assembled(&without)), Some((vec![], vec![])));
    }
}

/// The start without a device that has a try alone was itself interrupted, anywhere in its marks.
#[test]
fn a_try_that_one_device_has_does_not_refuse_the_others() {
    let (first, next) = ([N[1], M[0], M[1], M[2]], without_first_nvs(10));
    let mut array = Array::current().with(&N[..1], true, one_fails).with(&first, false, next);
    array.damage(N[0]);
    let assembly = array.assembled(&Allow::default()).expect("an array");
    assert_eq!((assembly.superblock.generation, &assembly.failed[..]), (9, &[][..]));
    assert_eq!(assembly.copies, [0, 1]);
    let array = array.with(&first, true, |_| ()).with(&[M[3]], false, next);
    let refused = array.assembled(&Allow::default()).err();
    assert_eq!(refused, Some(AssembleError::Disagrees(N[0])));
    assert_eq!(used(&array.assembled(&degraded())), Some((vec![], vec![1])));
}

/// That the array has no NVS is recorded on all devices: one that failed is not missed, though a
/// copy of its superblock is damaged.
#[test]
fn an_nvs_device_that_failed_before_is_not_needed() {
    let mut array = Array::current().with(&ALL, true, |said| said.nvs = [None; 2]);
    array.damage(N[0]);
    assert_eq!(used(&array.assembled(&Allow::default())), Some((vec![], vec![])));
}

/// A new NVS device has a try, and was not in use before it. Without the other one, whose log it
/// does not have, there is none.
#[test]
fn an_nvs_device_that_was_not_in_use_does_not_stand_in_for_another() {
    let array = Array::current().with(&ALL, true, |said| said.nvs[1] = None);
    let array = array.with(&[N[1]], false, |said| (said.generation, said.base) = (10, 9));
    assert_eq!(used(&array.assembled(&Allow::default())), Some((vec![], vec![0])));
    assert_eq!(used(&array.without(N[0]).assembled(&degraded())), None);
}

/// The only NVS device had a try, its second copy was torn in that mark, and a later try leaves it
/// out. Both tries are on what it was in use with.
#[test]
fn an_nvs_device_with_a_torn_copy_of_a_try_is_used_as_before() {
    let only = |said: &mut Superblock| {
        (said.generation, said.base) = (12, 11);
        said.nvs[1] = None;
    };
    let none = |said: &mut Superblock| {
        (said.generation, said.base) = (13, 11);
        said.nvs = [None, None];
    };
    let with_only = [N[0], M[1], M[2], M[3]];
    let array = Array::current().with(&with_only, true, only).with(&M[..1], false, none);
    let mut array = array.without(N[1]);
    array.damage(N[0]);
    assert_eq!(used(&array.assembled(&Allow::default())), Some((vec![], vec![0])));
}

/// A rebuilt member gets its superblock after all others: it has not come alone.
#[test]
fn a_rebuilt_member_with_a_damaged_copy_is_used() {
    let rebuilt = |said: &mut Superblock| {
        (said.generation, said.base, said.joined) = (10, 9, 10);
    };
    let next = |said: &mut Superblock| {
        (said.generation, said.base) = (11, 10);
        said.mark(3, true);
    };
    let rest = [N[0], N[1], M[0], M[1]];
    let mut array = Array::current().with(&[M[2]], true, rebuilt).with(&rest, false, next);
    array.damage(M[2]);
    let array = array.without(M[3]);
    assert_eq!(used(&array.assembled(&degraded())), Some((vec![3], vec![0, 1])));
}

/// NVS devices have their second copies before members. One that lacks it is an older copy, made in
/// an interrupted start that had the number first.
#[test]
fn an_nvs_device_without_the_second_copy_that_all_members_have_is_out_of_date() {
    let mut array = Array::current();
    let said = array.said(N[0]);
    let older = Superblock { generation: 8, base: 7, ..said.superblock };
    (said.confirmed, said.older) = (false, Some(older));
    let refused = array.assembled(&Allow::default()).err();
    assert_eq!(refused, Some(AssembleError::Stale { device: N[0], has: 8, newest: 9 }));
    assert_eq!(used(&array.assembled(&degraded())), Some((vec![], vec![1])));
    // If a member lacks it, too, a crash interrupted the second copies.
    let array = array.with(&[M[2]], false, |_| ());
    assert_eq!(used(&array.assembled(&Allow::default())), Some((vec![], vec![0, 1])));
}

/// One half of each pair was used without the other, and then the other half without the first.
#[test]
fn devices_that_were_used_apart_are_refused() {
    let without = |generation: u64, members: [u16; 2]| {
        move |said: &mut Superblock| {
            (said.generation, said.base) = (generation, generation - 1);
            members.iter().for_each(|member| said.mark(*member, true));
            said.nvs = [Some([20; 16]), None];
        }
    };
    let (some, others) = ([M[0], M[2]], [M[1], M[3], N[0]]);
    let apart = Array::current().with(&some, true, without(12, [1, 3]));
    let apart = apart.with(&others, true, without(14, [0, 2])).without(N[1]);
    let refused = apart.assembled(&Allow::default()).err();
    assert_eq!(refused, Some(AssembleError::Disagrees(M[0])));
    assert_eq!(used(&apart.assembled(&degraded())), Some((vec![0, 2], vec![0])));
    let tried = apart.clone().with_a_try(&some).assembled(&Allow::default()).err();
    assert_eq!(tried, Some(AssembleError::Disagrees(M[0])), "a try takes nothing back");
    // What a start repaired that knew no more than the number says nothing of devices.
    let mut number = apart.clone().with_a_try(&some);
    for device in some {
        let said = number.said(device);
        let older = said.older.as_mut().expect("of the try");
        older.base = older.generation;
    }
    assert_eq!(used(&number.assembled(&Allow::default())), Some((vec![0, 2], vec![0])));
    // That is not so if the others came into use only later.
    let later = apart.clone().with(&others, true, |said| said.joined = 13);
    assert_eq!(used(&later.assembled(&Allow::default())), Some((vec![0, 2], vec![0])));
    // Nor if the one that is not used was never in use.
    let never = apart.with(&some, true, |said| said.joined = NOT_JOINED);
    assert_eq!(used(&never.assembled(&Allow::default())), Some((vec![0, 2], vec![0])));
}

/// Of two devices one is not many: damage in the second copy of the one that is newer does not make
/// the older one count.
#[test]
fn a_damaged_copy_of_one_device_of_two_brings_no_older_one_back() {
    let (one, log) = (Device::Member(0), Device::Nvs(0));
    let mut array = Array::current();
    array.0.retain(|device, _| [one, log].contains(device));
    let mut array = array.with(&[one, log], true, |said| {
        (said.geometry.level, said.geometry.disks) = (Level::Raid0, 1);
        said.nvs[1] = None;
    });
    assert_eq!(used(&array.assembled(&Allow::default())), Some((vec![], vec![0])));
    array = array.with(&[log], true, |said| (said.generation, said.base) = (10, 9));
    array.damage(log);
    let refused = array.assembled(&Allow::default()).err();
    assert_eq!(refused, Some(AssembleError::Stale { device: one, has: 9, newest: 10 }));
}

/// A try that one device has alone: damage in its second copy does not make it count, however many
/// the others are.
#[test]
fn a_try_that_many_do_not_have_does_not_count_for_its_damaged_copy() {
    let mut array = Array::current().with(&[M[0]], true, |said| {
        (said.generation, said.base) = (10, 9);
    });
    array.damage(M[0]);
    let assembly = array.assembled(&degraded()).expect("an array");
    assert_eq!(assembly.superblock.generation, 9);
}

/// Two halves served apart and gave the same numbers. A device of one, of which a crash left the
/// next try, is not used with members of the other.
#[test]
fn a_try_on_the_base_of_another_half_is_not_used() {
    let common = superblock(Device::Member(0)).identity();
    let half = |failed: [u16; 2], nvs: usize| {
        move |said: &mut Superblock| {
            (said.base, said.base_identity) = (9, common);
            said.generation = 10;
            said.nvs[1 - nvs] = None;
            failed.iter().for_each(|member| said.mark(*member, true));
        }
    };
    let [mut one, two] = [(); 2].map(|()| Array::current());
    one = one.with(&[M[1], M[3], N[0]], true, half([0, 2], 0));
    let base = one.0[&N[0]].expect("readable").superblock.identity();
    one = one.with_a_try(&[N[0]]).with(&[N[0]], false, |said| said.base_identity = base);
    let two = two.with(&[M[0], M[2], N[1]], true, half([1, 3], 1));
    let taken = |from: &Array, device: Device| (device, from.0[&device]);
    let mixed = [taken(&two, M[0]), taken(&two, M[2]), taken(&one, N[0])];
    let mixed = mixed.into_iter().chain([M[1], M[3], N[1]].map(|device| (device, Err(GONE))));
    let mixed = Array(mixed.collect());
    for allow in [Allow::default(), degraded()] {
        assert_eq!(used(&mixed.assembled(&allow)), None);
    }
    // With the members of its own half it is used, and the others alone are.
    let whole = [M[1], M[3], N[0]].map(|device| taken(&one, device));
    let whole = whole.into_iter().chain([M[0], M[2], N[1]].map(|device| (device, Err(GONE))));
    let own = Array(whole.collect()).assembled(&degraded());
    assert_eq!(used(&own), Some((vec![0, 2], vec![0])));
    let mut other = mixed;
    other.0.extend([taken(&two, N[1])]);
    assert_eq!(used(&other.assembled(&degraded())), Some((vec![1, 3], vec![1])));
}

/// A new mirror that a crash left alone in use, with members that served without it since: what
/// the other NVS device has is newer. Both are not used together.
#[test]
fn a_new_mirror_is_not_used_with_members_that_served_without_it() {
    let two = superblock(Device::Member(0));
    let without = |said: &mut Superblock| {
        (said.base, said.base_identity, said.generation) = (9, two.identity(), 10);
        said.nvs = [Some(uuid(N[0])), None];
    };
    let others = [M[0], M[1], M[2], M[3], N[0]];
    let mut array = Array::current().with(&others, true, without);
    let three = array.0[&M[0]].expect("readable").superblock.identity();
    array = array.with_a_try(&others).with(&others, false, |said| said.base_identity = three);
    array = array.with(&[N[1]], false, |said| {
        (said.base, said.base_identity, said.generation) = (9, two.identity(), 12);
        (said.joined, said.nvs) = (10, [None, Some(uuid(N[1]))]);
        [0, 2].into_iter().for_each(|member| said.mark(member, true));
    });
    assert_eq!(used(&array.assembled(&degraded())), None);
    let alone = array.without(N[1]).assembled(&degraded());
    assert_eq!(used(&alone), Some((vec![], vec![0])));
}

/// The array has lost its NVS, and a device of another half is here that gave the same number: it
/// has nothing of this half, and is not missed.
#[test]
fn an_nvs_device_of_another_half_is_not_missed() {
    let only = |said: &mut Superblock| {
        (said.generation, said.base) = (10, 9);
        said.nvs = [Some([20; 16]), None];
    };
    let array = Array::current().with(&ALL, true, only);
    let ours = array.0[&M[0]].expect("readable").superblock.identity();
    let array = array.with(&N[..1], true, |said| said.doubted_rows = true);
    let array = array.with(&M, false, |said| {
        (said.generation, said.base, said.base_identity) = (11, 10, ours);
        said.nvs = [None; 2];
    });
    let mut array = array.without(N[1]);
    assert_eq!(used(&array.assembled(&Allow::default())), Some((vec![], vec![])));
    // What a device with a damaged copy had is not known.
    array.damage(N[0]);
    let refused = array.assembled(&Allow::default()).err();
    assert_eq!(refused, Some(AssembleError::Stale { device: N[0], has: 10, newest: 11 }));
}

/// A try that one device has was made on another generation than what all others have. These count
/// only if it may be left out.
#[test]
fn what_most_devices_have_counts_without_a_newer_one_only_if_that_is_allowed() {
    let rest = [M[1], M[2], M[3], N[0], N[1]];
    let array = Array::current().with(&rest, true, |said| {
        (said.generation, said.base) = (10, 9);
        said.mark(0, true);
    });
    let array = array.with(&M[..1], false, |said| {
        (said.generation, said.base, said.base_identity) = (11, 10, 77);
    });
    let refused = array.assembled(&Allow::default()).err();
    assert_eq!(refused, Some(AssembleError::Stale { device: M[1], has: 10, newest: 11 }));
    let assembly = array.assembled(&degraded()).expect("an array");
    assert_eq!((assembly.superblock.generation, &assembly.failed[..]), (10, &[0][..]));
    assert_eq!((&assembly.newly_failed[..], &assembly.copies[..]), (&[][..], &[0, 1][..]));
}

/// A member has a try in its second copy, and the next one. Devices that the try names never had
/// it, so nothing was built on it, though it leaves one out that is here.
#[test]
fn a_try_that_devices_which_it_names_lack_was_not_built_on() {
    let array = Array::current().with(&M[1..2], false, |said| {
        (said.generation, said.base) = (12, 9);
    });
    let array = array.with(&M[..1], true, one_fails).with_a_try(&M[..1]);
    let assembly = array.assembled(&Allow::default()).expect("an array");
    assert_eq!((assembly.superblock.generation, &assembly.failed[..]), (9, &[][..]));
}

/// What members 0 and 2 and the first NVS device say, if only they were there since generation 9.
fn half(said: &mut Superblock) {
    (said.generation, said.base, said.nvs) = (10, 9, [Some([20; 16]), None]);
    [1, 3].into_iter().for_each(|member| said.mark(member, true));
}

/// Another try on the same base, which names all devices.
fn next(said: &mut Superblock) {
    (said.generation, said.base) = (12, 9);
}

/// Member 0 has that in both copies, and the others have another try. The first NVS device came
/// into use with this generation. Member 2 is away.
fn half_and_others(joined: u64) -> Array {
    let array = Array::current().with(&M[..1], true, half);
    let array = array.with(&[M[1], M[3], N[0], N[1]], false, next);
    array.with(&N[..1], false, |said| said.joined = joined).without(M[2])
}

/// The members that a start leaves out, with all NVS devices.
fn left_out(array: &Array) -> Vec<u16> {
    let assembly = array.assembled(&degraded()).expect("an array");
    assert_eq!((assembly.superblock.generation, &assembly.copies[..]), (12, &[0, 1][..]));
    assembly.failed
}

/// The others were left out of what the member has in both copies. The NVS device that both name
/// shows that nothing was built on that, if it was in use before: then it would have it, too.
#[test]
fn a_member_that_may_have_served_apart_is_used_if_a_device_shows_that_it_did_not() {
    for (joined, members) in [(0, vec![2]), (9, vec![2]), (10, vec![0, 2]), (12, vec![0, 2])] {
        assert_eq!(left_out(&half_and_others(joined)), members, "joined with {joined}");
    }
    let apart = half_and_others(12);
    let refused = apart.assembled(&Allow::default()).err();
    assert_eq!(refused, Some(AssembleError::Stale { device: M[0], has: 10, newest: 12 }));
    // A device that has another try of that number says nothing of it.
    let other = apart.clone().with(&M[1..2], false, |said| {
        (said.generation, said.lost_pages) = (10, true);
    });
    assert_eq!(left_out(&other), [0, 2]);
    // Nor does a damaged copy, which may have been an older one.
    let mut damaged = apart;
    damaged.damage(M[0]);
    assert_eq!(left_out(&damaged), [2]);
}

/// The other member of the half is here again.
#[test]
fn a_member_did_not_serve_apart_if_one_that_it_names_has_less_or_continued_from_before() {
    let with_member_2 = |said: Chosen| {
        let mut array = half_and_others(12);
        array.0.insert(M[2], Ok(said));
        array
    };
    let mut served = chosen(M[2]);
    half(&mut served.superblock);
    assert_eq!(left_out(&with_member_2(served)), [0, 2], "it has the same in both copies");
    let begun = Chosen { confirmed: false, ..served };
    assert_eq!(left_out(&with_member_2(begun)), [], "it has it in the first copy alone");
    let mut tried = Chosen { confirmed: false, ..chosen(M[2]) };
    next(&mut tried.superblock);
    assert_eq!(left_out(&with_member_2(tried)), [], "it never had it");
    let continued = Chosen { older: Some(served.superblock), ..tried };
    assert_eq!(left_out(&with_member_2(continued)), [], "it continued from before it");
    // One that came later may have the place of the one that is named.
    let mut later = continued;
    later.superblock.joined = 12;
    assert_eq!(left_out(&with_member_2(later)), [0]);
}

/// What counts is a try. A device has another one that was not made on the same base, by its number
/// or by what it says that this was.
#[test]
fn a_try_on_another_base_is_out_of_date() {
    let rest = [M[1], M[2], M[3], N[0], N[1]];
    let old = AssembleError::Stale { device: M[0], has: 10, newest: 12 };
    let with_base = |base: u64| {
        let array = Array::current().with(&rest, false, next);
        array.with(&M[..1], true, |said| (said.generation, said.base) = (10, base))
    };
    assert_eq!(with_base(8).assembled(&Allow::default()).err(), Some(old));
    assert_eq!(used(&with_base(9).assembled(&Allow::default())), Some((vec![], vec![0, 1])));
    // The second copy has no more than the number.
    let with_identity = |identity: u32| {
        let mut array = Array::current().with(&rest, false, |said| {
            next(said);
            said.base_identity = 5;
        });
        let mut own = Chosen { confirmed: false, ..chosen(M[0]) };
        own.older = Some(Superblock { base: 9, ..own.superblock });
        let said = &mut own.superblock;
        (said.generation, said.base, said.base_identity) = (10, 9, identity);
        array.0.insert(M[0], Ok(own));
        array.assembled(&Allow::default())
    };
    assert_eq!(with_identity(77).err(), Some(old));
    assert_eq!(used(&with_identity(5)), Some((vec![], vec![0, 1])));
}

/// Two members, each of another pair, have tries of one number, and nobody has anything else. One
/// was to become a member, and says of itself that it has failed.
#[test]
fn of_two_tries_that_of_a_device_which_is_being_rebuilt_does_not_count() {
    let array = Array::current().with(&ALL, true, |said| said.nvs = [None; 2]);
    let array = array.with(&M[1..2], false, |said| {
        (said.generation, said.base) = (10, 9);
        said.mark(0, true);
    });
    let mut array = array.with(&M[3..], false, |said| {
        (said.generation, said.base) = (10, 9);
        said.mark(3, true);
        assert!(said.set_rebuild(3, Some([13; 16])));
    });
    array.0.retain(|device, _| matches!(device, Device::Member(_)));
    let assembly = array.without(M[0]).without(M[2]).assembled(&degraded()).expect("an array");
    assert_eq!((&assembly.failed[..], &assembly.newly_failed[..]), (&[0, 2][..], &[2][..]));
}

/// A device that could not be written had what counts: what is left must have it too.
/// A crash as the last second copy was to be written: the next start writes none on that device.
#[test]
fn a_device_that_is_being_rebuilt_may_lack_the_second_copy_of_what_was_built() {
    let rebuilt = |said: &mut Superblock| {
        said.mark(3, true);
        assert!(said.set_rebuild(3, Some(uuid(M[3]))));
    };
    let array = Array::current().with(&ALL, true, rebuilt).with(&[M[3]], false, |_| {});
    for array in [array.clone(), array.clone().without(N[0]), array.clone().without(M[3])] {
        assert_eq!(array.assembled(&degraded()).map(|assembly| assembly.built_on()), Ok(9));
    }
    // If another one lacks it, too, nothing was built.
    let cut = array.with(&[M[2]], false, |_| {});
    assert_eq!(cut.assembled(&degraded()).map(|assembly| assembly.built_on()), Ok(8));
    let cut = cut.with(&[M[3]], true, |_| {});
    assert_eq!(cut.assembled(&degraded()).map(|assembly| assembly.built_on()), Ok(8));
}

/// A member fails as it gets its second copy. The next change leaves it out, and is cut short.
#[test]
fn what_a_later_try_was_made_on_was_built() {
    let on_it = |said: &mut Superblock| {
        (said.base_identity, said.base, said.generation) = (said.identity(), 9, 10);
        said.mark(3, true);
    };
    let mut array = Array::current().with(&N, true, on_it).with(&[M[3]], false, |_| {});
    for device in [M[0], M[1]] {
        array = array.with(&[device], false, on_it);
        array.said(device).older = Some(superblock(device));
    }
    for away in [1, 2] {
        let assembled = array.clone().without(Device::Member(away)).assembled(&degraded());
        assert_eq!(used(&assembled), Some((vec![away], vec![0, 1])));
    }
    // Another half may have given the same number.
    let unknown = |said: &mut Superblock| said.base_identity = 0;
    let unknown = array.clone().with(&[M[0], M[1], N[0], N[1]], false, unknown).without(M[2]);
    assert_ne!(unknown.assembled(&degraded()).map(|assembly| assembly.built_on()), Ok(9));
    // What continued from before it says that it was not.
    let before = |said: &mut Superblock| said.base = 8;
    let assembled = array.with(&[N[1]], true, before).without(M[2]).assembled(&degraded());
    assert_ne!(assembled.map(|assembly| assembly.built_on()), Ok(9));
}

#[test]
fn nothing_counts_that_is_older_than_what_was_built() {
    let at_least = |at_least: u64| Allow { at_least, ..Allow::default() };
    for (confirmed, built_on) in [(true, 10), (false, 9)] {
        let array = Array::current().with(&ALL, confirmed, |said| {
            (said.generation, said.base) = (10, 9);
        });
        let assembly = array.assembled(&at_least(built_on)).expect("an array");
        assert_eq!((assembly.built_on(), assembly.superblock.generation), (built_on, 10));
        let refused = array.assembled(&at_least(built_on + 1)).err();
        assert_eq!(refused, Some(AssembleError::TooManyMissing));
    }
    // The refusal names a member that was left out; with a loss that is accepted there is none.
    let older = |said: &mut Superblock| (said.generation, said.base) = (7, 6);
    let array = Array::current().with(&[M[1], N[1]], true, older);
    let allow = Allow { degraded: true, ..at_least(10) };
    let refused = array.assembled(&allow).err();
    assert_eq!(refused, Some(AssembleError::Stale { device: M[1], has: 7, newest: 9 }));
    let accepted = Allow { stale: vec![N[1]], ..allow };
    assert_eq!(used(&array.assembled(&accepted)), Some((vec![1], vec![1])));
}

/// It is out of date, and its loss is accepted. While the superblocks name another device for its
/// place, that one is given up.
#[test]
fn a_failed_member_is_used_again_if_it_has_all_that_a_member_has() {
    let rest = [M[0], M[2], M[3], N[0], N[1]];
    let older = |said: &mut Superblock| (said.generation, said.base) = (8, 7);
    let in_part = |said: &mut Superblock| said.mark(1, true);
    for onto in [None, Some([99; 16])] {
        let array = one_failed().with(&rest, true, |said| assert!(said.set_rebuild(1, onto)));
        let array = array.with(&M[1..2], true, older);
        let assembly = array.assembled(&stale(M[1])).expect("an array");
        assert_eq!((&assembly.failed[..], &assembly.stale[..]), (&[][..], &[M[1]][..]));
        let said = assembly.superblock;
        assert_eq!((said.has_failed(1), said.rebuilt_onto(1)), (false, None));
        // It was to become the member, and has not everything.
        let array = array.with(&M[1..2], true, in_part);
        let refused = array.assembled(&stale(M[1])).err();
        assert_eq!(refused, Some(AssembleError::RebuiltInPart(M[1])));
        let assembly = array.assembled(&Allow::default()).expect("an array");
        assert_eq!((&assembly.failed[..], &assembly.rebuilds[..]), (&[1][..], &[][..]));
    }
    // The device that is named continues, as without permission.
    let array = one_failed().with(&M[1..2], true, in_part).with(&ALL, true, |said| {
        assert!(said.set_rebuild(1, Some(uuid(M[1]))));
    });
    for allow in [stale(M[1]), Allow::default()] {
        let assembly = array.assembled(&allow).expect("an array");
        assert_eq!((&assembly.failed[..], &assembly.rebuilds[..]), (&[1][..], &[1][..]));
        assert!(assembly.stale.is_empty() && assembly.superblock.has_failed(1));
    }
}

#[test]
fn nvs_devices_in_use_are_named_by_their_places() {
    let in_use = |array: Array| array.assembled(&degraded()).map(|assembly| assembly.nvs_in_use());
    let [first, second] = N.map(|device| Some(uuid(device)));
    assert_eq!(in_use(Array::current()), Ok([first, second]));
    assert_eq!(in_use(Array::current().without(N[0])), Ok([None, second]));
    assert_eq!(in_use(Array::current().without(N[1])), Ok([first, None]));
    let none = Array::current().without(N[0]).without(N[1]);
    assert_eq!(in_use(none), Err(AssembleError::NvsMissing(N[0], GONE)));
}
