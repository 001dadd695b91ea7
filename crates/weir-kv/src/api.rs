//! What the routes of a store take and answer.

pub(crate) mod v0;

use weir_gateway::service::Answer;

/// A key has at most so many bytes.
pub const KEY_BYTES_MAX: usize = 1024;

/// Why a request is not carried out: a status, and a sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) why: String,
    /// The methods that there are, for a 405.
    pub(crate) allow: &'static str,
}

impl Refusal {
    pub(crate) fn bad(why: impl Into<String>) -> Self {
        Self {
            status: 400,
            why: why.into(),
            allow: "",
        }
    }

    pub(crate) fn answer(&self) -> Answer {
        let answer = text(self.status, &self.why);
        match self.allow {
            "" => answer,
            allow => answer.with("Allow", allow.as_bytes()),
        }
    }
}

/// It may be tried again in a moment.
pub(crate) fn busy(why: &str) -> Answer {
    text(503, why).with("Retry-After", *b"1")
}

/// An answer with a line of text.
pub(crate) fn text(status: u16, line: &str) -> Answer {
    let answer = Answer::new(status).with("Content-Type", *b"text/plain; charset=utf-8");
    answer.content(format!("{line}\n"))
}
