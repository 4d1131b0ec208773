//! Which `Host` a request may name (protocol.md §3.3): the defence against DNS rebinding, as a pure rule.
//! Both HTTP edges ask it, `downstream` and `admin`.
//!
//! A page that a browser was tricked into loading can make it send requests to a loopback listener, but only under the
//! page's own DNS name. So names must be known, while an IP address needs no list: no DNS answer can forge it, and the
//! probes and scrapers of an orchestrator use nothing else.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::header::HOST;
use http::{HeaderValue, Request, Version};

/// What a request under a foreign name is told.
pub const FOREIGN: &str =
    "this host name is not served here; use an IP address or localhost, or add the name to allowedHosts\n";

/// What a request's host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answer it.
    Ours,
    /// No host, though HTTP/1.1 and later demand one; or more than one.
    Unclear,
    /// A name that is not ours.
    Foreign,
}

/// The names under which a listener is reached.
#[derive(Clone, Debug)]
pub struct Hosts(Box<[String]>);

impl Hosts {
    /// `allowed` beside loopback: `host` (any port) or `host:port`; letter case and a final dot do not count.
    pub fn new(allowed: &[String]) -> Self {
        Self(allowed.iter().map(|name| name.trim().trim_end_matches('.').to_ascii_lowercase()).collect())
    }

    /// Judges the host of a request. The one in its target, where there is one, counts (RFC 9112 §3.2.2).
    pub fn judge<B>(&self, request: &Request<B>) -> Verdict {
        let mut headers = request.headers().get_all(HOST).iter().map(HeaderValue::as_bytes);
        let header = headers.next();
        if headers.next().is_some() {
            return Verdict::Unclear;
        }
        match request.uri().authority().map(|authority| authority.as_str().as_bytes()).or(header) {
            // No browser speaks HTTP/1.0; simple health checkers do, without a host.
            None if request.version() <= Version::HTTP_10 => Verdict::Ours,
            None => Verdict::Unclear,
            Some(host) if std::str::from_utf8(host).is_ok_and(|host| self.has(host)) => Verdict::Ours,
            Some(_) => Verdict::Foreign,
        }
    }

    fn has(&self, host: &str) -> bool {
        let host = host.trim().to_ascii_lowercase();
        let Some((name, port)) = split(&host) else { return false };
        if let Some(inside) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return inside.parse::<Ipv6Addr>().is_ok();
        }
        let name = name.trim_end_matches('.');
        name == "localhost"
            || name.ends_with(".localhost")
            || name.parse::<Ipv4Addr>().is_ok()
            || self.0.iter().any(|allowed| match (split(allowed), port) {
                (Some((allowed, Some(only))), Some(port)) => allowed == name && only == port,
                (Some((allowed, None)), _) => allowed == name,
                _ => false,
            })
    }
}

/// Name and port; `None` where the port is none.
fn split(host: &str) -> Option<(&str, Option<&str>)> {
    let after_bracket = host.rfind(']').map_or(0, |at| at + 1);
    match host[after_bracket..].find(':') {
        None => Some((host, None)),
        Some(at) => {
            let port = &host[after_bracket + at + 1..];
            let is_port = port.parse::<u16>().is_ok() && port.bytes().all(|b| b.is_ascii_digit());
            is_port.then_some((&host[..after_bracket + at], Some(port)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &str, hosts: &[&[u8]], version: Version) -> Request<()> {
        let mut request = Request::builder().uri(target).version(version);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn only_names_that_are_ours_pass() {
        let hosts = Hosts::new(&["Gate.example.com".to_owned(), "admin.example.com:9090".to_owned()]);
        for (host, want) in [
            ("localhost", true),
            ("LOCALHOST:9090", true),
            ("localhost.", true),
            ("app.localhost:1", true),
            ("127.0.0.1:9090", true),
            ("10.1.2.3:9090", true),
            ("[::1]:9090", true),
            ("[::1]", true),
            ("gate.example.com", true),
            ("gate.example.com:8080", true),
            ("gate.example.com.:8080", true),
            ("admin.example.com:9090", true),
            ("admin.example.com:9091", false),
            ("admin.example.com", false),
            ("evil.example.com", false),
            ("localhost.evil.example.com", false),
            ("evil-localhost", false),
            ("127.0.0.1.evil.example.com", false),
            ("localhost:9090:1", false),
            ("localhost:", false),
            ("localhost:+1", false),
            ("localhost:http", false),
            ("[::1", false),
            ("[evil]", false),
            ("user@localhost", false),
            ("", false),
        ] {
            let want = if want { Verdict::Ours } else { Verdict::Foreign };
            assert_eq!(hosts.judge(&request("/", &[host.as_bytes()], Version::HTTP_11)), want, "{host}");
        }
        assert_eq!(hosts.judge(&request("/", &[b"local\xffhost"], Version::HTTP_11)), Verdict::Foreign);
    }

    #[test]
    fn only_the_oldest_http_may_leave_the_host_out() {
        let hosts = Hosts::new(&[]);
        for (version, want) in [
            (Version::HTTP_10, Verdict::Ours),
            (Version::HTTP_11, Verdict::Unclear),
            (Version::HTTP_2, Verdict::Unclear),
        ] {
            assert_eq!(hosts.judge(&request("/", &[], version)), want, "{version:?}");
        }
    }

    #[test]
    fn the_target_wins_over_the_header_and_two_headers_are_none() {
        let hosts = Hosts::new(&[]);
        for (target, headers, want) in [
            ("http://localhost/", &[b"evil.example.com".as_slice()] as &[&[u8]], Verdict::Ours),
            ("http://evil.example.com/", &[b"localhost"], Verdict::Foreign),
            ("/", &[b"localhost", b"evil.example.com"], Verdict::Unclear),
        ] {
            assert_eq!(hosts.judge(&request(target, headers, Version::HTTP_11)), want, "{target}");
        }
    }
}
