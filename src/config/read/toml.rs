//! TOML. Its parser sorts tables, so the order of the file comes back from the spans.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Fault, Lines};
use crate::config::tree::{Entry, Node, Value};

pub(super) fn read(text: &str, lines: &Lines<'_>) -> Result<Node, Vec<Fault>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(errors
            .iter()
            .map(|error| {
                Fault::new(error.span().map_or(0, |span| span.start), format!("not valid TOML: {}", error.message()))
            })
            .collect());
    }
    Ok(Node::new(Value::Map(entries(table.get_ref(), lines)), lines.origin(0)))
}

fn entries(table: &DeTable<'_>, lines: &Lines<'_>) -> Vec<Entry> {
    let mut pairs: Vec<_> = table.iter().collect();
    pairs.sort_by_key(|(key, _)| key.span().start);
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let text: &std::borrow::Cow<'_, str> = key.get_ref();
        Entry { key: text.to_string(), origin: lines.origin(key.span().start), node: node(value, lines) }
    };
    pairs.into_iter().map(entry).collect()
}

fn node(spanned: &Spanned<DeValue<'_>>, lines: &Lines<'_>) -> Node {
    let value = match spanned.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => Value::Number(decimal(integer.as_str(), integer.radix())),
        DeValue::Float(float) => Value::Number(float.as_str().to_owned()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(value) => Value::Text(value.to_string()),
        DeValue::Array(array) => Value::List(array.iter().map(|item| node(item, lines)).collect()),
        DeValue::Table(table) => Value::Map(entries(table, lines)),
    };
    Node::new(value, lines.origin(spanned.span().start))
}

/// Integers may be written in base 2, 8 and 16; the tree has base 10.
fn decimal(digits: &str, radix: u32) -> String {
    if radix == 10 {
        return digits.to_owned();
    }
    i128::from_str_radix(digits, radix).map_or_else(|_| digits.to_owned(), |number| number.to_string())
}
