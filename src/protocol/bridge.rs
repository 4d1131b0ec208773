//! Questions across eras: a legacy server's request as a modern input request, and back (protocol.md §5.0).
//!
//! `gateway` uses it when it suspends a call for a modern client, and when it asks a legacy client for a modern server.

use super::meta::{PROGRESS_TOKEN, RELATED_TASK};
use super::method::question;
use super::object::{Object, ObjectWriter};

/// Writes the parameters of a legacy server's question as a modern client reads them: what belongs to the other era, or
/// would expose other servers' data, is left out.
pub fn write_modern_params(out: &mut Vec<u8>, method: &str, params: &str) {
    write(out, method, params, None);
}

/// Writes the parameters of a modern server's input request as a legacy client reads them. `elicitation_id` is ours, for
/// URL mode.
pub fn write_legacy_params(out: &mut Vec<u8>, method: &str, params: &str, elicitation_id: Option<&str>) {
    write(out, method, params, elicitation_id);
}

fn write(out: &mut Vec<u8>, method: &str, params: &str, elicitation_id: Option<&str>) {
    let members = Object::parse(params).unwrap_or_default();
    let mut w = ObjectWriter::begin(out);
    for (key, value) in members.iter() {
        match (method, key) {
            (_, "task") | (question::ELICITATION, "elicitationId") | (question::SAMPLING, "includeContext") => {}
            (_, "_meta") => write_meta(&mut w, value),
            _ => w.raw(key, value),
        }
    }
    if let Some(id) = elicitation_id {
        w.string("elicitationId", id);
    }
    w.end();
}

fn write_meta(w: &mut ObjectWriter<'_>, raw: &str) {
    let meta = Object::parse(raw).unwrap_or_default();
    let crosses = |key: &str| key != PROGRESS_TOKEN && key != RELATED_TASK;
    if !meta.iter().any(|(key, _)| crosses(key)) {
        return;
    }
    let mut m = ObjectWriter::begin(w.key("_meta"));
    meta.iter().filter(|(key, _)| crosses(key)).for_each(|(key, value)| m.raw(key, value));
    m.end();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_the_other_era_stays_behind() {
        let of = |method, params: &str, id| {
            let mut out = Vec::new();
            write(&mut out, method, params, id);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            of(
                question::ELICITATION,
                r#"{"mode":"url","url":"https://x","elicitationId":"7","task":{},"_meta":{"progressToken":1},"requestedSchema":{"a":1.0}}"#,
                None
            ),
            r#"{"mode":"url","url":"https://x","requestedSchema":{"a":1.0}}"#
        );
        assert_eq!(
            of(
                question::SAMPLING,
                r#"{"messages":[],"includeContext":"allServers","_meta":{"progressToken":1,"x/y":2}}"#,
                None
            ),
            r#"{"messages":[],"_meta":{"x/y":2}}"#
        );
        assert_eq!(of(question::ROOTS, "{}", None), "{}");
        assert_eq!(
            of(question::ELICITATION, r#"{"mode":"url"}"#, Some("g1")),
            r#"{"mode":"url","elicitationId":"g1"}"#
        );
    }
}
