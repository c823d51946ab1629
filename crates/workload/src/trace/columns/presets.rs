//! Formats that are nothing but columns: our own CSV, and what Meta publishes.

use std::sync::Arc;

use destage_engine::registry::{Choice, ChoiceError, Entry, Param};

use super::super::{Format, Parser, SECOND_NS};
use super::grammar::{self, Spec};
use super::lines::Lines;
use super::of_columns;

/// The columns of our own CSV, Parquet and Arrow files, in this order.
pub(crate) const OWN: [&str; 5] = ["time_ns", "device", "offset_bytes", "length_bytes", "op"];

/// A preset: the descriptions of its columns, of which the first that fits a file is used.
struct Preset {
    format: &'static Format,
    columns: &'static [&'static str],
}

const PRESETS: [Preset; 3] = [
    Preset {
        format: &CSV,
        columns: &["time=time_ns:ns, device=device, offset=offset_bytes:bytes, \
                    size=length_bytes:bytes, op=op"],
    },
    Preset {
        format: &CACHELIB_BLOCK,
        columns: &["time=op_time:s, op=op_name:read=getChunkData*:write=putChunk*, sep=comma, \
             offset=io_offset:bytes, size=io_size:bytes, object=block_id+rs_shard_id:8M"],
    },
    Preset {
        format: &TECTONIC,
        columns: &[
            "time=op_time:s, op=op_name:read=1|2|5:write=3|4|6:unknown=100, sep=space, \
             offset=io_offset:bytes, size=io_size:bytes, object=block_id+rs_shard_id:8M",
            "time=op_time:s, op=op_name:read=1|2|5:write=3|4|6:unknown=100, sep=space, \
             offset=io_offset:bytes, size=io_size:bytes, object=block_id:8M",
        ],
    },
];

/// The columns of key-value traces; `ROOM` stands for the bytes of a key.
const KEY_VALUE: [&str; 2] = [
    "time=op_time:s, op=op:read=GET*:write=SET*:skip=*, size=size:bytes, object=key:ROOM",
    "op=op:read=GET*:write=SET*:skip=*, size=size:bytes, object=key:ROOM",
];

pub(in crate::trace) const CSV: Format = of_columns(
    &Entry {
        name: "csv",
        summary: "our own CSV: time_ns,device,offset_bytes,length_bytes,op; others by \
                  --trace-columns",
        source: "-",
        params: &[],
    },
    &[".csv"],
    preset,
);

pub(in crate::trace) const CACHELIB_BLOCK: Format = Format {
    disorder_ns: SECOND_NS,
    ..of_columns(
        &Entry {
            name: "cachelib-block",
            summary: "Meta's block traces for CacheLib, CSV by names; each block has a place of 8M",
            source: "Meta; CacheLib's BlockChunkReplayGenerator",
            params: &[],
        },
        &[],
        preset,
    )
};

pub(in crate::trace) const TECTONIC: Format = Format {
    disorder_ns: SECOND_NS,
    ..of_columns(
        &Entry {
            name: "tectonic",
            summary: "Meta's Tectonic: block_id io_offset io_size op_time op_name ...; each block \
                      has a place of 8M",
            source: "Meta; Baleen, FAST 2024",
            params: &[],
        },
        &[],
        preset,
    )
};

pub(in crate::trace) const CACHELIB_KV: Format = Format {
    disorder_ns: SECOND_NS,
    sniff: Some(is_key_value),
    ..of_columns(
        &Entry {
            name: "cachelib-kv",
            summary: "Meta's key-value traces for CacheLib: refused, unless keys are given a place",
            source: "Meta; CacheLib's KVReplayGenerator",
            params: &[Param {
                name: "place",
                unit: "bytes",
                default: "none",
                range: "4K..1G",
                help: "the space that each key gets, in the order of first appearance",
            }],
        },
        &[],
        preset,
    )
};

/// Whether these bytes begin with the names of a key-value trace's columns.
fn is_key_value(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let names: Vec<&[u8]> = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
    has_key_value_names(|name| names.contains(&name.as_bytes()))
}

/// Whether a key-value trace's columns are there.
pub(super) fn has_key_value_names(has: impl Fn(&str) -> bool) -> bool {
    ["key", "op", "size", "op_count", "key_size"].into_iter().all(has)
}

/// Reads lines of the first of a format's descriptions that fits; of none: there are no addresses.
fn preset(choice: &Choice, _file: &str) -> Result<Parser, ChoiceError> {
    let specs = specs(choice)?;
    Ok(match specs.is_empty() {
        true => Parser::NoAddresses,
        false => Parser::Lines(Box::new(Lines::new(specs, false))),
    })
}

/// The descriptions of the columns of a format: none if it has no addresses.
fn specs(choice: &Choice) -> Result<Vec<Arc<Spec>>, ChoiceError> {
    let name = choice.entry.name;
    let understood = |text: &str| Arc::new(grammar::parse(text).expect("a preset's columns"));
    if let Some(preset) = PRESETS.iter().find(|preset| preset.format.entry.name == name) {
        return Ok(preset.columns.iter().map(|text| understood(text)).collect());
    }
    let place = choice.text("place");
    if place == "none" {
        return Ok(Vec::new());
    }
    let bytes = grammar::bytes(place).filter(|bytes| bytes.is_multiple_of(4096));
    let bytes = bytes.ok_or_else(|| ChoiceError::BadValue {
        entry: name,
        param: "place",
        value: place.to_string(),
        expected: String::from("bytes in pages of 4K, e.g. 64K"),
    })?;
    Ok(KEY_VALUE.iter().map(|text| understood(&text.replace("ROOM", &bytes.to_string()))).collect())
}

/// The descriptions of all presets that have addresses.
#[cfg(feature = "tables")]
pub(super) fn all() -> Vec<Arc<Spec>> {
    let texts = PRESETS.iter().flat_map(|preset| preset.columns);
    texts.map(|text| Arc::new(grammar::parse(text).expect("a preset's columns"))).collect()
}

/// The descriptions that a format has of a table's columns, if it is one of columns.
#[cfg(feature = "tables")]
pub(super) fn of_table(choice: &Choice) -> Result<Option<Vec<Arc<Spec>>>, ChoiceError> {
    let named = |format: &Format| format.entry.name == choice.entry.name;
    let preset = PRESETS.iter().any(|preset| named(preset.format)) || named(&CACHELIB_KV);
    if preset { specs(choice).map(Some) } else { Ok(None) }
}
