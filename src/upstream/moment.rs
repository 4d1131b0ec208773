//! Waiting for a moment that may never come: the branch of a loop that is idle as long as nothing is due.

use tokio::time::{Instant, sleep_until};

/// Ends at `moment`, or never.
pub(super) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
