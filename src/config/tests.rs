//! Tests of whole files: the samples in `config/`, and the files that other hosts write.

use std::collections::HashMap;
use std::path::Path;

use super::*;

struct Env(HashMap<&'static str, &'static str>);

impl Lookup for Env {
    fn variable(&self, name: &str) -> Result<Option<String>, String> {
        Ok(self.0.get(name).map(|value| (*value).to_owned()))
    }

    fn file(&self, _path: &Path) -> Result<String, String> {
        Err("no files here".to_owned())
    }
}

fn load_text(file: &str, text: &str, env: &[(&'static str, &'static str)]) -> Result<Loaded, Vec<Problem>> {
    let variables = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    parse(Path::new(file), text.as_bytes(), variables, &Env(env.iter().copied().collect()))
}

#[track_caller]
fn loaded(file: &str, text: &str, env: &[(&'static str, &'static str)]) -> Loaded {
    load_text(file, text, env).unwrap_or_else(|problems| panic!("{file}:\n{}", render(&problems, false)))
}

/// The problems as lines.
#[track_caller]
fn refused(file: &str, text: &str) -> Vec<String> {
    match load_text(file, text, &[]) {
        Ok(loaded) => panic!("{file} was accepted: {loaded:?}"),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_sample_loads_without_a_warning() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let loaded = loaded(&name, &sample(&name), &[]);
        assert_eq!(loaded.warnings, [], "{name}");
        assert!(!loaded.config.servers.is_empty(), "{name}");
        count += 1;
    }
    assert!(count >= 4, "samples are missing");
}

#[test]
fn the_reference_has_every_key_and_nothing_but_defaults() {
    let text = sample("manifold.yaml");
    let mut config = loaded("/etc/manifold/manifold.yaml", &text, &[]).config;
    let servers = std::mem::take(&mut config.servers);
    assert_eq!(config, Config::default());

    let mut expected = ServerConfig::new("files", servers[0].transport.clone());
    expected.disabled = true;
    expected.title = Some(Text::plain("Files"));
    expected.roots = vec![Root { uri: Text::plain("file:///data"), name: Some(Text::plain("Data")) }];
    expected.timeouts.probe = settings::PROBE_STDIO;
    expected.timeouts.initialize = settings::INITIALIZE_RUNNER;
    assert_eq!(servers[0], expected);
    // These two depend on the server, so the file only tells of them.
    let Timeouts { probe, initialize, .. } = config.timeouts;
    for said in [
        format!("# probe: {}s          # unless written, {}s for", probe.as_secs(), settings::PROBE_STDIO.as_secs()),
        format!(
            "# initialize: {}s     # unless written, {}s for",
            initialize.as_secs(),
            settings::INITIALIZE_RUNNER.as_secs()
        ),
    ] {
        assert!(text.contains(&said), "config/manifold.yaml does not say `{said}`");
    }

    let defaults =
        tree::Node::new(tree::Value::Map(section::Section::layer(&Config::default())), tree::Origin::Default);
    let mut keys = draft::server_keys();
    collect(&defaults, &mut keys);
    let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != ':').collect();
    for key in keys {
        assert!(words.contains(&format!("{key}:").as_str()), "config/manifold.yaml does not mention `{key}`");
    }
}

fn collect<'n>(node: &'n tree::Node, keys: &mut Vec<&'n str>) {
    for entry in node.entries() {
        keys.push(&entry.key);
        collect(&entry.node, keys);
    }
}

#[test]
fn a_file_of_every_host_loads_as_it_is() {
    for (host, file, text, warned) in HOSTS {
        let loaded = loaded(file, text, &[("API_KEY", "k"), ("HOME", "/home/me")]);
        let names: Vec<&str> = loaded.config.servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["zeta", "alpha"], "{host}");
        let mut keys: Vec<&str> =
            loaded.warnings.iter().map(|warning| warning.path.rsplit('.').next().unwrap_or_default()).collect();
        keys.sort_unstable();
        assert_eq!(keys, *warned, "{host}: {:?}", loaded.warnings);
        assert!(loaded.warnings.iter().all(|warning| warning.place.is_some()), "{host}");
    }
}

/// Host, file name, content, and the keys that are warned about. Keys are out of order, to see the order kept.
const HOSTS: &[(&str, &str, &str, &[&str])] = &[
    (
        "Claude Desktop",
        "claude_desktop_config.json",
        r#"{
  "globalShortcut": "Alt+Space",
  "mcpServers": {
    "zeta": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"], "env": { "KEY": "v" } },
    "alpha": { "command": "uvx", "args": ["mcp-server-git", "--repository", "/src"] }
  }
}"#,
        &["globalShortcut"],
    ),
    (
        "Claude Code",
        ".mcp.json",
        r#"{ "mcpServers": {
    "zeta": { "type": "http", "url": "https://example.com/mcp", "headers": { "X-Key": "${API_KEY}" }, "timeout": 60000 },
    "alpha": { "type": "stdio", "command": "${HOME}/bin/server", "args": [], "env": {} } } }"#,
        &["timeout"],
    ),
    (
        "Cursor",
        "mcp.json",
        r#"{
  "mcpServers": {
    "zeta": { "command": "node", "args": ["${env:HOME}/s.js"], "envFile": "${workspaceFolder}/.env", "type": "stdio" },
    "alpha": { "url": "http://localhost:3000/mcp", "env": {}, "args": [], "headers": { "API_KEY": "${env:API_KEY}", "Accept": "application/json" } },
  }
}"#,
        &["Accept", "envFile"],
    ),
    (
        "VS Code",
        "mcp.json",
        r#"{
  // asked for on first start
  "inputs": [{ "type": "promptString", "id": "token", "description": "Token", "password": true }],
  "servers": {
    "zeta": { "type": "stdio", "command": "npx", "args": ["-y", "x"], "dev": { "watch": "src/**" }, "gallery": true },
    "alpha": { "type": "http", "url": "https://api.example.com/mcp/", "version": "0.1.0" }
  }
}"#,
        &["dev", "gallery", "inputs", "version"],
    ),
    (
        "Windsurf",
        "mcp_config.json",
        r#"{ "mcpServers": {
    "zeta": { "serverUrl": "https://example.com/mcp", "headers": { "Authorization": "Bearer ${env:API_KEY}" },
              "disabledTools": ["drop_table"] },
    "alpha": { "command": "npx", "args": ["-y", "x"], "disabled": true, "alwaysAllow": [] } } }"#,
        &["alwaysAllow", "disabledTools"],
    ),
    (
        "Cline",
        "cline_mcp_settings.json",
        r#"{ "mcpServers": {
    "zeta": { "command": "node", "args": ["s.js"], "autoApprove": ["a"], "timeout": 60, "transportType": "stdio" },
    "alpha": { "type": "streamableHttp", "url": "https://example.com/mcp", "disabled": false } } }"#,
        &["autoApprove", "timeout"],
    ),
    (
        "Gemini CLI",
        "settings.json",
        r#"{ "mcpServers": {
    "zeta": { "httpUrl": "https://example.com/mcp", "trust": true, "excludeTools": ["x"], "description": "d" },
    "alpha": { "command": "python", "args": ["-m", "s"], "cwd": "./server", "timeout": 15000 } } }"#,
        &["description", "excludeTools", "timeout", "trust"],
    ),
];

#[test]
fn an_editors_input_is_an_error_that_says_what_to_do() {
    let problems = refused(
        "mcp.json",
        "{\n \"servers\": {\n  \"gh\": { \"url\": \"https://e.com/\", \"headers\": { \"Authorization\": \"Bearer ${input:token}\" } } } }",
    );
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with("mcp.json:3:"), "{problems:?}");
    for part in ["servers.gh.headers.Authorization", "${TOKEN}", "environment variable"] {
        assert!(problems[0].contains(part), "{problems:?}");
    }
}

#[test]
fn nothing_secret_is_in_the_debug_output_of_a_configuration() {
    let text = r#"
mcpServers:
  a:
    command: "${SECRET}"
    args: ["--token", "literal-5ecret", "${SECRET}"]
    env: { TOKEN: literal-5ecret, OTHER: "${SECRET}" }
    cwd: "/${SECRET}"
    title: "${SECRET}"
    roots: [{ uri: "file:///${SECRET}", name: "${SECRET}" }]
  b:
    url: "https://u:literal-5ecret@example.com/mcp?key=literal-5ecret"
    headers: { Authorization: "Bearer literal-5ecret" }
    caFile: "/${SECRET}"
  c:
    type: sse
    url: "https://example.com/${SECRET}/sse"
"#;
    let loaded = loaded("m.yaml", text, &[("SECRET", "5ecret-value")]);
    let debug = format!("{loaded:#?}");
    assert!(!debug.contains("5ecret"), "{debug}");
    assert!(debug.contains("example.com"), "what is public stays readable: {debug}");
}

#[test]
fn nothing_secret_is_in_a_problem() {
    for value in [
        "timeouts: { call: '${SECRET}' }",
        "command: x\n    env: { A: ['${SECRET}'] }",
        "url: '${SECRET}'",
        "url: 'https://e.com'\n    headers: { A: \"${SECRET}\\n\" }",
        "url: 'https://e.com'\n    type: '${SECRET}'",
        "command: x\n    prefix: '${SECRET}!'",
        "command: x\n    disabled: '${SECRET}'",
    ] {
        let text = format!("mcpServers:\n  a:\n    {value}\n");
        let Err(problems) = load_text("m.yaml", &text, &[("SECRET", "5ecret")]) else { panic!("accepted: {text}") };
        assert!(!format!("{problems:?}{}", render(&problems, true)).contains("5ecret"), "{problems:?}");
    }
}

#[test]
fn the_demo_is_two_servers_inside_this_program() {
    let loaded = load(
        &Found::Demo,
        [("MANIFOLD_LISTEN".to_owned(), "127.0.0.1:0".to_owned())],
        &Env(HashMap::new()),
        Path::new("/bin/m"),
    )
    .unwrap_or_else(|problems| panic!("{problems:?}"));
    assert_eq!(loaded.source, None);
    assert_eq!(loaded.config.listen.port(), 0);
    assert_eq!(loaded.config.servers, Config::demo(Path::new("/bin/m")).servers);
    let TransportConfig::Stdio { command, args, .. } = &loaded.config.servers[1].transport else {
        panic!("not a process")
    };
    assert_eq!(command.expose(), "/bin/m");
    assert_eq!(args.iter().map(Secret::expose).collect::<Vec<_>>(), ["demo-server", "--name", "beta"]);
}

#[test]
fn a_listener_beyond_loopback_is_exposed() {
    for (listen, admin, want) in [
        ("127.0.0.1:1", "[::1]:2", None),
        ("127.8.0.1:1", "[::ffff:127.0.0.1]:2", None),
        ("0.0.0.0:1", "0.0.0.0:2", Some("listen")),
        ("127.0.0.1:1", "[::]:2", Some("admin.listen")),
        ("10.0.0.5:1", "127.0.0.1:2", Some("listen")),
    ] {
        let config = Config {
            listen: listen.parse().unwrap(),
            admin: Admin { listen: admin.parse().unwrap() },
            ..Config::default()
        };
        assert_eq!(config.is_exposed().map(|exposed| exposed.key), want, "{listen} {admin}");
    }
}
