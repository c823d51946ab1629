//! Serves an array with a deliberate fault, to show that a test of served arrays finds it:
//!
//!     cargo run --release -p destage-server --example faulty -- FAULT NAME CONFIG_DIR SOCKET
//!
//! FAULT is a name in `served/src/defect.rs`, e.g. AcknowledgesEarly, or None. The released program
//! has no such faults.

use destage_served::{Allow, Defect, Found, assemble, open, read_superblock};
use destage_server::array::{ArrayBackend, DeviceSpec, Devices, Places, export};
use destage_server::{FrontEnd, Server, Settings, stop_on_signals};
use std::error::Error;
use std::path::PathBuf;

/// The devices that a configuration names.
fn specs(names: &[String]) -> Result<Vec<DeviceSpec>, Box<dyn Error>> {
    names.iter().map(|name| name.parse().map_err(Into::into)).collect()
}

fn fault(name: &str) -> Result<Defect, String> {
    let mut all = [Defect::None].iter().chain(Defect::ALL);
    let found = all.find(|fault| format!("{fault:?}") == name);
    found.copied().ok_or_else(|| format!("{name}: no such fault: see served/src/defect.rs"))
}

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [fault_name, name, config_dir, socket] = given.as_slice() else {
        return Err("faulty FAULT NAME CONFIG_DIR SOCKET".into());
    };
    let places = Places { config: PathBuf::from(config_dir), run: PathBuf::from(config_dir) };
    let config = places.read(name)?;
    let (mut devices, missing) = Devices::open(&specs(&config.disks)?, &specs(&config.nvs)?)?;
    if let Some((device, error)) = missing.first() {
        return Err(format!("{device:?}: {error}").into());
    }
    let all: Vec<_> = devices.places().collect();
    let read = |device| (device, read_superblock(&mut devices, device));
    let found: Vec<Found> = all.into_iter().map(read).collect();
    let assembly = assemble(&found, &Allow::default()).map_err(|error| format!("{error:?}"))?;
    let mut settings = config.settings()?;
    settings.defect = fault(fault_name)?;
    let volume = open(&mut devices, &assembly, settings)?;
    let listen = vec![(FrontEnd::ALL[0], format!("unix:{socket}").parse()?)];
    let server = Server::bind(Settings::new(export(name, "", &volume), listen))?;
    let mut backend = ArrayBackend::new(name, config, volume, devices);
    stop_on_signals(server.remote())?;
    eprintln!("faulty: {fault_name}: serving on unix:{socket}");
    server.run(&mut backend)?;
    Ok(())
}
