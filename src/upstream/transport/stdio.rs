//! Newline-delimited messages over two pipes: a child's, or any other pair (tests use one in memory).
//!
//! The actor owns the two tasks made of [`read`] and [`write()`]; both end with the connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::protocol::clipped::whose;
use crate::protocol::framing::lines::{LineDecoder, encode_line};
use crate::upstream::moment::until;
use crate::upstream::wire::Wire;

/// Read at a time; a pipe holds 64 KiB.
const CHUNK: usize = 64 * 1024;
/// Messages written with one system call.
const BATCH: usize = 64;
/// How long a line above the limit may go on: a pipe carries gigabytes in that time, so a line without an end is not
/// going to have one, and nothing behind it would ever be read.
const ENDLESS: Duration = Duration::from_secs(5);
/// A write buffer that grew larger for one message is given back.
const BUFFER_KEPT: usize = 256 * 1024;

/// Reads messages until the pipe ends, then closes the connection. `life` is cancelled at the first byte: the process is up.
pub async fn read(wire: Arc<Wire>, mut input: impl AsyncRead + Unpin + Send, life: CancellationToken) {
    let mut lines = LineDecoder::new(wire.limits.message);
    let mut buffer = BytesMut::new();
    let mut endless = None;
    loop {
        buffer.reserve(CHUNK);
        let n = tokio::select! {
            biased;
            () = wire.closed().cancelled() => return,
            () = until(endless) => {
                warn!(server = %wire.server, "a line of the server has no end; closing the connection");
                break;
            }
            n = input.read_buf(&mut buffer) => n,
        };
        if !matches!(n, Ok(1..)) {
            break;
        }
        life.cancel();
        let mut chunk = buffer.split().freeze();
        while let Some(line) = lines.decode(&mut chunk) {
            match line {
                Ok(line) => drop(wire.receive(line, None)),
                Err(_) => wire.too_large(whose(lines.clipped().head(), lines.clipped().tail())),
            }
        }
        endless = lines.is_skipping().then(|| endless.unwrap_or_else(|| Instant::now() + ENDLESS));
    }
    if let Some(Ok(line)) = lines.finish() {
        wire.receive(line, None);
    }
    debug!(server = %wire.server, "the server closed its output");
    wire.close();
}

/// Writes what the outbox holds, several messages at a time, until the connection closes. Dropping `output` at the end
/// closes the child's input, which tells it to leave.
pub async fn write(wire: Arc<Wire>, mut output: impl AsyncWrite + Unpin + Send, mut outbox: mpsc::Receiver<Bytes>) {
    let mut messages = Vec::with_capacity(BATCH);
    let mut buffer = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = wire.closed().cancelled() => return,
            n = outbox.recv_many(&mut messages, BATCH) => if n == 0 { return },
        }
        for message in messages.drain(..) {
            encode_line(&mut buffer, &message);
        }
        // A broken pipe is this server's failure alone (bug report kind "broken pipe").
        if output.write_all(&buffer).await.is_err() || output.flush().await.is_err() {
            wire.close();
            return;
        }
        buffer.clear();
        buffer.shrink_to(BUFFER_KEPT);
    }
}
