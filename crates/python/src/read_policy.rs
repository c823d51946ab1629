//! Read caches over a trace, and read policies written in Python.

use crate::control::RunControl;
use crate::errors;
use crate::trace::TraceData;
use destage_engine::array::geometry::Level;
use destage_engine::readcache::penalty::{CHUNK_BLOCKS, Penalties};
use destage_engine::readcache::replay::{EventHash, Tally, replay};
use destage_engine::readcache::{Access, ReadCache, choose};
use destage_engine::request::PageRange;
use destage_sim::readcache::{StudyError, reads_of};
use destage_workload::trace::ReadOptions;
use destage_workload::trace::replay::TraceInput;
use pyo3::prelude::*;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

/// A cache whose victims Python chooses. What is held is known here, so that a policy which
/// forgets is caught.
struct Adapter {
    policy: Py<PyAny>,
    held: HashSet<u64>,
    blocks: usize,
    control: Arc<RunControl>,
}

impl Adapter {
    fn victim(&mut self, py: Python<'_>) -> PyResult<u64> {
        let picked = self.policy.call_method0(py, "pick")?;
        let wrong = |what: String| Err(errors::error(py, "PolicyError", &what));
        match picked.extract::<u64>(py) {
            Ok(block) if self.held.remove(&block) => Ok(block),
            Ok(block) => wrong(format!("`pick` returned block {block}, which is not held")),
            Err(_) => wrong(format!(
                "`pick` returned {}; it must return the number of a held block",
                picked.bind(py).repr()?
            )),
        }
    }

    /// Informs the policy of an access; makes room before a block is loaded.
    fn tell(&mut self, py: Python<'_>, block: u64) -> PyResult<Access> {
        if self.held.contains(&block) {
            self.policy.call_method1(py, "on_hit", (block,))?;
            return Ok(Access { hit: true, evicted: None });
        }
        let full = self.held.len() >= self.blocks;
        let evicted = if full { Some(self.victim(py)?) } else { None };
        self.policy.call_method1(py, "on_load", (block,))?;
        self.held.insert(block);
        Ok(Access { hit: false, evicted })
    }
}

impl ReadCache for Adapter {
    fn access(&mut self, block: u64) -> Access {
        let mut access = Access { hit: false, evicted: None };
        if !self.control.stopped() {
            let control = Arc::clone(&self.control);
            control.attempt(|py| {
                access = self.tell(py, block)?;
                Ok(())
            });
        }
        access
    }

    fn run(&mut self, ranges: &[PageRange], penalties: &Penalties, tally: &mut Tally) {
        replay(self, ranges, penalties, tally, &mut |_, _| {});
    }

    fn holds(&self, block: u64) -> bool {
        self.held.contains(&block)
    }

    fn held(&self) -> usize {
        self.held.len()
    }

    fn blocks(&self) -> usize {
        self.blocks
    }

    fn evict(&mut self) -> Option<u64> {
        let mut victim = None;
        let control = Arc::clone(&self.control);
        control.attempt(|py| {
            victim = Some(self.victim(py)?);
            Ok(())
        });
        victim
    }

    fn forget(&mut self, block: u64) -> bool {
        self.held.remove(&block)
    }

    fn set_fault(&mut self, _fault: Option<Penalties>) {}
}

/// What one replay gave: requests, hits, RGR, RGR of a warm cache, hash of all events.
type Figures = (u64, u64, f64, Option<f64>, String);

/// Replays the reads of a trace through one read cache.
#[pyfunction]
#[pyo3(signature = (policy, blocks, path = None, trace = None, own = None, disks = 5,
    failed = Vec::new()))]
#[expect(clippy::too_many_arguments, reason = "they are the keywords of the Python function")]
pub fn read_cache(
    py: Python<'_>,
    policy: &str,
    blocks: u64,
    path: Option<PathBuf>,
    trace: Option<&Bound<'_, TraceData>>,
    own: Option<Py<PyAny>>,
    disks: u64,
    failed: Vec<u64>,
) -> PyResult<Figures> {
    let bad = |why: &dyn std::fmt::Display| errors::error(py, "OptionError", &why.to_string());
    let control = RunControl::new(None);
    let penalties = Penalties::new(Level::Raid5, disks, &failed, CHUNK_BLOCKS);
    let penalties = penalties.map_err(|why| bad(&why))?;
    let mut cache: Box<dyn ReadCache> = match own {
        None => choose(policy).and_then(|chosen| chosen.build(blocks)).map_err(|why| bad(&why))?,
        Some(factory) => {
            choose("lru").and_then(|lru| lru.check(blocks)).map_err(|why| bad(&why))?;
            let (policy, control) = (factory.call1(py, (blocks,))?, Arc::clone(&control));
            Box::new(Adapter { policy, held: HashSet::new(), blocks: blocks as usize, control })
        }
    };
    cache.set_fault(Some(penalties.clone()));
    let path = path.unwrap_or_default();
    let input = trace.map_or(TraceInput::Path(path), |trace| trace.get().input());
    let work = || -> Result<(Tally, EventHash), StudyError> {
        let reads = reads_of(input, &ReadOptions::default(), None)?;
        let (mut tally, mut hash) = (Tally::default(), EventHash::default());
        for some in reads.chunks(4096) {
            replay(&mut *cache, some, &penalties, &mut tally, &mut |_, access| hash.add(access));
            control.attempt(|py| py.check_signals());
            if control.stopped() {
                break;
            }
        }
        Ok((tally, hash))
    };
    let result = py.detach(work);
    if let Some(raised) = control.raised() {
        return Err(raised);
    }
    let (tally, hash) = result.map_err(|why| errors::error(py, "InputError", &why.to_string()))?;
    let ratio = |part: u64, whole: u64| part as f64 / whole as f64;
    let warm = (tally.warm_requests > 0).then(|| ratio(tally.warm_penalty, tally.warm_requests));
    let rgr = ratio(tally.penalty, tally.requests);
    Ok((tally.requests, tally.hits, rgr, warm, format!("{:016x}", hash.value())))
}
