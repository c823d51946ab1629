//! The write hole's proof by cases (docs/durability.md, D4 and D5), tried out: one row, every
//! dirty set, every crash of its writes, every set of missing disks that the level tolerates; the
//! clean pages must come back. Sectors are two bytes; what the log holds is the dirty pages' new
//! bytes and whether a parity sector is the new one.

use destage_parity::field::{multiply, q_into, xor_into};

const BYTES: usize = 2;
type Sector = [u8; BYTES];

struct Row {
    old: Vec<Sector>,
    new: Vec<Sector>,
    dirty: u32,
}

fn parity(data: &[Sector], number: usize) -> Sector {
    let mut sum = [0; BYTES];
    for (strip, sector) in data.iter().enumerate() {
        match number {
            0 => xor_into(&mut sum, sector),
            _ => q_into(&mut sum, strip as u16, sector),
        }
    }
    sum
}

fn coefficient(parity: usize, strip: usize) -> u8 {
    let mut one = [1u8];
    let mut factor = [0u8];
    if parity == 1 {
        q_into(&mut factor, strip as u16, &one);
        one = factor;
    }
    one[0]
}

fn inverse(value: u8) -> u8 {
    (1..=255).find(|&other| multiply(value, other) == 1).expect("not zero")
}

/// One equation: the unknown strips' old or clean bytes with coefficients, and their sum.
#[derive(Clone)]
struct Equation {
    coefficients: Vec<u8>,
    sum: u8,
}

/// Solves for up to two unknowns; `None` where the equations leave one open.
fn solve(mut equations: Vec<Equation>, unknowns: usize) -> Vec<Option<u8>> {
    let mut pivots = vec![None; unknowns];
    let mut used = vec![false; equations.len()];
    for (unknown, pivot) in pivots.iter_mut().enumerate() {
        let Some(row) =
            (0..equations.len()).find(|&r| !used[r] && equations[r].coefficients[unknown] != 0)
        else {
            continue;
        };
        (used[row], *pivot) = (true, Some(row));
        let scale = inverse(equations[row].coefficients[unknown]);
        equations[row].coefficients.iter_mut().for_each(|c| *c = multiply(*c, scale));
        equations[row].sum = multiply(equations[row].sum, scale);
        let source = equations[row].clone();
        for (_, equation) in equations.iter_mut().enumerate().filter(|(i, _)| *i != row) {
            let factor = equation.coefficients[unknown];
            for (c, s) in equation.coefficients.iter_mut().zip(&source.coefficients) {
                *c ^= multiply(factor, *s);
            }
            equation.sum ^= multiply(factor, source.sum);
        }
    }
    let alone = |row: usize, unknown: usize| {
        let others = equations[row].coefficients.iter().enumerate();
        others.filter(|(u, c)| *u != unknown && **c != 0).count() == 0
    };
    pivots
        .iter()
        .enumerate()
        .map(|(unknown, row)| row.filter(|r| alone(*r, unknown)).map(|r| equations[r].sum))
        .collect()
}

/// What recovery makes of the clean strip `strip`, which is missing.
fn redo(
    row: &Row,
    disk: &[Sector],
    parities: &[Option<(Sector, bool)>],
    missing: u32,
) -> Vec<Sector> {
    let is = |set: u32, strip: usize| set >> strip & 1 == 1;
    let unknown: Vec<usize> = (0..disk.len()).filter(|&s| is(missing, s)).collect();
    let mut found = vec![[0; BYTES]; unknown.len()];
    for byte in 0..BYTES {
        let mut equations = Vec::new();
        for (number, parity) in parities.iter().enumerate() {
            let Some((sector, new)) = parity else { continue };
            let mut coefficients = vec![0; unknown.len()];
            let mut sum = sector[byte];
            for (strip, stored) in disk.iter().enumerate() {
                let factor = coefficient(number, strip);
                let index = unknown.iter().position(|u| *u == strip);
                match index {
                    _ if *new && is(row.dirty, strip) => {
                        sum ^= multiply(factor, row.new[strip][byte]);
                    }
                    Some(index) => coefficients[index] = factor,
                    None => sum ^= multiply(factor, stored[byte]),
                }
            }
            equations.push(Equation { coefficients, sum });
        }
        for (index, value) in solve(equations, unknown.len()).into_iter().enumerate() {
            let clean = !is(row.dirty, unknown[index]);
            assert!(value.is_some() || !clean, "a clean strip stays unknown");
            found[index][byte] = value.unwrap_or(0);
        }
    }
    found
}

/// Tries every crash of the row's writes; returns how many.
fn crashes(row: &Row, parities: usize, parity_first: bool) -> Result<u64, ()> {
    let strips = row.old.len();
    let is = |set: u32, bit: usize| set >> bit & 1 == 1;
    let mut tried = 0;
    // A set bit: that data strip or parity was written. Parity bits are the highest.
    for written in 0u32..1 << (strips + parities) {
        let data = written & ((1 << strips) - 1);
        let all_parity = written >> strips == (1 << parities) - 1;
        if data & !row.dirty != 0 || parity_first && data != 0 && !all_parity {
            continue;
        }
        let disk: Vec<Sector> =
            (0..strips).map(|s| if is(data, s) { row.new[s] } else { row.old[s] }).collect();
        for missing in 0u32..1 << (strips + parities) {
            if missing.count_ones() as usize > parities {
                continue;
            }
            let stored: Vec<Option<(Sector, bool)>> = (0..parities)
                .map(|number| {
                    let (old, new) = (parity(&row.old, number), parity(&row.new, number));
                    let now = if is(written, strips + number) { new } else { old };
                    // The checksum identifies the new one, also where the old one is equal to it.
                    (!is(missing, strips + number)).then_some((now, now == new))
                })
                .collect();
            tried += 1;
            let gone = missing & ((1 << strips) - 1);
            let found = redo(row, &disk, &stored, gone);
            let unknown = (0..strips).filter(|&s| is(gone, s));
            for (strip, found) in unknown.zip(found) {
                if !is(row.dirty, strip) && found != row.old[strip] {
                    return Err(());
                }
            }
        }
    }
    Ok(tried)
}

fn rows(strips: usize) -> impl Iterator<Item = Row> {
    let mut state = 11u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        [(state >> 33) as u8, (state >> 41) as u8]
    };
    (1..(1u32 << strips) - 1).map(move |dirty| {
        let old: Vec<Sector> = (0..strips).map(|_| random()).collect();
        let new = |(strip, old): (usize, &Sector)| {
            if dirty >> strip & 1 == 1 { random() } else { *old }
        };
        let new = old.iter().enumerate().map(new).collect();
        Row { old, new, dirty }
    })
}

#[test]
fn clean_pages_come_back_whatever_was_written_and_is_missing() {
    let mut tried = 0;
    for (strips, parities) in [(2, 1), (3, 1), (4, 1), (5, 1), (2, 2), (3, 2), (4, 2), (5, 2)] {
        for row in rows(strips) {
            tried += crashes(&row, parities, true).expect("D5 keeps clean pages");
        }
    }
    println!("{tried} crashes with disks missing");
    assert!(tried > 10_000);
}

#[test]
fn data_before_parity_loses_clean_pages() {
    for (strips, parities) in [(4, 1), (4, 2)] {
        assert!(rows(strips).any(|row| crashes(&row, parities, false).is_err()));
    }
}
