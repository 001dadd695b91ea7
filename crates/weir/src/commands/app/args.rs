//! The values that the flags of `weir app` accept, as text. How they are used is not known here.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use hyper::Uri;

/// Where the service listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("a path must follow unix:".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text
                .parse()
                .map(Self::Tcp)
                .map_err(|_| "expected IP:PORT or unix:PATH".to_owned()),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// How the times of answers differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Spread {
    Constant,
    Exponential,
    /// This share of the answers takes this many times as long.
    Some(f64, f64),
}

impl Spread {
    /// Draws one time. `delay` is the mean, or the time of most answers.
    pub(super) fn of(self, delay: Duration, rng: &mut fastrand::Rng) -> Duration {
        match self {
            Self::Exponential => delay.mul_f64(-(1.0 - rng.f64()).ln()),
            Self::Some(share, factor) if rng.f64() < share => delay.mul_f64(factor),
            Self::Constant | Self::Some(..) => delay,
        }
    }
}

impl FromStr for Spread {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            || "expected constant, exponential, or SHARE:FACTOR as in 0.1:100".to_owned();
        match text {
            "constant" => Ok(Self::Constant),
            "exponential" => Ok(Self::Exponential),
            _ => {
                let (part, factor) = text.split_once(':').ok_or_else(expected)?;
                let factor = factor
                    .parse()
                    .ok()
                    .filter(|factor| (0.0..=1e6).contains(factor));
                Ok(Self::Some(share(part)?, factor.ok_or_else(expected)?))
            }
        }
    }
}

/// When the service stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pauses {
    lasts: Duration,
    every: Duration,
}

impl Pauses {
    /// For how much longer the service stands still, so long after its start. It pauses at the end of
    /// each period.
    pub(super) fn left_at(self, since_start: Duration) -> Duration {
        let into = since_start.as_nanos() % self.every.as_nanos();
        let left = self.every.saturating_sub(Duration::from_nanos(into as u64));
        if left <= self.lasts {
            left
        } else {
            Duration::ZERO
        }
    }
}

impl FromStr for Pauses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected how long and how often, as in 200ms/2s";
        let (lasts, every) = text.split_once('/').ok_or(expected)?;
        let (lasts, every) = (delay(lasts)?, delay(every)?);
        if lasts.is_zero() || lasts >= every {
            return Err(expected.to_owned());
        }
        Ok(Self { lasts, every })
    }
}

/// A whole number with its unit, `us`, `ms` or `s`; `0` needs none.
pub(super) fn delay(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let expected = || "expected a number and a unit, as in 500us, 20ms or 1s".to_owned();
    let number: u64 = number.parse().map_err(|_| expected())?;
    match unit {
        "us" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "" if number == 0 => Ok(Duration::ZERO),
        _ => Err(expected()),
    }
}

/// A share of one, from 0 to 1.
pub(super) fn share(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "expected a number from 0 to 1, as in 0.25".to_owned())
}

/// Reads the URL of another service.
pub(super) fn http_url(text: &str) -> Result<Uri, String> {
    let url: Uri = text.parse().map_err(|_| "expected a URL".to_owned())?;
    if url.scheme_str() == Some("http") && url.host().is_some_and(|host| !host.is_empty()) {
        Ok(url)
    } else {
        Err("expected a URL that begins with http:// and a host".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_ip_and_port_or_a_unix_path_and_print_as_they_were_written() {
        for text in [
            "127.0.0.1:9001",
            "[::1]:0",
            "unix:app.sock",
            "unix:/run/app.sock",
        ] {
            assert_eq!(
                text.parse::<Listen>().map(|listen| listen.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in [
            "",
            "9001",
            "localhost",
            "127.0.0.1",
            "127.0.0.1:99999",
            "unix:",
        ] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_spread_as_was_asked() {
        let delay = Duration::from_millis(20);
        let mut rng = fastrand::Rng::with_seed(1);
        // (spread, mean in ms, how many of ten thousand take longer than a second)
        let table = [
            ("constant", 20.0, 0),
            ("exponential", 20.0, 0),
            ("0.1:100", 218.0, 1_000),
        ];
        for (text, mean_ms, long) in table {
            let spread: Spread = text.parse().expect("it is one");
            let times: Vec<_> = (0..10_000).map(|_| spread.of(delay, &mut rng)).collect();
            let mean = times.iter().sum::<Duration>().as_secs_f64() / 10.0;
            assert!((mean / mean_ms - 1.0).abs() < 0.1, "{text}: {mean} ms");
            let found = times.iter().filter(|time| time.as_secs() >= 1).count();
            assert!(found.abs_diff(long) <= long / 8, "{text}: {found}");
        }
        for text in ["", "0.1", "2:3", "0.1:x", "even"] {
            assert!(text.parse::<Spread>().is_err(), "{text}");
        }
    }

    #[test]
    fn pauses_come_at_the_end_of_each_period() {
        let pauses: Pauses = "200ms/2s".parse().expect("it is one");
        for (at_ms, left_ms) in [
            (0, 0),
            (1_799, 0),
            (1_800, 200),
            (1_950, 50),
            (2_000, 0),
            (3_900, 100),
        ] {
            let left = pauses.left_at(Duration::from_millis(at_ms));
            assert_eq!(left, Duration::from_millis(left_ms), "at {at_ms} ms");
        }
        for text in ["", "1s", "2s/1s", "0/1s", "1s/x"] {
            assert!(text.parse::<Pauses>().is_err(), "{text}");
        }
    }

    #[test]
    fn delays_have_a_unit() {
        assert_eq!(delay("0"), Ok(Duration::ZERO));
        assert_eq!(delay("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(delay("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(delay("3s"), Ok(Duration::from_secs(3)));
        for text in [
            "",
            "ms",
            "20",
            "-1s",
            "1.5s",
            "20 ms",
            "20msec",
            "99999999999999999999s",
        ] {
            assert!(delay(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_url_has_a_scheme_and_a_host() {
        assert!(http_url("http://127.0.0.1:9002/sendEvent").is_ok());
        for text in [
            "",
            "127.0.0.1:9002",
            "/sendEvent",
            "https://a/",
            "http:///a",
            "a b",
        ] {
            assert!(http_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_share_lies_between_0_and_1() {
        assert_eq!(share("0"), Ok(0.0));
        assert_eq!(share("0.25"), Ok(0.25));
        assert_eq!(share("1"), Ok(1.0));
        for text in ["", "-0.1", "1.01", "NaN", "inf", "30%"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
