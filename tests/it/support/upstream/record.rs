//! What a scripted upstream received, and waiting for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::watch;

/// Longest wait of a test for something that must happen; generous, as it is only used up by a failing test.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// One message, or one thing that happened to the transport.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Which child process (by pid) or which legacy HTTP session; empty when neither.
    pub from: String,
    /// `GET`, `POST` or `DELETE`; `LINE` on stdio; `GONE` when the peer left a call unanswered (closed its stream), with the
    /// request in [`Record::body`]; `START` and `END` of a child.
    pub verb: String,
    /// Header names in lower case. Empty on stdio.
    pub headers: BTreeMap<String, String>,
    /// The message as it came, to the byte.
    pub body: String,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

impl Record {
    /// The JSON-RPC method; empty for a response, and for what is no message. A call that was left has none either.
    pub fn method(&self) -> String {
        if self.is_gone() {
            return String::new();
        }
        self.envelope().and_then(|envelope| envelope.method).unwrap_or_default()
    }

    /// The request id as its JSON text.
    pub fn id(&self) -> Option<String> {
        Some(self.envelope()?.id?.get().to_owned())
    }

    /// Raw text of the params.
    pub fn raw_params(&self) -> Option<String> {
        Some(self.envelope()?.params?.get().to_owned())
    }

    /// The whole message, parsed. Null if it is no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The peer closed the stream of this call before it was answered.
    pub fn is_gone(&self) -> bool {
        self.verb == "GONE"
    }

    fn envelope(&self) -> Option<Envelope<'_>> {
        serde_json::from_str(&self.body).ok()
    }
}

/// All records so far; clones share them.
#[derive(Clone)]
pub struct Log {
    records: Arc<Mutex<Vec<Record>>>,
    grown: watch::Sender<usize>,
}

impl Default for Log {
    fn default() -> Self {
        Self { records: Arc::default(), grown: watch::Sender::new(0) }
    }
}

impl Log {
    pub fn add(&self, record: Record) {
        let mut records = self.records.lock().unwrap();
        records.push(record);
        self.grown.send_replace(records.len());
    }

    pub fn all(&self) -> Vec<Record> {
        self.records.lock().unwrap().clone()
    }

    /// Resolves as soon as the log is longer than `length`.
    pub async fn longer_than(&self, length: usize) {
        let _ = self.grown.subscribe().wait_for(|now| *now > length).await;
    }

    pub async fn wait_for(&self, n: usize, fits: impl Fn(&Record) -> bool) -> Record {
        let found = async {
            loop {
                let all = self.all();
                if let Some(record) = all.iter().filter(|record| fits(record)).nth(n - 1) {
                    return record.clone();
                }
                self.longer_than(all.len()).await;
            }
        };
        match tokio::time::timeout(PATIENCE, found).await {
            Ok(record) => record,
            Err(_) => {
                let seen: Vec<_> = self.all().iter().map(|got| format!("{} {}", got.verb, got.body)).collect();
                panic!("waited {PATIENCE:?} in vain; the upstream received:\n{}", seen.join("\n"));
            }
        }
    }
}
