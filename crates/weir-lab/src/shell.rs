//! Command lines as a person would type them.

/// `words` for a POSIX shell, which takes them apart as they were.
pub(crate) fn line<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    // No argument of a process has a NUL, which is all that cannot be quoted.
    shlex::try_join(words).unwrap_or_default()
}
