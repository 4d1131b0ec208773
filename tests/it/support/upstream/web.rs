//! A listener on a loopback port that can be stopped, with every connection, and started again on the same port.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Response, header};
use futures_util::{StreamExt, stream};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tower::ServiceExt;

use super::engine::Engine;
use super::message::Frame;
use super::record::PATIENCE;

pub struct Web {
    address: SocketAddr,
    router: Router,
    running: Mutex<JoinSet<()>>,
    /// Bound and never listening: while the upstream is down, nobody else can take its port.
    _place: TcpSocket,
}

/// Marks a response that is never sent: its connection is cut instead.
#[derive(Clone)]
struct Cut;

impl Web {
    pub async fn start(router: Router) -> Self {
        let place = bound("127.0.0.1:0".parse().unwrap()).unwrap();
        let web = Self { address: place.local_addr().unwrap(), router, running: Mutex::default(), _place: place };
        web.listen().await;
        web
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub async fn listen(&self) {
        let listening = async {
            loop {
                match bound(self.address).and_then(|socket| socket.listen(1024)) {
                    Ok(listener) => return listener,
                    // A child that another test is just starting holds our old listener until it has become its program.
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => tokio::task::yield_now().await,
                    Err(error) => panic!("{error}"),
                }
            }
        };
        let listener = timeout(PATIENCE, listening).await;
        self.accept(listener.expect("the port is free again")).await;
    }

    pub async fn stop(&self) {
        self.running.lock().await.shutdown().await;
    }

    async fn accept(&self, listener: TcpListener) {
        let router = self.router.clone();
        self.running.lock().await.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                let router = router.clone();
                connections.spawn(async move {
                    let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
                        let router = router.clone();
                        async move {
                            let response =
                                router.oneshot(request.map(Body::new)).await.unwrap_or_else(|never| match never {});
                            match response.extensions().get::<Cut>() {
                                Some(_) => Err(io::Error::other("cut by script")),
                                None => Ok(response),
                            }
                        }
                    });
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
    }
}

/// Two sockets may share an address as long as only one of them listens.
fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

pub fn cut() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(Cut);
    response
}

/// A response that streams these frames as events. `event` names the type of each; the stream ends with the frames, or
/// where one says that the rest is to be parked with `engine`.
pub fn events(
    engine: &Arc<Engine>,
    first: Vec<Frame>,
    rest: mpsc::Receiver<Frame>,
    event: Option<&'static str>,
) -> Response<Body> {
    let crlf = engine.state().script.http.crlf;
    let start = (engine.clone(), VecDeque::from(first), Some(rest));
    let frames = stream::unfold(start, |(engine, mut first, rest)| async {
        let mut rest = rest?;
        let frame = match first.pop_front() {
            Some(frame) => frame,
            None => rest.recv().await?,
        };
        let rest = match &frame {
            Frame::Park(id) => {
                engine.park(id.clone(), rest);
                None
            }
            _ => Some(rest),
        };
        Some((frame, (engine, first, rest)))
    });
    let chunks = frames.flat_map(move |frame| stream::iter(chunks(frame, event, crlf)));
    let mut response = Response::new(Body::from_stream(chunks));
    response.headers_mut().insert(header::CONTENT_TYPE, "text/event-stream".parse().unwrap());
    response
}

fn chunks(frame: Frame, event: Option<&str>, crlf: bool) -> Vec<io::Result<Bytes>> {
    let text = match frame {
        Frame::Message(text) | Frame::Answer(_, text) => {
            let event = event.map(|event| format!("event: {event}\n")).unwrap_or_default();
            format!("{event}data: {text}\n\n")
        }
        Frame::Noise(text) => format!("{text}\n"),
        Frame::Endless(bytes) => format!("data: {}", "x".repeat(bytes)),
        Frame::Park(id) => format!("id: {id}\nretry: 10\ndata:\n\n"),
        Frame::Stderr(_) => return Vec::new(),
        Frame::Die => return vec![Err(io::Error::other("cut by script"))],
    };
    if !crlf {
        return vec![Ok(text.into())];
    }
    // Each chunk ends in a CR whose LF opens the next: the cut that careless parsers trip over.
    let text = text.replace('\n', "\r\n");
    text.split_inclusive('\r').map(|chunk| Ok(chunk.to_owned().into())).collect()
}
