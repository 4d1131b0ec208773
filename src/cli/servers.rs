//! What the admin listener says of the servers: the table of `status`, and which of them a list misses.
//!
//! Asked over [`Endpoint`]. An MCP endpoint answers with what there is and is silent about what is not, so `tools` and its
//! like come here when they have listed.

use std::io::{self, Write};
use std::time::Duration;

use serde::Deserialize;

use super::endpoint::Endpoint;
use super::output::{complain, width};
use super::{ADMIN_URL, Exit, Failure, ListArgs, StatusArgs, URL, table};

/// How long a list waits for the admin listener, which answers from memory: it is only asked for a remark.
const REMARK_WAIT: Duration = Duration::from_secs(2);

/// `status`: bad news when an enabled server is not ready.
pub(super) async fn status(args: &StatusArgs) -> Result<Exit, Failure> {
    let (page, servers) = ask(&args.admin_url, args.timeout).await?;
    let mut stdout = io::stdout().lock();
    if args.json {
        writeln!(stdout, "{page}")?;
    } else {
        let rows: Vec<_> = servers.iter().map(ServerLine::row).collect();
        let heads = ["SERVER", "STATE", "SPEAKS", "TOOLS", "RESOURCES", "PROMPTS", "RESTARTS", "NOTE"];
        stdout.write_all(table::render(heads, &rows, width()).as_bytes())?;
    }
    Ok(if servers.iter().all(ServerLine::is_well) { Exit::Ok } else { Exit::Problem })
}

/// The end of a list: says which servers it misses and why. Bad news when nothing is listed and a server is the reason.
pub(super) async fn conclude(args: &ListArgs, is_empty: bool) -> Result<Exit, Failure> {
    let Some(admin_url) = admin_url(&args.gateway.url, args.admin_url.as_deref()) else {
        return Ok(unexplained(is_empty));
    };
    let wait = REMARK_WAIT.min(args.gateway.timeout);
    let Ok((_, servers)) = ask(admin_url, wait).await else {
        return Ok(unexplained(is_empty));
    };
    let missing: Vec<&ServerLine> =
        servers.iter().filter(|server| !server.is_well() && server.is_behind(&args.gateway.url)).collect();
    for server in &missing {
        complain(&format!("server {:?} is not available ({}): {}", server.name, server.state(), server.note()));
    }
    match (is_empty, missing.is_empty()) {
        (true, false) => Ok(Exit::Problem),
        (true, true) => {
            complain("nothing is listed: no server offers any");
            Ok(Exit::Ok)
        }
        (false, _) => Ok(Exit::Ok),
    }
}

/// Without the admin listener an empty list has no reason to be seen.
fn unexplained(is_empty: bool) -> Exit {
    if is_empty {
        complain("nothing is listed; `manifold status` shows how the servers stand, --admin-url lets a list do so");
    }
    Exit::Ok
}

/// The admin listener that belongs to an MCP endpoint: the one that is named, or by default the one beside the default.
fn admin_url<'a>(url: &str, named: Option<&'a str>) -> Option<&'a str> {
    let is_default = url.strip_prefix(URL).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    named.or(is_default.then_some(ADMIN_URL))
}

async fn ask(admin_url: &str, timeout: Duration) -> Result<(String, Vec<ServerLine>), Failure> {
    let url = format!("{}/api/servers", admin_url.trim_end_matches('/'));
    let (status, page) = Endpoint::new(&url, timeout)?.get().await?;
    match serde_json::from_str::<Servers>(&page).ok().filter(|_| status.is_success()) {
        Some(Servers { servers }) => Ok((page, servers)),
        None => {
            let message = format!("{url} does not answer like an admin listener (status {status})");
            Err(Failure::new(Exit::Unreachable, message))
        }
    }
}

/// `/api/servers` as far as the table shows it; an older or newer gateway may leave out or add fields.
#[derive(Debug, Deserialize)]
struct Servers {
    servers: Vec<ServerLine>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ServerLine {
    name: String,
    endpoint: String,
    state: String,
    revision: Option<String>,
    entries: Entries,
    restarts: u64,
    failed_attempts: u64,
    last_error: Option<String>,
    retry_in_ms: Option<u64>,
    conflicts: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Entries {
    tools: u64,
    resources: u64,
    templates: u64,
    prompts: u64,
}

impl ServerLine {
    /// Whether what it offers is listed at `url`: it has an endpoint of its own, and all have the merged one.
    fn is_behind(&self, url: &str) -> bool {
        let url = url.trim_end_matches('/');
        url.rsplit_once("/mcp/").is_none_or(|_| url.ends_with(&self.endpoint))
    }

    fn is_well(&self) -> bool {
        matches!(&*self.state, "ready" | "disabled")
    }

    fn state(&self) -> String {
        self.state.replace('_', " ")
    }

    fn row(&self) -> [String; 8] {
        let Entries { tools, resources, templates, prompts } = self.entries;
        [
            self.name.clone(),
            self.state(),
            self.revision.clone().unwrap_or_else(|| "-".to_owned()),
            tools.to_string(),
            (resources + templates).to_string(),
            prompts.to_string(),
            self.restarts.to_string(),
            self.note(),
        ]
    }

    /// What an operator would ask next. An error that is over is not shown here; the admin page keeps it.
    fn note(&self) -> String {
        let mut notes = Vec::new();
        match self.failed_attempts {
            0 => {}
            1 => notes.push("1 attempt failed".to_owned()),
            n => notes.push(format!("{n} attempts failed")),
        }
        if let Some(retry) = self.retry_in_ms {
            notes.push(format!("next attempt in {} s", retry.div_ceil(1000)));
        }
        notes.extend(self.last_error.clone().filter(|_| self.state != "ready"));
        if !self.conflicts.is_empty() {
            notes.push(format!("hidden, names claimed twice: {}", self.conflicts.join(", ")));
        }
        notes.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_line_says_what_to_ask_next() {
        let line: ServerLine = serde_json::from_str(
            r#"{"name":"slow","state":"backing_off","retryInMs":2400,"failedAttempts":2,"lastError":"refused","entries":{"tools":2},"new":1}"#,
        )
        .unwrap();
        assert_eq!(
            line.row(),
            ["slow", "backing off", "-", "2", "0", "0", "0", "2 attempts failed; next attempt in 3 s; refused"]
        );
        let line: ServerLine = serde_json::from_str(r#"{"state":"ready","lastError":"old news"}"#).unwrap();
        assert_eq!(line.note(), "");
    }

    #[test]
    fn an_endpoint_has_the_servers_behind_it() {
        let line = ServerLine { endpoint: "/mcp/files".to_owned(), ..ServerLine::default() };
        for (url, want) in [
            ("http://127.0.0.1:8080/mcp", true),
            ("http://127.0.0.1:8080/mcp/", true),
            ("http://127.0.0.1:8080/mcp/files", true),
            ("https://gate.example.com/tools/mcp/files/", true),
            ("http://127.0.0.1:8080/mcp/other", false),
            ("http://127.0.0.1:8080/mcp/my-files", false),
        ] {
            assert_eq!(line.is_behind(url), want, "{url}");
        }
    }

    #[test]
    fn only_the_default_endpoint_implies_the_default_admin_listener() {
        for (url, named, want) in [
            (URL, None, Some(ADMIN_URL)),
            ("http://127.0.0.1:8080/mcp/files", None, Some(ADMIN_URL)),
            ("http://127.0.0.1:8081/mcp", None, None),
            ("http://127.0.0.1:8080/mcpx", None, None),
            ("http://127.0.0.1:8081/mcp", Some("http://10.0.0.1:9090"), Some("http://10.0.0.1:9090")),
        ] {
            assert_eq!(admin_url(url, named), want, "{url}");
        }
    }
}
