//! The server's answers to LIST, INFO, GO and the metadata context options.

use super::server::{Selected, Server, Step, acknowledge, refuse, reply};
use crate::bytes::{Put, Reader};
use crate::session::{Context, Mode};
use crate::wire;

/// Data of INFO or GO.
struct InfoRequest<'a> {
    name: &'a str,
    types: Vec<u16>,
}

/// Data of LIST_META_CONTEXT or SET_META_CONTEXT.
struct MetaRequest<'a> {
    name: &'a str,
    queries: Vec<&'a str>,
}

/// Why data of an option cannot be used: the reply and its text.
type Refused = (u32, &'static str);

const MALFORMED: Refused = (wire::NBD_REP_ERR_INVALID, "malformed option data");

/// A string of the protocol: UTF-8, without NUL, of bounded length.
fn text(bytes: &[u8]) -> Result<&str, Refused> {
    if bytes.len() > wire::STRING_MAX {
        return Err((wire::NBD_REP_ERR_TOO_BIG, "a string is over 4096 bytes"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| MALFORMED)?;
    if text.contains('\0') { Err(MALFORMED) } else { Ok(text) }
}

fn info_request(data: &[u8]) -> Result<InfoRequest<'_>, Refused> {
    let mut reader = Reader(data);
    let name = text(reader.string().ok_or(MALFORMED)?)?;
    let count = reader.u16().ok_or(MALFORMED)?;
    let mut types = Vec::new();
    for _ in 0..count {
        types.push(reader.u16().ok_or(MALFORMED)?);
    }
    if reader.0.is_empty() { Ok(InfoRequest { name, types }) } else { Err(MALFORMED) }
}

fn meta_request(data: &[u8]) -> Result<MetaRequest<'_>, Refused> {
    let mut reader = Reader(data);
    let name = text(reader.string().ok_or(MALFORMED)?)?;
    let count = reader.u32().ok_or(MALFORMED)?;
    let mut queries = Vec::new();
    for _ in 0..count {
        queries.push(text(reader.string().ok_or(MALFORMED)?)?);
    }
    if reader.0.is_empty() { Ok(MetaRequest { name, queries }) } else { Err(MALFORMED) }
}

/// Does a query name the context? `namespace:` stands for all of a namespace where `wildcard`.
fn matches(query: &str, context: &str, wildcard: bool) -> bool {
    query == context || wildcard && query.ends_with(':') && context.starts_with(query)
}

impl Server {
    pub(super) fn list(&mut self, data: &[u8], out: &mut Vec<u8>) -> Step {
        let option = wire::NBD_OPT_LIST;
        if !data.is_empty() {
            return refuse(out, option, wire::NBD_REP_ERR_INVALID, "LIST has no data");
        }
        for (position, export) in self.config.exports.iter().enumerate() {
            if self.reachable(position) {
                let mut entry = Vec::new();
                entry.put_string(&export.name);
                entry.extend_from_slice(export.description.as_bytes());
                reply(out, option, wire::NBD_REP_SERVER, &entry);
            }
        }
        acknowledge(out, option)
    }

    fn reach(&self, name: &str) -> Result<usize, Refused> {
        let export = self.config.find(name).ok_or((wire::NBD_REP_ERR_UNKNOWN, "no such export"))?;
        if self.reachable(export) {
            Ok(export)
        } else {
            Err((wire::NBD_REP_ERR_TLS_REQD, "this export requires TLS"))
        }
    }

    pub(super) fn info(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Step {
        let found = info_request(data).and_then(|request| {
            let export = self.reach(request.name)?;
            Ok((request, export))
        });
        let (request, export) = match found {
            Ok(found) => found,
            Err((error, text)) => return refuse(out, option, error, text),
        };
        let go = option == wire::NBD_OPT_GO;
        let sizes_wanted = request.types.contains(&wire::NBD_INFO_BLOCK_SIZE);
        let minimum = self.config.exports[export].block.minimum;
        if go && minimum > 1 && !sizes_wanted {
            let error = wire::NBD_REP_ERR_BLOCK_SIZE_REQD;
            return refuse(out, option, error, "ask for NBD_INFO_BLOCK_SIZE");
        }
        self.put_infos(option, export, &request.types, out);
        let step = acknowledge(out, option);
        if !go {
            return step;
        }
        Step::Transmission { export, session: self.session(request.name, export) }
    }

    fn put_infos(&self, option: u32, export: usize, types: &[u16], out: &mut Vec<u8>) {
        let offered = &self.config.exports[export];
        let mut info = Vec::new();
        info.put_u16(wire::NBD_INFO_EXPORT);
        info.put_u64(offered.size);
        info.put_u16(offered.flags(self.mode));
        reply(out, option, wire::NBD_REP_INFO, &info);
        for (kind, text) in [
            (wire::NBD_INFO_NAME, &offered.name),
            (wire::NBD_INFO_DESCRIPTION, &offered.description),
        ] {
            if types.contains(&kind) && !(kind == wire::NBD_INFO_DESCRIPTION && text.is_empty()) {
                info.clear();
                info.put_u16(kind);
                info.extend_from_slice(text.as_bytes());
                reply(out, option, wire::NBD_REP_INFO, &info);
            }
        }
        if types.contains(&wire::NBD_INFO_BLOCK_SIZE) {
            info.clear();
            info.put_u16(wire::NBD_INFO_BLOCK_SIZE);
            info.put_u32(offered.block.minimum);
            info.put_u32(offered.block.preferred);
            info.put_u32(offered.block.maximum);
            reply(out, option, wire::NBD_REP_INFO, &info);
        }
    }

    pub(super) fn meta_context(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Step {
        let set = option == wire::NBD_OPT_SET_META_CONTEXT;
        if set {
            self.selected = None;
        }
        if self.mode < Mode::Structured {
            let error = wire::NBD_REP_ERR_INVALID;
            return refuse(out, option, error, "negotiate structured replies first");
        }
        let found = meta_request(data).and_then(|request| {
            let export = self.reach(request.name)?;
            Ok((request, export))
        });
        let (request, export) = match found {
            Ok(found) => found,
            Err((error, text)) => return refuse(out, option, error, text),
        };
        let contexts = self.matching(export, &request.queries, set);
        for context in &contexts {
            let mut entry = Vec::new();
            entry.put_u32(if set { context.id } else { 0 });
            entry.extend_from_slice(context.name.as_bytes());
            reply(out, option, wire::NBD_REP_META_CONTEXT, &entry);
        }
        if set {
            self.selected = Some(Selected { export, contexts });
        }
        acknowledge(out, option)
    }

    /// Contexts of an export that the queries name; LIST without queries means all.
    fn matching(&self, export: usize, queries: &[&str], set: bool) -> Vec<Context> {
        let all = !set && queries.is_empty();
        let names = self.config.exports[export].contexts.iter();
        let wanted = |name: &str| all || queries.iter().any(|query| matches(query, name, !set));
        (1..)
            .zip(names)
            .filter(|(_, name)| wanted(name))
            .map(|(id, name)| Context { id, name: name.clone() })
            .collect()
    }
}
