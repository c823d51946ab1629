//! `destage advise`: how much NVS, which policy.

use super::{format, text, threads};
use crate::failure::Failure;
use crate::output::plot_format;
use crate::paths::Paths;
use crate::progress;
use crate::run_args::run_options;
use clap::ArgMatches;
use clap::parser::ValueSource;
use destage_report::Format;
use destage_report::advice::{Advice, Prices};
use destage_sim::advise::goal::Goal;
use destage_sim::advise::{Question, advise, ladder, thresholds_of};
use destage_sim::options::{OptionError, RunOptions, pages_of};
use destage_sim::sources::make_source;
use std::path::Path;

/// Finds and prints it. That no size reaches the goal is an answer too.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let question = question(matches)?;
    let outputs: Vec<&Path> = matches
        .get_many::<String>("out")
        .unwrap_or_default()
        .map(|name| Path::new(name.as_str()))
        .collect();
    let mut paths = Paths::of_run(&question.base);
    for path in &outputs {
        kind(path)?;
        paths.report(path)?;
    }
    let spinner = progress::spinner("advising");
    let report_progress = |step: &str| spinner.set_message(step.to_string());
    let advice = advise(&question, threads(matches), &make_source, &report_progress)?;
    spinner.finish_and_clear();
    for path in outputs {
        write(path, &advice)?;
    }
    Ok(advice.render(format(matches)))
}

fn question(matches: &ArgMatches) -> Result<Question, Failure> {
    let mut base = run_options(matches)?;
    let given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
    if let Some(trace) = text(matches, "file") {
        base.set("trace", trace)?;
        if given("seeds") {
            return Err(Failure::usage("--seeds is for generated loads: leave it out for a trace"));
        }
    }
    if let Some(array) = text(matches, "array") {
        if let Some(name) = ["level", "disks", "disk"].into_iter().find(|name| base.is_given(name))
        {
            return Err(Failure::usage(format!(
                "--array {array} and --{name} both describe the array: leave out one of them"
            )));
        }
        set_array(&mut base, array)?;
    }
    let list = |name: &str| -> Vec<String> {
        let text = text(matches, name).expect("default");
        let separator = if text.contains(';') { ';' } else { ',' };
        text.split(separator).map(|part| part.trim().to_string()).collect()
    };
    let (policies, thresholds) = (list("policies"), list("try-thresholds"));
    base.check_distinct("policy", &policies)?;
    let thresholds = thresholds_of(&base, given("try-thresholds").then_some(thresholds))?;
    let prices = text(matches, "prices").map(Prices::parse).transpose().map_err(Failure::usage)?;
    Ok(Question {
        load_factor: *matches.get_one::<f64>("load-factor").expect("default"),
        prices,
        goal: Goal::parse(text(matches, "goal").expect("required"))?,
        policies,
        thresholds,
        sizes_pages: sizes(text(matches, "sizes").expect("default"))?,
        seeds: *matches.get_one::<u32>("seeds").expect("default"),
        sample_groups: *matches.get_one::<u64>("sample-groups").expect("default"),
        check_curve: matches.get_flag("check-curve"),
        base,
    })
}

/// `5:5xstow-ref`.
fn set_array(options: &mut RunOptions, text: &str) -> Result<(), OptionError> {
    let parts = text.split_once(':').and_then(|(level, disks)| {
        let (count, disk) = disks.split_once('x')?;
        Some([("level", level), ("disks", count), ("disk", disk)])
    });
    let parts = parts.ok_or_else(|| {
        OptionError::usage(format!("--array takes LEVEL:NxDISK as 5:5xstow-ref, not `{text}`"))
    })?;
    parts.into_iter().try_for_each(|(name, value)| options.set(name, value))
}

fn sizes(text: &str) -> Result<Vec<u64>, Failure> {
    let number = |text: &str| pages_of(text.trim()).filter(|n| *n < 1 << 32);
    let bounds = text.split_once("..").and_then(|(a, b)| Some((number(a)?, number(b)?)));
    let sizes = bounds.map(|(from, to)| ladder(from, to)).unwrap_or_default();
    match sizes.is_empty() {
        true => Err(Failure::usage(format!(
            "--sizes takes the least and the largest size in pages, or in bytes with K, M, G that \
             make complete pages, e.g. 256..1048576 or 1M..4G, not `{text}`"
        ))),
        false => Ok(sizes),
    }
}

/// What a file's name asks for; nothing for the page and for drawings.
fn kind(path: &Path) -> Result<Option<Format>, Failure> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("json") => Ok(Some(Format::Json)),
        Some("csv") => Ok(Some(Format::Csv)),
        Some("txt") => Ok(Some(Format::Table)),
        Some("html" | "svg" | "png") => Ok(None),
        _ => Err(Failure::usage(format!(
            "{}: --out takes a name that ends in .html, .json, .csv, .txt, .svg or .png",
            path.display()
        ))),
    }
}

fn write(path: &Path, advice: &Advice) -> Result<(), Failure> {
    let bytes = match kind(path)? {
        Some(format) => advice.render(format).into_bytes(),
        None if path.extension().is_some_and(|e| e == "html") => {
            destage_render::advice_html(advice).into_bytes()
        }
        None => {
            destage_render::draw(&advice.plot(), plot_format(path)?).map_err(Failure::failed)?
        }
    };
    Ok(destage_report::write_file(path, &bytes)?)
}
