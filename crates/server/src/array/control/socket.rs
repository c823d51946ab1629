//! The control socket: a client sends one line of JSON with a command; lines of JSON answer. The
//! permissions of the socket decide who may give commands.

use super::command::{Context, Monitoring, Parsed};
use super::end_reports::EndReports;
use super::parse;
use crate::array::backend::ArrayHandle;
use crate::array::refusal::Refusal;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most clients at a time.
const CLIENTS_MAX: usize = 64;
/// Time for a request to arrive, and for a client to take a line of an answer.
const CLIENT_TIME: Duration = Duration::from_secs(10);
/// Longest line that is read.
const LINE_BYTES_MAX: usize = 64 << 10;
/// How long no client is accepted after the system refused one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often, and how many times, a start tries a socket that another server still has.
const ENDING_WAIT: Duration = Duration::from_millis(50);
const ENDING_WAITS: usize = 60;

/// A line of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Line {
    /// Dirty pages left, or requests recorded.
    Progress(u64),
    /// It is done, with this reply.
    Reply(Value),
    /// It was refused, or failed.
    Error(String),
}

/// A control socket that accepts clients.
pub struct Control {
    path: PathBuf,
    inode: u64,
    end_reports: EndReports,
}

impl Control {
    /// Waits until the clients that wait for the end of the server have its result. Removes the
    /// socket if it is still this one: another server may have its own there.
    pub fn remove(self) {
        self.end_reports.wait(CLIENT_TIME);
        if std::fs::metadata(&self.path).is_ok_and(|about| about.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// What every client's thread has.
#[derive(Clone)]
struct Shared {
    array: ArrayHandle,
    monitor: Arc<dyn Monitoring>,
    end_reports: EndReports,
    /// One for each thread that has it.
    clients: Arc<()>,
}

/// Waits for a moment while a server that is ending still answers at this control socket. Call it
/// before anything is written to the devices: those over NBD are locked by nobody.
///
/// # Errors
/// Another server of the array answers.
pub fn wait_until_free(socket: &Path) -> std::io::Result<()> {
    let mut waits = 0;
    while UnixStream::connect(socket).is_ok() {
        if waits == ENDING_WAITS {
            let text = "another server of this array answers there: stop it first (`destage stop`)";
            return Err(std::io::Error::new(ErrorKind::AddrInUse, text));
        }
        std::thread::sleep(ENDING_WAIT);
        waits += 1;
    }
    Ok(())
}

/// Listens on the control socket; the thread ends with the process. `monitor` answers what the data
/// thread has no part in.
///
/// # Errors
/// If the socket cannot be made, or another server answers there.
pub fn listen(
    socket: &Path,
    array: ArrayHandle,
    monitor: Arc<dyn Monitoring>,
) -> std::io::Result<Control> {
    if let Some(folder) = socket.parent() {
        std::fs::create_dir_all(folder)?;
    }
    wait_until_free(socket)?;
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    let inode = std::fs::metadata(socket)?.ino();
    let end_reports = EndReports::default();
    let clients = Arc::new(());
    let shared = Shared { array, monitor, end_reports: end_reports.clone(), clients };
    std::thread::Builder::new().name("control".to_string()).spawn(move || {
        for mut stream in accepted(listener.incoming()) {
            // This thread has one too.
            if Arc::strong_count(&shared.clients) > CLIENTS_MAX {
                refuse(&mut stream);
                continue;
            }
            let shared = shared.clone();
            // A client that sends nothing keeps only its own thread waiting.
            let thread = std::thread::Builder::new().name("control client".to_string());
            let _ = thread.spawn(move || serve(stream, &shared));
        }
    })?;
    Ok(Control { path: socket.to_path_buf(), inode, end_reports })
}

/// The clients that connect. Where the system has no descriptor for one, the next try would fail at
/// once, too.
fn accepted(
    incoming: impl Iterator<Item = std::io::Result<UnixStream>>,
) -> impl Iterator<Item = UnixStream> {
    incoming.filter_map(|stream| {
        if stream.is_err() {
            std::thread::sleep(ACCEPT_PAUSE);
        }
        stream.ok()
    })
}

fn refuse(stream: &mut UnixStream) {
    // The thread that accepts must not wait for a client.
    let _ = stream.set_nonblocking(true);
    let text = format!(
        "{CLIENTS_MAX} commands for this array are running, which is the most: try again when one \
         has ended"
    );
    send(stream, &Line::Error(text));
}

/// The line that a client sends, if it arrives in time.
fn request_line(stream: &mut UnixStream) -> Option<String> {
    let end = Instant::now() + CLIENT_TIME;
    let (mut line, mut part) = (Vec::new(), [0; 4096]);
    while !line.contains(&b'\n') && line.len() < LINE_BYTES_MAX {
        let left = end.checked_duration_since(Instant::now())?;
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1)))).ok()?;
        match stream.read(&mut part).ok()? {
            0 => break,
            count => line.extend_from_slice(&part[..count]),
        }
    }
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    String::from_utf8(line.to_vec()).ok()
}

fn serve(mut stream: UnixStream, shared: &Shared) {
    let _ = stream.set_write_timeout(Some(CLIENT_TIME));
    let Some(line) = request_line(&mut stream) else { return };
    let mut progress = |count| send(&mut stream, &Line::Progress(count));
    let mut context = Context {
        array: &shared.array,
        monitor: &*shared.monitor,
        progress: &mut progress,
        end_reports: &shared.end_reports,
        end_report: None,
        ends: false,
    };
    let result = answer(&line, &mut context);
    let Context { ends, end_report, .. } = context;
    send(&mut stream, &result.map_or_else(|why| Line::Error(why.to_string()), Line::Reply));
    drop(end_report);
    if ends {
        // The client waits for the end of this connection, which is that of the process.
        loop {
            std::thread::park();
        }
    }
}

fn answer(line: &str, context: &mut Context<'_>) -> Result<Value, Refusal> {
    understood(line)?.run(context)
}

fn understood(line: &str) -> Result<Parsed, Refusal> {
    let request = serde_json::from_str(line);
    let request = request.map_err(|error| Refusal::Malformed(format!("invalid: {error}")))?;
    parse(request)
}

/// Reads a client's request without carrying it out; `None`: it did not arrive.
#[must_use]
pub fn check_client(stream: &mut UnixStream) -> Option<Result<(), Refusal>> {
    let line = request_line(stream)?;
    Some(understood(&line).map(|_| ()))
}

/// Sends a line; false if the client has disconnected.
fn send(stream: &mut UnixStream, line: &Line) -> bool {
    serde_json::to_string(line).is_ok_and(|text| writeln!(stream, "{text}").is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_system_refuses_clients_it_is_not_asked_without_pause() {
        let (stream, _other) = UnixStream::pair().expect("a pair");
        let refused = || Err(std::io::Error::from_raw_os_error(libc::EMFILE));
        let begun = Instant::now();
        assert_eq!(accepted([refused(), Ok(stream), refused()].into_iter()).count(), 1);
        assert!(begun.elapsed() >= 2 * ACCEPT_PAUSE);
    }
}
