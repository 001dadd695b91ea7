//! Compression's part of the page; it is not there without a route that compresses.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use weir_cache::negotiate::Coding;

use crate::admin::prometheus::Page;
use crate::metrics::added;
use crate::settings::Action;

/// Appends compression's families.
pub(super) fn write(page: &mut Page<'_>) {
    let compresses = |action: &Action| match action {
        Action::Forward(rule) => rule.compress.is_some(),
        Action::Redirect(_) | Action::Respond(_) | Action::Serve(_) => false,
    };
    let mut routes = page.snapshot.routes.iter();
    if !routes.any(|route| compresses(&route.settings.action)) {
        return;
    }
    let shared = page.shared;
    let workers = shared.metrics.iter().map(|worker| &worker.compress);
    let passing = added(workers.map(crate::metrics::CompressMetrics::responses));
    let counts = shared.cache().map(|cache| &cache.compressor.counts);
    by_coding(
        page,
        "weir_compress_responses_total",
        "Responses compressed while they passed.",
        passing,
    );
    if let Some(counts) = counts {
        let forms = counts.forms.each_ref();
        let forms = forms.map(|count| count.load(Ordering::Relaxed));
        let help = "Forms made of stored responses, each once.";
        by_coding(page, "weir_compress_forms_total", help, forms);
        let useless = counts.useless.load(Ordering::Relaxed);
        let name = "weir_compress_useless_total";
        page.family(name, "counter", "Forms that would have been no smaller.");
        let _ = writeln!(page.text, "{name} {useless}");
    }
    let name = "weir_compress_refused_total";
    page.family(
        name,
        "counter",
        "Compression that was left out because there was too much of it.",
    );
    let refused = page.sum(|worker| &worker.compress.refused);
    let _ = writeln!(page.text, "{name}{{of=\"passing\"}} {refused}");
    if let Some(counts) = counts {
        let refused = counts.refused.load(Ordering::Relaxed);
        let _ = writeln!(page.text, "{name}{{of=\"stored\"}} {refused}");
    }
    let name = "weir_compress_bytes_total";
    page.family(name, "counter", "Bytes before and after compression.");
    let (bytes_in, bytes_out) = (
        page.sum(|worker| &worker.compress.bytes_in),
        page.sum(|worker| &worker.compress.bytes_out),
    );
    write_bytes(page, "passing", bytes_in, bytes_out);
    if let Some(counts) = counts {
        let bytes_in = counts.bytes_in.load(Ordering::Relaxed);
        write_bytes(
            page,
            "stored",
            bytes_in,
            counts.bytes_out.load(Ordering::Relaxed),
        );
    }
}

fn by_coding(page: &mut Page<'_>, name: &str, help: &str, counts: [u64; Coding::ALL.len()]) {
    page.family(name, "counter", help);
    for (coding, count) in Coding::ALL.into_iter().zip(counts) {
        let coding = coding.token();
        let _ = writeln!(page.text, "{name}{{coding=\"{coding}\"}} {count}");
    }
}

fn write_bytes(page: &mut Page<'_>, of: &str, bytes_in: u64, bytes_out: u64) {
    for (direction, bytes) in [("in", bytes_in), ("out", bytes_out)] {
        let name = "weir_compress_bytes_total";
        let _ = writeln!(
            page.text,
            "{name}{{of=\"{of}\",direction=\"{direction}\"}} {bytes}"
        );
    }
}
