//! The compressed forms of one stored response, beside it in RAM: they are found and removed with it.
//!
//! A form is made by the caller that claims it, once for each coding, on any thread; meanwhile the response is sent as
//! it is. A form that would not be smaller is noted as useless and never made again. Nothing here compresses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use weir_http::Content;

use super::object::Object;
use super::purge::Ticket;
use crate::StoredHead;
use crate::negotiate::Coding;

/// See the module's description.
#[derive(Debug)]
pub struct Forms {
    /// The stored head of the response, which says that it is negotiated.
    head: Arc<StoredHead>,
    /// By [`Coding::ALL`].
    slots: [Slot; Coding::ALL.len()],
}

#[derive(Debug, Default)]
struct Slot {
    is_claimed: AtomicBool,
    /// `None`: the form is useless.
    form: OnceLock<Option<Arc<Object>>>,
}

/// The state of a form.
#[derive(Debug, Clone, Copy)]
pub enum Form<'f> {
    /// It is complete.
    Made(&'f Arc<Object>),
    /// It does not exist, or is being made. [`Forms::claim`] distinguishes these.
    Missing,
    /// It would be no smaller.
    Useless,
}

impl Forms {
    /// No forms yet, for a response with this head.
    pub(super) fn new(head: &StoredHead) -> Self {
        Self {
            head: Arc::new(head.with_content(Content::Negotiated, head.body_bytes())),
            slots: Default::default(),
        }
    }

    /// The head to send with the body as it is stored.
    pub fn head(&self) -> &Arc<StoredHead> {
        &self.head
    }

    /// The form in `coding`.
    pub fn find(&self, coding: Coding) -> Form<'_> {
        let slot = self.slot(coding);
        match slot.map(|slot| slot.form.get()) {
            Some(Some(Some(form))) => Form::Made(form),
            Some(None) => Form::Missing,
            Some(Some(None)) | None => Form::Useless,
        }
    }

    /// Whether the caller must make the form: `true` once, until it is given up.
    pub fn claim(&self, coding: Coding) -> bool {
        let claims = |slot: &Slot| !slot.is_claimed.swap(true, Ordering::AcqRel);
        self.slot(coding).is_some_and(claims)
    }

    /// The caller that claimed the form cannot make it now.
    pub fn give_up(&self, coding: Coding) {
        if let Some(slot) = self.slot(coding) {
            slot.is_claimed.store(false, Ordering::Release);
        }
    }

    /// Stores the claimed form: the body of `object` in `coding`. Without `body`, the form is useless.
    pub fn made(&self, object: &Object, coding: Coding, body: Option<Bytes>) {
        let head = object.stored_head();
        if let (Some(body), Some(pins)) = (&body, object.pins()) {
            pins.grow(body.len() as u64);
        }
        let form = body
            .zip(head)
            .map(|(body, head)| encoded(head, object.ticket, coding, body));
        if let Some(slot) = self.slot(coding) {
            _ = slot.form.set(form.map(Arc::new));
        }
    }

    /// The same forms under a new head of the response.
    pub(super) fn renewed(&self, head: &StoredHead, ticket: Ticket) -> Self {
        let renewed = Self::new(head);
        for (coding, slot) in Coding::ALL.into_iter().zip(&self.slots) {
            let Some(form) = slot.form.get() else {
                continue;
            };
            let body = form.as_ref().and_then(|form| form.body().first());
            let form = body.map(|body| encoded(head, ticket, coding, body.clone()));
            if let Some(slot) = renewed.slot(coding) {
                slot.is_claimed.store(true, Ordering::Relaxed);
                _ = slot.form.set(form.map(Arc::new));
            }
        }
        renewed
    }

    /// Bytes that they count in RAM.
    pub(super) fn weight(&self) -> u64 {
        let made = self
            .slots
            .iter()
            .filter_map(|slot| slot.form.get()?.as_ref());
        let own = size_of::<Self>() + self.head.memory_bytes();
        own as u64 + made.map(|form| form.weight()).sum::<u64>()
    }

    fn slot(&self, coding: Coding) -> Option<&Slot> {
        let at = Coding::ALL.iter().position(|&own| own == coding)?;
        self.slots.get(at)
    }
}

/// The response with this head and an encoded body.
fn encoded(head: &StoredHead, ticket: Ticket, coding: Coding, body: Bytes) -> Object {
    let content = Content::Encoded(coding.token().as_bytes());
    let head = Arc::new(head.with_content(content, Some(body.len() as u64)));
    Object::of_form(head, ticket, body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{MemoryConfig, MemoryStore, Purges};
    use crate::stored_head::tests::stored;

    fn object(purges: &Purges) -> Arc<Object> {
        let head = stored(&["ETag: \"a\"", "Content-Type: text/plain"]);
        let body = vec![Bytes::from_static(b"a body that is longer than its form")];
        Arc::new(Object::of_head(Arc::new(head), purges.ticket(), body))
    }

    fn text(head: &StoredHead) -> &str {
        std::str::from_utf8(head.lines()).expect("a head is text")
    }

    #[test]
    fn each_form_is_made_once() {
        let object = object(&Purges::default());
        assert!(object.forms(|_| true).is_some());
        let forms = object.forms(|_| false).expect("it was decided");
        assert!(matches!(forms.find(Coding::Gzip), Form::Missing));
        assert!(forms.claim(Coding::Gzip) && !forms.claim(Coding::Gzip));
        forms.give_up(Coding::Gzip);
        assert!(forms.claim(Coding::Gzip) && forms.claim(Coding::Zstd));
        forms.made(&object, Coding::Gzip, Some(Bytes::from_static(b"form")));
        forms.made(&object, Coding::Zstd, None);
        assert!(matches!(forms.find(Coding::Zstd), Form::Useless));
        assert!(matches!(forms.find(Coding::Identity), Form::Useless));
        let Form::Made(form) = forms.find(Coding::Gzip) else {
            panic!("it is made");
        };
        let head = text(form.stored_head().expect("it has a head"));
        assert!(head.contains("Content-Encoding: gzip\r\nETag: W/\"a\"\r\nVary: Accept-Encoding\r\nContent-Length: 4\r\n"), "{head}");
        assert!(text(forms.head()).contains("ETag: \"a\"\r\n"));
        assert!(object.forms(|_| true).is_some(), "and it stays so");
    }

    #[test]
    fn a_response_that_may_have_no_forms_has_none() {
        let object = object(&Purges::default());
        assert!(object.forms(|_| false).is_none());
        assert!(object.forms(|_| true).is_none());
    }

    #[test]
    fn a_confirmed_response_keeps_its_forms_unless_they_are_forbidden() {
        let object = object(&Purges::default());
        let forms = object.forms(|_| true).expect("it may");
        forms.claim(Coding::Brotli);
        forms.made(&object, Coding::Brotli, Some(Bytes::from_static(b"form")));
        let renewed_with = |line: &str| {
            let head = stored(&["ETag: \"a\"", line]);
            object.renewed_head(Arc::new(head), object.ticket)
        };
        let renewed = renewed_with("Server: other");
        let forms = renewed.forms(|_| false).expect("it has some");
        let Form::Made(form) = forms.find(Coding::Brotli) else {
            panic!("it was not made again");
        };
        assert_eq!(form.body()[0].as_ref(), b"form");
        assert!(text(form.stored_head().expect("a head")).contains("Server: other"));
        let forbidden = renewed_with("Cache-Control: no-transform");
        assert!(forbidden.forms(|_| false).is_none());
    }

    #[test]
    fn forms_count_in_the_budget_of_ram() {
        let purges = Arc::<Purges>::default();
        let store = MemoryStore::new(MemoryConfig::with_budget(1 << 20), Arc::clone(&purges));
        let object = object(&purges);
        assert!(!store.holds(b"key", &object));
        store.insert(b"key", Arc::clone(&object));
        assert!(store.holds(b"key", &object));
        let before = store.stats().bytes;
        let forms = object.forms(|_| true).expect("it may");
        forms.claim(Coding::Gzip);
        forms.made(&object, Coding::Gzip, Some(vec![0; 5000].into()));
        assert_eq!(store.stats().bytes, before);
        assert!(store.reweigh(b"key", &object).is_empty());
        assert!(store.stats().bytes > before + 5000);
        store.remove(b"key");
        assert!(store.reweigh(b"key", &object).is_empty());
        assert!(store.peek(b"key").is_none() && store.stats().bytes == 0);
    }

    #[test]
    fn a_form_that_does_not_fit_makes_room() {
        let purges = Arc::<Purges>::default();
        let store = MemoryStore::new(MemoryConfig::with_budget(64 << 10), Arc::clone(&purges));
        for number in 0..8_u8 {
            let head = Arc::new(stored(&["Server: s"]));
            let body = vec![Bytes::from(vec![number; 4000])];
            let object = Arc::new(Object::of_head(head, purges.ticket(), body));
            store.insert(&[number], Arc::clone(&object));
            let forms = object.forms(|_| true).expect("it may");
            forms.claim(Coding::Gzip);
            forms.made(&object, Coding::Gzip, Some(vec![0; 3900].into()));
            store.reweigh(&[number], &object);
        }
        let stats = store.stats();
        assert!(stats.bytes <= 64 << 10 && stats.evicted > 0, "{stats:?}");
    }
}
