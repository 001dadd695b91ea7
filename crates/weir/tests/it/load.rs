//! `weir load`: what it says about servers that answer, and about those that do not as they should.

mod input;
mod live;
mod outcomes;
mod output;
mod search;
mod server;
mod tls;
mod verdict;

use std::process::ExitStatus;

use serde_json::Value;

use crate::harness::tool::{Run, run_to_end};

/// What `weir load` measured, as its JSON says.
#[derive(Debug)]
struct Measured(Value);

impl Measured {
    /// Runs `weir load` with these flags; its exit status is that of its verdict.
    fn by(flags: &[&str]) -> Self {
        let run = load(&[flags, &["--quiet", "--json", "-"]].concat());
        assert_eq!(run.stderr, "", "{flags:?}");
        Self::read(&run.stdout, run.status)
    }

    /// Reads the JSON of a run that ended with `status`.
    fn read(json: &str, status: ExitStatus) -> Self {
        let measured = Self(serde_json::from_str(json).expect("what it writes is JSON"));
        let expected = match measured.0["verdict"].as_str() {
            Some("measured" | "slo kept") => 0,
            Some("slo missed") => 3,
            Some("not valid") => 4,
            Some("no good answer") => 5,
            other => panic!("{other:?}"),
        };
        assert_eq!(status.code(), Some(expected), "{json}");
        measured
    }

    fn requests(&self) -> u64 {
        self.0["requests"].as_u64().expect("a number of requests")
    }

    fn count(&self, outcome: &str) -> u64 {
        let count = &self.0["outcomes"][outcome];
        count
            .as_u64()
            .unwrap_or_else(|| panic!("a count of {outcome}: {}", self.0))
    }

    /// Everything ended like this, and there was something.
    fn assert_all(&self, outcome: &str) {
        assert!(self.requests() > 0, "{}", self.0);
        assert_eq!(
            self.count(outcome),
            self.requests(),
            "{}",
            self.0["outcomes"]
        );
    }
}

/// Runs `weir load` to its end.
fn load(flags: &[&str]) -> Run {
    run_to_end(env!("CARGO_BIN_EXE_weir"), &[&["load"], flags].concat())
}
