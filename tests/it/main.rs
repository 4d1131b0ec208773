//! The integration tests: one binary, one file a scenario.

mod list_changed;
mod listing;
mod listing_start;
mod names;
mod official_client;
mod outage;
mod resources;
mod scripted_upstream;
mod subscriptions;
mod support;
