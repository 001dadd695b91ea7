//! Numbers of which a few are drawn most of the time: the k-th of n with a probability in proportion to k^-skew.
//!
//! They are drawn by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from
//! monotone discrete distributions", 1996). It needs no tables for any range, and about one attempt for each draw.

/// Numbers from a range; the first one is the most likely.
#[derive(Debug, Clone)]
pub(super) struct Zipf {
    from: u64,
    count: f64,
    skew: f64,
    area_from: f64,
    area_to: f64,
    /// Draws this close to their number are accepted at once.
    near: f64,
}

impl Zipf {
    /// `from <= to`, `skew >= 0`.
    pub(super) fn new(from: u64, to: u64, skew: f64) -> Self {
        let count = (to - from) as f64 + 1.0;
        let area = |x| area(x, skew);
        Self {
            from,
            count,
            skew,
            area_from: area(1.5) - 1.0,
            area_to: area(count + 0.5),
            near: 2.0 - inverse(area(2.5) - 2_f64.powf(-skew), skew),
        }
    }

    pub(super) fn draw(&self, random: &mut fastrand::Rng) -> u64 {
        loop {
            let under = self.area_to + random.f64() * (self.area_from - self.area_to);
            let x = inverse(under, self.skew);
            let k = x.round().clamp(1.0, self.count);
            if k - x <= self.near || under >= area(k + 0.5, self.skew) - k.powf(-self.skew) {
                return self.from + (k - 1.0) as u64;
            }
        }
    }
}

/// The integral of `x^-skew`, up to a constant.
fn area(x: f64, skew: f64) -> f64 {
    let log = x.ln();
    ratio((1.0 - skew) * log, f64::exp_m1) * log
}

/// The inverse of [`area`].
fn inverse(area: f64, skew: f64) -> f64 {
    let scaled = (area * (1.0 - skew)).max(-1.0);
    (ratio(scaled, f64::ln_1p) * area).exp()
}

/// `f(x) / x`, whose limit at 0 is 1 for both functions used here.
fn ratio(x: f64, f: impl Fn(f64) -> f64) -> f64 {
    if x.abs() > 1e-8 {
        f(x) / x
    } else {
        1.0 - x / 2.0
    }
}
