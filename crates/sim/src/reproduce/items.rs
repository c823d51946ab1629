//! The table of items. A new one is a file in `specs/experiments` and its line here.

use super::Item;

/// An item and its file.
macro_rules! item {
    ($paper:literal, $name:literal) => {
        Item {
            paper: $paper,
            name: $name,
            text: include_str!(concat!(
                "../../../../specs/experiments/",
                $paper,
                "-",
                $name,
                ".toml"
            )),
        }
    };
}

/// Every item, in the order in which they are shown.
pub const ITEMS: &[Item] = &[
    item!("wow", "fig2"),
    item!("wow", "fig6"),
    item!("wow", "fig7"),
    item!("wow", "fig8"),
    item!("wow", "fig9"),
    item!("wow", "fig10"),
    item!("stow", "fig2"),
    item!("stow", "fig3"),
    item!("stow", "fig7"),
    item!("stow", "fig8"),
    item!("stow", "fig9"),
    item!("stow", "fig10"),
    item!("stow", "table1"),
    item!("stow", "table2"),
    item!("haining-long", "fig1"),
    item!("haining-long", "fig2"),
    item!("haining-long", "fig3-4"),
    item!("haining-long", "fig5-7"),
    item!("haining-long", "table2"),
    item!("vdf", "fig3-5"),
    item!("vdf", "table3"),
    item!("vdf", "rebuild"),
    item!("vdf", "fig7-9"),
    item!("vdf", "policies"),
    item!("vdf", "start"),
    item!("vdf", "writes"),
    item!("ablations", "policies"),
];
