//! The files of the page: built in, compressed once.

use super::body::{Reply, complete};
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderValue, VARY};
use hyper::{HeaderMap, Response, StatusCode, header};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::OnceLock;

/// The charting library, which the server is given.
type Charting = fn() -> &'static str;

struct File {
    path: &'static str,
    kind: &'static str,
    text: fn(Charting) -> &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

const FILES: [File; 6] = [
    File { path: "/", kind: "text/html; charset=utf-8", text: |_| include_str!("page.html") },
    File { path: "/page.css", kind: "text/css; charset=utf-8", text: |_| include_str!("page.css") },
    File { path: "/page.js", kind: SCRIPT, text: |_| include_str!("page.js") },
    File { path: "/charts.js", kind: SCRIPT, text: |_| include_str!("charts.js") },
    File { path: "/looks.js", kind: SCRIPT, text: |_| looks() },
    File { path: "/plotly.js", kind: SCRIPT, text: |charting| charting() },
];

/// The place of each policy in the palette, as in all plots.
fn looks() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let places: BTreeMap<_, _> = destage_report::look::LOOKS.into_iter().collect();
        format!("\"use strict\";\nconst LOOKS = {};\n", serde_json::json!(places))
    })
}

struct Packed {
    gzip: Bytes,
    tag: String,
}

fn packed(number: usize, text: &str) -> &'static Packed {
    static PACKED: [OnceLock<Packed>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];
    PACKED[number].get_or_init(|| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        let written = encoder.write_all(text.as_bytes());
        let gzip = written.and_then(|()| encoder.finish()).expect("memory takes everything");
        let hash = text.bytes().fold(14_695_981_039_346_656_037_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211)
        });
        Packed { gzip: Bytes::from(gzip), tag: format!("\"{hash:016x}\"") }
    })
}

/// The file of a path, if it is one.
pub fn file(path: &str, headers: &HeaderMap, charting: Charting) -> Option<Response<Reply>> {
    let number = FILES.iter().position(|file| file.path == path)?;
    let file = &FILES[number];
    let content = (file.text)(charting);
    let Packed { gzip, tag } = packed(number, content);
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let known = text(header::IF_NONE_MATCH).is_some_and(|tags| tags.contains(tag.as_str()));
    let mut response = if known {
        complete(StatusCode::NOT_MODIFIED, file.kind, Bytes::new())
    } else if text(header::ACCEPT_ENCODING).is_some_and(|list| list.contains("gzip")) {
        let mut response = complete(StatusCode::OK, file.kind, gzip.clone());
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
    } else {
        complete(StatusCode::OK, file.kind, Bytes::from_static(content.as_bytes()))
    };
    let headers = response.headers_mut();
    headers.insert(ETAG, HeaderValue::from_str(tag).expect("letters and digits"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_look_of_every_policy() {
        let text = looks();
        for (policy, place) in destage_report::look::LOOKS {
            assert!(text.contains(&format!("\"{policy}\":{place}")), "{policy}: {text}");
        }
        let page = include_str!("page.html");
        let at = |script: &str| page.find(script).unwrap_or_else(|| panic!("{script} is loaded"));
        assert!(at("/looks.js") < at("/charts.js"));
    }
}
