//! Child processes: the only place that starts one, and the place that makes sure it ends.
//!
//! `stdio` speaks over the pipes that come out of here. A child leads its own process group, because package runners and
//! shells put a wrapper between us and the server; signals go to the whole group. Rules: protocol.md §4.6.

use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use nix::sys::signal::Signal;
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup, ResetSigmask};
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::config::{Secret, Text};
use crate::name::ServerName;
use crate::protocol::framing::lines::LineDecoder;
use crate::upstream::error::DialError;

/// Longest line of a child's error output that is logged whole, in bytes; of a longer one nothing is.
const STDERR_LINE_MAX: usize = 8 * 1024;

/// Variables that a child gets from our own environment: where programs and the home are, the language, and where
/// certificates and temporary files live. Everything else may be a secret of another server.
const INHERITED: [&str; 17] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
];

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// The program, by name or path. No shell reads it.
    pub command: &'a Text,
    /// Its arguments.
    pub args: &'a [Secret],
    /// Added to the inherited variables; wins over them.
    pub env: &'a [(String, Secret)],
    /// Working directory.
    pub cwd: Option<&'a Text>,
}

/// A running child; dropping it kills its group.
#[derive(Debug)]
pub struct Child {
    inner: Box<dyn ChildWrapper>,
    gone: bool,
}

/// A child's three pipes.
#[derive(Debug)]
pub struct Pipes {
    /// Its input.
    pub stdin: ChildStdin,
    /// Its output: messages.
    pub stdout: ChildStdout,
    /// Its error output: log lines.
    pub stderr: ChildStderr,
}

/// Starts a child.
pub fn spawn(program: Program<'_>) -> Result<(Child, Pipes), DialError> {
    let failed = |reason: String| DialError::Spawn { command: program.command.expose().to_owned(), reason };
    let mut command = Command::new(program.command.expose());
    command.args(program.args.iter().map(Secret::expose));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_clear().envs(inherited(std::env::vars_os()));
    command.envs(program.env.iter().map(|(k, v)| (k.as_str(), v.expose())));
    if let Some(cwd) = program.cwd {
        command.current_dir(cwd.expose());
    }
    let mut wrapped = CommandWrap::from(command);
    wrapped.wrap(ProcessGroup::leader()).wrap(ResetSigmask).wrap(KillOnDrop);
    let mut inner = wrapped.spawn().map_err(|e| failed(reason(&e, program)))?;
    match (inner.stdin().take(), inner.stdout().take(), inner.stderr().take()) {
        (Some(stdin), Some(stdout), Some(stderr)) => {
            Ok((Child { inner, gone: false }, Pipes { stdin, stdout, stderr }))
        }
        _ => Err(failed("its pipes could not be opened".into())),
    }
}

/// "No such file" is about the working directory as often as about the program.
fn reason(error: &std::io::Error, program: Program<'_>) -> String {
    match (error.kind(), program.cwd) {
        (std::io::ErrorKind::NotFound, Some(cwd)) if !std::path::Path::new(cwd.expose()).is_dir() => {
            format!("{error} (the working directory does not exist)")
        }
        (std::io::ErrorKind::NotFound, _) => format!("{error} (is it installed, and in PATH?)"),
        _ => error.to_string(),
    }
}

fn inherited<K: AsRef<std::ffi::OsStr>, V>(vars: impl Iterator<Item = (K, V)>) -> impl Iterator<Item = (K, V)> {
    vars.filter(|(key, _)| {
        let key = key.as_ref().to_str().unwrap_or_default();
        INHERITED.contains(&key) || key.starts_with("LC_")
    })
}

impl Child {
    /// Its process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.inner.id()
    }

    /// Waits for its end and says how it ended.
    pub async fn wait(&mut self) -> String {
        let ended = self.inner.wait().await;
        self.gone = true;
        // Whatever the leader left behind in its group goes too.
        let _ = self.inner.signal(Signal::SIGKILL as i32);
        ended.map_or_else(|e| format!(": {e}"), |status| format!(": {status}"))
    }

    /// Ends it: its input is closed already; wait, SIGTERM to the group, wait, SIGKILL (bug report kind "child ignores end of input").
    pub async fn end(mut self, server: &ServerName, grace: Duration) {
        if timeout(grace, self.wait()).await.is_ok() {
            return;
        }
        info!(server = %server, "the process did not leave when its input closed; sending SIGTERM");
        let _ = self.inner.signal(Signal::SIGTERM as i32);
        if timeout(grace, self.wait()).await.is_ok() {
            return;
        }
        warn!(server = %server, "the process ignores SIGTERM; killing it");
        let _ = self.inner.start_kill();
        if timeout(grace, self.wait()).await.is_err() {
            warn!(server = %server, "the process could not be reaped");
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.gone {
            // Nothing can be done about a failure here, and a group that is gone already is the usual one.
            let _ = self.inner.signal(Signal::SIGKILL as i32);
        }
    }
}

/// Reads a child's error output to its end and logs it line by line. It is never a sign of failure, and it is always
/// drained, or the child would stop in a write (bug report kind "stderr not drained").
pub async fn drain_stderr(server: ServerName, mut stderr: ChildStderr, life: CancellationToken) {
    let mut lines = LineDecoder::new(STDERR_LINE_MAX);
    let mut buffer = vec![0; STDERR_LINE_MAX];
    while let Ok(n @ 1..) = stderr.read(&mut buffer).await {
        life.cancel();
        let mut chunk = Bytes::copy_from_slice(&buffer[..n]);
        while let Some(line) = lines.decode(&mut chunk) {
            log_line(&server, line.ok());
        }
    }
    if let Some(line) = lines.finish() {
        log_line(&server, line.ok());
    }
}

fn log_line(server: &ServerName, line: Option<Bytes>) {
    match line {
        Some(line) => info!(target: "manifold::stderr", server = %server, "{}", String::from_utf8_lossy(&line)),
        None => info!(target: "manifold::stderr", server = %server, "(a line longer than {STDERR_LINE_MAX} bytes)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_gets_path_home_and_locale_and_nothing_else_of_ours() {
        let ours =
            [("PATH", 1), ("HOME", 2), ("LC_ALL", 3), ("AWS_SECRET_ACCESS_KEY", 4), ("GITHUB_TOKEN", 5), ("LANG", 6)];
        let kept: Vec<i32> = inherited(ours.into_iter()).map(|(_, v)| v).collect();
        assert_eq!(kept, [1, 2, 3, 6]);
    }
}
