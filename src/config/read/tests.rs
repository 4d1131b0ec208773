//! Tests of the readers: the three formats give the same tree, keep order and places, and say what they cannot read.

use super::*;

fn lines_of(node: &Node) -> Vec<(String, Origin)> {
    fn walk(node: &Node, path: &mut Vec<String>, out: &mut Vec<(String, Origin)>) {
        for entry in node.entries() {
            path.push(entry.key.clone());
            out.push((path.join("."), entry.node.origin.clone()));
            walk(&entry.node, path, out);
            path.pop();
        }
    }
    let mut out = Vec::new();
    walk(node, &mut Vec::new(), &mut out);
    out
}

#[track_caller]
fn tree(file: &str, text: &str) -> Node {
    read(Path::new(file), text.as_bytes()).unwrap_or_else(|problems| panic!("{file}: {problems:?}"))
}

/// The same without places, to compare formats.
fn bare(node: &Node) -> Node {
    let value = match &node.value {
        Value::List(items) => Value::List(items.iter().map(bare).collect()),
        Value::Map(entries) => Value::Map(
            entries.iter().map(|entry| super::super::tree::Entry::new(&entry.key, bare(&entry.node))).collect(),
        ),
        other => other.clone(),
    };
    Node::new(value, Origin::Default)
}

#[test]
fn three_formats_one_tree_in_the_order_of_the_file() {
    let json = r#"{"z": {"t": "ü", "n": 8080, "f": 1.10, "b": true, "l": [1, "x"]}, "a": {"k.k": {}}}"#;
    let yaml = "z:\n  t: ü\n  n: 8080\n  f: 1.10\n  b: true\n  l: [1, x]\na: {k.k: {}}\n";
    let toml = "[z]\nt = 'ü'\nn = 8080\nf = 1.10\nb = true\nl = [1, 'x']\n[a]\n'k.k' = {}\n";
    let want = bare(&tree("m.json", json));
    assert_eq!(bare(&tree("m.yaml", yaml)), want);
    assert_eq!(bare(&tree("m.TOML", toml)), want);
    let keys: Vec<&str> = want.entries().iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["z", "a"]);
}

#[test]
fn every_value_knows_its_line_and_column() {
    let want = |places: [(usize, usize); 3]| {
        let keys = ["s", "s.ü", "s.url"].map(str::to_owned);
        keys.into_iter().zip(places.map(|(line, column)| Origin::File(line, column))).collect::<Vec<_>>()
    };
    let json = "{\n  // note\n  \"s\": {\n    \"ü\": 1, \"url\": \"x\",\n  },\n}";
    assert_eq!(lines_of(&tree("m.jsonc", json)), want([(3, 8), (4, 10), (4, 20)]));
    let yaml = "# note\ns:\n  ü: 1\n  url: 'x'\n";
    assert_eq!(lines_of(&tree("m.yml", yaml)), want([(3, 3), (3, 6), (4, 8)]));
    let toml = "\n[s]\n'ü' = 1\nurl = 'x'\n";
    assert_eq!(lines_of(&tree("m.toml", toml)), want([(2, 1), (3, 7), (4, 7)]));
}

#[test]
fn yaml_says_what_it_means() {
    let node = tree("m.yaml", "a: yes\nb: 'true'\nc: ~\nd: 0x10\ne: 1e3\nf: 007\ng: 1_000\nh: |\n  x\n  y\n");
    let values: Vec<Value> = node.entries().iter().map(|entry| entry.node.value.clone()).collect();
    let text = |text: &str| Value::Text(text.to_owned());
    let number = |text: &str| Value::Number(text.to_owned());
    assert_eq!(values[..4], [text("yes"), text("true"), Value::Null, number("0x10")]);
    assert_eq!(values[4], number("1e3"));
    assert_eq!(values[7], text("x\ny\n"));
}

#[test]
fn yaml_anchors_and_merges_unfold_with_the_place_of_the_alias() {
    let node = tree("m.yaml", "x-a: &a\n  t: 1.10\nb:\n  <<: *a\n  u: 2\nc: *a\n");
    let shown = bare(&node);
    let names = |key: &str| -> Vec<String> {
        shown
            .get(key)
            .map(|entry| entry.node.entries().iter().map(|entry| entry.key.clone()).collect())
            .unwrap_or_default()
    };
    let mut b = names("b");
    b.sort();
    assert_eq!((b, names("c")), (vec!["t".to_owned(), "u".to_owned()], vec!["t".to_owned()]));
    let t = shown.get("c").and_then(|entry| entry.node.get("t")).map(|entry| entry.node.value.clone());
    assert_eq!(t, Some(Value::Number("1.10".to_owned())));
}

#[test]
fn what_cannot_be_read_says_where_and_what_to_do() {
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
    let deep = format!("a: {}{}", "[".repeat(200), "]".repeat(200));
    let deep_json = format!("{{\"a\": {}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    let deep_toml = format!("a = {}{}", "[".repeat(20_000), "]".repeat(20_000));
    let utf16 = [0xff, 0xfe, b'{', 0, b'}', 0];
    let cases: &[(&str, &[u8], &str)] = &[
        ("m.yaml", b"", "the file is empty"),
        ("m.json", b" \n ", "the file is empty"),
        ("m.yaml", b"# only a comment\n", "the file is empty"),
        ("m.json", &utf16, "UTF-16"),
        ("m.yaml", b"\x00\x01", "binary"),
        ("m.toml", b"a = '\xe9'", "not UTF-8"),
        ("m.yaml", b"- a\n- b\n", "expected a map of settings at the top, found a list"),
        ("m.json", b"[]", "expected a map of settings at the top, found a list"),
        ("m.json", b"\"text\"", "expected a map of settings at the top"),
        ("m.conf", b"{}", "ending does not say its format"),
        ("manifold", b"{}", "ending does not say its format"),
        ("m.json", b"{\n \"a\": 1 \"b\": 2 }", "m.json:2:"),
        ("m.json", b"{ 'a': 1 }", "not valid JSON"),
        ("m.json", b"{ a: 1 }", "not valid JSON"),
        ("m.json", b"{ \"a\": 1", "not valid JSON"),
        ("m.json", b"{} {}", "not valid JSON"),
        ("m.json", b"{\n \"a\": {\"b\": 1,\n \"b\": 2} }", "m.json:3:2: a.b: the key \"b\" is written twice"),
        ("m.yaml", b"a: 1\nb: 2\na: 3\n", "m.yaml:3:1"),
        ("m.yaml", b"a: [1\nb: 2\n", "not valid YAML"),
        ("m.yaml", b"a: 1\n---\nb: 2\n", "not valid YAML"),
        ("m.yaml", b"a: *nobody\n", "not valid YAML"),
        ("m.yaml", bomb.as_bytes(), "not valid YAML"),
        ("m.yaml", deep.as_bytes(), "not valid YAML"),
        ("m.json", deep_json.as_bytes(), "not valid JSON"),
        ("m.toml", deep_toml.as_bytes(), "not valid TOML"),
        ("m.toml", b"a = 1\na = 2\n", "m.toml:2:1"),
        ("m.toml", b"a = \n", "m.toml:1:"),
    ];
    for (file, bytes, want) in cases {
        match read(Path::new(file), bytes) {
            Ok(node) => panic!("{file} {:?} was read: {node:?}", String::from_utf8_lossy(bytes)),
            Err(problems) => {
                let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
                assert!(shown.iter().any(|line| line.contains(want)), "{want}: {shown:?}");
            }
        }
    }
}

#[test]
fn a_broken_line_is_never_quoted() {
    for (file, text) in [
        ("m.yaml", "a: \"5ecret\\q\"\n"),
        ("m.yaml", "a: 5ecret: 5ecret\n"),
        ("m.yaml", "a: !!int 5ecret\n"),
        ("m.yaml", "a: &x 5ecret\nb: [*x\n"),
        ("m.toml", "a = 5ecret\n"),
        ("m.toml", "a = \"5ecret\n"),
        ("m.json", "{\"a\": \"5ecret"),
        ("m.json", "{\"a\": 5ecret}"),
        ("m.json", "{\"a\": \"5ecret\\q\"}"),
    ] {
        let Err(problems) = read(Path::new(file), text.as_bytes()) else { panic!("{text} was read") };
        assert!(!format!("{problems:?}").contains("5ecret"), "{problems:?}");
    }
}

#[test]
fn a_byte_order_mark_and_windows_lines_do_no_harm() {
    for (file, text) in
        [("m.yaml", "a: 1\r\nb: x\r\n"), ("m.toml", "a = 1\r\nb = 'x'\r\n"), ("m.json", "{\"a\": 1,\r\n\"b\": \"x\"}")]
    {
        let marked = format!("\u{feff}{text}");
        let node = bare(&tree(file, &marked));
        assert_eq!(node.get("b").map(|entry| entry.node.value.clone()), Some(Value::Text("x".to_owned())), "{file}");
        assert_eq!(tree(file, &marked), tree(file, text), "{file}: places must not move");
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200), kind in 0..3usize) {
        let _ = read(Path::new(["m.yaml", "m.toml", "m.json"][kind]), &bytes);
    }

    #[test]
    fn no_text_of_the_formats_letters_makes_a_reader_panic(text in "[a-c\\[\\]{}:,='\"#&*<!|>\\-ü\n\r \t0-9.]{0,60}", kind in 0..3usize) {
        let _ = read(Path::new(["m.yaml", "m.toml", "m.json"][kind]), text.as_bytes());
    }
}
