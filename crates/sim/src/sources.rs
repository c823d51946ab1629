//! The source of a run, from its options.

use crate::config::SimConfig;
use crate::options::{OptionError, RunOptions};
use crate::prefill::Prefilled;
use destage_engine::request::PageRange;
use destage_engine::units::{PAGE_BYTES, Page};
use destage_workload::generator;
use destage_workload::source::{Mapped, Source, SourceRequest};
use destage_workload::trace::replay::{Layout, ReplayOptions, ReplayPace, TraceInput, TraceSource};
use destage_workload::trace::{ReadOptions, TraceError};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

/// Makes the source that the options ask for: a trace or a generated load.
///
/// # Errors
/// An unknown workload, a parameter out of range, or a trace that cannot be replayed.
pub fn make_source(
    options: &RunOptions,
    config: &SimConfig,
) -> Result<Box<dyn Source + Send>, OptionError> {
    let volume_pages = config.controller.geometry.volume_pages().0;
    if !options.get("trace").is_empty() {
        return trace_source(options, config, options.get("trace").into());
    }
    let volume_pages = match &config.track {
        None => volume_pages,
        Some(track) => track.disk_sectors * track.sector_bytes / PAGE_BYTES,
    };
    let mut text = options.get("workload").to_string();
    if !options.get("iops").is_empty() {
        text.push(if text.contains(':') { ',' } else { ':' });
        text.push_str("iops=");
        text.push_str(options.get("iops"));
    }
    let usage = |error: &dyn std::fmt::Display| OptionError::usage(error.to_string());
    let choice = generator::parse(&text).map_err(|error| usage(&error))?;
    let source = generator::build(&choice, volume_pages, options.seed()?);
    let source = source.map_err(|error| usage(&error))?;
    Ok(match &config.track {
        None => source,
        Some(track) => {
            let sectors_per_page = (PAGE_BYTES / track.sector_bytes).max(1);
            Box::new(Mapped::new(source, move |request, _| {
                let PageRange { first, pages } = request.range;
                let first = Page(first.0 * sectors_per_page);
                let range = PageRange::new(first, pages * sectors_per_page as u32);
                Ok(SourceRequest { range, ..request })
            }))
        }
    })
}

/// The source of a run that replays this trace, whatever file its options name.
///
/// # Errors
/// A trace that cannot be replayed.
pub fn trace_source(
    options: &RunOptions,
    config: &SimConfig,
    input: TraceInput,
) -> Result<Box<dyn Source + Send>, OptionError> {
    let (read, replay, volume_pages) = ways(options, config)?;
    let open = |replay: &ReplayOptions| {
        TraceSource::open(input.clone(), &read, replay, volume_pages).map_err(wrong)
    };
    prefilled(options, config, &replay, open)
}

/// The source, into an NVS that is filled before if the options say so.
fn prefilled(
    options: &RunOptions,
    config: &SimConfig,
    replay: &ReplayOptions,
    open: impl Fn(&ReplayOptions) -> Result<TraceSource, OptionError>,
) -> Result<Box<dyn Source + Send>, OptionError> {
    let source = Box::new(open(replay)?);
    if !options.on("prefill")? {
        return Ok(source);
    }
    let once = open(&ReplayOptions { repeat: false, ..*replay })?;
    Ok(Box::new(Prefilled::new(Box::new(once), source, config, options.get("trace"))?))
}

fn wrong(error: TraceError) -> OptionError {
    OptionError::input(error.to_string())
}

/// How a trace is read and replayed, and on how many pages.
fn ways(
    options: &RunOptions,
    config: &SimConfig,
) -> Result<(ReadOptions, ReplayOptions, u64), OptionError> {
    let (volume_pages, page_bytes) = match &config.track {
        None => (config.controller.geometry.volume_pages().0, PAGE_BYTES),
        Some(track) => (track.disk_sectors, track.sector_bytes),
    };
    let (read, replay) = (options.read_options()?, options.replay_options()?);
    Ok((read, ReplayOptions { page_bytes, ..replay }, volume_pages))
}

/// Sources of many runs over the same traces, which must not change while they run. Each
/// is scanned only once to lay out its devices.
#[derive(Default)]
pub struct Sources(Mutex<BTreeMap<String, Layout>>);

impl Sources {
    /// As [`make_source`].
    ///
    /// # Errors
    /// As [`make_source`].
    pub fn make(
        &self,
        options: &RunOptions,
        config: &SimConfig,
    ) -> Result<Box<dyn Source + Send>, OptionError> {
        let path = Path::new(options.get("trace"));
        let (read, replay, volume_pages) = ways(options, config)?;
        if options.get("trace").is_empty() || matches!(replay.pace, ReplayPace::Open { .. }) {
            return make_source(options, config);
        }
        // The layout does not depend on the pace.
        let scanned = ReplayOptions { pace: ReplayPace::Closed { outstanding: 1 }, ..replay };
        let key = format!("{} {read:?} {scanned:?}", path.display());
        let known = self.0.lock().expect("no thread panicked").get(&key).cloned();
        let layout = match known {
            Some(layout) => layout,
            None => {
                let layout = Layout::scan(path, &read, &scanned).map_err(wrong)?;
                let mut layouts = self.0.lock().expect("no thread panicked");
                layouts.insert(key, layout.clone());
                layout
            }
        };
        let open = |replay: &ReplayOptions| {
            TraceSource::with_layout(path, &read, replay, volume_pages, layout.clone())
                .map_err(wrong)
        };
        prefilled(options, config, &replay, open)
    }
}
