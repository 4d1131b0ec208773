//! The standard headers against the body.

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;

/// Header values as they stand in a message, one a pair.
pub(super) fn headers(pairs: &[(&str, &[u8])]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    headers
}

#[test]
fn a_repeated_header_is_refused() {
    let once = headers(&[("Mcp-Name", b"a")]);
    assert_eq!(single(&once, &MCP_NAME), Ok(Some(&HeaderValue::from_static("a"))));
    assert_eq!(single(&once, &MCP_METHOD), Ok(None));
    let twice = headers(&[("Mcp-Name", b"a"), ("mcp-name", b"a")]);
    assert_eq!(single(&twice, &MCP_NAME), Err(HeaderError::Repeated(MCP_NAME)));
}

#[test]
fn the_method_header_says_exactly_the_method() {
    for (value, expected) in [
        (&b"tools/call"[..], Ok(())),
        (b" \ttools/call\t ", Ok(())),
        (b"Tools/call", Err(HeaderError::Mismatch(MCP_METHOD))),
        (b"=?base64?dG9vbHMvY2FsbA==?=", Err(HeaderError::Mismatch(MCP_METHOD))),
        (b"", Err(HeaderError::Mismatch(MCP_METHOD))),
        (b"tools/call\xFF", Err(HeaderError::Characters(MCP_METHOD))),
    ] {
        let headers = headers(&[("MCP-METHOD", value)]);
        assert_eq!(check_method(&headers, "tools/call"), expected, "{value:?}");
    }
    let missing = check_method(&HeaderMap::new(), "tools/call");
    assert_eq!(missing, Err(HeaderError::Missing(MCP_METHOD)));
}

#[test]
fn the_name_header_says_the_name_plain_or_encoded() {
    for (value, name, expected) in [
        (&b"get_weather"[..], "get_weather", Ok(())),
        (b"=?base64?Z2V0X3dlYXRoZXI=?=", "get_weather", Ok(())),
        (b"=?base64?5pel?=", "\u{65e5}", Ok(())),
        (b"=?BASE64?5pel?=", "=?BASE64?5pel?=", Ok(())),
        (b"get_Weather", "get_weather", Err(HeaderError::Mismatch(MCP_NAME))),
        (b"=?base64?5pe?=", "\u{65e5}", Err(HeaderError::Encoding(MCP_NAME))),
        (b"\xE6\x97\xA5", "\u{65e5}", Err(HeaderError::Characters(MCP_NAME))),
    ] {
        assert_eq!(check_name(&headers(&[("mcp-name", value)]), name), expected, "{value:?}");
    }
    assert_eq!(check_name(&HeaderMap::new(), "a"), Err(HeaderError::Missing(MCP_NAME)));
}

/// B073: a renamed tool has another `Mcp-Name`, computed from the body that goes out.
#[test]
fn mirrored_headers_follow_the_outgoing_body_after_a_rename() {
    let mut outgoing = headers(&[("mcp-name", b"files__read"), ("mcp-name", b"stale")]);
    insert_standard(&mut outgoing, "2026-07-28", "tools/call", Some("read")).unwrap();
    assert_eq!(check_name(&outgoing, "read"), Ok(()));
    assert_eq!(check_name(&outgoing, "files__read"), Err(HeaderError::Mismatch(MCP_NAME)));
    insert_standard(&mut outgoing, "2026-07-28", "tools/list", None).unwrap();
    assert_eq!(single(&outgoing, &MCP_NAME), Ok(None));
    assert_eq!(plain(&outgoing, &MCP_PROTOCOL_VERSION), Ok(Some("2026-07-28")));
}

#[test]
fn a_method_that_is_no_header_text_is_refused_not_encoded() {
    for method in ["a\r\nb", "m\u{e9}thode", "a b"] {
        let outcome = insert_standard(&mut HeaderMap::new(), "2026-07-28", method, None);
        assert_eq!(outcome, Err(HeaderError::Unsendable(MCP_METHOD)));
    }
}

proptest! {
    #[test]
    fn what_we_send_is_what_we_accept(method in "[!-~]{1,20}", name in any::<String>()) {
        let mut sent = HeaderMap::new();
        insert_standard(&mut sent, "2026-07-28", &method, Some(&name)).unwrap();
        prop_assert_eq!(check_method(&sent, &method), Ok(()));
        prop_assert_eq!(check_name(&sent, &name), Ok(()));
    }

    #[test]
    fn errors_never_repeat_a_value(value in "[a-z]{12}") {
        let headers = headers(&[("mcp-name", value.as_bytes()), ("mcp-method", value.as_bytes())]);
        for error in [check_name(&headers, "n"), check_method(&headers, "m")] {
            prop_assert!(!error.unwrap_err().to_string().contains(&value));
        }
    }
}
