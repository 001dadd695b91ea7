//! One stored response; several variants may share a primary key. Its body is in RAM, or in an open file.
//!
//! Nothing here changes once it is stored, with two exceptions: the marks of a purge, a hit and a copy to disk, and
//! added compressed forms. To change a head, a new object with the same body is stored; the bytes of the body are
//! shared, not copied.

mod entry;
#[cfg(test)]
mod tests;

use std::io::IoSlice;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::disk::DiskObject;
use super::forms::Forms;
use super::purge::Ticket;
use super::share::Share;
use super::transient::{Pin, Pins, Transient};
use crate::StoredHead;
use crate::meta::Demands;

pub use entry::Entry;

/// What the bookkeeping of one object costs besides its bytes: the object, its entry, its place in the map, in the
/// queues and among the sorted keys, and its tags.
pub const OBJECT_OVERHEAD_BYTES: u64 = 384;

/// A stored response.
#[derive(Debug)]
pub struct Object {
    /// What distinguishes it from other responses with the same primary key: opaque to the stores, empty when there is
    /// no other.
    pub variant: Box<[u8]>,
    /// What the rules need to know of it, in the form in which they wrote it.
    pub metadata: Bytes,
    /// The tags by which it can be purged.
    pub tags: Box<[Box<str>]>,
    /// A ticket from before it was read.
    pub ticket: Ticket,
    /// The prepared head.
    pub head: Bytes,
    /// The head as the rules read it, so that no hit parses bytes. An object from disk is parsed at its first use.
    parsed: OnceLock<Option<Arc<StoredHead>>>,
    body: Body,
    body_bytes: u64,
    /// Its compressed forms, once a request has asked whether it may have any; `None` when it may not. They are only in
    /// RAM: an object that goes to disk comes back without them.
    forms: OnceLock<Option<Box<Forms>>>,
    marks: Marks,
    /// The share of RAM it is stored in; without one, there is no limit.
    share: OnceLock<Arc<Share>>,
}

#[derive(Debug, Clone)]
enum Body {
    /// In the pieces in which it arrived, each of which should own about as much as it shows; and who holds them.
    InMemory(Box<[Bytes]>, Arc<Pins>),
    OnDisk(DiskObject),
}

/// The counts of uses that are distinguished: none, one, and more.
const USES_TOLD_APART: u8 = 2;
/// In [`Marks::uses`]: it was used since this was last checked.
const RECENTLY: u8 = 1 << 7;

#[derive(Debug, Default)]
struct Marks {
    stale: AtomicBool,
    /// The identity of the same object on disk; 0 for none.
    on_disk: AtomicU64,
    uses: AtomicU8,
}

impl Object {
    /// A response as it was received. Empty pieces of the body are left out.
    pub fn new(
        variant: &[u8],
        ticket: Ticket,
        metadata: Bytes,
        head: Bytes,
        body: Vec<Bytes>,
    ) -> Self {
        let body: Box<[Bytes]> = body.into_iter().filter(|piece| !piece.is_empty()).collect();
        let body_bytes = body.iter().map(|piece| piece.len() as u64).sum();
        let (variant, tags) = (variant.into(), Box::default());
        Self {
            variant,
            metadata,
            tags,
            ticket,
            head,
            parsed: OnceLock::new(),
            body: Body::InMemory(body, Pins::new(body_bytes)),
            body_bytes,
            forms: OnceLock::new(),
            marks: Marks::default(),
            share: OnceLock::new(),
        }
    }

    /// A response whose body stays on disk; `ticket` is from before it was opened. Such an object never goes to RAM.
    pub fn on_disk(disk: DiskObject, variant: &[u8], ticket: Ticket) -> Self {
        let (metadata, head) = (disk.metadata().clone(), disk.head().clone());
        let (tags, body_bytes) = (disk.tags().into(), disk.body_bytes());
        let marks = Marks::default();
        marks.on_disk.store(disk.identity(), Ordering::Relaxed);
        marks.stale.store(disk.is_marked_stale(), Ordering::Relaxed);
        Self {
            variant: variant.into(),
            metadata,
            tags,
            ticket,
            head,
            parsed: OnceLock::new(),
            body: Body::OnDisk(disk),
            body_bytes,
            forms: OnceLock::new(),
            marks,
            share: OnceLock::new(),
        }
    }

    /// A response with a head that the rules have made; its bytes are written when it goes to disk.
    pub fn of_head(head: Arc<StoredHead>, ticket: Ticket, body: Vec<Bytes>) -> Self {
        let mut object = Self::new(head.secondary(), ticket, Bytes::new(), Bytes::new(), body);
        object.tags = tags_of(&head);
        _ = object.parsed.set(Some(head));
        object
    }

    /// A compressed form of a response. It is found only through that response.
    pub(super) fn of_form(head: Arc<StoredHead>, ticket: Ticket, body: Bytes) -> Self {
        let form = Self::new(b"", ticket, Bytes::new(), Bytes::new(), vec![body]);
        _ = form.parsed.set(Some(head));
        form
    }

    /// The head as the rules read it; `None` when its bytes, which came from disk, are no head.
    pub fn stored_head(&self) -> Option<&Arc<StoredHead>> {
        let read = || StoredHead::from_bytes(&self.metadata).ok().map(Arc::new);
        self.parsed.get_or_init(read).as_ref()
    }

    /// What the disk keeps of the head: the bytes that the rules read, and the prepared head.
    pub fn bytes_for_disk(&self) -> (Bytes, Bytes) {
        match self.parsed.get() {
            Some(Some(head)) if self.metadata.is_empty() => {
                let mut bytes = Vec::new();
                head.write_bytes(&mut bytes);
                (bytes.into(), self.head.clone())
            }
            _ => (self.metadata.clone(), self.head.clone()),
        }
    }

    /// The same body under another head from the rules, as after a validation. It keeps its compressed forms, under new
    /// heads, so that nothing is compressed again, unless forms are no longer allowed.
    #[must_use]
    pub fn renewed_head(&self, head: Arc<StoredHead>, ticket: Ticket) -> Self {
        let mut renewed = self.renewed(ticket, Bytes::new(), Bytes::new());
        renewed.variant = head.secondary().into();
        renewed.tags = tags_of(&head);
        if let Some(Some(forms)) = self.forms.get()
            && !head.meta.demands.has(Demands::AS_IS)
        {
            let forms = forms.renewed(&head, ticket);
            _ = renewed.forms.set(Some(Box::new(forms)));
        }
        _ = renewed.parsed.set(Some(head));
        renewed
    }

    /// Its compressed forms, if it may have any. That is decided once, with `may_have_forms`, at the first request. An
    /// object that stays on disk gets no forms; its head says that others may have them.
    pub fn forms(&self, may_have_forms: impl FnOnce(&StoredHead) -> bool) -> Option<&Forms> {
        let decide = || {
            let head = self.stored_head()?;
            if !may_have_forms(head) {
                return None;
            }
            Some(Box::new(Forms::new(head)))
        };
        self.forms.get_or_init(decide).as_deref()
    }

    /// The same, with tags.
    #[must_use]
    pub fn with_tags(mut self, tags: Vec<Box<str>>) -> Self {
        self.tags = tags.into();
        self
    }

    /// The same body under another head and other metadata, as after a validation. It is fresh again. Its copy on disk,
    /// if there is one, is the old one.
    #[must_use]
    pub fn renewed(&self, ticket: Ticket, metadata: Bytes, head: Bytes) -> Self {
        let (variant, tags, body) = (self.variant.clone(), self.tags.clone(), self.body.clone());
        Self {
            variant,
            metadata,
            tags,
            ticket,
            head,
            parsed: OnceLock::new(),
            body,
            body_bytes: self.body_bytes,
            forms: OnceLock::new(),
            marks: Marks::default(),
            share: self.share.clone(),
        }
    }

    /// Stores it in this share, unless it is in another already.
    pub fn belongs_to(&self, share: &Arc<Share>) {
        _ = self.share.set(Arc::clone(share));
    }

    /// The share it is stored in.
    pub fn share(&self) -> Option<&Arc<Share>> {
        self.share.get()
    }

    /// Bytes of the body.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// The pieces of the body; none when it is on disk.
    pub fn body(&self) -> &[Bytes] {
        match &self.body {
            Body::InMemory(pieces, _) => pieces,
            Body::OnDisk(_) => &[],
        }
    }

    /// Where to read the body from when it is not in RAM.
    pub fn disk(&self) -> Option<&DiskObject> {
        match &self.body {
            Body::InMemory(..) => None,
            Body::OnDisk(disk) => Some(disk),
        }
    }

    /// A client has not read all of the body. Until it has, the body counts in `of` while it is not stored. `None` when
    /// it is on disk.
    pub fn pin(&self, of: &Arc<Transient>) -> Option<Pin> {
        self.pins().map(|pins| pins.pin(of))
    }

    pub(super) fn pins(&self) -> Option<&Arc<Pins>> {
        match &self.body {
            Body::InMemory(_, pins) => Some(pins),
            Body::OnDisk(_) => None,
        }
    }

    /// Bytes that it counts in RAM.
    pub fn weight(&self) -> u64 {
        let tags: usize = self.tags.iter().map(|tag| 2 * tag.len() + 64).sum();
        let parsed = self.parsed.get().and_then(Option::as_ref);
        let parsed = parsed.map_or(0, |head| head.memory_bytes());
        let forms = self.forms.get().and_then(Option::as_ref);
        let forms = forms.map_or(0, |forms| forms.weight());
        let small = parsed + self.variant.len() + self.metadata.len() + self.head.len() + tags;
        let pieces = 48 * self.body().len() as u64;
        self.body_bytes + small as u64 + forms + OBJECT_OVERHEAD_BYTES + pieces
    }

    /// For a body in RAM: fills `slices` with what is still to be sent of `head` followed by `range` of the body, after
    /// `sent` bytes of that have been sent. Returns how many slices it filled. One `writev` of them sends as much as
    /// fits; nothing is copied.
    pub fn slices<'a>(
        &'a self,
        head: &'a [u8],
        range: Range<u64>,
        sent: u64,
        slices: &mut [IoSlice<'a>],
    ) -> usize {
        let head_left = head
            .get(usize::try_from(sent).unwrap_or(usize::MAX)..)
            .unwrap_or_default();
        let mut skip = range.start + sent.saturating_sub(head.len() as u64);
        let mut left = range.end.min(self.body_bytes).saturating_sub(skip);
        let mut filled = 0;
        if let (false, Some(slot)) = (head_left.is_empty(), slices.first_mut()) {
            *slot = IoSlice::new(head_left);
            filled = 1;
        }
        for piece in self.body() {
            let length = piece.len() as u64;
            if skip >= length {
                skip -= length;
                continue;
            }
            let Some(slot) = slices.get_mut(filled).filter(|_| left > 0) else {
                break;
            };
            let shown = (length - skip).min(left);
            *slot = IoSlice::new(&piece[skip as usize..(skip + shown) as usize]);
            (filled, left, skip) = (filled + 1, left - shown, 0);
        }
        filled
    }

    /// Whether a soft purge asked for its validation.
    pub fn is_marked_stale(&self) -> bool {
        self.marks.stale.load(Ordering::Acquire)
    }

    pub(crate) fn mark_stale(&self) {
        self.marks.stale.store(true, Ordering::Release);
    }

    /// The identity of the same object in the disk tier, from which it may have been evicted meanwhile.
    pub fn disk_identity(&self) -> Option<u64> {
        Some(self.marks.on_disk.load(Ordering::Relaxed)).filter(|identity| *identity != 0)
    }

    pub(crate) fn mark_on_disk(&self, identity: u64) {
        self.marks.on_disk.store(identity, Ordering::Relaxed);
    }

    /// Notes a hit. Only none, one and more are distinguished, so a popular object is only read here, not written.
    pub fn touch(&self) {
        let marks = self.marks.uses.load(Ordering::Relaxed);
        if marks != USES_TOLD_APART | RECENTLY {
            let uses = (marks & !RECENTLY) + 1;
            let marks = uses.min(USES_TOLD_APART) | RECENTLY;
            self.marks.uses.store(marks, Ordering::Relaxed);
        }
    }

    /// How often it was used since it came into RAM; more than two are not counted.
    pub fn uses(&self) -> u8 {
        self.marks.uses.load(Ordering::Relaxed) & !RECENTLY
    }

    /// Whether it was used since it came into RAM.
    pub fn was_used(&self) -> bool {
        self.uses() > 0
    }

    /// Whether it was used since the last call.
    fn take_recent_use(&self) -> bool {
        self.marks.uses.fetch_and(!RECENTLY, Ordering::Relaxed) & RECENTLY != 0
    }
}

/// The tags in a head.
fn tags_of(head: &StoredHead) -> Box<[Box<str>]> {
    let tags = crate::tags::of(head.fields());
    let tags = tags.filter_map(|tag| std::str::from_utf8(tag).ok());
    tags.map(Box::from).collect()
}
