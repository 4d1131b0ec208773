//! What is checked before a body is read, in the order of protocol.md §1.2. Pure: headers in, a refusal out.
//!
//! `endpoint` calls [`check`] first of all. There are no CORS headers, so pages of other origins can neither read an
//! answer nor send a request that needs a preflight: OPTIONS is answered like any other method that is not served.

use std::net::Ipv4Addr;

use axum::http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};

use super::settings::Settings;
use crate::policy::host::{Hosts, Verdict};
use crate::protocol::classify::Refusal;
use crate::protocol::code;

/// What the peer can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepts {
    /// `application/json`
    pub json: bool,
    /// `text/event-stream`
    pub stream: bool,
}

/// Checks everything that can be checked without the body.
///
/// # Errors
/// The refusal to answer with; nothing of the request may be served.
pub fn check<B>(request: &Request<B>, hosts: &Hosts, settings: &Settings) -> Result<Accepts, Refusal> {
    if hosts.judge(request) != Verdict::Ours {
        return Err(foreign_host());
    }
    let headers = request.headers();
    check_origin(headers, &settings.allowed_origins)?;
    if !matches!(*request.method(), Method::POST | Method::GET | Method::DELETE) {
        return Err(method_not_served());
    }
    check_sizes(headers, settings)?;
    let accepts = accepts(headers);
    match *request.method() {
        Method::POST => {
            check_content(headers)?;
            if !accepts.json && !accepts.stream {
                return Err(not_acceptable("Accept must allow application/json and text/event-stream"));
            }
        }
        Method::GET if !accepts.stream => return Err(not_acceptable("Accept must allow text/event-stream")),
        _ => {}
    }
    Ok(accepts)
}

fn refuse(status: StatusCode, reason: &'static str, message: &'static str) -> Refusal {
    Refusal::new(status, code::INVALID_REQUEST, reason, message)
}

fn foreign_host() -> Refusal {
    refuse(
        StatusCode::FORBIDDEN,
        "host",
        "this host name is not served here; use an IP address or localhost, or add the name to allowedHosts",
    )
}

/// A method for which there is nothing here.
pub fn method_not_served() -> Refusal {
    refuse(StatusCode::METHOD_NOT_ALLOWED, "http_method", "this HTTP method is not served here")
}

/// An answer that the peer could not read.
pub fn not_acceptable(message: &'static str) -> Refusal {
    refuse(StatusCode::NOT_ACCEPTABLE, "accept", message)
}

/// A body above the limit.
pub fn too_large(limit: usize) -> Refusal {
    let message = format!("the request body is larger than the limit of {limit} bytes");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, code::INVALID_REQUEST, "body_size", message)
}

/// Programs send no `Origin`; browsers send it with every request that a page makes (protocol.md §3.3).
fn check_origin(headers: &HeaderMap, allowed: &[String]) -> Result<(), Refusal> {
    let ours = |value: &HeaderValue| {
        value.to_str().is_ok_and(|origin| {
            is_loopback(origin) || allowed.iter().any(|a| a.trim_end_matches('/').eq_ignore_ascii_case(origin))
        })
    };
    if headers.get_all(ORIGIN).iter().all(ours) {
        return Ok(());
    }
    Err(refuse(
        StatusCode::FORBIDDEN,
        "origin",
        "requests from web pages of this origin are not served; add it to allowedOrigins if they should be",
    ))
}

fn is_loopback(origin: &str) -> bool {
    let Some(authority) = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) else {
        return false;
    };
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (authority, "0"),
    };
    let name = name.to_ascii_lowercase();
    port.parse::<u16>().is_ok()
        && (name == "localhost" || name == "[::1]" || name.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback()))
}

fn check_sizes(headers: &HeaderMap, settings: &Settings) -> Result<(), Refusal> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
    if announced.is_some_and(|length| length > settings.body_limit as u64) {
        return Err(too_large(settings.body_limit));
    }
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if size > settings.header_limit {
        let message = format!("the request headers are larger than the limit of {} bytes", settings.header_limit);
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return Err(Refusal::new(status, code::INVALID_REQUEST, "header_size", message));
    }
    Ok(())
}

fn check_content(headers: &HeaderMap) -> Result<(), Refusal> {
    let media = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let mut parts = media.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"));
    let is_utf8 = parts.all(|parameter| match parameter.split_once('=') {
        Some((key, value)) if key.trim().eq_ignore_ascii_case("charset") => {
            let charset = value.trim().trim_matches('"');
            charset.eq_ignore_ascii_case("utf-8") || charset.eq_ignore_ascii_case("utf8")
        }
        _ => true,
    });
    let is_plain = headers.get(CONTENT_ENCODING).is_none_or(|v| v.as_bytes().eq_ignore_ascii_case(b"identity"));
    if is_json && is_utf8 && is_plain {
        return Ok(());
    }
    Err(refuse(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "content_type",
        "the body must be application/json in UTF-8, without content encoding",
    ))
}

/// Whether a browser asks for a page, which no client of MCP does.
pub fn is_person<B>(request: &Request<B>) -> bool {
    let wants_page = |value: &HeaderValue| value.to_str().is_ok_and(|accept| accept.contains("text/html"));
    request.method() == Method::GET && request.headers().get_all(ACCEPT).iter().any(wants_page)
}

/// Lenient (design §5): no header, or `*/*`, means everything.
fn accepts(headers: &HeaderMap) -> Accepts {
    let mut found = Accepts { json: false, stream: false };
    let mut values = headers.get_all(ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return Accepts { json: true, stream: true };
    }
    for range in values.filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let refused = parts.any(|p| {
            p.strip_prefix("q=").or(p.strip_prefix("Q=")).is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q <= 0.0))
        });
        if refused {
            continue;
        }
        found.json |= matches!(media.as_str(), "application/json" | "application/*" | "*/*");
        found.stream |= matches!(media.as_str(), "text/event-stream" | "text/*" | "*/*");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pairs<'a> = &'a [(&'a str, &'a str)];

    fn outcome(method: &str, pairs: Pairs<'_>) -> u16 {
        let settings = Settings {
            header_limit: 400,
            body_limit: 10,
            allowed_hosts: vec!["gateway".into()],
            allowed_origins: vec!["https://app.example.com".into()],
            ..Settings::default()
        };
        let mut request = Request::builder().method(method).uri("/mcp");
        for (name, value) in pairs {
            request = request.header(*name, *value);
        }
        let hosts = Hosts::new(&settings.allowed_hosts);
        check(&request.body(()).unwrap(), &hosts, &settings).map_or_else(|r| r.status.as_u16(), |_| 200)
    }

    #[test]
    fn each_guard_refuses_with_its_status_and_in_order() {
        let h = ("host", "localhost:8080");
        let j = ("content-type", "application/json");
        let long = "x".repeat(500);
        let table: &[(&str, Pairs<'_>, u16)] = &[
            ("POST", &[h, j], 200),
            ("POST", &[("host", "gateway:8080"), j], 200),
            ("POST", &[("host", "evil.example.com"), j], 403),
            ("POST", &[j], 403),
            ("POST", &[h, j, ("origin", "http://localhost:3000")], 200),
            ("POST", &[h, j, ("origin", "http://127.0.0.7")], 200),
            ("POST", &[h, j, ("origin", "http://[::1]:5")], 200),
            ("POST", &[h, j, ("origin", "https://app.example.com")], 200),
            ("POST", &[h, j, ("origin", "http://app.example.com")], 403),
            ("POST", &[h, j, ("origin", "http://evil.example")], 403),
            ("POST", &[h, j, ("origin", "http://localhost.evil.example")], 403),
            ("POST", &[h, j, ("origin", "null")], 403),
            ("POST", &[h, j, ("origin", "http://localhost"), ("origin", "http://evil.example")], 403),
            ("PUT", &[h, ("origin", "null")], 403),
            ("PUT", &[h], 405),
            ("OPTIONS", &[h, ("content-length", "11")], 405),
            ("POST", &[h, ("content-length", "11"), ("x", &long)], 413),
            ("POST", &[h, ("x", &long)], 431),
            ("POST", &[h, ("accept", "text/html")], 415),
            ("POST", &[h, ("content-type", "text/plain")], 415),
            ("POST", &[h, ("content-type", "application/json; charset=latin1")], 415),
            ("POST", &[h, ("content-type", "Application/JSON;charset=\"UTF-8\"")], 200),
            ("POST", &[h, j, ("content-encoding", "gzip")], 415),
            ("POST", &[h, j, ("accept", "text/html")], 406),
            ("GET", &[h, ("accept", "application/json")], 406),
            ("GET", &[h, ("accept", "text/event-stream")], 200),
            ("GET", &[h], 200),
            ("DELETE", &[h, ("accept", "text/html")], 200),
        ];
        for (method, pairs, want) in table {
            assert_eq!(outcome(method, pairs), *want, "{method} {pairs:?}");
        }
    }

    #[test]
    fn accept_is_read_leniently() {
        for (value, json, stream) in [
            ("application/json, text/event-stream", true, true),
            ("*/*", true, true),
            ("application/*", true, false),
            ("text/event-stream;q=0.5", false, true),
            ("application/json, text/event-stream;q=0", true, false),
            ("text/html", false, false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, value.parse().unwrap())]);
            assert_eq!(accepts(&headers), Accepts { json, stream }, "{value}");
        }
        assert_eq!(accepts(&HeaderMap::new()), Accepts { json: true, stream: true });
    }

    #[test]
    fn a_refused_name_is_told_which_setting_to_change() {
        assert!(foreign_host().message.contains("allowedHosts"));
        let headers = HeaderMap::from_iter([(ORIGIN, "null".parse().unwrap())]);
        assert!(check_origin(&headers, &[]).unwrap_err().message.contains("allowedOrigins"));
    }
}
