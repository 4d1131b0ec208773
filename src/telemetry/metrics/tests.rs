//! What a scrape shows after things have been counted.

use std::time::Duration;

use tokio::time::Instant;

use super::*;

fn has(page: &str, line: &str) -> bool {
    page.lines().any(|l| l == line)
}

#[test]
fn arrays_are_indexed_by_the_order_of_their_labels() {
    for (place, method) in Method::ALL.into_iter().enumerate() {
        assert_eq!(method as usize, place, "{}", method.as_str());
    }
    assert_eq!((Era::Legacy as usize, Era::Modern as usize), (0, 1));
}

#[test]
fn a_call_is_counted_once_under_its_labels() {
    let metrics = Metrics::new().unwrap();
    let server = metrics.server("files");
    let now = Instant::now();
    server.calls.begin(Method::ToolsCall, Era::Modern, now).end(Outcome::Ok, now + Duration::from_millis(30));
    let page = metrics.render();
    assert!(
        has(&page, r#"manifold_calls_total{era="modern",method="tools/call",outcome="ok",server="files"} 1"#),
        "{page}"
    );
    assert!(has(
        &page,
        r#"manifold_calls_total{era="modern",method="tools/call",outcome="cancelled",server="files"} 0"#
    ));
    assert!(has(&page, r#"manifold_call_duration_seconds_bucket{method="tools/call",server="files",le="0.025"} 0"#));
    assert!(has(&page, r#"manifold_call_duration_seconds_bucket{method="tools/call",server="files",le="0.05"} 1"#));
    assert!(has(&page, r#"manifold_calls_in_flight{server="files"} 0"#));
}

#[test]
fn a_dropped_record_counts_as_cancelled_and_leaves_no_call_in_flight() {
    let metrics = Metrics::new().unwrap();
    let server = metrics.server("files");
    let record = server.calls.begin(Method::ResourcesRead, Era::Legacy, Instant::now());
    assert!(has(&metrics.render(), r#"manifold_calls_in_flight{server="files"} 1"#));
    drop(record);
    let page = metrics.render();
    assert!(has(&page, r#"manifold_calls_in_flight{server="files"} 0"#));
    assert!(has(
        &page,
        r#"manifold_calls_total{era="legacy",method="resources/read",outcome="cancelled",server="files"} 1"#
    ));
}

#[test]
fn calls_that_never_ran_do_not_blur_the_durations() {
    let metrics = Metrics::new().unwrap();
    let server = metrics.server("files");
    for outcome in [Outcome::Refused, Outcome::Unavailable] {
        server.calls.record(Method::ToolsCall, Era::Modern, outcome, Duration::ZERO);
    }
    assert!(!metrics.render().contains("manifold_call_duration_seconds_count"));
}

#[test]
fn exactly_one_state_is_set() {
    let metrics = Metrics::new().unwrap();
    let server = metrics.server("files");
    for state in UpstreamState::ALL {
        server.set_state(state);
        let page = metrics.render();
        let set: Vec<&str> =
            page.lines().filter(|l| l.starts_with("manifold_upstream_state{") && l.ends_with("} 1")).collect();
        let want = format!(r#"manifold_upstream_state{{server="files",state="{}"}} 1"#, state.as_str());
        assert_eq!(set, [want.as_str()]);
    }
}

#[test]
fn guards_move_gauges_both_ways() {
    let metrics = Metrics::new().unwrap();
    let held = (metrics.session(), metrics.stream(StreamKind::Listen), metrics.suspended());
    let page = metrics.render();
    for line in ["manifold_sessions 1", r#"manifold_streams{kind="listen"} 1"#, "manifold_suspended_calls 1"] {
        assert!(has(&page, line), "{line}");
    }
    drop(held);
    let page = metrics.render();
    for line in ["manifold_sessions 0", r#"manifold_streams{kind="listen"} 0"#, "manifold_suspended_calls 0"] {
        assert!(has(&page, line), "{line}");
    }
}

#[test]
fn counters_go_to_their_own_series() {
    let metrics = Metrics::new().unwrap();
    let server = metrics.server("files");
    server.restart(RestartReason::Closed);
    server.failed_attempt();
    server.lines_dropped(LineSource::Noise, 3);
    server.set_entries(EntryKind::Prompts, 4);
    server.truncation(EntryKind::Tools);
    metrics.question(QuestionOutcome::Unattributed);
    metrics.refusal(Refusal::Host);
    metrics.slow_stream(StreamKind::Session);
    metrics.snapshot(12, 2);
    let page = metrics.render();
    for line in [
        r#"manifold_upstream_restarts_total{reason="closed",server="files"} 1"#,
        r#"manifold_upstream_restarts_total{reason="panic",server="files"} 0"#,
        r#"manifold_upstream_failed_attempts_total{server="files"} 1"#,
        r#"manifold_upstream_lines_dropped_total{server="files",source="noise"} 3"#,
        r#"manifold_catalog_entries{kind="prompts",server="files"} 4"#,
        r#"manifold_truncations_total{kind="tools",server="files"} 1"#,
        r#"manifold_questions_total{outcome="unattributed"} 1"#,
        r#"manifold_refusals_total{reason="host"} 1"#,
        r#"manifold_slow_streams_total{kind="session"} 1"#,
        "manifold_catalog_snapshot 12",
        "manifold_catalog_conflicts 2",
    ] {
        assert!(has(&page, line), "{line} is not in\n{page}");
    }
}

#[test]
fn a_server_that_comes_back_goes_on_counting_and_a_forgotten_one_leaves_nothing() {
    let metrics = Metrics::new().unwrap();
    let count = |n: u64| format!(r#"manifold_upstream_restarts_total{{reason="closed",server="files"}} {n}"#);
    metrics.server("files").restart(RestartReason::Closed);
    metrics.server("files").restart(RestartReason::Closed);
    metrics.server("files").failed_attempt();
    assert!(has(&metrics.render(), &count(2)));
    metrics.server("other").calls.record(Method::Complete, Era::Modern, Outcome::Ok, Duration::ZERO);
    metrics.forget("files");
    let page = metrics.render();
    assert!(!page.contains(r#"server="files""#), "{page}");
    assert!(page.contains(r#"server="other""#));
    assert!(has(
        &{
            let _again = metrics.server("files");
            metrics.render()
        },
        &count(0)
    ));
}

#[test]
fn every_family_has_help_and_a_type_and_names_the_unit() {
    let metrics = Metrics::new().unwrap();
    let server = metrics.server("files");
    server.calls.record(Method::ToolsCall, Era::Modern, Outcome::Ok, Duration::ZERO);
    let page = metrics.render();
    let families: Vec<&str> = page.lines().filter_map(|l| l.strip_prefix("# TYPE ")).collect();
    assert!(families.len() >= 17, "{families:?}");
    for family in families {
        let (name, kind) = family.split_once(' ').unwrap();
        let help = page.lines().find_map(|l| l.strip_prefix(&format!("# HELP {name} "))).unwrap_or("");
        assert!(help.len() > 10, "{name} has no help");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
    }
    assert!(page.contains(&format!(r#"manifold_build_info{{version="{}"}} 1"#, env!("CARGO_PKG_VERSION"))));
}

/// Bug B067: names from requests became labels, and the number of series grew with the callers.
#[test]
fn the_number_of_series_is_bounded_whatever_is_called() {
    let metrics = Metrics::new().unwrap();
    let server = metrics.server("files");
    for method in Method::ALL {
        for era in [Era::Legacy, Era::Modern] {
            for outcome in Outcome::ALL {
                server.calls.record(method, era, outcome, Duration::ZERO);
            }
        }
    }
    let series =
        |page: &str| page.lines().filter(|l| !l.starts_with('#') && l.contains("manifold_calls_total")).count();
    assert_eq!(series(&metrics.render()), Method::ALL.len() * 2 * Outcome::COUNT);
}
