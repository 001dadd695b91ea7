//! A gateway in miniature: the rules, called in the order that `lib.rs` tells, over a map instead of stores and a
//! function instead of an origin. It is what a test needs to say "this request, then that one", and an example.

use std::collections::HashMap;

use weir_cache::cache_status::{CacheStatus, Forwarded};
use weir_cache::freshness::Exchanged;
use weir_cache::invalidate::{self, Changed};
use weir_cache::key::{self, Class, Inputs};
use weir_cache::range::{self, Wanted};
use weir_cache::reuse::{self, OriginFailure, Reuse};
use weir_cache::store_rule::{self, Answered};
use weir_cache::stored_head::Arrived;
use weir_cache::validate::{self, HeadMeans, Precondition};
use weir_cache::vary;
use weir_cache::{CachePolicy, RequestControl, StoredHead, Timestamp};
use weir_http::forward::Edits;
use weir_http::head::HeadScan;
use weir_http::{FieldName, HeadLimits, Method, RequestHead, ResponseHead, opening};

const LIMITS: HeadLimits = HeadLimits {
    bytes: 1 << 16,
    fields: 100,
};
const NO_EDITS: Edits<'_> = Edits {
    drops: &[],
    lines: b"",
};

/// A response as text: its head with the empty line, and its body.
pub(crate) type Text = (String, String);

/// Answers a request, or breaks the connection.
pub(crate) type Origin<'o> = &'o mut dyn FnMut(&str) -> Option<Text>;

#[derive(Default)]
pub(crate) struct Miniature {
    pub(crate) policy: CachePolicy,
    pub(crate) stored: HashMap<Vec<u8>, Vec<(StoredHead, String)>>,
}

/// A request, parsed.
struct Asking<'t> {
    text: &'t str,
    head: RequestHead,
    key: Vec<u8>,
    now: Timestamp,
}

impl Asking<'_> {
    fn asked(&self) -> Inputs<'_> {
        let bytes = self.text.as_bytes();
        Inputs {
            scheme: b"http",
            authority: self.head.authority.expect("a Host").of(bytes),
            path: self.head.target.path.of(bytes),
            query: self.head.target.query.map(|query| query.of(bytes)),
            fields: self.head.view(bytes),
        }
    }

    fn target(&self) -> &[u8] {
        self.head.target_text.of(self.text.as_bytes())
    }

    fn control(&self) -> RequestControl {
        RequestControl::of(self.asked().fields)
    }
}

impl Miniature {
    /// Answers `text`, the head of a request without a body, at `now`.
    pub(crate) fn ask(&mut self, now: Timestamp, text: &str, origin: Origin<'_>) -> Text {
        let mut head = RequestHead::default();
        head.parse(text.as_bytes(), &mut HeadScan::default(), LIMITS)
            .expect("the test's request is valid");
        let key = Vec::new();
        let mut asking = Asking {
            text,
            head,
            key,
            now,
        };
        let mut key = Vec::new();
        key::write(&self.policy.key, &asking.asked(), None, &mut key);
        asking.key = key;
        match key::class(asking.head.method, false, &asking.asked(), &self.policy) {
            Ok(Class::Get) => self.look_up(&asking, origin),
            Ok(Class::PostByBody) | Err(_) => {
                let status = CacheStatus {
                    forwarded: Some(Forwarded::Method),
                    ..CacheStatus::default()
                };
                self.forward(&asking, &[], status, origin)
            }
        }
    }

    fn look_up(&mut self, asking: &Asking<'_>, origin: Origin<'_>) -> Text {
        let fields = asking.asked().fields;
        let variants = self.stored.get(&asking.key).cloned().unwrap_or_default();
        let each = variants
            .iter()
            .map(|(head, _)| (head.secondary(), &head.meta));
        let order = self.policy.language_order_matters;
        let mut status = CacheStatus::default();
        let Some(at) = vary::choose(each, fields, order, &mut Vec::new()) else {
            if !reuse::may_ask_origin(&asking.control(), &self.policy) {
                return gateway_says(504);
            }
            let others: Vec<_> = variants.iter().map(|(head, _)| head).collect();
            status.forwarded = Some(if others.is_empty() {
                Forwarded::UriMiss
            } else {
                Forwarded::VaryMiss
            });
            return self.forward(asking, &others, status, origin);
        };
        let (head, body) = &variants[at];
        match reuse::decide(&head.meta, &asking.control(), &self.policy, asking.now) {
            Reuse::GatewayTimeout => gateway_says(504),
            Reuse::Revalidate(why) => {
                status.forwarded = Some(Forwarded::of(why));
                self.forward(asking, &[head], status, origin)
            }
            usable => {
                let answer = self.answer(asking, head, body, status, origin);
                let is_refreshed = usable == Reuse::StaleWhileRevalidate
                    || usable == Reuse::Fresh { refresh: true };
                if is_refreshed {
                    self.forward(asking, &[head], status, origin);
                }
                answer
            }
        }
    }

    /// Sends a request on, with the validators of `stored`, and stores what comes of it.
    fn forward(
        &mut self,
        asking: &Asking<'_>,
        stored: &[&StoredHead],
        mut status: CacheStatus,
        origin: Origin<'_>,
    ) -> Text {
        let mut conditions = Vec::new();
        let is_conditional = validate::write_conditional(stored, &mut conditions);
        let sent = if is_conditional || !stored.is_empty() {
            with_conditions(asking, &conditions)
        } else {
            asking.text.to_owned()
        };
        let failed = |miniature: &mut Self, failure| {
            let [only] = stored else { return None };
            let (meta, control) = (&only.meta, &asking.control());
            reuse::may_serve_on_failure(meta, control, &miniature.policy, failure, asking.now)
                .then(|| miniature.body_of(asking, only))
        };
        let Some((text, body)) = origin(&sent) else {
            return match failed(self, OriginFailure::Unreachable) {
                Some(body) => self.answer(asking, stored[0], &body, status, origin),
                None => gateway_says(502),
            };
        };
        let mut response = ResponseHead::default();
        response
            .parse(
                text.as_bytes(),
                &mut HeadScan::default(),
                LIMITS,
                asking.head.method,
            )
            .expect("the test's response is valid");
        if let Some(body) = failed(self, OriginFailure::Status(response.status)) {
            return self.answer(asking, stored[0], &body, status, origin);
        }
        if response.status == 304 && is_conditional {
            status.forwarded_status = Some(304);
            return self.confirm(asking, stored, &response, &text, status, origin);
        }
        if let (Method::Head, 200, [only]) = (asking.head.method, response.status, stored) {
            return match validate::compare_head(only, response.view(text.as_bytes())) {
                HeadMeans::Unchanged => {
                    self.confirm(asking, stored, &response, &text, status, origin)
                }
                HeadMeans::Changed => {
                    self.drop(&asking.key, only);
                    (text, body)
                }
                HeadMeans::Nothing => (text, body),
            };
        }
        self.invalidate(asking, &response, &text);
        status.stored = self.store(asking, &response, &text, &body);
        let mut line = Vec::new();
        status.write(&mut line);
        let line = String::from_utf8(line).expect("ASCII");
        (
            text.replacen("\r\n\r\n", &format!("\r\n{line}\r\n"), 1),
            body,
        )
    }

    fn confirm(
        &mut self,
        asking: &Asking<'_>,
        stored: &[&StoredHead],
        response: &ResponseHead,
        text: &str,
        status: CacheStatus,
        origin: Origin<'_>,
    ) -> Text {
        let Some(at) = validate::select(stored, response.view(text.as_bytes())) else {
            return self.forward(asking, &[], status, origin);
        };
        let arrived = Arrived {
            status_text: b"",
            version: response.version,
            response: response.view(text.as_bytes()),
            request: asking.asked().fields,
            has_cookies: asking.asked().fields.has(weir_http::FieldName::Cookie),
            selecting: asking.asked().fields,
        };
        let head = stored[at].freshened(&arrived, at_once(asking.now), &self.policy);
        let body = self.body_of(asking, stored[at]);
        if store_rule::may_stay(&head, &arrived, &self.policy).is_ok() {
            self.keep(&asking.key, head.clone(), body.clone());
        } else {
            self.drop(&asking.key, stored[at]);
        }
        self.answer(asking, &head, &body, status, origin)
    }

    /// Answers with a stored response, as the request's conditions and ranges will have it.
    fn answer(
        &mut self,
        asking: &Asking<'_>,
        head: &StoredHead,
        body: &str,
        status: CacheStatus,
        origin: Origin<'_>,
    ) -> Text {
        let (fields, method, now) = (asking.asked().fields, asking.head.method, asking.now);
        let (mut out, mut lines) = (Vec::new(), Vec::new());
        let mut status_text = head.status_text();
        let mut sent = body;
        let body_bytes = body.len() as u64;
        match validate::evaluate(method, fields, head, now) {
            Precondition::ForOrigin => return self.forward(asking, &[], status, origin),
            Precondition::NotModified => {
                status_text = b"304 Not Modified";
                head.write_not_modified(now, NO_EDITS, &mut lines);
                sent = "";
            }
            Precondition::Holds => match range::resolve(method, fields, head, body_bytes, now) {
                Wanted::Whole | Wanted::Many(_) => head.write(now, NO_EDITS, &mut lines),
                Wanted::One(one) => {
                    status_text = b"206 Partial Content";
                    range::write_single(head, one, body_bytes, now, NO_EDITS, &mut lines);
                    sent = &body[one.first as usize..=one.last as usize];
                }
                Wanted::Unsatisfiable => {
                    status_text = b"416 Range Not Satisfiable";
                    range::write_unsatisfiable(body_bytes, now, NO_EDITS, &mut lines);
                    sent = "";
                }
            },
        }
        opening::begin(status_text, &mut out);
        out.append(&mut lines);
        status.write(&mut out);
        out.extend_from_slice(b"\r\n");
        if method == Method::Head {
            sent = "";
        }
        (
            String::from_utf8(out).expect("the test's heads are text"),
            sent.to_owned(),
        )
    }

    fn store(
        &mut self,
        asking: &Asking<'_>,
        response: &ResponseHead,
        text: &str,
        body: &str,
    ) -> bool {
        let asked = asking.asked();
        let answered = Answered {
            method: asking.head.method,
            is_keyed_by_body: false,
            target: asking.target(),
            authority: asked.authority,
            request: asked.fields,
            has_cookies: asked.fields.has(weir_http::FieldName::Cookie),
            status: response.status,
            response: response.view(text.as_bytes()),
            body_bytes: Some(body.len() as u64),
            exchanged: at_once(asking.now),
        };
        let Ok(meta) = store_rule::decide(&answered, &self.policy) else {
            return false;
        };
        let arrived = Arrived {
            status_text: response.status_text.of(text.as_bytes()),
            version: response.version,
            response: answered.response,
            request: asked.fields,
            has_cookies: asked.fields.has(weir_http::FieldName::Cookie),
            selecting: asked.fields,
        };
        let mut head = StoredHead::new(&arrived, meta, &self.policy);
        head.complete(body.len() as u64);
        self.keep(&asking.key, head, body.to_owned());
        true
    }

    /// A new variant replaces the one with its secondary key.
    fn keep(&mut self, key: &[u8], head: StoredHead, body: String) {
        let variants = self.stored.entry(key.to_owned()).or_default();
        variants.retain(|(other, _)| other.secondary() != head.secondary());
        variants.push((head, body));
    }

    fn drop(&mut self, key: &[u8], head: &StoredHead) {
        if let Some(variants) = self.stored.get_mut(key) {
            variants.retain(|(other, _)| other.secondary() != head.secondary());
        }
    }

    fn invalidate(&mut self, asking: &Asking<'_>, response: &ResponseHead, text: &str) {
        let changed = Changed {
            method: asking.head.method,
            method_name: asking.head.method_name.of(asking.text.as_bytes()),
            authority: asking.asked().authority,
            target: asking.target(),
            status: response.status,
            response: response.view(text.as_bytes()),
        };
        for target in invalidate::targets(&changed) {
            let mark = target.iter().position(|&b| b == b'?');
            let asked = Inputs {
                path: &target[..mark.unwrap_or(target.len())],
                query: mark.map(|at| &target[at + 1..]),
                ..asking.asked()
            };
            let mut url = Vec::new();
            key::write_url(&self.policy.key, &asked, &mut url);
            self.stored.retain(|key, _| !key::is_of_url(key, &url));
        }
    }

    fn body_of(&self, asking: &Asking<'_>, head: &StoredHead) -> String {
        let variants = &self.stored[&asking.key];
        let is_it = |(other, _): &&(StoredHead, String)| other.secondary() == head.secondary();
        let (_, body) = variants.iter().find(is_it).expect("it is stored");
        body.clone()
    }
}

/// The request as it is sent to validate: with the cache's conditions for the client's.
fn with_conditions(asking: &Asking<'_>, conditions: &[u8]) -> String {
    let lines = asking.text.trim_end().split("\r\n");
    let kept = lines.filter(|line| {
        let name = line.split(':').next().unwrap_or_default();
        !FieldName::of(name.as_bytes()).makes_conditional()
    });
    let conditions = std::str::from_utf8(conditions).expect("the test's validators are text");
    format!(
        "{}\r\n{conditions}\r\n",
        kept.collect::<Vec<_>>().join("\r\n")
    )
}

fn at_once(now: Timestamp) -> Exchanged {
    Exchanged {
        request_time: now,
        response_time: now,
    }
}

fn gateway_says(status: u16) -> Text {
    (format!("HTTP/1.1 {status} Gateway\r\n\r\n"), String::new())
}
