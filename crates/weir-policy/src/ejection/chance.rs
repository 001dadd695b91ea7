//! The probability that an endpoint is as healthy as its siblings, after what it has shown.
//!
//! Requests also fail and are slow for reasons of their own. So every test here has the same null hypothesis: the
//! endpoint does as its siblings do on traffic that they share, and its other traffic (`unlike`) may all be bad. Only a
//! result less likely than [`UNLIKELY`] under that hypothesis speaks against the endpoint.

/// With ten checks a second and windows of seconds, chance ejects an endpoint of a service with errors once in weeks.
const UNLIKELY: f64 = 1e-6;

/// The same probability as standard deviations of a rank sum.
const SLOWER_BY: f64 = 4.75;

/// The longest row that is examined: a result that is likely by then stays likely.
const ROW_MAX: u32 = 200;

/// The prior for siblings that have shown nothing: this much of one request was bad. Most services are healthy most of
/// the time.
const PRIOR: f64 = 0.05;

/// A number of requests, and how many of them were bad.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Shown {
    pub(super) requests: f64,
    pub(super) bad: f64,
}

impl Shown {
    /// The share of bad requests, from what was shown and the prior.
    pub(super) fn share(self) -> f64 {
        let share = (self.bad + PRIOR) / (self.requests + 1.0);
        share.clamp(0.0, 1.0)
    }

    pub(super) fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.bad += other.bad;
    }

    /// What is left without the share that is `unlike`, if as many bad requests as possible belong to that share.
    pub(super) fn alike(self, unlike: f64) -> Self {
        Self {
            requests: self.requests * (1.0 - unlike),
            bad: (self.bad - self.requests * unlike).max(0.0),
        }
    }

    /// What is left without `other`.
    pub(super) fn without(self, other: Self) -> Self {
        Self {
            requests: (self.requests - other.requests).max(0.0),
            bad: (self.bad - other.bad).max(0.0),
        }
    }
}

/// The probability that a request to a healthy endpoint is bad: that of its siblings, or 1 for a request that is
/// `unlike` theirs.
pub(super) fn healthy(likelihood: f64, unlike: f64) -> f64 {
    unlike + (1.0 - unlike) * likelihood
}

/// Whether `bad` bad requests `among` a number of them are not chance, compared with what siblings have shown. In a
/// row, all are bad.
///
/// The failure probability of a healthy endpoint is not known. It is learned from its siblings, and from each bad
/// request as well (the beta-binomial distribution). So a failure that begins everywhere at once is no evidence against
/// the endpoint that shows it first.
pub(super) fn is_no_chance(bad: u32, among: f64, unlike: f64, siblings: Shown) -> bool {
    let is_row = among <= f64::from(bad);
    let bad = bad.min(ROW_MAX);
    let among = if is_row { f64::from(bad) } else { among };
    let mut seen = siblings;
    let mut likelihood = 1.0;
    for number in 0..bad {
        likelihood *= healthy(seen.share(), unlike);
        // The number of ways to choose them.
        let number = f64::from(number);
        likelihood *= (among - number).max(1.0) / (f64::from(bad) - number);
        seen.add(Shown {
            requests: 1.0,
            bad: 1.0,
        });
    }
    likelihood <= UNLIKELY
}

/// Whether an endpoint fails more often than its siblings by more than chance: the likelihood ratio of two shares to
/// one (the G-test).
pub(super) fn fails_more(own: Shown, siblings: Shown) -> bool {
    let share = |shown: Shown| shown.bad / shown.requests.max(1.0);
    if share(own) <= share(siblings) {
        return false;
    }
    let together = (own.bad + siblings.bad) / (own.requests + siblings.requests).max(1.0);
    let evidence = |shown: Shown| shown.requests * divergence(share(shown), together);
    evidence(own) + evidence(siblings) >= -UNLIKELY.ln()
}

/// The Kullback-Leibler divergence between two shares, in nats.
fn divergence(share: f64, other: f64) -> f64 {
    let term = |p: f64, q: f64| {
        if p > 0.0 {
            p * (p / q.max(1e-12)).ln()
        } else {
            0.0
        }
    };
    term(share, other) + term(1.0 - share, 1.0 - other)
}

/// Whether latencies are longer than others by more than chance (the test of Mann and Whitney). `longer` is how often
/// one of `own` is longer than one of the `others`; ties count half.
pub(super) fn is_slower(longer: f64, own: f64, unlike: f64, others: f64) -> bool {
    let deviation = ((own + others + 1.0) / (12.0 * own * others).max(1e-9)).sqrt();
    longer > healthy(0.5, unlike) + SLOWER_BY * deviation
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bad: u32, requests: u32) -> Shown {
        Shown {
            requests: f64::from(requests),
            bad: f64::from(bad),
        }
    }

    #[test]
    fn failures_in_a_row_say_the_less_the_more_siblings_fail() {
        // (siblings' failures, requests, how many in a row are needed)
        let table = [
            (0, 0, None),
            (0, 5, Some(12)),
            (0, 10, Some(7)),
            (0, 20, Some(5)),
            (0, 100, Some(3)),
            (20, 100, Some(10)),
            (50, 100, Some(23)),
        ];
        for (bad, requests, needed) in table {
            let siblings = shown(bad, requests);
            let enough =
                (1..100).find(|&in_a_row| is_no_chance(in_a_row, in_a_row.into(), 0.0, siblings));
            assert_eq!(enough, needed, "{bad} of {requests}");
            assert!(!is_no_chance(u32::MAX, u32::MAX.into(), 1.0, siblings));
        }
    }

    #[test]
    fn shares_differ_by_more_than_chance() {
        // (own, unlike, siblings', whether it fails more)
        let table = [
            (shown(36, 90), 0.0, shown(0, 180), true),
            (shown(4, 10), 0.0, shown(0, 20), false),
            (shown(10, 10), 0.0, shown(0, 20), true),
            (shown(40, 90), 0.0, shown(60, 180), false),
            (shown(36, 90), 0.4, shown(0, 180), false),
            (shown(90, 90), 0.4, shown(0, 180), true),
            (shown(0, 90), 0.0, shown(90, 180), false),
        ];
        for (own, unlike, siblings, expected) in table {
            let found = fails_more(own.alike(unlike), siblings);
            assert_eq!(found, expected, "{own:?} {siblings:?}");
        }
    }

    /// Equal endpoints, checked independently.
    #[test]
    fn equals_do_not_differ() {
        let mut random = fastrand::Rng::with_seed(1);
        for share in [0.01, 0.1, 0.3, 0.5] {
            let mut failures = |of: u32| {
                let bad = (0..of).filter(|_| random.f64() < share).count();
                shown(bad as u32, of)
            };
            for _ in 0..20_000 {
                let (own, siblings) = (failures(40), failures(80));
                assert!(!fails_more(own, siblings), "{own:?} {siblings:?}");
            }
        }
    }
}
