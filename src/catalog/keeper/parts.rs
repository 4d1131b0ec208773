//! PURE. What the keeper knows of each server, and what an update makes of it.

use std::sync::Arc;

use hashbrown::HashMap;

use super::Update;
use crate::catalog::contribution::Contribution;
use crate::catalog::merge::{Part, Standing};
use crate::catalog::source::Source;
use crate::name::ServerName;

/// The parts of all configured servers.
#[derive(Debug, Default)]
pub(super) struct Parts(HashMap<ServerName, Part>);

impl Parts {
    /// Applies an update; false if it changes nothing.
    pub(super) fn apply(&mut self, server: &ServerName, update: Update) -> bool {
        match update {
            Update::Expect(source) => self.expect(server, source),
            Update::Offer(contribution) => self.offer(server, contribution),
            Update::Stale => self.stand(server, |part| {
                // What never came cannot go stale, and what was withdrawn does not come back by it.
                let was_there = part.standing == Standing::Fresh;
                part.standing = if was_there { Standing::Stale } else { part.standing };
                was_there
            }),
            Update::Withdraw => self.stand(server, |part| {
                let was_there = part.standing != Standing::Withdrawn;
                *part = Part::empty(part.source.clone(), Standing::Withdrawn);
                was_there
            }),
            Update::Remove => self.0.remove(server).is_some(),
        }
    }

    pub(super) fn to_vec(&self) -> Vec<Part> {
        self.0.values().cloned().collect()
    }

    fn expect(&mut self, server: &ServerName, source: Arc<Source>) -> bool {
        match self.0.get_mut(server) {
            Some(part) if part.source == source => return false,
            Some(part) if part.source.names_like(&source) => part.source = source,
            _ => drop(self.0.insert(server.clone(), Part::empty(source, Standing::Expected))),
        }
        true
    }

    /// An actor that is about to end may still publish: what it offers counts only while its server is configured as it was.
    fn offer(&mut self, server: &ServerName, contribution: Arc<Contribution>) -> bool {
        let Some(part) = self.0.get_mut(server).filter(|p| p.source.names_like(contribution.source())) else {
            return false;
        };
        part.contribution = contribution;
        part.standing = Standing::Fresh;
        true
    }

    fn stand(&mut self, server: &ServerName, change: impl FnOnce(&mut Part) -> bool) -> bool {
        self.0.get_mut(server).is_some_and(change)
    }
}
