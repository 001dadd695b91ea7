//! Whether everybody got what was meant for him, by RFC 9111 and what the configuration says; and whether bounds are kept.
//!
//! It sees what clients sent and got, and what the origin was sent and said. It is lenient by [`SLACK_MS`] where time is
//! measured at two places, and where two things happen at once.

use std::collections::BTreeSet;

use crate::simulation::Gateway;
use crate::simulation::plan::{HOST, Plan, SET_FIELD};
use crate::simulation::world::{Answer, Change, FieldList, Got, Request, World, body_of, values};
use crate::time;

/// Between what the gateway takes for now and what the simulation does.
const SLACK_MS: u64 = 250;
/// How often the origin may be asked for one request: what is asked in the background counts as the request's that caused it.
const ASKED_MAX: usize = 8;

/// Looks at everything that happened.
pub(super) fn judge(world: &World) -> Result<(), String> {
    let (requests, answers) = (world.requests.borrow(), world.answers.borrow());
    let (answers, changes) = (&answers[..], &world.changes.borrow()[..]);
    for (number, request) in requests.iter().enumerate() {
        let case = Case {
            plan: &world.plan,
            number,
            request,
            answers,
            changes,
        };
        let judged = case.judge();
        judged.map_err(|why| format!("{why}\n  request {number}: {request:?}"))?;
    }
    for (number, answer) in answers.iter().enumerate() {
        if decoded(&answer.target).starts_with("/admin/") {
            return Err(format!("the origin was asked for {}", answer.target));
        }
        let hosts = values(&answer.fields, "host");
        if hosts != [HOST] {
            return Err(format!(
                "answer {number}: the origin was asked for {hosts:?}"
            ));
        }
    }
    Ok(())
}

/// Whether anything takes more than it may.
pub(super) fn budgets(gateway: &Gateway) -> Option<String> {
    let cache = gateway.shared.cache()?;
    let over = cache
        .tier_counts()
        .into_iter()
        .find(|tier| tier.bytes > tier.bytes_max);
    over.map(|tier| {
        format!(
            "{} bytes in {} of {}",
            tier.bytes, tier.name, tier.bytes_max
        )
    })
}

/// Whether something is still asked for, or held for somebody, though all have left.
pub(super) fn nothing_held(gateway: &Gateway) -> Result<(), String> {
    for upstream in &gateway.shared.snapshot().upstreams {
        let gate = upstream.gate.as_ref().map(|gate| gate.status(time::now()));
        if let Some(gate) = gate.filter(|gate| gate.in_flight + gate.streams > 0) {
            return Err(format!("places are left over: {gate:?}"));
        }
    }
    for worker in &gateway.workers {
        let view = worker.view();
        let in_flight = view
            .endpoints()
            .map(|endpoint| endpoint.metrics().in_flight.read());
        let in_flight: u64 = in_flight.sum();
        if in_flight > 0 {
            return Err(format!("{in_flight} requests are on their way still"));
        }
    }
    let bodies = gateway.shared.held_bodies.bytes();
    if bodies > 0 {
        return Err(format!("{bodies} bytes of bodies are left over"));
    }
    let cache = gateway.shared.cache().expect("a route caches");
    match cache.held() {
        (0, 0) => Ok(()),
        (fills, bytes) => Err(format!("{fills} fills and {bytes} bytes are left over")),
    }
}

/// One request, and all that it may be judged by.
struct Case<'a> {
    plan: &'a Plan,
    number: usize,
    request: &'a Request,
    answers: &'a [Answer],
    changes: &'a [Change],
}

impl Case<'_> {
    fn judge(&self) -> Result<(), String> {
        let asked = self
            .answers
            .iter()
            .filter(|answer| answer.asked_by == self.number);
        if asked.count() > ASKED_MAX {
            return Err("the origin was asked too often for it".to_owned());
        }
        let Some(got) = &self.request.got else {
            return Ok(());
        };
        let Some(number) = values(&got.fields, "x-answer").first().copied() else {
            return judge_own_word(got);
        };
        let number: usize = number.parse().map_err(|_| "it has no number".to_owned())?;
        let Some(answer) = self.answers.get(number) else {
            return Err(format!("nobody gave answer {number}"));
        };
        let judged = self.judge_answer(got, answer, number);
        judged.map_err(|why| format!("{why}\n  answer {number}: {answer:?}"))
    }

    fn judge_answer(&self, got: &Got, answer: &Answer, number: usize) -> Result<(), String> {
        if answer.target != self.request.target {
            return Err(format!("that is {}", answer.target));
        }
        self.judge_body(got, answer, number)?;
        self.judge_set_cookies(got)?;
        if answer.asked_by == self.number {
            return Ok(());
        }
        self.judge_storable(answer)?;
        self.judge_variant(got, answer)?;
        self.judge_fresh(got, answer)?;
        let is_ended = |change: &Change| {
            change.target == answer.target
                && answer.asked_at < change.begun_at
                && change.done_at < self.request.sent_at
        };
        if self.changes.iter().any(is_ended) {
            return Err("that was changed or purged before".to_owned());
        }
        Ok(())
    }

    /// Every byte, if it is said that these are all.
    fn judge_body(&self, got: &Got, answer: &Answer, number: usize) -> Result<(), String> {
        if self.request.method == "HEAD" || matches!(got.status, 204 | 304 | 416) {
            return Ok(());
        }
        let mut expected = body_of(number, full_length(answer));
        if let Some(range) = values(&got.fields, "content-range").first() {
            let parts = range.strip_prefix("bytes ").and_then(|range| {
                let (first, rest) = range.split_once('-')?;
                let last = rest.split('/').next()?;
                Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?))
            });
            let (first, last) = parts.ok_or("a range that says nothing")?;
            let part = expected.get(first..=last);
            expected = part.ok_or("a range beyond the end")?.to_vec();
        } else if answer.status == 206 {
            return Err("a part passes for the whole".to_owned());
        }
        if !got.is_whole {
            let is_start = expected.starts_with(&got.body);
            return if is_start {
                Ok(())
            } else {
                Err("other bytes".to_owned())
            };
        }
        // Whose answer ends by closing cannot tell that from being cut off.
        let ends_by_closing = values(&answer.response, "connection").contains(&"close");
        if got.body != expected && !(ends_by_closing && expected.starts_with(&got.body)) {
            return Err(format!("{} bytes, not {}", got.body.len(), expected.len()));
        }
        Ok(())
    }

    /// RFC 9111 §3, for others than the one that asked.
    fn judge_storable(&self, answer: &Answer) -> Result<(), String> {
        let control = control_of(&answer.response);
        for word in ["no-store", "private"] {
            if control.contains(word) {
                return Err(format!("that is {word}"));
            }
        }
        if matches!(answer.status, 206 | 304 | 416) {
            return Err(format!("{} is not for others", answer.status));
        }
        let is_for_all = ["public", "s-maxage", "must-revalidate"];
        let is_for_all = is_for_all.iter().any(|word| control.contains(word));
        if !values(&answer.fields, "authorization").is_empty() && !is_for_all {
            return Err("that was for one who is authorized".to_owned());
        }
        judge_cookies(answer)?;
        if answer.method == "POST" {
            let type_of = |fields: &FieldList| values(fields, "content-type").join("|");
            let is_same = answer.body == self.request.body
                && type_of(&answer.fields) == type_of(&self.request.fields);
            if self.request.method != "POST" || !is_same {
                return Err("that answers another POST".to_owned());
            }
        }
        let tenant = |fields: &FieldList| values(fields, "x-tenant").join("|");
        let is_keyed = !self.plan.policy.key.headers.is_empty();
        if is_keyed && tenant(&answer.fields) != tenant(&self.request.fields) {
            return Err("that is another tenant's".to_owned());
        }
        Ok(())
    }

    /// Whose cookies the client got: those of its own answers, and those that are for all.
    fn judge_set_cookies(&self, got: &Got) -> Result<(), String> {
        for cookie in values(&got.fields, "set-cookie") {
            let number = cookie
                .strip_prefix("s=")
                .and_then(|it| it.parse::<usize>().ok());
            let set_by = number.and_then(|number| self.answers.get(number));
            let set_by = set_by.ok_or("nobody set that cookie")?;
            if set_by.asked_by == self.number {
                continue;
            }
            if set_by.status == 304 {
                return Err(format!("{cookie} came with a confirmation for another one"));
            }
            judge_cookies(set_by)?;
        }
        Ok(())
    }

    /// RFC 9111 §4.1, by what the origin was sent then and would have been sent now. What confirmed the answer may have said
    /// anew by which fields it is chosen.
    fn judge_variant(&self, got: &Got, answer: &Answer) -> Result<(), String> {
        let confirmed = self.confirmed(got);
        if confirmed.is_some_and(|confirmed| confirmed.asked_by == self.number) {
            return Ok(());
        }
        let answer = confirmed
            .filter(|confirmed| !values(&confirmed.response, "vary").is_empty())
            .unwrap_or(answer);
        let named = values(&answer.response, "vary").join(", ");
        for name in named.split(", ").filter(|name| !name.is_empty()) {
            let name = name.to_ascii_lowercase();
            let then = values(&answer.fields, &name).join("|");
            let now = self.sent_now(&name);
            let is_same = match name.as_str() {
                "*" => false,
                "accept-encoding" => set_of(&then) == set_of(&now),
                _ => then == now,
            };
            if !is_same {
                return Err(format!("by {name} it is for {then:?}, not for {now:?}"));
            }
            // What the origin reads as a variable has one value for all names that fold to it (RFC 3875 §4.1.18).
            let folded = name.replace('_', "-");
            let mut sent = answer.fields.iter().map(|(own, _)| own);
            if let Some(twin) = sent.find(|own| **own != name && own.replace('_', "-") == folded) {
                return Err(format!("by {twin}, which passes for {name}, it is for one"));
            }
        }
        Ok(())
    }

    /// The 304 that confirmed what came back, if one did.
    fn confirmed(&self, got: &Got) -> Option<&Answer> {
        let number = values(&got.fields, "x-confirmed").first().copied()?;
        self.answers.get(number.parse::<usize>().ok()?)
    }

    /// What the origin would have been sent for this request.
    fn sent_now(&self, name: &str) -> String {
        let own = values(&self.request.fields, name);
        match name {
            "x-forwarded-for" => {
                let chain = own.into_iter().chain([self.request.address.as_str()]);
                chain.collect::<Vec<_>>().join(", ")
            }
            name if self.plan.sets_field && name == SET_FIELD.0 => SET_FIELD.1.to_owned(),
            _ => own.join("|"),
        }
    }

    /// RFC 9111 §4.2, RFC 5861, and what the client says of it (§5.2.1).
    fn judge_fresh(&self, got: &Got, answer: &Answer) -> Result<(), String> {
        let basis = self.confirmed(got).unwrap_or(answer);
        let made_at = basis.answered_at.ok_or("it was never given")?;
        let sent_at = self.request.sent_at;
        if made_at + SLACK_MS >= sent_at {
            // It was asked for when this request was there already, or just before.
            return Ok(());
        }
        let control = match control_of(&basis.response) {
            own if own.is_empty() => control_of(&answer.response),
            own => own,
        };
        if control.contains("no-store") || control.contains("private") {
            return Err("what confirmed it made it private".to_owned());
        }
        if control.contains("no-cache") {
            return Err("it is to be confirmed at each use".to_owned());
        }
        let asked = control_of(&self.request.fields);
        let obeys = self.plan.policy.obeys_clients;
        if obeys
            && ["no-cache", "no-store"]
                .iter()
                .any(|word| asked.contains(word))
        {
            return Err("its client wants nothing that is stored".to_owned());
        }
        let age_ms = sent_at - made_at;
        let mut lifetime = seconds(&control, "s-maxage").or_else(|| seconds(&control, "max-age"));
        if obeys && asked.contains("max-age=0") {
            // It is a preference (§5.2.1.1), which gives way where the origin fails.
            lifetime = None;
        }
        let fresh_ms = lifetime.unwrap_or(0) * 1000 + SLACK_MS;
        if age_ms <= fresh_ms {
            return Ok(());
        }
        let stale_ms = age_ms - fresh_ms;
        let is_forbidden = control.contains("must-revalidate");
        let allowed_ms = if is_forbidden {
            0
        } else {
            self.staleness_ms(got, &control, &asked)
        };
        if stale_ms <= allowed_ms {
            Ok(())
        } else {
            Err(format!(
                "it is stale for {stale_ms} ms, {allowed_ms} were allowed"
            ))
        }
    }

    /// How stale the answer may be.
    fn staleness_ms(&self, got: &Got, control: &str, asked: &str) -> u64 {
        let policy = &self.plan.policy;
        let is_shared = control.contains("s-maxage");
        let of_route = policy.stale_while_revalidate.filter(|_| !is_shared);
        let of_origin = seconds(control, "stale-while-revalidate").unwrap_or(0) * 1000;
        let mut allowed = of_route.map_or(of_origin, |span| span.as_millis() as u64);
        if policy.obeys_clients && !is_shared {
            allowed = allowed.max(seconds(asked, "max-stale").unwrap_or(0) * 1000);
        }
        // What failed meanwhile, for whomever.
        let (from, to) = (self.request.sent_at.saturating_sub(20_000), got.head_at);
        let has_failed = |answer: &Answer| {
            answer.target == self.request.target
                && (from..=to).contains(&answer.asked_at)
                && (answer.status >= 500 || answer.answered_at.is_none_or(|at| at + 9_000 > to))
        };
        if self.answers.iter().any(has_failed) {
            allowed = allowed.max(seconds(control, "stale-if-error").unwrap_or(0) * 1000);
            if !is_shared {
                allowed = allowed.max(policy.stale_if_unreachable.as_millis() as u64);
            }
            if policy.obeys_clients && !is_shared {
                allowed = allowed.max(seconds(asked, "stale-if-error").unwrap_or(0) * 1000);
            }
        }
        allowed + SLACK_MS
    }
}

/// What has to do with cookies is for others only on the origin's word. A route of the simulation says nothing of lifetimes.
fn judge_cookies(answer: &Answer) -> Result<(), String> {
    let control = control_of(&answer.response);
    let is_for_all = control.contains("public") || control.contains("s-maxage");
    let lifetime = seconds(&control, "s-maxage").or_else(|| seconds(&control, "max-age"));
    let has_lifetime = lifetime.is_some_and(|seconds| seconds > 0);
    let is_set = !values(&answer.response, "set-cookie").is_empty();
    if is_set && !(is_for_all && has_lifetime) {
        return Err("that sets a cookie".to_owned());
    }
    let varies = values(&answer.response, "vary").join(", ");
    let is_told_apart = varies.to_ascii_lowercase().contains("cookie");
    let had_cookies = !values(&answer.fields, "cookie").is_empty();
    if had_cookies && !(is_for_all || has_lifetime || is_told_apart) {
        return Err("that was for one with cookies".to_owned());
    }
    Ok(())
}

/// What the gateway says by itself.
fn judge_own_word(got: &Got) -> Result<(), String> {
    match got.status {
        // The origin's answer to a condition of the client's own.
        304 if !values(&got.fields, "x-confirmed").is_empty() => Ok(()),
        400 | 403 | 404 | 405 | 408 | 413 | 416 | 502 | 503 | 504 => Ok(()),
        status => Err(format!("the gateway says {status}")),
    }
}

/// The path as a server finds it that decodes everything and then resolves it.
fn decoded(target: &str) -> String {
    let path = target
        .split('?')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let path = path
        .replace("%2f", "/")
        .replace("%5c", "/")
        .replace("%2e", ".")
        .replace('\\', "/");
    let mut segments = Vec::new();
    for segment in path
        .split('/')
        .map(|segment| segment.split(';').next().unwrap_or_default())
    {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    format!("/{}/", segments.join("/"))
}

/// Of the whole body that a part was cut out of.
fn full_length(answer: &Answer) -> u64 {
    let range = values(&answer.response, "content-range");
    let length = range
        .first()
        .and_then(|range| range.rsplit('/').next()?.parse().ok());
    length.unwrap_or(answer.body_bytes)
}

fn control_of(fields: &FieldList) -> String {
    values(fields, "cache-control")
        .join(", ")
        .to_ascii_lowercase()
}

fn seconds(control: &str, name: &str) -> Option<u64> {
    let directives = control.split(',').map(str::trim);
    let found = directives
        .filter_map(|one| one.split_once('='))
        .find(|(own, _)| *own == name);
    found?.1.parse().ok()
}

fn set_of(list: &str) -> BTreeSet<&str> {
    list.split([',', '|'])
        .map(str::trim)
        .filter(|one| !one.is_empty())
        .collect()
}
