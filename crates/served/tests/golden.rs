//! Devices as this format left them, kept in the tree: every later program must open them and find
//! in them what was acknowledged (docs/nvs-format.md, "Versions"). With `GOLDEN_WRITE=1` the test
//! writes images that are not there yet; one that is there is never replaced.

mod common;

use common::{Devices, PAGES, Served, check};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::units::PAGE_BYTES;
use destage_nvslog::sizes::Sizes;
use destage_served::{Allow, Command};

/// Makes the devices of an image.
fn made(block_bytes: u32, nvs: u16, crashes: bool) -> Devices {
    let (level, strip_pages, group_stripes) = (Level::Raid5, 2, 2);
    let geometry = Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages: PAGES / 2 };
    let devices = Devices::created(geometry, Sizes::for_pages(24, block_bytes), block_bytes, nvs);
    let mut served = Served::open(devices);
    served.write(0, 32, 1);
    served.write(5 * 8 + 2, 1, 2);
    let zeros = Command::Zero { offset: PAGE_BYTES, bytes: PAGE_BYTES, fua: false };
    served.ask(zeros, &[]);
    served.flush_cache();
    served.write(8 * 8, 32, 3);
    served.write(0, 8, 4);
    served.write(12 * 8 + 1, 2, 5);
    served.ask(Command::Trim { offset: 8 * PAGE_BYTES, bytes: PAGE_BYTES, fua: false }, &[]);
    served.write(20 * 8, 32, 6);
    if crashes {
        // In the middle of the destages.
        served.left = 17;
        served.flush_cache();
    } else {
        served.stop();
    }
    served.devices
}

#[test]
fn images_of_this_format_are_opened() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for (block_bytes, nvs, crashes) in [
        (512, 1, false),
        (512, 1, true),
        (512, 2, false),
        (512, 2, true),
        (4096, 1, false),
        (4096, 1, true),
        (4096, 2, false),
        (4096, 2, true),
    ] {
        let end = if crashes { "crash" } else { "stop" };
        let path = folder.join(format!("version-4-blocks-{block_bytes}-nvs-{nvs}-{end}.txt"));
        if std::env::var_os("GOLDEN_WRITE").is_some() && !path.exists() {
            std::fs::write(&path, made(block_bytes, nvs, crashes).to_text()).expect("written");
        }
        let text = std::fs::read_to_string(&path).expect("an image of the tree");
        let mut devices = Devices::from_text(&text);
        let assembly = devices.assembled(&Allow::default());
        let held = destage_served::inspect(&mut devices, &assembly);
        assert_eq!((held.open_intents > 0, held.dirty_pages > 8), (crashes, true), "{held:?}");
        let mut served = Served::open(devices);
        for page in 0..PAGES {
            check(&mut served, page, &path.display().to_string());
        }
        // The array continues from there, and what it holds reaches the disks.
        served.write(30 * 8, 8, 9);
        served.flush_cache();
        assert_eq!(served.volume.status().dirty_pages, 0, "{}", path.display());
    }
}
