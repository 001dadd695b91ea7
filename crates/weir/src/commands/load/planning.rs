//! Turns flags into a plan. Every mistake is a line that names the flag.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use weir_load::Plan;
use weir_load::arrivals::{Arrivals, Step};
use weir_load::mix::{Mix, Request};
use weir_load::plan::{End, Protocol, Target};
use weir_load::promise::Promise;
use weir_load::search::Search;
use weir_load::template::Template;
use weir_load::tls::{self, Trust};

use super::args::LoadArgs;
use super::url::{Url, connect_address};
use crate::config::{mix, units};

const DURATION_DEFAULT: Duration = Duration::from_secs(10);

/// The plan that the flags ask for.
pub(super) fn plan(args: &LoadArgs) -> anyhow::Result<Plan> {
    let url = Url::parse(&args.url).map_err(anyhow::Error::msg)?;
    let protocol = if args.http2 {
        Protocol::Http2 {
            streams: args.streams,
        }
    } else {
        Protocol::Http1 {
            pipeline: args.pipeline,
        }
    };
    let end = end(args)?;
    let plan = Plan {
        target: target(args, &url, protocol)?,
        protocol,
        mix: match &args.mix {
            Some(path) => mix::load(path)?,
            None => Mix::only(request(args, url.path)?)?,
        },
        arrivals: arrivals(args, end)?,
        end,
        warm_up: args.warm_up,
        connections: args.connections,
        threads: args.threads.unwrap_or_else(|| default_threads(args)),
        keep_alive: !args.no_keep_alive,
        timeout: args.timeout,
        seed: args.seed,
    };
    if args.timeout.is_zero() {
        bail!("--timeout: expected a duration above zero");
    }
    plan.check().map_err(anyhow::Error::msg)?;
    Ok(plan)
}

fn default_threads(args: &LoadArgs) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    cpus.min(args.connections).max(1)
}

fn target(args: &LoadArgs, url: &Url<'_>, protocol: Protocol) -> anyhow::Result<Target> {
    let trust = match (&args.ca, args.insecure) {
        (_, true) => Trust::Anybody,
        (Some(path), false) => Trust::File(path.clone()),
        (None, false) => Trust::System,
    };
    let address = match &args.connect {
        Some(text) => connect_address(text),
        None => url.resolve(),
    };
    Ok(Target {
        address: address.map_err(anyhow::Error::msg)?,
        authority: url.authority.to_owned(),
        tls: url
            .is_tls
            .then(|| tls::client(url.host, &trust, protocol))
            .transpose()
            .map_err(anyhow::Error::msg)?,
    })
}

fn request(args: &LoadArgs, path: &str) -> anyhow::Result<Request> {
    let template =
        |what: &str, text: &[u8]| Template::parse(text).map_err(|error| anyhow!("{what}: {error}"));
    let body = match args.body.as_deref() {
        None => Template::default(),
        Some(text) => match text.strip_prefix('@') {
            None => template("--body", text.as_bytes())?,
            Some(file) => {
                let content =
                    std::fs::read(file).with_context(|| format!("--body: cannot read {file}"))?;
                template(&format!("--body {file}"), &content)?
            }
        },
    };
    let default_method = if args.body.is_some() { "POST" } else { "GET" };
    let headers = args.header.iter().map(|header| {
        let (name, value) = header.split_once(':').with_context(|| {
            format!("--header {header:?}: expected a name and a value such as \"accept: */*\"")
        })?;
        let value = template(&format!("--header {name}"), value.trim().as_bytes())?;
        Ok((name.trim().to_owned(), value))
    });
    Ok(Request {
        weight: 1.0,
        method: args.method.as_deref().unwrap_or(default_method).to_owned(),
        path: template("URL path", path.as_bytes())?,
        headers: headers.collect::<anyhow::Result<_>>()?,
        body,
    })
}

fn end(args: &LoadArgs) -> anyhow::Result<End> {
    if let Some(steps) = &args.steps {
        let lasts: Duration = steps_of(steps)?.iter().map(|step| step.lasts).sum();
        return Ok(End::After(lasts));
    }
    Ok(match args.requests {
        Some(requests) => End::Requests(requests),
        None => End::After(args.duration.unwrap_or(DURATION_DEFAULT)),
    })
}

fn arrivals(args: &LoadArgs, end: End) -> anyhow::Result<Arrivals> {
    if let Some(rate) = args.rate {
        return Ok(Arrivals::Constant(rate));
    }
    if let Some(rate) = args.poisson {
        return Ok(Arrivals::Poisson(rate));
    }
    if let Some(steps) = &args.steps {
        return Ok(Arrivals::Steps(steps_of(steps)?));
    }
    let Some(ramp) = &args.ramp else {
        return Ok(Arrivals::Closed);
    };
    let bounds = ramp
        .split_once("..")
        .and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    match (bounds, end) {
        (Some((from, to)), End::After(over)) => Ok(Arrivals::Ramp { from, to, over }),
        (Some(_), End::Requests(_)) => {
            bail!("--ramp {ramp:?}: a ramp takes a time; give it --duration instead of --requests")
        }
        (None, _) => bail!("--ramp {ramp:?}: expected two rates such as 1000..20000"),
    }
}

fn steps_of(text: &str) -> anyhow::Result<Vec<Step>> {
    let range = units::ABOVE_ZERO..=Duration::from_secs(86_400);
    let steps = text.split(',').map(|step| {
        let (rate, lasts) = step.trim().split_once(':')?;
        Some(Step {
            rate: rate.parse().ok()?,
            lasts: units::duration(lasts, &range).ok()?,
        })
    });
    steps.collect::<Option<Vec<_>>>().with_context(|| {
        format!("--steps {text:?}: expected rates and times such as 1000:5s,2000:5s")
    })
}

/// The search for the highest rate that keeps `promises`.
pub(super) fn search(args: &LoadArgs, promises: Vec<Promise>) -> Search {
    Search {
        promises,
        trial: args.duration.unwrap_or(Search::TRIAL_DEFAULT),
        ..Search::default()
    }
}

/// What the run is judged by; nothing without `--slo`.
pub(super) fn promises(args: &LoadArgs) -> anyhow::Result<Vec<Promise>> {
    let Some(text) = args.slo.as_deref() else {
        return Ok(Vec::new());
    };
    let promises = text.split(',').map(|promise| promise_of(promise.trim()));
    promises.collect()
}

/// `p99=10ms`, or as people write it who come from elsewhere, `p99<10ms` and `p(99)<=10ms`.
fn promise_of(text: &str) -> anyhow::Result<Promise> {
    let expected = || anyhow!("--slo {text:?}: expected promises such as p99=10ms,errors=0.1%");
    let (name, limit) = text.split_once(['=', '<']).ok_or_else(expected)?;
    let (name, limit) = (name.trim(), limit.trim_start_matches('=').trim());
    let part = |percent: &str| {
        let percent = percent.parse().ok();
        let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
        percent.map(|percent: f64| percent / 100.0)
    };
    if name == "errors" {
        let part = limit.strip_suffix('%').and_then(part);
        return Ok(Promise::Errors(part.ok_or_else(expected)?));
    }
    let percent = name.strip_prefix('p').map(|p| p.trim_matches(['(', ')']));
    Ok(Promise::Latency {
        quantile: percent.and_then(part).ok_or_else(expected)?,
        within: within(limit).map_err(|error| anyhow!("--slo {text:?}: {error}"))?,
    })
}

/// A duration as in config files, or in microseconds, which only a measurement needs.
fn within(limit: &str) -> Result<Duration, String> {
    let in_us = ["us", "µs"]
        .iter()
        .find_map(|unit| limit.strip_suffix(unit)?.trim_end().parse::<u32>().ok());
    match in_us {
        Some(us) if us > 0 => Ok(Duration::from_micros(us.into())),
        _ => units::duration(limit, &(units::ABOVE_ZERO..=Duration::from_secs(3600))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_are_read_as_people_write_them() {
        let latency = |quantile, us| Promise::Latency {
            quantile,
            within: Duration::from_micros(us),
        };
        for (text, expected) in [
            ("p99=10ms", latency(0.99, 10_000)),
            ("p99<10ms", latency(0.99, 10_000)),
            ("p(99) <= 10ms", latency(0.99, 10_000)),
            ("p50=1us", latency(0.5, 1)),
            ("p50=250µs", latency(0.5, 250)),
            ("errors=0.5%", Promise::Errors(0.005)),
            ("errors<0.5%", Promise::Errors(0.005)),
        ] {
            assert_eq!(promise_of(text).expect(text), expected);
        }
        for text in [
            "p99",
            "p99=",
            "p99=10",
            "p99=0us",
            "p101=1s",
            "q99=1s",
            "errors=1",
            "errors=101%",
        ] {
            assert!(promise_of(text).is_err(), "{text}");
        }
    }
}
