//! A comparison in words: how large the difference is and how certain, so that nobody has to read an
//! interval.

use super::{Comparison, Interval, Verdict};

/// The words for a ratio above and below 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wording {
    /// The word above 1, as in "B is 12 % ...".
    pub above: &'static str,
    /// The word below 1.
    pub below: &'static str,
    /// The word for a multiple, as in "B is 19 times ...".
    pub times: &'static str,
}

/// The words for requests a second.
pub const RATE: Wording = Wording {
    above: "faster",
    below: "slower",
    times: "as fast",
};
/// The words for CPU time per request.
pub const CPU_TIME: Wording = Wording {
    above: "dearer in CPU time",
    below: "cheaper in CPU time",
    times: "as dear in CPU time",
};
/// The words for latencies.
pub const LATENCY: Wording = Wording {
    above: "longer",
    below: "shorter",
    times: "as long",
};

/// With fewer pairs, the advice is to measure more of them.
const FEW_PAIRS: usize = 5;
/// From here on a ratio is told as a multiple.
const MULTIPLE_MIN: f64 = 2.0;

impl Comparison {
    /// One sentence without its full stop: "B is 12 % faster, 95 % interval 9 – 15 %".
    pub fn in_words(&self, b: &str, wording: Wording) -> String {
        let found = match self.verdict {
            Verdict::Different => difference(b, self.ratio, wording),
            Verdict::AlikeEnough => {
                format!(
                    "no difference that matters ({})",
                    difference(b, self.ratio, wording)
                )
            }
            Verdict::CannotTell => {
                format!("cannot tell ({})", difference(b, self.ratio, wording))
            }
        };
        let is_weak = self.verdict == Verdict::CannotTell && self.pairs < FEW_PAIRS;
        let pairs = self.pairs;
        if is_weak {
            format!("{found}; {pairs} rounds are few, more would tell")
        } else {
            found
        }
    }
}

fn difference(b: &str, ratio: Interval, wording: Wording) -> String {
    let Interval {
        estimate,
        low,
        high,
    } = ratio;
    if estimate >= MULTIPLE_MIN {
        let [low, high] = [low, high].map(|bound| rounded(bound, estimate));
        let (size, times) = (rounded(estimate, estimate), wording.times);
        return format!("{b} is {size} times {times}, 95 % interval {low} – {high} times");
    }
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let size = percent(estimate).abs();
    let (word, low, high) = if estimate >= 1.0 {
        (wording.above, percent(low), percent(high))
    } else {
        (wording.below, -percent(high), -percent(low))
    };
    let [low, high] = [low, high].map(|bound| rounded(bound, size));
    format!(
        "{b} is {} % {word}, 95 % interval {low} – {high} %",
        rounded(size, size)
    )
}

/// With one decimal when `size` is below ten, and with a true minus sign.
fn rounded(number: f64, size: f64) -> String {
    let text = if size < 9.95 {
        format!("{number:.1}")
    } else {
        format!("{number:.0}")
    };
    match text.as_str() {
        "-0.0" | "-0" => text[1..].to_owned(),
        _ => text.replace('-', "\u{2212}"),
    }
}
