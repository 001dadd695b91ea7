//! A comparison in words: who is better, by how much, and how certain that is, so that nobody has to read an interval.
//! The better one stands first.

use super::{Comparison, Interval, Verdict};

/// The words for one kind of figure, as in "B is 12 % faster than A".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wording {
    /// Whether the higher figure is the better one.
    pub is_more_better: bool,
    /// Between the name of the better one and the size.
    pub verb: &'static str,
    /// What the better one has more of.
    pub better: &'static str,
    /// The words for a multiple, as in "B is 19 times as fast as A"; empty where figures are told in percent alone.
    pub times: &'static str,
}

/// The words for requests a second.
pub const RATE: Wording = Wording {
    is_more_better: true,
    verb: "is",
    better: "faster than",
    times: "as fast as",
};
/// The words for CPU time per request.
pub const CPU_TIME: Wording = Wording {
    is_more_better: false,
    verb: "takes",
    better: "less CPU time than",
    times: "",
};
/// The words for latencies.
pub const LATENCY: Wording = Wording {
    is_more_better: false,
    verb: "has",
    better: "less latency than",
    times: "",
};

/// With fewer pairs, the advice is to measure more of them.
const FEW_PAIRS: usize = 5;
/// From here on a ratio is told as a multiple.
const MULTIPLE_MIN: f64 = 2.0;

impl Comparison {
    /// One sentence without its full stop: "B is 12 % faster than A, 95 % interval 9 – 15 %".
    pub fn in_words(&self, [a, b]: [&str; 2], wording: Wording) -> String {
        let difference = difference([a, b], self.ratio, wording);
        let found = match self.verdict {
            Verdict::Different => difference,
            Verdict::AlikeEnough => format!("no difference that matters ({difference})"),
            Verdict::CannotTell => format!("cannot tell ({difference})"),
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

/// `ratio` is B divided by A.
fn difference([a, b]: [&str; 2], ratio: Interval, wording: Wording) -> String {
    let Wording {
        is_more_better,
        verb,
        better,
        times,
    } = wording;
    let is_b_better = (ratio.estimate >= 1.0) == is_more_better;
    let (winner, loser, ratio) = if is_b_better {
        (b, a, ratio)
    } else {
        (a, b, inverse(ratio))
    };
    if !times.is_empty() && ratio.estimate >= MULTIPLE_MIN {
        let [size, low, high] =
            [ratio.estimate, ratio.low, ratio.high].map(|bound| rounded(bound, ratio.estimate));
        return format!(
            "{winner} {verb} {size} times {times} {loser}, 95 % interval {low} – {high} times"
        );
    }
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let (size, low, high) = if is_more_better {
        (ratio.estimate, ratio.low, ratio.high)
    } else {
        // Less of it is better: 0.9 of it is 10 % less.
        (2.0 - ratio.estimate, 2.0 - ratio.high, 2.0 - ratio.low)
    };
    let [size, low, high] = [size, low, high].map(percent);
    let [low, high] = [low, high].map(|bound| rounded(bound, size));
    format!(
        "{winner} {verb} {} % {better} {loser}, 95 % interval {low} – {high} %",
        rounded(size, size)
    )
}

fn inverse(ratio: Interval) -> Interval {
    Interval {
        estimate: 1.0 / ratio.estimate,
        low: 1.0 / ratio.high,
        high: 1.0 / ratio.low,
    }
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
