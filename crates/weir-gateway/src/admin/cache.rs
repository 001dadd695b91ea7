//! The cache's part of the control API: purging, listing, showing. All of it speaks JSON.
//!
//! ```text
//! POST /cache/purge     {"url": URL} or {"prefix": URL or path} or {"tag": TAG} or {"all": true}; and {"soft": true}
//!                       → {"kind", "memory", "disk"}, once it has taken effect for all workers
//! GET  /cache/objects   ?prefix= &tag= &limit= &after=      → {"objects": [...], "next": what `after` is to be, or null}
//! GET  /cache/object    ?url=                               → {"objects": [...]}, its variants
//! ```

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use weir_cache::Timestamp;
use weir_cache::store::walk::Key;
use weir_cache::store::{PurgeKind, PurgeScope};

use crate::admin::authentication;
use crate::admin::query::Query;
use crate::admin::reply::{Refusal, Reply, json};
use crate::cache::inspect::Facts;
use crate::cache::scope;
use crate::state::shared::Shared;
use crate::state::storage::Cache;
use crate::time;

/// Bytes of what is to be purged: a URL, and names around it.
const BODY_BYTES_MAX: usize = 64 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Objects of one page unless it is said, and at most.
const PAGE_OBJECTS: usize = 100;
const PAGE_OBJECTS_MAX: usize = 1000;

/// What to purge: exactly one of the first four.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Purge {
    url: Option<String>,
    prefix: Option<String>,
    tag: Option<String>,
    all: bool,
    soft: bool,
}

/// What a purge met; what both tiers have counts in both.
#[derive(Debug, Serialize)]
struct Purged {
    kind: &'static str,
    memory: u64,
    disk: u64,
}

#[derive(Debug, Serialize)]
struct List {
    objects: Vec<Facts>,
    pub(crate) next: Option<String>,
}

/// Answers a request whose path begins with `/cache/`.
pub(super) async fn answer(
    shared: &Arc<Shared>,
    request: Request<Incoming>,
    has_token: bool,
) -> Reply {
    let result = async {
        authentication::refuse_foreign(&request, has_token)?;
        let cache = shared.cache().ok_or_else(no_cache)?;
        match request.uri().path() {
            "/cache/purge" => {
                require_method(&request, "POST")?;
                authentication::require_json(&request)?;
                purge(shared, cache, request).await
            }
            "/cache/objects" => {
                require_method(&request, "GET, HEAD")?;
                objects(cache, request.uri().query()).await
            }
            "/cache/object" => {
                require_method(&request, "GET, HEAD")?;
                object(shared, cache, request.uri().query()).await
            }
            _ => Err(Refusal::new(
                StatusCode::NOT_FOUND,
                "here are /cache/purge, /cache/objects and /cache/object",
            )),
        }
    };
    let result: Result<Reply, Refusal> = result.await;
    result.unwrap_or_else(Reply::from)
}

async fn purge(
    shared: &Arc<Shared>,
    cache: &Arc<Cache>,
    request: Request<Incoming>,
) -> Result<Reply, Refusal> {
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect();
    let body = tokio::time::timeout(BODY_TIMEOUT, body).await;
    let body = body.map_err(|_| Refusal::wrong("the body did not come in time"))?;
    let body = body.map_err(|_| Refusal::wrong("expected a whole body of at most 64 KiB"))?;
    let asked = serde_json::from_slice::<Map<_, _>>(&body.to_bytes());
    let asked = asked.and_then(|asked| Purge::deserialize(Value::Object(asked)));
    let asked = asked.map_err(|error| {
        Refusal::wrong(format!(
            "expected an object such as {{\"tag\": \"news\"}}: {error}"
        ))
    })?;
    let scopes = scopes(shared, &asked)?;
    let kind = if asked.soft {
        PurgeKind::Soft
    } else {
        PurgeKind::Hard
    };
    // A purge that has begun goes on when whoever asked for it leaves: half of one would be worse than either.
    let cache = Arc::clone(cache);
    let purging = tokio::spawn(async move {
        let mut sum = Purged {
            kind: if asked.soft { "soft" } else { "hard" },
            memory: 0,
            disk: 0,
        };
        for scope in scopes {
            let purged = cache.purge(scope, kind).await?;
            sum.memory += purged.in_memory;
            sum.disk += purged.on_disk;
        }
        cache.purge_counts.add(kind, sum.memory, sum.disk);
        Ok(sum)
    });
    match purging.await {
        Ok(Ok(purged)) => Ok(json(StatusCode::OK, &purged)),
        Ok(Err::<_, weir_cache::store::StoreError>(failed)) => Err(Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!(
                "not all of it is purged: {failed}; see to the directory of the cache and purge again"
            ),
        )),
        Err(_) => Err(Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the purge broke off; purge again",
        )),
    }
}

fn scopes(shared: &Shared, asked: &Purge) -> Result<Vec<PurgeScope>, Refusal> {
    let scopes = match (&asked.url, &asked.prefix, &asked.tag, asked.all) {
        (Some(url), None, None, false) => scope::of_url(url, &shared.snapshot()),
        (None, Some(prefix), None, false) => scope::of_prefix(prefix).map(|scope| vec![scope]),
        (None, None, Some(tag), false) => scope::of_tag(tag).map(|scope| vec![scope]),
        (None, None, None, true) => Ok(vec![PurgeScope::All]),
        _ => {
            Err("expected exactly one of \"url\", \"prefix\", \"tag\" and \"all\": true".to_owned())
        }
    };
    scopes.map_err(Refusal::wrong)
}

async fn objects(cache: &Cache, query: Option<&str>) -> Result<Reply, Refusal> {
    let mut query = Query::read(query)?;
    let (prefix, tag) = (query.take("prefix"), query.take("tag"));
    let scope = match (prefix, tag) {
        (None, None) => PurgeScope::All,
        (Some(prefix), None) => scope::of_prefix(&prefix).map_err(Refusal::wrong)?,
        (None, Some(tag)) => scope::of_tag(&tag).map_err(Refusal::wrong)?,
        (Some(_), Some(_)) => {
            return Err(Refusal::wrong(
                "expected only one of \"prefix\" and \"tag\"",
            ));
        }
    };
    let limit = query.take("limit").map_or(Ok(PAGE_OBJECTS), |limit| {
        let limit = limit.parse().ok();
        limit
            .filter(|limit| (1..=PAGE_OBJECTS_MAX).contains(limit))
            .ok_or_else(|| {
                Refusal::wrong(format!("expected a \"limit\" from 1 to {PAGE_OBJECTS_MAX}"))
            })
    })?;
    let after = query.take("after").map(|after| from_hex(&after));
    let after = after
        .map(|key| {
            key.ok_or_else(|| Refusal::wrong("expected as \"after\" what a page said as \"next\""))
        })
        .transpose()?;
    query.finish("prefix, tag, limit and after")?;
    let page = cache.page(&scope, after, limit, now()).await;
    let list = List {
        objects: page.objects,
        next: page.next.as_deref().map(to_hex),
    };
    Ok(json(StatusCode::OK, &list))
}

async fn object(shared: &Shared, cache: &Cache, query: Option<&str>) -> Result<Reply, Refusal> {
    let mut query = Query::read(query)?;
    let url = query.take("url");
    query.finish("url")?;
    let url = url.ok_or_else(|| Refusal::wrong("expected \"url\""))?;
    let mut objects = Vec::new();
    for scope in scope::of_url(&url, &shared.snapshot()).map_err(Refusal::wrong)? {
        let page = cache.page(&scope, None, PAGE_OBJECTS_MAX, now()).await;
        objects.extend(page.objects);
    }
    let next = None;
    Ok(json(StatusCode::OK, &List { objects, next }))
}

fn require_method(request: &Request<Incoming>, allow: &'static str) -> Result<(), Refusal> {
    if allow
        .split(", ")
        .any(|one| one == request.method().as_str())
    {
        return Ok(());
    }
    Err(Refusal::method(allow))
}

fn no_cache() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "no route of this gateway has a cache; give one `cache = true`",
    )
}

fn now() -> Timestamp {
    Timestamp::from_ms(time::since_1970().as_millis() as u64)
}

/// Keys have bytes that no query can have, so they are written as hexadecimal digits.
fn to_hex(key: &[u8]) -> String {
    let mut text = String::with_capacity(2 * key.len());
    for byte in key {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn from_hex(text: &str) -> Option<Key> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let key = pairs.map(byte).collect::<Option<Key>>();
    key.filter(|_| text.len().is_multiple_of(2))
}
