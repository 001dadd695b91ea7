//! The decisions of active health checks: when to check next, and when results make an endpoint up or down.
//!
//! The gateway decides what is asked (an HTTP status or body, a TCP connection) and with which deadline. A single
//! result decides nothing: `fall` bad ones in a row take an endpoint down and `rise` good ones bring it back. So one
//! lost packet moves no traffic.

use std::time::Duration;

/// How often to check, and how many results change the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The time from one check to the next, before jitter.
    pub interval: Duration,
    /// Good answers in a row that bring an endpoint up; at least 1 (0 counts as 1).
    pub rise: u32,
    /// Bad answers in a row that take it down; at least 1 (0 counts as 1).
    pub fall: u32,
}

impl Settings {
    /// [`Settings::interval`], unless configured otherwise. It is `HAProxy`'s.
    pub const INTERVAL_DEFAULT: Duration = Duration::from_secs(2);
    /// [`Settings::rise`], unless configured otherwise. It is `HAProxy`'s.
    pub const RISE_DEFAULT: u32 = 2;
    /// [`Settings::fall`], unless configured otherwise. It is `HAProxy`'s.
    pub const FALL_DEFAULT: u32 = 3;

    /// The wait before the first check: a random part of an interval, so that the checks of many endpoints do not begin
    /// together.
    pub fn first_wait(&self, random: &mut fastrand::Rng) -> Duration {
        self.interval.mul_f64(random.f64())
    }

    /// The wait before the next check: the interval, up to a tenth more or less, so that checks of many gateways do not
    /// stay in step.
    pub fn wait(&self, random: &mut fastrand::Rng) -> Duration {
        self.interval.mul_f64(0.9 + 0.2 * random.f64())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            interval: Self::INTERVAL_DEFAULT,
            rise: Self::RISE_DEFAULT,
            fall: Self::FALL_DEFAULT,
        }
    }
}

/// What checks say about one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    is_up: bool,
    /// Results in a row that speak against the current state.
    against: u32,
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

impl Health {
    /// An endpoint that counts as up until checks say otherwise, so that a new gateway serves at once.
    pub fn new() -> Self {
        Self {
            is_up: true,
            against: 0,
        }
    }

    /// Whether it may get requests.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// A check ended well or badly. Returns the new state, if it has changed: whether the endpoint is up.
    pub fn on_check(&mut self, settings: &Settings, is_good: bool) -> Option<bool> {
        if is_good == self.is_up {
            self.against = 0;
            return None;
        }
        self.against += 1;
        let needed = if self.is_up {
            settings.fall
        } else {
            settings.rise
        };
        if self.against < needed.max(1) {
            return None;
        }
        *self = Self {
            is_up: is_good,
            against: 0,
        };
        Some(self.is_up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_some_answers_in_a_row_to_change_anything() {
        // Results, and what each does to the endpoint: up, down, or no change.
        let table = [
            ("good good", "- -"),
            ("bad bad good bad bad", "- - - - -"),
            ("bad bad bad bad", "- - down -"),
            ("bad bad bad good bad good good", "- - down - - - up"),
            ("bad bad bad good good bad", "- - down - up -"),
        ];
        for (answers, expected) in table {
            let mut health = Health::new();
            let changes: Vec<&str> = answers
                .split(' ')
                .map(
                    |answer| match health.on_check(&Settings::default(), answer == "good") {
                        Some(true) => "up",
                        Some(false) => "down",
                        None => "-",
                    },
                )
                .collect();
            assert_eq!(changes.join(" "), expected, "{answers}");
        }
    }

    #[test]
    fn checks_spread_out() {
        let settings = Settings::default();
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..1_000 {
            assert!(settings.first_wait(&mut random) <= Duration::from_secs(2));
            let wait_ms = settings.wait(&mut random).as_millis();
            assert!((1_800..=2_200).contains(&wait_ms), "{wait_ms} ms");
        }
    }
}
