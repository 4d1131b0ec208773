//! The tree between the file formats and the settings: values that remember where they were written.
//!
//! `read` makes one from a file, `environment` another, `layers` picks the winners, `decode` turns them into `Config`.

/// A value and its origin.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub value: Value,
    pub origin: Origin,
    /// Whether `${...}` was replaced in it: then it is never quoted.
    pub hidden: bool,
}

/// Numbers stay text: an argument `1.10` is not `1.1`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Its problem is already reported; whoever meets it keeps still.
    Broken,
}

/// One key of a map, in the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub key: String,
    pub origin: Origin,
    pub node: Node,
}

/// Where a value or key was written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Origin {
    /// Nowhere: a default.
    #[default]
    Default,
    /// Line and column of the file.
    File(usize, usize),
    /// An environment variable.
    Variable(String),
}

impl Node {
    pub fn new(value: Value, origin: Origin) -> Self {
        Self { value, origin, hidden: false }
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Value::Text(text.into()), Origin::Default)
    }

    pub fn entries(&self) -> &[Entry] {
        if let Value::Map(entries) = &self.value { entries } else { &[] }
    }

    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// Whether a written value, not a default, stands at `key`.
    pub fn writes(&self, key: &str) -> bool {
        self.get(key).is_some_and(|entry| entry.node.origin != Origin::Default && entry.node.value != Value::Null)
    }

    /// Null, or a map or list with nothing in it.
    pub fn is_empty(&self) -> bool {
        match &self.value {
            Value::Null => true,
            Value::List(items) => items.is_empty(),
            Value::Map(entries) => entries.is_empty(),
            _ => false,
        }
    }

    pub fn is_broken(&self) -> bool {
        match &self.value {
            Value::Broken => true,
            Value::List(items) => items.iter().any(Self::is_broken),
            Value::Map(entries) => entries.iter().any(|entry| entry.node.is_broken()),
            _ => false,
        }
    }

    /// Whether numbers and booleans may be written as text here: variables and `${...}` have nothing else.
    pub fn is_loose(&self) -> bool {
        self.hidden || matches!(self.origin, Origin::Variable(_))
    }

    /// For messages where a secret may stand, in the right form or in a wrong one: what kind of value this is.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null | Value::Broken => "nothing",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Bool(_) => "`true` or `false`",
            Value::Number(_) => "a number",
            Value::Text(_) => "a text",
        }
    }

    /// For messages: what stands here, without giving a secret away.
    pub fn quote(&self) -> String {
        match &self.value {
            Value::Null | Value::Broken => "nothing".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
            _ if self.hidden => "what `${...}` stands for".to_owned(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Number(number) => format!("`{number}`"),
            Value::Text(text) if text.chars().count() > 60 => "a long text".to_owned(),
            Value::Text(text) => format!("{text:?}"),
        }
    }
}

impl Entry {
    pub fn new(key: impl Into<String>, node: Node) -> Self {
        Self { key: key.into(), origin: node.origin.clone(), node }
    }
}
