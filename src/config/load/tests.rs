//! Tests of a whole load: every problem with its place and a way out, and what the settings become.

use std::collections::HashMap;
use std::time::Duration;

use super::*;
use crate::config::{ProtocolPin, TransportConfig, UriMode, render};

struct Nothing;

impl Lookup for Nothing {
    fn variable(&self, _name: &str) -> Result<Option<String>, String> {
        Ok(None)
    }

    fn file(&self, _path: &Path) -> Result<String, String> {
        Err("no such file".to_owned())
    }
}

#[track_caller]
fn accept(text: &str, variables: &[(&str, &str)]) -> Loaded {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    parse(Path::new("/etc/m/m.yaml"), text.as_bytes(), variables, &Nothing)
        .unwrap_or_else(|problems| panic!("{}", render(&problems, false)))
}

#[track_caller]
fn refuse(text: &str) -> Vec<String> {
    let problems = parse(Path::new("m.yaml"), text.as_bytes(), [], &Nothing).err().unwrap_or_default();
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn every_problem_comes_at_once_with_its_place_and_a_way_out() {
    let text = "\
lisen: 127.0.0.1:1
timeouts: { cal: 5s, read: 5, list: 0s }
pageSize: many
log: { format: xml, level: loud }
limits: [1]
mcpServers:
  files: { comand: npx }
  git hub: { url: 'ftp://example.com/', headers: { 'a b': x, X: [1] } }
  both: { command: a, url: 'http://e.com' }
  none: {}
  odd: { command: npx, type: websocket, args: -y, prefix: 'a b' }
  word: npx
  env: { command: a, env: { T: '${TOKEN}' }, timeouts: { call: 2h } }
";
    let got = refuse(text);
    for want in [
        "m.yaml:1:1: lisen: unknown key `lisen` (did you mean `listen`?)",
        "m.yaml:2:13: timeouts.cal: unknown key `cal` (did you mean `call`?)",
        "m.yaml:2:28: timeouts.read: expected a duration such as `500ms`, `30s` or `5m`, found `5`",
        "m.yaml:2:37: timeouts.list: must be longer than zero",
        "m.yaml:3:11: pageSize: expected a whole number, found \"many\"",
        "m.yaml:4:16: log.format: expected one of `text`, `json`, found \"xml\"",
        "m.yaml:4:28: log.level: expected a level",
        "m.yaml:5:9: limits: expected a map with keys such as `body`",
        "m.yaml:7:12: mcpServers.files.comand: unknown key `comand` (did you mean `command`?)",
        "m.yaml:8:52: mcpServers.\"git hub\".headers.\"a b\": not a name for an HTTP header",
        "mcpServers.\"git hub\".headers.X: expected a text, found a list",
        "m.yaml:8:19: mcpServers.\"git hub\".url: is neither `http` nor `https`",
        "m.yaml:9:3: mcpServers.both: a server has either `command` or `url`, not both",
        "m.yaml:10:3: mcpServers.none: neither `command` nor `url`",
        "mcpServers.odd.type: expected one of `stdio`, `http`, `sse`, found \"websocket\"",
        "m.yaml:13:64: mcpServers.env.timeouts.call: is more than `callMax`",
        "mcpServers.odd.args: expected a list of texts, found a text",
        "mcpServers.odd.prefix: expected up to 32 letters",
        "m.yaml:12:9: mcpServers.word: expected a map with keys such as `type`",
        "m.yaml:13:32: mcpServers.env.env.T: the environment variable TOKEN is not set (set it, or give a default: `${TOKEN:-value}`)",
    ] {
        assert!(
            got.iter().any(|line| line.starts_with(want) || line.contains(want)),
            "no {want:?} in\n{}",
            got.join("\n")
        );
    }
    assert_eq!(got.len(), 20, "{}", got.join("\n"));
}

#[test]
fn variables_win_over_the_file_and_the_file_over_defaults() {
    let text = "timeouts: { call: 10s, read: 11s }\nallowedHosts: [a]\npageSize: 5\n";
    let loaded = accept(
        text,
        &[
            ("MANIFOLD_TIMEOUTS__CALL", "20s"),
            ("MANIFOLD_PAGE_SIZE", "7"),
            ("MANIFOLD_ALLOWED_HOSTS", "b, c:1"),
            ("MANIFOLD_ADMIN__LISTEN", "localhost:9"),
            ("MANIFOLD_LIMITS__MESSAGE", "1MiB"),
        ],
    );
    let config = loaded.config;
    assert_eq!(config.timeouts.call, Duration::from_secs(20));
    assert_eq!(config.timeouts.read, Duration::from_secs(11));
    assert_eq!(config.timeouts.list, Duration::from_secs(30));
    assert_eq!(config.page_size, 7);
    assert_eq!(config.allowed_hosts, ["b", "c:1"]);
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:9");
    assert_eq!(config.limits.upstream.message, 1 << 20);
}

#[test]
fn a_bad_variable_is_named() {
    let variables = [("MANIFOLD_TIMEOUTS__CALL".to_owned(), "soon".to_owned())];
    let problems = parse(Path::new("m.yaml"), b"mcpServers: {}", variables, &Nothing).err().unwrap_or_default();
    assert_eq!(problems.len(), 1);
    assert_eq!((problems[0].path.as_str(), &problems[0].place), ("timeouts.call", &None));
    assert!(problems[0].message.contains("MANIFOLD_TIMEOUTS__CALL"), "{problems:?}");
}

#[test]
fn a_servers_own_times_win_one_by_one() {
    let text = "
timeouts: { call: 10s, read: 11s }
limits: { queue: 7 }
restart: { backoffMax: 9s }
mcpServers:
  http: { url: 'https://e.com', timeouts: { call: 1s }, limits: { message: 1KiB }, restart: { backoffMin: 2s } }
  process: { command: server }
  runner: { command: /usr/bin/npx, timeouts: { probe: 1s } }
";
    let servers = accept(text, &[]).config.servers;
    let secs = Duration::from_secs;
    assert_eq!(
        (servers[0].timeouts.call, servers[0].timeouts.read, servers[0].timeouts.probe),
        (secs(1), secs(11), secs(10))
    );
    assert_eq!((servers[0].limits.message, servers[0].limits.queue), (1024, 7));
    assert_eq!((servers[0].restart.backoff_min, servers[0].restart.backoff_max), (secs(2), secs(9)));
    assert_eq!(
        (servers[1].timeouts.call, servers[1].timeouts.probe, servers[1].timeouts.initialize),
        (secs(10), secs(5), secs(30))
    );
    assert_eq!((servers[2].timeouts.probe, servers[2].timeouts.initialize), (secs(1), secs(60)));
    let servers = accept("timeouts: { probe: 9s }\nmcpServers: { p: { command: uvx } }", &[]).config.servers;
    assert_eq!((servers[0].timeouts.probe, servers[0].timeouts.initialize), (secs(9), secs(60)));
    let servers =
        accept("mcpServers: { p: { command: uvx } }", &[("MANIFOLD_TIMEOUTS__INITIALIZE", "3s")]).config.servers;
    assert_eq!(servers[0].timeouts.initialize, secs(3));
}

#[test]
fn a_server_is_what_was_written() {
    let text = r#"
mcpServers:
  Web: { type: streamable-http, url: "https://e.com/mcp", headers: { B: "$${x}", A: 5 }, caFile: ca.pem, prefix: "" }
  Old: { type: sse, url: "https://e.com/sse", protocol: legacy, uris: verbatim, required: true, instructions: false }
  Run: { command: ./bin/x, args: [-p, 8080, 1.10, true], env: { PORT: 80, D: on }, cwd: sub, enabled: false, title: T }
"#;
    let servers = accept(text, &[]).config.servers;
    let TransportConfig::Http { headers, ca_file, .. } = &servers[0].transport else { panic!("{servers:?}") };
    let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(headers, [("b", "${x}"), ("a", "5")]);
    assert_eq!(ca_file.as_ref().map(|path| path.expose()), Some("/etc/m/ca.pem"));
    assert_eq!((servers[0].prefix.as_str(), servers[0].path_name().as_str()), ("", "web"));
    assert!(matches!(servers[1].transport, TransportConfig::Sse { .. }));
    assert_eq!((servers[1].protocol, servers[1].uris), (ProtocolPin::Legacy, UriMode::Verbatim));
    assert!(servers[1].required && !servers[1].instructions && !servers[1].disabled);
    let TransportConfig::Stdio { command, args, env, cwd } = &servers[2].transport else { panic!("{servers:?}") };
    assert_eq!((command.expose(), cwd.as_ref().map(|path| path.expose())), ("/etc/m/./bin/x", Some("/etc/m/sub")));
    assert_eq!(args.iter().map(|arg| arg.expose()).collect::<Vec<_>>(), ["-p", "8080", "1.10", "true"]);
    assert_eq!(
        env.iter().map(|(name, value)| (name.as_str(), value.expose())).collect::<Vec<_>>(),
        [("PORT", "80"), ("D", "on")]
    );
    assert!(servers[2].disabled && servers[2].prefix == "run");
}

#[test]
fn the_two_names_of_the_map_may_stand_together_but_not_share_a_server() {
    let loaded = accept("servers: { a: { command: x } }\nmcpServers: { b: { command: y } }", &[]);
    assert_eq!(loaded.config.servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let got = refuse("servers: { a: { command: x } }\nmcpServers: { a: { command: y } }");
    assert!(got.iter().any(|line| line.starts_with("m.yaml:2:15: mcpServers.a: this server is in both")), "{got:?}");
    let got = refuse("servers: { a: { command: x }, A: { command: y } }");
    assert!(got.iter().any(|line| line.starts_with("m.yaml:1:34: servers.A: servers \"a\" and \"A\"")), "{got:?}");
}

#[test]
fn a_key_said_twice_in_other_words_is_an_error() {
    let got = refuse("mcpServers: { a: { url: 'https://e.com', serverUrl: 'https://f.com' } }");
    assert!(got.len() == 1 && got[0].contains("`serverUrl` says the same as `url`"), "{got:?}");
}

#[test]
fn a_disabled_server_may_lack_its_secrets() {
    let loaded =
        accept("mcpServers:\n  a: { command: x, env: { T: '${T}' }, disabled: true }\n  b: { command: y }", &[]);
    assert_eq!(loaded.config.servers.len(), 1);
    assert_eq!(loaded.warnings.len(), 1);
    assert!(loaded.warnings[0].message.contains("T is not set"), "{:?}", loaded.warnings);
}

#[test]
fn nothing_written_is_nothing_set() {
    let loaded = accept("listen:\ntimeouts:\nadmin: {}\nmcpServers:\nx-note: [\"anything ${IN} it\"]\n", &[]);
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.warnings, []);
}

#[test]
fn numbers_and_flags_may_come_from_variables() {
    struct Env(HashMap<&'static str, &'static str>);
    impl Lookup for Env {
        fn variable(&self, name: &str) -> Result<Option<String>, String> {
            Ok(self.0.get(name).map(|value| (*value).to_owned()))
        }
        fn file(&self, _path: &Path) -> Result<String, String> {
            Err(String::new())
        }
    }
    let text = "pageSize: '${N}'\nmcpServers: { a: { command: x, disabled: '${OFF}' } }";
    let env = Env(HashMap::from([("N", "12"), ("OFF", "TRUE")]));
    let loaded =
        parse(Path::new("m.yaml"), text.as_bytes(), [], &env).unwrap_or_else(|problems| panic!("{problems:?}"));
    assert_eq!(loaded.config.page_size, 12);
    assert!(loaded.config.servers[0].disabled);
    assert_eq!(refuse("pageSize: '12'").len(), 1, "a quoted number is a text");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let found = Found::File(PathBuf::from("/nonexistent/m.yaml"));
    let problems = load(&found, [], &Nothing, Path::new("m")).err().unwrap_or_default();
    assert!(
        problems.len() == 1 && problems[0].to_string().starts_with("/nonexistent/m.yaml: cannot read the file"),
        "{problems:?}"
    );
}
