//! Who wants to hear of changes, and the notifications they get.
//!
//! A legacy peer hears of list changes without asking and subscribes to single resources; a modern one opens any number of
//! listens, each known by the id of its `subscriptions/listen` request, and hears what it asked for there, tagged with it.

use serde_json::{Map, Value, json};

use super::wire::{Fault, INTERNAL_ERROR, notification};
use crate::protocol::meta::SUBSCRIPTION_ID;

/// Listens and subscribed resources, each; more than any host opens, few enough that a change is announced in no time.
const LIMIT: usize = 100;

/// Something that happened here.
#[derive(Clone, Copy)]
pub(super) enum Change<'a> {
    Tools,
    Resource(&'a str),
}

#[derive(Default)]
pub(super) struct Subscriptions {
    /// Set by the legacy handshake: from then on list changes are pushed.
    pub(super) pushes: bool,
    uris: Vec<String>,
    listens: Vec<Listen>,
}

struct Listen {
    id: Value,
    tools: bool,
    uris: Vec<String>,
}

impl Listen {
    fn wants(&self, change: Change<'_>) -> bool {
        match change {
            Change::Tools => self.tools,
            Change::Resource(uri) => self.uris.iter().any(|own| own == uri),
        }
    }
}

impl Subscriptions {
    pub(super) fn subscribe(&mut self, uri: &str) -> Result<(), Fault> {
        self.unsubscribe(uri);
        has_room(self.uris.len())?;
        self.uris.push(uri.to_owned());
        Ok(())
    }

    pub(super) fn unsubscribe(&mut self, uri: &str) {
        self.uris.retain(|own| own != uri);
    }

    /// Opens a listen and returns its acknowledgement, which says what of the wish is granted: tools and resources.
    /// Prompts never change here, so that part of a wish is not.
    pub(super) fn listen(&mut self, id: &Value, params: &Map<String, Value>) -> Result<Value, Fault> {
        has_room(self.listens.len())?;
        let Some(wish) = params.get("notifications").and_then(Value::as_object) else {
            return Err(Fault::params("notifications must be an object"));
        };
        let uris = wish.get("resourceSubscriptions").and_then(Value::as_array);
        let uris = uris.into_iter().flatten().filter_map(Value::as_str).take(LIMIT);
        let uris: Vec<String> = uris.map(str::to_owned).collect();
        let tools = wish.get("toolsListChanged") == Some(&Value::Bool(true));
        let mut granted = json!({});
        if tools {
            granted["toolsListChanged"] = true.into();
        }
        if !uris.is_empty() {
            granted["resourceSubscriptions"] = json!(uris);
        }
        self.listens.push(Listen { id: id.clone(), tools, uris });
        let params = json!({"notifications": granted, "_meta": {SUBSCRIPTION_ID: id}});
        Ok(notification("notifications/subscriptions/acknowledged", params))
    }

    pub(super) fn is_listening(&self, id: &Value) -> bool {
        self.listens.iter().any(|listen| listen.id == *id)
    }

    pub(super) fn end_listen(&mut self, id: &Value) {
        self.listens.retain(|listen| listen.id != *id);
    }

    /// Ends all listens and returns their ids.
    pub(super) fn end_all_listens(&mut self) -> Vec<Value> {
        self.listens.drain(..).map(|listen| listen.id).collect()
    }

    /// The notifications that tell everybody who wants to know of `change`.
    pub(super) fn announce(&self, change: Change<'_>) -> Vec<Value> {
        let (method, params, pushed) = match change {
            Change::Tools => ("notifications/tools/list_changed", json!({}), self.pushes),
            Change::Resource(uri) => {
                let subscribed = self.uris.iter().any(|own| own == uri);
                ("notifications/resources/updated", json!({"uri": uri}), subscribed)
            }
        };
        let push = pushed.then(|| notification(method, params.clone()));
        let tagged = self.listens.iter().filter(|listen| listen.wants(change)).map(|listen| {
            let mut params = params.clone();
            params["_meta"] = json!({SUBSCRIPTION_ID: listen.id});
            notification(method, params)
        });
        push.into_iter().chain(tagged).collect()
    }
}

fn has_room(taken: usize) -> Result<(), Fault> {
    if taken < LIMIT {
        return Ok(());
    }
    Err(Fault::new(INTERNAL_ERROR, format!("there are {LIMIT} subscriptions already; end one first")))
}
