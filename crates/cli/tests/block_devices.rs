//! An array of block devices: loop devices, where the machine lets us have them.

mod common;

use common::array::Array;
use common::{fails, succeeds};
use std::process::Command;

/// Loop devices over files; they go when this does.
struct Loops(Vec<String>);

impl Loops {
    fn attach(&mut self, path: &str) -> Result<String, String> {
        let file = std::fs::File::create_new(path).map_err(|error| format!("{path}: {error}"))?;
        file.set_len(32 << 20).map_err(|error| format!("{path}: {error}"))?;
        let output = Command::new("losetup").args(["--find", "--show", path]).output();
        let output = output.map_err(|error| format!("losetup: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
        }
        let device = String::from_utf8_lossy(&output.stdout).trim().to_string();
        self.0.push(device.clone());
        Ok(device)
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for device in &self.0 {
            let _ = Command::new("losetup").args(["-d", device]).status();
        }
    }
}

#[test]
fn members_and_nvs_on_block_devices_are_written_directly() {
    // Dropped in the other order: the server lets go of the devices first.
    let mut loops = Loops(Vec::new());
    let mut array = Array::empty();
    let mut devices = Vec::new();
    for name in ["d0", "d1", "d2", "nvs"] {
        match loops.attach(&array.path(name)) {
            Ok(device) => devices.push(device),
            Err(error) => {
                println!("SKIPPED: no loop devices: {error}");
                return;
            }
        }
    }
    let folder = array.path("");
    let [d0, d1, d2, nvs] = [&devices[0], &devices[1], &devices[2], &devices[3]];
    let words = ["create", "tank", "--disk", d0, "--disk", d1, "--disk", d2, "--nvs", nvs];
    succeeds(&[&words[..], &["--config-dir", &folder]].concat());
    array.serve(&[]);
    // Memory that is mapped from a disk is written back some time: no place for a log.
    let server = array.server.as_ref().expect("served").id();
    let maps = std::fs::read_to_string(format!("/proc/{server}/maps")).expect("its mappings");
    assert!(!maps.contains("/dev/"), "a device is mapped:\n{maps}");
    let words = ["create", "other", "--level", "single", "--disk", d0, "--nvs", nvs];
    let error = fails(1, &[&words[..], &["--config-dir", &folder]].concat());
    assert!(error.contains("is in use by another"), "{error}");
    let (log, uri) = (array.path("acked"), array.uri());
    succeeds(&["bench", &uri, "--time", "500ms", "--depth", "8", "--log", &log]);
    array.kill();
    array.serve(&[]);
    succeeds(&["bench", &uri, "--check", &log]);
    array.stop();
    array.asks(&["recover", "tank"]);
    drop(array);
}
