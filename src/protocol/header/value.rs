//! Text as a header value and back: plain where it can be, `=?base64?…?=` where it cannot.
//!
//! The parent module and `param` write and read every mirrored value through here, so that no text
//! from a body can end a header line or be taken for something else.
//!
//! Rule: <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#value-encoding>.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};

use super::HeaderError;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// The header form of `text`: itself if it is printable ASCII without spaces around it and does not
/// look encoded, else its Base64 form. Empty text stays empty.
pub fn encode_value(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(text)))
}

fn is_plain(text: &str) -> bool {
    let printable = text.bytes().all(|byte| matches!(byte, 0x20..=0x7E));
    let padded = text.starts_with(' ') || text.ends_with(' ');
    let looks_encoded = text.starts_with(PREFIX) && text.ends_with(SUFFIX);
    printable && !padded && !looks_encoded
}

/// The text behind a header value, spaces and tabs around it trimmed first. What does not start and
/// end exactly like the encoded form is literal. `name` is for the error only.
///
/// # Errors
/// [`HeaderError::Characters`] for bytes outside 0x20–0x7E and 0x09, [`HeaderError::Encoding`] for
/// an encoded value that is not strict, padded Base64 of UTF-8 text.
pub fn decode_value<'a>(name: &HeaderName, value: &'a HeaderValue) -> Result<Cow<'a, str>, HeaderError> {
    let literal = literal(name, value)?;
    let Some(encoded) = literal.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)) else {
        return Ok(Cow::Borrowed(literal));
    };
    let bytes = STANDARD.decode(encoded).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.map(Cow::Owned).ok_or_else(|| HeaderError::Encoding(name.clone()))
}

/// The trimmed text of a header value, not decoded.
pub(super) fn literal<'a>(name: &HeaderName, value: &'a HeaderValue) -> Result<&'a str, HeaderError> {
    // `to_str` lets pass exactly the bytes that the protocol allows.
    let text = value.to_str();
    text.map(|text| text.trim_matches([' ', '\t'])).map_err(|_| HeaderError::Characters(name.clone()))
}

/// `text` encoded, ready to be inserted.
pub(super) fn sendable(name: &HeaderName, text: &str) -> Result<HeaderValue, HeaderError> {
    HeaderValue::from_str(&encode_value(text)).map_err(|_| HeaderError::Unsendable(name.clone()))
}

#[cfg(test)]
mod tests;
