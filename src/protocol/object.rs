//! A JSON object as its raw members: read a few, replace a few, and let every other byte through.
//!
//! The envelope (`jsonrpc`), the metadata (`meta`) and every rewrite of parameters and results stand on this. Values
//! stay text, so numbers of any size, key order, explicit nulls and unknown members survive (design §1.5).

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use smallvec::SmallVec;

/// Members up to which duplicates are looked for pair by pair; above, by hashing.
const SMALL: usize = 16;

/// One object, parsed one level deep. Borrows the text it came from.
#[derive(Clone, Debug, Default)]
pub struct Object<'a> {
    members: SmallVec<[Member<'a>; 8]>,
}

/// A member: its key unescaped, its value as it stands in the text.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// The key, unescaped.
    pub key: Cow<'a, str>,
    /// The value's text, white space inside it included.
    pub value: &'a RawValue,
}

impl<'a> Object<'a> {
    /// Parses `text`, which must be one JSON object without duplicate keys at its top level.
    pub fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The text of member `key`. An explicit `null` is `Some("null")`.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.members.iter().find(|m| m.key == key).map(|m| m.value.get())
    }

    /// The text of member `key`, where an explicit `null` counts as absent (bug report kind "null where absent is meant").
    pub fn get_some(&self, key: &str) -> Option<&'a str> {
        self.get(key).filter(|v| *v != "null")
    }

    /// Member `key` as a string, if it is one.
    pub fn string(&self, key: &str) -> Option<Cow<'a, str>> {
        string(self.get(key)?)
    }

    /// Member `key` as an object, if it is one.
    pub fn object(&self, key: &str) -> Option<Object<'a>> {
        Object::parse(self.get(key)?).ok()
    }

    /// Whether member `key` is there, `null` included.
    pub fn has(&self, key: &str) -> bool {
        self.members.iter().any(|m| m.key == key)
    }

    /// The members in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.members.iter().map(|m| (m.key.as_ref(), m.value.get()))
    }

    /// No members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

/// Builds an [`Object`] from a map; refuses everything else, arrays too.
pub(super) struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = SmallVec::new();
        while let Some(Key(key)) = map.next_key()? {
            let value = map.next_value()?;
            members.push(Member { key, value });
        }
        match duplicate(&members) {
            Some(_) => Err(de::Error::custom("duplicate key")),
            None => Ok(Object { members }),
        }
    }
}

fn duplicate<'m>(members: &'m [Member<'_>]) -> Option<&'m str> {
    if members.len() <= SMALL {
        return members
            .iter()
            .enumerate()
            .find_map(|(i, m)| members[..i].iter().any(|earlier| earlier.key == m.key).then_some(m.key.as_ref()));
    }
    let mut seen = hashbrown::HashSet::with_capacity(members.len());
    members.iter().map(|m| m.key.as_ref()).find(|key| !seen.insert(*key))
}

/// A key that borrows where it has no escapes; `Cow`'s own deserializer always copies.
pub(super) struct Key<'a>(pub(super) Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(v)))
            }
            fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(v.to_owned())))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

/// The string that JSON text `raw` is, or `None` if it is anything else.
pub fn string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr2(b'\\', b'"', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(raw).ok().map(Cow::Owned)
}

/// Whether JSON text `raw` is an object, judged by its first byte: raw values are known to be well formed.
pub fn is_object(raw: &str) -> bool {
    raw.starts_with('{')
}

/// Writes an object member by member. Members are only ever written as valid JSON: keys and strings are escaped here,
/// raw text comes from a parsed [`Object`] or from another writer.
#[derive(Debug)]
pub struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    empty: bool,
}

impl<'o> ObjectWriter<'o> {
    /// Writes the opening brace.
    pub fn begin(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    /// Writes `key` and its colon; the caller writes the value into what is returned.
    pub fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
        write_string(self.out, key);
        self.out.push(b':');
        self.out
    }

    /// A member whose value is JSON text already.
    pub fn raw(&mut self, key: &str, value: &str) {
        self.key(key).extend_from_slice(value.as_bytes());
    }

    /// A member whose value is a string.
    pub fn string(&mut self, key: &str, value: &str) {
        let out = self.key(key);
        write_string(out, value);
    }

    /// A member whose value is an integer.
    pub fn integer(&mut self, key: &str, value: u64) {
        let out = self.key(key);
        write_integer(out, value);
    }

    /// Writes the closing brace.
    pub fn end(self) {
        self.out.push(b'}');
    }
}

/// Writes `text` as a JSON string.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    if text.bytes().any(|b| b < 0x20 || b == b'"' || b == b'\\') {
        for c in text.chars() {
            write_char(out, c);
        }
    } else {
        out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
}

fn write_char(out: &mut Vec<u8>, c: char) {
    match c {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        c if u32::from(c) < 0x20 => {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            let code = u32::from(c) as usize;
            out.extend_from_slice(b"\\u00");
            out.push(HEX[code >> 4]);
            out.push(HEX[code & 15]);
        }
        c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// Writes `value` in decimal, without formatting machinery.
pub fn write_integer(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> String {
        let object = Object::parse(text).unwrap();
        let mut out = Vec::new();
        let mut w = ObjectWriter::begin(&mut out);
        for (k, v) in object.iter() {
            w.raw(k, v);
        }
        w.end();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn members_survive_byte_for_byte() {
        for text in [
            r#"{"b":9007199254740993,"a":1.10,"y":1e400,"z":-0,"n":null}"#,
            r#"{"s":"\u65e5 \ud83d\ude00","o":{ "k" : [1 , 2] },"e":{}}"#,
            "{}",
        ] {
            assert_eq!(rewritten(text), text);
        }
    }

    #[test]
    fn only_objects_without_duplicate_keys_are_objects() {
        for bad in [
            "[1]",
            "1",
            "null",
            r#"{"a":1,"a":2}"#,
            r#"{"name":1,"n\u0061me":2}"#,
            r#"{"a":1}x"#,
            r#"{"a":01}"#,
            "{\"a\":\"\u{1}\"}",
        ] {
            assert!(Object::parse(bad).is_err(), "{bad}");
        }
        let many: Vec<String> = (0..40).map(|i| format!("\"k{i}\":{i}")).collect();
        assert!(Object::parse(&format!("{{{}}}", many.join(","))).is_ok());
        assert!(Object::parse(&format!("{{{},\"k3\":0}}", many.join(","))).is_err());
    }

    #[test]
    fn an_escaped_key_is_the_same_key() {
        let o = Object::parse(r#"{"n\u0061me":"x"}"#).unwrap();
        assert_eq!(o.string("name").as_deref(), Some("x"));
    }

    #[test]
    fn null_can_be_told_from_absent() {
        let o = Object::parse(r#"{"a":null}"#).unwrap();
        assert_eq!((o.get("a"), o.get_some("a"), o.get("b")), (Some("null"), None, None));
        assert!(o.has("a") && !o.has("b"));
    }

    #[test]
    fn deep_nesting_is_skipped_without_recursion() {
        let text = format!("{{\"a\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000));
        assert!(Object::parse(&text).is_ok());
    }

    #[test]
    fn strings_are_escaped_as_json_wants_it() {
        let mut out = Vec::new();
        let text = "a\"\\\n\r\t\u{1}日😀";
        write_string(&mut out, text);
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        for n in [0, 7, 10, u64::MAX] {
            let mut out = Vec::new();
            write_integer(&mut out, n);
            assert_eq!(String::from_utf8(out).unwrap(), n.to_string());
        }
    }
}
