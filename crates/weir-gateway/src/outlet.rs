//! Writing to descriptors that other processes share: a terminal, a pipe, standard output and standard error.

use std::io::{self, Write};
use std::time::Duration;

/// Before a descriptor that takes nothing at the moment is tried again.
const PAUSE: Duration = Duration::from_millis(10);

/// Writes all of it. Somebody else may have made the descriptor one that does not wait; then this waits.
pub(crate) fn write_all(output: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match output.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes two bytes, and nothing every other time.
    struct Slow(Vec<u8>, bool);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let count = bytes.len().min(2);
            self.0.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_takes_nothing_at_the_moment_is_waited_for() {
        let mut slow = Slow(Vec::new(), false);
        write_all(&mut slow, b"abcde\n").expect("it takes them in the end");
        assert_eq!(slow.0, b"abcde\n");
    }
}
