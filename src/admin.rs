//! The admin listener: health, readiness, metrics, status as JSON, and one page for people.
//!
//! `app` binds the listener, fills [`Facts`] and serves [`router`]. Everything here only reads, and what it reads are
//! facts made to be shown: no configuration values, so no secret can reach a page by accident.
//!
//! Requests are answered only under a host name that is ours ([`crate::policy::host`]); there are no CORS headers, so no page of
//! another origin can read an answer.

pub mod facts;
mod page;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::policy::host::{self, Hosts, Verdict};
use facts::{CatalogFacts, Readiness, ServerFacts};

/// Prometheus' text exposition format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// What the listener shows. Each method answers from memory, at once: a health check waits for nobody.
pub trait Facts: Send + Sync {
    /// Every configured server, in the order of the configuration.
    fn servers(&self) -> Vec<ServerFacts>;
    /// The current catalog.
    fn catalog(&self) -> CatalogFacts;
    /// Whether traffic should come here.
    fn readiness(&self) -> Readiness;
    /// The metrics in the text exposition format.
    fn metrics(&self) -> String;
}

type Shown = State<Arc<dyn Facts>>;

/// The listener's routes. `allowed_hosts` are the names, beside loopback and IP addresses, under which it is reached:
/// `host` (any port) or `host:port`.
pub fn router(facts: Arc<dyn Facts>, allowed_hosts: &[String]) -> Router {
    let hosts = Arc::new(Hosts::new(allowed_hosts));
    Router::new()
        .route("/", get(index))
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/api/servers", get(servers))
        .route("/api/catalog", get(catalog))
        .fallback(nothing_here)
        .with_state(facts)
        // Outermost, so that a foreign host name learns nothing, not even which paths exist.
        .layer(middleware::from_fn(move |request, next| guard(Arc::clone(&hosts), request, next)))
}

/// The process runs and its runtime turns. Says nothing about servers: restarting us would not bring one back.
async fn alive() -> Response {
    answer(StatusCode::OK, TEXT, "ok\n")
}

async fn ready(State(facts): Shown) -> Response {
    let readiness = facts.readiness();
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(status, &readiness)
}

async fn metrics(State(facts): Shown) -> Response {
    answer(StatusCode::OK, EXPOSITION, facts.metrics())
}

async fn servers(State(facts): Shown) -> Response {
    json(StatusCode::OK, &serde_json::json!({ "servers": facts.servers() }))
}

async fn catalog(State(facts): Shown) -> Response {
    json(StatusCode::OK, &facts.catalog())
}

async fn index(State(facts): Shown) -> Response {
    answer(StatusCode::OK, HTML, page::render(&facts.servers(), &facts.catalog(), &facts.readiness()))
}

async fn nothing_here() -> Response {
    let paths = "nothing here; try /, /healthz, /readyz, /metrics, /api/servers or /api/catalog\n";
    answer(StatusCode::NOT_FOUND, TEXT, paths)
}

fn json(status: StatusCode, value: &impl serde::Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(text) => answer(status, JSON, text),
        Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("cannot be shown: {error}\n")),
    }
}

fn answer(status: StatusCode, kind: &'static str, body: impl IntoResponse) -> Response {
    let mut response = (status, body).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

async fn guard(hosts: Arc<Hosts>, request: Request, next: Next) -> Response {
    let mut response = match hosts.judge(&request) {
        Verdict::Ours => next.run(request).await,
        Verdict::Unclear => answer(StatusCode::BAD_REQUEST, TEXT, "the request needs exactly one Host header\n"),
        Verdict::Foreign => answer(StatusCode::FORBIDDEN, TEXT, host::FOREIGN),
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(page::POLICY));
    response
}

#[cfg(test)]
mod tests;
