//! What may go wrong in a run.

/// What clients ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    /// Reads, and each kind of write.
    All,
    /// Reads, and writes that read first.
    ReadingFirst,
    /// Reads, and writes by `/v0`.
    Plain,
    /// Reads, and writes with a condition, by whatever node is asked.
    Conditions,
    /// Reads, and writes by `/v1` without and with a condition: one node at a time makes those of a key.
    InOrder,
    /// The same, all of them with a condition.
    ConditionsInOrder,
}

/// What may go wrong, as shares from 0 to 1, and by how much clocks differ.
#[derive(Debug, Clone, Copy)]
pub(super) struct Faults {
    pub(super) lost: f64,
    pub(super) slow: f64,
    pub(super) crashes: u64,
    pub(super) cuts: u64,
    pub(super) skew_ms: i64,
    /// How often a node is wrong about whether another one is up.
    pub(super) misjudged: f64,
    /// Whether everything is read in the end, which mends what hints do not.
    pub(super) is_read: bool,
    pub(super) asks: Asks,
}

impl Faults {
    pub(super) fn asking(self, asks: Asks) -> Self {
        Self { asks, ..self }
    }

    /// Each node knows at once which of the others are up, and reaches them.
    pub(super) fn whole_network(self) -> Self {
        Self {
            cuts: 0,
            misjudged: 0.0,
            ..self
        }
    }

    /// The same, and no node crashes: messages are late or lost, and clocks differ.
    pub(super) fn of_messages(self) -> Self {
        Self {
            crashes: 0,
            ..self.whole_network()
        }
    }

    /// Clocks differ, as they do in all faults.
    pub(super) fn skewed(self) -> Self {
        Self {
            skew_ms: Self::all().skew_ms,
            ..self
        }
    }

    /// All clocks say the same.
    pub(super) fn same_clocks(self) -> Self {
        Self { skew_ms: 0, ..self }
    }

    pub(super) fn none() -> Self {
        Self {
            lost: 0.0,
            slow: 0.0,
            crashes: 0,
            cuts: 0,
            skew_ms: 0,
            misjudged: 0.0,
            is_read: true,
            asks: Asks::All,
        }
    }

    /// All but crashes, which may take a hint with them that was about to be kept; and nothing is read in the end.
    pub(super) fn without_crashes() -> Self {
        Self {
            crashes: 0,
            is_read: false,
            ..Self::all()
        }
    }

    pub(super) fn all() -> Self {
        Self {
            lost: 0.02,
            slow: 0.05,
            crashes: 4,
            cuts: 4,
            skew_ms: 500,
            misjudged: 0.05,
            is_read: true,
            asks: Asks::All,
        }
    }
}
