//! The HTTP headers of MCP, and what they must say about the body.
//!
//! The downstream edge checks a modern request's headers against its body with the `check_*`
//! functions, the upstream transport writes them with [`insert_standard`], and the catalog reads a
//! tool's `x-mcp-header` annotations into [`ParamHeaders`]. Headers are always computed from the
//! body that goes out, never copied from a request that came in: a renamed tool has other ones.
//!
//! Every failure here is `HeaderMismatch` (-32020, status 400) on the wire.
//!
//! Rules: <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http>.

mod arguments;
mod param;
mod schema;
mod value;

use http::{HeaderMap, HeaderName, HeaderValue};

pub use param::{AnnotationError, AnnotationProblem, MAX_PARAM_HEADERS, ParamHeaders, strip};
pub use value::{decode_value, encode_value};

/// The revision a request is made under, in every era that has HTTP headers.
pub const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The session of a legacy request (2025-03-26 to 2025-11-25).
pub const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The method of a modern request.
pub const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The tool, prompt, resource or task of a modern request.
pub const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The event to resume a legacy stream behind.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// What the name of every mirrored argument's header starts with.
pub const MCP_PARAM_PREFIX: &str = "mcp-param-";

/// A header that breaks a rule or disagrees with the body.
///
/// The texts are for the peer to read: they name the header and the rule, never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The body has the value, the headers do not.
    #[error("header {0} is missing")]
    Missing(HeaderName),
    /// More than one header of this name.
    #[error("header {0} is repeated")]
    Repeated(HeaderName),
    /// Bytes other than visible ASCII, space and tab.
    #[error("header {0} contains characters that a header value cannot have")]
    Characters(HeaderName),
    /// A `=?base64?…?=` value that is not strict, padded Base64 of UTF-8 text.
    #[error("header {0} is not valid Base64 of UTF-8 text")]
    Encoding(HeaderName),
    /// Header and body say different things.
    #[error("header {0} does not match the request body")]
    Mismatch(HeaderName),
    /// The header mirrors an argument that the body does not have, or that has no header form.
    #[error("header {0} is present, but the request body has no value for it")]
    Unexpected(HeaderName),
    /// An integer beyond ±(2^53−1), which not every peer can read exactly.
    #[error("the value for header {0} is an integer outside -(2^53-1)..=2^53-1")]
    OutOfRange(HeaderName),
    /// The body's value cannot be written as this header.
    #[error("the value for header {0} cannot be sent as a header")]
    Unsendable(HeaderName),
    /// The arguments that headers mirror are not JSON, or name a mirrored property twice.
    #[error("the arguments are malformed: {0}")]
    Arguments(&'static str),
}

/// The one header of this name, if there is one.
///
/// # Errors
/// [`HeaderError::Repeated`] when there are several: two readers could each believe another one.
pub fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, HeaderError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.next() {
        None => Ok(first),
        Some(_) => Err(HeaderError::Repeated(name.clone())),
    }
}

/// The text of a header that is no mirrored value (revision, method, session), trimmed.
///
/// # Errors
/// [`HeaderError::Repeated`] and [`HeaderError::Characters`].
pub fn plain<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, HeaderError> {
    single(headers, name)?.map(|value| value::literal(name, value)).transpose()
}

/// Checks `Mcp-Method` against the body's method.
///
/// # Errors
/// [`HeaderError`] when it is absent, malformed or another one; letter case counts.
pub fn check_method(headers: &HeaderMap, method: &str) -> Result<(), HeaderError> {
    match plain(headers, &MCP_METHOD)? {
        None => Err(HeaderError::Missing(MCP_METHOD)),
        Some(given) if given == method => Ok(()),
        Some(_) => Err(HeaderError::Mismatch(MCP_METHOD)),
    }
}

/// Checks `Mcp-Name` against the body's `params.name`, `params.uri` or `params.taskId`. Only for
/// methods that need it; on others the header is ignored.
///
/// # Errors
/// [`HeaderError`] when it is absent, malformed, undecodable or another one.
pub fn check_name(headers: &HeaderMap, expected: &str) -> Result<(), HeaderError> {
    let value = single(headers, &MCP_NAME)?.ok_or(HeaderError::Missing(MCP_NAME))?;
    if decode_value(&MCP_NAME, value)? == expected {
        return Ok(());
    }
    Err(HeaderError::Mismatch(MCP_NAME))
}

/// Sets the headers that every modern request carries, from the body that goes out: `revision`
/// (the one in `_meta`), `method`, and `name` for the methods that need one.
///
/// # Errors
/// [`HeaderError::Unsendable`] when revision or method, which have no encoded form, are not plain
/// visible ASCII. A name can always be sent.
pub fn insert_standard(
    headers: &mut HeaderMap,
    revision: &str,
    method: &str,
    name: Option<&str>,
) -> Result<(), HeaderError> {
    headers.insert(MCP_PROTOCOL_VERSION, verbatim(MCP_PROTOCOL_VERSION, revision)?);
    headers.insert(MCP_METHOD, verbatim(MCP_METHOD, method)?);
    match name {
        Some(name) => headers.insert(MCP_NAME, value::sendable(&MCP_NAME, name)?),
        None => headers.remove(MCP_NAME),
    };
    Ok(())
}

fn verbatim(name: HeaderName, text: &str) -> Result<HeaderValue, HeaderError> {
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(HeaderError::Unsendable(name));
    }
    HeaderValue::from_str(text).map_err(|_| HeaderError::Unsendable(name))
}

#[cfg(test)]
mod tests;
