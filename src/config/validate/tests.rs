//! Tests of the rules, each as a change to a configuration that is right.

use super::*;
use crate::config::{Root, Secret, SecretUrl, Text};

fn web(key: &str, url: &str) -> ServerConfig {
    let url = SecretUrl::new(Url::parse(url).unwrap(), false);
    ServerConfig::new(key, TransportConfig::Http { url, headers: Vec::new(), ca_file: None })
}

fn process(key: &str, command: &str, cwd: Option<&str>) -> ServerConfig {
    let (args, env) = (vec![Secret::new("x")], Vec::new());
    ServerConfig::new(
        key,
        TransportConfig::Stdio { command: Text::plain(command), args, env, cwd: cwd.map(Text::plain) },
    )
}

fn found(change: impl FnOnce(&mut Config)) -> Vec<String> {
    let mut config =
        Config { servers: vec![web("web", "https://e.com/mcp"), process("p", "npx", None)], ..Config::default() };
    change(&mut config);
    super::config(&config).iter().map(|finding| format!("{}: {}", finding.path.join("."), finding.message)).collect()
}

type Change = fn(&mut Config);

#[test]
fn each_rule_finds_what_breaks_it_and_nothing_else() {
    let cases: &[(Change, &str)] = &[
        (
            |c| (c.servers[0].required, c.servers[0].disabled) = (true, true),
            "mcpServers.web.required: a disabled server is not waited for",
        ),
        (|c| c.admin.listen = c.listen, "admin.listen: is the same address"),
        (|c| c.admin.listen = "0.0.0.0:8080".parse().unwrap(), "admin.listen: is the same address"),
        (|c| c.timeouts.call = Duration::ZERO, "timeouts.call: must be longer than zero"),
        (|c| c.timeouts.call = Duration::from_secs(3600), "timeouts.call: is more than `callMax`"),
        (|c| c.timeouts.call_max = Duration::MAX, "timeouts.callMax: is longer than a year"),
        (|c| c.servers[0].timeouts.list = Duration::ZERO, "mcpServers.web.timeouts.list: must be longer"),
        (|c| c.restart.backoff_min = Duration::from_secs(61), "restart.backoffMin: is more than `backoffMax`"),
        (|c| c.sessions.idle = Duration::from_secs(90_000), "sessions.idle: is more than `sessions.absolute`"),
        (|c| c.sessions.max = 0, "sessions.max: is out of range"),
        (|c| c.page_size = 0, "pageSize: is out of range"),
        (|c| c.name_limit = 15, "nameLimit: is out of range"),
        (|c| c.limits.body = 10, "limits.body: is out of range"),
        (|c| c.limits.headers = usize::MAX, "limits.headers: is out of range"),
        (|c| c.limits.batch = 0, "limits.batch: is out of range"),
        (|c| c.servers[1].limits.queue = 0, "mcpServers.p.limits.queue: is out of range"),
        (|c| c.servers[1].limits.concurrency = usize::MAX, "mcpServers.p.limits.concurrency: is out of range"),
        (|c| c.allowed_hosts = vec!["https://x".to_owned()], "allowedHosts: entry 0"),
        (|c| c.allowed_origins = vec!["x.com".to_owned()], "allowedOrigins: entry 0"),
        (|c| c.allowed_origins = vec!["https://x.com/a".to_owned()], "allowedOrigins: entry 0"),
        (
            |c| c.servers[1] = web("Web", "https://f.com"),
            "mcpServers.Web: servers \"web\" and \"Web\" would both be `web`",
        ),
        (|c| c.servers[1].prefix = "web".to_owned(), "mcpServers.p: servers \"web\" and \"p\" would both be `web`"),
        (|c| c.servers[1] = process("", "x", None), "mcpServers.: a server needs a name"),
        (|c| c.servers[0] = web("web", "ftp://e.com/"), "mcpServers.web.url: is neither"),
        (|c| c.servers[0] = web("web", "unix:/x"), "mcpServers.web.url: is neither"),
        (|c| c.servers[0] = web("web", "https://e.com/#a"), "mcpServers.web.url: has a `#fragment`"),
        (
            |c| c.servers[0] = web("web", "http://127.0.0.1:8080/mcp"),
            "mcpServers.web.url: is this gateway's own address (`listen`)",
        ),
        (
            |c| c.servers[0] = web("web", "http://localhost:9090/"),
            "mcpServers.web.url: is this gateway's own address (`admin.listen`)",
        ),
        (|c| c.servers[1] = process("p", " ", None), "mcpServers.p.command: is empty"),
        (|c| c.servers[1] = process("p", "npx -y x", None), "mcpServers.p.command: looks like a command line"),
        (|c| c.servers[1] = process("p", "/etc/m/~/x", None), "mcpServers.p.command: `~`"),
        (|c| c.servers[1] = process("p", "x", Some("~/x")), "mcpServers.p.cwd: `~`"),
        (
            |c| c.servers[1].roots = vec![Root { uri: Text::plain("http://x"), name: None }],
            "mcpServers.p.roots: a root is not",
        ),
    ];
    for (change, want) in cases {
        let got = found(change);
        assert!(got.len() == 1 && got[0].starts_with(want), "{want}: {got:?}");
    }
    assert_eq!(found(|_| {}), Vec::<String>::new());
}

#[test]
fn what_is_unusual_but_right_is_left_alone() {
    let cases: &[Change] = &[
        |c| c.startup_wait = Duration::ZERO,
        |c| c.stale_grace = Duration::ZERO,
        |c| {
            c.listen = "127.0.0.1:0".parse().unwrap();
            c.admin.listen = c.listen;
        },
        |c| c.servers.iter_mut().for_each(|server| server.prefix = String::new()),
        |c| c.servers[0] = web("web", "http://127.0.0.1:8081/mcp"),
        |c| c.servers[0] = web("web", "http://10.0.0.1:8080/mcp"),
        |c| c.allowed_hosts = vec!["gateway:8080".to_owned(), "[::1]".to_owned()],
        |c| c.allowed_origins = vec!["https://x.com:8443".to_owned(), "vscode-webview://abc".to_owned()],
        |c| c.servers[1] = process("p", "/Program Files/x", None),
        |c| c.servers.clear(),
    ];
    for (index, change) in cases.iter().enumerate() {
        assert_eq!(found(change), Vec::<String>::new(), "case {index}");
    }
}

#[test]
fn type_command_and_url_agree_or_say_why_not() {
    use Kind::{Http, Sse, Stdio};
    for (given, command, url, want) in [
        (None, true, false, Some(Stdio)),
        (None, false, true, Some(Http)),
        (Some(Sse), false, true, Some(Sse)),
        (Some(Http), false, true, Some(Http)),
        (Some(Stdio), true, false, Some(Stdio)),
        (Some(Stdio), false, true, None),
        (Some(Http), true, false, None),
        (Some(Sse), true, false, None),
        (None, true, true, None),
        (None, false, false, None),
        (Some(Stdio), false, false, None),
    ] {
        assert_eq!(kind(given, command, url).ok(), want, "{given:?} {command} {url}");
    }
}
