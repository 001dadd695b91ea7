//! What routes and upstreams say of refusing: what it means, and what is off where nothing is said.

mod broken;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use weir_gateway::settings::template::Template;
use weir_gateway::settings::{
    BreakerRule, Fallback, FallbackOn, HealthCheck, PriorityRule, Probe, RateKey, RateRule,
    Respond, RetryRule, RouteCare, RouteLimits, Settings, StatusSet, UpstreamCare,
};
use weir_policy::breaker::Slow;
use weir_policy::health::{Backoff, check};
use weir_policy::limit::concurrency::{AdaptiveSettings, Limit};
use weir_policy::limit::priority::Priority;
use weir_policy::limit::{concurrency, queue, rate};
use weir_policy::retry::{BudgetSettings, FullJitter};
use weir_policy::{breaker, ejection, hedge};

use super::examples::forward;
use super::{LISTENER, valid};

/// Two upstreams, the second of which says `upstream`, and a route to it that says `route`.
fn settings(upstream: &str, route: &str) -> Settings {
    valid(&format!(
        "{LISTENER}[upstream.backup]\nservers = [\"127.0.0.1:9002\"]\n\
         [upstream.app]\nservers = [\"127.0.0.1:9001\"]\n{upstream}\n\
         [[route]]\npath = \"/{{id}}\"\nupstream = \"app\"\n{route}\n"
    ))
}

fn of_route(route: &str) -> RouteCare {
    let settings = settings("", route);
    *forward(&settings.routes[0]).care.clone()
}

fn limits_of(route: &str) -> RouteLimits {
    settings("", route).routes[0].limits.clone()
}

fn of_upstream(upstream: &str) -> UpstreamCare {
    settings(upstream, "").upstreams[1].care.clone()
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn everything_is_off_unless_it_is_said() {
    assert_eq!(of_route(""), RouteCare::default());
    assert_eq!(of_upstream(""), UpstreamCare::default());
    let off = "breaker = false\nhedge = false\nretry = 0\nprotect = false";
    assert_eq!(of_route(off), RouteCare::default());
    let off = "breaker = false\nconcurrency = false\nejection = false\nprotect = false";
    assert_eq!(of_upstream(off), UpstreamCare::default());
    let defaults = RouteCare::default();
    assert!(limits_of("").rates.is_empty());
    assert!(defaults.breaker.is_none() && defaults.fallback.is_none());
    assert_eq!((defaults.retry.attempts, defaults.retry.hedge), (1, None));
    let defaults = UpstreamCare::default();
    assert!(defaults.concurrency.is_none() && defaults.ejection.is_none());
    assert!(defaults.breaker.is_none() && defaults.health.is_none());
}

#[test]
fn each_switch_means_its_defaults() {
    let breaker = BreakerRule {
        breaker: breaker::Settings::default(),
        failures: StatusSet::server_errors(),
    };
    let care = of_route("breaker = true\nhedge = true\nretry = 2\npriority = \"critical\"");
    assert_eq!(care.breaker.as_ref(), Some(&breaker));
    assert_eq!(care.retry.hedge, Some(hedge::Settings::default()));
    assert_eq!((care.retry.attempts, care.retry.per_try), (3, None));
    assert_eq!(care.retry.statuses, StatusSet(vec![502..=504]));
    assert_eq!(care.priority.otherwise, Priority::Critical);
    assert_eq!(of_route("retry = {}").retry, care_of_an_empty_retry());

    let care = of_upstream(
        "breaker = true\nconcurrency = \"adaptive\"\nejection = true\nhealth = \"tcp\"",
    );
    assert_eq!(care.breaker, Some(breaker));
    assert_eq!(care.concurrency, Some(concurrency::Settings::default()));
    assert_eq!(care.ejection, Some(ejection::Settings::default()));
    assert_eq!(
        care.health,
        Some(HealthCheck {
            check: check::Settings::default(),
            timeout: secs(1),
            probe: Probe::Tcp,
        })
    );
    let fixed = Some(concurrency::Settings {
        limit: Limit::Fixed(64),
        ..concurrency::Settings::default()
    });
    let together = of_upstream("concurrency = 64");
    assert_eq!(
        (together.concurrency, together.is_limited_per_endpoint),
        (fixed, false)
    );
    let each = of_upstream("concurrency = { per_endpoint = 64 }");
    assert_eq!(
        (each.concurrency, each.is_limited_per_endpoint),
        (fixed, true)
    );
}

fn care_of_an_empty_retry() -> RetryRule {
    RetryRule {
        attempts: 3,
        ..RetryRule::default()
    }
}

#[test]
fn every_key_of_a_breaker() {
    let breaker = "breaker = { ratio = 0.3, window = \"20s\", min_requests = 7, open_for = \"1s\", open_for_max = \"2s\", \
                   consecutive = 4, slow = \"500ms\", slow_ratio = 0.9, statuses = [429, \"5xx\", \"400-403\"], probes = 16, \
                   probe_successes = 2, recovery = \"0s\" }";
    let expected = BreakerRule {
        breaker: breaker::Settings {
            window: secs(20),
            min_requests: 7,
            failure_ratio: Some(0.3),
            slow: Some(Slow {
                after: ms(500),
                ratio: 0.9,
            }),
            consecutive_failures: Some(4),
            open_for: Backoff {
                first: secs(1),
                max: secs(2),
            },
            probes: 16,
            probe_successes: 2,
            recovery: Duration::ZERO,
            ..breaker::Settings::default()
        },
        failures: StatusSet(vec![429..=429, 500..=599, 400..=403]),
    };
    assert_eq!(of_route(breaker).breaker, Some(expected.clone()));
    assert_eq!(of_upstream(breaker).breaker, Some(expected));
    let slow = of_route("breaker = { slow = \"2s\" }").breaker;
    let slow = slow.and_then(|rule| rule.breaker.slow);
    let half = Slow {
        after: secs(2),
        ratio: 0.5,
    };
    assert_eq!(slow, Some(half));
}

#[test]
fn a_longer_first_wait_lengthens_the_longest() {
    for (written, first, max) in [
        ("{ open_for = \"10s\" }", 10, 60),
        ("{ open_for = \"2m\" }", 120, 120),
        ("{ open_for_max = \"5s\" }", 5, 5),
        ("{ open_for_max = \"1h\" }", 5, 3600),
    ] {
        let rule = of_route(&format!("breaker = {written}")).breaker;
        let open_for = rule.expect("a breaker").breaker.open_for;
        assert_eq!((open_for.first, open_for.max), (secs(first), secs(max)));
    }
}

#[test]
fn every_key_of_a_rate() {
    let quota = |requests, per, burst| rate::Quota {
        requests,
        per,
        burst,
    };
    let rule = |quota, key, keys_max| RateRule {
        quota,
        key,
        keys_max,
    };
    assert_eq!(
        limits_of("rate = { requests = 100 }").rates,
        [rule(
            quota(100, secs(1), 100),
            RateKey::ClientAddress,
            100_000
        )]
    );
    let rates = limits_of(
        "rate = [{ requests = 5, per = \"1m\", burst = 50, key = \"header:X-Api-Key\", keys = 1000 }, \
         { requests = 6, key = \"path:id\" }, { requests = 7, key = \"route\" }, { requests = 8, key = \"client-address\" }]",
    );
    let header = RateKey::Header("x-api-key".to_owned());
    let parameter = RateKey::Parameter("id".to_owned());
    assert_eq!(
        rates.rates,
        [
            rule(quota(5, secs(60), 50), header, 1000),
            rule(quota(6, secs(1), 6), parameter, 100_000),
            rule(quota(7, secs(1), 7), RateKey::Route, 16),
            rule(quota(8, secs(1), 8), RateKey::ClientAddress, 100_000),
        ]
    );
}

#[test]
fn every_key_of_priorities_retries_and_hedges() {
    for (name, priority) in Priority::NAMES {
        let rule = of_route(&format!("priority = \"{name}\"")).priority;
        assert_eq!((rule.header, rule.otherwise), (None, *priority));
    }
    let care = of_route(
        "priority = { header = \"X-Priority\", default = \"low\" }\n\
         retry = { attempts = 4, statuses = [\"502-504\", 500], per_try = \"1s\", backoff = \"0s\", backoff_max = \"10ms\" }\n\
         hedge = { quantile = 0.99, min = \"5ms\" }",
    );
    assert_eq!(
        care.priority,
        PriorityRule {
            header: Some("x-priority".to_owned()),
            otherwise: Priority::Low,
        }
    );
    assert_eq!(
        care.retry,
        RetryRule {
            attempts: 4,
            statuses: StatusSet(vec![502..=504, 500..=500]),
            per_try: Some(secs(1)),
            backoff: FullJitter {
                first: Duration::ZERO,
                max: ms(10),
            },
            hedge: Some(hedge::Settings {
                quantile: 0.99,
                min: ms(5),
                ..hedge::Settings::default()
            }),
        }
    );
    let budget = of_upstream("retry_budget = { ratio = 0.5, min_per_s = 1.5, ttl = \"5s\" }");
    assert_eq!(
        budget.retry_budget,
        BudgetSettings {
            ratio: 0.5,
            min_per_s: 1.5,
            ttl: secs(5),
        }
    );
}

#[test]
fn every_key_of_a_limit() {
    let care = of_upstream(
        "concurrency = { limit = 64, queue = 128, streams = 5, queue_target = \"5ms\", queue_interval = \"50ms\" }",
    );
    assert_eq!(
        care.concurrency,
        Some(concurrency::Settings {
            limit: Limit::Fixed(64),
            queue: queue::Settings {
                waiters_max: 128,
                target: ms(5),
                interval: ms(50),
            },
            streams_max: 5,
        })
    );
}

#[test]
fn every_key_of_an_upstream() {
    let care = of_upstream(
        "ejection = { max = 0.25, consecutive = 3, window = \"10s\", min_requests = 20, share = 0.5, eject_for = \"1s\", \
         eject_for_max = \"30s\", slow_factor = 3, slow_min = \"50ms\", slow_start = \"5s\" }\n\
         health = { path = \"/healthz?full\", interval = \"500ms\", timeout = \"200ms\", rise = 1, fall = 5, \
         statuses = [204], body = \"ok\", host = \"app.internal:80\" }",
    );
    assert_eq!(
        care.ejection,
        Some(ejection::Settings {
            max_ejected: 0.25,
            consecutive_failures: Some(3),
            window: secs(10),
            min_requests: 20,
            failure_share: 0.5,
            eject_for: Backoff {
                first: secs(1),
                max: secs(30),
            },
            slow_factor: 3.0,
            slow_min: ms(50),
            slow_start: secs(5),
            ..ejection::Settings::default()
        })
    );
    assert_eq!(
        care.health,
        Some(HealthCheck {
            check: check::Settings {
                interval: ms(500),
                rise: 1,
                fall: 5,
            },
            timeout: ms(200),
            probe: Probe::Http {
                path: "/healthz?full".to_owned(),
                host: Some("app.internal:80".to_owned()),
                statuses: StatusSet(vec![204..=204]),
                body: Some("ok".to_owned()),
            },
        })
    );
    let health = of_upstream("health = { path = \"/\" }").health;
    assert_eq!(
        health.expect("a check").probe,
        Probe::Http {
            path: "/".to_owned(),
            host: None,
            statuses: StatusSet(vec![200..=399]),
            body: None,
        }
    );
    let health = of_upstream("health = { tcp = true, interval = \"5s\" }").health;
    let health = health.expect("a check");
    assert_eq!((health.probe, health.check.interval), (Probe::Tcp, secs(5)));
    let adaptive = of_upstream("concurrency = { queue = 0 }").concurrency;
    let adaptive = adaptive.expect("a limit");
    let limit = Limit::Adaptive(AdaptiveSettings::default());
    assert_eq!((adaptive.limit, adaptive.queue.waiters_max), (limit, 0));
}

#[test]
fn protection_is_what_is_not_said_otherwise() {
    let concurrency = Some(concurrency::Settings::default());
    let ejection = Some(ejection::Settings::default());
    let fixed = Some(concurrency::Settings {
        limit: Limit::Fixed(8),
        ..concurrency::Settings::default()
    });
    for (upstream, route, expected) in [
        ("protect = true", "", (concurrency, ejection)),
        ("", "protect = true", (concurrency, ejection)),
        ("protect = true", "protect = false", (concurrency, ejection)),
        ("protect = true\nconcurrency = 8", "", (fixed, ejection)),
        ("concurrency = 8", "protect = true", (fixed, ejection)),
        ("ejection = false", "protect = true", (concurrency, None)),
        ("protect = true\nconcurrency = false", "", (None, ejection)),
    ] {
        let care = &settings(upstream, route).upstreams[1].care;
        let found = (care.concurrency, care.ejection);
        assert_eq!(found, expected, "{upstream:?}, {route:?}");
        let other = settings(upstream, route).upstreams[0].care.clone();
        assert_eq!(other, UpstreamCare::default(), "only its own upstream");
    }
}

#[test]
fn every_key_of_a_fallback() {
    let fallback = |fallback: &str| -> Fallback {
        let care = of_route(&format!("cache = true\nfallback = {fallback}"));
        *care.fallback.expect("a fallback")
    };
    let answer = |status, body: &str, content_type: &str| Respond {
        status,
        body: body.as_bytes().to_vec(),
        headers: vec![("content-type".to_owned(), Template::fixed(content_type))],
    };
    let plain = "text/plain; charset=utf-8";
    for (written, expected) in [
        (
            "{ status = 429, content_type = \"text/plain\", body = \"too many requests\" }",
            answer(429, "too many requests", "text/plain"),
        ),
        ("{ body = \"x\" }", answer(503, "x", plain)),
        (
            "{ json = { error = \"busy\", code = [-1, 1.5, true, 0x10], at = 1979-05-27 } }",
            answer(
                503,
                r#"{"at":"1979-05-27","code":[-1,1.5,true,16],"error":"busy"}"#,
                "application/json",
            ),
        ),
        (
            "{ json = [], content_type = \"application/problem+json\" }",
            answer(503, "[]", "application/problem+json"),
        ),
    ] {
        let read = fallback(written);
        assert_eq!((read.stale, read.upstream), (false, None), "{written}");
        assert_eq!(read.answer, Some(expected), "{written}");
    }
    let empty = Respond {
        status: 204,
        body: Vec::new(),
        headers: Vec::new(),
    };
    assert_eq!(fallback("{ status = 204 }").answer, Some(empty));
    for (on, expected) in [
        ("any", FallbackOn::Any),
        ("refused", FallbackOn::Refused),
        ("failed", FallbackOn::Failed),
    ] {
        assert_eq!(
            fallback(&format!("{{ on = \"{on}\", status = 503 }}")).on,
            expected
        );
    }
    let elsewhere = fallback("{ stale = true, upstream = \"backup\" }");
    assert_eq!(
        elsewhere,
        Fallback {
            on: FallbackOn::Any,
            stale: true,
            upstream: Some(0),
            answer: None,
        }
    );
}

#[test]
fn the_file_of_a_fallback_is_read_and_says_its_type() {
    let directory = TempDirectory::new("fallback");
    for (name, more, content_type) in [
        ("sorry.html", "", "text/html; charset=utf-8"),
        ("sorry.htm", "", "text/html; charset=utf-8"),
        ("sorry.json", "", "application/json"),
        ("sorry.txt", "", "text/plain; charset=utf-8"),
        ("sorry", ", content_type = \"image/png\"", "image/png"),
        (
            "sorry.html",
            ", content_type = \"text/plain\"",
            "text/plain",
        ),
    ] {
        let path = directory.0.join(name);
        fs::write(&path, b"so \xffrry").expect("the directory is there");
        let fallback = format!(
            "fallback = {{ file = {:?}{more} }}",
            path.display().to_string()
        );
        let answer = of_route(&fallback).fallback.and_then(|it| it.answer);
        let answer = answer.expect("an answer");
        assert_eq!((answer.status, &*answer.body), (503, &b"so \xffrry"[..]));
        let field = ("content-type".to_owned(), Template::fixed(content_type));
        assert_eq!(answer.headers, [field], "{name}");
    }
}

/// A directory of this test's own, gone when it is dropped.
pub(super) struct TempDirectory(pub(super) PathBuf);

impl TempDirectory {
    pub(super) fn new(name: &str) -> Self {
        let name = format!("weir-config-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a place for files");
        Self(path)
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
