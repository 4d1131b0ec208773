//! Arguments that a tool wants mirrored into `Mcp-Param-*` headers.
//!
//! The catalog reads a tool's annotations once, with [`ParamHeaders::parse`], and drops the tool if
//! they are invalid and its server speaks modern HTTP, or serves the schema without them
//! ([`strip`]). The upstream transport then writes the headers of a call and the downstream edge
//! checks them, each from the schema and the arguments of its own side.
//!
//! Rules: <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters>.

use std::ops::ControlFlow;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::de::IgnoredAny;

use super::arguments::{Mirrored, Wanted, Whole, whole};
use super::schema::{self, Found};
use super::{HeaderError, MCP_PARAM_PREFIX, decode_value, single, value};

/// How many annotations a tool may have: 64, as more could not be called within a header block of
/// 32 KiB with values of half a kibibyte.
pub const MAX_PARAM_HEADERS: usize = 64;

/// How much of an annotation's location an error shows, in characters.
const SHOWN_LOCATION: usize = 200;

/// The mirrored arguments of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParamHeaders {
    names: Vec<HeaderName>,
    wanted: Wanted,
}

/// An annotation that makes its tool's definition invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("x-mcp-header at {location:?}: {problem}")]
pub struct AnnotationError {
    /// The keys of the schema down to the annotated one, such as `properties/region`.
    pub location: String,
    /// What is wrong with it.
    pub problem: AnnotationProblem,
}

/// Why an annotation is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationProblem {
    /// The schema itself cannot be read.
    #[error("the schema is not valid JSON")]
    NotJson,
    /// Not on a property, or on one behind something other than `properties`.
    #[error("it must stand on a property that is reached through `properties` alone")]
    Unreachable,
    /// Not a string, or given twice in one place.
    #[error("it must be one string")]
    NotText,
    /// The empty string.
    #[error("it must not be empty")]
    Empty,
    /// Something that no header name can contain.
    #[error("it must consist of characters that are allowed in a header name")]
    NotToken,
    /// On a property that is not exactly a string, an integer or a boolean.
    #[error("the property's type must be \"string\", \"integer\" or \"boolean\"")]
    WrongType,
    /// The same name, letter case aside, as another property's.
    #[error("another property has the same name")]
    Taken,
    /// More than [`MAX_PARAM_HEADERS`].
    #[error("the tool has more than {MAX_PARAM_HEADERS} annotations")]
    TooMany,
}

impl ParamHeaders {
    /// Reads the annotations of an `inputSchema`, given as its JSON text. Without any, the set is
    /// empty. What nests deeper than 128 brackets is not looked at.
    ///
    /// # Errors
    /// [`AnnotationError`] for the first annotation that breaks a rule.
    pub fn parse(schema: &str) -> Result<Self, AnnotationError> {
        let mut set = Self::default();
        if !schema::may_have_annotations(schema) {
            return Ok(set);
        }
        if !is_json(schema) {
            return Err(AnnotationError { location: String::new(), problem: AnnotationProblem::NotJson });
        }
        let mut outcome = Ok(());
        schema::annotations(schema, |found| {
            outcome = set.add(found).map_err(|problem| AnnotationError {
                location: found.location().chars().take(SHOWN_LOCATION).collect(),
                problem,
            });
            match outcome {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        outcome.map(|()| set)
    }

    fn add(&mut self, found: &Found<'_>) -> Result<(), AnnotationProblem> {
        let path = found.path().ok_or(AnnotationProblem::Unreachable)?;
        let text = found.value().and_then(|json| serde_json::from_str::<String>(json).ok());
        let name = header_name(&text.ok_or(AnnotationProblem::NotText)?)?;
        let kind = found.kind().and_then(|json| serde_json::from_str::<String>(json).ok());
        if !matches!(kind.as_deref(), Some("string" | "integer" | "boolean")) {
            return Err(AnnotationProblem::WrongType);
        }
        if self.names.contains(&name) {
            return Err(AnnotationProblem::Taken);
        }
        if self.names.len() == MAX_PARAM_HEADERS {
            return Err(AnnotationProblem::TooMany);
        }
        self.wanted.add(&path, self.names.len());
        self.names.push(name);
        Ok(())
    }

    /// Whether the tool mirrors nothing.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The names of the headers, in the order in which the schema has them.
    pub fn names(&self) -> &[HeaderName] {
        &self.names
    }

    /// The headers to send upstream with `arguments`, the JSON text that goes out. Arguments that
    /// are absent, `null`, objects or arrays have none. A value of another type than the annotated
    /// one is sent in its own form, so that the tool's server can say what is wrong with it.
    ///
    /// # Errors
    /// [`HeaderError::OutOfRange`], [`HeaderError::Unsendable`] (a string that is no Unicode text),
    /// [`HeaderError::Arguments`].
    pub fn headers_for(&self, arguments: Option<&str>) -> Result<Vec<(HeaderName, HeaderValue)>, HeaderError> {
        let values = self.values(arguments)?;
        let mut headers = Vec::with_capacity(self.names.len());
        for (name, value) in self.names.iter().zip(values) {
            let value = match Mirrored::of(value) {
                Mirrored::Nothing => continue,
                Mirrored::Text(text) => value::sendable(name, &text)?,
                Mirrored::Integer(integer) => HeaderValue::from(integer),
                Mirrored::Fraction(text) => value::sendable(name, text)?,
                Mirrored::OutOfRange => return Err(HeaderError::OutOfRange(name.clone())),
                Mirrored::Unreadable => return Err(HeaderError::Unsendable(name.clone())),
            };
            headers.push((name.clone(), value));
        }
        Ok(headers)
    }

    /// Checks the headers of a request against its `arguments`, both ways: a value needs its header
    /// and a header its value. Values compare by the body's type, as [`headers_for`] writes them;
    /// integers by value. `Mcp-Param-*` headers that the tool does not name are ignored.
    ///
    /// # Errors
    /// [`HeaderError`] for the first header that is missing, repeated, malformed, different or
    /// there without a value.
    ///
    /// [`headers_for`]: Self::headers_for
    pub fn check(&self, headers: &HeaderMap, arguments: Option<&str>) -> Result<(), HeaderError> {
        let values = self.values(arguments)?;
        for (name, value) in self.names.iter().zip(values) {
            check_one(name, single(headers, name)?, &Mirrored::of(value))?;
        }
        Ok(())
    }

    fn values<'a>(&self, arguments: Option<&'a str>) -> Result<Vec<Option<&'a str>>, HeaderError> {
        let mut values = vec![None; self.names.len()];
        self.wanted.find(arguments.unwrap_or_default(), &mut values)?;
        Ok(values)
    }
}

fn check_one(name: &HeaderName, header: Option<&HeaderValue>, body: &Mirrored<'_>) -> Result<(), HeaderError> {
    let header = match (header, body) {
        (None, Mirrored::Nothing) => return Ok(()),
        (None, _) => return Err(HeaderError::Missing(name.clone())),
        (Some(_), Mirrored::Nothing) => return Err(HeaderError::Unexpected(name.clone())),
        (Some(header), _) => decode_value(name, header)?,
    };
    let same = match body {
        Mirrored::Text(text) => header == *text,
        Mirrored::Integer(integer) => whole(&header) == Whole::Integer(*integer),
        Mirrored::Fraction(text) => header == *text,
        Mirrored::OutOfRange => return Err(HeaderError::OutOfRange(name.clone())),
        Mirrored::Nothing | Mirrored::Unreadable => false,
    };
    if same {
        return Ok(());
    }
    Err(HeaderError::Mismatch(name.clone()))
}

fn header_name(text: &str) -> Result<HeaderName, AnnotationProblem> {
    if text.is_empty() {
        return Err(AnnotationProblem::Empty);
    }
    if !text.bytes().all(is_tchar) {
        return Err(AnnotationProblem::NotToken);
    }
    HeaderName::from_bytes(format!("{MCP_PARAM_PREFIX}{text}").as_bytes()).map_err(|_| AnnotationProblem::NotToken)
}

/// `tchar` of RFC 9110 §5.6.2.
fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The schema without its annotations, every other byte as it was: for tools whose annotations
/// nobody should act on. What is no annotation (a property of that name, a default value with such
/// a key) stays, and so does a schema that is not JSON.
pub fn strip(schema: &str) -> String {
    if !schema::may_have_annotations(schema) || !is_json(schema) {
        return schema.to_owned();
    }
    let mut stripped = String::with_capacity(schema.len());
    let mut at = 0;
    for cut in schema::annotations(schema, |_| ControlFlow::Continue(())) {
        stripped.push_str(&schema[at..cut.start]);
        at = cut.end;
    }
    stripped.push_str(&schema[at..]);
    stripped
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests;
