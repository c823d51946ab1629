//! What a start writes again of superblocks before it writes any newer one: copies that are
//! damaged, and second copies that a crash prevented (docs/durability.md, "Marks").

use crate::devices::SUPERBLOCKS;
use crate::io::{Device, IoError, Media, write_durably};
use destage_nvslog::superblock::{Chosen, Role, Superblock};

/// Repairs of the superblocks of an array's devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repairs {
    /// Damaged copies, those of members last: the device, 0 for the first copy or 1, and the other
    /// copy.
    damaged: Vec<(Device, usize, Superblock)>,
    /// What copies say: the superblock that counts, then all others.
    said: Vec<Superblock>,
    /// Devices that lack the second copy of the superblock that counts, which all have in the first
    /// and some in the second.
    unfinished: Vec<(Device, Superblock)>,
    /// What some lack in their second copies is the superblock that counts.
    completes: bool,
}

impl Repairs {
    /// What is to be written again on the devices in use, `used`. `all`: what is found of these and
    /// others.
    pub(crate) fn of(
        counts: &Superblock,
        used: &[(Device, Chosen)],
        all: impl Iterator<Item = Chosen>,
    ) -> Repairs {
        let said = all.flat_map(|own| [Some(own.superblock), own.older]).flatten();
        let said = [*counts].into_iter().chain(said).collect();
        let mut repairs = Repairs { said, ..Repairs::default() };
        repairs.note_damage(used);
        repairs.note_unfinished(counts, used);
        repairs
    }

    /// Copies that are damaged: the device, and 0 for the first copy or 1.
    pub(crate) fn damaged(&self) -> impl Iterator<Item = (Device, usize)> + '_ {
        self.damaged.iter().map(|(device, copy, _)| (*device, *copy))
    }

    /// Whether all devices in use have both copies of the superblock that counts once this is
    /// written, and a crash had prevented some.
    pub(crate) fn complete(&self) -> bool {
        self.completes
    }

    /// Notes the damaged copies of superblocks of devices in use.
    fn note_damage(&mut self, used: &[(Device, Chosen)]) {
        for (device, Chosen { superblock, damaged, .. }) in used {
            let copies = (0..damaged.len()).filter(|copy| damaged[*copy]);
            self.damaged.extend(copies.map(|copy| (*device, copy, *superblock)));
        }
        self.damaged.sort_by_key(|(device, ..)| matches!(device, Device::Member(_)));
    }

    /// Notes the devices whose second copies a crash prevented: all of them, if it left one
    /// anywhere; otherwise the NVS devices whose other copy is from before they came into use.
    fn note_unfinished(&mut self, counts: &Superblock, used: &[(Device, Chosen)]) {
        let has_it = |own: &Chosen| {
            let said = &own.superblock;
            said.generation == counts.generation && said.agrees(counts)
        };
        let begun = used.iter().any(|(_, own)| own.confirmed && !own.damaged[1]);
        let came = |own: &Superblock| own.joined > own.base && matches!(own.role, Role::Nvs(_));
        if used.iter().all(|(_, own)| has_it(own)) {
            let lacking = used.iter().filter(|(_, own)| !own.confirmed);
            let lacking = lacking.filter(|(_, own)| begun || came(&own.superblock));
            self.unfinished = lacking.map(|(device, own)| (*device, own.superblock)).collect();
            self.completes = begun;
        }
    }

    /// Repairs damaged copies before anything newer is written: a newer copy that is damaged would
    /// look as if all other devices had been absent. Likewise second copies that are still to be
    /// written: a torn first copy of a device that lacks one would look as if it had been absent.
    /// NVS devices come first: a member that has a second copy says that they have it. `built_on`
    /// is the newest generation on which something was built.
    pub(crate) fn write(
        &self,
        media: &mut dyn Media,
        built_on: u64,
    ) -> Result<(), (Device, IoError)> {
        let is_member = |device: &Device| matches!(device, Device::Member(_));
        for members in [false, true] {
            for (device, copy, superblock) in &self.damaged {
                if is_member(device) != members {
                    continue;
                }
                let built = superblock.generation == built_on || self.completes;
                // That of a try on which nothing was built would say that something was.
                let repaired =
                    if *copy == 1 && !built { self.before(superblock) } else { *superblock };
                write_durably(media, *device, SUPERBLOCKS[*copy], &repaired.encode())?;
            }
            for (device, superblock) in &self.unfinished {
                if is_member(device) == members {
                    write_durably(media, *device, SUPERBLOCKS[1], &superblock.encode())?;
                }
            }
        }
        Ok(())
    }

    /// What a device said before this try: what others still say of its base, so that the devices
    /// agree, or at least the number.
    fn before(&self, tried: &Superblock) -> Superblock {
        let base = self.said.iter().find(|said| said.generation == tried.base);
        match base.filter(|base| base.base < base.generation && tried.joined <= tried.base) {
            Some(base) => {
                Superblock { role: tried.role, device: tried.device, joined: tried.joined, ..*base }
            }
            None => Superblock { generation: tried.base, ..*tried },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_superblock;

    const M: [Device; 2] = [Device::Member(0), Device::Member(1)];
    const N: [Device; 2] = [Device::Nvs(0), Device::Nvs(1)];

    /// What a device says of a try with the number 9 on what was built with the number 8.
    fn superblock(device: Device) -> Superblock {
        let (role, uuid) = match device {
            Device::Member(number) => (Role::Member(number), [10 + number as u8; 16]),
            Device::Nvs(number) => (Role::Nvs(number), [20 + number as u8; 16]),
        };
        let nvs = [Some([20; 16]), Some([21; 16])];
        Superblock { role, device: uuid, nvs, ..test_superblock::superblock() }
    }

    /// It has it in the first copy, and `confirmed` in the second, too.
    fn has(device: Device, confirmed: bool) -> (Device, Chosen) {
        let (superblock, damaged, older) = (superblock(device), [false; 2], None);
        (device, Chosen { superblock, confirmed, damaged, older })
    }

    /// The second copy is damaged: it may have had it.
    fn damaged(device: Device) -> (Device, Chosen) {
        let (_, own) = has(device, true);
        (device, Chosen { damaged: [false, true], ..own })
    }

    fn joined(device: Device, joined: u64) -> (Device, Chosen) {
        let (_, own) = has(device, false);
        (device, Chosen { superblock: Superblock { joined, ..own.superblock }, ..own })
    }

    fn repairs(used: &[(Device, Chosen)]) -> Repairs {
        Repairs::of(&superblock(M[0]), used, used.iter().map(|(_, own)| *own))
    }

    /// What devices have; those that lack their second copy; whether the change is complete.
    type Case<'a> = (&'a [(Device, Chosen)], &'a [Device], bool);

    #[test]
    fn second_copies_are_written_if_one_is_there_or_for_a_new_nvs_device() {
        let [no, yes] = [false, true];
        let other = |say: fn(&mut Superblock)| {
            let (device, mut own) = has(M[0], no);
            say(&mut own.superblock);
            (device, own)
        };
        let older = other(|said| (said.generation, said.base) = (8, 7));
        let differs = other(|said| said.lost_pages = true);
        let cases: [Case; 11] = [
            (&[has(N[0], no), has(N[1], no), has(M[0], no), has(M[1], no)], &[], no),
            (&[has(N[0], yes), has(N[1], yes), has(M[0], yes)], &[], yes),
            (&[has(N[0], yes), has(N[1], no), has(M[0], no)], &[N[1], M[0]], yes),
            (&[has(N[0], no), has(N[1], no), damaged(M[0])], &[], no),
            (&[has(N[0], yes), has(N[1], no), damaged(M[0])], &[N[1]], yes),
            (&[has(N[0], no), joined(N[1], 9), joined(M[0], 9)], &[N[1]], no),
            (&[has(N[0], no), joined(N[1], 8), joined(M[0], 9)], &[], no),
            (&[has(N[0], yes), joined(N[1], 8), joined(M[0], 9)], &[N[1], M[0]], yes),
            (&[has(N[0], yes), has(N[1], no), older], &[], no),
            (&[has(N[0], yes), has(N[1], no), differs], &[], no),
            (&[joined(N[0], 9), older], &[], no),
        ];
        for (number, (used, unfinished, complete)) in cases.into_iter().enumerate() {
            let repairs = repairs(used);
            let lacking: Vec<Device> = repairs.unfinished.iter().map(|(d, _)| *d).collect();
            assert_eq!((&lacking[..], repairs.complete()), (unfinished, complete), "{number}");
        }
    }

    /// Devices that take everything; what they took.
    #[derive(Default)]
    struct Taken(Vec<(Device, u64, Superblock)>);

    impl Media for Taken {
        fn bytes(&mut self, _: Device) -> Result<u64, IoError> {
            Ok(u64::MAX)
        }

        fn read(&mut self, _: Device, _: u64, _: &mut [u8]) -> Result<(), IoError> {
            Err(IoError::GONE)
        }

        fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
            let superblock = Superblock::decode(bytes).expect("a superblock");
            self.0.push((device, offset, superblock));
            Ok(())
        }

        fn flush(&mut self, _: Device) -> Result<(), IoError> {
            Ok(())
        }
    }

    fn written(repairs: &Repairs, built_on: u64) -> Vec<(Device, u64, Superblock)> {
        let mut taken = Taken::default();
        repairs.write(&mut taken, built_on).expect("written");
        taken.0
    }

    #[test]
    fn nvs_devices_are_repaired_before_members() {
        let mut first = has(M[0], true);
        first.1.damaged = [true, false];
        let repairs = repairs(&[first, has(M[1], false), damaged(N[0]), has(N[1], false)]);
        assert_eq!(repairs.damaged().collect::<Vec<_>>(), [(N[0], 1), (M[0], 0)]);
        // All have it in both copies afterwards: then something may be built on it.
        let [one, two] = SUPERBLOCKS;
        let order = [(N[0], two), (N[1], two), (M[0], one), (M[1], two)];
        let order = order.map(|(device, at)| (device, at, superblock(device)));
        for built_on in [8, 9] {
            assert_eq!(written(&repairs, built_on), order);
        }
    }

    /// Otherwise the second copy would say that something may have been built on a try.
    #[test]
    fn a_damaged_second_copy_of_a_try_gets_what_was_before() {
        let with = |joined: u64, base: Option<u64>, copy: usize, built_on: u64| {
            let (device, mut own) = damaged(N[0]);
            own.superblock.joined = joined;
            own.damaged = [copy == 0, copy == 1];
            let (_, mut other) = has(M[0], false);
            other.older = base.map(|base| Superblock {
                generation: 8,
                base,
                doubted_rows: true,
                ..superblock(M[0])
            });
            let repairs =
                Repairs::of(&superblock(M[0]), &[(device, own)], [own, other].into_iter());
            let [(device, at, said)] = written(&repairs, built_on)[..] else { panic!("one") };
            assert_eq!((device, at), (N[0], SUPERBLOCKS[copy]));
            assert_eq!((said.role, said.device, said.joined), (Role::Nvs(0), [20; 16], joined));
            (said.generation, said.base, said.doubted_rows)
        };
        let tried = (9, 8, false);
        assert_eq!(with(0, Some(7), 1, 9), tried, "it was built on");
        assert_eq!(with(0, Some(7), 0, 8), tried, "the first copy has the try");
        assert_eq!(with(0, Some(7), 1, 8), (8, 7, true));
        assert_eq!(with(8, Some(7), 1, 8), (8, 7, true));
        // Nobody knows more than the number.
        let number = (8, 8, false);
        assert_eq!(with(9, Some(7), 1, 8), number, "it was not in use then");
        assert_eq!(with(0, Some(8), 1, 8), number, "a start that knew no more wrote it");
        assert_eq!(with(0, None, 1, 8), number);
    }
}
