//! A store behind a gateway, asked over `/v1`.

mod by_batch;

use std::fmt::Write as _;
use std::io;
use std::net::ToSocketAddrs as _;

use anyhow::{Context as _, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use weir_http::host::Authority;
use weir_kv::api::line::Line;
use weir_kv::client::{DeleteOptions, Entry, PutOptions, Written};
use weir_kv::condition::{self, Condition, Tags};
use weir_kv::frame::Span;
use weir_kv::version::Version;

use self::by_batch::fits_a_path;
use super::store::Take;
use crate::commands::client::{Answer, Client};

/// Keys of a range in one answer.
const LIMIT_MAX: u64 = 1_000_000;
/// How the store says that there is no key, which tells it from a gateway that has no such route.
const NO_KEY: &[u8] = b"there is no such key";

pub(super) struct Http {
    client: Client,
    url: String,
}

impl Http {
    pub(super) fn to(url: &str) -> anyhow::Result<Self> {
        let expected = || {
            format!(
                "--url {url}: expected an address such as http://127.0.0.1:8080, without a path"
            )
        };
        let authority = url.strip_prefix("http://").with_context(expected)?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let parsed = Authority::parse(authority.as_bytes()).map_err(|_| anyhow!(expected()))?;
        let has_port = authority.len() > parsed.name().len();
        let port = if has_port { "" } else { ":80" };
        let found = format!("{authority}{port}").to_socket_addrs();
        let mut found = found.with_context(|| format!("--url {url}"))?;
        let server = found
            .next()
            .with_context(|| format!("--url {url}: the name has no address"))?;
        Ok(Self {
            client: Client::named(server, authority.to_owned()),
            url: url.to_owned(),
        })
    }

    pub(super) fn get(&mut self, key: &[u8]) -> anyhow::Result<Option<Entry>> {
        if !fits_a_path(key) {
            return self.get_by_batch(key);
        }
        let answer = self.ask("GET", &target(key), "", b"")?;
        match answer.status {
            200 => {
                let expires_ms = answer.field("weir-expires-ms");
                let entry = Entry {
                    version: self.version(&answer)?,
                    expires_ms: expires_ms.and_then(|text| text.parse().ok()),
                    value: answer.body.into(),
                };
                Ok(Some(entry))
            }
            404 if answer.body.starts_with(NO_KEY) => Ok(None),
            _ => Err(self.refused(answer.status, &answer.body)),
        }
    }

    pub(super) fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        options: &PutOptions,
    ) -> anyhow::Result<Written> {
        if !fits_a_path(key) {
            return self.put_by_batch(key, value, options);
        }
        let mut target = target(key);
        if let Some(ttl) = options.ttl {
            let _ = write!(target, "?ttl={}ms", ttl.as_millis());
        }
        let fields = fields(&options.condition);
        let answer = self.ask("PUT", &target, &fields, value)?;
        self.written(201, &answer)
    }

    pub(super) fn delete(
        &mut self,
        key: &[u8],
        options: &DeleteOptions,
    ) -> anyhow::Result<Written> {
        if !fits_a_path(key) {
            return self.delete_by_batch(key, &options.condition);
        }
        let fields = fields(&options.condition);
        let answer = self.ask("DELETE", &target(key), &fields, b"")?;
        self.written(204, &answer)
    }

    fn written(&self, done: u16, answer: &Answer) -> anyhow::Result<Written> {
        match answer.status {
            // A deletion has no tag.
            204 if done == 204 => Ok(Written::Done(Version::default())),
            status if status == done => Ok(Written::Done(self.version(answer)?)),
            412 => {
                let entry = self.version(answer).ok().map(|version| Entry {
                    value: Bytes::new(),
                    version,
                    expires_ms: None,
                });
                Ok(Written::Unmet(entry))
            }
            status => Err(self.refused(status, &answer.body)),
        }
    }

    /// An answer may end before the limit does, and says then where to go on.
    pub(super) fn scan(&mut self, span: &Span, limit: u64, take: Take<'_>) -> anyhow::Result<()> {
        let (mut rest, mut left) = (span.clone(), limit);
        loop {
            let (count, next) = self.part(&rest, left.min(LIMIT_MAX), take)?;
            left = left.saturating_sub(count);
            let Some(next) = next else {
                return Ok(());
            };
            if left == 0 {
                return Ok(take(Line::Next(next))?);
            }
            if next <= rest.from {
                bail!("{} sends what is no range", self.url);
            }
            rest.from = next;
        }
    }

    /// What one answer has of a range: so many entries go to `take`, and the rest begins with this key.
    fn part(
        &mut self,
        span: &Span,
        limit: u64,
        take: Take<'_>,
    ) -> anyhow::Result<(u64, Option<Bytes>)> {
        let target = range(span, limit);
        let (mut lines, mut count, mut next) = (Lines::default(), 0, None);
        let asked = ("GET", &*target, "", &b""[..]);
        let answer = self.client.ask_for(asked, &mut |status, bytes| {
            if status != 200 {
                lines.rest.extend_from_slice(bytes);
                return Ok(());
            }
            lines.add(bytes, &mut |line| match line {
                Line::Next(key) => {
                    next = Some(key);
                    Ok(())
                }
                entry @ Line::Entry(..) => {
                    count += 1;
                    take(entry)
                }
            })
        });
        let answer = answer.map_err(|error| self.silent(&error))?;
        match answer.status {
            200 if lines.rest.is_empty() => Ok((count, next)),
            200 => bail!("{} sends what is no range", self.url),
            status => Err(self.refused(status, &lines.rest)),
        }
    }

    fn ask(
        &mut self,
        method: &str,
        target: &str,
        fields: &str,
        body: &[u8],
    ) -> anyhow::Result<Answer> {
        let answer = self.client.ask(method, target, fields, body);
        answer.map_err(|error| self.unanswered(&error, method == "GET"))
    }

    fn unanswered(&self, error: &io::Error, is_read: bool) -> anyhow::Error {
        if is_read {
            return self.silent(error);
        }
        self.silent(error)
            .context("it is unknown whether it was written")
    }

    fn silent(&self, error: &io::Error) -> anyhow::Error {
        anyhow!("no answer from {}: {error}", self.url)
    }

    fn version(&self, answer: &Answer) -> anyhow::Result<Version> {
        let tag = answer.field("etag");
        let version = tag.and_then(|tag| condition::version_of(tag.as_bytes()));
        version.with_context(|| self.is_no_store())
    }

    fn is_no_store(&self) -> String {
        format!("what answers on {} is no store of weir", self.url)
    }

    fn refused(&self, status: u16, body: &[u8]) -> anyhow::Error {
        let url = &self.url;
        if status == 404 {
            return anyhow!(
                "no store answers on {url}: its config needs a route with `path = \"/v1/{{*rest}}\"` and `kv = true`"
            );
        }
        let why = String::from_utf8_lossy(body);
        anyhow!("{url} answers {status}: {}", why.trim())
    }
}

/// Lines of a range, cut out of what comes.
#[derive(Default)]
struct Lines {
    /// What has no end yet.
    rest: Vec<u8>,
}

impl Lines {
    fn add(&mut self, bytes: &[u8], take: Take<'_>) -> io::Result<()> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = Line::read(&self.rest);
                take(line.ok_or(io::ErrorKind::InvalidData)?)?;
                self.rest.clear();
            }
        }
        Ok(())
    }
}

fn target(key: &[u8]) -> String {
    format!("/v1/kv/{}", encoded(key))
}

/// The target of a range.
fn range(span: &Span, limit: u64) -> String {
    let mut target = format!("/v1/range?limit={limit}");
    let ends = [("start", Some(&span.from)), ("end", span.to.as_ref())];
    for (name, end) in ends {
        let Some(end) = end.filter(|end| !end.is_empty()) else {
            continue;
        };
        let _ = if std::str::from_utf8(end).is_ok() {
            write!(target, "&{name}={}", encoded(end))
        } else {
            let end = BASE64.encode(end);
            write!(target, "&{name}_base64={}", encoded(end.as_bytes()))
        };
    }
    target
}

fn fields(condition: &Condition) -> String {
    let conditions = [
        ("If-Match", &condition.matches),
        ("If-None-Match", &condition.matches_none),
    ];
    let mut fields = String::new();
    for (name, condition) in conditions {
        if let Some(condition) = condition {
            let _ = write!(fields, "{name}: {}\r\n", tags(condition));
        }
    }
    fields
}

/// Entity tags as a condition has them.
fn tags(tags: &Tags) -> String {
    match tags {
        Tags::Any => "*".to_owned(),
        Tags::These(versions) => {
            let tags: Vec<_> = versions.iter().map(|it| condition::tag(*it)).collect();
            tags.join(", ")
        }
    }
}

/// Bytes, encoded for a path or a query.
fn encoded(bytes: &[u8]) -> String {
    let mut encoded = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
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
    fn a_url_has_a_host_and_no_path() {
        for url in [
            "http://127.0.0.1:8080",
            "http://127.0.0.1:8080/",
            "http://[::1]",
        ] {
            assert!(Http::to(url).is_ok(), "{url}");
        }
        for url in [
            "",
            "127.0.0.1:80",
            "https://127.0.0.1",
            "http://",
            "http://a/b",
            "http://u@127.0.0.1",
        ] {
            assert!(Http::to(url).is_err(), "{url}");
        }
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        let text = b"{\"next\":\"a\"}\n{\"next\":\"b\"}\n";
        for cut in 0..text.len() {
            let (mut lines, mut taken) = (Lines::default(), Vec::new());
            for part in [&text[..cut], &text[cut..]] {
                let added = lines.add(part, &mut |line| {
                    taken.push(line);
                    Ok(())
                });
                added.expect("lines");
            }
            assert_eq!(taken, ["a", "b"].map(|key| Line::Next(key.into())));
            assert!(lines.rest.is_empty());
        }
        assert!(Lines::default().add(b"x\n", &mut |_| Ok(())).is_err());
    }

    #[test]
    fn a_key_is_one_segment_of_a_path() {
        assert_eq!(target(b"a/b c\xff%"), "/v1/kv/a%2Fb%20c%FF%25");
    }
}
