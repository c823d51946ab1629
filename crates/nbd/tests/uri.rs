//! URIs, as doc/uri.md has them.
#![allow(missing_docs)]

use destage_nbd::client::{Address, Uri, UriError};

fn tcp(host: &str, port: u16) -> Address {
    Address::Tcp(host.to_string(), port)
}

fn unix(path: &str) -> Address {
    Address::Unix(path.to_string())
}

#[test]
fn good_ones() {
    for (text, address, export, tls, hostname) in [
        ("nbd://example.com/disk", tcp("example.com", 10809), "disk", false, None),
        ("nbd://example.com/", tcp("example.com", 10809), "", false, None),
        ("nbd://example.com", tcp("example.com", 10809), "", false, None),
        ("nbd://example.com//disk", tcp("example.com", 10809), "/disk", false, None),
        ("nbd://example.com/hello%20world", tcp("example.com", 10809), "hello world", false, None),
        ("nbd://example.com:1/a/b", tcp("example.com", 1), "a/b", false, None),
        ("nbd://10.0.0.1:65535/a?", tcp("10.0.0.1", 65535), "a", false, None),
        ("nbd://[::1]/a", tcp("::1", 10809), "a", false, None),
        ("nbds://[fe80::1]:2000/a", tcp("fe80::1", 2000), "a", true, None),
        ("nbd://host:/a", tcp("host", 10809), "a", false, None),
        ("NBD://host/%C3%A9", tcp("host", 10809), "é", false, None),
        ("nbd+unix:///disk?socket=sock", unix("sock"), "disk", false, None),
        ("nbd+unix:///?socket=/run/a%20b", unix("/run/a b"), "", false, None),
        ("nbd+unix://?socket=/run/a", unix("/run/a"), "", false, None),
        (
            "nbds+unix:///d?socket=/s&tls-hostname=array.example",
            unix("/s"),
            "d",
            true,
            Some("array.example"),
        ),
        ("nbds://h/d?tls-hostname=x", tcp("h", 10809), "d", true, Some("x")),
    ] {
        let tls_hostname = hostname.map(str::to_string);
        let uri = Uri { address, export: export.to_string(), tls, tls_hostname };
        assert_eq!(text.parse(), Ok(uri.clone()), "{text}");
        assert_eq!(uri.to_string().parse(), Ok(uri), "{text}");
    }
}

#[test]
fn bad_ones() {
    let parameter = |name: &str| UriError::Parameter(name.to_string());
    for (text, error) in [
        ("", UriError::Scheme),
        ("disk", UriError::Scheme),
        ("/dev/nbd0", UriError::Scheme),
        ("http://host/disk", UriError::Scheme),
        ("nbd:/host/disk", UriError::Scheme),
        ("nbd:///disk", UriError::Authority),
        ("nbd://user@host/disk", UriError::Authority),
        ("nbd://user:secret@host/disk", UriError::Authority),
        ("nbd://[::1/disk", UriError::Authority),
        ("nbd://[::1]x/disk", UriError::Authority),
        ("nbd://[zz]/disk", UriError::Authority),
        ("nbd://a%2fb/disk", UriError::Authority),
        ("nbd://a%3a1/disk", UriError::Authority),
        ("nbd://host:0/disk", UriError::Port),
        ("nbd://host:65536/disk", UriError::Port),
        ("nbd://host:+1/disk", UriError::Port),
        ("nbd://fe80::1/disk", UriError::Port),
        ("nbd+unix:///disk", UriError::Socket),
        ("nbd+unix://host/disk?socket=/s", UriError::Socket),
        ("nbd://host/disk?socket=/s", UriError::Socket),
        ("nbd+unix:///disk?socket=", parameter("socket")),
        ("nbd+unix:///disk?socket", parameter("socket")),
        ("nbd+unix:///disk?socket=a&socket=b", parameter("socket")),
        ("nbd://host/disk?tls-type=psk", parameter("tls-type")),
        ("nbd://host/a%2", UriError::Escape),
        ("nbd://host/a%zz", UriError::Escape),
        ("nbd://host/a%+1", UriError::Escape),
        ("nbd://host/a%00", UriError::Escape),
        ("nbd://host/a%ff", UriError::Escape),
        ("nbd://host/a#b", UriError::Fragment),
    ] {
        assert_eq!(text.parse::<Uri>(), Err(error.clone()), "{text}");
        assert!(!error.to_string().is_empty());
    }
    let long = format!("nbd://host/{}", "a".repeat(4097));
    assert_eq!(long.parse::<Uri>(), Err(UriError::TooLong));
}

#[test]
fn any_export_name_survives() {
    for name in ["", "a b", "ä/ö?#&=%", "//", "%41", "a+b", "\u{1f4be}"] {
        let export = name.to_string();
        let uri = Uri { address: unix("/a?b&c=d%"), export, tls: true, tls_hostname: None };
        assert_eq!(uri.to_string().parse(), Ok(uri));
    }
}
