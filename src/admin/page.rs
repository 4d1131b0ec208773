//! The page at `/`: one table of servers, for a person with a browser and a question.
//!
//! Plain HTML made on each request. Every text that comes from a server is escaped, and the policy header forbids
//! scripts altogether.

use std::fmt::{self, Display, Write as _};

use super::facts::{CatalogFacts, Readiness, ServerFacts};

/// Nothing is loaded, nothing runs, nobody frames it; only the style block below applies.
pub(super) const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Seconds between two loads of an open page: often enough to watch a restart, too seldom to be a load.
const REFRESH_SECONDS: u32 = 5;

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}\
table{border-collapse:collapse;width:100%}\
th,td{text-align:left;vertical-align:top;padding:.35rem .8rem .35rem 0;border-bottom:1px solid #8885}\
td.n,th.n{text-align:right}\
.ready{color:#18794e}.starting{color:#9a6700}.backing_off{color:#c62a2a}.stopped,.disabled{color:#888}\
small{color:#888}code{font-size:.95em}";

/// Text as HTML shows it, safe between tags and in quoted attributes.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            c => f.write_char(c),
        })
    }
}

/// The whole page.
pub(super) fn render(servers: &[ServerFacts], catalog: &CatalogFacts, readiness: &Readiness) -> String {
    let mut page = String::with_capacity(4096 + servers.len() * 512);
    // Writing to a string cannot fail.
    let _ = write(&mut page, servers, catalog, readiness);
    page
}

fn write(page: &mut String, servers: &[ServerFacts], catalog: &CatalogFacts, readiness: &Readiness) -> fmt::Result {
    write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Manifold</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><meta http-equiv=\"refresh\" content=\"{REFRESH_SECONDS}\">\
         <style>{STYLE}</style></head><body><h1>Manifold <small>{}</small></h1><p>{}</p>",
        env!("CARGO_PKG_VERSION"),
        Summary(readiness, catalog),
    )?;
    if servers.is_empty() {
        page.write_str("<p>No servers are configured.</p>")?;
    } else {
        page.write_str(
            "<table><thead><tr><th>Server<th>State<th>Speaks<th class=\"n\">Tools<th class=\"n\">Resources\
             <th class=\"n\">Prompts<th class=\"n\">Restarts<th>Notes</tr></thead><tbody>",
        )?;
        servers.iter().try_for_each(|server| write_server(page, server))?;
        page.write_str("</tbody></table>")?;
    }
    page.write_str(
        "<p><a href=\"/api/servers\">servers</a> · <a href=\"/api/catalog\">catalog</a> · \
         <a href=\"/metrics\">metrics</a> · <a href=\"/readyz\">readiness</a> · <a href=\"/healthz\">health</a></p>\
         </body></html>\n",
    )
}

struct Summary<'a>(&'a Readiness, &'a CatalogFacts);

impl Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(readiness, catalog) = self;
        match (readiness.draining, readiness.ready) {
            (true, _) => f.write_str("Shutting down.")?,
            (false, true) => f.write_str("Ready.")?,
            (false, false) => write!(f, "Not ready: waiting for {}.", Escaped(&readiness.waiting_for.join(", ")))?,
        }
        write!(
            f,
            " Catalog {}: {} tools, {} resources, {} templates, {} prompts",
            catalog.snapshot,
            catalog.tools.len(),
            catalog.resources.len(),
            catalog.templates.len(),
            catalog.prompts.len()
        )?;
        match catalog.conflicts.len() {
            0 => f.write_str("."),
            names => write!(f, "; {names} names hidden because more than one entry claims them."),
        }
    }
}

fn write_server(page: &mut String, server: &ServerFacts) -> fmt::Result {
    let state = server.state.as_str();
    let info = server.server_info.as_ref();
    write!(
        page,
        "<tr><td><b>{}</b><br><small><code>{}</code></small><td class=\"{state}\">{}<br><small>{}</small>\
         <td>{}<br><small>{}</small><td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}<td>",
        Escaped(&server.name),
        Escaped(&server.endpoint),
        state.replace('_', " "),
        humantime::format_duration(std::time::Duration::from_secs(server.since_seconds)),
        server.revision.unwrap_or("?"),
        Escaped(&info.map(|i| format!("{} {}", i.name, i.version)).unwrap_or_default()),
        server.entries.tools,
        server.entries.resources + server.entries.templates,
        server.entries.prompts,
        server.restarts,
    )?;
    if server.failed_attempts > 0 {
        write!(page, "failed attempts: {}<br>", server.failed_attempts)?;
    }
    if let Some(retry) = server.retry_in_ms {
        write!(page, "next attempt in {:.1} s<br>", retry as f64 / 1000.0)?;
    }
    if let Some(error) = &server.last_error {
        write!(page, "{}<br>", Escaped(error))?;
    }
    for name in &server.conflicts {
        write!(page, "hidden, the name is claimed twice: <code>{}</code><br>", Escaped(name))?;
    }
    for complaint in &server.complaints {
        write!(page, "<small>{}</small><br>", Escaped(complaint))?;
    }
    page.write_str("</tr>")
}
