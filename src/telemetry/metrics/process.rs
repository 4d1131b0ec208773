//! The figures of our own process, under the names that every Prometheus dashboard knows.
//!
//! Read from `/proc` at each scrape; on a system without it the page simply ends earlier.

use std::fmt::Write as _;
use std::fs;

/// Ticks a second in `/proc/*/stat`: fixed by the kernel's interface (`USER_HZ`), whatever the kernel's own rate is.
const TICKS: f64 = 100.0;

/// Appends what can be read.
pub(super) fn render(page: &mut String) {
    let read = |path: &str| fs::read_to_string(path).ok();
    if let Some(stat) = read("/proc/self/stat").as_deref().and_then(Stat::parse) {
        put(page, "counter", "process_cpu_seconds_total", "User and system time used, in seconds.", stat.cpu_seconds);
        put(page, "gauge", "process_threads", "Threads of the process.", stat.threads);
        if let Some(boot) = read("/proc/stat").as_deref().and_then(boot_seconds) {
            let start = boot + stat.start_seconds;
            put(page, "gauge", "process_start_time_seconds", "When the process started, in Unix seconds.", start);
        }
    }
    if let Some(bytes) = read("/proc/self/status").as_deref().and_then(resident_bytes) {
        put(page, "gauge", "process_resident_memory_bytes", "Memory in RAM, in bytes.", bytes);
    }
    if let Ok(folder) = fs::read_dir("/proc/self/fd") {
        // One of them is the folder that is being read.
        let open = folder.count().saturating_sub(1);
        put(page, "gauge", "process_open_fds", "Open file descriptors.", open as f64);
    }
    if let Some(most) = read("/proc/self/limits").as_deref().and_then(open_files_limit) {
        put(page, "gauge", "process_max_fds", "File descriptors that may be open at once.", most);
    }
}

fn put(page: &mut String, kind: &str, name: &str, help: &str, value: f64) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
}

#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    threads: f64,
    start_seconds: f64,
}

impl Stat {
    /// The fields behind the last `)`: a process may have any name, parentheses and spaces included.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // proc(5) counts from 1 and the name is field 2, so its field n is number n - 3 here.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / TICKS,
            threads: field(20)?,
            start_seconds: field(22)? / TICKS,
        })
    }
}

fn boot_seconds(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn resident_bytes(status: &str) -> Option<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(value.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0)
}

fn open_files_limit(limits: &str) -> Option<f64> {
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_ascii_whitespace().next()?;
    soft.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "42 (a ) (b) S 1 42 42 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 7 0 12345 1000 200 18446744073709551615";
        assert_eq!(Stat::parse(stat), Some(Stat { cpu_seconds: 2.0, threads: 7.0, start_seconds: 123.45 }));
        assert_eq!(Stat::parse("42 (a) S 1"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn the_other_files_are_read_by_their_keys() {
        assert_eq!(boot_seconds("cpu 1 2\nbtime 1700000000\nprocesses 5\n"), Some(1_700_000_000.0));
        assert_eq!(resident_bytes("VmPeak:\t 9 kB\nVmRSS:\t    1024 kB\n"), Some(1_048_576.0));
        assert_eq!(
            open_files_limit("Max open files            1024                 4096                 files\n"),
            Some(1024.0)
        );
        assert_eq!(
            open_files_limit("Max open files            unlimited            unlimited            files\n"),
            None
        );
    }
}
