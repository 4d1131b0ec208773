//! The house rules that a compiler does not know, each as a test whose failure says what to do.
//!
//! It reads the sources as text. That is coarse, and enough: a rule that is broken on purpose is found in review, one that
//! is broken by accident is found here.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Modules and how high they are. A module may use what is lower; what is level with it only where [`BESIDE`] says so.
/// `demo` stands beside the house, on the ground.
const FLOORS: [(&str, u8); 17] = [
    ("protocol", 0),
    ("name", 0),
    ("demo", 5),
    ("config", 10),
    ("policy", 10),
    ("telemetry", 10),
    ("catalog", 20),
    ("upstream", 25),
    ("gateway", 30),
    ("supervisor", 30),
    ("downstream", 40),
    ("admin", 40),
    ("shutdown", 50),
    ("cli", 50),
    ("app", 50),
    ("lib", 60),
    ("main", 60),
];

/// Arrows between modules of one floor: user, used.
const BESIDE: [(&str, &str); 6] = [
    ("policy", "config"),
    ("telemetry", "config"),
    ("name", "protocol"),
    ("cli", "app"),
    ("app", "shutdown"),
    ("cli", "shutdown"),
];

/// Who may start the demo.
const DEMO_USERS: [&str; 2] = ["cli", "app"];

/// What has no place on the ground floor, and why.
const NOT_ON_THE_GROUND: [(&str, &str); 13] = [
    ("tokio", "runs tasks"),
    ("axum", "is HTTP serving"),
    ("hyper", "is HTTP transport"),
    ("tracing", "logs"),
    ("SystemTime", "reads the clock"),
    ("Instant::now", "reads the clock"),
    ("getrandom", "is random"),
    ("rand", "is random"),
    ("std::fs", "touches files"),
    ("std::net", "touches sockets"),
    ("std::env", "reads the environment"),
    ("std::process", "touches processes"),
    ("std::thread", "starts threads"),
];

/// Crates (or calls) that are kept behind one door: what, the paths that may name it, what to do instead.
const DOORS: [(&str, &[&str], &str); 5] = [
    ("axum", &["src/downstream", "src/admin"], "hand a value to `downstream` or `admin`, which turn it into HTTP"),
    (
        "prometheus",
        &["src/telemetry/metrics"],
        "add a method to `telemetry::metrics`, so that the library stays one file",
    ),
    ("figment", &["src/config/"], "put it behind a function in `config`, so that the library stays replaceable"),
    ("process_wrap", &["src/upstream/transport/process.rs"], "start the child through `upstream::transport::process`"),
    (
        "process::Command",
        &["src/upstream/transport/process.rs"],
        "start the child through `upstream::transport::process`",
    ),
];

/// Lines of a file without its tests. Past it there is a second subject in the file.
const LINES_MAX: usize = 600;

/// File names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 6] = ["manager", "helper", "helpers", "util", "utils", "common"];

struct Source {
    /// Relative to the root, with `/`.
    path: String,
    text: String,
}

impl Source {
    /// The top module that it belongs to: `src/config/load.rs` is `config`.
    fn module(&self) -> &str {
        let inside = self.path.strip_prefix("src/").unwrap_or(&self.path);
        inside.split(['/', '.']).next().unwrap_or(inside)
    }

    /// How many `super` lead from it to the crate's root.
    fn depth(&self) -> usize {
        self.path.matches('/').count()
    }

    fn is_test(&self) -> bool {
        self.path.starts_with("tests/") || self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// Its lines up to its test module, without comments and texts.
    fn code(&self) -> String {
        let production = self.text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        production.lines().map(code_of).collect::<Vec<_>>().join("\n")
    }
}

/// A line without its comment and with its texts emptied.
fn code_of(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    let mut inside = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if inside => {
                chars.next();
            }
            // A quotation mark as a character opens no text.
            '\'' if !inside && chars.peek() == Some(&'"') => {
                chars.next();
            }
            '"' => {
                inside = !inside;
                out.push(c);
            }
            '/' if !inside && chars.peek() == Some(&'/') => break,
            c if !inside => out.push(c),
            _ => {}
        }
    }
    out
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut left = vec![root().join(folder)];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let relative = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
                found.push(Source { path: relative, text: fs::read_to_string(&path).unwrap() });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "no sources under {folder}: the rules would hold for nothing");
    found
}

/// Whether `code` has `word`, not as a part of a longer name.
fn names(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// The top modules that `code` reaches from the crate's root, `use crate::{a, b::c}` and `super::` included.
fn reached(code: &str, depth: usize) -> Vec<&str> {
    let from_root = ["crate::".to_owned(), "super::".repeat(depth)];
    let mut found = Vec::new();
    for prefix in from_root {
        for (at, _) in code.match_indices(&prefix) {
            if code[..at].ends_with("super::") || code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let rest = &code[at + prefix.len()..];
            match rest.strip_prefix('{') {
                Some(group) => found.extend(first_names(group)),
                None => found.push(first_name(rest)),
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn first_name(path: &str) -> &str {
    let path = path.trim_start();
    path.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(path)
}

/// The first name of each member of a `{...}` group whose opening brace is gone.
fn first_names(group: &str) -> Vec<&str> {
    let mut found = vec![first_name(group)];
    let mut open = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => open += 1,
            '}' if open == 0 => break,
            '}' => open -= 1,
            ',' if open == 0 => found.push(first_name(&group[at + 1..])),
            _ => {}
        }
    }
    found
}

fn height(module: &str) -> Option<u8> {
    FLOORS.iter().find(|(name, _)| *name == module).map(|(_, floor)| *floor)
}

fn all_good(broken: &[String]) {
    let mut page = String::new();
    for sentence in broken {
        let _ = writeln!(page, "* {sentence}");
    }
    assert!(broken.is_empty(), "\n{page}");
}

#[test]
fn arrows_between_modules_point_down() {
    let mut broken = Vec::new();
    for source in sources("src").iter().filter(|source| !source.is_test()) {
        let module = source.module();
        let Some(own) = height(module) else {
            broken.push(format!(
                "{} is a new module: give it a floor in tests/it/tidy.rs and in src/lib.rs",
                source.path
            ));
            continue;
        };
        let code = source.code();
        for used in reached(&code, source.depth()) {
            let Some(floor) = height(used).filter(|_| used != module) else { continue };
            let is_demo = used == "demo";
            let is_allowed = if is_demo { DEMO_USERS.contains(&module) || own > 50 } else { floor < own };
            if !is_allowed && !BESIDE.contains(&(module, used)) {
                broken.push(format!(
                    "{} uses crate::{used}, which is not below it: pass the value down as an argument, or move what both need to a lower floor",
                    source.path
                ));
            }
        }
    }
    all_good(&broken);
}

#[test]
fn the_ground_floor_is_bytes_values_and_now() {
    let mut broken = Vec::new();
    for source in sources("src").iter().filter(|s| height(s.module()) == Some(0) && !s.is_test()) {
        let code = source.code();
        for (word, what) in NOT_ON_THE_GROUND.iter().filter(|(word, _)| names(&code, word)) {
            broken.push(format!(
                "{} names `{word}`, which {what}: take bytes, values or `now` as arguments and return what should be done",
                source.path
            ));
        }
    }
    all_good(&broken);
}

#[test]
fn libraries_stay_behind_their_doors() {
    let mut broken = Vec::new();
    for source in sources("src").iter().filter(|source| !source.is_test()) {
        let code = source.code();
        for (word, doors, instead) in DOORS {
            if names(&code, word) && !doors.iter().any(|door| source.path.starts_with(door)) {
                broken.push(format!(
                    "{} names `{word}`, which only {} may: {instead}",
                    source.path,
                    doors.join(" and ")
                ));
            }
        }
    }
    all_good(&broken);
}

#[test]
fn every_file_opens_by_saying_who_it_talks_to_and_why_it_exists() {
    let broken: Vec<String> = [sources("src"), sources("tests")]
        .iter()
        .flatten()
        .filter(|source| !source.text.starts_with("//! ") || source.text.lines().next().is_some_and(|l| l.len() < 20))
        .map(|s| {
            format!("{} does not open with a module doc: begin with `//!` and a sentence on what it is for", s.path)
        })
        .collect();
    all_good(&broken);
}

#[test]
fn files_stay_short_and_are_named_for_what_is_in_them() {
    let mut broken = Vec::new();
    for source in sources("src") {
        let lines = source.text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default().lines().count();
        if lines > LINES_MAX && !source.is_test() {
            let path = &source.path;
            broken.push(format!(
                "{path} has {lines} lines without its tests: move its second subject, or its pure half, to a file"
            ));
        }
        let name = source.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
        if name == "mod" {
            broken.push(format!("{} hides its name: move it to `foo.rs` beside the folder `foo/`", source.path));
        }
        if EMPTY_NAMES.contains(&name) {
            broken.push(format!("{} is a drawer: name it for the one thing that it does, or split it", source.path));
        }
    }
    all_good(&broken);
}

#[test]
fn tests_neither_sleep_a_thread_nor_are_skipped() {
    // Put together, so that this file does not find itself.
    let sleep = ["thread", "sleep("].join("::");
    let skip = ["#[", "ignore"].concat();
    let mut broken = Vec::new();
    for source in [sources("src"), sources("tests")].iter().flatten() {
        if source.text.contains(&sleep) {
            broken.push(format!("{} sleeps: wait for what should happen, or pause tokio's clock", source.path));
        }
        // The one good reason: it is the body of a process that other tests start.
        let is_skipped = |line: &str| line.contains(&skip) && !line.contains("other tests start");
        if source.text.lines().any(is_skipped) {
            broken.push(format!("{} skips a test: fix it or delete it, a skipped test protects nothing", source.path));
        }
    }
    all_good(&broken);
}

#[test]
fn every_dependency_says_why_it_is_there() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let mut broken = Vec::new();
    let (mut section, mut is_explained) = ("", false);
    for line in manifest.lines() {
        if let Some(head) = line.strip_prefix('[') {
            section = head.trim_end_matches(']');
        }
        if section.ends_with("dependencies") && line.contains(" = ") && !line.starts_with('#') && !is_explained {
            let name = line.split(' ').next().unwrap_or_default();
            broken
                .push(format!("Cargo.toml takes `{name}` without a reason: say above it what would be worse without"));
        }
        // A comment explains the lines below it, up to an empty one.
        is_explained = !line.trim().is_empty() && (is_explained || line.starts_with('#'));
    }
    all_good(&broken);
}

#[test]
fn the_reader_of_sources_sees_what_it_should() {
    assert_eq!(code_of(r#"let a = "tokio // \" no"; // axum"#), r#"let a = ""; "#);
    assert_eq!(code_of(r#"if c == '"' { axum() }"#), "if c == ' { axum() }");
    assert!(names("use tokio::net", "tokio") && !names("use tokio_util::x", "tokio") && !names("branding", "rand"));
    let code = "use crate::{app::run, config::{a, b}, name};\nuse super::admin;\nfn f(x: crate::cli::X) {}";
    assert_eq!(reached(code, 1), ["admin", "app", "cli", "config", "name"]);
    assert_eq!(reached("use super::super::gateway; use super::beside;", 2), ["gateway"]);
}
