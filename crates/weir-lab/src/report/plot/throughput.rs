//! Bars: what each rung answered under one load, with intervals, and the published figures as marks beside them.
//!
//! A name stands above its bar, not beside it, so that long names and small screens both fit.

use plotters::coord::ranged1d::Ranged as _;
use plotters::coord::types::RangedCoordf64;
use plotters::style::text_anchor::{HPos, VPos};

use super::{INK, LABEL, MUTED, Sheet, Style, TICK, WIDTH};
use crate::report::number;
use crate::report::summary::Row;

const ROW_HEIGHT: f64 = 36.0;
const BAR_HEIGHT: f64 = 11.0;
const AXIS_HEIGHT: f64 = 24.0;
const LEFT: f64 = 4.0;
/// The right edge; beyond it there is room for an arrow.
const RIGHT: f64 = WIDTH - 12.0;
/// Where published figures end, left of our own.
const PUBLISHED_AT: f64 = RIGHT - 62.0;
/// Longest name that leaves room for the figures, in letters.
const NAME_MAX: usize = 38;
/// How far above our highest figure a published one may stretch the axis. A larger one gets an arrow at the edge:
/// it must not squeeze our bars.
const STRETCH_MAX: f64 = 1.6;

/// The plot of `rows`, which share one load; the index of a row is that of its colour.
pub(in crate::report) fn draw(rows: &[(usize, &Row<'_>)], label: &str) -> String {
    let height = ROW_HEIGHT * rows.len() as f64 + AXIS_HEIGHT;
    let scale = Scale::of(rows);
    super::svg(height, label, |sheet| {
        scale.grid(sheet, height - AXIS_HEIGHT);
        for (place, (color, row)) in rows.iter().enumerate() {
            let y = ROW_HEIGHT * place as f64;
            figures(sheet, y, row);
            bar(sheet, y, row, *color, &scale);
        }
    })
}

/// Maps requests a second to pixels.
struct Scale {
    coordinate: RangedCoordf64,
    max: f64,
}

impl Scale {
    fn of(rows: &[(usize, &Row<'_>)]) -> Self {
        let ours = rows
            .iter()
            .map(|(_, row)| row.rate.interval.map_or(row.rate.value, |(_, high)| high));
        let ours = ours.fold(1e-9, f64::max);
        let theirs = rows
            .iter()
            .filter_map(|(_, row)| row.published.and_then(|published| published.rate));
        let theirs = theirs
            .filter(|rate| *rate <= ours * STRETCH_MAX)
            .fold(0.0, f64::max);
        let max = ours.max(theirs);
        Self {
            coordinate: (0.0..max).into(),
            max,
        }
    }

    fn x(&self, rate: f64) -> f64 {
        // plotters maps to whole numbers, so it gets thousandths of pixels.
        let edges = ((LEFT * 1e3) as i32, ((RIGHT) * 1e3) as i32);
        f64::from(self.coordinate.map(&rate, edges)) / 1e3
    }

    fn grid(&self, sheet: &Sheet<'_>, bottom: f64) {
        for tick in self.coordinate.key_points(5) {
            let x = self.x(tick);
            sheet.line(&[(x, 0.0), (x, bottom + 4.0)], super::GRID, 1.0);
            let style = Style {
                horizontal: HPos::Center,
                vertical: VPos::Top,
                ..TICK
            };
            sheet.text(
                (x, bottom + 8.0),
                &number::count(tick.round() as u64),
                style,
            );
        }
    }
}

/// Name, our figure and the published one, above the bar.
fn figures(sheet: &Sheet<'_>, y: f64, row: &Row<'_>) {
    let y = y + 10.0;
    sheet.text((LEFT, y), &shortened(&row.configuration.name), LABEL);
    let at_right = Style {
        horizontal: HPos::Right,
        ..LABEL
    };
    let rate = number::figure(row.rate.value);
    if row.is_valid {
        let style = Style {
            is_bold: true,
            ..at_right
        };
        sheet.text((RIGHT, y), &rate, style);
    } else {
        let style = Style {
            color: MUTED,
            ..at_right
        };
        sheet.text((RIGHT, y), "not valid", style);
    }
    if let Some(rate) = row.published.and_then(|published| published.rate) {
        let style = Style {
            horizontal: HPos::Right,
            ..TICK
        };
        sheet.text(
            (PUBLISHED_AT, y),
            &format!("◆ {}", number::published(rate)),
            style,
        );
    }
}

fn bar(sheet: &Sheet<'_>, y: f64, row: &Row<'_>, color: usize, scale: &Scale) {
    let (top, bottom) = (y + 19.0, y + 19.0 + BAR_HEIGHT);
    let middle = f64::midpoint(top, bottom);
    let opacity = if row.is_valid { 0.85 } else { 0.25 };
    let end = scale.x(row.rate.value).max(LEFT + 1.0);
    sheet.bar((LEFT, top), (end, bottom), super::color(color), opacity);
    if let Some((low, high)) = row.rate.interval {
        let (low, high) = (scale.x(low), scale.x(high));
        sheet.line(&[(low, middle), (high, middle)], INK, 1.25);
        for x in [low, high] {
            sheet.line(&[(x, middle - 3.5), (x, middle + 3.5)], INK, 1.25);
        }
    }
    if let Some(rate) = row.published.and_then(|published| published.rate) {
        if rate <= scale.max {
            sheet.diamond((scale.x(rate), middle), 4.5, MUTED);
        } else {
            let x = RIGHT + 2.0;
            sheet.polygon(
                &[(x, middle - 5.0), (x + 8.0, middle), (x, middle + 5.0)],
                MUTED,
            );
        }
    }
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_MAX {
        return name.to_owned();
    }
    let kept: String = name.chars().take(NAME_MAX - 1).collect();
    format!("{}…", kept.trim_end())
}
