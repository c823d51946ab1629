//! The control socket: one line of JSON asks, lines of JSON answer. Its file permissions decide
//! who may ask.

use super::backend::ArrayBackend;
use super::config::ArrayConfig;
use super::members::{NewMember, Place, Spare};
use super::mirror::{NewMirror, Slot};
use super::observe::Observation;
use super::readcache::ReadCacheChange;
use super::watch::Watched;
use crate::{Port, Remote};
use destage_engine::nvs::journal::superblock::Superblock;
use destage_report::live::{ArrayStatus, DeviceStatus, LIVE_VERSION, LatencyStatus};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Request {
    /// How it stands.
    Status,
    /// Destage everything; answered when nothing is dirty.
    Flush,
    /// End the server.
    Stop {
        /// Destage everything first.
        drain: bool,
    },
    /// Go on with another policy, rate or both.
    Set {
        /// Policy with parameters; absent: the same.
        policy: Option<String>,
        /// Rate with parameters; absent: the same.
        rate: Option<String>,
        /// Limits of rebuilds; absent: the same.
        #[serde(default)]
        rebuild: Option<String>,
    },
    /// Go on with another read cache.
    ReadCache {
        /// What is to be another.
        change: ReadCacheChange,
    },
    /// Give up a member.
    Fail {
        /// As the configuration names it, or its number.
        disk: String,
    },
    /// Put a device into a failed member's place.
    Replace {
        /// As the configuration names it, or its number.
        old: String,
        /// The device: an empty one, or a spare.
        new: String,
    },
    /// Give the array a spare, or take one away.
    Spare {
        /// The device.
        device: String,
        /// `false`: take it away.
        add: bool,
    },
    /// Compare all rows.
    Scrub {
        /// Put right what does not fit.
        repair: bool,
        /// Bytes of the members read in a second, at most.
        rate: u64,
    },
    /// End the scrub under way.
    ScrubStop,
    /// What other policies would have cost.
    WhatIf,
    /// Record the requests; answered when the recording is over.
    Record(RecordRequest),
    /// Fill a new NVS device, in the place of this one or of the one that is lost.
    ReplaceNvs {
        /// As the configuration names it.
        old: Option<String>,
        /// The new one.
        new: String,
    },
}

/// What to record, and where to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordRequest {
    /// The file, as the server is to name it.
    pub out: std::path::PathBuf,
    /// For so many seconds at most.
    pub seconds: Option<f64>,
    /// So many requests at most.
    pub requests: u64,
    /// Of so many write groups only one, chosen by its number.
    pub one_in: u64,
}

/// What is answered without the data thread.
pub trait Extras: Send + Sync {
    /// What other policies would have cost.
    ///
    /// # Errors
    /// In words, for who asked.
    fn what_if(&self) -> Result<serde_json::Value, String>;

    /// Records requests. `progress` hears how many there are, and says whether to go on.
    ///
    /// # Errors
    /// In words, for who asked.
    fn record(
        &self,
        record: &RecordRequest,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<serde_json::Value, String>;
}

/// A line of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Status(Box<ArrayStatus>),
    /// What [`Extras`] say.
    Told(serde_json::Value),
    /// Dirty pages left, or requests recorded.
    Progress(u64),
    Done,
    Error(String),
}

/// A question to the data thread.
pub enum Admin {
    /// How it stands.
    Status(Sender<Box<ArrayStatus>>),
    /// All that is counted.
    Observe(Sender<Box<Observation>>),
    /// Destage everything.
    Drain(Sender<Result<(), String>>),
    /// Another policy, rate or limits of rebuilds.
    Set([Option<String>; 3], Sender<Result<(), String>>),
    /// Another read cache.
    ReadCache(ReadCacheChange, Sender<Result<(), String>>),
    /// Give up a member.
    Fail(String, Sender<Result<(), String>>),
    /// The place of a failed member for a new device, by the names of both.
    MemberPlace(String, String, Sender<Result<Box<Place>, String>>),
    /// A device for a failed member's place.
    Replace(Box<NewMember>),
    /// A spare that could not be made a member.
    SpareBack(Box<Spare>),
    /// Why no spare is taken.
    SpareNotTaken(String),
    /// Spares may be taken again.
    TakeSpares,
    /// What the array is, its spares, and where the configuration is.
    Spares(Sender<SparesAsked>),
    /// Give the array a spare, or take it away.
    Spare(String, Option<Box<Spare>>, Sender<Result<(), String>>),
    /// A file was deleted.
    Deleted(Watched),
    /// Compare all rows, with repair or not, at a rate; `None`: end it.
    Scrub(Option<(bool, u64)>, Sender<Result<(), String>>),
    /// Which NVS device a new one takes the place of.
    MirrorSlot(Option<String>, Sender<Result<Slot, String>>),
    /// Fill a new NVS device.
    Mirror(Box<NewMirror>, Sender<Result<(), String>>),
}

/// What the array is, its spares, and where the configuration is.
pub type SparesAsked = Box<(Superblock, Vec<String>, Option<PathBuf>)>;

/// Why an array cannot be asked.
#[derive(Debug)]
pub enum AdminError {
    /// No server listens there.
    NotServed(String),
    /// The connection broke.
    Io(std::io::Error),
    /// The array refuses.
    Refused(String),
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminError::NotServed(name) => {
                write!(f, "{name} is not being served: start it with `destage serve {name} ...`")
            }
            AdminError::Io(error) => error.fmt(f),
            AdminError::Refused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for AdminError {}

/// Asks a served array. `progress` hears of dirty pages that are left. The status, if asked for.
///
/// # Errors
/// See [`AdminError`].
pub fn ask(
    socket: &Path,
    name: &str,
    request: &Request,
    progress: impl FnMut(u64),
) -> Result<Option<ArrayStatus>, AdminError> {
    match ask_line(socket, name, request, progress)? {
        Line::Status(status) => Ok(Some(*status)),
        _ => Ok(None),
    }
}

/// Asks what is answered by [`Extras`].
///
/// # Errors
/// See [`AdminError`].
pub fn ask_extra(
    socket: &Path,
    name: &str,
    request: &Request,
    progress: impl FnMut(u64),
) -> Result<serde_json::Value, AdminError> {
    match ask_line(socket, name, request, progress)? {
        Line::Told(value) => Ok(value),
        _ => Err(AdminError::Io(std::io::ErrorKind::InvalidData.into())),
    }
}

fn ask_line(
    socket: &Path,
    name: &str,
    request: &Request,
    mut progress: impl FnMut(u64),
) -> Result<Line, AdminError> {
    let mut stream =
        UnixStream::connect(socket).map_err(|_| AdminError::NotServed(name.to_string()))?;
    let mut line = serde_json::to_string(request).map_err(|e| AdminError::Io(e.into()))?;
    line.push('\n');
    stream.write_all(line.as_bytes()).map_err(AdminError::Io)?;
    for line in BufReader::new(stream).lines() {
        let line = line.map_err(AdminError::Io)?;
        match serde_json::from_str(&line).map_err(|e| AdminError::Io(e.into()))? {
            Line::Progress(left) => progress(left),
            line @ (Line::Status(_) | Line::Told(_) | Line::Done) => return Ok(line),
            Line::Error(text) => return Err(AdminError::Refused(text)),
        }
    }
    match request {
        // The server is gone, which is what was asked.
        Request::Stop { .. } => Ok(Line::Done),
        _ => Err(AdminError::Io(std::io::ErrorKind::UnexpectedEof.into())),
    }
}

/// Listens on the control socket; the thread ends with the process. `extras` answers what the data
/// thread has no part in.
///
/// # Errors
/// If the socket cannot be made.
pub fn listen(socket: &Path, remote: Remote, extras: Arc<dyn Extras>) -> std::io::Result<()> {
    if let Some(folder) = socket.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    std::thread::Builder::new().name("admin".to_string()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let (remote, extras) = (remote.clone(), extras.clone());
            // A client that asks nothing keeps only itself waiting.
            let _ = std::thread::Builder::new()
                .name("admin client".to_string())
                .spawn(move || serve(stream, &remote, &*extras));
        }
    })?;
    Ok(())
}

/// Longest line that is listened to.
const LINE_BYTES_MAX: u64 = 64 << 10;

fn serve(stream: UnixStream, remote: &Remote, extras: &dyn Extras) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
    let Ok(mut out) = stream.try_clone() else { return };
    let mut line = String::new();
    let mut input = BufReader::new(std::io::Read::take(stream, LINE_BYTES_MAX));
    if input.read_line(&mut line).is_err() {
        return;
    }
    let answer = match serde_json::from_str(&line) {
        Ok(request) => answer(&request, remote, extras, &mut out),
        Err(error) => Line::Error(format!("not understood: {error}")),
    };
    say(&mut out, &answer);
    if matches!(serde_json::from_str(&line), Ok(Request::Stop { .. })) && answer == Line::Done {
        remote.stop();
    }
}

/// Whether who asked is still there.
fn say(out: &mut UnixStream, line: &Line) -> bool {
    serde_json::to_string(line).is_ok_and(|text| writeln!(out, "{text}").is_ok())
}

fn answer(request: &Request, remote: &Remote, extras: &dyn Extras, out: &mut UnixStream) -> Line {
    let told = |told: Result<_, String>| told.map_or_else(Line::Error, Line::Told);
    match request {
        Request::WhatIf => told(extras.what_if()),
        Request::Record(record) => {
            told(extras.record(record, &mut |count| say(out, &Line::Progress(count))))
        }
        Request::Status => match status(remote) {
            Some(status) => Line::Status(status),
            None => gone(),
        },
        Request::Flush | Request::Stop { drain: true } => drained(remote, out),
        Request::Stop { drain: false } => Line::Done,
        Request::Set { policy, rate, rebuild } => {
            let all = [policy.clone(), rate.clone(), rebuild.clone()];
            simple_ask(remote, |sender| Admin::Set(all, sender))
        }
        Request::Fail { disk } => simple_ask(remote, |sender| Admin::Fail(disk.clone(), sender)),
        Request::Replace { old, new } => {
            simple(Ok::<_, ()>(super::members::replace(remote, old, new)))
        }
        Request::Spare { device, add } => {
            simple(Ok::<_, ()>(super::members::spare(remote, device, *add)))
        }
        Request::ReadCache { change } => {
            simple_ask(remote, |sender| Admin::ReadCache(change.clone(), sender))
        }
        Request::Scrub { repair, rate } => {
            simple_ask(remote, |sender| Admin::Scrub(Some((*repair, *rate)), sender))
        }
        Request::ReplaceNvs { old, new } => {
            simple(Ok::<_, ()>(super::mirror::replace(remote, old.as_deref(), new)))
        }
        Request::ScrubStop => simple_ask(remote, |sender| Admin::Scrub(None, sender)),
    }
}

fn gone() -> Line {
    Line::Error("the server is ending".to_string())
}

fn simple_ask(remote: &Remote, ask: impl FnOnce(Sender<Result<(), String>>) -> Admin) -> Line {
    let (sender, answer) = channel();
    remote.send(Box::new(ask(sender)));
    simple(answer.recv())
}

fn simple<E>(answer: Result<Result<(), String>, E>) -> Line {
    match answer {
        Ok(Ok(())) => Line::Done,
        Ok(Err(error)) => Line::Error(error),
        Err(_) => gone(),
    }
}

fn status(remote: &Remote) -> Option<Box<ArrayStatus>> {
    let (sender, answer) = channel();
    remote.send(Box::new(Admin::Status(sender)));
    let mut status = answer.recv().ok()?;
    status.connections = remote.connections();
    Some(status)
}

/// Waits until nothing is dirty, and says how much is left.
fn drained(remote: &Remote, out: &mut UnixStream) -> Line {
    let (sender, answer) = channel();
    remote.send(Box::new(Admin::Drain(sender)));
    loop {
        match answer.recv_timeout(Duration::from_millis(500)) {
            Ok(result) => return simple(Ok::<_, ()>(result)),
            Err(RecvTimeoutError::Disconnected) => return gone(),
            Err(RecvTimeoutError::Timeout) => {
                let Some(status) = status(remote) else { return gone() };
                say(out, &Line::Progress(status.dirty_pages));
            }
        }
    }
}

fn times(of: &Histogram<u64>) -> LatencyStatus {
    let us = |ns: u64| ns as f64 / 1e3;
    if of.is_empty() {
        return LatencyStatus::default();
    }
    LatencyStatus {
        requests: of.len(),
        mean_us: of.mean() / 1e3,
        p50_us: us(of.value_at_quantile(0.5)),
        p99_us: us(of.value_at_quantile(0.99)),
        p999_us: us(of.value_at_quantile(0.999)),
        max_us: us(of.max()),
    }
}

impl ArrayBackend {
    /// Answers a question of the control socket.
    pub(crate) fn administer(&mut self, port: &mut Port, admin: Admin) {
        // Whoever asked may be gone: then nobody hears the answer.
        match admin {
            Admin::Status(sender) => {
                let _ = sender.send(Box::new(self.live(port)));
            }
            Admin::Observe(sender) => {
                let now = port.now();
                let _ = sender.send(Box::new(self.observe(now, self.standing(port))));
            }
            Admin::Drain(sender) => self.drains.push(sender),
            Admin::Set(all, sender) => {
                let _ = sender.send(self.set(all));
            }
            Admin::ReadCache(change, sender) => {
                let _ = sender.send(self.change_read_cache(change));
            }
            Admin::Scrub(begin, sender) => {
                let now = port.now();
                let _ = sender.send(match begin {
                    Some((repair, rate)) => self.scrub(now, repair, rate),
                    None => self.end_scrub(now),
                });
            }
            Admin::MirrorSlot(old, sender) => {
                let _ = sender.send(self.mirror_slot(port, old.as_deref()));
            }
            Admin::Mirror(new, sender) => {
                let _ = sender.send(self.mirror(port, *new));
            }
            Admin::Fail(disk, sender) => {
                let _ = sender.send(self.fail_member(&disk));
            }
            Admin::MemberPlace(old, new, sender) => {
                let _ = sender.send(self.member_place(port, &old, &new));
            }
            Admin::Replace(new) => self.put_member(port, *new),
            Admin::SpareBack(spare) => self.spare_back(*spare),
            Admin::SpareNotTaken(text) => self.spare_not_taken(text),
            Admin::TakeSpares => self.take_spares(),
            Admin::Spares(sender) => {
                let (array, names) = (self.volume.superblock(), self.spare_names());
                let _ = sender.send(Box::new((array, names, self.config_path.clone())));
            }
            Admin::Spare(name, spare, sender) => {
                let _ = sender.send(self.change_spare(&name, spare));
            }
            Admin::Deleted(whose) => self.deleted(port, &whose),
        }
    }

    fn set(&mut self, [policy, rate, rebuild]: [Option<String>; 3]) -> Result<(), String> {
        let mut config: ArrayConfig = self.config().clone();
        let other = policy.is_some() || rate.is_some();
        config.policy = policy.unwrap_or(config.policy);
        config.rate = rate.unwrap_or(config.rate);
        config.rebuild = rebuild.unwrap_or(config.rebuild);
        let settings = config.settings().map_err(|error| error.to_string())?;
        if other {
            let changed = self.volume.change(&settings.policy, &settings.rate);
            changed.map_err(|error| error.to_string())?;
        }
        self.volume.set_rebuild_limits(settings.rebuild);
        self.set_config(config);
        Ok(())
    }

    fn live(&self, port: &Port) -> ArrayStatus {
        let [reads, writes, flushes] = self.times.0.each_ref().map(times);
        ArrayStatus { reads, writes, flushes, ..self.standing(port) }
    }

    /// Without the times of requests, which cost the most.
    fn standing(&self, port: &Port) -> ArrayStatus {
        let status = self.volume.status();
        let config = self.config();
        let counters = &status.counters;
        let whole = status.failed.is_empty() && status.rebuilds.is_empty();
        let state = match (status.stopped, self.volume.ready(), whole) {
            (true, ..) => "stopped",
            _ if !status.rebuilds.is_empty() => "rebuilding",
            (_, false, _) => "recovering",
            (.., false) => "degraded",
            (.., true) => "clean",
        };
        let waiting_for = match (&status.waiting_for, status.writes_waiting) {
            (_, waiting) if waiting > 0 => format!("NVS space, for {waiting} writes"),
            (Some((device, since)), _) => format!("{device}, {:.1} ms", *since as f64 / 1e6),
            (None, _) => "nothing".to_string(),
        };
        ArrayStatus {
            version: LIVE_VERSION,
            name: self.name().to_string(),
            state: state.to_string(),
            waiting_for,
            level: self.volume.controller().geometry().level.entry().entry.name.to_string(),
            volume_bytes: self.volume.bytes(),
            policy: config.policy.clone(),
            rate: config.rate.clone(),
            ack: config.ack.clone(),
            uptime_s: port.now().0 as f64 / 1e9,
            occupancy_pages: status.occupancy_pages,
            nvs_pages: status.nvs_pages,
            dirty_pages: status.dirty_pages,
            destages_in_flight: status.destages_in_flight,
            destages: counters.destages,
            destaged_pages: counters.destaged_pages,
            stalled_writes: counters.stalled_writes,
            writes_waiting: status.writes_waiting,
            requests: status.requests,
            operations: status.operations,
            connections: 0,
            pages_written: counters.pages_written,
            page_hits: counters.page_hits,
            read_requests: counters.read_requests,
            read_request_hits: counters.read_request_hits,
            disk_reads: counters.disk_reads,
            disk_writes: counters.disk_writes,
            log_bytes_written: status.log_bytes_written,
            log_bytes_used: status.log_bytes_used,
            reads: LatencyStatus::default(),
            writes: LatencyStatus::default(),
            flushes: LatencyStatus::default(),
            devices: self.device_states(&status.failed, &status.nvs_devices),
            rebuild_limits: config.rebuild.clone(),
            rebuilds: self.rebuilds_told(),
            lost: self.lost_told(),
            read_cache: self.read_cache_told(&status),
            mirror: self.mirror_told(),
            scrub: self.scrub_told(port.now()),
            alarms: self.alarms.texts(),
        }
    }

    fn device_states(&self, failed: &[u16], nvs: &[u16]) -> Vec<DeviceStatus> {
        let config = self.config();
        let filled = self.volume.mirror_status().map(|mirror| mirror.copy);
        let state = |used: bool| if used { "in use" } else { "failed" }.to_string();
        let one = |kind: &str, number: usize, device: &String, used: bool| DeviceStatus {
            kind: kind.to_string(),
            number: number as u16,
            device: device.clone(),
            state: state(used),
        };
        let members = config.disks.iter().enumerate();
        let members = members.map(|(n, d)| one("member", n, d, !failed.contains(&(n as u16))));
        let copies = config.nvs.iter().enumerate();
        let copies = copies.map(|(n, d)| one("nvs", n, d, nvs.contains(&(n as u16))));
        let mut all: Vec<DeviceStatus> = members.chain(copies).collect();
        for rebuild in self.volume.rebuild_status() {
            all[usize::from(rebuild.member)].state = "rebuilding".to_string();
        }
        for (number, device) in (0..).zip(self.spare_names()) {
            let (kind, state) = ("spare".to_string(), "ready".to_string());
            all.push(DeviceStatus { kind, number, device, state });
        }
        for device in all.iter_mut().filter(|device| device.kind == "nvs") {
            if filled == Some(device.number) {
                device.state = "being filled".to_string();
            }
        }
        all
    }
}
