//! Metadata a held page: at most 48 bytes, for every policy, when every group holds one page. A
//! cached page: as many for the fault-aware form as for the plain one.

mod counting;

use counting::allocated;
use destage_engine::array::geometry::Level;
use destage_engine::conditions::Conditions;
use destage_engine::nvs::directory::Directory;
use destage_engine::policy::{self, POLICIES, PolicyContext};
use destage_engine::readcache;
use destage_engine::readcache::penalty::Penalties;
use destage_engine::request::PageRange;
use destage_engine::sequential::{Detector, DetectorKind};
use destage_engine::units::{Page, PageCount};
use destage_engine::writecache::WriteCache;

const PAGES: u64 = 1_500_000;

fn coprime(a: u64, b: u64) -> bool {
    if b == 0 { a == 1 } else { coprime(b, a % b) }
}

fn bytes_per_page(policy: &str, group_pages: u64, volume_pages: u64) -> f64 {
    let before = allocated();
    let context = PolicyContext {
        nvs_pages: PAGES,
        groups: volume_pages / group_pages,
        group_pages,
        disks: 5,
        queue_depth: 20,
        high: 9000,
        low: 8000,
        mirrored: false,
    };
    let policy = policy::choose(policy).expect("a policy").build(&context).expect("in range");
    let directory = Directory::new(PageCount(PAGES), group_pages, context.groups);
    let detector = Detector::new(DetectorKind::Pages, 16, group_pages);
    let mut cache = WriteCache::new(directory, detector, policy);
    let groups = volume_pages / group_pages;
    // Groups in a scattered order without repetition: a stride coprime to their number.
    let stride = (groups * 5 / 8..).find(|s| coprime(*s, groups)).expect("a coprime stride");
    let mut group = 0u64;
    for _ in 0..PAGES {
        let range = PageRange::new(Page(group * group_pages), 1);
        let classified = cache.classify(range);
        cache.admit(range, classified, &Conditions::NONE);
        group = (group + stride) % groups;
    }
    assert_eq!(cache.directory.groups_held(), PAGES);
    (allocated() - before) as f64 / PAGES as f64
}

/// Of a full read cache, a disk of five failed.
fn bytes_per_block(policy: &str) -> f64 {
    const BLOCKS: u64 = 100_000;
    let before = allocated();
    let mut cache = readcache::choose(policy).expect("a policy").build(BLOCKS).expect("a size");
    cache.set_fault(Some(Penalties::new(Level::Raid5, 5, &[0], 16).expect("an array")));
    for block in 0..4 * BLOCKS {
        cache.access(block * 7919 % (2 * BLOCKS));
    }
    assert_eq!(cache.held() as u64, BLOCKS);
    (allocated() - before) as f64 / BLOCKS as f64
}

/// One test: what is allocated is counted for the whole process.
#[test]
fn at_most_48_bytes_per_page_and_none_for_a_second_stack() {
    // Those without ghosts, of which there are more or fewer as other blocks are evicted.
    for plain in ["lru", "lfu", "clock", "sieve"] {
        let [bytes, aware] = [plain, &format!("vdf-{plain}")].map(bytes_per_block);
        println!("{plain}: {bytes:.1} bytes per block, fault-aware {aware:.1}");
        assert!(aware <= bytes + 1.0, "{plain}: {aware:.1} and {bytes:.1} bytes per block");
        assert!(bytes <= 96.0, "{plain}: {bytes:.1} bytes per block");
    }
    for entry in POLICIES {
        let name = entry.entry.name;
        // A volume that the bitmaps cover, and one so large that a tree must.
        for (group_pages, volume_pages) in [(64, (1 << 27) + 64), (1, (1 << 33) + 1)] {
            let bytes = bytes_per_page(name, group_pages, volume_pages);
            println!("{name}, groups of {group_pages}: {bytes:.1} bytes per page");
            assert!(bytes <= 48.0, "{name}: {bytes:.1} bytes per page");
        }
    }
}
