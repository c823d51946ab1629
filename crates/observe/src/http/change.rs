//! Commands over HTTP: handed to the control socket, as the command line does.

use destage_server::array::control::{About, Argument, Kind, ask_value, check, command};
use hyper::StatusCode;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;

/// Changes nothing: the page asks whether a token is right.
const UNLOCK: &str = "unlock";
/// How long a request waits for the answer; a command that takes longer continues.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most commands that run at a time, each on a thread of its own.
pub const COMMANDS_MAX: usize = 64;

/// What the page knows of a command.
pub fn described(about: &About) -> Value {
    let argument = |argument: &Argument| {
        let (kind, choices) = match argument.kind {
            Kind::Flag => ("flag", &[][..]),
            Kind::Choice(choices) => ("choice", choices),
            Kind::Bytes(_) => ("bytes", &[][..]),
            Kind::Member | Kind::NewDevice | Kind::Device | Kind::Text(_) => ("text", &[][..]),
        };
        json!({
            "name": argument.name,
            "kind": kind,
            "required": argument.required,
            "choices": choices,
            "help": argument.help,
        })
    };
    let arguments: Vec<Value> = about.arguments.iter().map(argument).collect();
    json!({
        "name": about.name,
        "help": about.help,
        "question": about.question,
        "changes": about.changes,
        "arguments": arguments,
    })
}

/// Gives a command.
pub async fn change(control: &Path, name: &str, body: &[u8]) -> (StatusCode, Value) {
    let error = |status, text: &str| (status, json!({ "error": text }));
    let entry = command(name).filter(|entry| entry.about.http);
    if name != UNLOCK && entry.is_none() {
        return error(StatusCode::NOT_FOUND, "there is no such command");
    }
    let arguments: Map<String, Value> = match serde_json::from_slice(body) {
        Ok(Value::Object(arguments)) => arguments,
        _ => return error(StatusCode::BAD_REQUEST, "send a JSON object"),
    };
    let Some(entry) = entry else {
        // The token was right, or the request would not have come here.
        return match arguments.is_empty() {
            true => (StatusCode::OK, json!({ "ok": true })),
            false => error(StatusCode::BAD_REQUEST, "send {}: unlock takes no arguments"),
        };
    };
    if arguments.contains_key("command") {
        let text = "leave out \"command\": the path names it";
        return error(StatusCode::BAD_REQUEST, text);
    }
    if let Err(why) = check(entry, arguments.clone()) {
        return error(StatusCode::BAD_REQUEST, &why.to_string());
    }
    let (socket, name) = (control.to_path_buf(), entry.about.name);
    let array = control.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let asked = tokio::task::spawn_blocking(move || {
        ask_value(&socket, &array.unwrap_or_default(), name, arguments, |_| ())
    });
    match tokio::time::timeout(PATIENCE, asked).await {
        Err(_) => (StatusCode::ACCEPTED, json!({ "ok": true, "note": "still running" })),
        Ok(Ok(Ok(asked))) if asked.reply.is_null() => (StatusCode::OK, json!({ "ok": true })),
        Ok(Ok(Ok(asked))) => (StatusCode::OK, json!({ "ok": true, "reply": asked.reply })),
        Ok(Ok(Err(why))) => error(StatusCode::CONFLICT, &why.to_string()),
        Ok(Err(panic)) => error(StatusCode::INTERNAL_SERVER_ERROR, &panic.to_string()),
    }
}
