//! The real program of a scenario: as a command that ends, or as a gateway that serves.

use std::process::{Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

use super::app::PATIENCE;

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self {
            code: output.status.code().expect("an exit code"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// The program in an empty directory with nothing of our own environment that it would read.
fn command(args: &[&str], directory: &std::path::Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_manifold"));
    let ours = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(|n| n.starts_with("MANIFOLD")));
    for (name, _) in ours {
        command.env_remove(name);
    }
    command.env("MANIFOLD_STATE_DIR", directory.join("state"));
    command.args(args).current_dir(directory).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command to its end, in a directory without any configuration.
pub async fn run(args: &[&str]) -> Ended {
    let directory = tempfile::tempdir().unwrap();
    run_in(directory.path(), args, "").await
}

/// The same in a directory of the test's, with this on standard input.
pub async fn run_in(directory: &std::path::Path, args: &[&str], input: &str) -> Ended {
    let mut child = command(args, directory).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that does not read its input may be gone before all of it is written.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = timeout(PATIENCE, child.wait_with_output()).await.expect("the command ends in time");
    Ended::of(output.unwrap())
}

/// A gateway in a process of its own, on free ports.
pub struct Serving {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    /// Everything that it has said on standard error so far.
    pub said: String,
    directory: tempfile::TempDir,
}

impl Serving {
    /// `serve` with these further arguments and this configuration; without one it finds none. Returns when it serves.
    pub async fn start(config: Option<&str>, args: &[&str], env: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        if let Some(config) = config {
            std::fs::write(directory.path().join("manifold.yaml"), config).unwrap();
        }
        let all = [&["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"], args].concat();
        let mut child = command(&all, directory.path()).envs(env.iter().copied()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut serving = Self { child, lines, said: String::new(), directory };
        serving.hear(if args.contains(&"json") { "\"serving\"" } else { "  servers " }).await;
        serving
    }

    /// Reads on until a line holds this; the line.
    pub async fn hear(&mut self, part: &str) -> String {
        loop {
            let line = timeout(PATIENCE, self.lines.next_line()).await.expect("a line in time").unwrap();
            let line = line.unwrap_or_else(|| panic!("it ended without saying {part:?}:\n{}", self.said));
            self.said += &line;
            self.said.push('\n');
            if line.contains(part) {
                return line;
            }
        }
    }

    fn announced(&self, label: &str) -> String {
        let of_line = |line: &str| match line.starts_with('{') {
            true => serde_json::from_str::<Value>(line).ok()?.get(label)?.as_str().map(str::to_owned),
            false => line.strip_prefix("  ")?.strip_prefix(label)?.split_whitespace().next().map(str::to_owned),
        };
        self.said.lines().find_map(of_line).expect("it said where it serves")
    }

    /// The merged endpoint, as the start-up lines name it.
    pub fn url(&self) -> String {
        self.announced("endpoint")
    }

    /// A page of the admin listener; it begins with `/`.
    pub fn admin(&self, path: &str) -> String {
        format!("{}{path}", self.announced("admin").trim_end_matches('/'))
    }

    /// Where its configuration is.
    pub fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// Sends SIGTERM and reads the rest: exit code, standard output, and all of standard error.
    pub async fn terminate(mut self) -> Ended {
        let pid = i32::try_from(self.child.id().expect("it runs")).unwrap();
        kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
        while let Some(line) = timeout(PATIENCE, self.lines.next_line()).await.expect("it ends in time").unwrap() {
            self.said += &line;
            self.said.push('\n');
        }
        let output = timeout(PATIENCE, self.child.wait_with_output()).await.expect("it ends in time").unwrap();
        Ended { stderr: self.said, ..Ended::of(output) }
    }
}
