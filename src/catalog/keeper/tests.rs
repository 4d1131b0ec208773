//! The keeper as its callers see it, on a paused clock.

use std::future::Future;

use tokio::time::timeout;

use super::*;
use crate::catalog::kind::{Kind, Shape};
use crate::catalog::merge::{Part, Standing};
use crate::catalog::testing::*;

const TOOLS: Changed = Changed::only(Kind::Tools);
const LIMIT: Duration = Duration::from_secs(5);

/// Runs `scenario` beside a keeper; the keeper must end when it is cancelled.
async fn beside_keeper<F: Future<Output = ()>>(scenario: impl FnOnce(Catalog) -> F) {
    let (keeper, catalog) = Keeper::new();
    let cancel = CancellationToken::new();
    let scenario = async {
        scenario(catalog).await;
        cancel.cancel();
    };
    tokio::join!(keeper.run(cancel.clone()), scenario);
}

fn key(text: &str) -> ServerName {
    ServerName::new(text)
}

fn offered(part: &Part) -> Update {
    Update::Offer(part.contribution.clone())
}

/// Waits until a snapshot satisfies `wanted`.
async fn until(catalog: &Catalog, wanted: impl FnMut(&Arc<Snapshot>) -> bool) -> Arc<Snapshot> {
    catalog.snapshots().wait_for(wanted).await.unwrap().clone()
}

/// Makes server `a` known with these tools.
async fn start(catalog: &Catalog, names: &[&str]) {
    let part = tools(source("a", 0), names);
    catalog.publish(key("a"), Update::Expect(part.source.clone())).await.unwrap();
    catalog.publish(key("a"), offered(&part)).await.unwrap();
    until(catalog, |s| s.merged().count(Kind::Tools, Shape::Modern) == names.len()).await;
}

/// Nothing more is told for as long as anyone could reasonably wait.
async fn assert_silent(subscription: &mut Subscription) {
    let told = timeout(Duration::from_secs(60), subscription.changed()).await;
    assert!(told.is_err(), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_comes_goes_stale_is_withdrawn_and_removed() {
    beside_keeper(|catalog| async move {
        let mut subscription = catalog.subscribe(Endpoint::Merged);
        start(&catalog, &["t"]).await;
        assert_eq!(subscription.changed().await, Some(TOOLS));
        let listed = |s: &Arc<Snapshot>| s.merged().count(Kind::Tools, Shape::Modern);
        let standing = |s: &Arc<Snapshot>| s.part("a").map(|p| p.standing);

        catalog.publish(key("a"), Update::Stale).await.unwrap();
        let stale = until(&catalog, |s| standing(s) == Some(Standing::Stale)).await;
        assert_eq!(listed(&stale), 1);
        assert_silent(&mut subscription).await;

        catalog.publish(key("a"), Update::Withdraw).await.unwrap();
        let withdrawn = until(&catalog, |s| standing(s) == Some(Standing::Withdrawn)).await;
        assert_eq!(listed(&withdrawn), 0);
        assert_eq!(subscription.changed().await, Some(TOOLS));

        catalog.publish(key("a"), Update::Remove).await.unwrap();
        let gone = until(&catalog, |s| standing(s).is_none()).await;
        assert!(gone.number() > withdrawn.number());
        assert_eq!(catalog.load().number(), gone.number());
        assert_silent(&mut subscription).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_offer_under_an_older_configuration_is_ignored() {
    beside_keeper(|catalog| async move {
        start(&catalog, &["t"]).await;
        let renamed = Source { prefix: "z".into(), ..source("a", 0) };
        catalog.publish(key("a"), Update::Expect(Arc::new(renamed))).await.unwrap();
        catalog.publish(key("a"), offered(&tools(source("a", 0), &["late"]))).await.unwrap();
        catalog.publish(key("nobody"), offered(&tools(source("nobody", 1), &["t"]))).await.unwrap();
        let moved = Source { order: 5, ..source("b", 0) };
        catalog.publish(key("b"), Update::Expect(Arc::new(source("b", 1)))).await.unwrap();
        catalog.publish(key("b"), offered(&tools(source("b", 1), &["kept"]))).await.unwrap();
        catalog.publish(key("b"), Update::Expect(Arc::new(moved))).await.unwrap();
        let now = until(&catalog, |s| s.part("b").is_some_and(|p| p.source.order == 5)).await;
        assert!(now.part("nobody").is_none());
        assert_eq!(now.part("a").map(|p| p.standing), Some(Standing::Expected));
        assert!(text(now.merged(), Kind::Tools, Shape::Modern).contains("b__kept"));
        assert_eq!(now.merged().count(Kind::Tools, Shape::Modern), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn list_changed_is_told_at_once_and_the_next_list_waits_for_the_new_one() {
    beside_keeper(|catalog| async move {
        start(&catalog, &["old"]).await;
        let mut merged = catalog.subscribe(Endpoint::Merged);
        let mut own = catalog.subscribe(Endpoint::Server(key("a")));
        let mut other = catalog.subscribe(Endpoint::Server(key("b")));
        let guard = catalog.announce(&key("a"), TOOLS);
        assert_eq!(merged.changed().await, Some(TOOLS));
        assert_eq!(own.changed().await, Some(TOOLS));

        let list = async {
            assert_eq!(catalog.settled(&Endpoint::Merged, LIMIT).await, Settled::Yes);
            text(catalog.load().merged(), Kind::Tools, Shape::Modern)
        };
        let refresh = async {
            tokio::task::yield_now().await;
            let elsewhere = catalog.settled(&Endpoint::Server(key("b")), LIMIT).await;
            assert_eq!(elsewhere, Settled::Yes, "another server's list does not wait");
            guard.publish(offered(&tools(source("a", 0), &["new"]))).await.unwrap();
        };
        let (listed, ()) = tokio::join!(list, refresh);
        assert!(listed.contains("a__new"), "{listed}");
        assert_silent(&mut merged).await;
        assert_silent(&mut own).await;
        assert_silent(&mut other).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_notice_is_told_even_if_the_list_stays_equal() {
    beside_keeper(|catalog| async move {
        start(&catalog, &["t"]).await;
        let mut subscription = catalog.subscribe(Endpoint::Merged);
        let guard = catalog.announce(&key("a"), TOOLS);
        guard.publish(offered(&tools(source("a", 0), &["t"]))).await.unwrap();
        assert_eq!(subscription.changed().await, Some(TOOLS));
        assert_eq!(catalog.settled(&Endpoint::Merged, LIMIT).await, Settled::Yes);
        assert_silent(&mut subscription).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_was_answered_too_early_is_announced_again() {
    beside_keeper(|catalog| async move {
        start(&catalog, &["old"]).await;
        let mut subscription = catalog.subscribe(Endpoint::Merged);
        let guard = catalog.announce(&key("a"), TOOLS);
        assert_eq!(subscription.changed().await, Some(TOOLS));
        let began = tokio::time::Instant::now();
        assert_eq!(catalog.settled(&Endpoint::Merged, LIMIT).await, Settled::TimedOut);
        assert_eq!(began.elapsed(), LIMIT);
        assert_eq!(catalog.settled(&Endpoint::Merged, LIMIT).await, Settled::TimedOut);
        assert_eq!(began.elapsed(), LIMIT, "the second list does not wait again for what hangs");
        guard.publish(offered(&tools(source("a", 0), &["new"]))).await.unwrap();
        assert_eq!(subscription.changed().await, Some(TOOLS));
        assert_silent(&mut subscription).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_changed_beyond_the_notice_is_told_too() {
    beside_keeper(|catalog| async move {
        start(&catalog, &["old"]).await;
        let mut subscription = catalog.subscribe(Endpoint::Merged);
        let guard = catalog.announce(&key("a"), TOOLS);
        assert_eq!(subscription.changed().await, Some(TOOLS));
        let new = part(source("a", 0), &[(Kind::Tools, &[&tool("new")]), (Kind::Prompts, &[r#"{"name":"p"}"#])]);
        guard.publish(offered(&new)).await.unwrap();
        assert_eq!(subscription.changed().await, Some(Changed::only(Kind::Prompts)));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_refresh_lets_lists_go_on() {
    beside_keeper(|catalog| async move {
        let guard = catalog.pending(&key("a"));
        let list = catalog.settled(&Endpoint::Merged, LIMIT);
        let fail = async {
            tokio::task::yield_now().await;
            drop(guard);
        };
        let began = tokio::time::Instant::now();
        let (settled, ()) = tokio::join!(list, fail);
        assert_eq!((settled, began.elapsed()), (Settled::Yes, Duration::ZERO));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn list_changed_storm_becomes_a_few_notices_and_the_last_is_not_lost() {
    beside_keeper(|catalog| async move {
        let mut subscription = catalog.subscribe(Endpoint::Merged);
        let storm = async {
            for _ in 0..200 {
                drop(catalog.announce(&key("a"), TOOLS));
                tokio::time::advance(Duration::from_millis(1)).await;
            }
            drop(catalog.announce(&key("a"), Changed::only(Kind::Prompts)));
        };
        let count = async {
            let mut notices = 0;
            loop {
                notices += 1;
                if subscription.changed().await.unwrap().prompts {
                    return notices;
                }
            }
        };
        let ((), notices) = tokio::join!(storm, count);
        assert!((2..=6).contains(&notices), "{notices}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn after_the_keeper_ended_nothing_hangs() {
    let (keeper, catalog) = Keeper::new();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let guard = catalog.pending(&key("a"));
    keeper.run(cancel).await;
    assert_eq!(catalog.publish(key("a"), Update::Stale).await, Err(Closed));
    assert_eq!(guard.publish(Update::Stale).await, Err(Closed));
    assert_eq!(catalog.settled(&Endpoint::Merged, LIMIT).await, Settled::Yes);
    assert_eq!(catalog.load().number(), 0);
}
