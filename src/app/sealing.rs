//! The keys with which the gateway seals what clients carry for it: from the configuration, kept in the state folder, or
//! made for this run.
//!
//! `core` asks once, at the start. What was sealed with a key that is gone is refused, so a key that does not outlive a
//! restart only costs the calls that wait for their user just then (protocol.md §5c).

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use tracing::warn;

use super::StartError;
use crate::config::Secret;
use crate::gateway::state::{Sealer, SealingKey};

/// Name of the kept key in the state folder.
const FILE: &str = "sealing.key";

/// The sealer of this gateway.
pub(super) fn sealer(configured: &[Secret], state: Option<&Path>) -> Result<Sealer, StartError> {
    let keys: Vec<SealingKey> = configured.iter().map(|text| Sha256::digest(text.expose().trim()).into()).collect();
    let sealer = match (keys.split_first(), state) {
        (Some((first, older)), _) => Sealer::new(first, older),
        (None, Some(folder)) => Sealer::new(&kept(folder)?, &[]),
        (None, None) => Sealer::new(&random()?, &[]),
    };
    sealer.map_err(|e| StartError::Internal(e.to_string()))
}

/// The key in `folder`, made when there is none. Where none can be kept the gateway goes on without.
fn kept(folder: &Path) -> Result<SealingKey, StartError> {
    let file = folder.join(FILE);
    let fresh = random()?;
    let found = match write_new(folder, &file, &fresh) {
        Ok(()) => return Ok(fresh),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => fs::read_to_string(&file),
        Err(error) => Err(error),
    };
    match found {
        Ok(text) => {
            let key = STANDARD.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
            warn_if_shared(&file);
            key.ok_or(StartError::Key { file })
        }
        Err(error) => {
            let file = file.display();
            warn!(%file, %error, "no sealing key can be kept: calls that wait for their user do not outlive a restart");
            Ok(fresh)
        }
    }
}

fn write_new(folder: &Path, file: &Path, key: &SealingKey) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    out.write_all(format!("{}\n", STANDARD.encode(key)).as_bytes())
}

fn warn_if_shared(file: &Path) {
    if fs::metadata(file).is_ok_and(|about| about.mode() & 0o077 != 0) {
        warn!(file = %file.display(), "others can read the sealing key: chmod 600 it, or remove it and a new one is made");
    }
}

fn random() -> Result<SealingKey, StartError> {
    let mut key = SealingKey::default();
    getrandom::fill(&mut key).map_err(|e| StartError::Internal(format!("no randomness: {e}")))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_for_its_owner_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("a/b");
        let key = kept(&inside).unwrap();
        assert_eq!(kept(&inside).unwrap(), key);
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&inside), mode(&inside.join(FILE))), (0o700, 0o600));
        fs::write(inside.join(FILE), "spoilt").unwrap();
        assert!(kept(&inside).unwrap_err().to_string().contains("remove it"));
    }

    #[test]
    fn a_folder_that_cannot_be_written_costs_only_the_keeping() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert_ne!(kept(&file).unwrap(), kept(&file).unwrap());
    }
}
