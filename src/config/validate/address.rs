//! Questions about addresses, for the rules in `validate`.

use std::net::{IpAddr, SocketAddr};

use url::{Host, Url};

/// Whether one port would be asked for twice.
pub(super) fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let anywhere = a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() != 0 && a.port() == b.port() && (a.ip() == b.ip() || anywhere)
}

/// Whether a URL leads to our own listener. Only what is certain: names other than `localhost` are not looked up.
pub(super) fn is_ours(url: &Url, listen: SocketAddr) -> bool {
    if listen.port() == 0 || url.port_or_known_default() != Some(listen.port()) {
        return false;
    }
    let ip = match url.host() {
        Some(Host::Ipv4(ip)) => IpAddr::V4(ip),
        Some(Host::Ipv6(ip)) => IpAddr::V6(ip).to_canonical(),
        Some(Host::Domain("localhost")) => return listen.ip().is_loopback() || listen.ip().is_unspecified(),
        _ => return false,
    };
    ip == listen.ip()
        || (listen.ip().is_unspecified() && ip.is_loopback())
        || (ip.is_unspecified() && listen.ip().is_loopback())
}

/// Scheme, host and perhaps a port, as a browser writes them.
pub(super) fn is_origin(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        url.has_host()
            && url.path().trim_end_matches('/').is_empty()
            && url.query().is_none()
            && url.fragment().is_none()
    })
}
