//! The stdio upstream: what this test binary does when it is started as a child (see the parent module).

#![allow(clippy::disallowed_methods, reason = "ending at once is what a scenario asks of a child")]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::exit;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncBufReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::Order;
use super::control::{CONTROL, Report};
use super::engine::Engine;
use super::message::{Frame, Leg};
use super::record::{Log, Record};
use super::script::Script;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "this is the body of a stdio upstream, which other tests start as a child process"]
async fn scripted_upstream_child() {
    // Somebody who runs the ignored tests too gets here without a test to talk to.
    let Ok(control) = std::env::var(CONTROL) else { return };
    let stream = TcpStream::connect(control).unwrap();
    let reports = Reports(Arc::new(Mutex::new(stream.try_clone().unwrap())));
    reports.send(&Report::Hello { pid: std::process::id() });
    let mut orders = BufReader::new(stream);
    let script: Script = read_line(&mut orders).unwrap_or_else(|| exit(0));
    if script.stdio.exit_at_start {
        exit(1);
    }
    // Registering is what takes the default action away; nobody has to receive it.
    let _deaf = script.stdio.ignores_sigterm.then(|| signal(SignalKind::terminate()).unwrap());
    let out = start_writer(&script);
    for line in &script.stdio.banner {
        out.send(Frame::Noise(line.clone())).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(script.stdio.start_delay_ms)).await;

    let engine = Engine::new(script.clone(), Log::default());
    let leg = Leg { from: std::process::id().to_string(), out };
    engine.open_stream(leg.clone());
    let (obeying, answers) = (engine.clone(), reports.clone());
    let runtime = tokio::runtime::Handle::current();
    let (note, mut noted) = mpsc::channel(1);
    std::thread::spawn(move || {
        while let Some(order) = read_line::<Option<Order>>(&mut orders) {
            let Some(order) = order else {
                let _ = note.blocking_send(());
                continue;
            };
            runtime.block_on(obeying.obey(order));
            answers.send(&Report::Done);
        }
        // The test has ended: do not outlive it, whatever the script says.
        exit(0);
    });
    let mut input = tokio::io::BufReader::new(tokio::io::stdin());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
        line.clear();
        let record =
            Record { from: leg.from.clone(), verb: "LINE".into(), headers: Default::default(), body: text.clone() };
        reports.send(&Report::Received(record));
        noted.recv().await;
        engine.spawn(text, leg.clone());
    }
    if script.stdio.ignores_eof {
        std::future::pending::<()>().await;
    }
    exit(0);
}

#[derive(Clone)]
struct Reports(Arc<Mutex<TcpStream>>);

impl Reports {
    /// Written at once, so that what came before an exit is known.
    fn send(&self, report: &Report) {
        let line = serde_json::to_string(report).unwrap() + "\n";
        let _ = self.0.lock().unwrap().write_all(line.as_bytes());
    }
}

fn read_line<T: serde::de::DeserializeOwned>(lines: &mut impl BufRead) -> Option<T> {
    let mut line = String::new();
    lines.read_line(&mut line).ok().filter(|read| *read > 0)?;
    serde_json::from_str(&line).ok()
}

/// Writes frames to descriptor 3, from a thread that may block as long as the peer does not read.
fn start_writer(script: &Script) -> mpsc::Sender<Frame> {
    let (out, mut frames) = mpsc::channel(64);
    let mut stdout = File::options().write(true).open("/dev/fd/3").unwrap();
    let byte_by_byte = script.stdio.byte_by_byte;
    std::thread::spawn(move || {
        while let Some(frame) = frames.blocking_recv() {
            let written = match frame {
                Frame::Message(text) | Frame::Answer(_, text) | Frame::Noise(text) if byte_by_byte => {
                    format!("{text}\n").bytes().try_for_each(|byte| stdout.write_all(&[byte]))
                }
                Frame::Message(text) | Frame::Answer(_, text) | Frame::Noise(text) => {
                    stdout.write_all(format!("{text}\n").as_bytes())
                }
                Frame::Stderr(bytes) => std::io::stderr().write_all("log line\n".repeat(bytes / 9 + 1).as_bytes()),
                Frame::Endless(bytes) => (0..bytes / 65_536 + 1).try_for_each(|_| stdout.write_all(&[b'x'; 65_536])),
                Frame::Park(_) => Ok(()),
                Frame::Die => exit(1),
            };
            if written.is_err() {
                exit(1);
            }
        }
    });
    out
}
