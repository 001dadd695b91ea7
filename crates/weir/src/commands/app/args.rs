//! The values that the flags of `weir app` accept, as text; what they are used for is not known here.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

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
    fn a_share_lies_between_0_and_1() {
        assert_eq!(share("0"), Ok(0.0));
        assert_eq!(share("0.25"), Ok(0.25));
        assert_eq!(share("1"), Ok(1.0));
        for text in ["", "-0.1", "1.01", "NaN", "inf", "30%"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
