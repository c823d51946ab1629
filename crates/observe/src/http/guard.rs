//! Who may ask what: names of this server, where a page came from, the token.

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Fewest characters of a token.
const TOKEN_MIN: usize = 16;

/// Why a request is refused, in words.
#[derive(Debug, PartialEq, Eq)]
pub enum Denied {
    /// A name that is not this server's: a page of another site may have led here.
    Host,
    /// The request comes from a page of another site.
    Origin,
    /// The body is not JSON.
    Type,
    /// There is no token.
    NoToken,
    /// The token is not the server's.
    WrongToken,
}

/// The rules.
pub struct Guard {
    token: String,
    /// Names that clients may call the server by, besides addresses and `localhost`.
    names: Vec<String>,
}

impl Guard {
    /// Rules with a token for changes.
    pub fn new(token: String, names: Vec<String>) -> Guard {
        Guard { token, names: names.into_iter().map(|name| name.to_ascii_lowercase()).collect() }
    }

    /// Whether the request is for this server: else another site's name may lead here (DNS
    /// rebinding), and that site's pages could read what is served.
    ///
    /// # Errors
    /// [`Denied::Host`].
    pub fn host(&self, headers: &HeaderMap) -> Result<(), Denied> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Denied::Host) };
        let host = host.to_str().map_err(|_| Denied::Host)?;
        let name = host_name(host).to_ascii_lowercase();
        let known = name == "localhost" || name.parse::<IpAddr>().is_ok();
        (known || self.names.contains(&name)).then_some(()).ok_or(Denied::Host)
    }

    /// Whether the request may change something.
    pub fn change(&self, headers: &HeaderMap) -> Result<(), Denied> {
        let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or(""));
        let host = text(&HOST).unwrap_or("");
        if let Some(origin) = text(&ORIGIN) {
            let after = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
            if after.is_none_or(|after| !after.eq_ignore_ascii_case(host)) {
                return Err(Denied::Origin);
            }
        }
        let site = text(&HeaderName::from_static("sec-fetch-site"));
        if site.is_some_and(|site| site != "same-origin" && site != "none") {
            return Err(Denied::Origin);
        }
        let json = |value: &str| value.split(';').next().is_some_and(|t| t == "application/json");
        if !text(&CONTENT_TYPE).is_some_and(json) {
            return Err(Denied::Type);
        }
        let given = text(&AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let given = given.filter(|given| !given.is_empty()).ok_or(Denied::NoToken)?;
        let right = same(given.as_bytes(), self.token.as_bytes());
        right.then_some(()).ok_or(Denied::WrongToken)
    }
}

/// Without the port, and an IPv6 address without its brackets.
fn host_name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or("");
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

/// Compares in a time that does not tell where they differ.
fn same(given: &[u8], token: &[u8]) -> bool {
    let differ = given.iter().zip(token).fold(0, |differ, (a, b)| differ | (a ^ b));
    given.len() == token.len() && differ == 0
}

/// A new token in a file that only its owner may read.
///
/// # Errors
/// If the file cannot be written.
pub fn new_token(path: &Path) -> std::io::Result<String> {
    let mut random = [0; 24];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{token}")?;
    Ok(token)
}

/// The token that a file holds.
///
/// # Errors
/// If it cannot be read, or is too short.
pub fn read_token(path: &Path) -> std::io::Result<String> {
    let text = std::fs::read_to_string(path)?;
    let token = text.trim();
    if token.len() < TOKEN_MIN || !token.chars().all(|c| c.is_ascii_graphic()) {
        let error = format!("a token is one line of at least {TOKEN_MIN} letters and digits");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, error));
    }
    Ok(token.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    const TOKEN: &str = "0123456789abcdef";

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in list {
            let name = HeaderName::from_static(name);
            map.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        map
    }

    #[test]
    fn names_of_other_sites_are_refused() {
        let guard = Guard::new(TOKEN.into(), vec!["Array.Example".into()]);
        for host in ["localhost", "127.0.0.1:9000", "[::1]:9000", "array.example:1", "10.1.2.3"] {
            assert_eq!(guard.host(&headers(&[("host", host)])), Ok(()), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:9000", "", "127.0.0.1.evil", "[x]"] {
            assert_eq!(guard.host(&headers(&[("host", host)])), Err(Denied::Host), "{host}");
        }
        assert_eq!(guard.host(&headers(&[])), Err(Denied::Host));
        let two = headers(&[("host", "localhost"), ("host", "evil.example")]);
        assert_eq!(guard.host(&two), Err(Denied::Host));
    }

    #[test]
    fn changes_need_the_token_and_a_page_of_this_server() {
        let guard = Guard::new(TOKEN.into(), Vec::new());
        let bearer = format!("Bearer {TOKEN}");
        let right = [
            ("host", "127.0.0.1:9000"),
            ("content-type", "application/json"),
            ("authorization", bearer.as_str()),
        ];
        let with = |name, value| [&right[..], &[(name, value)]].concat();
        assert_eq!(guard.change(&headers(&right)), Ok(()));
        let own = with("origin", "http://127.0.0.1:9000");
        assert_eq!(guard.change(&headers(&own)), Ok(()));
        for (name, value) in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://127.0.0.1:9001"),
            ("sec-fetch-site", "cross-site"),
        ] {
            let denied = guard.change(&headers(&with(name, value)));
            assert_eq!(denied, Err(Denied::Origin), "{name}: {value}");
        }
        assert_eq!(guard.change(&headers(&right[..2])), Err(Denied::NoToken));
        let wrong = [right[0], right[1], ("authorization", "Bearer 0123456789abcdeg")];
        assert_eq!(guard.change(&headers(&wrong)), Err(Denied::WrongToken));
        let form = [right[0], ("content-type", "text/plain"), right[2]];
        assert_eq!(guard.change(&headers(&form)), Err(Denied::Type));
    }

    #[test]
    fn tokens_are_private_and_long() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let first = new_token(&path).expect("written");
        let second = new_token(&path).expect("written again");
        assert!(first != second && second.len() == 48);
        assert_eq!(read_token(&path).expect("read"), second);
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&path, "short\n").expect("written");
        assert!(read_token(&path).is_err());
    }
}
