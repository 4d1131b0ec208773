//! The catalog: what each upstream offers, and the merged offer of all.
//!
//! An upstream's actor turns the lists that it read ([`Offer`]) into a [`Contribution`] and gives it to the [`Keeper`], the
//! one task here. The keeper merges ([`merge()`]) and publishes an immutable, numbered [`Snapshot`]; `gateway` looks names and
//! URIs up in it and answers lists from it, `admin` shows it. The catalog knows no upstream: a [`Source`] tells it all
//! that names depend on. Only the keeper knows tokio; everything else is values in, values out.
//!
//! ```text
//! Offer ─ Contribution::new ─► Contribution ─┐
//!                              Contribution ─┼─ merge ─► Snapshot ─ view(endpoint) ─► tool(name), list(kind), …
//!                              Contribution ─┘               └─ diff ─► which lists changed ─► subscribers
//! ```

mod contribution;
mod diff;
mod entry;
mod hints;
mod index;
mod instructions;
mod keeper;
mod kind;
mod merge;
mod offer;
mod page;
mod segment;
mod shape;
mod snapshot;
mod source;
mod template;
mod view;

pub use contribution::Contribution;
pub use diff::{Changed, diff};
pub use entry::{Entry, TaskSupport, Tool, Visibility};
pub use hints::Hints;
pub use instructions::instructions;
pub use keeper::{Catalog, Closed, Keeper, PendingGuard, Settled, Subscription, Update};
pub use kind::{Endpoint, Kind, Shape};
pub use merge::{Conflict, Part, Standing, merge};
pub use offer::{Complaint, List, Offer, Reason};
pub use page::BadCursor;
pub use snapshot::Snapshot;
pub use source::{Source, UriMap, Uris};
pub use template::Template;
pub use view::{Lookup, Route, View};

#[cfg(test)]
mod testing;
