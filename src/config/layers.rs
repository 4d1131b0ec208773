//! Defaults < file < environment: figment decides, key by key, which layer wins.
//!
//! figment sorts keys and forgets lines, so it is only asked who won; the winner's own node, with its place, is what
//! goes on. This file is the only one that knows figment.

use figment::value::{Dict, Map, Value as Figs};
use figment::{Figment, Metadata, Profile, Provider};

use super::tree::{Entry, Node, Value};

/// A layer: its name and its tree.
struct Layer<'a> {
    name: &'static str,
    tree: &'a Node,
}

impl Provider for Layer<'_> {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name)
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, dict(self.tree.entries()))]))
    }
}

fn dict(entries: &[Entry]) -> Dict {
    entries.iter().map(|entry| (entry.key.clone(), figs(&entry.node))).collect()
}

/// Maps merge, everything else replaces: a leaf needs no content here, its tag says whose it is.
fn figs(node: &Node) -> Figs {
    match &node.value {
        Value::Map(entries) => Figs::from(dict(entries)),
        _ => Figs::from(false),
    }
}

/// One tree from three; later ones win. Order is that of the file, then of the defaults.
pub(super) fn merge(defaults: &Node, file: Option<&Node>, environment: &Node) -> Node {
    let layers: Vec<Layer<'_>> = [("defaults", Some(defaults)), ("file", file), ("environment", Some(environment))]
        .into_iter()
        .filter_map(|(name, tree)| Some(Layer { name, tree: tree? }))
        .collect();
    let figment = layers
        .iter()
        .fold(Figment::new(), |figment, layer| figment.merge(Layer { name: layer.name, tree: layer.tree }));
    let merged = figment.data().ok().and_then(|mut profiles| profiles.remove(&Profile::Default)).unwrap_or_default();
    let winner = |figs: &Figs| figment.get_metadata(figs.tag()).map(|metadata| metadata.name.clone());
    let trees: Vec<(&str, &Node)> = layers.iter().map(|layer| (layer.name, layer.tree)).collect();
    rebuild(merged, &trees, &|figs| winner(figs).unwrap_or_default().into_owned())
}

/// `trees` are the nodes of this map in each layer that has it, in the order of the layers.
fn rebuild(mut merged: Dict, trees: &[(&str, &Node)], winner: &dyn Fn(&Figs) -> String) -> Node {
    let mut entries = Vec::with_capacity(merged.len());
    let order = ["file", "defaults", "environment"];
    let written = order
        .iter()
        .filter_map(|name| trees.iter().find(|(layer, _)| layer == name))
        .flat_map(|(_, tree)| tree.entries());
    for entry in written {
        let Some(figs) = merged.remove(&entry.key) else { continue };
        let below: Vec<(&str, &Entry)> =
            trees.iter().filter_map(|(name, tree)| Some((*name, tree.get(&entry.key)?))).collect();
        let won = |name: &str| below.iter().find(|(layer, _)| *layer == name).map(|(_, entry)| (*entry).clone());
        match figs {
            Figs::Dict(_, dict) => {
                let nodes: Vec<(&str, &Node)> = below.iter().map(|(name, entry)| (*name, &entry.node)).collect();
                let node = rebuild(dict, &nodes, winner);
                entries.push(Entry { key: entry.key.clone(), origin: entry.origin.clone(), node });
            }
            leaf => entries.extend(won(&winner(&leaf))),
        }
    }
    let origin =
        trees.iter().rev().map(|(_, tree)| tree.origin.clone()).find(|origin| *origin != super::tree::Origin::Default);
    Node::new(Value::Map(entries), origin.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tree::Origin;

    fn map(origin: Origin, pairs: &[(&str, Node)]) -> Node {
        let entries = pairs.iter().map(|(key, node)| Entry {
            key: (*key).to_owned(),
            origin: origin.clone(),
            node: node.clone(),
        });
        Node::new(Value::Map(entries.collect()), origin)
    }

    fn leaf(text: &str, origin: &Origin) -> Node {
        Node::new(Value::Text(text.to_owned()), origin.clone())
    }

    #[test]
    fn later_layers_win_key_by_key_and_the_order_is_that_of_the_file() {
        let (default, file, variable) = (Origin::Default, Origin::File(2, 3), Origin::Variable("V".to_owned()));
        let defaults = map(
            default.clone(),
            &[(
                "t",
                map(
                    default.clone(),
                    &[("a", leaf("da", &default)), ("b", leaf("db", &default)), ("c", leaf("dc", &default))],
                ),
            )],
        );
        let written = map(
            file.clone(),
            &[
                ("z", leaf("z", &file)),
                ("t", map(file.clone(), &[("c", leaf("fc", &file)), ("b", leaf("fb", &file))])),
                ("a", leaf("a", &file)),
            ],
        );
        let environment = map(variable.clone(), &[("t", map(variable.clone(), &[("b", leaf("vb", &variable))]))]);
        let merged = merge(&defaults, Some(&written), &environment);
        let keys: Vec<&str> = merged.entries().iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["z", "t", "a"]);
        let Some(t) = merged.get("t") else { panic!("lost") };
        let got: Vec<(&str, &Node)> = t.node.entries().iter().map(|entry| (entry.key.as_str(), &entry.node)).collect();
        assert_eq!(got, [("c", &leaf("fc", &file)), ("b", &leaf("vb", &variable)), ("a", &leaf("da", &default))]);
    }
}
