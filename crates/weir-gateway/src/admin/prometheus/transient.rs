//! What is held for clients, on the page.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use crate::admin::prometheus::Page;

/// Appends the families.
pub(super) fn write(page: &mut Page<'_>) {
    let slow = &page.shared.slow;
    let families = [
        (
            "weir_transient_bytes",
            "gauge",
            "Bytes held for clients and not stored.",
            slow.transient.bytes(),
        ),
        (
            "weir_transient_bytes_max",
            "gauge",
            "Bytes that may be.",
            slow.transient.bytes_max(),
        ),
        (
            "weir_slow_clients_cut_total",
            "counter",
            "Clients cut off because others needed what they held.",
            slow.cut.load(Ordering::Relaxed),
        ),
    ];
    for (name, kind, help, value) in families {
        page.family(name, kind, help);
        let _ = writeln!(page.text, "{name} {value}");
    }
}
