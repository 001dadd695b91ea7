//! What the operator is told of while the gateway runs: a line on standard error for each change, never for a request.

use std::fmt;
use std::io::Write as _;

/// Tells the operator; a closed standard error must not end the thread.
pub(crate) fn tell(what: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "weir: {what}");
}
