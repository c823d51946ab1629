//! Changes: handed to the control socket as `destage set` and the others do.

use destage_server::array::Request;
use hyper::StatusCode;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// Commands that may be given here. The control socket says which of them it knows.
const COMMANDS: [&str; 8] =
    ["set", "flush", "fail", "replace", "replace-nvs", "spare", "scrub", "scrub-stop"];
/// Changes nothing: the page asks whether a token is right.
const UNLOCK: &str = "unlock";
/// How long the answer is waited for; what was begun goes on.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of an answer.
const ANSWER_BYTES: u64 = 1 << 20;

/// Asks for a change.
pub async fn change(control: &Path, command: &str, body: &[u8]) -> (StatusCode, Value) {
    let error = |status, text: &str| (status, json!({ "error": text }));
    if command != UNLOCK && !COMMANDS.contains(&command) {
        return error(StatusCode::NOT_FOUND, "there is no such command");
    }
    let arguments: Map<String, Value> = match serde_json::from_slice(body) {
        Ok(Value::Object(arguments)) => arguments,
        _ => return error(StatusCode::BAD_REQUEST, "send a JSON object"),
    };
    if command == UNLOCK {
        // The token was right, or this would not be asked.
        return match arguments.is_empty() {
            true => (StatusCode::OK, json!({ "ok": true })),
            false => error(StatusCode::BAD_REQUEST, "send {}: unlock takes no arguments"),
        };
    }
    if arguments.contains_key("command") {
        let text = "leave out \"command\": the path names it";
        return error(StatusCode::BAD_REQUEST, text);
    }
    let mut request = arguments;
    request.insert("command".to_string(), Value::from(command));
    let request = Value::Object(request);
    let line = format!("{request}\n");
    if let Err(text) = Request::from_json(request) {
        return error(StatusCode::BAD_REQUEST, &text);
    }
    match tokio::time::timeout(PATIENCE, asked(control, &line)).await {
        Err(_) => (StatusCode::ACCEPTED, json!({ "ok": true, "note": "still running" })),
        Ok(Ok(())) => (StatusCode::OK, json!({ "ok": true })),
        Ok(Err(text)) => error(StatusCode::CONFLICT, &text),
    }
}

async fn asked(control: &Path, line: &str) -> Result<(), String> {
    let words = |error: std::io::Error| format!("the control socket: {error}");
    let mut stream = UnixStream::connect(control).await.map_err(words)?;
    stream.write_all(line.as_bytes()).await.map_err(words)?;
    let mut lines = BufReader::new(stream.take(ANSWER_BYTES)).lines();
    while let Some(line) = lines.next_line().await.map_err(words)? {
        let answer: Value = serde_json::from_str(&line).unwrap_or_default();
        if let Some(error) = answer.get("error") {
            return Err(error.as_str().unwrap_or("refused").to_string());
        }
        if answer.get("progress").is_none() {
            return Ok(());
        }
    }
    Err("the server has ended".to_string())
}
