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
use destage_sim::advise::{Question, advise, ladder};
use destage_sim::options::{OptionError, RunOptions};
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
    let (policies, mut thresholds) = (list("policies"), list("try-thresholds"));
    for (name, all) in [("policies", &policies), ("try-thresholds", &thresholds)] {
        let twice = all.iter().enumerate().find(|(i, value)| all[..*i].contains(value));
        if let Some((_, value)) = twice {
            let message = format!("--{name} has `{value}` twice: leave out one of them");
            return Err(Failure::usage(message));
        }
    }
    base.check_distinct("policy", &policies)?;
    base.check_distinct("thresholds", &thresholds)?;
    for listed in &mut thresholds {
        match base.check_thresholds("try-thresholds", listed) {
            Err(error) if given("try-thresholds") => return Err(error.into()),
            // The rate's own.
            Err(_) => listed.clear(),
            Ok(()) => {}
        }
    }
    thresholds.dedup();
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
    let number = |text: &str| text.trim().parse::<u64>().ok().filter(|n| *n < 1 << 32);
    let bounds = text.split_once("..").and_then(|(a, b)| Some((number(a)?, number(b)?)));
    let sizes = bounds.map(|(from, to)| ladder(from, to)).unwrap_or_default();
    match sizes.is_empty() {
        true => Err(Failure::usage(format!("--sizes takes pages as 256..1048576, not `{text}`"))),
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
