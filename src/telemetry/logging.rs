//! Log lines: their format, their filter, and the one place that installs them (docs/LOGGING.md).
//!
//! `cli` calls [`init`] once the configuration is read; every other module only uses `tracing`'s macros. Lines go to
//! standard error, because standard output belongs to the protocol when the gateway is spoken to over stdio.

use std::io::{self, IsTerminal};

use tracing::Subscriber;
use tracing_subscriber::filter::{Directive, EnvFilter, LevelFilter};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;

/// How lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people: one line, fields as `name=value`, colours on a terminal.
    #[default]
    Text,
    /// For collectors: one JSON object a line, the event's fields at its top level.
    Json,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is not a level or a list of `target=level`.
    #[error(
        "log level {filter:?} is not understood: {reason}; write a level (error, warn, info, debug, trace, off) or a list like \"info,mcp_manifold::upstream=debug\""
    )]
    Filter {
        /// What was asked for.
        filter: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A second call; the first one's set-up stays.
    #[error("logging is already set up in this process")]
    AlreadySet,
}

/// Installs the log for the whole process, on standard error. `filter` is a level or a list of `target=level`.
///
/// # Errors
/// [`LogError::Filter`] for a filter that cannot be read; [`LogError::AlreadySet`] when something installed a log
/// before, which then stays. Never panics.
pub fn init(format: Format, filter: &str) -> Result<(), LogError> {
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let subscriber = subscriber(format, filter, colours, io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::AlreadySet)
}

fn subscriber<W>(
    format: Format,
    filter: &str,
    colours: bool,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let registry = tracing_subscriber::registry().with(parse_filter(filter)?);
    // A line that cannot be written is lost: reporting that on the same broken stream would panic.
    let layer = fmt::layer().with_writer(writer).with_ansi(colours).log_internal_errors(false);
    Ok(match format {
        Format::Text => Box::new(registry.with(layer)),
        Format::Json => Box::new(registry.with(layer.json().flatten_event(true).with_span_list(false))),
    })
}

/// Reads a filter strictly: a directive that is not understood is an error, never silently left out.
fn parse_filter(filter: &str) -> Result<EnvFilter, LogError> {
    let bad = |reason: String| LogError::Filter { filter: filter.to_owned(), reason };
    let directives: Vec<&str> = filter.split(',').map(str::trim).filter(|d| !d.is_empty()).collect();
    if directives.is_empty() {
        return Err(bad("it is empty".to_owned()));
    }
    for directive in &directives {
        directive.parse::<Directive>().map_err(|e| bad(e.to_string()))?;
        // A bare word that is no level would be read as a target, and everything else would fall silent.
        let is_word = directive.bytes().all(|b| b.is_ascii_alphanumeric());
        if is_word && directive.parse::<LevelFilter>().is_err() {
            return Err(bad(format!("{directive:?} is no level")));
        }
    }
    EnvFilter::builder().parse(directives.join(",")).map_err(|e| bad(e.to_string()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines(format: Format, filter: &str, log: impl FnOnce()) -> String {
        let page = Page::default();
        let writer = page.clone();
        let subscriber = subscriber(format, filter, false, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn filters_are_read_strictly() {
        for (filter, good) in [
            ("info", true),
            ("WARN", true),
            ("off", true),
            ("info,mcp_manifold::upstream=debug", true),
            ("info, hyper=warn", true),
            ("", false),
            (",", false),
            ("verbose", false),
            ("info,manifold=loud", false),
        ] {
            assert_eq!(parse_filter(filter).is_ok(), good, "{filter:?}");
        }
    }

    #[test]
    fn a_bad_filter_says_what_to_write() {
        let text = parse_filter("verbose").unwrap_err().to_string();
        assert!(text.contains("\"verbose\"") && text.contains("info,mcp_manifold::upstream=debug"), "{text}");
    }

    #[test]
    fn a_text_line_has_the_message_and_its_fields() {
        let text = lines(Format::Text, "info", || {
            tracing::info!(server = "files", "upstream ready");
            tracing::debug!("not wanted");
        });
        assert!(
            text.contains("INFO") && text.contains("upstream ready") && text.contains("server=\"files\""),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn a_json_line_is_one_object_with_the_fields_at_the_top_and_the_span_beside() {
        let text = lines(Format::Json, "debug", || {
            let span = tracing::info_span!("upstream", server = "files");
            let _entered = span.enter();
            tracing::warn!(pid = 7, "line\nbreak");
        });
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["message"], "line\nbreak");
        assert_eq!(line["pid"], 7);
        assert_eq!(line["span"]["server"], "files");
    }

    #[test]
    fn setting_it_up_twice_is_an_error_and_no_panic() {
        let _ = init(Format::Text, "off");
        assert!(matches!(init(Format::Json, "info"), Err(LogError::AlreadySet)));
    }
}
