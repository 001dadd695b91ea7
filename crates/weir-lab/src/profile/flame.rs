//! Flame graphs as separate SVG pages, made from folded stacks. They can be zoomed and searched where scripts run, and
//! read where they do not.

use inferno::flamegraph::color::{BackgroundColor, BasicPalette, Color, MultiPalette};
use inferno::flamegraph::{self, Options, Palette};

/// Anything narrower is not drawn: nobody could read or click it. Percent.
const MIN_WIDTH: f64 = 0.2;

/// A graph in a dark page is dark as well.
const DARK: &str = "\
@media (prefers-color-scheme: dark) {
  svg > rect { fill: #171c23; }
  #title, #subtitle, #details, #search, #matched, #unzoom { fill: #e4e8ed; }
}
";

/// Microseconds on the CPU. Kernel functions are orange, functions with paths yellow, all others red.
pub(super) fn cpu(service: &str, folded: &str) -> Vec<u8> {
    draw(
        &format!("{service}: on the CPU"),
        folded,
        Palette::Multi(MultiPalette::Java),
        "µs",
    )
}

/// Microseconds off the CPU.
pub(super) fn waits(service: &str, folded: &str) -> Vec<u8> {
    draw(
        &format!("{service}: off the CPU"),
        folded,
        Palette::Basic(BasicPalette::Aqua),
        "µs",
    )
}

fn draw(title: &str, folded: &str, colors: Palette, unit: &str) -> Vec<u8> {
    let mut options = Options::default();
    title.clone_into(&mut options.title);
    unit.clone_into(&mut options.count_name);
    options.colors = colors;
    options.bgcolors = Some(BackgroundColor::Flat(Color {
        r: 0xFF,
        g: 0xFF,
        b: 0xFF,
    }));
    // The same stacks always give the same picture.
    options.deterministic = true;
    options.min_width = MIN_WIDTH;
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, folded.lines(), &mut svg)
        .expect("there are stacks, and memory takes all");
    String::from_utf8_lossy(&svg)
        .replacen("</style>", &format!("{DARK}</style>"), 1)
        .into_bytes()
}
