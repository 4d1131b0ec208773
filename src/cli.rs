//! The command line: what can be asked for, and the exit codes.
//!
//! `main` parses [`Arguments`] and calls [`run`]. Commands that are the gateway (`serve`, `stdio`, `check`,
//! `demo-server`) are in `launch`; commands that ask a running one are in `ask` and `servers`, over `endpoint`.
//!
//! Exit codes: 0 all is well · 1 the answer is bad news (a problem in a configuration, a tool's error, an error answered
//! by the gateway, a server that is not ready in `status`, an empty list while one is not) · 2 the command line is
//! wrong · 3 no gateway answered in time · 4 the gateway could not start or go on.

mod ask;
mod endpoint;
mod launch;
mod output;
mod servers;
mod suggest;
mod table;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::telemetry::logging::Format;

/// Where `serve` listens by default.
const URL: &str = "http://127.0.0.1:8080/mcp";
const ADMIN_URL: &str = "http://127.0.0.1:9090";

const CODES: &str = "\
Exit codes: 0 all is well, 1 the answer is bad news (a problem in a configuration, an error of a tool or of the gateway, \
a server that is not ready in `status`, an empty list while a server is not ready), 2 the command line is wrong, 3 no gateway answered in time, 4 the gateway could not start or go on.";

/// The whole command line. Without a command it is `serve`.
#[derive(Debug, Parser)]
#[command(name = "manifold", version, about = "One MCP server made of many.", after_help = CODES)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the configured servers as one, over HTTP (the default)
    Serve(ServeArgs),
    /// Report every problem of a configuration, with its place and what to do
    #[command(after_help = CODES)]
    Check(CheckArgs),
    /// Be the tiny MCP server of the built-in demo, on standard input and output
    DemoServer(DemoArgs),
    /// Serve the configured servers as one, on standard input and output
    Stdio(StdioArgs),
    /// List the tools of a running gateway
    #[command(after_help = CODES)]
    Tools(ListArgs),
    /// List the resources and resource templates of a running gateway
    #[command(after_help = CODES)]
    Resources(ListArgs),
    /// List the prompts of a running gateway
    #[command(after_help = CODES)]
    Prompts(ListArgs),
    /// Show the servers of a running gateway: state, era, entries, last error
    #[command(after_help = CODES)]
    Status(StatusArgs),
    /// Call a tool through a running gateway and print what it returns
    #[command(after_help = CODES)]
    Call(CallArgs),
}

#[derive(Debug, Default, Args)]
struct ConfigArgs {
    /// Configuration to load (.yaml, .yml, .toml or .json); otherwise MANIFOLD_CONFIG, ./manifold.*, /etc/manifold/manifold.yaml, the built-in demo
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, Default, Args)]
struct StateArgs {
    /// Folder for what outlives a restart; otherwise STATE_DIRECTORY (systemd), XDG_STATE_HOME/manifold, ~/.local/state/manifold
    #[arg(long, env = "MANIFOLD_STATE_DIR", value_name = "FOLDER")]
    state_dir: Option<PathBuf>,
}

#[derive(Debug, Default, Args)]
struct LogArgs {
    /// How log lines look; wins over the configuration
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// What is logged: a level, or a list like info,mcp_manifold::upstream=debug; wins over the configuration
    #[arg(long, value_name = "FILTER")]
    log_level: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

impl From<LogFormat> for Format {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Text => Self::Text,
            LogFormat::Json => Self::Json,
        }
    }
}

#[derive(Debug, Default, Args)]
struct ServeArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Address of the MCP listener, 127.0.0.1:8080 unless configured; port 0 takes a free one. Wins over the configuration
    #[arg(long, value_name = "ADDR", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Address of the admin listener, 127.0.0.1:9090 unless configured; port 0 takes a free one. Wins over the configuration
    #[arg(long, value_name = "ADDR", value_parser = address)]
    admin_listen: Option<SocketAddr>,
    /// Listen beyond loopback although nobody has to say who they are: everyone who can connect can use every server
    #[arg(long)]
    insecure_no_auth: bool,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    log: LogArgs,
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    crate::config::address_of(text).ok_or("an address with its port is wanted, such as 127.0.0.1:8080 or [::1]:8080")
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// Configuration to check; looked for like that of `serve` when left out
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct DemoArgs {
    /// What it calls itself
    #[arg(long, default_value = "demo")]
    name: String,
}

#[derive(Debug, Args)]
struct StdioArgs {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Where the gateway is, for the commands that speak MCP to it.
#[derive(Debug, Args)]
struct GatewayArgs {
    /// MCP endpoint of the gateway; /mcp/NAME is one server alone
    #[arg(long, env = "MANIFOLD_URL", value_name = "URL", default_value = URL)]
    url: String,
    /// Give up after this long, for instance 30s
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = humantime::parse_duration)]
    timeout: Duration,
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    gateway: GatewayArgs,
    /// Admin listener of the gateway, asked for the servers that are missing; http://127.0.0.1:9090 with the default --url
    #[arg(long, env = "MANIFOLD_ADMIN_URL", value_name = "URL")]
    admin_url: Option<String>,
    /// Print the whole entries as one JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct StatusArgs {
    /// Admin listener of the gateway
    #[arg(long, env = "MANIFOLD_ADMIN_URL", value_name = "URL", default_value = ADMIN_URL)]
    admin_url: String,
    /// Give up after this long, for instance 30s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    /// Print what the admin listener answers, as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct CallArgs {
    /// Name of the tool as `manifold tools` shows it
    name: String,
    /// Arguments of the tool, a JSON object; @FILE reads a file, - reads standard input. None are sent when left out
    #[arg(long = "json", value_name = "OBJECT", allow_hyphen_values = true)]
    arguments: Option<String>,
    /// Print the whole result as JSON instead of its text
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    gateway: GatewayArgs,
}

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All is well.
    Ok = 0,
    /// The answer is bad news: a problem in a configuration, an error of a tool or of the gateway.
    Problem = 1,
    /// The command line is wrong. `clap` ends the program with the same number.
    Usage = 2,
    /// No gateway could be reached.
    Unreachable = 3,
    /// The gateway could not start or go on.
    Failed = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A command that did not come to its end: how the program ends, and the sentence that says why.
#[derive(Debug)]
struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }
}

impl From<std::io::Error> for Failure {
    /// Of writing to our own output. A reader that went away (`manifold tools | head`) has seen enough.
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::new(Exit::Ok, ""),
            _ => Self::new(Exit::Failed, format!("cannot write the output: {error}")),
        }
    }
}

/// Carries out the command and says how the program ends; everything that a person should know has then been printed.
pub async fn run(arguments: Arguments) -> Exit {
    let done = match arguments.command.unwrap_or(Command::Serve(arguments.serve)) {
        Command::Serve(args) => launch::serve(args).await,
        Command::Stdio(args) => launch::stdio(args).await,
        Command::Check(args) => launch::check(&args),
        Command::DemoServer(args) => launch::demo(args).await,
        Command::Tools(args) => ask::tools(&args).await,
        Command::Resources(args) => ask::resources(&args).await,
        Command::Prompts(args) => ask::prompts(&args).await,
        Command::Status(args) => servers::status(&args).await,
        Command::Call(args) => ask::call(&args).await,
    };
    done.unwrap_or_else(|failure| {
        if !failure.message.is_empty() {
            output::complain(&failure.message);
        }
        failure.exit
    })
}

#[cfg(test)]
mod tests;
