//! Builds every part in floor order, puts the edges in front, runs, and takes all of it down again in order.
//!
//! The only file that sees all floors. `cli` calls [`serve`] and [`stdio`]; tests start a [`Running`] themselves.

pub mod core;
pub mod facts;
mod sealing;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::core::Core;
use crate::admin::{self, Facts};
use crate::catalog::Endpoint;
use crate::config::{Config, Loaded};
use crate::downstream::serve::{bind, serve as serve_on};
use crate::downstream::session::Sessions;
use crate::downstream::settings::{ConnectionLimits, ReplayLimits, SessionLimits, Settings, StdioSettings};
use crate::downstream::{self};
use crate::shutdown;

/// Beyond the grace period of calls, for upstreams to leave: each child has its own two waits inside of it.
const LEAVE_GRACE: Duration = Duration::from_secs(15);

/// Why the gateway did not start, or not go on.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address} ({key}): {reason}; give another address, or port 0 for a free one")]
    Bind {
        /// The configuration key.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        reason: std::io::Error,
    },
    /// Everyone on the network could use every server.
    #[error(
        "{key} is {address}, which others can reach, and nobody has to say who they are: listen on 127.0.0.1, or give --insecure-no-auth"
    )]
    Exposed {
        /// The configuration key.
        key: &'static str,
        /// The address.
        address: SocketAddr,
    },
    /// Signals cannot be heard, or standard input or output is broken.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The kept key cannot be used.
    #[error("{file} is not a sealing key; remove it, and a new one is made (calls that wait for their user start anew)", file = file.display())]
    Key {
        /// Where it is.
        file: PathBuf,
    },
    /// Something that should not happen.
    #[error("the gateway could not start: {0}")]
    Internal(String),
}

/// What flags say beside the configuration.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Listen beyond loopback without authentication.
    pub insecure_no_auth: bool,
    /// Folder for what outlives a restart, made when it is needed; without one nothing does.
    pub state: Option<PathBuf>,
}

/// A gateway that serves.
#[derive(Debug)]
pub struct Running {
    /// Where MCP is served.
    pub mcp: SocketAddr,
    /// Where the admin pages are.
    pub admin: SocketAddr,
    core: Core,
    sessions: Sessions,
    stop_mcp: CancellationToken,
    stop_admin: CancellationToken,
    mcp_tasks: JoinSet<()>,
    admin_tasks: JoinSet<()>,
    grace: Duration,
}

impl Running {
    /// Binds both listeners, starts everything, and serves.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub async fn start(config: Config, options: Options) -> Result<Self, StartError> {
        if let Some(exposed) = config.is_exposed().filter(|_| !options.insecure_no_auth) {
            return Err(StartError::Exposed { key: exposed.key, address: exposed.address });
        }
        let (mcp_listener, mcp) = bound("listen", config.listen).await?;
        let (admin_listener, admin) = bound("admin.listen", config.admin.listen).await?;
        let config = Arc::new(config);
        let core = Core::start(config.clone(), options.state.as_deref()).await?;
        let limits = ConnectionLimits { grace: config.shutdown_grace, ..ConnectionLimits::default() };
        let sessions = Sessions::new(SessionLimits {
            idle: config.sessions.idle,
            absolute: config.sessions.absolute,
            most: config.sessions.max,
            most_of_one: config.sessions.max_per_principal,
            replay: ReplayLimits {
                events: config.sessions.replay_events,
                bytes: config.sessions.replay_bytes,
                keep: config.sessions.replay_for,
            },
        });
        let (stop_mcp, stop_admin) = (CancellationToken::new(), CancellationToken::new());
        let (mut mcp_tasks, mut admin_tasks) = (JoinSet::new(), JoinSet::new());
        let router = downstream::router(core.gateway.clone(), settings(&config), sessions.clone());
        mcp_tasks.spawn(serve_on(mcp_listener, router, stop_mcp.clone(), limits));
        let (sweeping, until) = (sessions.clone(), stop_mcp.clone());
        mcp_tasks.spawn(async move { sweeping.sweep_until(until).await });
        let facts: Arc<dyn Facts> = core.facts.clone();
        let pages = admin::router(facts, &config.allowed_hosts);
        admin_tasks.spawn(serve_on(admin_listener, pages, stop_admin.clone(), limits));
        let grace = config.shutdown_grace;
        Ok(Self { mcp, admin, core, sessions, stop_mcp, stop_admin, mcp_tasks, admin_tasks, grace })
    }

    /// Drains: readiness falls, listen streams end, nothing new is taken; calls in flight finish within the grace period;
    /// then upstreams are closed, and the admin pages last.
    pub async fn stop(mut self) {
        self.wind_down().await;
    }

    async fn wind_down(&mut self) {
        let until = Instant::now() + self.grace;
        self.core.drain();
        self.sessions.drain();
        self.stop_mcp.cancel();
        while self.mcp_tasks.join_next().await.is_some() {}
        self.sessions.close(until.saturating_duration_since(Instant::now())).await;
        self.core.stop(LEAVE_GRACE).await;
        self.stop_admin.cancel();
        while self.admin_tasks.join_next().await.is_some() {}
    }
}

async fn bound(key: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    bind(address).await.map_err(|reason| StartError::Bind { key, address, reason })
}

fn settings(config: &Config) -> Settings {
    Settings {
        body_limit: config.limits.body,
        header_limit: config.limits.headers,
        batch_limit: config.limits.batch,
        allowed_hosts: config.allowed_hosts.clone(),
        allowed_origins: config.allowed_origins.clone(),
        ..Settings::default()
    }
}

/// What a person needs to know once it serves; as text, the start-up lines.
#[derive(Debug)]
pub struct Started<'a> {
    /// Where MCP is served.
    pub mcp: SocketAddr,
    /// Where the admin pages are.
    pub admin: SocketAddr,
    /// The configuration file; `None`: the built-in demo.
    pub source: Option<&'a Path>,
    /// Names of the configured servers.
    pub servers: &'a [String],
}

impl fmt::Display for Started<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mcp, admin, source, servers } = self;
        writeln!(f, "manifold {}", env!("CARGO_PKG_VERSION"))?;
        writeln!(f, "  endpoint  http://{mcp}/mcp")?;
        writeln!(f, "  admin     http://{admin}/")?;
        match source {
            Some(file) => writeln!(f, "  config    {}", file.display())?,
            None => writeln!(f, "  config    none found: serving the built-in demo servers")?,
        }
        let servers = if servers.is_empty() { "none".to_owned() } else { servers.join(", ") };
        writeln!(f, "  servers   {servers}")
    }
}

/// Serves until a signal, then drains. `say` tells where everything is.
///
/// # Errors
/// [`StartError`].
pub async fn serve(loaded: Loaded, options: Options, say: impl FnOnce(&Started<'_>)) -> Result<(), StartError> {
    let source = loaded.source.clone();
    let servers: Vec<String> = loaded.config.servers.iter().map(|s| s.name.to_string()).collect();
    let mut signals = shutdown::Signals::new()?;
    let mut running = Running::start(loaded.config, options).await?;
    say(&Started { mcp: running.mcp, admin: running.admin, source: source.as_deref(), servers: &servers });
    signals.next().await;
    info!("shutting down; a second signal ends at once");
    let in_time = tokio::select! {
        () = running.wind_down() => true,
        () = signals.next() => false,
    };
    if !in_time {
        info!("ended at once");
        running.core.kill().await;
    }
    Ok(())
}

/// The same gateway over standard input and output, until the input ends.
///
/// # Errors
/// [`StartError`].
pub async fn stdio(loaded: Loaded, state: Option<PathBuf>) -> Result<(), StartError> {
    let mut core = Core::start(Arc::new(loaded.config.clone()), state.as_deref()).await?;
    let settings = StdioSettings {
        line_limit: loaded.config.limits.body,
        batch_limit: loaded.config.limits.batch,
        ..StdioSettings::default()
    };
    let mut signals = shutdown::Signals::new()?;
    let cancel = CancellationToken::new();
    let talking = downstream::stdio::run(
        core.gateway.clone(),
        Endpoint::Merged,
        tokio::io::stdin(),
        tokio::io::stdout(),
        settings,
        cancel.clone(),
    );
    tokio::pin!(talking);
    let ended = tokio::select! {
        ended = &mut talking => Some(ended),
        () = signals.next() => {
            cancel.cancel();
            info!("shutting down; a second signal ends at once");
            // A host that does not read what we write cannot hold us up longer than calls may.
            tokio::select! {
                ended = tokio::time::timeout(loaded.config.shutdown_grace, &mut talking) => ended.ok(),
                () = signals.next() => None,
            }
        }
    };
    core.drain();
    match ended {
        Some(ended) => {
            core.stop(LEAVE_GRACE).await;
            Ok(ended?)
        }
        None => {
            core.kill().await;
            Ok(())
        }
    }
}
