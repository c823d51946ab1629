//! `destage scrub`: compare all rows of a served array, and put them right.

use super::array::asked;
use super::quantity::bytes;
use super::target::name;
use super::{format, text};
use crate::failure::Failure;
use crate::progress;
use clap::ArgMatches;
use destage_report::Format;
use destage_report::scrub::ScrubStatus;
use destage_server::array::{Request, SCRUB_RATE_MIN};
use std::time::Duration;

/// How often its state is asked for.
const LOOK: Duration = Duration::from_millis(200);

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let name = name(matches);
    if matches.get_flag("stop") {
        asked(matches, &Request::ScrubStop)?;
        return Ok(format!("{name}: the scrub ends\n"));
    }
    let rate = bytes(text(matches, "rate").expect("default"))?;
    if rate < SCRUB_RATE_MIN {
        return Err(Failure::usage(format!("--rate {rate}: at least 1M bytes a second")));
    }
    asked(matches, &Request::Scrub { repair: matches.get_flag("repair"), rate })?;
    if matches.get_flag("background") {
        return Ok(format!("{name}: the scrub has begun; see `destage status {name}`\n"));
    }
    let bar = progress::bar("rows");
    let scrub = loop {
        let scrub = state(matches)?;
        bar.set_length(scrub.rows);
        bar.set_position(scrub.rows_done);
        if scrub.state != "running" {
            break scrub;
        }
        std::thread::sleep(LOOK);
    };
    bar.finish_and_clear();
    let told = match format(matches) {
        Format::Json => {
            format!("{}\n", serde_json::to_string_pretty(&scrub).map_err(Failure::failed)?)
        }
        other => scrub.table().render(other),
    };
    if scrub.clean() {
        return Ok(told);
    }
    print!("{told}");
    Err(Failure::failed(match scrub.rows_left {
        0 => format!("{name}: the scrub ended before all rows were compared: see its alarms"),
        left if scrub.repair => format!("{name}: {left} rows are wrong still"),
        left => format!("{name}: {left} rows are wrong: `destage scrub {name} --repair`"),
    }))
}

fn state(matches: &ArgMatches) -> Result<ScrubStatus, Failure> {
    let status = asked(matches, &Request::Status)?.expect("a status was asked for");
    status.scrub.ok_or_else(|| Failure::failed("the server was started anew meanwhile"))
}
