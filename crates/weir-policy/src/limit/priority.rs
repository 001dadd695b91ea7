//! How much a request matters to its sender, in four steps.
//!
//! Priorities only decide between requests that wait for the same limit. A higher one is admitted before a lower one,
//! and a lower one gives up its place to a higher one. They reserve nothing, and they stop nothing that is in flight.
//! The caller decides where a priority comes from (a route, a trusted header).

/// The priority of a request. Greater is more important.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// May be lost without anyone noticing soon: prefetches, batch jobs, crawlers.
    Low,
    /// The default.
    #[default]
    Normal,
    /// A user waits for it.
    High,
    /// Money or health depends on it: payments, health checks, sign-in.
    Critical,
}

impl Priority {
    /// How many priorities there are.
    pub const COUNT: usize = 4;

    /// All of them, the least important first.
    pub const ALL: [Priority; Self::COUNT] = [
        Priority::Low,
        Priority::Normal,
        Priority::High,
        Priority::Critical,
    ];

    /// The name of each priority in configuration, headers and metrics.
    pub const NAMES: &[(&str, Priority)] = &[
        ("low", Priority::Low),
        ("normal", Priority::Normal),
        ("high", Priority::High),
        ("critical", Priority::Critical),
    ];

    /// Its position in [`Priority::ALL`], below [`Priority::COUNT`].
    pub fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_positions_and_order_agree() {
        for (index, (_, priority)) in Priority::NAMES.iter().enumerate() {
            assert_eq!(priority.index(), index);
            assert_eq!(Priority::ALL[index], *priority);
        }
        assert!(Priority::ALL.is_sorted());
        assert_eq!(Priority::NAMES.len(), Priority::COUNT);
    }
}
