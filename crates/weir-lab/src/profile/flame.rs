//! Flame graphs as SVG pages of their own: folded stacks in, a picture out. They can be zoomed and searched where scripts
//! run, and read where they do not.

use inferno::flamegraph::color::{BackgroundColor, BasicPalette, Color, MultiPalette};
use inferno::flamegraph::{self, Options, Palette};

/// What is narrower is not drawn: it could be neither read nor hit. Percent.
const MIN_WIDTH: f64 = 0.2;

/// A graph of the page is as dark as the page.
const DARK: &str = "\
@media (prefers-color-scheme: dark) {
  svg > rect { fill: #171c23; }
  #title, #subtitle, #details, #search, #matched, #unzoom { fill: #e4e8ed; }
}
";

/// Microseconds on the CPU. The kernel's functions are orange, those with paths yellow, all others red.
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
