//! Reconnects to the server of a remote member, on a thread of its own, and checks that the disk
//! there is still the same.

use super::devices::{Async, Devices, Opened, less_than_a_page, short_requests};
use super::remote::Identity;
use destage_client::{Client, ClientError};
use destage_nbd::client::Uri;
use destage_nbd::{Mode, Session};
use destage_nvslog::superblock::{Role, Superblock};
use destage_served::{Device, IoError, NoSuperblock, read_superblock};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Pauses between attempts: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long an attempt waits for the server: one that hangs may be followed by one that answers.
const PATIENCE: Duration = Duration::from_secs(4);

/// The result of an attempt.
pub(super) enum Tried {
    /// It failed; there will be another.
    Failed(IoError),
    /// The disk there is not the member, and why.
    Another(String),
    /// A connection, and what was negotiated.
    Back(OwnedFd, Box<Session>),
}

/// Tries until it succeeds, the disk is another one, or `report` returns false.
fn connect_again(identity: &Identity, ended: &AtomicBool, report: impl Fn(Tried) -> bool) {
    let mut pause = PAUSE;
    while !ended.load(Ordering::Relaxed) {
        let tried = once(identity);
        let again = matches!(tried, Tried::Failed(_));
        if !report(tried) || !again {
            return;
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

fn once(identity: &Identity) -> Tried {
    let uri: Uri = match identity.uri.parse() {
        Ok(uri) => uri,
        Err(error) => return Tried::Another(format!("{error}")),
    };
    let client = match Client::connect_within(&uri, Mode::Structured, PATIENCE) {
        Ok(client) => client,
        Err(ClientError::Silent(_)) => {
            return Tried::Failed(IoError::from_errno(libc::ETIMEDOUT));
        }
        Err(ClientError::Io(error)) => return Tried::Failed(IoError::from_std(&error)),
        // It may be about to start, or to end.
        Err(_) => return Tried::Failed(IoError::from_errno(libc::ECONNRESET)),
    };
    let bytes = client.session().size;
    if bytes != identity.bytes {
        let text = format!("it has {bytes} bytes instead of {}", identity.bytes);
        return Tried::Another(text);
    }
    if !client.offers_flush() {
        return Tried::Another("its server does not offer FLUSH".to_string());
    }
    if let Some(most) = less_than_a_page(client.session()) {
        return Tried::Another(short_requests(most));
    }
    let mut alone = Devices::of(vec![Some(Opened::Remote(Box::new(client)))]);
    match read_superblock(&mut alone, Device::Member(0)) {
        Ok(said) if !is_same(&said.superblock, identity) => {
            return Tried::Another("its superblock is that of another device".to_string());
        }
        // One that is about to become a member is of none.
        Ok(said)
            if said.superblock.generation < identity.generation
                && said.superblock.role != Role::Spare =>
        {
            let text = format!(
                "it is an older copy, of generation {} instead of {}",
                said.superblock.generation, identity.generation
            );
            return Tried::Another(text);
        }
        Ok(said) if said.superblock.generation > identity.newest => {
            let text = format!(
                "another server has used it since, in generation {} after {}: stop one of the two \
                 servers",
                said.superblock.generation, identity.newest
            );
            return Tried::Another(text);
        }
        Ok(_) => {}
        Err(error @ (NoSuperblock::Short { .. } | NoSuperblock::LostPagesUnknown)) => {
            return Tried::Another(error.to_string());
        }
        Err(NoSuperblock::Io(error) | NoSuperblock::Unwritable(error)) => {
            return Tried::Failed(error);
        }
        Err(NoSuperblock::Bytes(error)) => return Tried::Another(error.to_string()),
    }
    match alone.members.remove(0).map(Opened::into_async) {
        Some(Async::Remote(socket, session)) => Tried::Back(socket, Box::new(session)),
        _ => Tried::Failed(IoError::GONE),
    }
}

fn is_same(said: &Superblock, identity: &Identity) -> bool {
    said.array == identity.array && said.device == identity.device
}

/// Begins to reconnect; `report` gets the result of each attempt. Returns false if the system gives
/// no thread.
pub(super) fn begin(
    identity: Identity,
    ended: Arc<AtomicBool>,
    report: impl Fn(Tried) -> bool + Send + 'static,
) -> bool {
    let work = move || connect_again(&identity, &ended, report);
    std::thread::Builder::new().name("reconnect".to_string()).spawn(work).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::tests::Nbd;
    use crate::array::{CreateOptions, DeviceSpec, create};
    use destage_engine::array::geometry::Level;

    const BYTES: u64 = 8 << 20;

    /// The only member of an array, and what it is recognised by.
    fn member(uri: &str) -> Identity {
        let spec: DeviceSpec = uri.parse().expect("a URI");
        let options = CreateOptions {
            level: Level::Single,
            disks: vec![spec.clone()],
            nvs: Vec::new(),
            strip_pages: 4,
            group_stripes: 1,
            spares: Vec::new(),
            assume_clean: true,
        };
        create(&options, &mut |_, _| {}).expect("created");
        let (mut devices, _) = Devices::open(&[spec], &[]).expect("opened");
        let said = read_superblock(&mut devices, Device::Member(0)).expect("read").superblock;
        let (array, device, generation) = (said.array, said.device, said.generation);
        let (uri, bytes, newest) = (uri.to_string(), BYTES, generation);
        Identity { uri, array, device, bytes, generation, newest }
    }

    /// Why the disk there is refused.
    fn refused(identity: &Identity) -> Option<String> {
        match once(identity) {
            Tried::Another(why) => Some(why),
            Tried::Back(..) => None,
            Tried::Failed(error) => panic!("{error}"),
        }
    }

    #[test]
    fn an_older_copy_or_another_device_is_not_used_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let nbd = Nbd::new(folder.path(), BYTES, 64 << 20);
        let known = member(&nbd.uri);
        let written = known.generation;
        assert_eq!(refused(&known), None);
        // A change was being written when the connection broke: it has arrived, or it has not.
        for (generation, newest) in [(written - 1, written), (written, written + 1)] {
            assert_eq!(refused(&Identity { generation, newest, ..known.clone() }), None);
        }
        let before = written - 1;
        let cases = [
            (Identity { array: [7; 16], ..known.clone() }, "another device"),
            (Identity { device: [7; 16], ..known.clone() }, "another device"),
            (Identity { bytes: BYTES + 1, ..known.clone() }, "instead of"),
            (Identity { generation: written + 1, ..known.clone() }, "an older copy"),
            (Identity { generation: before, newest: before, ..known.clone() }, "another server"),
        ];
        for (other, words) in cases {
            let why = refused(&other).expect("refused");
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn a_server_that_comes_back_and_takes_less_than_a_page_at_once_is_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let nbd = Nbd::new(folder.path(), BYTES, 2048);
        let (uri, array, device) = (nbd.uri.clone(), [1; 16], [2; 16]);
        let (bytes, generation, newest) = (BYTES, 0, 0);
        let identity = Identity { uri, array, device, bytes, generation, newest };
        let why = refused(&identity).expect("refused");
        assert!(why.contains("2048 bytes per request"), "{why}");
    }
}
