//! `destage create | serve | recover`: an array and its server.

use super::files::{Made, absolute, devices};
use super::quantity::bytes;
use super::target::{name, places};
use super::{assembly_words, format, listener, text};
use crate::failure::Failure;
use crate::{progress, say};
use clap::ArgMatches;
use destage_engine::array::geometry::Level;
use destage_engine::served;
use destage_engine::units::Instant;
use destage_report::{Cell, Table};
use destage_served::{
    Allow, Assembly, Device, Found, Inspection, NoSuperblock, Settings as VolumeSettings, Volume,
    assemble, inspect, open, read_superblock,
};
use destage_server::array::control::{listen, wait_until_free};
use destage_server::array::{
    Absent, ArrayBackend, ArrayConfig, ArrayHandle, CreateOptions, DeviceError, DeviceSpec,
    Devices, Places, ReadCacheChange, ReadCacheConfig, check_caches, check_drives,
    create as create_array, export, open_spares, uuid_text,
};
use destage_server::{Server, Settings};
use std::path::{Path, PathBuf};

/// `destage create`.
pub fn create(matches: &ArgMatches) -> Result<String, Failure> {
    let places = places(matches);
    let name = name(matches);
    let path = places.config_of(name).map_err(Failure::usage)?;
    if path.exists() {
        let error = destage_server::array::ConfigFileError::Exists(path);
        return Err(Failure::failed(error));
    }
    let mut made = Made::default();
    let disks = devices(matches, "disk", &mut made)?;
    let nvs = devices(matches, "nvs", &mut made)?;
    let spares = devices(matches, "spare", &mut made)?;
    let config = new_config(matches, &disks, &nvs, &spares)?;
    config.settings().map_err(Failure::usage)?;
    let options = create_options(matches, [disks, nvs, spares])?;
    check_drives(&config, options.level).map_err(Failure::failed)?;
    // A configuration that cannot be written is refused before a device is touched.
    let prepared = places.prepare(name, &config).map_err(Failure::failed)?;
    let bar = progress::bar("MiB of zeros");
    let creation = create_array(&options, &mut |done, of| {
        bar.set_length(of >> 20);
        bar.set_position(done >> 20);
    })
    .map_err(Failure::failed)?;
    bar.finish_and_clear();
    let path = match prepared.commit() {
        Ok(path) => path,
        Err(error) => {
            destage_server::array::undo(&options, &creation);
            return Err(Failure::failed(error));
        }
    };
    made.keep();
    let volume = creation.geometry.volume_pages().0 * 4096;
    let room = creation.sizes.dirty_pages;
    let limit = match config.dirty_pages_max() {
        Some(most) if most < room => format!(
            ", of which max_dirty allows {most} ({} MiB of memory)",
            (most * 4096).div_ceil(1 << 20)
        ),
        _ => String::new(),
    };
    Ok(format!(
        "created {name} ({}): level {}, {} disks, volume of {} bytes, NVS of {room} dirty \
         pages{limit}\n\
         configuration: {}\nnext: destage serve {name} --nbd unix:/path/to/{name}.sock\n",
        uuid_text(&creation.array),
        creation.geometry.level.entry().entry.name,
        config.disks.len(),
        volume,
        path.display(),
    ))
}

/// Bytes of the stripe memory.
fn stripe_memory(matches: &ArgMatches) -> Result<u64, Failure> {
    let bytes = text(matches, "stripe-memory").map(bytes).transpose()?.unwrap_or(0);
    let level = text(matches, "level").expect("default");
    if bytes > 0 && !["4", "5", "6"].contains(&level) {
        return Err(Failure::usage(format!(
            "--stripe-memory keeps parity, and level {level} has none: leave it out"
        )));
    }
    Ok(bytes)
}

/// The configuration of a new array.
fn new_config(
    matches: &ArgMatches,
    disks: &[DeviceSpec],
    nvs: &[DeviceSpec],
    spares: &[DeviceSpec],
) -> Result<ArrayConfig, Failure> {
    Ok(ArrayConfig {
        version: 1,
        disks: disks.iter().map(absolute).collect(),
        nvs: nvs.iter().map(absolute).collect(),
        spares: spares.iter().map(absolute).collect(),
        policy: text(matches, "policy").expect("default").to_string(),
        rate: text(matches, "rate").expect("default").to_string(),
        ack: text(matches, "ack").expect("default").to_string(),
        durability: text(matches, "durability").expect("default").to_string(),
        accept_same_drive: matches.get_flag("accept-same-drive"),
        flush_bound_ms: *matches.get_one("flush-bound").expect("default"),
        on_nvs_loss: text(matches, "on-nvs-loss").expect("default").to_string(),
        queue_depth: served::QUEUE_DEPTH,
        window: served::WINDOW,
        stall_seconds: 30,
        save_seconds: 300,
        max_dirty: text(matches, "max-dirty").map(bytes).transpose()?,
        stripe_memory: stripe_memory(matches)?,
        rebuild: String::new(),
        read_cache: ReadCacheConfig::default().with(read_cache(matches)?),
    })
}

fn create_options(
    matches: &ArgMatches,
    [disks, nvs, spares]: [Vec<DeviceSpec>; 3],
) -> Result<CreateOptions, Failure> {
    let strip = bytes(text(matches, "strip").expect("default"))?;
    if strip == 0 || strip % 4096 != 0 {
        return Err(Failure::usage("--strip: a multiple of 4096 bytes"));
    }
    let width = *matches.get_one::<u64>("width").expect("default");
    let level_name = text(matches, "level").expect("default");
    let target = level_name == "target";
    if target && disks.len() != 1 {
        return Err(Failure::usage("--level target takes one --disk: the array below"));
    }
    if !target && width != 1 {
        return Err(Failure::usage("--width is for --level target only"));
    }
    let level = Level::named(level_name);
    if !spares.is_empty() && !level.is_some_and(Level::is_redundant) {
        return Err(Failure::usage("--spare: this level has nothing to rebuild a member from"));
    }
    Ok(CreateOptions {
        // One disk striped by itself: a write group is a whole stripe of the array below.
        level: level.unwrap_or(Level::Raid0),
        disks,
        nvs,
        spares,
        strip_pages: strip / 4096 * width,
        group_stripes: *matches.get_one::<u64>("group-stripes").expect("default"),
        assume_clean: matches.get_flag("assume-clean"),
    })
}

/// An array's devices, opened and assembled; and those that cannot be used.
struct Assembled<'a> {
    matches: &'a ArgMatches,
    config: &'a ArrayConfig,
    devices: Devices,
    missing: Vec<(Device, DeviceError)>,
    assembly: Assembly,
    unusable: Vec<(Device, String)>,
}

impl<'a> Assembled<'a> {
    fn new(matches: &'a ArgMatches, config: &'a ArrayConfig) -> Result<Assembled<'a>, Failure> {
        let specs = |texts: &[String]| -> Result<Vec<DeviceSpec>, Failure> {
            texts.iter().map(|text| text.parse().map_err(Failure::usage)).collect()
        };
        let (disks, nvs) = (specs(&config.disks)?, specs(&config.nvs)?);
        let (devices, missing) = Devices::open(&disks, &nvs).map_err(Failure::failed)?;
        check_caches(config, &devices).map_err(Failure::failed)?;
        Assembled::without(matches, config, (devices, missing), &[], 0)
    }

    /// Assembles the devices without those that an earlier try could not use, which had at least
    /// this generation.
    fn without(
        matches: &'a ArgMatches,
        config: &'a ArrayConfig,
        (mut devices, missing): (Devices, Vec<(Device, DeviceError)>),
        without: &[(Device, NoSuperblock)],
        at_least: u64,
    ) -> Result<Assembled<'a>, Failure> {
        let allow = Allow { at_least, ..super::loss::allowed(matches, config)? };
        let places: Vec<Device> = devices.places().collect();
        let mut said = |device| match without.iter().find(|(other, _)| *other == device) {
            Some((_, why)) => Err(*why),
            None => read_superblock(&mut devices, device),
        };
        let found: Vec<Found> = places.into_iter().map(|device| (device, said(device))).collect();
        let assembly = assemble(&found, &allow).map_err(|error| {
            Failure::failed(assembly_words::refusal(&error, &found, &missing, config, &allow))
        })?;
        super::loss::accepted(matches, config, &mut devices, &assembly)?;
        let unusable = assembly_words::unusable(&found, &missing);
        Ok(Assembled { matches, config, devices, missing, assembly, unusable })
    }

    fn say_unusable(&self) {
        for (device, why) in &self.unusable {
            say::line(format_args!("{device} is not used: {why}"));
        }
    }

    /// Opens the array. A device that cannot be written, or whose lost pages are not known, counts
    /// as one that cannot be used.
    fn open(mut self, settings: &VolumeSettings) -> Result<(Volume, Assembled<'a>), Failure> {
        let (mut without, mut at_least) = (Vec::new(), 0);
        loop {
            at_least = at_least.max(self.assembly.built_on());
            match open(&mut self.devices, &self.assembly, settings.clone()) {
                Ok(volume) => return Ok((volume, self)),
                Err(error) => {
                    without.push(error.unusable().ok_or_else(|| Failure::failed(error))?);
                }
            }
            let opened = (self.devices, self.missing);
            self = Assembled::without(self.matches, self.config, opened, &without, at_least)?;
        }
    }
}

/// `destage serve`.
pub fn serve(matches: &ArgMatches) -> Result<String, Failure> {
    destage_server::give_back_large_buffers();
    let _log = super::monitoring::log(text(matches, "log-format") == Some("json"))?;
    let places = places(matches);
    let name = name(matches);
    let mut config = places.read(name).map_err(Failure::failed)?;
    if let Some(ack) = text(matches, "ack") {
        config.ack = ack.to_string();
    }
    if let Some(durability) = text(matches, "durability") {
        config.durability = durability.to_string();
    }
    config.accept_same_drive |= matches.get_flag("accept-same-drive");
    if let Some(bound) = matches.get_one("flush-bound") {
        config.flush_bound_ms = *bound;
    }
    let change = read_cache(matches)?;
    let settings = if change.is_empty() {
        config.settings().map_err(Failure::failed)?
    } else {
        config.read_cache = config.read_cache.with(change);
        config.settings().map_err(Failure::usage)?
    };
    let assembled = Assembled::new(matches, &config)?;
    let level = assembled.assembly.superblock.geometry.level;
    check_drives(&config, level).map_err(Failure::failed)?;
    let control = free_control(&places, name)?;
    let (mut volume, assembled) = assembled.open(&settings)?;
    let Assembled { devices, assembly, unusable, .. } = assembled;
    let (spares, missing_spares) = open_spares(&config.spares, &volume.superblock());
    for (member, device) in assembly.spares.iter().copied() {
        // It was about to become this member when the last run ended.
        let bytes = devices.member_bytes(member).unwrap_or(0);
        if let Err(refusal) = volume.replace(Instant::ZERO, member, device, bytes) {
            say::line(format_args!("{}: {refusal}", config.disks[usize::from(member)]));
        }
    }
    let status = volume.status();
    say::line(format_args!(
        "{name}: {} bytes, {} dirty pages in NVS, {} destages to redo",
        volume.bytes(),
        status.dirty_pages,
        status.redoing
    ));
    let export = export(name, &format!("destage array {name}"), &volume);
    let server = listener::bind(matches, export)?;
    let remote = server.remote();
    let mut backend = ArrayBackend::new(name, config, volume, devices);
    let handle = ArrayHandle::new(remote.clone());
    let monitor = super::monitoring::start(matches, name, handle.clone(), &mut backend)?;
    let socket = listen(&control, handle, std::sync::Arc::new(monitor.clone()))
        .map_err(|error| at(&control, &error))?;
    super::monitoring::http(matches, &control, monitor)?;
    backend.set_config_path(places.config_of(name).map_err(Failure::usage)?);
    backend.set_spares(spares, remote);
    backend.set_ask_for_time(listener::time_from_systemd());
    backend.report_absent(Absent { devices: unusable, spares: missing_spares });
    let result = listener::run(server, &mut backend);
    if text(matches, "http").is_some() && text(matches, "http-token-file").is_none() {
        // The token is of no use without the server.
        let _ = std::fs::remove_file(control.with_extension("token"));
    }
    socket.remove();
    result.and_then(|text| backend.ended(false).map_err(Failure::failed).map(|()| text))
}

/// The read cache that the arguments ask for.
fn read_cache(matches: &ArgMatches) -> Result<ReadCacheChange, Failure> {
    let owned = |argument| text(matches, argument).map(str::to_string);
    Ok(ReadCacheChange {
        policy: owned("read-cache"),
        bytes: text(matches, "read-cache-size").map(bytes).transpose()?,
        vdf: owned("vdf"),
        writes: owned("read-cache-writes"),
    })
}

fn at(socket: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", socket.display()))
}

/// The control socket of an array that no other server serves.
fn free_control(places: &Places, name: &str) -> Result<PathBuf, Failure> {
    let control = places.control_of(name).map_err(Failure::usage)?;
    wait_until_free(&control).map_err(|error| at(&control, &error))?;
    Ok(control)
}

/// `destage recover`.
pub fn recover(matches: &ArgMatches) -> Result<String, Failure> {
    let name = name(matches);
    let config = places(matches).read(name).map_err(Failure::failed)?;
    let mut assembled = Assembled::new(matches, &config)?;
    if matches.get_flag("inspect") {
        assembled.say_unusable();
        let Assembled { devices, assembly, .. } = &mut assembled;
        let found = inspect(devices, assembly);
        let damaged = found.damage.is_some() || found.tail.is_none() || !found.lost.is_empty();
        let text = inspected(&found, assembly).render(format(matches));
        return if damaged && !assembly.copies.is_empty() {
            print!("{text}");
            Err(Failure::failed("the NVS log is damaged"))
        } else {
            Ok(text)
        };
    }
    let _log = super::monitoring::log(false)?;
    free_control(&places(matches), name)?;
    let mut settings = config.settings().map_err(Failure::failed)?;
    // Nothing reads from it, and it takes over what there is.
    (settings.read_cache, settings.dirty_pages_max) = (None, None);
    let (volume, assembled) = assembled.open(&settings)?;
    assembled.say_unusable();
    let devices = assembled.devices;
    let (dirty, redone) = (volume.status().dirty_pages, volume.status().redoing);
    let export = export(name, "", &volume);
    let server = Server::bind(Settings::new(export, Vec::new())).map_err(Failure::failed)?;
    let mut backend = ArrayBackend::new(name, config, volume, devices);
    let remote = server.remote();
    let waits = backend.drained();
    // It looks at the devices as a server does.
    backend.set_spares(Vec::new(), remote.clone());
    std::thread::spawn(move || {
        let _ = waits.recv();
        remote.stop();
    });
    listener::run(server, &mut backend)?;
    backend.ended(true).map_err(Failure::failed)?;
    Ok(format!("{name}: {redone} destages redone, {dirty} dirty pages destaged\n"))
}

fn inspected(found: &Inspection, assembly: &Assembly) -> Table {
    let mut table = Table::new(&[("what", ""), ("value", "")]);
    let mut row = |what: &str, value: String| {
        table.push(vec![Cell::text(what), Cell::text(value)]);
    };
    row("ring", format!("{} blocks of {} bytes", found.ring.0, found.ring.1));
    row(
        "tail",
        found.tail.map_or("no anchor is valid".to_string(), |(sequence, block)| {
            format!("commit {sequence} at block {block}")
        }),
    );
    row("commits", format!("{}, the last is {}", found.commits, found.last_sequence));
    row("unfinished commits after the end", found.dropped.to_string());
    row("unreadable blocks after the end", found.unreadable_behind.to_string());
    row("commits that one mirror lacks", found.repairs.to_string());
    row("dirty pages", found.dirty_pages.to_string());
    for (device, copy) in assembly.damaged() {
        let copy = ["first", "second"][copy];
        row("damaged superblock", format!("{copy} copy of {device}; the next start repairs it"));
    }
    row("destages in flight", found.open_intents.to_string());
    if !found.unreadable.is_empty() {
        row("partly unreadable", format!("NVS devices {:?}", found.unreadable));
    }
    row("dirty pages that cannot be read", {
        let pages: u64 = found.lost.iter().map(|(_, pages)| pages).sum();
        let first = found.lost.first().map(|(first, _)| format!(", the first is {first}"));
        format!("{pages}{}", first.unwrap_or_default())
    });
    row("damage", found.damage.map_or("none".to_string(), |error| error.to_string()));
    table
}
