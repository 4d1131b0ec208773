//! Whose answer a message was that is too large to be taken in: told by its first and last bytes.
//!
//! The stdio transport keeps both of a line above its limit, and `upstream` fails the one request that it answers
//! instead of everything in flight. Writers put the scalar members (`jsonrpc`, `id`, `method`) before or behind the
//! large one, so either end shows the `id`; what stands inside the large member is never read.

use super::jsonrpc::Id;

/// What is known of a message by its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The answer to our request of this id.
    Answer(u64),
    /// A request or a notification: nobody waits for it.
    Nobody,
    /// Neither end says.
    Unknown,
}

/// Reads the ends of one message: its first bytes and its last, as many as were kept.
pub fn whose(head: &[u8], tail: &[u8]) -> Whose {
    let members = leading(head).into_iter().chain(trailing(tail));
    for (key, value) in members {
        match key {
            b"method" => return Whose::Nobody,
            b"id" => {
                let id = std::str::from_utf8(value).ok().and_then(Id::parse).and_then(Id::as_own);
                return id.map_or(Whose::Unknown, Whose::Answer);
            }
            _ => {}
        }
    }
    Whose::Unknown
}

type Member<'a> = (&'a [u8], &'a [u8]);

/// The scalar members at the beginning of an object, up to the first that is none.
fn leading(head: &[u8]) -> Vec<Member<'_>> {
    let mut found = Vec::new();
    let Some(mut rest) = head.trim_ascii_start().strip_prefix(b"{") else { return found };
    while let Some((key, after)) = scalar(rest)
        && let Some(after) = after.trim_ascii_start().strip_prefix(b":")
        && let Some((value, after)) = scalar(after)
        && let Some(after) = after.trim_ascii_start().strip_prefix(b",")
    {
        found.push((unquoted(key), value));
        rest = after;
    }
    found
}

/// The scalar members at the end of an object, the last one first.
fn trailing(tail: &[u8]) -> Vec<Member<'_>> {
    let mut found = Vec::new();
    let Some(mut rest) = tail.trim_ascii_end().strip_suffix(b"}") else { return found };
    while let Some((before, value)) = scalar_before(rest)
        && let Some(before) = before.trim_ascii_end().strip_suffix(b":")
        && let Some((before, key)) = scalar_before(before)
        && let Some(before) = before.trim_ascii_end().strip_suffix(b",")
    {
        found.push((unquoted(key), value));
        rest = before;
    }
    found
}

/// One string without escapes, number or literal from the front, and what follows it.
fn scalar(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    let end = match text.first()? {
        b'"' => {
            let end = 1 + text[1..].iter().position(|b| matches!(b, b'"' | b'\\'))?;
            (text[end] == b'"').then_some(end + 1)?
        }
        b'{' | b'[' => return None,
        _ => text.iter().position(|b| !is_plain(*b))?,
    };
    (end > 0).then(|| text.split_at(end))
}

/// The same from the back: what precedes it, and the value.
fn scalar_before(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_end();
    let start = match text.split_last()? {
        (b'"', before) => {
            let start = before.iter().rposition(|b| matches!(b, b'"' | b'\\'))?;
            (before[start] == b'"').then_some(start)?
        }
        _ => text.iter().rposition(|b| !is_plain(*b))? + 1,
    };
    (start < text.len()).then(|| text.split_at(start))
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

fn unquoted(key: &[u8]) -> &[u8] {
    key.strip_prefix(b"\"").and_then(|k| k.strip_suffix(b"\"")).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_end_says_whose_answer_it_was() {
        use Whose::{Answer, Nobody, Unknown};
        for (head, tail, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"ty"#, r#"aaaa"}]}}"#, Answer(7)),
            (r#" { "id" : "7" , "result" : {"#, "]}} ", Answer(7)),
            (r#"{"result":{"content":[{"type":"text","text":"x"#, r#"xx"}]},"jsonrpc":"2.0","id":41}"#, Answer(41)),
            (r#"{"result":{"a":"#, r#"]} , "id" : 3 , "jsonrpc" : "2.0" }"#, Answer(3)),
            (r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"#, r#""id":4}}"#, Nobody),
            (r#"{"params":{"#, r#"x"},"method":"m","jsonrpc":"2.0"}"#, Nobody),
            // What is inside the large member proves nothing.
            (r#"{"result":{"id":5,"#, r#""id":5}}"#, Unknown),
            (r#"{"result":"#, r#"text \",\"id\":5}"}"#, Unknown),
            (r#"{"result":"id\":"#, r#"\"id\":5"}"#, Unknown),
            (r#"{"jsonrpc":"2.0","id":7"#, "", Unknown),
            (r#"{"id":"of somebody else","result":{"#, "}}", Unknown),
            ("just noise", "without an end", Unknown),
            ("", "", Unknown),
        ] {
            assert_eq!(whose(head.as_bytes(), tail.as_bytes()), expected, "{head} … {tail}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(head: Vec<u8>, tail: Vec<u8>) {
            whose(&head, &tail);
        }
    }
}
