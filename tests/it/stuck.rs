//! A newcomer who is stuck reads what is the matter and what to do: nothing listed, no configuration, a wrong address, a
//! browser at the endpoint.

use http::{HeaderMap, Method};

use crate::support::client::{Client, Reply, get};
use crate::support::program::{Serving, run, run_in};

const OK: i32 = 0;
const PROBLEM: i32 = 1;
const USAGE: i32 = 2;
const FAILED: i32 = 4;

/// One server that never comes up.
const GONE: &str =
    "restart: { backoffMin: 1h, backoffMax: 1h }\nmcpServers:\n  gone: { command: /nonexistent/program }\n";

#[tokio::test]
async fn an_empty_list_says_which_server_is_missing_and_is_bad_news() {
    let serving = Serving::start(Some(GONE), &[], &[]).await;
    let (url, admin) = (serving.url(), serving.admin(""));
    for command in ["tools", "resources", "prompts"] {
        let listed = run(&[command, "--url", &url, "--admin-url", &admin]).await;
        assert_eq!((listed.code, listed.stdout.lines().count()), (PROBLEM, 1), "{}", listed.stdout);
        let said = "manifold: server \"gone\" is not available (backing off): 1 attempt failed; next attempt in ";
        assert!(listed.stderr.starts_with(said) && listed.stderr.contains("No such file"), "{}", listed.stderr);
        assert_eq!(listed.stderr.lines().count(), 1, "{}", listed.stderr);
    }
    let json = run(&["tools", "--json", "--url", &url, "--admin-url", &admin]).await;
    assert_eq!((json.code, json.stdout.as_str()), (PROBLEM, "[]\n"));
    // Nobody told where the reason is to be had: it is not guessed at another gateway.
    let blind = run(&["tools", "--url", &url]).await;
    assert_eq!(blind.code, OK, "{}", blind.stderr);
    assert!(blind.stderr.starts_with("manifold: nothing is listed; `manifold status`"), "{}", blind.stderr);
    assert!(blind.stderr.contains("--admin-url"), "{}", blind.stderr);
    serving.terminate().await;
}

#[tokio::test]
async fn a_list_with_something_in_it_is_good_news_and_says_what_is_missing() {
    let demo = format!("{:?}", env!("CARGO_BIN_EXE_manifold"));
    let config = format!("{GONE}  demo: {{ command: {demo}, args: [demo-server] }}\n");
    let serving = Serving::start(Some(&config), &[], &[]).await;
    let (url, admin) = (serving.url(), serving.admin(""));
    let listed = run(&["tools", "--url", &url, "--admin-url", &admin]).await;
    assert!(listed.code == OK && listed.stdout.contains("demo__add"), "{}", listed.stdout);
    assert!(listed.stderr.starts_with("manifold: server \"gone\" is not available"), "{}", listed.stderr);
    let alone = run(&["tools", "--url", &format!("{url}/demo"), "--admin-url", &admin]).await;
    assert_eq!((alone.code, alone.stderr.as_str()), (OK, ""), "the other server is none of its business");
    serving.terminate().await;
}

#[tokio::test]
async fn an_empty_list_of_healthy_servers_is_no_bad_news() {
    let serving = Serving::start(Some("mcpServers: {}\n"), &[], &[]).await;
    let listed = run(&["tools", "--url", &serving.url(), "--admin-url", &serving.admin("")]).await;
    assert_eq!((listed.code, listed.stderr.as_str()), (OK, "manifold: nothing is listed: no server offers any\n"));
    serving.terminate().await;
}

#[tokio::test]
async fn stdio_without_a_configuration_says_what_it_serves_beside_the_protocol() {
    let directory = tempfile::tempdir().unwrap();
    let ended = run_in(directory.path(), &["stdio"], "").await;
    assert_eq!((ended.code, ended.stdout.as_str()), (OK, ""), "{}", ended.stderr);
    let said = "no configuration found: serving the built-in demo servers";
    assert_eq!(ended.stderr.matches(said).count(), 1, "{}", ended.stderr);
}

#[tokio::test]
async fn localhost_is_an_address_too_and_what_is_none_is_explained() {
    let ended = run(&["serve", "--listen", "localhost"]).await;
    assert_eq!(ended.code, USAGE);
    assert!(ended.stderr.contains("such as 127.0.0.1:8080"), "{}", ended.stderr);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let ended = run(&["serve", "--listen", &format!("localhost:{}", address.port())]).await;
    assert_eq!(ended.code, FAILED, "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("cannot listen on {address} (listen)")), "{}", ended.stderr);
}

async fn browse(url: &str, host: Option<&str>) -> Reply {
    let mut headers = HeaderMap::new();
    headers.insert("accept", "text/html,application/xhtml+xml,*/*;q=0.8".parse().unwrap());
    if let Some(host) = host {
        headers.insert("host", host.parse().unwrap());
    }
    Client::modern(url).send(Method::GET, headers, "").await
}

#[tokio::test]
async fn a_browser_at_the_endpoint_reads_what_it_is() {
    let serving = Serving::start(None, &[], &[]).await;
    let url = serving.url();
    let (status, text) = get(&url).await;
    assert!(status == 400 && text.contains("Mcp-Session-Id"), "a program gets a message: {status} {text}");
    let root = url.strip_suffix("mcp").unwrap();
    for (url, host, status, first) in [
        (url.as_str(), None, 400, "This is an MCP endpoint"),
        (root, None, 404, "nothing is served here; the MCP endpoint is /mcp"),
        (&url, Some("evil.example.com"), 403, "this host name is not served here; use"),
    ] {
        let reply = browse(url, host).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.headers["content-type"].to_str().unwrap()[..10]),
            (status, "text/plain")
        );
        let text = reply.text().await;
        assert!(text.starts_with(first) && text.contains("This is an MCP endpoint"), "{text}");
        assert!(!text.contains("alpha"), "nothing of the configuration: {text}");
    }
    serving.terminate().await;
}
