//! Which file to load: named by flag or variable, or found in a usual place, or none.

use std::path::{Path, PathBuf};

/// What to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A file. One that was named need not exist: loading it says so.
    File(PathBuf),
    /// No file anywhere: the built-in demo servers.
    Demo,
}

/// Looked for after `--config` and `MANIFOLD_CONFIG`, in this order.
pub const PLACES: [&str; 5] =
    ["manifold.yaml", "manifold.yml", "manifold.toml", "manifold.json", "/etc/manifold/manifold.yaml"];

/// `explicit` is `--config`, `variable` is `MANIFOLD_CONFIG` (empty is none), `exists` asks the disk.
pub fn find(explicit: Option<&Path>, variable: Option<&str>, exists: impl Fn(&Path) -> bool) -> Found {
    let named = explicit.map(Path::to_owned).or_else(|| variable.filter(|path| !path.is_empty()).map(PathBuf::from));
    named.or_else(|| PLACES.iter().map(PathBuf::from).find(|path| exists(path))).map_or(Found::Demo, Found::File)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_file_wins_then_the_usual_places_then_the_demo() {
        let file = |path: &str| Found::File(PathBuf::from(path));
        for (explicit, variable, present, want) in [
            (Some("a.yaml"), Some("b.yaml"), &["manifold.yaml"][..], file("a.yaml")),
            (None, Some("b.yaml"), &["manifold.yaml"], file("b.yaml")),
            (None, Some(""), &["manifold.toml", "manifold.yml"], file("manifold.yml")),
            (None, None, &["/etc/manifold/manifold.yaml"], file("/etc/manifold/manifold.yaml")),
            (None, None, &[], Found::Demo),
        ] {
            let found = find(explicit.map(Path::new), variable, |path| present.iter().any(|p| Path::new(p) == path));
            assert_eq!(found, want);
        }
    }
}
