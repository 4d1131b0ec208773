//! `/metrics` as a scenario reads it: one scrape, asked for single values.

use std::collections::BTreeMap;

use tokio::time::timeout;

use super::app::{Gateway, PATIENCE};
use super::client::get;

/// One scrape.
pub struct Scrape {
    pub page: String,
    series: BTreeMap<String, f64>,
}

impl Scrape {
    /// Now.
    pub async fn of(gateway: &Gateway) -> Self {
        let (status, page) = get(&gateway.admin("/metrics")).await;
        assert_eq!(status, 200);
        let series = page.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line:?}"));
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("no number: {line:?}")))
        });
        Self { series: series.collect(), page }
    }

    /// The value of this series, written as it stands on the page (labels in the alphabet's order). Panics without one.
    pub fn value(&self, series: &str) -> f64 {
        *self.series.get(series).unwrap_or_else(|| panic!("no {series} in\n{}", self.page))
    }

    /// How many calls of this method ended so.
    pub fn calls(&self, server: &str, method: &str, era: &str, outcome: &str) -> f64 {
        let labels = format!(r#"era="{era}",method="{method}",outcome="{outcome}",server="{server}""#);
        self.series.get(&format!("manifold_calls_total{{{labels}}}")).copied().unwrap_or(0.0)
    }

    /// Requests turned away for this reason.
    pub fn refusals(&self, reason: &str) -> f64 {
        self.value(&format!(r#"manifold_refusals_total{{reason="{reason}"}}"#))
    }

    /// How many series there are.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Names of the families, as their `# TYPE` lines say.
    pub fn families(&self) -> Vec<&str> {
        let types = self.page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        types.filter_map(|line| line.split(' ').next()).collect()
    }
}

/// Scrapes until this holds, bounded.
pub async fn wait_for(gateway: &Gateway, what: &str, holds: impl Fn(&Scrape) -> bool) -> Scrape {
    let mut last = String::new();
    let waiting = async {
        loop {
            let scrape = Scrape::of(gateway).await;
            if holds(&scrape) {
                return scrape;
            }
            last = scrape.page;
            tokio::task::yield_now().await;
        }
    };
    match timeout(PATIENCE, waiting).await {
        Ok(scrape) => scrape,
        Err(_) => panic!("not in time: {what}\n{last}"),
    }
}
