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
