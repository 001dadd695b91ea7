//! Curves: the latency of each rung by percentile, under one load.
//!
//! The x axis stretches towards 100 % as 1/(1−q), so the slowest thousandth is as wide as the fastest nine tenths. The
//! y axis is logarithmic too. A curve ends where a single request decides it.

use hdrhistogram::Histogram;
use plotters::coord::combinators::IntoLogRange as _;
use plotters::coord::ranged1d::Ranged as _;
use plotters::prelude::LogCoord;
use plotters::style::text_anchor::{HPos, VPos};

use super::{GRID, INK, Point, Sheet, Style, TICK, WIDTH};
use crate::report::number;
use crate::report::summary::Row;

const HEIGHT: f64 = 330.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = WIDTH - 28.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = HEIGHT - 28.0;
/// Points of a curve; more would be finer than the pixels.
const POINTS: usize = 240;

/// The ticks of the x axis: 1/(1−q) and its usual name.
const TICKS: [(f64, &str); 6] = [
    (2.0, "50 %"),
    (10.0, "90 %"),
    (100.0, "99 %"),
    (1e3, "99.9 %"),
    (1e4, "99.99 %"),
    (1e5, "99.999 %"),
];
const X_MAX: f64 = 1e5;

/// The plot of `rows`, which share one load; the index of a row is that of its colour. `None` when no row has
/// latencies.
pub(in crate::report) fn draw(rows: &[(usize, &Row<'_>)], label: &str) -> Option<String> {
    let with_latencies = rows
        .iter()
        .filter_map(|(color, row)| Some((*color, *row, row.latencies.as_ref()?)));
    let curves: Vec<(usize, &Row<'_>, &Histogram<u64>)> = with_latencies.collect();
    let scale = Scale::of(&curves)?;
    Some(super::svg(HEIGHT, label, |sheet| {
        scale.grid(sheet);
        for (color, row, histogram) in &curves {
            let width = if row.is_valid { 2.0 } else { 0.75 };
            sheet.line(&scale.curve(histogram), super::color(*color), width);
        }
        for (color, row, _) in &curves {
            for point in scale.published(row) {
                sheet.diamond(point, 4.0, super::color(*color));
            }
        }
    }))
}

/// Maps percentiles and nanoseconds to pixels.
struct Scale {
    x: LogCoord<f64>,
    y: LogCoord<f64>,
    /// The decades of nanoseconds that the y axis shows.
    decades: Vec<f64>,
}

impl Scale {
    fn of(curves: &[(usize, &Row<'_>, &Histogram<u64>)]) -> Option<Self> {
        let lowest = curves
            .iter()
            .map(|(_, _, histogram)| histogram.min())
            .min()?;
        let highest = curves
            .iter()
            .map(|(_, _, histogram)| histogram.max())
            .max()?;
        // Half decades are the steps: whole decades would leave much of the plot empty.
        let half_decades = |ns: u64| (ns.max(1) as f64).log10() * 2.0;
        let low = half_decades(lowest).floor() / 2.0;
        let high = (half_decades(highest).ceil() / 2.0).max(low + 0.5);
        let decades = low.ceil() as i32..=high.floor() as i32;
        Some(Self {
            x: (1.0..X_MAX).log_scale().into(),
            y: (10f64.powf(low)..10f64.powf(high)).log_scale().into(),
            decades: decades.map(|exponent| 10f64.powi(exponent)).collect(),
        })
    }

    fn point(&self, x: f64, ns: f64) -> Point {
        // plotters maps to whole numbers, so it gets thousandths of pixels.
        let thousandths = |pixels: f64| (pixels * 1e3) as i32;
        let x = self.x.map(&x, (thousandths(LEFT), thousandths(RIGHT)));
        let y = self.y.map(&ns, (thousandths(BOTTOM), thousandths(TOP)));
        (f64::from(x) / 1e3, f64::from(y) / 1e3)
    }

    fn grid(&self, sheet: &Sheet<'_>) {
        for (x, name) in TICKS {
            let (x, _) = self.point(x, self.decades.first().copied().unwrap_or(1.0));
            sheet.line(&[(x, TOP), (x, BOTTOM + 4.0)], GRID, 1.0);
            let style = Style {
                horizontal: HPos::Center,
                vertical: VPos::Top,
                ..TICK
            };
            sheet.text((x, BOTTOM + 8.0), name, style);
        }
        for ns in &self.decades {
            let (_, y) = self.point(1.0, *ns);
            sheet.line(&[(LEFT, y), (RIGHT, y)], GRID, 1.0);
            let style = Style {
                horizontal: HPos::Right,
                ..TICK
            };
            sheet.text((LEFT - 8.0, y), &tick(*ns), style);
            for digit in 2..10 {
                let (_, y) = self.point(1.0, ns * f64::from(digit));
                if y > TOP {
                    sheet.line(&[(LEFT, y), (LEFT + 4.0, y)], GRID, 1.0);
                }
            }
        }
        sheet.line(&[(LEFT, BOTTOM), (RIGHT, BOTTOM)], INK, 1.0);
    }

    fn curve(&self, histogram: &Histogram<u64>) -> Vec<Point> {
        let end = (histogram.len() as f64).clamp(2.0, X_MAX);
        let mut points: Vec<Point> = Vec::with_capacity(POINTS);
        for index in 0..POINTS {
            let x = end.powf(index as f64 / (POINTS - 1) as f64);
            let ns = histogram.value_at_quantile(1.0 - 1.0 / x);
            let point = self.point(x, ns.max(1) as f64);
            // A level stretch needs only its two ends.
            if let [.., (_, before), (_, last)] = points[..]
                && (before - point.1).abs() < 0.01
                && (last - point.1).abs() < 0.01
            {
                points.pop();
            }
            points.push(point);
        }
        points
    }

    /// The published percentiles of a rung that lie within the plot.
    fn published(&self, row: &Row<'_>) -> Vec<Point> {
        let figures = row
            .published
            .iter()
            .flat_map(|published| &published.latency_ms);
        let points = figures.filter_map(|(name, ms)| {
            let percentile: f64 = name.strip_prefix('p')?.parse().ok()?;
            let point = self.point(1.0 / (1.0 - percentile / 100.0), ms * 1e6);
            let is_inside = (LEFT..=RIGHT).contains(&point.0) && (TOP..=BOTTOM).contains(&point.1);
            is_inside.then_some(point)
        });
        points.collect()
    }
}

fn tick(ns: f64) -> String {
    if ns < 1_000.0 {
        return format!("{} ns", number::count(ns.round() as u64));
    }
    let (value, unit) = match ns / 1_000.0 {
        us if us < 1_000.0 => (us, "µs"),
        us if us < 1_000_000.0 => (us / 1_000.0, "ms"),
        us => (us / 1_000_000.0, "s"),
    };
    format!("{} {unit}", number::count(value.round() as u64))
}
