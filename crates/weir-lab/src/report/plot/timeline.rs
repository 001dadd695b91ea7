//! Curves over the time of a load, with a part of it in shade. Both axes are linear.

use plotters::coord::ranged1d::Ranged as _;
use plotters::coord::types::RangedCoordf64;
use plotters::style::text_anchor::{HPos, VPos};

use super::{GRID, INK, Point, Sheet, Style, TICK, WIDTH};
use crate::report::number;

const HEIGHT: f64 = 240.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = WIDTH - 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = HEIGHT - 28.0;
/// The opacity of the shade.
const SHADE: f64 = 0.6;

/// The plot of `curves`: points of seconds and values, with the index of their colour. `shaded_s` is shaded.
pub(in crate::report) fn draw(
    curves: &[(usize, Vec<Point>)],
    shaded_s: (f64, f64),
    end_s: f64,
    label: &str,
) -> String {
    let values = curves.iter().flat_map(|(_, points)| points);
    let max = values.map(|(_, value)| *value).fold(1.0, f64::max);
    let scale = Scale {
        x: (0.0..end_s.max(0.1)).into(),
        y: (0.0..max).into(),
    };
    super::svg(HEIGHT, label, |sheet| {
        let [(from, _), (to, _)] = [shaded_s.0, shaded_s.1].map(|at| scale.point((at, 0.0)));
        sheet.bar((from, TOP), (to, BOTTOM), GRID, SHADE);
        scale.grid(sheet);
        for (color, points) in curves {
            let points: Vec<Point> = points.iter().map(|point| scale.point(*point)).collect();
            sheet.line(&points, super::color(*color), 1.75);
        }
    })
}

/// Maps seconds and values to pixels.
struct Scale {
    x: RangedCoordf64,
    y: RangedCoordf64,
}

impl Scale {
    fn point(&self, (at, value): Point) -> Point {
        // plotters maps to whole numbers, so it gets thousandths of pixels.
        let thousandths = |pixels: f64| (pixels * 1e3) as i32;
        let x = self.x.map(&at, (thousandths(LEFT), thousandths(RIGHT)));
        let y = self.y.map(&value, (thousandths(BOTTOM), thousandths(TOP)));
        (f64::from(x) / 1e3, f64::from(y) / 1e3)
    }

    fn grid(&self, sheet: &Sheet<'_>) {
        for at in self.x.key_points(8) {
            let (x, _) = self.point((at, 0.0));
            sheet.line(&[(x, BOTTOM), (x, BOTTOM + 4.0)], INK, 1.0);
            let style = Style {
                horizontal: HPos::Center,
                vertical: VPos::Top,
                ..TICK
            };
            sheet.text(
                (x, BOTTOM + 8.0),
                &format!("{} s", number::published(at)),
                style,
            );
        }
        for value in self.y.key_points(5) {
            let (_, y) = self.point((0.0, value));
            sheet.line(&[(LEFT, y), (RIGHT, y)], GRID, 1.0);
            let style = Style {
                horizontal: HPos::Right,
                ..TICK
            };
            sheet.text((LEFT - 8.0, y), &number::published(value), style);
        }
        sheet.line(&[(LEFT, BOTTOM), (RIGHT, BOTTOM)], INK, 1.0);
    }
}
