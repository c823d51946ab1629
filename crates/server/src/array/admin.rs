//! The control socket: one line of JSON asks, lines of JSON answer. Its file permissions decide
//! who may ask.

use super::backend::ArrayBackend;
use super::config::ArrayConfig;
use super::members::{NewMember, Place, Spare};
use super::mirror::{NewMirror, Slot};
use super::observe::Observation;
use super::readcache::ReadCacheChange;
use super::reconnect::Attempt;
use super::stop::{self, Saying};
use super::watch::{Found, Watch};
use crate::{Port, Remote};
use destage_block::Driver;
use destage_nvslog::superblock::Superblock;
use destage_report::live::{ArrayStatus, DeviceStatus, LIVE_VERSION, LatencyStatus};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// How it stands.
    Status,
    /// Destage everything; answered when nothing is dirty.
    Flush,
    /// End the server.
    Stop {
        /// Destage everything first.
        drain: bool,
        /// Even if deleted files, which only the server still has, are lost by it.
        #[serde(default)]
        force: bool,
    },
    /// Say whether a stop would be refused, and why.
    CheckStop,
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

impl Request {
    /// A request from JSON. A key that is not known is refused, since what it meant would not be
    /// done; and so is a change of nothing.
    ///
    /// # Errors
    /// In words, for the client.
    pub fn from_json(value: serde_json::Value) -> Result<Request, String> {
        let serde_json::Value::Object(object) = &value else {
            return Err("send a JSON object".to_string());
        };
        let other = object.keys().find(|key| *key != "command").cloned();
        let request: Request =
            serde_json::from_value(value).map_err(|error| format!("not understood: {error}"))?;
        match (&request, other) {
            (
                Request::Status
                | Request::Flush
                | Request::CheckStop
                | Request::ScrubStop
                | Request::WhatIf,
                Some(key),
            ) => Err(format!("not understood: unknown field `{key}`, expected none")),
            (Request::Set { policy: None, rate: None, rebuild: None }, _) => {
                Err("nothing to set: give policy, rate or rebuild".to_string())
            }
            (Request::ReadCache { change }, _) if change.is_empty() => {
                Err("nothing to set: give policy, bytes, vdf or writes".to_string())
            }
            _ => Ok(request),
        }
    }
}

/// What to record, and where to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
pub(super) enum Line {
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
    /// At the end destage everything, and say whether that was done.
    DrainAtEnd(Sender<Result<(), String>>),
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
    /// How the configuration names a member.
    MemberName(u16, Sender<Option<String>>),
    /// Why no spare is taken.
    SpareNotTaken(String),
    /// Spares may be taken again.
    TakeSpares,
    /// What the array is, its spares, and where the configuration is.
    Spares(Sender<Box<SparesAsked>>),
    /// Give the array a spare, or take it away.
    Spare(String, Option<Box<Spare>>, Sender<Result<(), String>>),
    /// Something is wrong with a device.
    Trouble(Found),
    /// An attempt to reach a member's server again.
    Attempt(Attempt),
    /// The devices that are looked at.
    Watch(Sender<WatchAsked>),
    /// Why the server is not to end.
    RefusesEnd(Sender<Option<String>>),
    /// End though files are lost by it.
    ForceEnd,
    /// Compare all rows, with repair or not, at a rate; `None`: end it.
    Scrub(Option<(bool, u64)>, Sender<Result<(), String>>),
    /// Which NVS device a new one takes the place of.
    MirrorSlot(Option<String>, Sender<Result<Slot, String>>),
    /// Fill a new NVS device.
    Mirror(Box<NewMirror>, Sender<Result<(), String>>),
}

/// What the array is, its spares, and where the configuration is.
pub struct SparesAsked {
    /// What the array is.
    pub array: Superblock,
    /// The spares at hand.
    pub names: Vec<String>,
    /// Those that the configuration names and that cannot be used.
    pub missing: Vec<String>,
    /// Where the configuration is.
    pub config: Option<PathBuf>,
}

/// The devices that are looked at.
pub struct WatchAsked(pub(super) Watch);

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
    match ask_line(socket, name, request, progress)?.0 {
        Line::Status(status) => Ok(Some(*status)),
        _ => Ok(None),
    }
}

/// Has a server end, and waits until it has; `false`: it has not within this time. `progress` hears
/// of dirty pages that are left.
///
/// # Errors
/// See [`AdminError`].
pub fn ask_to_end(
    socket: &Path,
    name: &str,
    [drain, force]: [bool; 2],
    most: Duration,
    progress: impl FnMut(u64),
) -> Result<bool, AdminError> {
    let request = Request::Stop { drain, force };
    let (_, mut stream) = ask_line(socket, name, &request, progress)?;
    stream.set_read_timeout(Some(most)).map_err(AdminError::Io)?;
    // The connection ends with the process, and so do its locks on the devices.
    Ok(!matches!(std::io::Read::read(&mut stream, &mut [0]), Err(error)
        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)))
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
    match ask_line(socket, name, request, progress)?.0 {
        Line::Told(value) => Ok(value),
        _ => Err(AdminError::Io(std::io::ErrorKind::InvalidData.into())),
    }
}

fn ask_line(
    socket: &Path,
    name: &str,
    request: &Request,
    mut progress: impl FnMut(u64),
) -> Result<(Line, UnixStream), AdminError> {
    let mut stream =
        UnixStream::connect(socket).map_err(|_| AdminError::NotServed(name.to_string()))?;
    let mut line = serde_json::to_string(request).map_err(|e| AdminError::Io(e.into()))?;
    line.push('\n');
    stream.write_all(line.as_bytes()).map_err(AdminError::Io)?;
    let input = stream.try_clone().map_err(AdminError::Io)?;
    for line in BufReader::new(input).lines() {
        let line = line.map_err(AdminError::Io)?;
        match serde_json::from_str(&line).map_err(|e| AdminError::Io(e.into()))? {
            Line::Progress(left) => progress(left),
            line @ (Line::Status(_) | Line::Told(_) | Line::Done) => return Ok((line, stream)),
            Line::Error(text) => return Err(AdminError::Refused(text)),
        }
    }
    match request {
        // The server is gone, which is what was asked.
        Request::Stop { drain: false, .. } => Ok((Line::Done, stream)),
        Request::Stop { drain: true, .. } => Err(AdminError::Refused(format!(
            "{name}: the server ended before it said that everything was destaged. Dirty pages are \
             still in the NVS: see `destage recover {name} --inspect`"
        ))),
        _ => Err(AdminError::Io(std::io::ErrorKind::UnexpectedEof.into())),
    }
}

/// A control socket that is listened on.
pub struct Control {
    path: PathBuf,
    inode: u64,
    saying: Saying,
}

impl Control {
    /// Waits until those who are told how the server ended have heard it. Removes the socket, if it
    /// is still this one: another server may have its own there.
    pub fn remove(self) {
        self.saying.wait(CLIENT_TIME);
        if std::fs::metadata(&self.path).is_ok_and(|about| about.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens on the control socket; the thread ends with the process. `extras` answers what the data
/// thread has no part in.
///
/// # Errors
/// If the socket cannot be made, or another server answers there.
pub fn listen(socket: &Path, remote: Remote, extras: Arc<dyn Extras>) -> std::io::Result<Control> {
    if let Some(folder) = socket.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // One that is ending still has it for a moment.
    let answers = || UnixStream::connect(socket).is_ok();
    let mut tries = 0;
    while answers() && tries < 60 {
        std::thread::sleep(Duration::from_millis(50));
        tries += 1;
    }
    if tries == 60 {
        let text = "another server of this array answers there: stop it first (`destage stop`)";
        return Err(std::io::Error::new(ErrorKind::AddrInUse, text));
    }
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    let clients = Arc::new(());
    let inode = std::fs::metadata(socket)?.ino();
    let saying = Saying::default();
    let says = saying.clone();
    std::thread::Builder::new().name("admin".to_string()).spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (remote, extras, says) = (remote.clone(), extras.clone(), says.clone());
            let client = clients.clone();
            // The count of this thread, and of this client.
            if Arc::strong_count(&clients) > CLIENTS_MAX + 1 {
                refuse(&mut stream);
                continue;
            }
            // A client that asks nothing keeps only itself waiting.
            let _ = std::thread::Builder::new().name("admin client".to_string()).spawn(move || {
                serve(stream, &remote, &*extras, &says);
                drop(client);
            });
        }
    })?;
    Ok(Control { path: socket.to_path_buf(), inode, saying })
}

/// Most clients at a time.
const CLIENTS_MAX: usize = 64;
/// Time for a request to come, and for a client to take a line of an answer.
const CLIENT_TIME: Duration = Duration::from_secs(10);
/// Longest line that is listened to.
const LINE_BYTES_MAX: usize = 64 << 10;

fn refuse(stream: &mut UnixStream) {
    // The thread that accepts waits for nobody.
    let _ = stream.set_nonblocking(true);
    let text = format!(
        "{CLIENTS_MAX} commands for this array are running, which is the most: try again when one \
         has ended"
    );
    say(stream, &Line::Error(text));
}

/// The line that a client sends, if it comes in time.
fn request_line(stream: &mut UnixStream) -> Option<String> {
    let end = std::time::Instant::now() + CLIENT_TIME;
    let (mut line, mut part) = (Vec::new(), [0; 4096]);
    while !line.contains(&b'\n') && line.len() < LINE_BYTES_MAX {
        let left = end.checked_duration_since(std::time::Instant::now())?;
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1)))).ok()?;
        match std::io::Read::read(stream, &mut part).ok()? {
            0 => break,
            count => line.extend_from_slice(&part[..count]),
        }
    }
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    String::from_utf8(line.to_vec()).ok()
}

fn serve(mut out: UnixStream, remote: &Remote, extras: &dyn Extras, saying: &Saying) {
    let _ = out.set_write_timeout(Some(CLIENT_TIME));
    let Some(line) = request_line(&mut out) else { return };
    let value = serde_json::from_str(&line).map_err(|error| format!("not understood: {error}"));
    let request = value.and_then(Request::from_json);
    let answer = match &request {
        Ok(request) => answer(request, remote, extras, &mut out),
        Err(error) => Line::Error(error.clone()),
    };
    let (ends, drains) = match request {
        Ok(Request::Stop { drain, .. }) if answer == Line::Done => (true, drain),
        _ => (false, false),
    };
    if drains {
        // The answer is known when the server is about to end, and it waits until that is said.
        let _says = saying.begin();
        let answer = stop::drained_end(remote, &mut out);
        say(&mut out, &answer);
    } else {
        if ends {
            remote.stop();
        }
        say(&mut out, &answer);
    }
    if ends {
        // Whoever asked waits for the end of this connection, which is that of the process.
        loop {
            std::thread::park();
        }
    }
}

/// Whether who asked is still there.
pub(super) fn say(out: &mut UnixStream, line: &Line) -> bool {
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
        Request::Flush => stop::drained(remote, out),
        Request::Stop { drain, force } => stop::agrees_to_end(remote, out, *drain, *force),
        Request::CheckStop => stop::refusal(remote).unwrap_or(Line::Done),
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

pub(super) fn gone() -> Line {
    Line::Error("the server is ending".to_string())
}

fn simple_ask(remote: &Remote, ask: impl FnOnce(Sender<Result<(), String>>) -> Admin) -> Line {
    let (sender, answer) = channel();
    remote.send(Box::new(ask(sender)));
    simple(answer.recv())
}

pub(super) fn simple<E>(answer: Result<Result<(), String>, E>) -> Line {
    match answer {
        Ok(Ok(())) => Line::Done,
        Ok(Err(error)) => Line::Error(error),
        Err(_) => gone(),
    }
}

pub(super) fn status(remote: &Remote) -> Option<Box<ArrayStatus>> {
    let (sender, answer) = channel();
    remote.send(Box::new(Admin::Status(sender)));
    let mut status = answer.recv().ok()?;
    status.connections = remote.connections();
    Some(status)
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
            Admin::DrainAtEnd(sender) => self.drain_at_end(sender),
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
            Admin::MemberName(member, sender) => {
                let _ = sender.send(self.member_name(member));
            }
            Admin::Replace(new) => self.put_member(port, *new),
            Admin::SpareBack(spare) => self.spare_back(*spare),
            Admin::SpareNotTaken(text) => self.spare_not_taken(text),
            Admin::TakeSpares => self.take_spares(),
            Admin::Spares(sender) => {
                let _ = sender.send(Box::new(SparesAsked {
                    array: self.volume.superblock(),
                    names: self.spare_names(),
                    missing: self.missing_spares.clone(),
                    config: self.config_path.clone(),
                }));
            }
            Admin::Spare(name, spare, sender) => {
                let _ = sender.send(self.change_spare(&name, spare));
            }
            Admin::Trouble(found) => self.trouble(port, &found),
            Admin::Attempt(attempt) => self.attempted(port, attempt),
            Admin::Watch(sender) => {
                let _ = sender.send(WatchAsked(self.watch.clone()));
            }
            Admin::RefusesEnd(sender) => {
                let _ = sender.send(self.refuses_end());
            }
            Admin::ForceEnd => self.force_end(),
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
        let waiting_for = match (&status.waiting_for, status.writes_waiting) {
            (_, waiting) if waiting > 0 => format!("NVS space, for {waiting} writes"),
            (Some((device, since)), _) => format!("{device}, {:.1} ms", *since as f64 / 1e6),
            (None, _) => "nothing".to_string(),
        };
        ArrayStatus {
            version: LIVE_VERSION,
            name: self.name().to_string(),
            state: self.state(&status).to_string(),
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
            scrub_mismatches: self.mismatches(),
            scrub_completed_unix_s: self.found.completed_unix_s,
            alarms: self.alarms.texts(),
        }
    }

    /// The worst that is so, in a word (docs/operations.md, "States").
    fn state(&self, status: &destage_served::Status) -> &'static str {
        let named = !self.config().nvs.is_empty();
        match () {
            () if status.stopped => "stopped",
            () if !status.rebuilds.is_empty() => "rebuilding",
            () if !self.volume.ready() => "recovering",
            () if !status.failed.is_empty() => "degraded",
            () if self.found.left => "inconsistent",
            () if named && status.nvs_devices.is_empty() => "no-nvs",
            () if status.nvs_devices.len() < self.config().nvs.len() => "degraded",
            () if self.ending.has_deleted() => "degraded",
            () => "clean",
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
        let ready = self.spare_names().into_iter().map(|name| (name, "ready"));
        let missing = self.missing_spares.iter().map(|name| (name.clone(), "missing"));
        for (number, (device, state)) in (0..).zip(ready.chain(missing)) {
            let (kind, state) = ("spare".to_string(), state.to_string());
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
