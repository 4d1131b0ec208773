//! Signals: the first one drains, a second one ends at once.
//!
//! `app` waits here and then takes the program down in order.

use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

/// Waits for SIGTERM or SIGINT.
pub async fn requested() -> std::io::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let name = tokio::select! {
        _ = term.recv() => "SIGTERM",
        _ = int.recv() => "SIGINT",
    };
    info!(signal = name, "shutting down; a second signal ends at once");
    Ok(())
}
