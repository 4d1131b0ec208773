//! The legacy sessions of the HTTP edge: who may use which, when they end, and the work that outlives its connection.
//!
//! `endpoint` and `converse` look sessions up and open them; `app` runs [`Sessions::sweep_until`] and calls
//! [`Sessions::drain`] and [`Sessions::close`] at the end. What a session remembers is `gateway::session`'s business.
//! Rules: protocol.md §3.7; ids are 256 random bits and never an authentication.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dashmap::DashMap;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::replay::Replay;
use super::settings::SessionLimits;
use crate::catalog::Endpoint;
use crate::gateway::session::Session;
use crate::policy::principal::Principal;
use crate::telemetry::metrics::Held;

/// How often sessions are looked through. Expiry may be late by this much.
const SWEEP: Duration = Duration::from_secs(10);

/// All sessions of one listener; clones are the same table.
#[derive(Clone, Debug)]
pub struct Sessions(Arc<Table>);

#[derive(Debug)]
struct Table {
    limits: SessionLimits,
    began: Instant,
    kept: DashMap<Box<str>, Arc<Kept>>,
    /// Sessions and admissions, so that handshakes in progress count against the cap.
    places: AtomicUsize,
    /// The same for each principal that has any.
    places_of: DashMap<Principal, usize>,
    orphans: TaskTracker,
    draining: CancellationToken,
}

#[derive(Debug)]
struct Kept {
    session: Arc<Session>,
    replay: Arc<Replay>,
    /// Milliseconds since the table began.
    opened: u64,
    last_used: AtomicU64,
    visits: AtomicUsize,
    _open: Held,
}

/// Why no session can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// The cap is reached.
    #[error("too many sessions are open; try again later, or raise sessions.max")]
    Full,
    /// The cap of this caller is reached.
    #[error("you have too many sessions open; end one, or raise sessions.maxPerPrincipal")]
    FullForOne,
    /// The process is going away.
    #[error("the gateway is shutting down; connect again")]
    Draining,
    /// The operating system gives no random numbers.
    #[error("no session id could be made")]
    NoRandomness,
}

/// A place for a session whose handshake is being answered; dropping it gives the place back.
#[derive(Debug)]
pub struct Admission {
    sessions: Sessions,
    id: Box<str>,
    principal: Principal,
    used: bool,
}

/// A session in use: while one exists, the session is not idle.
#[derive(Debug)]
pub struct Visit {
    table: Arc<Table>,
    kept: Arc<Kept>,
}

impl Sessions {
    /// An empty table.
    pub fn new(limits: SessionLimits) -> Self {
        Self(Arc::new(Table {
            limits,
            began: Instant::now(),
            kept: DashMap::new(),
            places: AtomicUsize::new(0),
            places_of: DashMap::new(),
            orphans: TaskTracker::new(),
            draining: CancellationToken::new(),
        }))
    }

    /// A place for one more session of this caller.
    ///
    /// # Errors
    /// [`NotAdmitted`].
    pub fn admit(&self, principal: &Principal) -> Result<Admission, NotAdmitted> {
        if self.0.draining.is_cancelled() {
            return Err(NotAdmitted::Draining);
        }
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|_| NotAdmitted::NoRandomness)?;
        self.0.take_place(principal)?;
        let id = URL_SAFE_NO_PAD.encode(random).into();
        Ok(Admission { sessions: self.clone(), id, principal: principal.clone(), used: false })
    }

    /// The session of this id, where it lives and belongs to this caller; all else looks as if it did not exist.
    pub fn find(&self, id: &str, principal: &Principal, endpoint: &Endpoint) -> Option<Visit> {
        let kept = Arc::clone(self.0.kept.get(id)?.value());
        let theirs = kept.session.principal == *principal && kept.session.endpoint == *endpoint;
        (theirs && !kept.session.ended.is_cancelled()).then(|| Visit::begin(Arc::clone(&self.0), kept))
    }

    /// Ends a session now; its id is unknown from here on.
    pub fn end(&self, visit: &Visit) {
        self.0.remove(&visit.kept.session.id);
    }

    /// Sessions that live.
    pub fn len(&self) -> usize {
        self.0.kept.len()
    }

    /// Whether none lives.
    pub fn is_empty(&self) -> bool {
        self.0.kept.is_empty()
    }

    /// Exchanges that go on though their connection is gone.
    pub fn orphans(&self) -> &TaskTracker {
        &self.0.orphans
    }

    /// Cancelled when standalone streams have to end.
    pub fn draining(&self) -> &CancellationToken {
        &self.0.draining
    }

    /// Ends sessions as they get too old or idle, until `cancel`.
    pub async fn sweep_until(&self, cancel: CancellationToken) {
        let sweeping = async {
            loop {
                tokio::time::sleep(SWEEP).await;
                self.0.sweep();
            }
        };
        cancel.run_until_cancelled(sweeping).await;
    }

    /// No more sessions, and no more standalone streams; what is being served goes on.
    pub fn drain(&self) {
        self.0.draining.cancel();
    }

    /// Waits up to `grace` for exchanges without a connection, then ends every session and what still runs for it.
    pub async fn close(&self, grace: Duration) {
        self.drain();
        self.0.orphans.close();
        let in_time = tokio::time::timeout(grace, self.0.orphans.wait()).await.is_ok();
        let ids: Vec<_> = self.0.kept.iter().map(|entry| entry.key().clone()).collect();
        ids.iter().for_each(|id| self.0.remove(id));
        if !in_time {
            // Their sessions have ended, and with them the exchanges.
            self.0.orphans.wait().await;
        }
    }
}

impl Table {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn take_place(&self, principal: &Principal) -> Result<(), NotAdmitted> {
        let SessionLimits { most, most_of_one, .. } = self.limits;
        let mut theirs = self.places_of.entry(principal.clone()).or_insert(0);
        if *theirs >= most_of_one {
            return Err(NotAdmitted::FullForOne);
        }
        let taken = |places| (places < most).then_some(places + 1);
        let free = self.places.fetch_update(Ordering::AcqRel, Ordering::Acquire, taken).is_ok();
        if free {
            *theirs += 1;
        }
        let is_nobody = *theirs == 0;
        drop(theirs);
        if is_nobody {
            self.places_of.remove_if(principal, |_, theirs| *theirs == 0);
        }
        if free { Ok(()) } else { Err(NotAdmitted::Full) }
    }

    fn give_place(&self, principal: &Principal) {
        self.places.fetch_sub(1, Ordering::AcqRel);
        if let Some(mut theirs) = self.places_of.get_mut(principal) {
            *theirs -= 1;
        }
        self.places_of.remove_if(principal, |_, theirs| *theirs == 0);
    }

    fn remove(&self, id: &str) {
        if let Some((_, kept)) = self.kept.remove(id) {
            self.give_place(&kept.session.principal);
            kept.session.end();
        }
    }

    fn sweep(&self) {
        let now = self.now();
        self.kept.iter().for_each(|entry| entry.replay.expire(Instant::now()));
        let over: Vec<_> = self.kept.iter().filter(|e| e.is_over(now, &self.limits)).map(|e| e.key().clone()).collect();
        over.iter().for_each(|id| self.remove(id));
        if !over.is_empty() {
            tracing::debug!(ended = over.len(), "sessions expired");
        }
    }
}

impl Kept {
    fn is_over(&self, now: u64, limits: &SessionLimits) -> bool {
        let longer = |since: u64, limit: Duration| u128::from(now.saturating_sub(since)) >= limit.as_millis();
        let idle = self.visits.load(Ordering::Acquire) == 0;
        longer(self.opened, limits.absolute) || idle && longer(self.last_used.load(Ordering::Acquire), limits.idle)
    }
}

impl Admission {
    /// The new session's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Keeps the session that was made under [`Admission::id`]; `open` counts it for as long as it lives.
    pub fn keep(mut self, session: Arc<Session>, open: Held) {
        self.used = true;
        let table = &self.sessions.0;
        let now = table.now();
        let (last_used, visits) = (AtomicU64::new(now), AtomicUsize::new(0));
        let replay = Arc::new(Replay::new(table.limits.replay));
        let kept = Kept { session, replay, opened: now, last_used, visits, _open: open };
        table.kept.insert(self.id.clone(), Arc::new(kept));
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if !self.used {
            self.sessions.0.give_place(&self.principal);
        }
    }
}

impl Visit {
    fn begin(table: Arc<Table>, kept: Arc<Kept>) -> Self {
        kept.visits.fetch_add(1, Ordering::AcqRel);
        Self { table, kept }
    }

    /// The same session, in use once more.
    #[must_use]
    pub fn again(&self) -> Self {
        Self::begin(Arc::clone(&self.table), Arc::clone(&self.kept))
    }

    /// The session.
    pub fn session(&self) -> &Arc<Session> {
        &self.kept.session
    }

    /// What is kept of its streams; `None` for revision 2024-11-05, which cannot resume.
    pub fn replay(&self) -> Option<&Arc<Replay>> {
        self.kept.session.revision.has_resuming().then_some(&self.kept.replay)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.kept.last_used.store(self.table.now(), Ordering::Release);
        self.kept.visits.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::protocol::capability::ClientCapabilities;
    use crate::protocol::revision::Revision;
    use crate::telemetry::metrics::Metrics;

    pub(in crate::downstream) fn session(id: &str) -> Arc<Session> {
        let capabilities = ClientCapabilities::default();
        let principal = Principal::local();
        Arc::new(Session::new(id.into(), Revision::V2025_11_25, capabilities, Endpoint::Merged, principal))
    }

    fn open(sessions: &Sessions) -> String {
        let admission = sessions.admit(&Principal::local()).unwrap();
        let id = admission.id().to_owned();
        admission.keep(session(&id), Metrics::new().unwrap().session());
        id
    }

    fn find(sessions: &Sessions, id: &str) -> Option<Visit> {
        sessions.find(id, &Principal::local(), &Endpoint::Merged)
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_session_expires_and_a_used_one_does_not() {
        let sessions = Sessions::new(SessionLimits::default());
        let sweeper = sessions.sweep_until(CancellationToken::new());
        let (idle, polled, streaming) = (open(&sessions), open(&sessions), open(&sessions));
        let stream = find(&sessions, &streaming).unwrap();
        let scenario = async {
            for _ in 0..4 {
                tokio::time::sleep(Duration::from_secs(10 * 60)).await;
                drop(find(&sessions, &polled).unwrap());
            }
            assert!(find(&sessions, &idle).is_none());
            assert!(!stream.session().ended.is_cancelled());
            drop(stream);
            tokio::time::sleep(Duration::from_secs(31 * 60)).await;
            assert!(sessions.is_empty());
        };
        tokio::select! { () = sweeper => unreachable!(), () = scenario => {} }
    }

    #[tokio::test(start_paused = true)]
    async fn even_an_open_stream_ends_with_its_session_after_a_day() {
        let sessions = Sessions::new(SessionLimits::default());
        let id = open(&sessions);
        let stream = find(&sessions, &id).unwrap();
        let sweeper = sessions.sweep_until(CancellationToken::new());
        tokio::select! { () = sweeper => unreachable!(), () = stream.session().ended.cancelled() => {} }
        assert!(sessions.0.began.elapsed() >= Duration::from_secs(24 * 60 * 60));
        assert!(sessions.is_empty());
    }

    #[tokio::test]
    async fn the_cap_counts_handshakes_in_progress_and_gives_places_back() {
        let sessions = Sessions::new(SessionLimits { most: 2, ..SessionLimits::default() });
        let id = open(&sessions);
        let second = sessions.admit(&Principal::local()).unwrap();
        assert_eq!(sessions.admit(&Principal::local()).unwrap_err(), NotAdmitted::Full);
        drop(second);
        let visit = find(&sessions, &id).unwrap();
        sessions.end(&visit);
        assert!(find(&sessions, &id).is_none() && visit.session().ended.is_cancelled());
        assert!(sessions.admit(&Principal::local()).is_ok());
        sessions.drain();
        assert_eq!(sessions.admit(&Principal::local()).unwrap_err(), NotAdmitted::Draining);
    }

    #[tokio::test]
    async fn the_cap_of_one_caller_gives_places_back_and_keeps_no_count_of_who_left() {
        let sessions = Sessions::new(SessionLimits { most_of_one: 1, ..SessionLimits::default() });
        let id = open(&sessions);
        assert_eq!(sessions.admit(&Principal::local()).unwrap_err(), NotAdmitted::FullForOne);
        sessions.end(&find(&sessions, &id).unwrap());
        assert!(sessions.0.places_of.is_empty());
        assert!(sessions.admit(&Principal::local()).is_ok());
        assert!(sessions.0.places_of.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_sweep_forgets_streams_that_ended_long_ago() {
        let sessions = Sessions::new(SessionLimits::default());
        let id = open(&sessions);
        let visit = find(&sessions, &id).unwrap();
        let replay = visit.replay().unwrap();
        let track = replay.open(false, Instant::now());
        track.append(bytes::Bytes::from_static(b"{}")).unwrap();
        track.end(Instant::now());
        tokio::time::sleep(sessions.0.limits.replay.keep).await;
        assert!(replay.resume(track.beginning(), Instant::now()).is_some());
        sessions.0.sweep();
        assert!(replay.resume(track.beginning(), Instant::now()).is_none());
    }

    #[tokio::test]
    async fn a_session_is_found_at_its_own_endpoint_only_and_ids_are_long() {
        let sessions = Sessions::new(SessionLimits::default());
        let id = open(&sessions);
        assert!(
            sessions.find(&id, &Principal::local(), &Endpoint::Server(crate::name::ServerName::new("a"))).is_none()
        );
        assert!(id.len() >= 22 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
        assert_ne!(id, open(&sessions));
    }

    #[tokio::test(start_paused = true)]
    async fn closing_waits_for_orphans_and_then_ends_their_sessions() {
        let sessions = Sessions::new(SessionLimits::default());
        let id = open(&sessions);
        let stuck = Arc::clone(find(&sessions, &id).unwrap().session());
        sessions.orphans().spawn(async move { stuck.ended.cancelled().await });
        let began = Instant::now();
        sessions.close(Duration::from_secs(10)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(10));
        assert!(sessions.is_empty());
    }
}
