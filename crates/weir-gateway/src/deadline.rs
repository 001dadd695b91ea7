//! Deadlines as the workers keep them: see [`weir_socket::deadline`].

use std::rc::Rc;
use std::time::Duration;

use weir_socket::deadline::Stall;
pub(crate) use weir_socket::deadline::{Deadlines, Due, Timer};

/// How often a worker looks at its deadlines.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// An empty table. A worker that stood still lets no deadline pass.
pub(crate) fn table() -> Rc<Deadlines> {
    Rc::new(Deadlines::new(TICK, Stall::Excused))
}
