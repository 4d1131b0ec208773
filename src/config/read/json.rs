//! JSON as hosts write it: with comments and trailing commas, and nothing looser.

use jsonc_parser::ast::{Object, Value as Json};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::{Fault, Lines};
use crate::config::tree::{Entry, Node, Value};

pub(super) fn read(text: &str, lines: &Lines<'_>) -> Result<Node, Vec<Fault>> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options)
        .map_err(|error| vec![Fault::new(error.range().start, format!("not valid JSON: {}", error.kind()))])?;
    let mut reader = Reader { lines, path: Vec::new(), faults: Vec::new() };
    let node = parsed.value.as_ref().map(|value| reader.node(value));
    if reader.faults.is_empty() { Ok(node.unwrap_or_else(|| Node::text(""))) } else { Err(reader.faults) }
}

struct Reader<'a> {
    lines: &'a Lines<'a>,
    path: Vec<String>,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    fn node(&mut self, json: &Json<'_>) -> Node {
        let value = match json {
            Json::NullKeyword(_) => Value::Null,
            Json::BooleanLit(literal) => Value::Bool(literal.value),
            Json::NumberLit(literal) => Value::Number(literal.value.to_owned()),
            Json::StringLit(literal) => Value::Text(literal.value.to_string()),
            Json::Array(array) => Value::List(array.elements.iter().map(|item| self.node(item)).collect()),
            Json::Object(object) => Value::Map(self.entries(object)),
        };
        Node::new(value, self.lines.origin(json.start()))
    }

    fn entries(&mut self, object: &Object<'_>) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::with_capacity(object.properties.len());
        for property in &object.properties {
            let key = property.name.as_str().to_owned();
            self.path.push(key.clone());
            if entries.iter().any(|entry| entry.key == key) {
                let message = format!("the key {key:?} is written twice in the same map");
                let path = self.path.clone();
                self.faults.push(Fault { path, ..Fault::new(property.start(), message) });
            }
            let node = self.node(&property.value);
            self.path.pop();
            entries.push(Entry { key, origin: self.lines.origin(property.start()), node });
        }
        entries
    }
}
