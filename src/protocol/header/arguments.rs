//! Reads the values that headers mirror out of a call's arguments, and puts them in header form.
//!
//! `param` asks with a tree of property names; the arguments stay raw text, of which only the
//! objects on the way to a wanted value are looked into, each once.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::HeaderError;

/// The wanted properties of one object, and what is wanted below them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wanted(Vec<Branch>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Branch {
    property: Box<str>,
    slot: Option<usize>,
    below: Wanted,
}

/// A body value in the form its header must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mirrored<'a> {
    /// Absent, `null`, or an object or array, which has no header form: no header.
    Nothing,
    /// A string as it is, or `true` or `false`.
    Text(Cow<'a, str>),
    /// An integer, compared by value and written in decimal.
    Integer(i64),
    /// A number that is no integer, by its JSON text.
    Fraction(&'a str),
    /// An integer that not every peer can read exactly.
    OutOfRange,
    /// A string that is no Unicode text (an unpaired surrogate).
    Unreadable,
}

impl Wanted {
    /// Wants the value at `path` in `slot`; a property that is there already gets the slot too.
    pub(super) fn add(&mut self, path: &[String], slot: usize) {
        let Some((property, rest)) = path.split_first() else {
            return;
        };
        let at = self.position(property.as_bytes()).unwrap_or_else(|| {
            self.0.push(Branch { property: property.as_str().into(), slot: None, below: Self::default() });
            self.0.len() - 1
        });
        let Some(branch) = self.0.get_mut(at) else {
            return;
        };
        match rest {
            [] => branch.slot = Some(slot),
            _ => branch.below.add(rest, slot),
        }
    }

    /// Fills `slots` with the JSON texts found in `value`. What is no object has no properties.
    pub(super) fn find<'a>(&self, value: &'a str, slots: &mut [Option<&'a str>]) -> Result<(), HeaderError> {
        if self.0.is_empty() || !value.trim_start().starts_with('{') {
            return Ok(());
        }
        let mut reader = serde_json::Deserializer::from_str(value);
        let found = reader.deserialize_map(Members(self)).map_err(|_| MALFORMED)?;
        for (branch, value) in self.0.iter().zip(found) {
            match value {
                Found::No => {}
                Found::Twice => return Err(AMBIGUOUS),
                Found::Once(text) => {
                    if let Some(slot) = branch.slot.and_then(|slot| slots.get_mut(slot)) {
                        *slot = Some(text);
                    }
                    branch.below.find(text, slots)?;
                }
            }
        }
        Ok(())
    }

    fn position(&self, property: &[u8]) -> Option<usize> {
        self.0.iter().position(|branch| branch.property.as_bytes() == property)
    }
}

const MALFORMED: HeaderError = HeaderError::Arguments("not valid JSON");
/// A reader behind us might believe the other one.
const AMBIGUOUS: HeaderError = HeaderError::Arguments("a property that a header mirrors is given more than once");

#[derive(Clone, Copy)]
enum Found<'a> {
    No,
    Once(&'a str),
    Twice,
}

struct Members<'w>(&'w Wanted);

impl<'de> Visitor<'de> for Members<'_> {
    type Value = Vec<Found<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = vec![Found::No; self.0.0.len()];
        while let Some(at) = map.next_key_seed(Name(self.0))? {
            match at.and_then(|at| found.get_mut(at)) {
                None => drop(map.next_value::<IgnoredAny>()?),
                Some(place) => {
                    let value = map.next_value::<&'de RawValue>()?.get();
                    *place = match place {
                        Found::No => Found::Once(value),
                        Found::Once(_) | Found::Twice => Found::Twice,
                    };
                }
            }
        }
        Ok(found)
    }
}

/// Reads a key as bytes, so that one with an unpaired surrogate is merely not wanted.
struct Name<'w>(&'w Wanted);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_bytes(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a property name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.position(name.as_bytes()))
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<Self::Value, E> {
        Ok(self.0.position(name))
    }
}

impl<'a> Mirrored<'a> {
    /// The header form of a value, by its own type and not by the annotated one: an argument of the
    /// wrong type is for the tool's own server to refuse, in words that help.
    pub(super) fn of(value: Option<&'a str>) -> Self {
        let Some(json) = value else {
            return Self::Nothing;
        };
        match json.as_bytes().first() {
            None | Some(b'n' | b'{' | b'[') => Self::Nothing,
            Some(b'"') => string(json).map_or(Self::Unreadable, Self::Text),
            Some(b't' | b'f') => Self::Text(Cow::Borrowed(json)),
            Some(_) => match whole(json) {
                Whole::Integer(value) => Self::Integer(value),
                Whole::OutOfRange => Self::OutOfRange,
                Whole::Not => Self::Fraction(json),
            },
        }
    }
}

fn string(json: &str) -> Option<Cow<'_, str>> {
    match serde_json::from_str::<&str>(json) {
        Ok(text) => Some(Cow::Borrowed(text)),
        Err(_) => serde_json::from_str(json).ok().map(Cow::Owned),
    }
}

/// A decimal number as an integer, if it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    Integer(i64),
    OutOfRange,
    Not,
}

/// What JavaScript peers hold exactly: ±(2^53−1).
const LARGEST: i64 = (1 << 53) - 1;

/// Reads `42`, `42.0`, `4.2e1` and `-42` exactly, without going through floating point.
pub(super) fn whole(text: &str) -> Whole {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let Some(exponent) = exponent_of(exponent) else {
        return Whole::Not;
    };
    if !is_digits(before) || !is_digits(after) {
        return Whole::Not;
    }
    let digits = format!("{before}{after}");
    let leading = digits.len() - digits.trim_start_matches('0').len();
    let digits = digits.trim_matches('0');
    // Where the decimal point stands, counted from the first digit that is not zero.
    let point = exponent.saturating_add(length(before)).saturating_sub(i64::try_from(leading).unwrap_or(i64::MAX));
    let zeros = point.saturating_sub(length(digits));
    match (digits, u32::try_from(zeros)) {
        ("", _) => Whole::Integer(0),
        (_, Err(_)) if zeros < 0 => Whole::Not,
        (digits, Ok(zeros)) if point <= 16 => scaled(digits, zeros, negative),
        _ => Whole::OutOfRange,
    }
}

fn scaled(digits: &str, zeros: u32, negative: bool) -> Whole {
    let value = digits.parse::<i64>().ok();
    match value.and_then(|value| value.checked_mul(10_i64.checked_pow(zeros)?)) {
        Some(value) if value <= LARGEST => Whole::Integer(if negative { -value } else { value }),
        _ => Whole::OutOfRange,
    }
}

fn exponent_of(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    // An exponent that does not fit is as good as a very large one.
    is_digits(digits).then(|| sign * digits.parse::<i64>().unwrap_or(i64::MAX / 4))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn length(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
