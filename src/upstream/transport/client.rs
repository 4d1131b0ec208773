//! The HTTP client of all HTTP upstreams: a pooled hyper client over TCP or TLS, with what MCP needs on top.
//!
//! `http` and `http_sse` send through it. It follows same-origin 307/308 redirects (bug report kind "307 from an
//! upstream"), never asks for a content encoding it cannot decode, and presents only what configuration names.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use url::Url;

use crate::config::Secret;
use crate::upstream::error::{CallError, DialError};

/// Idle connections are dropped before common servers (Node, uvicorn: 5 s) close theirs, so that a request rarely meets
/// a connection that is just being closed.
const POOL_IDLE: Duration = Duration::from_secs(4);

/// Idle connections kept for one upstream: as many as requests may be in flight by default.
const POOL_MAX: usize = 512;

/// Redirects followed for one request; one is what `/mcp` to `/mcp/` needs.
const HOPS: usize = 3;

/// What configuration says of an HTTP upstream.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where to send to.
    pub url: Url,
    uri: Uri,
    /// Sent with every request.
    pub headers: HeaderMap,
}

impl Target {
    /// Checks address and headers.
    pub fn new(url: &Url, headers: &[(HeaderName, Secret)]) -> Result<Self, DialError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let mut value = HeaderValue::from_str(value.expose())
                .map_err(|_| DialError::Config(format!("header {name} has a value that cannot be sent")))?;
            value.set_sensitive(true);
            map.append(name.clone(), value);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(DialError::Config("credentials in the url are not sent: use an Authorization header".into()));
        }
        Ok(Self { url: url.clone(), uri: uri(url)?, headers: map })
    }

    /// The same upstream at another address of the same origin.
    pub fn at(&self, url: Url) -> Result<Self, DialError> {
        Ok(Self { uri: uri(&url)?, url, headers: self.headers.clone() })
    }
}

/// A pooled client; clones share the pool.
#[derive(Clone, Debug)]
pub struct HttpClient(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl HttpClient {
    /// For plain HTTP alone, or for HTTPS with the system's certificate authorities, and those of `ca_file` besides.
    pub fn new(https: bool, ca_file: Option<&str>, connect: Duration) -> Result<Self, DialError> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(connect));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(https, ca_file)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(POOL_MAX)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(Self(client))
    }

    /// Sends one request and waits for the response's head.
    pub async fn send(
        &self,
        method: Method,
        target: &Target,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, CallError> {
        let mut at = target.uri.clone();
        let mut from: Option<Url> = None;
        for _ in 0..=HOPS {
            let request = request(&method, at, target, headers, body.clone());
            let response = self.0.request(request).await.map_err(|e| lost(&e))?;
            let Some(next) = redirect(&response, from.as_ref().unwrap_or(&target.url)) else { return Ok(response) };
            at = uri(&next).map_err(|_| CallError::Violation("it redirects to an invalid address"))?;
            from = Some(next);
        }
        Err(CallError::Violation("it redirects in circles"))
    }
}

fn uri(url: &Url) -> Result<Uri, DialError> {
    url.as_str().parse().map_err(|_| DialError::Config("the url is not a valid URI".into()))
}

fn request(method: &Method, uri: Uri, target: &Target, headers: &HeaderMap, body: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri;
    let all = request.headers_mut();
    all.reserve(target.headers.len() + headers.len() + 2);
    all.extend(headers.iter().map(|(n, v)| (n.clone(), v.clone())));
    all.extend(target.headers.iter().map(|(n, v)| (n.clone(), v.clone())));
    request
}

/// The address to go on with, for a 307 or 308 to the same origin. Other redirects are answers like any other status.
fn redirect(response: &Response<Incoming>, from: &Url) -> Option<Url> {
    if !matches!(response.status().as_u16(), 307 | 308) {
        return None;
    }
    let location = response.headers().get(header::LOCATION)?.to_str().ok()?;
    from.join(location).ok().filter(|to| to.origin() == from.origin())
}

/// A request that never got a connection has not run; anything later may have.
fn lost(error: &hyper_util::client::legacy::Error) -> CallError {
    CallError::Lost { sent: !error.is_connect() }
}

fn tls(https: bool, ca_file: Option<&str>) -> Result<ClientConfig, DialError> {
    let mut roots = RootCertStore::empty();
    if https {
        // One odd certificate in the system's store must not take the others away.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if let Some(path) = ca_file {
        let wrong = |what: String| DialError::Config(format!("caFile {path}: {what}"));
        for authority in CertificateDer::pem_file_iter(path).map_err(|e| wrong(e.to_string()))? {
            roots.add(authority.map_err(|e| wrong(e.to_string()))?).map_err(|e| wrong(e.to_string()))?;
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| DialError::Config(format!("TLS: {e}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
