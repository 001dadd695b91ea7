//! What clients got in the place of answers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::admin::prometheus::{Page, escape};
use crate::failure::FallbackKind;
use crate::metrics::{PerWorker, RouteMetrics};
use crate::settings::Action;

/// Appends the family; nothing without a route that has a fallback.
pub(super) fn write(page: &mut Page<'_>, routes: &BTreeMap<&str, &PerWorker<RouteMetrics>>) {
    let falls_back = |action: &Action| match action {
        Action::Forward(rule) => rule.care.fallback.is_some(),
        Action::Redirect(_) | Action::Respond(_) | Action::Serve(_) => false,
    };
    let mut all = page.snapshot.routes.iter();
    if !all.any(|route| falls_back(&route.settings.action)) {
        return;
    }
    let name = "weir_fallbacks_total";
    let help = "Requests refused or failed whose client got something else, by route and kind.";
    page.family(name, "counter", help);
    for (route, tables) in routes {
        for kind in FallbackKind::ALL {
            let count = tables.sum(|table| &table.fallbacks[kind as usize]);
            let (route, kind) = (escape(route), kind.name());
            let _ = writeln!(
                page.text,
                "{name}{{route=\"{route}\",kind=\"{kind}\"}} {count}"
            );
        }
    }
}
