//! `--faults`: a replica that can be made bad while it runs, and well again, to test what stands in front of it.
//!
//! `POST /fault?mode=fail` makes every path but this one answer 500. `slow` makes it answer two seconds later, and
//! `hang` not until the mode changes; `none` ends all of that. `GET /fault` tells the mode and how many requests came
//! since the start, without those for `/healthz`. Anyone who reaches the replica may do this, so it is off by default.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::{Method, Response};
use tokio::sync::watch;

use super::functions::{self, Function, Route};
use super::payload::Payload;

pub(super) const PATH: &str = "/fault";
/// By how much `slow` is slower.
const SLOW: Duration = Duration::from_secs(2);

/// What is wrong with the replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    None,
    Fail,
    Slow,
    Hang,
}

const MODES: [(&str, Mode); 4] = [
    ("none", Mode::None),
    ("fail", Mode::Fail),
    ("slow", Mode::Slow),
    ("hang", Mode::Hang),
];

/// The mode of a replica, and how many requests came.
#[derive(Debug)]
pub(super) struct Faults {
    mode: watch::Sender<Mode>,
    requests: AtomicU64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            mode: watch::Sender::new(Mode::None),
            requests: AtomicU64::new(0),
        }
    }
}

impl Faults {
    /// Answers a request for [`PATH`].
    pub(super) fn answer(&self, method: &Method, query: Option<&str>) -> Response<Payload> {
        if *method == Method::POST {
            let asked = query.and_then(|query| query.strip_prefix("mode="));
            let known = MODES.iter().find(|(name, _)| Some(*name) == asked);
            let Some((_, mode)) = known else {
                let names = MODES.map(|(name, _)| name).join(", ");
                return functions::bad_request(format!("expected ?mode= and one of {names}\n"));
            };
            self.mode.send_replace(*mode);
        }
        let mode = *self.mode.borrow();
        let name = MODES.iter().find(|(_, known)| *known == mode);
        let name = name.map_or("", |(name, _)| name);
        let requests = self.requests.load(Ordering::Relaxed);
        functions::json(format!("{{\"mode\":\"{name}\",\"requests\":{requests}}}\n"))
    }

    /// Applies the mode to a request: it may have to wait, and may get another answer.
    pub(super) async fn befall(&self, route: Route) -> Option<Response<Payload>> {
        if route != Route::To(Function::Health) {
            self.requests.fetch_add(1, Ordering::Relaxed);
        }
        let mode = *self.mode.borrow();
        match mode {
            Mode::None => {}
            Mode::Fail => return Some(functions::failed_on_purpose()),
            Mode::Slow => tokio::time::sleep(SLOW).await,
            Mode::Hang => {
                // The sender is a field of this replica, so it lives as long as anybody waits.
                let _ = self
                    .mode
                    .subscribe()
                    .wait_for(|mode| *mode != Mode::Hang)
                    .await;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(faults: &Faults, mode: &str) -> u16 {
        let query = format!("mode={mode}");
        faults.answer(&Method::POST, Some(&query)).status().as_u16()
    }

    #[test]
    fn a_mode_lasts_until_the_next_and_health_checks_are_not_counted() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let faults = Faults::default();
        runtime.block_on(async {
            let (page, health) = (Route::To(Function::Page), Route::To(Function::Health));
            assert!(faults.befall(page).await.is_none());
            assert_eq!(set(&faults, "fail"), 200);
            for route in [page, health, Route::Unknown] {
                let response = faults.befall(route).await.expect("another answer");
                assert_eq!(response.status(), 500);
            }
            assert_eq!(set(&faults, "slow"), 200);
            let asked = tokio::time::Instant::now();
            assert!(faults.befall(page).await.is_none());
            assert_eq!(asked.elapsed(), SLOW);
            assert_eq!(set(&faults, "hang"), 200);
            let waiting = tokio::time::timeout(Duration::from_secs(3600), faults.befall(page));
            assert!(waiting.await.is_err());
            let (answer, status) = tokio::join!(faults.befall(page), async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                set(&faults, "none")
            });
            assert!(answer.is_none());
            assert_eq!(status, 200);
            assert_eq!(set(&faults, "of the mind"), 400);
        });
        assert_eq!(faults.requests.load(Ordering::Relaxed), 6);
    }
}
