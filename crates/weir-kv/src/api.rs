//! What the routes of a store take and answer.

pub mod line;
pub(crate) mod v0;
pub(crate) mod v1;

use bytes::Bytes;
use weir_gateway::service::Answer;
use weir_http::form;

use crate::coordinator::Quorum;

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

/// How large a cluster is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    /// Of a key, unless a request says otherwise.
    pub(crate) replicas: usize,
}

impl Size {
    #[cfg(test)]
    pub(crate) fn whole(nodes: usize) -> Self {
        let replicas = nodes;
        Self { nodes, replicas }
    }
}

/// The parameters of a query.
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub(crate) fn read(query: &[u8]) -> Result<Self, Refusal> {
        let parameters = form::parameters(query);
        parameters
            .map(Self)
            .map_err(|error| Refusal::bad(format!("the query is broken: {error}")))
    }

    pub(crate) fn find(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let mut found = self.0.iter().filter(|(own, _)| own == name);
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => Err(Refusal::bad(format!("{name} is there twice"))),
            (first, _) => Ok(first.map(|(_, value)| value.as_str())),
        }
    }

    /// Whether there are only these: one that is misspelled would be left out without a word.
    pub(crate) fn expect_only(&self, names: &[&str]) -> Result<(), Refusal> {
        let other = self.0.iter().find(|(own, _)| !names.contains(&&**own));
        match other {
            None => Ok(()),
            Some((other, _)) if names.is_empty() => Err(Refusal::bad(format!(
                "{other} is no parameter here: there are none"
            ))),
            Some((other, _)) => {
                let names = names.join(", ");
                Err(Refusal::bad(format!(
                    "{other} is no parameter here: there are {names}"
                )))
            }
        }
    }

    /// How many replicas are asked and have to answer: those that a key has and more than half of them, if nothing else is said.
    pub(crate) fn quorum(&self, Size { nodes, replicas }: Size) -> Result<Quorum, Refusal> {
        let (both, ack, from) = (
            self.find("replicas")?,
            self.find("ack")?,
            self.find("from")?,
        );
        let (ack, from) = match both {
            None => (ack, from),
            Some(_) if ack.is_some() || from.is_some() => {
                return Err(Refusal::bad("either replicas=ACK/FROM, or ack and from"));
            }
            Some(both) => {
                let both = both.split_once('/');
                let (ack, from) = both.ok_or_else(|| Refusal::bad("expected replicas=ACK/FROM"))?;
                (Some(ack), Some(from))
            }
        };
        let number = |name: &str, text: Option<&str>| -> Result<Option<usize>, Refusal> {
            let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
            let parsed = text.map(|text| Some(text).filter(is_number)?.parse().ok());
            match parsed {
                Some(None) => Err(Refusal::bad(format!("{name} is no number"))),
                other => Ok(other.flatten()),
            }
        };
        let from = number("from", from)?.unwrap_or(replicas);
        let ack = number("ack", ack)?.unwrap_or(Quorum::majority(from).ack);
        if from == 0 || from > nodes {
            return Err(Refusal::bad(format!(
                "from is {from}, and there are {nodes} nodes"
            )));
        }
        if ack == 0 || ack > from {
            return Err(Refusal::bad(format!("ack is {ack}, expected 1 to {from}")));
        }
        Ok(Quorum { ack, from })
    }
}

pub(crate) fn not_allowed(allow: &'static str) -> Refusal {
    Refusal {
        status: 405,
        why: format!("this path has only {allow}"),
        allow,
    }
}

pub(crate) fn key(name: &str, value: Option<&str>) -> Result<Bytes, Refusal> {
    match value {
        None | Some("") => Err(Refusal::bad(format!("{name} is missing or empty"))),
        Some(key) if key.len() > KEY_BYTES_MAX => Err(Refusal::bad(format!(
            "{name} has {} bytes, and may have {KEY_BYTES_MAX}",
            key.len()
        ))),
        Some(key) => Ok(Bytes::copy_from_slice(key.as_bytes())),
    }
}
