//! The commands that are the gateway, or its configuration: `serve`, `stdio`, `check`, `demo-server`.
//!
//! They load what was asked for, let flags win, set up the log, and hand over to `app` or `demo`.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use super::output::complain;
use super::{CheckArgs, ConfigArgs, DemoArgs, Exit, Failure, LogArgs, ServeArgs, StateArgs, StdioArgs};
use crate::app;
use crate::config::{self, Config, Found, Loaded, LogFormat, Problem};
use crate::telemetry::logging::{self, Format};

/// `serve`: until a signal ends it.
pub(super) async fn serve(args: ServeArgs) -> Result<Exit, Failure> {
    let mut loaded = load(&args.config)?;
    let config = &mut loaded.config;
    config.listen = args.listen.unwrap_or(config.listen);
    config.admin.listen = args.admin_listen.unwrap_or(config.admin.listen);
    let format = begin(&loaded, &args.log)?;
    let options = app::Options { insecure_no_auth: args.insecure_no_auth, state: state_folder(args.state) };
    app::serve(loaded, options, |started| announce(started, format))
        .await
        .map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
    Ok(Exit::Ok)
}

/// `stdio`: until the input ends.
pub(super) async fn stdio(args: StdioArgs) -> Result<Exit, Failure> {
    let loaded = load(&args.config)?;
    begin(&loaded, &args.log)?;
    if loaded.source.is_none() {
        tracing::warn!("no configuration found: serving the built-in demo servers");
    }
    app::stdio(loaded, state_folder(args.state)).await.map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
    Ok(Exit::Ok)
}

/// The start-up lines; standard error, because the log is there too. Without one there is nobody to tell. Where the log is
/// read by a program it is a line like any other.
fn announce(started: &app::Started<'_>, format: Format) {
    match format {
        Format::Text => drop(io::stderr().write_all(started.to_string().as_bytes())),
        Format::Json => tracing::info!(
            endpoint = %format_args!("http://{}/mcp", started.mcp),
            admin = %format_args!("http://{}/", started.admin),
            config = started.source.map(|file| file.display().to_string()),
            servers = started.servers.join(", "),
            "serving"
        ),
    }
}

/// `check`: every problem at once.
pub(super) fn check(args: &CheckArgs) -> Result<Exit, Failure> {
    let found = find(args.file.as_deref());
    let Found::File(file) = &found else {
        complain(&format!(
            "there is no configuration to check: name one, or make one of {}",
            config::PLACES.join(", ")
        ));
        return Ok(Exit::Problem);
    };
    let (exit, problems, servers, exposed) = match config::load(&found, variables(), &config::System, &exe()?) {
        Ok(loaded) => (Exit::Ok, loaded.warnings, loaded.config.servers.len(), loaded.config.is_exposed()),
        Err(problems) => (Exit::Problem, problems, 0, None),
    };
    if !problems.is_empty() {
        show(&problems);
    }
    if exit == Exit::Ok {
        let servers = if servers == 1 { "1 server".to_owned() } else { format!("{servers} servers") };
        writeln!(io::stdout(), "{}: good, {servers}", file.display())?;
    }
    if let Some(config::Exposed { key, address }) = exposed {
        // A flag may permit it, and flags are not in the file: so this is no problem of the file.
        complain(&format!("serve will not start with it as it is: {}", app::StartError::Exposed { key, address }));
    }
    Ok(exit)
}

/// `demo-server`: until the input ends.
pub(super) async fn demo(args: DemoArgs) -> Result<Exit, Failure> {
    crate::demo::run(args.name, tokio::io::stdin(), tokio::io::stdout()).await?;
    Ok(Exit::Ok)
}

fn load(args: &ConfigArgs) -> Result<Loaded, Failure> {
    config::load(&find(args.config.as_deref()), variables(), &config::System, &exe()?).map_err(|problems| {
        show(&problems);
        Failure::new(Exit::Problem, "not started: the configuration has errors")
    })
}

/// Where what outlives a restart is kept, if there is such a place.
fn state_folder(args: StateArgs) -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // systemd names several with colons between; one of them is enough.
    let first = |all: PathBuf| all.to_str().and_then(|all| all.split(':').next()).map(PathBuf::from);
    args.state_dir
        .or_else(|| folder("STATE_DIRECTORY").and_then(first))
        .or_else(|| folder("XDG_STATE_HOME").map(|home| home.join("manifold")))
        .or_else(|| folder("HOME").map(|home| home.join(".local/state/manifold")))
}

fn find(named: Option<&Path>) -> Found {
    let variable = std::env::var("MANIFOLD_CONFIG").ok();
    config::find(named, variable.as_deref(), |path| path.exists())
}

/// The environment as far as it is text: a name or value that is none cannot be a setting of ours.
fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Our own program, which the demo starts again as its servers.
fn exe() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot find the path of this program: {error}")))
}

fn show(problems: &[Problem]) {
    let page = config::render(problems, io::stderr().is_terminal());
    let _ = io::stderr().write_all(page.as_bytes());
}

/// Sets up the log, then says what was loaded. Gives the form that the log has.
fn begin(loaded: &Loaded, args: &LogArgs) -> Result<Format, Failure> {
    let (format, filter) = log_settings(&loaded.config, args);
    logging::init(format, filter).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    if let Some(file) = &loaded.source {
        tracing::info!(file = %file.display(), "configuration loaded");
    }
    for warning in &loaded.warnings {
        tracing::warn!(%warning, "configuration");
    }
    Ok(format)
}

/// Flags win over the configuration.
fn log_settings<'a>(config: &'a Config, args: &'a LogArgs) -> (Format, &'a str) {
    let configured = match config.log.format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    };
    (args.log_format.map_or(configured, Format::from), args.log_level.as_deref().unwrap_or(&config.log.level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_configuration_of_the_log() {
        let mut config = Config::demo(Path::new("manifold"));
        config.log.format = LogFormat::Json;
        config.log.level = "warn".to_owned();
        let flags = LogArgs { log_format: Some(super::super::LogFormat::Text), log_level: Some("debug".to_owned()) };
        assert_eq!(log_settings(&config, &flags), (Format::Text, "debug"));
        assert_eq!(log_settings(&config, &LogArgs::default()), (Format::Json, "warn"));
    }
}
