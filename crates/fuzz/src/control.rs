//! The control socket: a client's line is understood or refused in words, and so are the lines of a
//! server's answer.

use destage_server::array::control::{AskError, COMMANDS, Kind, ask_value, check_client};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};

/// More than the longest line that is read; a socket takes all of it at once.
const BYTES_MAX: usize = 80 << 10;

pub(crate) fn check(data: &[u8]) -> bool {
    match data.split_first() {
        Some((0, answer)) => answered(&answer[..answer.len().min(BYTES_MAX)]),
        _ => asked(&data[..data.len().min(BYTES_MAX)]),
    }
}

/// The server's side.
fn asked(line: &[u8]) -> bool {
    let (mut client, mut server) = UnixStream::pair().expect("two sockets");
    client.write_all(line).expect("room for it");
    client.shutdown(Shutdown::Write).expect("open");
    match check_client(&mut server) {
        None => false,
        Some(Ok(())) => true,
        Some(Err(refusal)) => {
            assert!(!refusal.to_string().is_empty());
            false
        }
    }
}

/// The client's side.
fn answered(lines: &[u8]) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("tank.control");
    let listener = UnixListener::bind(&socket).expect("bound");
    let lines = lines.to_vec();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        // The client may have left: its answer was complete, or none.
        let _ = stream.write_all(&lines);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let arguments = serde_json::Map::new();
    let asked = ask_value(&socket, "tank", "status", arguments, |_| ());
    let understood = asked.map(|asked| asked.reply);
    server.join().expect("it only answers");
    match understood {
        Ok(_) => true,
        Err(AskError::Refused(_)) => true,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for about in COMMANDS.iter().map(|entry| &entry.about) {
        let mut request = serde_json::Map::new();
        request.insert("command".to_string(), about.name.into());
        seeds.push(request.clone());
        for argument in about.arguments {
            let value = match argument.kind {
                Kind::Flag => true.into(),
                Kind::Bytes(_) => (200 << 20).into(),
                Kind::Choice(choices) => choices[0].into(),
                Kind::Member | Kind::NewDevice | Kind::Device | Kind::Text(_) => "1".into(),
            };
            request.insert(argument.name.to_string(), value);
            seeds.push(request.clone());
        }
    }
    let line = |request| format!("{}\n", serde_json::Value::Object(request)).into_bytes();
    let answers =
        ["{\"progress\":7}\n{\"reply\":null}\n", "{\"error\":\"no\"}\n", "{\"reply\":[1]}"];
    let answers = answers.map(|answer| [b"\0", answer.as_bytes()].concat());
    seeds.into_iter().map(line).chain(answers).collect()
}
