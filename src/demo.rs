//! A tiny MCP server of our own: what `manifold demo-server` speaks over stdin and stdout.
//!
//! It lets a machine with nothing but Rust try the gateway, and it is meant to be read: the smallest MCP server that does
//! what the specification asks, in both eras, on one process. It stands beside the house: `main` (or a test) hands it a
//! reader and a writer, and no other module knows it.
//!
//! ```text
//! input --lines--> Connection (owns all state, no lock) --bounded outbox--> writer --lines--> output
//!                     | waiting calls (countdown, ask) are tasks in its JoinSet
//! ```
//!
//! * [`connection`] decides what a line is and who answers it.
//! * [`caller`] knows the two eras: who is asking, and how a result must be dressed for them.
//! * [`tools`] and [`texts`] are the offer: tools; resources, prompts and completions.
//! * [`subscriptions`] remembers who wants to hear of changes. [`wire`] builds JSON-RPC messages.

mod caller;
mod connection;
mod subscriptions;
#[cfg(test)]
mod tests;
mod texts;
mod tools;
mod wire;

use std::io;
use std::time::SystemTime;

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use connection::Connection;

/// Longest line that is read, in bytes; what comes after is dropped, so the line fails to parse and is answered as such.
/// 4 MiB is what the gateway itself accepts by default, and bounds what one peer can make this process hold.
const LINE_LIMIT: usize = 4 << 20;

/// Messages waiting to be written, in messages. A peer that stops reading stops being read, so a short queue is enough.
const OUTBOX: usize = 64;

/// Serves MCP on a pair of byte streams (newline-delimited JSON-RPC) until `input` ends, calling itself `name`.
///
/// Calls that still run at the end of input are stopped, and everything already answered is written, before this returns.
///
/// # Errors
/// When `input` cannot be read or `output` cannot be written (for instance because the reader of a pipe went away).
pub async fn run(
    name: String,
    input: impl AsyncRead + Unpin + Send + 'static,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "the one place where the demo reads the clock; tests pass another")]
    let clock = SystemTime::now;
    serve(name, input, output, clock).await
}

/// [`run`] with the wall clock as an argument, so that a test can choose what time it is.
async fn serve(
    name: String,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
    clock: fn() -> SystemTime,
) -> io::Result<()> {
    let (outbox, messages) = mpsc::channel(OUTBOX);
    let connection = Connection::new(name, clock, outbox);
    tokio::try_join!(read_all(input, connection), write_all(output, messages))?;
    Ok(())
}

async fn read_all(input: impl AsyncRead + Unpin, mut connection: Connection) -> io::Result<()> {
    let mut reader = BufReader::new(input);
    let mut line = Vec::new();
    while next_line(&mut reader, &mut line).await? {
        connection.line(&line).await;
    }
    connection.close().await;
    Ok(())
}

/// Reads the next line into `line`, at most [`LINE_LIMIT`] bytes of it. Says whether there was one.
async fn next_line(reader: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> io::Result<bool> {
    // A new buffer: the old one may have grown to the limit for a single message.
    *line = Vec::new();
    let mut seen = false;
    loop {
        let chunk = reader.fill_buf().await?;
        if chunk.is_empty() {
            return Ok(seen);
        }
        seen = true;
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let text = end.unwrap_or(chunk.len());
        let room = LINE_LIMIT - line.len();
        line.extend_from_slice(&chunk[..text.min(room)]);
        reader.consume(end.map_or(text, |end| end + 1));
        if end.is_some() {
            return Ok(true);
        }
    }
}

async fn write_all(mut output: impl AsyncWrite + Unpin, mut messages: mpsc::Receiver<Value>) -> io::Result<()> {
    while let Some(message) = messages.recv().await {
        // Compact JSON holds no raw newline, so one message is one line.
        let mut line = serde_json::to_vec(&message)?;
        line.push(b'\n');
        output.write_all(&line).await?;
        output.flush().await?;
    }
    output.shutdown().await
}
