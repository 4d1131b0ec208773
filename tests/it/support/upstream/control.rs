//! Joins the children of a stdio upstream to their test: the script goes down, records come up, orders are acknowledged.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::Order;
use super::record::{Log, Record};
use super::script::Script;

/// Environment variable that holds the address of the control socket. Its presence makes the ignored test a child.
pub const CONTROL: &str = "SCRIPTED_UPSTREAM";

/// The ignored test that is the body of a child.
const CHILD_TEST: &str = "support::upstream::child::scripted_upstream_child";

/// A line from child to test. What comes back, after the script, is an `Option<Order>` a line: an order, or that a record
/// was noted. A child serves a message only then, so that who sees an answer also finds the record.
#[derive(Serialize, Deserialize)]
pub enum Report {
    Hello {
        pid: u32,
    },
    Received(Record),
    /// The last order is carried out.
    Done,
}

type Told = (Order, oneshot::Sender<()>);

struct Child {
    pid: u32,
    orders: mpsc::Sender<Told>,
}

struct Shared {
    script: Mutex<Script>,
    live: Mutex<Vec<Child>>,
    log: Log,
}

/// All children that were ever started with the command, of which some are alive.
pub struct Children {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Holds the accepting task; dropping it closes the control sockets, and a child without one exits.
    _accepting: JoinSet<()>,
}

impl Children {
    pub async fn listen(script: Script, log: Log) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { script: Mutex::new(script), live: Mutex::default(), log });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, shared.clone()));
        Self { address, shared, _accepting: accepting }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn args(&self) -> Vec<String> {
        let exe = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
        let wrapped = self.shared.script.lock().unwrap().stdio.wrapped;
        // Descriptor 3 is the real stdout, so that what the test harness prints does not mix with the protocol. Without
        // `exec` the shell stays in between, as package runners do.
        let line = if wrapped { r#""$0" "$@" 3>&1 >/dev/null; exit $?"# } else { r#"exec "$0" "$@" 3>&1 >/dev/null"# };
        ["-c", line, &exe, CHILD_TEST, "--exact", "--ignored", "--test-threads=1"].map(String::from).to_vec()
    }

    pub fn env(&self) -> Vec<(String, String)> {
        vec![(CONTROL.into(), self.address.to_string())]
    }

    /// What the next child is going to read.
    pub fn script(&self) -> Script {
        self.shared.script.lock().unwrap().clone()
    }

    pub fn pids(&self) -> Vec<u32> {
        self.shared.live.lock().unwrap().iter().map(|child| child.pid).collect()
    }

    pub fn kill(&self) {
        for pid in self.pids() {
            // It may have left by itself a moment ago.
            let _ = kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL);
        }
    }

    /// Tells every live child, and returns when each has done it or is gone.
    pub async fn order(&self, order: Order) {
        match &order {
            Order::SetTools(tools) => self.shared.script.lock().unwrap().tools.clone_from(tools),
            Order::SetScript(script) => self.shared.script.lock().unwrap().clone_from(script),
            _ => {}
        }
        let live: Vec<_> = self.shared.live.lock().unwrap().iter().map(|child| child.orders.clone()).collect();
        for orders in live {
            let (done, acknowledged) = oneshot::channel();
            let _ = orders.send((order.clone(), done)).await;
            let _ = acknowledged.await;
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut children = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while children.try_join_next().is_some() {}
        children.spawn(attend(stream, shared.clone()));
    }
}

async fn attend(stream: TcpStream, shared: Arc<Shared>) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let hello = lines.next_line().await.ok().flatten().unwrap_or_default();
    let Ok(Report::Hello { pid }) = serde_json::from_str(&hello) else { return };
    let (orders, mut told) = mpsc::channel::<Told>(16);
    shared.live.lock().unwrap().push(Child { pid, orders });
    note(&shared, "START", pid);
    let script = serde_json::to_string(&*shared.script.lock().unwrap()).unwrap();
    let _ = write.write_all(format!("{script}\n").as_bytes()).await;
    let mut waiting: Option<oneshot::Sender<()>> = None;
    loop {
        tokio::select! {
            line = lines.next_line() => match line.ok().flatten().map(|line| serde_json::from_str(&line).unwrap()) {
                Some(Report::Received(record)) => {
                    shared.log.add(record);
                    let _ = write.write_all(b"null\n").await;
                }
                Some(Report::Done) => { let _ = waiting.take().map(|done| done.send(())); }
                Some(Report::Hello { .. }) => {}
                None => break,
            },
            Some((order, done)) = told.recv(), if waiting.is_none() => {
                waiting = Some(done);
                let order = serde_json::to_string(&order).unwrap();
                let _ = write.write_all(format!("{order}\n").as_bytes()).await;
            }
        }
    }
    shared.live.lock().unwrap().retain(|child| child.pid != pid);
    note(&shared, "END", pid);
}

fn note(shared: &Shared, verb: &str, pid: u32) {
    shared.log.add(Record {
        from: pid.to_string(),
        verb: verb.into(),
        headers: Default::default(),
        body: String::new(),
    });
}
