//! The disks after everything has drained: each page where the layout says, copies equal, parity
//! of every row right.

use super::model::Learn;
use super::run::Run;

use destage_engine::array::safe::RowAt;
use destage_engine::units::{DiskId, PAGE_BYTES, Page, StripeId};
use destage_parity::erasure::{missing_strips, parities};

const PAGE: usize = PAGE_BYTES as usize;
const DATA: u64 = 1 << 20;

/// Checks the disks.
///
/// # Errors
/// What is wrong with them.
pub fn disks(run: &mut Run) -> Result<(), String> {
    let geometry = run.case.geometry;
    for page in 0..geometry.volume_pages().0 {
        if run.kept.contains(&page) {
            continue;
        }
        let place = geometry.place(Page(page));
        let mut copies = vec![place.disk];
        if geometry.level.is_mirrored() {
            copies.push(DiskId(place.disk.0 + 1));
        }
        copies.retain(|disk| !run.failed.contains(*disk) && !run.is_lost(*disk, place.page));
        // Of two that an interrupted write left different, the first counts.
        if run.holes.contains(&run.group_of(place.disk.0, place.page)) {
            copies.truncate(1);
        }
        for disk in copies {
            let bytes = read(run, disk, place.page);
            let asked = run.model.ask();
            run.model
                .check(page * PAGE_BYTES, &bytes, asked, Learn::Nothing)
                .map_err(|why| format!("member {disk} holds of {why}"))?;
        }
    }
    if geometry.level.parities() > 0 {
        rows(run)?;
    }
    Ok(())
}

fn read(run: &Run, disk: DiskId, page: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    let read = run.world.members[usize::from(disk.0)].read(DATA + page * PAGE_BYTES, &mut bytes);
    read.expect("the faults have stopped");
    bytes
}

fn rows(run: &mut Run) -> Result<(), String> {
    let geometry = run.case.geometry;
    for page in 0..geometry.disk_pages {
        let (group, at) = geometry.row_of_disk_page(page);
        let pages =
            group.0 * geometry.pages_per_group()..(group.0 + 1) * geometry.pages_per_group();
        if run.holes.contains(&group.0) || run.kept.iter().any(|kept| pages.contains(kept)) {
            continue;
        }
        row(run, &at)?;
    }
    Ok(())
}

/// Parity of a row is that of its data; what lost disks held is what the others imply.
fn row(run: &mut Run, at: &RowAt) -> Result<(), String> {
    let geometry = run.case.geometry;
    let there =
        |run: &Run, disk: DiskId| (!run.failed.contains(disk)).then(|| read(run, disk, at.page));
    let there = |run: &Run, disk: DiskId| there(run, disk).filter(|_| !run.is_lost(disk, at.page));
    let strips = 0..geometry.data_strips() as u16;
    let data: Vec<Option<Vec<u8>>> =
        strips.map(|strip| there(run, geometry.data_disk(at.stripe, strip))).collect();
    let parity: Vec<Option<Vec<u8>>> =
        geometry.parity_disks(at.stripe).map(|disk| there(run, disk)).collect();
    let known: Vec<Option<&[u8]>> = data.iter().map(Option::as_deref).collect();
    let p = parity[0].as_deref();
    let q = parity.get(1).and_then(Option::as_deref);
    let Some(missing) = missing_strips(&known, p, q) else {
        // Media could not be read while a member had failed: it was said.
        let said = run.rows_lost;
        return if said { Ok(()) } else { Err("a row with too little left".to_string()) };
    };
    let mut whole: Vec<Vec<u8>> = data.into_iter().map(Option::unwrap_or_default).collect();
    for (strip, bytes) in missing {
        let page = page_of(run, at.stripe, strip, at.page);
        let asked = run.model.ask();
        run.model
            .check(page * PAGE_BYTES, &bytes, asked, Learn::Nothing)
            .map_err(|why| format!("the row of stripe {} implies of {why}", at.stripe))?;
        whole[usize::from(strip)] = bytes;
    }
    let slices: Vec<&[u8]> = whole.iter().map(Vec::as_slice).collect();
    let (new_p, new_q) = parities(&slices, geometry.level.parities() > 1);
    let wrong =
        |name: &str| Err(format!("{name} of stripe {} at page {} is wrong", at.stripe, at.page));
    if parity[0].as_ref().is_some_and(|p| *p != new_p) {
        return wrong("P");
    }
    match (parity.get(1), new_q) {
        (Some(Some(q)), Some(new_q)) if *q != new_q => wrong("Q"),
        _ => Ok(()),
    }
}

fn page_of(run: &Run, stripe: StripeId, strip: u16, disk_page: u64) -> u64 {
    let geometry = run.case.geometry;
    let in_strip = disk_page % geometry.strip_pages;
    (stripe.0 * geometry.data_strips() + u64::from(strip)) * geometry.strip_pages + in_strip
}
