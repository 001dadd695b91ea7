//! Lines: the good answers of each rung by the multiple of the capacity that was asked for. A thin line shows the
//! possible maximum: it rises up to the capacity and is level from there on.

use plotters::coord::ranged1d::Ranged as _;
use plotters::coord::types::RangedCoordf64;
use plotters::style::text_anchor::{HPos, VPos};

use super::{GRID, INK, MUTED, Point, Sheet, Style, TICK, WIDTH};
use crate::report::number;
use crate::report::overload::{self, Curve};

const HEIGHT: f64 = 300.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = WIDTH - 16.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = HEIGHT - 28.0;
/// Half the width of the mark of a measurement.
const MARK: f64 = 2.5;

/// The plot of `curves`, in the order of their colours, for a service that can answer `capacity` requests a second.
pub(in crate::report) fn draw(curves: &[Curve<'_>], capacity: f64, label: &str) -> String {
    let scale = Scale::of(curves, capacity);
    super::svg(HEIGHT, label, |sheet| {
        scale.grid(sheet, curves);
        let possible = [(0.0, 0.0), (1.0, capacity), (scale.multiple_max, capacity)];
        let possible = possible.map(|(multiple, rate)| scale.point(multiple, rate));
        sheet.line(&possible, MUTED, 0.75);
        for (index, curve) in curves.iter().enumerate() {
            let points = curve.points.iter();
            let points: Vec<Point> = points
                .map(|(multiple, row)| scale.point(*multiple, row.rate.value))
                .collect();
            sheet.line(&points, super::color(index), 2.0);
            for (x, y) in points {
                let (from, to) = ((x - MARK, y - MARK), (x + MARK, y + MARK));
                sheet.bar(from, to, super::color(index), 1.0);
            }
        }
    })
}

/// Maps multiples and requests a second to pixels.
struct Scale {
    x: RangedCoordf64,
    y: RangedCoordf64,
    multiple_max: f64,
}

impl Scale {
    fn of(curves: &[Curve<'_>], capacity: f64) -> Self {
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let multiple_max = points().map(|(multiple, _)| *multiple).fold(1.0, f64::max);
        let rate_max = points()
            .map(|(_, row)| row.rate.value)
            .fold(capacity, f64::max);
        Self {
            x: (0.0..multiple_max).into(),
            y: (0.0..rate_max * 1.05).into(),
            multiple_max,
        }
    }

    fn point(&self, multiple: f64, rate: f64) -> Point {
        // plotters maps to whole numbers, so it gets thousandths of pixels.
        let thousandths = |pixels: f64| (pixels * 1e3) as i32;
        let x = self
            .x
            .map(&multiple, (thousandths(LEFT), thousandths(RIGHT)));
        let y = self.y.map(&rate, (thousandths(BOTTOM), thousandths(TOP)));
        (f64::from(x) / 1e3, f64::from(y) / 1e3)
    }

    fn grid(&self, sheet: &Sheet<'_>, curves: &[Curve<'_>]) {
        for rate in self.y.key_points(5) {
            let (_, y) = self.point(0.0, rate);
            sheet.line(&[(LEFT, y), (RIGHT, y)], GRID, 1.0);
            let style = Style {
                horizontal: HPos::Right,
                ..TICK
            };
            sheet.text((LEFT - 8.0, y), &number::count(rate.round() as u64), style);
        }
        let measured = curves.first().map_or(&[][..], |curve| &curve.points);
        for (multiple, _) in measured.iter().filter(|(multiple, _)| *multiple >= 1.0) {
            let (x, _) = self.point(*multiple, 0.0);
            sheet.line(&[(x, BOTTOM), (x, BOTTOM + 4.0)], INK, 1.0);
            let style = Style {
                horizontal: HPos::Center,
                vertical: VPos::Top,
                ..TICK
            };
            sheet.text((x, BOTTOM + 8.0), &overload::multiple(*multiple), style);
        }
        sheet.line(&[(LEFT, BOTTOM), (RIGHT, BOTTOM)], INK, 1.0);
    }
}
