//! Requests to the control listener of a running gateway, for `weir cache` and `weir reload`: JSON in, JSON out, and
//! one clear sentence when it fails.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::net::ToSocketAddrs as _;

use anyhow::{Context as _, anyhow, ensure};
use serde_json::Value;

use super::client::{Answer, Client};

const TOKEN_VARIABLE: &str = "WEIR_ADMIN_TOKEN";

/// How the gateway is reached.
#[derive(Debug, clap::Args)]
pub(super) struct Connection {
    /// Where the gateway has its admin listener: `listen` of `[admin]` in its config.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9901")]
    pub(super) admin: String,

    /// The token of `[admin]`, if it has one; or in the environment as `WEIR_ADMIN_TOKEN`, where no other user sees it.
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
}

impl Admin {
    pub(super) fn of(connection: &Connection) -> anyhow::Result<Self> {
        let text = &connection.admin;
        let bare = text.strip_prefix("http://").unwrap_or(text);
        let bare = bare.strip_suffix('/').unwrap_or(bare);
        let expected = "expected an address such as 127.0.0.1:9901";
        ensure!(bare.contains(':'), "--admin {text}: {expected}");
        let found = bare.to_socket_addrs();
        let mut found = found.with_context(|| format!("--admin {text}: {expected}"))?;
        let server = found
            .next()
            .with_context(|| format!("--admin {text}: the name has no address"))?;
        let token = connection.token.clone();
        let token = token.or_else(|| std::env::var(TOKEN_VARIABLE).ok());
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
        })
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
        let fields = format!("{}Content-Type: application/json\r\n", self.fields);
        let body = body.to_string();
        let answer = self.client.ask("POST", path, &fields, body.as_bytes());
        self.understand(answer)
    }

    /// The error when the answer does not come from weir.
    pub(super) fn is_no_weir(&self) -> anyhow::Error {
        anyhow!(
            "what answers on {} is not the admin listener of a weir that knows this; name that with --admin",
            self.address
        )
    }

    fn understand(&self, answer: std::io::Result<Answer>) -> anyhow::Result<Value> {
        let address = &self.address;
        let answer = answer.map_err(|error| match error.kind() {
            ErrorKind::ConnectionRefused => anyhow!(
                "nothing listens on {address}: start the gateway with `[admin]` and `listen = \"{address}\"` in its config, \
                 or name its admin listener with --admin"
            ),
            ErrorKind::InvalidData => self.is_no_weir(),
            _ => anyhow!("no answer from {address}: {error}"),
        })?;
        let body = serde_json::from_slice::<Value>(&answer.body).ok();
        let said = body.as_ref().and_then(|body| body["error"].as_str());
        match (answer.status, said, &body) {
            (200, _, Some(_)) => Ok(body.unwrap_or_default()),
            (401, ..) => Err(anyhow!(
                "the admin listener on {address} asks for its token: give it with --token or in {TOKEN_VARIABLE}"
            )),
            (_, Some(said), _) => Err(anyhow!("{said}")),
            _ => Err(self.is_no_weir()),
        }
    }
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
