//! A destage policy written in Python, as the engine sees it.

use crate::control::RunControl;
use crate::errors;
use destage_engine::conditions::Conditions;
use destage_engine::nvs::directory::{Directory, Slot};
use destage_engine::policy::{self, PolicyChoice};
use destage_engine::registry::Entry;
use destage_engine::units::GroupId;
use pyo3::prelude::*;
use scoped_tls::scoped_thread_local;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

scoped_thread_local!(static DIRECTORY: Directory);

/// One page written into a write group.
#[pyclass(frozen, module = "destage._native")]
pub struct PageWrite(policy::PageWrite);

#[pymethods]
impl PageWrite {
    /// The group's number.
    #[getter]
    fn group(&self) -> u64 {
        self.0.group.0
    }

    /// This page created the group.
    #[getter]
    fn created(&self) -> bool {
        self.0.created()
    }

    /// The group existed before the request that the page belongs to.
    #[getter]
    fn existed(&self) -> bool {
        self.0.existed()
    }

    /// The page was held already.
    #[getter]
    fn page_hit(&self) -> bool {
        self.0.page_hit()
    }

    /// The detector calls the page sequential.
    #[getter]
    fn sequential(&self) -> bool {
        self.0.sequential()
    }

    /// It is the last page of its group.
    #[getter]
    fn last_page(&self) -> bool {
        self.0.last_page()
    }
}

/// What a policy may know when it is made.
#[pyclass(frozen, module = "destage._native")]
pub struct PolicyContext(policy::PolicyContext);

#[pymethods]
impl PolicyContext {
    #[getter]
    fn nvs_pages(&self) -> u64 {
        self.0.nvs_pages
    }

    #[getter]
    fn groups(&self) -> u64 {
        self.0.groups
    }

    #[getter]
    fn group_pages(&self) -> u64 {
        self.0.group_pages
    }

    #[getter]
    fn disks(&self) -> u64 {
        self.0.disks
    }

    #[getter]
    fn queue_depth(&self) -> u64 {
        self.0.queue_depth
    }

    /// Per cent of the NVS.
    #[getter]
    fn high(&self) -> f64 {
        self.0.high as f64 / 100.0
    }

    #[getter]
    fn low(&self) -> f64 {
        self.0.low as f64 / 100.0
    }

    #[getter]
    fn mirrored(&self) -> bool {
        self.0.mirrored
    }
}

/// What the NVS holds, to be asked while a policy picks.
#[pyclass(frozen, module = "destage._native")]
pub struct Nvs {
    /// Groups in the volume.
    groups: u64,
}

impl Nvs {
    /// The slot of a group, whatever number Python gave.
    fn find(&self, directory: &Directory, group: u64) -> Option<Slot> {
        if group < self.groups { directory.find(GroupId(group)) } else { None }
    }
}

fn ask<R>(py: Python<'_>, question: impl FnOnce(&Directory) -> R) -> PyResult<R> {
    if DIRECTORY.is_set() {
        return Ok(DIRECTORY.with(question));
    }
    let message = "the NVS answers only while `pick` or `candidate` is called, in its own thread";
    Err(errors::error(py, "PolicyError", message))
}

#[pymethods]
impl Nvs {
    /// Whether the group is held and may be picked now.
    fn may_pick(&self, py: Python<'_>, group: u64) -> PyResult<bool> {
        ask(py, |held| self.find(held, group).is_some_and(|slot| held.may_pick(slot)))
    }

    /// Pages of the group that are held and not in flight.
    fn pages(&self, py: Python<'_>, group: u64) -> PyResult<u64> {
        ask(py, |held| self.find(held, group).map_or(0, |slot| held.pages(slot)))
    }

    /// Whether the last page written to the group was sequential.
    fn is_sequential(&self, py: Python<'_>, group: u64) -> PyResult<bool> {
        ask(py, |held| self.find(held, group).is_some_and(|slot| held.is_sequential(slot)))
    }

    /// Groups held, ascending. This looks at all of them.
    fn groups(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        ask(py, |held| {
            let mut groups: Vec<u64> = held.slots().map(|slot| held.id(slot).0).collect();
            groups.sort_unstable();
            groups
        })
    }

    #[getter]
    fn held_pages(&self, py: Python<'_>) -> PyResult<u64> {
        ask(py, Directory::held_pages)
    }

    /// Pages held, in flight and reserved.
    #[getter]
    fn occupancy(&self, py: Python<'_>) -> PyResult<u64> {
        ask(py, Directory::occupancy)
    }

    #[getter]
    fn capacity(&self, py: Python<'_>) -> PyResult<u64> {
        ask(py, |held| held.capacity().0)
    }

    #[getter]
    fn pages_per_group(&self, py: Python<'_>) -> PyResult<u64> {
        ask(py, Directory::pages_per_group)
    }
}

/// The methods of a policy object; a method that it lacks is `None`.
struct Adapter {
    on_write: Py<PyAny>,
    pick: Py<PyAny>,
    candidate: Option<Py<PyAny>>,
    on_destaged: Option<Py<PyAny>>,
    on_admitted: Option<Py<PyAny>>,
    nvs: Py<Nvs>,
    control: Arc<RunControl>,
}

impl Adapter {
    fn new(object: &Bound<'_, PyAny>, groups: u64, control: &Arc<RunControl>) -> PyResult<Adapter> {
        let py = object.py();
        let base = py.import("destage.policy")?.getattr("DestagePolicy")?;
        // What the base class leaves empty is not worth a call.
        let own = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            let is_own = !object.get_type().getattr(name)?.is(&base.getattr(name)?);
            Ok(if is_own { Some(object.getattr(name)?.unbind()) } else { None })
        };
        Ok(Adapter {
            on_write: object.getattr("on_write")?.unbind(),
            pick: object.getattr("pick")?.unbind(),
            candidate: own("candidate")?,
            on_destaged: own("on_destaged")?,
            on_admitted: own("on_admitted")?,
            nvs: Py::new(py, Nvs { groups })?,
            control: Arc::clone(control),
        })
    }

    /// The slot of the group that Python picked.
    fn chosen(&self, py: Python<'_>, directory: &Directory) -> PyResult<Slot> {
        let picked = self.pick.call1(py, (&self.nvs,))?;
        let wrong = |what: String| Err(errors::error(py, "PolicyError", &what));
        let Ok(group) = picked.extract::<u64>(py) else {
            return wrong(format!(
                "`pick` returned {} where some group may be picked; it must return its number",
                picked.bind(py).repr()?
            ));
        };
        match self.nvs.get().find(directory, group) {
            Some(slot) if directory.may_pick(slot) => Ok(slot),
            Some(_) => wrong(format!(
                "`pick` returned group {group}, which is being destaged or written: \
                 ask `nvs.may_pick(group)`"
            )),
            None => wrong(format!("`pick` returned group {group}, which is not held")),
        }
    }
}

impl policy::DestagePolicy for Adapter {
    fn on_write(&mut self, write: policy::PageWrite, _now: &Conditions<'_>) {
        if !self.control.stopped() {
            self.control.attempt(|py| self.on_write.call1(py, (PageWrite(write),)).map(drop));
        }
    }

    fn on_admitted(&mut self, random: u64, sequential: u64, occupancy: u64) {
        if let Some(method) = self.on_admitted.as_ref().filter(|_| !self.control.stopped()) {
            self.control.attempt(|py| method.call1(py, (random, sequential, occupancy)).map(drop));
        }
    }

    fn pick(&mut self, directory: &Directory, _now: &Conditions<'_>) -> Option<Slot> {
        let mut chosen = None;
        if !self.control.stopped() {
            DIRECTORY.set(directory, || {
                self.control.attempt(|py| {
                    chosen = Some(self.chosen(py, directory)?);
                    Ok(())
                });
            });
        }
        // After an exception any victim will do: the run ends at its next request.
        chosen.or_else(|| directory.slots().find(|slot| directory.may_pick(*slot)))
    }

    fn on_destaged(&mut self, group: GroupId) {
        if let Some(method) = self.on_destaged.as_ref().filter(|_| !self.control.stopped()) {
            self.control.attempt(|py| method.call1(py, (group.0,)).map(drop));
        }
    }

    fn candidate(&self, directory: &Directory) -> Option<Slot> {
        let method = self.candidate.as_ref().filter(|_| !self.control.stopped())?;
        let mut group = None;
        DIRECTORY.set(directory, || {
            self.control.attempt(|py| {
                group = method.call1(py, (&self.nvs,))?.extract::<Option<u64>>(py)?;
                Ok(())
            });
        });
        self.nvs.get().find(directory, group?)
    }
}

/// Replaces a policy that could not be made; the run ends at its first request.
struct Unmade;

impl policy::DestagePolicy for Unmade {
    fn on_write(&mut self, _write: policy::PageWrite, _now: &Conditions<'_>) {}

    fn pick(&mut self, directory: &Directory, _now: &Conditions<'_>) -> Option<Slot> {
        directory.slots().find(|slot| directory.may_pick(*slot))
    }

    fn candidate(&self, _directory: &Directory) -> Option<Slot> {
        None
    }
}

/// The table entry of a Python policy; one a name, kept for the life of the process.
fn entry(name: &str) -> &'static Entry {
    static ENTRIES: Mutex<BTreeMap<String, &'static Entry>> = Mutex::new(BTreeMap::new());
    let mut entries = ENTRIES.lock().expect("no thread panicked");
    entries.entry(name.to_string()).or_insert_with(|| {
        let name: &'static str = Box::leak(name.to_string().into_boxed_str());
        let (summary, source) = ("a policy in Python", "Python");
        Box::leak(Box::new(Entry { name, summary, source, params: &[] }))
    })
}

/// The choice of a policy that `factory(context)` makes.
pub fn choice(
    py: Python<'_>,
    factory: Py<PyAny>,
    name: &str,
    control: &Arc<RunControl>,
) -> PyResult<PolicyChoice> {
    let control = Arc::clone(control);
    let make = move |_: &_, context: &policy::PolicyContext| {
        let mut made: Option<Adapter> = None;
        control.attempt(|py| {
            let object = factory.call1(py, (PolicyContext(*context),))?;
            made = Some(Adapter::new(object.bind(py), context.groups, &control)?);
            Ok(())
        });
        Ok(match made {
            Some(adapter) => Box::new(adapter) as Box<dyn policy::DestagePolicy>,
            None => Box::new(Unmade),
        })
    };
    PolicyChoice::own(entry(name), name, make)
        .map_err(|why| errors::error(py, "OptionError", &why.to_string()))
}
