//! What is stored, for whoever wants to know: page by page, so that a cache of any size delays no worker and fills no
//! memory. Looking counts as a use of nothing. Runs in the control thread.

use serde::Serialize;
use weir_cache::store::disk::Stored;
use weir_cache::store::tiers::Held;
use weir_cache::store::walk::Key;
use weir_cache::store::{Object, PurgeScope};
use weir_cache::{StoredHead, Timestamp, key};
use weir_http::FieldName;

use crate::state::storage::Cache;

/// Keys that a store is asked for at once, while it keeps writers waiting.
const STEP_KEYS: usize = 256;
/// Keys that one page looks at; a page may therefore have less than it could, and yet there are more.
const LOOKED_AT_MAX: usize = 1 << 16;

/// Some of what is stored, sorted by key.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Facts>,
    /// The next page is behind this key.
    pub(crate) next: Option<Key>,
}

/// What is known of one stored response. Times are in whole seconds.
#[derive(Debug, Serialize)]
pub(crate) struct Facts {
    url: String,
    /// What the route makes part of the key besides the URL.
    key_parts: Vec<String>,
    /// The request fields that it was chosen by, with their values then.
    vary: Vec<String>,
    tiers: Vec<&'static str>,
    body_bytes: u64,
    /// Up to two in RAM, up to 255 on disk; since it came there.
    uses_at_least: u8,
    tags: Vec<String>,
    /// Whether a soft purge ended its lifetime.
    is_purged_softly: bool,
    #[serde(flatten)]
    head: Option<HeadFacts>,
}

/// What its head says; the head of what is on disk only is read from there.
#[derive(Debug, Serialize)]
struct HeadFacts {
    status: u16,
    age_s: u64,
    /// Below zero: stale for so long.
    fresh_for_s: i64,
    lifetime_s: u64,
    lifetime_from: &'static str,
    etag: Option<String>,
    last_modified: Option<String>,
    content_type: Option<String>,
    content_encoding: Option<String>,
}

impl Cache {
    /// What is stored that `scope` covers, behind `after`: at least `objects_min` objects, and all of the key that this
    /// number is reached with, unless there are no more or [`LOOKED_AT_MAX`] keys were looked at.
    pub(crate) async fn page(
        &self,
        scope: &PurgeScope,
        mut after: Option<Key>,
        objects_min: usize,
        now: Timestamp,
    ) -> Page {
        let mut objects = Vec::new();
        for _ in 0..LOOKED_AT_MAX / STEP_KEYS {
            let (held, last) = self.tiers.step(scope, after.as_deref(), STEP_KEYS);
            for (key, held) in held {
                self.add_facts(scope, &key, &held, now, &mut objects).await;
                if objects.len() >= objects_min {
                    let next = Some(key);
                    return Page { objects, next };
                }
            }
            after = last;
            if after.is_none() {
                break;
            }
            tokio::task::yield_now().await;
        }
        Page {
            objects,
            next: after,
        }
    }

    /// Appends what is known of the variants of a key that `scope` covers, the newest first.
    async fn add_facts(
        &self,
        scope: &PurgeScope,
        key: &Key,
        held: &Held,
        now: Timestamp,
        objects: &mut Vec<Facts>,
    ) {
        let in_memory = held.in_memory.iter().flat_map(|entry| entry.variants());
        for object in in_memory
            .clone()
            .filter(|object| scope.covers(key, &object.tags))
        {
            let identity = object.disk_identity();
            let mut on_disk = held.on_disk.iter();
            let is_on_disk = on_disk.any(|stored| Some(stored.identity) == identity);
            objects.push(of_object(key, object, is_on_disk, now));
        }
        for stored in &held.on_disk {
            let mut newer = in_memory.clone();
            if newer.any(|object| *object.variant == *stored.variant) {
                continue;
            }
            let Some(disk) = self.tiers.disk() else {
                continue;
            };
            // What is gone meanwhile, or cannot be read now, is shown as far as it is known.
            let metadata = disk.metadata(key, &stored.variant).await.ok();
            let head = metadata.and_then(|metadata| StoredHead::from_bytes(&metadata).ok());
            objects.push(of_stored(key, stored, head.as_ref(), now));
        }
    }
}

fn of_object(key: &[u8], object: &Object, is_on_disk: bool, now: Timestamp) -> Facts {
    let head = object.stored_head().map(|head| &**head);
    let is_ended = object.is_marked_stale();
    Facts {
        tiers: if is_on_disk {
            vec!["memory", "disk"]
        } else {
            vec!["memory"]
        },
        body_bytes: object.body_bytes(),
        uses_at_least: object.uses(),
        tags: object.tags.iter().map(ToString::to_string).collect(),
        is_purged_softly: is_ended,
        head: head.map(|head| HeadFacts::of(head, is_ended, now)),
        ..of_key(key, &object.variant)
    }
}

fn of_stored(key: &[u8], stored: &Stored, head: Option<&StoredHead>, now: Timestamp) -> Facts {
    Facts {
        tiers: vec!["disk"],
        body_bytes: stored.body_bytes,
        uses_at_least: stored.uses,
        tags: stored.tags.iter().map(ToString::to_string).collect(),
        is_purged_softly: stored.is_stale,
        head: head.map(|head| HeadFacts::of(head, stored.is_stale, now)),
        ..of_key(key, &stored.variant)
    }
}

fn of_key(key: &[u8], variant: &[u8]) -> Facts {
    let lines = |text: &[u8]| -> Vec<String> {
        let lines = text.split(|&b| b == b'\n').filter(|line| !line.is_empty());
        lines.map(text_of).collect()
    };
    Facts {
        url: text_of(key::url_of(key)),
        key_parts: lines(key).split_off(1),
        vary: lines(variant),
        tiers: Vec::new(),
        body_bytes: 0,
        uses_at_least: 0,
        tags: Vec::new(),
        is_purged_softly: false,
        head: None,
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl HeadFacts {
    fn of(head: &StoredHead, is_ended: bool, now: Timestamp) -> Self {
        let meta = if is_ended {
            head.meta.ended(now)
        } else {
            head.meta
        };
        let seconds = |span: std::time::Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        let field = |name: FieldName| head.fields().first(name).map(text_of);
        Self {
            status: meta.status,
            age_s: meta.age(now).as_secs(),
            fresh_for_s: if meta.is_fresh(now) {
                seconds(meta.remaining(now))
            } else {
                -seconds(meta.staleness(now))
            },
            lifetime_s: head.meta.lifetime.as_secs(),
            lifetime_from: meta.lifetime_source.name(),
            etag: field(FieldName::Etag),
            last_modified: field(FieldName::LastModified),
            content_type: field(FieldName::ContentType),
            content_encoding: field(FieldName::ContentEncoding),
        }
    }
}
