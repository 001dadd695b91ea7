//! What may go wrong in a run.

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
}

impl Faults {
    pub(super) fn none() -> Self {
        Self {
            lost: 0.0,
            slow: 0.0,
            crashes: 0,
            cuts: 0,
            skew_ms: 0,
            misjudged: 0.0,
            is_read: true,
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
        }
    }
}
