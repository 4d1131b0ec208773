//! PURE. Which URIs are expansions of a template (RFC 6570, levels 1 to 3, and the level 4 modifiers as far as matching goes).
//!
//! `contribution` asks it when a URI is in no list. No expression engine: the template is a row of steps, and a set of possible
//! places in that row is moved along the URI byte by byte. So the cost is bounded by steps times bytes, whatever a template says.
//!
//! Lenient where servers are: a variable's value may hold bytes that a strict expansion would have percent-encoded, except
//! the separators of its surroundings.

use smallvec::SmallVec;

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    steps: Vec<Step>,
    literal_prefix: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// This byte.
    Byte(u8),
    /// Any number of bytes of a class.
    Any(Class),
    /// An expression that begins with a byte of its own: nothing at all, or the byte and any number of a class.
    /// Skips the next step, its `Any`, if it is nothing.
    Lead(u8),
}

/// Bytes that the value of an expression may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// No separator of path, query or fragment: `{var}`, `{.var}`, `{;var}`, `{/var}`.
    Segment,
    /// Slashes too: `{/a,b}` and `{/list*}`.
    Path,
    /// Everything but the fragment: `{?var}`, `{&var}`.
    Query,
    /// Everything: `{+var}`, `{#var}`.
    Reserved,
}

impl Class {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Segment => !matches!(byte, b'/' | b'?' | b'#'),
            Self::Path => !matches!(byte, b'?' | b'#'),
            Self::Query => byte != b'#',
            Self::Reserved => true,
        }
    }
}

impl Template {
    /// Parses a template; `None` if its braces or the names in them are malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::with_capacity(text.len());
        let mut literal_prefix = None;
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            steps.extend(rest[..at].bytes().map(Step::Byte));
            literal_prefix.get_or_insert(steps.len());
            let (expression, after) = rest[at..].strip_prefix('{')?.split_once('}')?;
            push_expression(&mut steps, expression)?;
            rest = after;
        }
        steps.extend(rest.bytes().map(Step::Byte));
        let literal_prefix = literal_prefix.unwrap_or(steps.len());
        Some(Self { steps, literal_prefix })
    }

    /// Bytes before the first expression: of two matching templates the one with more of them says more.
    pub fn literal_prefix(&self) -> usize {
        self.literal_prefix
    }

    /// Whether `uri` can be an expansion.
    pub fn matches(&self, uri: &str) -> bool {
        let mut places = Places::new(self);
        places.enter(0);
        uri.bytes().all(|byte| places.advance(byte)) && places.at_end()
    }
}

/// Pushes the steps of what stands between braces.
fn push_expression(steps: &mut Vec<Step>, expression: &str) -> Option<()> {
    let operator = expression.bytes().next().filter(|b| b"+#./;?&".contains(b));
    let variables = &expression[usize::from(operator.is_some())..];
    let is_list = variables.contains([',', '*']);
    if !variables.split(',').all(is_variable) {
        return None;
    }
    let (lead, class) = match operator {
        Some(b'+') => (None, Class::Reserved),
        Some(b'#') => (operator, Class::Reserved),
        Some(b'/') => (operator, if is_list { Class::Path } else { Class::Segment }),
        Some(b'?' | b'&') => (operator, Class::Query),
        lead => (lead, Class::Segment),
    };
    steps.extend(lead.map(Step::Lead));
    steps.push(Step::Any(class));
    Some(())
}

/// `name`, `name*` or `name:3`.
fn is_variable(text: &str) -> bool {
    let name = match text.split_once(':') {
        Some((name, length)) if length.parse::<u16>().is_ok() => name,
        Some(_) => return false,
        None => text.strip_suffix('*').unwrap_or(text),
    };
    // RFC 6570 allows letters, digits, `_`, `.` and percent-encoded bytes; servers also use `-`.
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'%' | b'-') || !b.is_ascii())
}

/// The set of steps that may come next.
struct Places<'t> {
    steps: &'t [Step],
    /// One flag a step, and one for the end.
    now: SmallVec<[bool; 128]>,
    next: SmallVec<[bool; 128]>,
}

impl<'t> Places<'t> {
    fn new(template: &'t Template) -> Self {
        let none = SmallVec::from_elem(false, template.steps.len() + 1);
        Self { steps: &template.steps, now: none.clone(), next: none }
    }

    /// Adds a place to the set, and those that are reached from it without a byte.
    fn enter(&mut self, at: usize) {
        enter(self.steps, &mut self.now, at);
    }

    /// Takes one byte; false if no place is left.
    fn advance(&mut self, byte: u8) -> bool {
        self.next.fill(false);
        for (at, step) in self.steps.iter().enumerate().filter(|(at, _)| self.now[*at]) {
            match step {
                Step::Byte(b) | Step::Lead(b) if *b == byte => enter(self.steps, &mut self.next, at + 1),
                Step::Any(class) if class.has(byte) => enter(self.steps, &mut self.next, at),
                _ => {}
            }
        }
        std::mem::swap(&mut self.now, &mut self.next);
        self.now.contains(&true)
    }

    fn at_end(&self) -> bool {
        self.now.last() == Some(&true)
    }
}

fn enter(steps: &[Step], set: &mut [bool], mut at: usize) {
    while let Some(place) = set.get_mut(at) {
        // What is reached from here was added when it was.
        if std::mem::replace(place, true) {
            return;
        }
        at += match steps.get(at) {
            Some(Step::Any(_)) => 1,
            Some(Step::Lead(_)) => 2,
            _ => return,
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn expansions_match_and_others_do_not() {
        for (template, uri, want) in [
            ("file:///{path}", "file:///a.txt", true),
            ("file:///{path}", "file:///a/b.txt", false),
            ("file:///{+path}", "file:///a/b.txt?x#y", true),
            ("file:///{+path}", "http:///a", false),
            ("weather://{city}/now", "weather://São Paulo/now", true),
            ("weather://{city}/now", "weather://x/then", false),
            ("weather://{city}/now", "weather:///now", true),
            ("db://{table}/{id}", "db://t/1", true),
            ("db://{table}/{id}", "db://t/1/2", false),
            ("x{.ext}", "x.tar.gz", true),
            ("x{.ext}", "x", true),
            ("x{.ext}", "xgz", false),
            ("x{/seg}", "x/a", true),
            ("x{/seg}", "x/a/b", false),
            ("x{/seg*}", "x/a/b", true),
            ("x{/a,b}/end", "x/1/2/end", true),
            ("x{;p,q}", "x;p=1;q", true),
            ("x{?q,r}", "x?q=1&r=/2", true),
            ("x{?q}", "x", true),
            ("x{?q}", "x&q=1", false),
            ("x?a=1{&q}", "x?a=1&q=2", true),
            ("x{#frag}", "x#/a?b", true),
            ("x{#frag}", "xy", false),
            ("{a:3}-{b}", "abc-d", true),
            ("{+a}{+b}c", "xyzc", true),
            ("plain", "plain", true),
            ("plain", "plain2", false),
            ("", "", true),
        ] {
            assert_eq!(Template::parse(template).unwrap().matches(uri), want, "{template} ~ {uri}");
        }
    }

    #[test]
    fn malformed_templates_are_none() {
        for text in ["{", "}", "{}", "{a", "a}", "{a{b}}", "{+}", "{a,}", "{a b}", "{a:x}", "{=a}", "{!a}"] {
            assert_eq!(Template::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_hostile_template_costs_no_more_than_steps_times_bytes() {
        let template = Template::parse(&format!("{}x", "{+a}".repeat(500))).unwrap();
        assert!(!template.matches(&"y".repeat(20_000)));
    }

    #[test]
    fn the_literal_prefix_is_what_stands_before_the_first_brace() {
        for (text, want) in [("ab{c}d", 2), ("{c}", 0), ("abc", 3), ("é{c}", 2)] {
            assert_eq!(Template::parse(text).unwrap().literal_prefix(), want, "{text}");
        }
    }

    /// What RFC 6570 makes of one expression with simple string values.
    fn expand(operator: &str, values: &[String]) -> String {
        let named = |first: &str, then: &str| {
            let pairs: Vec<String> = values.iter().enumerate().map(|(i, v)| format!("v{i}={v}")).collect();
            format!("{first}{}", pairs.join(then))
        };
        match operator {
            "" | "+" => values.join(","),
            "#" => format!("#{}", values.join(",")),
            "." | "/" => format!("{operator}{}", values.join(operator)),
            ";" => named(";", ";"),
            "?" => named("?", "&"),
            _ => named("&", "&"),
        }
    }

    fn expression() -> impl Strategy<Value = (String, String)> {
        let operators = ["", "+", "#", ".", "/", ";", "?", "&"];
        (proptest::sample::select(operators.to_vec()), proptest::collection::vec("[A-Za-z0-9._~-]{0,5}", 1..4))
            .prop_map(|(operator, values)| {
                let names: Vec<String> = (0..values.len()).map(|i| format!("v{i}")).collect();
                (format!("{{{operator}{}}}", names.join(",")), expand(operator, &values))
            })
    }

    proptest! {
        #[test]
        fn every_expansion_matches(parts in proptest::collection::vec(("[a-z:/]{0,4}", expression()), 0..5)) {
            let template: String = parts.iter().map(|(literal, (t, _))| format!("{literal}{t}")).collect();
            let uri: String = parts.iter().map(|(literal, (_, e))| format!("{literal}{e}")).collect();
            prop_assert!(Template::parse(&template).unwrap().matches(&uri), "{} ~ {}", template, uri);
        }

        #[test]
        fn no_text_makes_it_panic(template in "[a-z{}+#?/,:*é ]{0,24}", uri in any::<String>()) {
            if let Some(template) = Template::parse(&template) {
                template.matches(&uri);
            }
        }
    }
}
