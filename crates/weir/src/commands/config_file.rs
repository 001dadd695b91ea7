//! Which config file a command is about: the one that is named, or the one that lies where such files usually do.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Where a file is looked for that nobody has named, in this order.
const USUAL: [&str; 2] = ["weir.toml", "/etc/weir/weir.toml"];

/// The config file.
#[derive(Debug, clap::Args)]
pub(super) struct ConfigFile {
    /// The config file; without it `weir.toml` in this directory, or else `/etc/weir/weir.toml`.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The same as a flag.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    /// The file that was named.
    pub(super) fn named(&self) -> Option<&Path> {
        self.file.as_deref().or(self.config.as_deref())
    }

    /// The file that was named, or the usual one. `advice` is what else can be done when there is neither.
    pub(super) fn find(&self, advice: &str) -> Result<PathBuf> {
        if let Some(path) = self.named() {
            return Ok(path.to_owned());
        }
        let [here, of_system] = USUAL;
        usual().with_context(|| {
            format!(
                "there is no config file: neither {here} in this directory nor {of_system}\n{advice}"
            )
        })
    }
}

/// The first of the usual files.
pub(super) fn usual() -> Option<PathBuf> {
    first_of(USUAL.map(Path::new), |path| {
        // One that is there and cannot be read is an error, not a reason to take another.
        !matches!(path.symlink_metadata(), Err(error) if error.kind() == ErrorKind::NotFound)
    })
}

fn first_of<const N: usize>(
    paths: [&Path; N],
    is_there: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    paths
        .into_iter()
        .find(|path| is_there(path))
        .map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_here_comes_before_that_of_the_system() {
        let [here, of_system] = USUAL.map(Path::new);
        for (there, found) in [
            (&[here, of_system][..], Some(here)),
            (&[of_system], Some(of_system)),
            (&[], None),
        ] {
            let first = first_of([here, of_system], |path| there.contains(&path));
            assert_eq!(first.as_deref(), found);
        }
    }
}
