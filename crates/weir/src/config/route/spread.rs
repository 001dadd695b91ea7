//! Whom a route forwards to: one `upstream`, or several by a `split`; and who gets copies, by `mirror`.

use weir_gateway::settings::{HeaderEdits, Mirror, Share, Split, SplitBy};

use crate::config::cookie;
use crate::config::declared::route::mirror::{
    BODY, IN_FLIGHT, METHODS, MIRROR, SHARE, UPSTREAM as MIRROR_UPSTREAM,
};
use crate::config::declared::route::split::{COOKIE, HASH_ON, SIDES_MAX, STICKY};
use crate::config::entries::Entries;
use crate::config::entry::Entry;
use crate::config::route::methods_of;
use crate::config::upstream::{Upstreams, hash_on_part};

/// Whom a route forwards to.
#[derive(Default)]
pub(in crate::config) struct Destination<'a> {
    /// The name of the first, as it was written.
    pub(in crate::config) name: Option<&'a str>,
    /// Those that are known, in the order of the file.
    pub(in crate::config) shares: Vec<Share>,
    /// Whether there may be several.
    is_split: bool,
}

impl<'a> Destination<'a> {
    /// `upstream = "app"`.
    pub(in crate::config) fn one(value: &Entry<'a>, upstreams: &Upstreams) -> Self {
        let name = value.text();
        let upstream = name.and_then(|name| index(value, name, upstreams));
        let share = upstream.map(|upstream| Share {
            upstream,
            weight: 1.0,
        });
        Self {
            name,
            shares: share.into_iter().collect(),
            is_split: false,
        }
    }

    /// `split = { stable = 95, next = 5 }`.
    pub(in crate::config) fn several(value: &Entry<'a>, upstreams: &Upstreams) -> Self {
        let named = value.named().unwrap_or_default();
        if value.is_table() && named.is_empty() {
            value.wrong(
                "found no upstream, expected their shares as in `{ stable = 95, next = 5 }`",
            );
        }
        if named.len() > SIDES_MAX {
            value.wrong(format!(
                "found {} upstreams, expected at most {SIDES_MAX}",
                named.len()
            ));
        }
        let first = named.first().map(|(name, _)| *name);
        let count = named.len();
        let mut shares = Vec::new();
        for (name, weight) in named {
            let upstream = index(&weight, name, upstreams);
            let weight = weight.number();
            shares.extend(
                upstream
                    .zip(weight)
                    .map(|(upstream, weight)| Share { upstream, weight }),
            );
        }
        let are_all_read = count > 0 && shares.len() == count;
        if are_all_read && shares.iter().all(|share| share.weight == 0.0) {
            value.wrong("found shares that are all zero, expected one above zero");
        }
        Self {
            name: first,
            shares,
            is_split: true,
        }
    }

    /// The first upstream, if it has one that is known.
    pub(in crate::config) fn upstream(&self) -> Option<usize> {
        self.shares.first().map(|share| share.upstream)
    }

    fn has(&self, upstream: usize) -> bool {
        self.shares.iter().any(|share| share.upstream == upstream)
    }

    /// Whether all that it forwards to is this upstream.
    pub(in crate::config) fn is_only(&self, upstream: usize) -> bool {
        self.has(upstream) && self.shares.len() == 1
    }

    /// The split, with what `sticky` says.
    pub(in crate::config) fn split(
        &self,
        table: &mut Entries,
        upstreams: &Upstreams,
    ) -> Option<Box<Split>> {
        let sticky = table.optional(&STICKY);
        if !self.is_split {
            if let Some(value) = sticky {
                value.wrong(
                    "has a meaning only with \"split\", expected none here; sessions that stay with a server are `sticky` of its [upstream.NAME]",
                );
            }
            return None;
        }
        Some(Box::new(Split {
            shares: self.shares.clone(),
            by: sticky.and_then(|value| split_by(&value, upstreams)),
        }))
    }

    /// The mirror. What the route forwards by itself must not look like a copy.
    pub(in crate::config) fn mirror(
        &self,
        table: &mut Entries,
        upstreams: &Upstreams,
        request_headers: &mut HeaderEdits,
    ) -> Option<Box<Mirror>> {
        let value = table.optional(&MIRROR)?;
        let mut table = value.table()?;
        let named = table.required(&MIRROR_UPSTREAM);
        let upstream = named.and_then(|value| {
            let upstream = index(&value, value.text()?, upstreams)?;
            if self.has(upstream) {
                value.expected("another upstream than those that the route forwards to");
                return None;
            }
            Some(upstream)
        });
        let share = table.optional(&SHARE);
        let share = share.map_or(Some(SHARE.preset.number()), |value| value.number());
        let methods = table.optional(&METHODS);
        let methods = methods.map_or_else(
            || Some(vec!["GET".to_owned(), "HEAD".to_owned()]),
            |value| methods_of(&value),
        );
        let body_bytes = table.size_bytes(&BODY);
        let in_flight = table.integer(&IN_FLIGHT);
        table.finish();
        if !request_headers
            .remove
            .iter()
            .any(|name| name == Mirror::FIELD)
        {
            request_headers.remove.push(Mirror::FIELD.to_owned());
        }
        Some(Box::new(Mirror {
            upstream: upstream?,
            share: share?,
            methods: methods?,
            body_bytes: body_bytes.unwrap_or(Mirror::BODY_BYTES),
            in_flight: in_flight.map_or(Mirror::IN_FLIGHT, |count| count as u32),
        }))
    }
}

/// `{ cookie = "version", max_age = "30d" }` or `{ hash_on = "client-address" }`.
fn split_by(value: &Entry, upstreams: &Upstreams) -> Option<SplitBy> {
    let mut table = value.table()?;
    let part = table.optional(&HASH_ON);
    let named = table.optional(&COOKIE);
    let name = named.as_ref().and_then(cookie::name);
    if let (Some(value), Some(name)) = (&named, &name)
        && let Some(other) = upstreams.with_cookie(name)
    {
        value.wrong(cookie::taken(name, other));
    }
    let cookie = cookie::rest(&mut table, name, named.is_some() || part.is_none());
    table.finish();
    match (part, named) {
        (Some(part), None) => part.parsed(hash_on_part).map(SplitBy::Part),
        (None, Some(_)) => cookie.map(SplitBy::Cookie),
        (None, None) => {
            value.wrong("found neither \"cookie\" nor \"hash_on\", expected one of them");
            None
        }
        (Some(part), Some(_)) => {
            part.wrong("found beside \"cookie\", expected only one of them");
            None
        }
    }
}

fn index(value: &Entry, name: &str, upstreams: &Upstreams) -> Option<usize> {
    match upstreams.index(name) {
        Ok(index) => Some(index),
        Err(complaint) => {
            value.wrong(complaint);
            None
        }
    }
}
