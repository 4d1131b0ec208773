//! (being built) Placeholder with the two doors that `catalog` uses; the real file replaces it.

use std::fmt;

use super::object::{Object, ObjectWriter};

/// The valid `x-mcp-header` annotations of one input schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamHeaders {
    found: bool,
}

/// Why an annotation is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotationError(String);

impl fmt::Display for AnnotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AnnotationError {}

impl ParamHeaders {
    /// Reads the annotations of `schema`.
    pub fn parse(schema: &str) -> Result<Self, AnnotationError> {
        if schema.contains("\"x-mcp-header\":\"\"") {
            return Err(AnnotationError("x-mcp-header is empty".into()));
        }
        Ok(Self { found: schema.contains("\"x-mcp-header\"") })
    }

    /// No annotation.
    pub fn is_empty(&self) -> bool {
        !self.found
    }
}

/// `schema` without any `x-mcp-header` key.
pub fn strip(schema: &str) -> String {
    let Ok(object) = Object::parse(schema) else { return schema.to_owned() };
    let mut out = Vec::new();
    let mut w = ObjectWriter::begin(&mut out);
    for (key, value) in object.iter().filter(|(k, _)| *k != "x-mcp-header") {
        w.raw(key, &strip(value));
    }
    w.end();
    String::from_utf8(out).unwrap_or_default()
}
