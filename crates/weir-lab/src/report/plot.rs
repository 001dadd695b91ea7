//! Plots as SVG inside an HTML page: what all plots share.
//!
//! plotters gives scales, ticks and SVG; this file gives it a sheet to draw on and a few colours. The colours are those
//! of a light page. On a dark page the style sheet of the report replaces each of them, by its value. Nothing here
//! decides what is shown.

pub(super) mod goodput;
pub(super) mod latency;
pub(super) mod throughput;
pub(super) mod timeline;

use plotters::coord::Shift;
use plotters::element::{PathElement, Polygon, Rectangle, Text};
use plotters::prelude::{
    Color, DrawingArea, IntoDrawingArea as _, IntoFont as _, RGBColor, SVGBackend,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Pixels. A page shows a plot a little larger, a phone a little smaller.
const WIDTH: f64 = 460.0;
/// Drawing units in a pixel. plotters draws in whole units, and a curve in whole pixels has steps.
const UNIT: f64 = 4.0;
/// plotters divides the size of a font by this for SVG.
const FONT_FACTOR: f64 = 1.24;

const INK: RGBColor = RGBColor(0x1B, 0x1F, 0x24);
const MUTED: RGBColor = RGBColor(0x65, 0x6D, 0x76);
const GRID: RGBColor = RGBColor(0xDF, 0xE3, 0xE8);
const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFE);

/// The colours of rungs, in their order. They differ on white and on black, and mostly for colour-blind readers. With
/// more rungs than colours, the colours repeat.
pub(super) const RUNGS: [RGBColor; 10] = [
    RGBColor(0x5B, 0x66, 0x72),
    RGBColor(0x25, 0x63, 0xEB),
    RGBColor(0xD9, 0x48, 0x0F),
    RGBColor(0x2B, 0x8A, 0x3E),
    RGBColor(0x9C, 0x36, 0xB5),
    RGBColor(0x0B, 0x72, 0x85),
    RGBColor(0xC2, 0x25, 0x5C),
    RGBColor(0xB0, 0x88, 0x00),
    RGBColor(0x5F, 0x3D, 0xC4),
    RGBColor(0x7B, 0x4B, 0x2A),
];

/// The colour of the rung at `index` of its group.
fn color(index: usize) -> RGBColor {
    RUNGS[index % RUNGS.len()]
}

/// A point in pixels from the upper left.
type Point = (f64, f64);

/// A sheet to draw on, in pixels.
struct Sheet<'a>(DrawingArea<SVGBackend<'a>, Shift>);

/// How a text is placed at its point, and how it looks.
#[derive(Clone, Copy)]
struct Style {
    horizontal: HPos,
    vertical: VPos,
    size: f64,
    color: RGBColor,
    is_bold: bool,
}

const LABEL: Style = Style {
    horizontal: HPos::Left,
    vertical: VPos::Center,
    size: 12.0,
    color: INK,
    is_bold: false,
};
const TICK: Style = Style {
    size: 11.0,
    color: MUTED,
    ..LABEL
};

/// Returns the SVG of what `draw` draws; screen readers read `label`.
fn svg(height: f64, label: &str, draw: impl FnOnce(&Sheet<'_>)) -> String {
    let mut text = String::new();
    let size = (units(WIDTH) as u32, units(height) as u32);
    {
        let sheet = Sheet(SVGBackend::with_string(&mut text, size).into_drawing_area());
        draw(&sheet);
        sheet.0.present().expect("drawing into memory");
    }
    // The page decides how large a plot is shown, so the fixed size is taken out.
    let fixed = format!("width=\"{}\" height=\"{}\"", size.0, size.1);
    let label = super::html::attribute(label);
    text.replacen(&fixed, &format!("role=\"img\" aria-label=\"{label}\""), 1)
}

fn units(pixels: f64) -> i32 {
    (pixels * UNIT).round() as i32
}

fn at(point: Point) -> (i32, i32) {
    (units(point.0), units(point.1))
}

/// Drawing into memory cannot fail.
impl Sheet<'_> {
    fn line(&self, points: &[Point], color: RGBColor, width: f64) {
        let points: Vec<(i32, i32)> = points.iter().copied().map(at).collect();
        let path = PathElement::new(points, color.stroke_width(units(width) as u32));
        self.0.draw(&path).expect("drawing into memory");
    }

    fn bar(&self, from: Point, to: Point, color: RGBColor, opacity: f64) {
        let bar = Rectangle::new([at(from), at(to)], color.mix(opacity).filled());
        self.0.draw(&bar).expect("drawing into memory");
    }

    /// The mark of published figures; its rim separates it from what lies below.
    fn diamond(&self, (x, y): Point, radius: f64, color: RGBColor) {
        for (radius, color) in [(radius + 1.5, PAPER), (radius, color)] {
            self.polygon(
                &[
                    (x, y - radius),
                    (x + radius, y),
                    (x, y + radius),
                    (x - radius, y),
                ],
                color,
            );
        }
    }

    fn polygon(&self, corners: &[Point], color: RGBColor) {
        let corners: Vec<(i32, i32)> = corners.iter().copied().map(at).collect();
        self.0
            .draw(&Polygon::new(corners, color.filled()))
            .expect("drawing into memory");
    }

    fn text(&self, point: Point, text: &str, style: Style) {
        let font = ("sans-serif", style.size * UNIT * FONT_FACTOR).into_font();
        let font = if style.is_bold {
            font.style(plotters::style::FontStyle::Bold)
        } else {
            font
        };
        let font = font
            .color(&style.color)
            .pos(Pos::new(style.horizontal, style.vertical));
        self.0
            .draw(&Text::new(text.to_owned(), at(point), font))
            .expect("drawing into memory");
    }
}
