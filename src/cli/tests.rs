//! Command lines as a table, and the rules that clap can check of itself.

use clap::CommandFactory;

use super::*;

fn parse(line: &str) -> Result<Arguments, clap::Error> {
    Arguments::try_parse_from(std::iter::once("manifold").chain(line.split_whitespace()))
}

#[test]
fn the_definition_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn without_a_command_it_serves() {
    for line in ["", "--config a.yaml", "--listen 127.0.0.1:0 --admin-listen [::1]:0 --log-level debug"] {
        let arguments = parse(line).unwrap();
        assert!(arguments.command.is_none(), "{line}");
    }
    let arguments = parse("--config a.yaml --insecure-no-auth").unwrap();
    assert_eq!(arguments.serve.config.config.as_deref(), Some(std::path::Path::new("a.yaml")));
    assert!(arguments.serve.insecure_no_auth);
}

#[test]
fn every_command_is_understood() {
    for (line, want) in [
        ("serve --listen 127.0.0.1:0 --log-format json", "Serve"),
        ("check", "Check"),
        ("check manifold.toml", "Check"),
        ("demo-server --name files", "DemoServer"),
        ("stdio --config a.json", "Stdio"),
        ("tools --json", "Tools"),
        ("resources --url http://127.0.0.1:1/mcp", "Resources"),
        ("prompts --timeout 5s", "Prompts"),
        ("status --admin-url http://127.0.0.1:1 --json", "Status"),
        (r#"call files__read --json {"path":"/a"} --raw"#, "Call"),
        ("call files__read --json -", "Call"),
    ] {
        let command = parse(line).unwrap().command.unwrap();
        assert!(format!("{command:?}").starts_with(want), "{line}: {command:?}");
    }
}

#[test]
fn a_wrong_line_is_a_usage_error_with_the_documented_code() {
    for line in [
        "serv",
        "--listen nowhere",
        "serve --listen 8080",
        "call",
        "tools --timeout soon",
        "--config a.yaml check",
        "serve --log-format xml",
    ] {
        assert_eq!(parse(line).unwrap_err().exit_code(), i32::from(Exit::Usage as u8), "{line}");
    }
    for line in ["--help", "--version", "call --help"] {
        assert_eq!(parse(line).unwrap_err().exit_code(), i32::from(Exit::Ok as u8), "{line}");
    }
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let failure = Failure::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
    assert_eq!((failure.exit, failure.message.as_str()), (Exit::Ok, ""));
    assert_eq!(Failure::from(std::io::Error::other("disk full")).exit, Exit::Failed);
}
