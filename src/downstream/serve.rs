//! The accept loop: connections in, requests to a router, and an end that comes in time.
//!
//! `app` binds the MCP and the admin listener here and serves a router on each. Every connection is a task of the
//! loop's own set. HTTP/1.1 only: over HTTP/2 each stream would be a task of its own, and hosts do not ask for it.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::settings::ConnectionLimits;
use super::stall::Stalling;

/// How long to rest when no connection can be accepted, as when files run out: connections that end give some back.
const ACCEPT_REST: Duration = Duration::from_millis(200);

/// A listener, and the address that it really has: port 0 is replaced by the one that was free.
///
/// # Errors
/// When the address cannot be had; the caller knows which setting named it.
pub async fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Serves until `stop`; then lets connections finish what they serve for up to the grace time, and ends the rest.
/// Returns when no connection is left.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken, limits: ConnectionLimits) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(ended) = connections.join_next(), if !connections.is_empty() => note(ended),
            accepted = listener.accept(), if connections.len() < limits.most => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, router.clone(), stop.clone(), limits));
                }
                Err(error) => rest(&error).await,
            },
        }
    }
    // New connections are refused from here on, not left waiting.
    drop(listener);
    if timeout(limits.grace, finish(&mut connections)).await.is_err() {
        tracing::info!(
            connections = connections.len(),
            "connections were cut: their exchanges outlasted the grace time"
        );
        connections.shutdown().await;
    }
}

async fn finish(connections: &mut JoinSet<()>) {
    while let Some(ended) = connections.join_next().await {
        note(ended);
    }
}

fn note(ended: Result<(), JoinError>) {
    if ended.is_err_and(|e| e.is_panic()) {
        tracing::error!("a connection ended by a panic; others are not affected");
    }
}

async fn rest(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        return;
    }
    tracing::warn!(%error, "no connection can be accepted");
    sleep(ACCEPT_REST).await;
}

async fn connection(stream: TcpStream, router: Router, stop: CancellationToken, limits: ConnectionLimits) {
    // Answers are written whole; waiting to fill a packet only makes them late.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let io = TokioIo::new(Stalling::new(stream, limits.write_stall));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .serve_connection(io, Routed(router));
    let mut served = std::pin::pin!(served);
    let ended = tokio::select! {
        biased;
        ended = served.as_mut() => ended,
        () = stop.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// A router as hyper's kind of service. The router is always ready.
struct Routed(Router);

impl Service<Request<Incoming>> for Routed {
    type Response = Response;
    type Error = Infallible;
    type Future = <Router as tower::Service<Request<Body>>>::Future;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        tower::Service::call(&mut self.0.clone(), request.map(Body::new))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::Notify;

    use super::*;

    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

    async fn start(router: Router, limits: ConnectionLimits) -> (SocketAddr, CancellationToken, JoinSet<()>) {
        let (listener, address) = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, router, stop.clone(), limits));
        (address, stop, tasks)
    }

    async fn read_some(stream: &mut TcpStream) -> String {
        let mut buffer = vec![0; 1024];
        let n = stream.read(&mut buffer).await.unwrap();
        String::from_utf8_lossy(&buffer[..n]).into_owned()
    }

    #[tokio::test]
    async fn draining_lets_a_request_finish_and_closes_idle_connections() {
        let (entered, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let router = Router::new().route(
            "/",
            get({
                let (entered, release) = (Arc::clone(&entered), Arc::clone(&release));
                move || async move {
                    entered.notify_one();
                    release.notified().await;
                    "done"
                }
            }),
        );
        let (address, stop, mut tasks) = start(router, ConnectionLimits::default()).await;
        let mut idle = TcpStream::connect(address).await.unwrap();
        let mut busy = TcpStream::connect(address).await.unwrap();
        busy.write_all(GET).await.unwrap();
        entered.notified().await;
        stop.cancel();
        assert_eq!(read_some(&mut idle).await, "");
        release.notify_one();
        let mut answer = String::new();
        busy.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("done"), "{answer}");
        tasks.join_next().await.unwrap().unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn a_request_that_outlasts_the_grace_time_is_cut() {
        let entered = Arc::new(Notify::new());
        let inside = Arc::clone(&entered);
        let router = Router::new().route(
            "/",
            get(move || async move {
                inside.notify_one();
                std::future::pending::<&str>().await
            }),
        );
        let limits = ConnectionLimits { grace: Duration::from_millis(20), ..ConnectionLimits::default() };
        let (address, stop, mut tasks) = start(router, limits).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(GET).await.unwrap();
        entered.notified().await;
        stop.cancel();
        tasks.join_next().await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn connections_above_the_limit_wait_for_a_place() {
        let router = Router::new().route("/", get(|| async { "hello" }));
        let limits = ConnectionLimits { most: 1, ..ConnectionLimits::default() };
        let (address, _stop, _tasks) = start(router, limits).await;
        let mut first = TcpStream::connect(address).await.unwrap();
        first.write_all(GET).await.unwrap();
        assert!(read_some(&mut first).await.contains("200 OK"));
        let mut second = TcpStream::connect(address).await.unwrap();
        second.write_all(GET).await.unwrap();
        drop(first);
        assert!(read_some(&mut second).await.contains("200 OK"));
    }

    #[tokio::test]
    async fn slow_headers_lose_their_connection() {
        let limits = ConnectionLimits { header_timeout: Duration::from_millis(20), ..ConnectionLimits::default() };
        let (address, _stop, _tasks) = start(Router::new(), limits).await;
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
        let mut rest = String::new();
        slow.read_to_string(&mut rest).await.unwrap();
        assert!(rest.is_empty() || rest.contains("408"), "{rest}");
    }

    #[tokio::test]
    async fn a_peer_that_goes_away_drops_what_is_done_for_it() {
        let (entered, dropped) = (Arc::new(Notify::new()), CancellationToken::new());
        let router = Router::new().route(
            "/",
            get({
                let (entered, dropped) = (Arc::clone(&entered), dropped.clone());
                move || async move {
                    let _guard = dropped.drop_guard();
                    entered.notify_one();
                    std::future::pending::<&str>().await
                }
            }),
        );
        let (address, _stop, _tasks) = start(router, ConnectionLimits::default()).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(GET).await.unwrap();
        entered.notified().await;
        drop(stream);
        dropped.cancelled().await;
    }
}
