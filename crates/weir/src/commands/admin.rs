//! Requests to the control listener of a running gateway, for `weir cache`, `weir upstream` and `weir reload`: JSON in, JSON out, and
//! one clear sentence when it fails.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::net::ToSocketAddrs as _;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use serde_json::Value;

use super::client::{Answer, Client, reachable};
use super::config_file;
use crate::config;

const TOKEN_VARIABLE: &str = "WEIR_ADMIN_TOKEN";

/// The admin listener of whoever has nothing else in his config.
const USUAL: &str = "127.0.0.1:9901";

/// How the gateway is reached.
#[derive(Debug, clap::Args)]
pub(super) struct Connection {
    /// Where the gateway has its admin listener [default: what its config file says, or 127.0.0.1:9901].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(super) admin: Option<String>,

    /// The gateway's config file, which says where the admin listener is and what its token is; without it `weir.toml` in this directory, or else
    /// `/etc/weir/weir.toml`.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// The token of `[admin]`, if it has one; or in the environment as `WEIR_ADMIN_TOKEN`, where no other user sees it
    /// [default: what its config file says].
    #[arg(long, value_name = "TOKEN")]
    pub(super) token: Option<String>,

    /// Write JSON: one object a line.
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) struct Admin {
    client: Client,
    /// The address, as it was given.
    address: String,
    /// Header lines that go with each request.
    fields: String,
    /// What else may help when it cannot be asked.
    advice: &'static str,
}

impl Admin {
    pub(super) fn of(connection: &Connection) -> anyhow::Result<Self> {
        Self::named_by(None, connection)
    }

    /// The same when the config file may be named by `file`.
    pub(super) fn named_by(file: Option<&Path>, connection: &Connection) -> anyhow::Result<Self> {
        let token = connection.token.clone();
        let named = file.or(connection.config.as_deref());
        if let Some(address) = &connection.admin {
            let said = named.and_then(config::admin_of);
            let token = token.or(said.and_then(|said| said.token));
            return Self::at(address, token.or_else(token_of_environment));
        }
        let usual = config_file::usual().filter(|_| named.is_none());
        let said = named.or(usual.as_deref()).and_then(config::admin_of);
        match (said, named) {
            (Some(said), _) => {
                let address = reachable(said.listen).to_string();
                // The token of the environment may be for another gateway than the one of a file that happens to lie here.
                let token = token.or(said.token);
                let token = token.or_else(|| token_of_environment().filter(|_| named.is_some()));
                Self::at(&address, token)
            }
            (None, Some(file)) => {
                let file = file.display();
                anyhow::bail!(
                    "{file} cannot be read, or has no sound [admin]; name the admin listener with --admin"
                )
            }
            (None, None) => Self::at(USUAL, token.or_else(token_of_environment)),
        }
    }

    fn at(text: &str, token: Option<String>) -> anyhow::Result<Self> {
        let bare = text.strip_prefix("http://").unwrap_or(text);
        let bare = bare.strip_suffix('/').unwrap_or(bare);
        let expected = "expected an address such as 127.0.0.1:9901";
        ensure!(bare.contains(':'), "--admin {text}: {expected}");
        let found = bare.to_socket_addrs();
        let mut found = found.with_context(|| format!("--admin {text}: {expected}"))?;
        let server = found
            .next()
            .with_context(|| format!("--admin {text}: the name has no address"))?;
        let mut fields = String::new();
        if let Some(token) = token {
            let is_sound = !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
            ensure!(
                is_sound,
                "the token has characters that no field can have; expected that of [admin]"
            );
            let _ = write!(fields, "Authorization: Bearer {token}\r\n");
        }
        Ok(Self {
            client: Client::patient(server),
            address: bare.to_owned(),
            fields,
            advice: "",
        })
    }

    /// The same with `advice` behind the error when it cannot be asked.
    pub(super) fn with_advice(mut self, advice: &'static str) -> Self {
        self.advice = advice;
        self
    }

    /// Whether it is the listener of the process `pid`. It is, when that says so soon.
    pub(super) fn is_of(&self, pid: NonZeroU32) -> bool {
        let answer = self.client.hasty().ask("GET", "/status", &self.fields, b"");
        let status = answer.and_then(|answer| Ok(serde_json::from_slice::<Value>(&answer.body)?));
        status.is_ok_and(|status| status["pid"] == pid.get())
    }

    pub(super) fn get(&mut self, path: &str, query: &[(&str, &str)]) -> anyhow::Result<Value> {
        let mut target = path.to_owned();
        for (at, (name, value)) in query.iter().enumerate() {
            let separator = if at == 0 { '?' } else { '&' };
            let _ = write!(target, "{separator}{name}={}", encoded(value));
        }
        let answer = self.client.ask("GET", &target, &self.fields, b"");
        self.understand(answer)
    }

    pub(super) fn post(&mut self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send("POST", path, body)
    }

    pub(super) fn send(&mut self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let fields = format!("{}Content-Type: application/json\r\n", self.fields);
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let answer = self.client.ask(method, path, &fields, body.as_bytes());
        self.understand(answer)
    }

    /// The error when the answer does not come from weir.
    pub(super) fn is_no_weir(&self) -> anyhow::Error {
        anyhow!(
            "what answers on {} is not the admin listener of a weir that knows this; name that with --admin{}",
            self.address,
            self.advice
        )
    }

    fn understand(&self, answer: std::io::Result<Answer>) -> anyhow::Result<Value> {
        let (address, advice) = (&self.address, self.advice);
        let answer = answer.map_err(|error| match error.kind() {
            ErrorKind::ConnectionRefused => anyhow!(
                "nothing listens on {address}: start the gateway with `[admin]` and `listen = \"{address}\"` in its config, \
                 or name its admin listener with --admin{advice}"
            ),
            ErrorKind::InvalidData => self.is_no_weir(),
            _ => anyhow!("no answer from {address}: {error}{advice}"),
        })?;
        let body = serde_json::from_slice::<Value>(&answer.body).ok();
        let said = body.as_ref().and_then(|body| body["error"].as_str());
        match (answer.status, said, &body) {
            (200 | 202, _, Some(_)) => Ok(body.unwrap_or_default()),
            (401, ..) => Err(anyhow!(
                "the admin listener on {address} asks for its token: give it with --token or in {TOKEN_VARIABLE}{advice}"
            )),
            (_, Some(said), _) => Err(anyhow!("{said}")),
            _ => Err(self.is_no_weir()),
        }
    }
}

/// A value, encoded for a segment of a path.
pub(super) fn segment(value: &str) -> String {
    encoded(value).replace('/', "%2F")
}

fn token_of_environment() -> Option<String> {
    std::env::var(TOKEN_VARIABLE).ok()
}

/// A value, encoded for a query.
fn encoded(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_leave_its_parameter() {
        assert_eq!(
            encoded("http://a/b?c=d&e%20é"),
            "http://a/b%3Fc%3Dd%26e%2520%C3%A9"
        );
    }
}
