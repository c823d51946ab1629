//! A served array in this process, also for the tests of commands: findings and prepared devices
//! that arrive after the array has changed.

use super::*;
use crate::backends::Ram;
use crate::{FrontEnd, Listen, Port, Remote, Server, Settings};
use alarms::AlarmText;
use backend::{members, nvs};
use control::{AskError, Command, Fail, Monitoring, Recording, Stop, ask, ask_to_end, listen};
use destage_engine::array::geometry::Level;
use destage_nbd::client::Uri;
use destage_nbd::{Mode, request};
use destage_report::live::ArrayStatus;
use destage_report::state::{ArrayState, DeviceKind, DeviceState};
use destage_served::{Allow, Found, assemble, open, read_superblock};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

fn spec(path: &str) -> DeviceSpec {
    path.parse().expect("a path")
}

/// A file of zeros.
pub(super) fn file(folder: &Path, name: &str, bytes: u64) -> String {
    let path = folder.join(name);
    std::fs::File::create(&path).expect("made").set_len(bytes).expect("long");
    path.to_str().expect("text").to_string()
}

/// Level 5 over three files, with two NVS devices.
pub(super) fn config(folder: &Path) -> ArrayConfig {
    ArrayConfig {
        version: 1,
        disks: (0..3).map(|n| file(folder, &format!("d{n}"), 4 << 20)).collect(),
        nvs: (0..2).map(|n| file(folder, &format!("nvs{n}"), 3 << 20)).collect(),
        spares: Vec::new(),
        policy: "cscan".to_string(),
        rate: "linear:40/20".to_string(),
        ack: "nvs".to_string(),
        durability: "auto".to_string(),
        accept_same_drive: false,
        flush_bound_ms: 150,
        on_nvs_loss: "write-through".to_string(),
        queue_depth: 16,
        window: 8,
        stall_seconds: 30,
        save_seconds: 1,
        max_dirty: None,
        stripe_memory: 0,
        rebuild: String::new(),
        read_cache: ReadCacheConfig::default(),
    }
}

/// Ends the server, however its client ends.
struct Ends(Remote);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.hurry();
    }
}

/// A monitor that follows nothing.
struct NoMonitor;

impl Monitoring for NoMonitor {
    fn what_if(&self) -> Option<serde_json::Value> {
        None
    }

    fn record(
        &self,
        _recording: &Recording,
        _progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<serde_json::Value, RecordingError> {
        Err(RecordingError::Running)
    }
}

/// The server's side as a client's thread sees it.
pub(super) struct Client {
    pub(super) array: ArrayHandle,
    pub(super) folder: tempfile::TempDir,
}

impl Client {
    pub(super) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("text").to_string()
    }

    /// Gives a command over the control socket.
    pub(super) fn gives<C: Command>(&self, command: &C) -> Result<C::Reply, AskError> {
        ask(self.path("tank.control").as_ref(), "tank", command, |_| ())
    }

    pub(super) fn asks<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut ArrayBackend, &mut Port) -> T + Send + 'static,
    ) -> T {
        self.array.answer(work).expect("an answer")
    }

    fn status(&self) -> ArrayStatus {
        self.asks(|array, port| array.status(port))
    }

    /// The state of a device, by its kind and number.
    fn state_of(&self, kind: DeviceKind, number: u16) -> DeviceState {
        let of = |device: &destage_report::live::DeviceStatus| {
            device.kind == kind && device.number == number
        };
        self.status().devices.into_iter().find(of).expect("a device").state
    }

    /// Deletes a file of the array, and has the server see it.
    fn delete(&self, name: &str) {
        std::fs::remove_file(self.path(name)).expect("removed");
        let found = self.asks(|array, _| array.device_watch()).look_now();
        self.asks(move |array, port| found.iter().for_each(|found| array.trouble(port, found)));
    }
}

/// The devices of a new array.
pub(super) fn created(config: &ArrayConfig) -> Devices {
    created_as(Level::Raid5, config)
}

fn created_as(level: Level, config: &ArrayConfig) -> Devices {
    let specs = |paths: &[String]| paths.iter().map(|path| spec(path)).collect::<Vec<_>>();
    let (disks, nvs) = (specs(&config.disks), specs(&config.nvs));
    let options = CreateOptions {
        level,
        disks: disks.clone(),
        nvs: nvs.clone(),
        strip_pages: 4,
        group_stripes: 1,
        spares: Vec::new(),
        assume_clean: false,
    };
    create(&options, &mut |_, _| {}).expect("created");
    Devices::open(&disks, &nvs).expect("opened").0
}

/// Serves an array while a client asks. Nothing looks at its files but the client.
pub(super) fn with_array(asks: impl FnOnce(&Client) + Send + 'static) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(folder.path());
    serve(Level::Raid5, folder, config, asks);
}

/// The same with an array of this level. It is exported at `tank.sock`.
fn serve(
    level: Level,
    folder: tempfile::TempDir,
    config: ArrayConfig,
    asks: impl FnOnce(&Client) + Send + 'static,
) {
    let mut devices = created_as(level, &config);
    let places: Vec<_> = devices.places().collect();
    let read = |device| (device, read_superblock(&mut devices, device));
    let found: Vec<Found> = places.into_iter().map(read).collect();
    let assembly = assemble(&found, &Allow::default()).expect("an array");
    let settings = config.settings().expect("settings");
    let volume = open(&mut devices, &assembly, settings).expect("a volume");
    let exported = vec![(FrontEnd::Nbd, Listen::Unix(folder.path().join("tank.sock")))];
    let settings = Settings::new(export("tank", "", &volume), exported);
    let server = Server::bind(settings).expect("bound");
    let mut backend = ArrayBackend::new("tank", config, volume, devices);
    let client = Client { array: ArrayHandle::new(server.remote()), folder };
    let socket = client.path("tank.control");
    let monitor = Arc::new(NoMonitor);
    listen(socket.as_ref(), client.array.clone(), monitor).expect("a control socket");
    let ends = Ends(server.remote());
    let thread = std::thread::spawn(move || {
        let _ends = ends;
        asks(&client);
    });
    server.run(&mut backend).expect("served");
    thread.join().expect("what was asked is as expected");
}

/// A disk in memory that a server of its own serves over NBD.
pub(super) struct Nbd {
    pub(super) uri: String,
    server: Remote,
    thread: Option<JoinHandle<()>>,
}

impl Nbd {
    /// Its server takes at most this many bytes in a request.
    pub(super) fn new(folder: &Path, bytes: u64, most: u32) -> Nbd {
        let socket = folder.join("nbd.sock");
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        let mut disk = crate::backends::export("", "", bytes);
        disk.block.preferred = disk.block.preferred.min(most);
        disk.block.maximum = most;
        let settings = Settings::new(disk, vec![(FrontEnd::Nbd, Listen::Unix(socket))]);
        let server = Server::bind(settings).expect("bound");
        let remote = server.remote();
        let run = move || server.run(&mut Ram::default()).expect("served");
        Nbd { uri, server: remote, thread: Some(std::thread::spawn(run)) }
    }
}

impl Drop for Nbd {
    fn drop(&mut self) {
        self.server.hurry();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))) || std::thread::panicking());
    }
}

#[test]
fn an_array_reads_and_writes_more_than_a_members_server_takes_at_once() {
    let disks = tempfile::tempdir().expect("a folder");
    let nbd = Nbd::new(disks.path(), 16 << 20, 64 << 10);
    let folder = tempfile::tempdir().expect("a folder");
    let config =
        ArrayConfig { disks: vec![nbd.uri.clone()], nvs: Vec::new(), ..config(folder.path()) };
    serve(Level::Single, folder, config, |client| {
        let uri = format!("nbd+unix:///?socket={}", client.path("tank.sock"));
        let uri: Uri = uri.parse().expect("a URI");
        let mut disk = destage_client::Client::connect(&uri, Mode::Structured).expect("opened");
        let bytes: Vec<u8> = (0..1_u32 << 20).map(|at| (at / 3) as u8).collect();
        let (length, fua) = (bytes.len() as u32, true);
        for offset in [0, 6 << 20] {
            let write = request::Command::Write { offset, length, fua };
            disk.call(write, &bytes).expect("written");
        }
        let mut all = vec![0_u8; 8 << 20];
        all[..1 << 20].copy_from_slice(&bytes);
        all[6 << 20..7 << 20].copy_from_slice(&bytes);
        let (offset, length) = (512, (8 << 20) - 512);
        let read = request::Command::Read { offset, length, dont_fragment: false };
        assert!(disk.call(read, &[]).expect("read") == all[512..]);
        assert_eq!(client.state_of(DeviceKind::Member, 0), DeviceState::InUse);
    });
}

#[test]
fn a_new_nvs_device_does_not_take_the_place_of_the_last_one() {
    with_array(|client| {
        let new = file(client.folder.path(), "new", 3 << 20);
        let old = client.path("nvs1");
        let (slot, ready) = nvs::prepare(&client.array, Some(&old), &new).expect("ready");
        client.delete("nvs0");
        assert_eq!(client.state_of(DeviceKind::Nvs, 0), DeviceState::Failed);
        let refused = nvs::install(&client.array, &slot, ready, None, &mut |_| true);
        let refused = refused.expect_err("refused");
        assert!(matches!(refused, Refusal::OnlyNvs), "{refused}");
        let now = client.status();
        assert!(!now.alarms.iter().any(|alarm| alarm.starts_with("nvs-lost")), "{:?}", now.alarms);
        assert_eq!(now.devices.iter().filter(|d| d.device == old).count(), 1, "{:?}", now.devices);
        assert_eq!(client.state_of(DeviceKind::Nvs, 1), DeviceState::InUse);
        // Destages need no NVS device that is closed.
        let (sender, drained) = channel();
        client.asks(move |array, _| array.drain(sender));
        assert_eq!(drained.recv(), Ok(Ok(())), "nothing is dirty");
        assert_eq!(client.state_of(DeviceKind::Nvs, 1), DeviceState::InUse);
    });
}

#[test]
fn two_nvs_devices_are_not_replaced_at_once() {
    with_array(|client| {
        let ask = |old: &str, new: &str| {
            let new = file(client.folder.path(), new, 3 << 20);
            nvs::prepare(&client.array, Some(&client.path(old)), &new)
        };
        let first = ask("nvs0", "a").expect("ready");
        let refused = ask("nvs1", "b").err().expect("refused");
        assert!(matches!(refused, Refusal::NvsBusy), "{refused}");
        drop(first);
        // It was given up before it was handed over.
        ask("nvs1", "c").expect("ready");
    });
}

#[test]
fn an_array_is_degraded_however_many_alarms_came_after_the_one_of_its_nvs() {
    with_array(|client| {
        client.delete("nvs1");
        assert_eq!(client.status().state, ArrayState::Degraded);
        for number in 0..150 {
            let alarm = AlarmText::new("spare-not-taken", format!("for the cause {number}"));
            client.asks(move |array, _| array.spare_not_taken(alarm));
        }
        assert_eq!(client.status().state, ArrayState::Degraded);
        assert!(client.status().alarms.len() <= 100);
    });
}

#[test]
fn an_array_whose_only_nvs_file_was_deleted_is_degraded() {
    with_array(|client| {
        client.delete("nvs1");
        client.delete("nvs0");
        let now = client.status();
        assert!(now.alarms.iter().any(|alarm| alarm.contains("the only NVS")), "{:?}", now.alarms);
        assert_eq!(now.state, ArrayState::Degraded);
    });
}

#[test]
fn trouble_of_a_device_that_was_replaced_does_not_give_up_its_successor() {
    with_array(|client| {
        let watch = client.asks(|array, _| array.device_watch());
        std::fs::remove_file(client.path("d1")).expect("removed");
        let late = watch.look();
        assert_eq!(late.len(), 1);
        client.gives(&Fail { disk: "1".to_string() }).expect("given up");
        let new = file(client.folder.path(), "new", 4 << 20);
        members::replace(&client.array, "1", &new).expect("replaced");
        client.asks(move |array, port| late.iter().for_each(|found| array.trouble(port, found)));
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while client.status().state != ArrayState::Clean {
            assert!(std::time::Instant::now() < until, "{:?}", client.status().alarms);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(client.state_of(DeviceKind::Member, 1), DeviceState::InUse);
        // And of the new one it counts.
        client.delete("new");
        assert_eq!(client.state_of(DeviceKind::Member, 1), DeviceState::Failed);
    });
}

/// What a stop says where the server hangs up after it has said how many pages are dirty.
fn stop_that_ends_early(drain: bool) -> Result<bool, AskError> {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("tank.control");
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
    let server = std::thread::spawn(move || {
        use std::io::{BufRead, BufReader, Write};
        let (mut stream, _) = listener.accept().expect("a client");
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).expect("a request");
        stream.write_all(b"{\"progress\":7}\n").expect("said");
    });
    let most = std::time::Duration::from_secs(10);
    let ended = {
        let stop = Stop { drain, force: false, check: false };
        ask_to_end(&socket, "tank", &stop, most, |_| ())
    };
    server.join().expect("it hung up");
    ended
}

#[test]
fn a_drain_that_the_server_did_not_confirm_is_an_error() {
    let error = stop_that_ends_early(true).expect_err("not confirmed").to_string();
    assert!(error.contains("tank") && error.contains("NVS"), "{error}");
    // Without a drain it is as was asked.
    assert!(stop_that_ends_early(false).expect("ended"));
}
