//! How a policy looks in every plot: its place in the palette, which also gives dash and marker.

/// Policies and their places. All plots, and all pages, draw a policy in the colour of its place.
pub const LOOKS: [(&str, usize); 9] = [
    ("lrw", 0),
    ("cscan", 1),
    ("wow", 2),
    ("stow", 3),
    ("lst", 4),
    ("stf", 5),
    ("lrw-lst", 6),
    ("ebb", 7),
    ("seqran", 8),
];

/// Colours of the palette: places beyond have them again, with another dash and marker.
const COLOURS: usize = 8;

/// The policy that a name in a legend begins with, as `wow` in `wow:initial-bit=1` or `wow 90/80`.
fn policy(name: &str) -> &str {
    name.split([':', ' ', ',', '/', '+']).next().unwrap_or_default()
}

/// The places of lines or bars with these names: a policy has its own, whatever else is drawn. What
/// is not a policy, or is the same policy again, has the next place whose colour is free. If none
/// is, it has the next place.
pub fn looks(names: &[&str]) -> Vec<usize> {
    let known = |name: &str| LOOKS.iter().find(|(own, _)| *own == policy(name)).map(|own| own.1);
    let mut places: Vec<Option<usize>> = Vec::with_capacity(names.len());
    for name in names {
        places.push(known(name).filter(|place| !places.contains(&Some(*place))));
    }
    for i in 0..places.len() {
        if places[i].is_none() {
            let taken = |colour: &usize| places.iter().flatten().any(|at| at % COLOURS == *colour);
            let colour = (0..COLOURS).find(|colour| !taken(colour));
            let next = || (0..).find(|place| !places.contains(&Some(*place)));
            places[i] = colour.or_else(next);
        }
    }
    places.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_has_its_place_whatever_else_is_drawn() {
        assert_eq!(looks(&["lrw", "cscan", "wow", "stow"]), [0, 1, 2, 3]);
        assert_eq!(looks(&["stow", "wow:initial-bit=1"]), [3, 2]);
        assert_eq!(looks(&["wow 90/80", "wow 70/40", "stow"]), [2, 0, 3]);
        assert_eq!(looks(&["reads", "writes", "lrw"]), [1, 2, 0]);
        // The place of seqran has the colour of lrw's.
        assert_eq!(looks(&["wow 90/80", "wow 70/40", "seqran 90/80"]), [2, 1, 8]);
        assert_eq!(looks(&["reads", "writes"]), [0, 1]);
        let many = vec!["x"; 20];
        assert_eq!(looks(&many), (0..20).collect::<Vec<_>>());
    }
}
