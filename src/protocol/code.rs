//! JSON-RPC and MCP error codes, and which era may see which (protocol.md §1.3, §5i, §11).
//!
//! Read by every module that answers an error; written down nowhere else.

/// Body is not JSON (JSON-RPC 2.0 §5.1).
pub const PARSE_ERROR: i64 = -32700;
/// JSON, but not a request that may be sent here and now.
pub const INVALID_REQUEST: i64 = -32600;
/// Unknown, removed or not offered method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// Wrong parameters; in the modern era also an unknown resource.
pub const INVALID_PARAMS: i64 = -32602;
/// Our failure, or an upstream's.
pub const INTERNAL_ERROR: i64 = -32603;
/// Unknown resource, legacy revisions only; a modern peer must never see it.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// 2025-11-25 only: the user must open a URL first; a modern peer must never see it.
pub const URL_ELICITATION_REQUIRED: i64 = -32042;
/// Modern: a standard header is missing or disagrees with the body.
pub const HEADER_MISMATCH: i64 = -32020;
/// Modern: the request needs a capability that the client did not declare.
pub const MISSING_CAPABILITY: i64 = -32021;
/// Modern: the protocol version is not served.
pub const UNSUPPORTED_VERSION: i64 = -32022;
/// What legacy texts show for "the user rejected the sampling request".
pub const USER_REJECTED: i64 = -1;
