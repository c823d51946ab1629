//! Mixes: each request is drawn from one of several patterns, with given shares.

use std::borrow::Cow;

use destage_engine::registry::{Choice, Entry, Param};

use super::pattern::{Access, BoxedPattern, Pattern};
use super::{BoxedSource, Builds, WORKLOADS, WorkloadError, common};
use crate::random::{Seeded, fnv1a};

pub(super) const ENTRY: Entry = Entry {
    name: "mix",
    summary: "each request comes from one of several workloads, with given shares",
    source: "-",
    params: &[
        Param {
            name: "parts",
            unit: "-",
            default: "0.7*zipf+0.3*sequential",
            range: "share*name(param=value;...)+...",
            help: "the workloads and their shares of the requests (shares are scaled to sum to 1)",
        },
        common::iops("1000"),
        common::THREADS,
        common::THINK,
        common::REQUESTS,
    ],
};

/// Makes the text of a mix fit `name:param=value,...`: commas and slashes inside parentheses
/// become semicolons, and an unnamed first value that has a `*` becomes `parts`.
pub(super) fn shield(text: &str) -> Cow<'_, str> {
    let Some(rest) = text.strip_prefix("mix:") else { return Cow::Borrowed(text) };
    let mut depth = 0u32;
    let mut shielded = String::from("mix:");
    if !rest.starts_with("parts=") && rest.split([',', '(']).next().is_some_and(|t| t.contains('*'))
    {
        shielded.push_str("parts=");
    }
    for letter in rest.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        shielded.push(if depth > 0 && matches!(letter, ',' | '/') { ';' } else { letter });
    }
    Cow::Owned(shielded)
}

pub(super) fn build(
    choice: &Choice,
    volume_pages: u64,
    seed: u64,
) -> Result<BoxedSource, WorkloadError> {
    let mut parts = Vec::new();
    let mut sum = 0.0;
    for (index, text) in split_outside(choice.text("parts")).into_iter().enumerate() {
        let (share, part) = text
            .split_once('*')
            .ok_or_else(|| WorkloadError::BadMix(format!("`{text}` has no share before a `*`")))?;
        let share: f64 = share.trim().parse().unwrap_or(f64::NAN);
        if !(share > 0.0 && share.is_finite()) {
            return Err(WorkloadError::BadMix(format!("the share of `{text}` is not above 0")));
        }
        sum += share;
        let part_seed = seed ^ fnv1a(format!("mix/{index}").as_bytes());
        parts.push((sum, part_pattern(part.trim(), volume_pages, part_seed)?));
    }
    for (upto, _) in &mut parts {
        *upto /= sum;
    }
    let pattern = Mix { random: Seeded::new(seed, "mix/which"), parts };
    common::with_loop(choice, seed, Box::new(pattern))
}

/// The pattern of one part, such as `zipf(theta=0.99)`.
fn part_pattern(text: &str, volume_pages: u64, seed: u64) -> Result<BoxedPattern, WorkloadError> {
    let (name, params) = match text.split_once('(') {
        Some((name, rest)) => match rest.strip_suffix(')') {
            Some(params) => (name, params),
            None => return Err(WorkloadError::BadMix(format!("`{text}` lacks a closing `)`"))),
        },
        None => (text, ""),
    };
    let usable = WORKLOADS.iter().filter(|w| matches!(w.builds, Builds::Pattern(_)));
    let usable: Vec<&'static Entry> = usable.map(|w| w.entry).collect();
    let spelled = format!("{name}:{}", params.replace(';', ","));
    let choice = Choice::parse("part of a mix", &usable, &spelled)?;
    for param in choice.entry.params.iter().filter(|p| common::LOAD_PARAMS.contains(&p.name)) {
        if choice.text(param.name) != param.default {
            let why = format!("`{}` belongs to the mix, not to its part `{text}`", param.name);
            return Err(WorkloadError::BadMix(why));
        }
    }
    match super::find(&choice).builds {
        Builds::Pattern(build) => build(&choice, volume_pages, seed),
        Builds::Source(_) => unreachable!("only patterns were offered"),
    }
}

/// The pieces between `+` signs that are outside parentheses.
fn split_outside(text: &str) -> Vec<&str> {
    let mut depth = 0i32;
    text.split(|letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        letter == '+' && depth == 0
    })
    .collect()
}

/// One pattern at a time, drawn by share.
struct Mix {
    random: Seeded,
    /// Cumulated share up to and including the part, and the part.
    parts: Vec<(f64, BoxedPattern)>,
}

impl Pattern for Mix {
    fn next_access(&mut self) -> Access {
        let drawn = self.random.unit();
        let last = self.parts.len() - 1;
        let index = self.parts.iter().position(|(upto, _)| drawn < *upto).unwrap_or(last);
        self.parts[index].1.next_access()
    }
}
