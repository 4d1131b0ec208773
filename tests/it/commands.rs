//! The commands as a person types them: the real program, its output, its exit codes.

use serde_json::{Value, json};

use crate::support::client::{Client, get};
use crate::support::program::{Serving, run, run_in};

/// Exit codes, as `manifold --help` lists them.
const OK: i32 = 0;
const PROBLEM: i32 = 1;
const USAGE: i32 = 2;
const UNREACHABLE: i32 = 3;
const FAILED: i32 = 4;

/// Nobody listens there: the port is reserved.
const NOBODY: &str = "http://127.0.0.1:1/mcp";

#[tokio::test]
async fn without_a_configuration_it_serves_the_demo_and_says_so() {
    let serving = Serving::start(None, &[], &[]).await;
    let [title, endpoint, admin, config, servers] = {
        let lines: Vec<&str> =
            serving.said.lines().filter(|l| l.starts_with("  ") || l.starts_with("manifold")).collect();
        <[&str; 5]>::try_from(lines).expect("five start-up lines")
    };
    assert_eq!(title, format!("manifold {}", env!("CARGO_PKG_VERSION")));
    assert!(endpoint.starts_with("  endpoint  http://127.0.0.1:") && endpoint.ends_with("/mcp"), "{endpoint}");
    assert!(admin.starts_with("  admin     http://127.0.0.1:") && !admin.ends_with(":0/"), "{admin}");
    assert_eq!(config, "  config    none found: serving the built-in demo servers");
    assert_eq!(servers, "  servers   alpha, beta");
    assert_eq!(serving.said.matches("demo servers").count(), 1, "{}", serving.said);

    let tools = Client::modern(&serving.url()).result("tools/list", json!({})).await;
    let names: Vec<&str> = tools["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    for name in ["alpha__echo", "alpha__add", "beta__echo", "beta__add"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert_eq!(get(&serving.admin("/healthz")).await.1, "ok\n");
    let ended = serving.terminate().await;
    assert_eq!((ended.code, ended.stdout.as_str()), (OK, ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("shutting down"), "{}", ended.stderr);
}

#[tokio::test]
async fn lists_are_tables_for_people_and_json_for_programs() {
    let serving = Serving::start(None, &[], &[]).await;
    let url = serving.url();
    // The first list waits for servers that are still starting.
    let tools = run(&["tools", "--url", &url]).await;
    assert_eq!((tools.code, tools.stderr.as_str()), (OK, ""));
    let mut lines = tools.stdout.lines();
    assert_eq!(lines.next(), Some("NAME                ABOUT"));
    assert_eq!(lines.next(), Some("alpha__echo         Says what it is told."));
    assert_eq!(lines.count(), 13);

    let resources = run(&["resources", "--url", &url]).await;
    assert!(resources.stdout.starts_with("URI  "), "{}", resources.stdout);
    for uri in ["alpha+demo://greeting ", "beta+demo://greeting/{who} "] {
        assert!(resources.stdout.contains(uri), "{}", resources.stdout);
    }
    let prompts = run(&["prompts", "--url", &url]).await;
    assert_eq!(
        prompts.stdout,
        "NAME          ARGUMENTS  ABOUT\n\
         alpha__greet  who        Asks the model to greet somebody.\n\
         beta__greet   who        Asks the model to greet somebody.\n"
    );
    for command in ["tools", "resources", "prompts"] {
        let listed = run(&[command, "--json", "--url", &url]).await;
        let entries: Value = serde_json::from_str(&listed.stdout).expect("one JSON array");
        assert!(entries.as_array().is_some_and(|e| !e.is_empty() && e[0]["name"].is_string()), "{entries}");
    }
    let alone = run(&["tools", "--url", &format!("{url}/beta")]).await;
    assert!(alone.stdout.contains("\necho ") && !alone.stdout.contains("__"), "{}", alone.stdout);
    serving.terminate().await;
}

#[tokio::test]
async fn a_call_prints_the_text_of_its_result() {
    let serving = Serving::start(None, &[], &[]).await;
    let url = serving.url();
    for (arguments, code, stdout) in [
        (&["call", "alpha__add", "--json", r#"{"a": 2, "b": 3}"#] as &[&str], OK, "5\n"),
        (&["call", "beta__echo", "--json", r#"{"message": "ü\n日本"}"#], OK, "ü\n日本\n"),
        (&["call", "alpha__echo"], PROBLEM, "message must be a string\n"),
        (&["call", "alpha__countdown", "--json", r#"{"from": 1}"#], OK, "Lift-off!\n"),
    ] {
        let called = run(&[arguments, &["--url", &url]].concat()).await;
        assert_eq!((called.code, called.stdout.as_str()), (code, stdout), "{arguments:?}: {}", called.stderr);
    }
    let raw = run(&["call", "alpha__add", "--json", r#"{"a":2,"b":3}"#, "--raw", "--url", &url]).await;
    let result: Value = serde_json::from_str(&raw.stdout).unwrap();
    assert_eq!(result["structuredContent"], json!({"sum": 5}));

    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("arguments.json"), r#"{"message": "from a file"}"#).unwrap();
    for (from, input, said) in
        [("@arguments.json", "", "from a file\n"), ("-", r#"{"message": "from a pipe"}"#, "from a pipe\n")]
    {
        let called = run_in(directory.path(), &["call", "alpha__echo", "--json", from, "--url", &url], input).await;
        assert_eq!((called.code, called.stdout.as_str()), (OK, said), "{}", called.stderr);
    }
    serving.terminate().await;
}

#[tokio::test]
async fn a_call_that_goes_wrong_says_what_to_do() {
    let serving = Serving::start(None, &[], &[]).await;
    let url = serving.url();
    for (arguments, code, said) in [
        (&["call", "alpha__nothing"] as &[&str], PROBLEM, "unknown tool: alpha__nothing; `manifold tools` lists"),
        (&["call", "alpha__ecko"], PROBLEM, "unknown tool: alpha__ecko; did you mean alpha__echo?"),
        (&["call", "add"], PROBLEM, "unknown tool: add; did you mean alpha__add or beta__add?"),
        (&["call", "alpha__ask", "--json", r#"{"question": "why?"}"#], PROBLEM, "alpha__ask wants to ask its user"),
        (&["call", "alpha__add", "--json", "[1]"], USAGE, "the arguments are not one JSON object"),
        (&["call", "alpha__add", "--json", "@nowhere.json"], USAGE, "cannot read the arguments from nowhere.json"),
    ] {
        let called = run(&[arguments, &["--url", &url]].concat()).await;
        assert_eq!((called.code, called.stdout.as_str()), (code, ""), "{arguments:?}: {}", called.stderr);
        assert!(called.stderr.starts_with("manifold: ") && called.stderr.contains(said), "{}", called.stderr);
        assert_eq!(called.stderr.lines().count(), 1, "{}", called.stderr);
    }
    serving.terminate().await;
}

#[tokio::test]
async fn status_is_bad_news_when_a_server_is_down() {
    let config =
        "restart: { backoffMin: 1h, backoffMax: 1h }\nmcpServers:\n  gone: { command: /nonexistent/program }\n";
    let (good, bad) = (Serving::start(None, &[], &[]).await, Serving::start(Some(config), &[], &[]).await);
    // Both wait for servers that start, so the table has settled after a list.
    for serving in [&good, &bad] {
        run(&["tools", "--url", &serving.url()]).await;
    }
    let well = run(&["status", "--admin-url", &good.admin("")]).await;
    assert_eq!(
        (well.code, well.stdout.as_str()),
        (
            OK,
            "SERVER  STATE  SPEAKS      TOOLS  RESOURCES  PROMPTS  RESTARTS  NOTE\n\
             alpha   ready  2026-07-28  7      2          1        0\n\
             beta    ready  2026-07-28  7      2          1        0\n"
        ),
        "{}",
        well.stderr
    );
    let ill = run(&["status", "--admin-url", &bad.admin("")]).await;
    assert_eq!(ill.code, PROBLEM);
    let line = ill.stdout.lines().nth(1).unwrap();
    assert!(line.starts_with("gone    backing off  -") && line.contains("No such file"), "{line}");
    assert!(line.contains("next attempt in "), "{line}");
    let json = run(&["status", "--json", "--admin-url", &bad.admin("")]).await;
    let servers: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((json.code, &servers["servers"][0]["state"]), (PROBLEM, &json!("backing_off")));
    good.terminate().await;
    bad.terminate().await;
}

#[tokio::test]
async fn without_a_gateway_commands_say_where_they_looked() {
    for arguments in [
        &["tools", "--url", NOBODY] as &[&str],
        &["resources", "--url", NOBODY],
        &["prompts", "--url", NOBODY],
        &["call", "a", "--url", NOBODY],
        &["status", "--admin-url", "http://127.0.0.1:1"],
    ] {
        let ended = run(arguments).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (UNREACHABLE, ""), "{arguments:?}: {}", ended.stderr);
        let said = "manifold: cannot reach http://127.0.0.1:1/";
        assert!(ended.stderr.starts_with(said) && ended.stderr.contains("is the gateway running"), "{}", ended.stderr);
    }
    let serving = Serving::start(None, &[], &[]).await;
    for arguments in [&["tools", "--url", &serving.admin("/")] as &[&str], &["status", "--admin-url", &serving.url()]] {
        let ended = run(arguments).await;
        assert_eq!(ended.code, UNREACHABLE, "{}", ended.stderr);
        assert!(ended.stderr.contains("does not answer like an"), "{}", ended.stderr);
    }
    serving.terminate().await;
}

#[tokio::test]
async fn a_wrong_command_line_ends_with_two_and_a_suggestion() {
    for (arguments, said) in [
        (&["serve", "--lisen", "127.0.0.1:0"] as &[&str], "--listen"),
        (&["tool"], "tools"),
        (&["tools", "--url", "nonsense"], "is not an http:// or https:// URL"),
        (&["call"], "<NAME>"),
        (&["serve", "--log-format", "xml"], "possible values: text, json"),
        (&["serve", "--log-level", "loud"], "write a level"),
    ] {
        let ended = run(arguments).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (USAGE, ""), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{arguments:?}: {}", ended.stderr);
    }
    let help = run(&["--help"]).await;
    assert_eq!(help.code, OK);
    for command in ["serve", "check", "stdio", "tools", "resources", "prompts", "status", "call", "Exit codes"] {
        assert!(help.stdout.contains(command), "{}", help.stdout);
    }
    assert_eq!(run(&["--version"]).await.stdout, concat!("manifold ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[tokio::test]
async fn beyond_loopback_without_authentication_it_does_not_start() {
    for (arguments, key) in [
        (["serve", "--listen", "0.0.0.0:0", "--admin-listen", "127.0.0.1:0"], "listen is 0.0.0.0:0"),
        (["serve", "--listen", "127.0.0.1:0", "--admin-listen", "[::]:0"], "admin.listen is [::]:0"),
    ] {
        let ended = run(&arguments).await;
        assert_eq!(ended.code, FAILED, "{}", ended.stderr);
        let said = ended.stderr.lines().last().unwrap();
        assert!(said.starts_with(&format!("manifold: {key}")) && said.contains("--insecure-no-auth"), "{said}");
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_named_with_its_setting() {
    let serving = Serving::start(None, &[], &[]).await;
    let url = serving.url();
    let taken = url.trim_start_matches("http://").trim_end_matches("/mcp");
    let ended = run(&["serve", "--listen", taken, "--admin-listen", "127.0.0.1:0"]).await;
    assert_eq!(ended.code, FAILED);
    let said = ended.stderr.lines().last().unwrap();
    assert!(said.contains(&format!("cannot listen on {taken} (listen): ")) && said.contains("port 0"), "{said}");
    serving.terminate().await;
}

#[tokio::test]
async fn check_reports_every_problem_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let check = async |name: &str, text: &str| {
        std::fs::write(directory.path().join(name), text).unwrap();
        run_in(directory.path(), &["check", name], "").await
    };
    let good =
        check("good.yaml", "mcpServers:\n  files: { command: sh }\n  web: { url: https://example.com/mcp }\n").await;
    assert_eq!((good.code, good.stdout.as_str(), good.stderr.as_str()), (OK, "good.yaml: good, 2 servers\n", ""));
    let bad = check(
        "bad.yaml",
        "timeout: 5s\nmcpServers:\n  files:\n    comand: npx\n    env: { TOKEN: \"${NOT_SET_ANYWHERE}\" }\n  both: { command: x, url: https://a }\n",
    )
    .await;
    assert_eq!((bad.code, bad.stdout.as_str()), (PROBLEM, ""));
    for said in [
        "error[timeout]: unknown key `timeout`\n  --> bad.yaml:1:1\n  help: did you mean `timeouts`?\n",
        "error[mcpServers.files.comand]: unknown key `comand`\n  --> bad.yaml:4:5\n  help: did you mean `command`?\n",
        "the environment variable NOT_SET_ANYWHERE is not set\n  --> bad.yaml:5:19\n",
        "error[mcpServers.both]: a server has either `command` or `url`, not both\n  --> bad.yaml:6:3\n",
        "4 errors, 0 warnings\n",
    ] {
        assert!(bad.stderr.contains(said), "{said} is not in\n{}", bad.stderr);
    }
    for (name, text, said) in [
        ("host.json", r#"{"mcpServers": {"a": {"command": "x" "args": []}}}"#, "host.json:1:37"),
        ("bad.toml", "listen = \n", "bad.toml:1:"),
        ("bad.yml", "a: [\n", "bad.yml:"),
    ] {
        let ended = check(name, text).await;
        assert_eq!(ended.code, PROBLEM, "{name}");
        assert!(ended.stderr.contains("error: not valid ") && ended.stderr.contains(said), "{}", ended.stderr);
    }
    let gone = run(&["check", "nowhere.yaml"]).await;
    assert_eq!(gone.code, PROBLEM);
    assert!(
        gone.stderr.contains("--> nowhere.yaml") && gone.stderr.contains("cannot read the file"),
        "{}",
        gone.stderr
    );
    let nothing = run(&["check"]).await;
    assert_eq!(nothing.code, PROBLEM);
    assert!(nothing.stderr.contains("there is no configuration to check"), "{}", nothing.stderr);
}

#[tokio::test]
async fn check_tells_of_an_address_with_which_serve_would_not_start() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("open.yaml"), "listen: 0.0.0.0:0\nmcpServers: {}\n").unwrap();
    let ended = run_in(directory.path(), &["check", "open.yaml"], "").await;
    assert_eq!(ended.code, OK, "a flag may permit it: {}", ended.stderr);
    assert!(
        ended.stderr.contains("listen is 0.0.0.0:0") && ended.stderr.contains("--insecure-no-auth"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn a_configuration_with_errors_is_not_served() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("manifold.yaml"), "lisen: 127.0.0.1:0\n").unwrap();
    let ended = run_in(directory.path(), &["serve"], "").await;
    assert_eq!((ended.code, ended.stdout.as_str()), (PROBLEM, ""));
    assert!(ended.stderr.contains("did you mean `listen`?"), "{}", ended.stderr);
    assert!(ended.stderr.ends_with("manifold: not started: the configuration has errors\n"), "{}", ended.stderr);
}

#[tokio::test]
async fn the_demo_server_answers_line_by_line_and_ends_with_its_input() {
    let directory = tempfile::tempdir().unwrap();
    let input = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":{"a":2,"b":3}}}"#,
        "\n",
    );
    let ended = run_in(directory.path(), &["demo-server", "--name", "mine"], input).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (OK, ""));
    let said: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((said.len(), &said[0]["result"]["serverInfo"]["name"]), (2, &json!("mine")));
    assert_eq!(said[1]["result"]["content"][0]["text"], "5");
}
