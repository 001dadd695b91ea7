//! Where a value comes from.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;

use anyhow::Context as _;
use weir_kv::VALUE_BYTES_MAX;

/// Reads what stands for a value: itself, `@FILE`, or `-` and nothing for standard input.
pub(super) fn read(text: Option<&OsStr>) -> anyhow::Result<Vec<u8>> {
    let bytes = text.map_or(&b"-"[..], OsStr::as_bytes);
    match bytes {
        b"-" => whole(&mut io::stdin()).context("standard input"),
        [b'@', path @ ..] => {
            let path = OsStr::from_bytes(path);
            let file = File::open(path);
            let read = file
                .map_err(Into::into)
                .and_then(|mut file| whole(&mut file));
            read.with_context(|| format!("the file {}", path.display()))
        }
        value => Ok(value.to_vec()),
    }
}

/// All that there is, if it is not too long for a value.
fn whole(from: &mut impl Read) -> anyhow::Result<Vec<u8>> {
    let mut value = Vec::new();
    from.take(VALUE_BYTES_MAX + 1).read_to_end(&mut value)?;
    anyhow::ensure!(
        value.len() as u64 <= VALUE_BYTES_MAX,
        "it has more than {VALUE_BYTES_MAX} bytes, which no value may have"
    );
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_an_end() {
        let longest = io::repeat(b'x').take(VALUE_BYTES_MAX);
        assert!(whole(&mut { longest }).is_ok());
        assert!(whole(&mut io::repeat(b'x')).is_err());
        let text = read(Some(OsStr::new("-x"))).expect("a value");
        assert_eq!(text, b"-x");
    }
}
