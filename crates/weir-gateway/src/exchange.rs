//! What one exchange needs, and what is known of it when it is over.

use std::cell::Cell;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use rustix::io::Errno;
use weir_http::body::Framing;
use weir_http::head::HeadScan;
use weir_http::request::Progress;
use weir_http::{HeadLimits, RequestHead, ResponseHead, Scheme, Span, forwarded, target};
use weir_policy::limit::rate::Decision as RateDecision;

use crate::buffers::{BUFFER_BYTES, Buffers, Input};
use crate::connection::{AddressText, Client};
use crate::ended::Ended;
use crate::exchange::noted::Noted;
use crate::exchange::outgoing::Outgoing;
use crate::exchange::pass::Pass;
use crate::exchange::recall::Recall;
use crate::exchange::sticky::StickyCookies;
use crate::exchange::upload::{Pace, Upload};
use crate::failure::{Failure, FallbackKind};
use crate::held_bodies::Claim;
use crate::router::RouteKey;
use crate::settings::{ClientTimeouts, Forward, RequestId, TrustId};
use crate::state::view::View;
use crate::state::worker::Worker;
use crate::time;

pub(crate) mod ahead;
mod noted;
pub(crate) mod outgoing;
pub(crate) mod pass;
pub(crate) mod recall;
pub(crate) mod sticky;
pub(crate) mod upload;
pub(crate) mod variables;

/// Bytes that each part of an [`Exchange`] keeps memory for between requests: a head, and a full buffer of body behind it.
const KEPT_BYTES_MAX: usize = 2 * BUFFER_BYTES;

/// Bytes of a request id that somebody else has made.
const ID_BYTES_MAX: usize = 128;

/// Bounds on a head that was kept: it was read within those of its time.
pub(crate) const KEPT_HEAD_LIMITS: HeadLimits = HeadLimits {
    bytes: usize::MAX,
    fields: HeadLimits::FIELDS_CEILING,
};

/// Everything one exchange needs, in memory that the next one uses again.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Who asks.
    pub(crate) client: Box<Client>,
    /// Whether the head was read; without it, nothing of the request is known.
    pub(crate) has_head: bool,
    pub(crate) request: RequestHead,
    /// The bytes of the request head, and the normal form of its authority behind it where that was sent in another one:
    /// what [`Exchange::request`] points into.
    pub(crate) head: Vec<u8>,
    /// Whether routes are matched against the path as it was sent, else against `normal_path`.
    pub(super) path_is_normal: bool,
    pub(super) normal_path: Vec<u8>,
    /// Whether the connection ends with it.
    pub(super) is_last: bool,
    /// The client's address where a trusted proxy stands between.
    behind: Option<AddressText>,
    /// How the client has connected to such a proxy, where that says so.
    scheme_behind: Option<Scheme>,
    /// The deadlines of the client's side, in the configuration that serves this exchange.
    pub(crate) timeouts: ClientTimeouts,
    /// The request body on its way to the upstream.
    pub(crate) upload: Upload,
    /// What is held of the upstream's limits until the head of the response is here.
    pub(crate) pass: Pass,
    /// What the cache has to do with it.
    pub(crate) recall: Recall,
    /// The gateway's own cookies.
    pub(crate) sticky: StickyCookies,
    /// What its client is told of its rate.
    pub(crate) rate: Option<RateDecision>,
    /// When a client that is refused should come back.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) response: ResponseHead,
    /// Read from the upstream and not yet sent on.
    pub(crate) incoming: Input,
    /// What the upstream is sent: the head, and behind it a body that is here whole.
    pub(crate) forwarded: Vec<u8>,
    /// What the client is sent.
    pub(crate) outgoing: Outgoing,
    pub(crate) facts: Facts,
    /// The lines that the route adds to its request, where there are variables in them.
    pub(crate) filled: Vec<u8>,
    /// What the log says of the fields of the answer.
    noted: Noted,
    /// By what the request is known in logs, once it was asked for.
    id: Cell<Option<Id>>,
}

/// By what a request is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Id {
    /// A part of its head.
    Taken(Span),
    Made(u128),
}

/// What is known of an exchange when it is over: the source of metrics and log lines.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) started: Option<Instant>,
    /// From then to the end, once it has ended.
    pub(crate) duration: Option<Duration>,
    pub(crate) route: Option<usize>,
    /// Which of the route's upstreams it is for, where it has several.
    pub(crate) side: Option<usize>,
    /// Upstream and endpoint that was asked last, be it in vain.
    pub(crate) endpoint: Option<(usize, usize)>,
    /// Why no connection to it could be opened.
    pub(crate) connect_error: Option<Errno>,
    /// From choosing the endpoint to the response head.
    pub(crate) upstream_latency: Option<Duration>,
    /// When the response head was here.
    pub(crate) answered_at: Option<Instant>,
    /// Whether an endpoint has been sent it, be it in vain.
    pub(crate) was_sent: bool,
    /// Whether it was sent more than once, with waits between.
    pub(crate) was_repeated: bool,
    /// Whether it is still to be copied, to the mirror of its route.
    pub(crate) is_mirrored: bool,
    pub(crate) status: u16,
    /// Sent to the client, head included.
    pub(crate) bytes_sent: u64,
    /// The part of it that was head.
    pub(crate) head_bytes_sent: u64,
    /// Received through the tunnel that it became, after the head, if it became one.
    pub(crate) tunnel_bytes_received: Option<u64>,
    pub(crate) failure: Option<Failure>,
    /// What the client got in the place of an answer.
    pub(crate) fallback: Option<FallbackKind>,
}

/// Whether an id can be looked for in a log and named in a command: no blanks, quotes or separators of lists, and not too long.
fn is_sound_id(id: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:+/=@~".contains(byte);
    (1..=ID_BYTES_MAX).contains(&id.len()) && id.iter().all(is_plain)
}

impl Exchange {
    pub(crate) fn new(client: Box<Client>) -> Self {
        Self {
            client,
            has_head: false,
            request: RequestHead::default(),
            head: Vec::new(),
            path_is_normal: false,
            normal_path: Vec::new(),
            is_last: false,
            behind: None,
            scheme_behind: None,
            timeouts: ClientTimeouts::default(),
            upload: Upload::default(),
            pass: Pass::default(),
            recall: Recall::default(),
            sticky: StickyCookies::default(),
            rate: None,
            retry_after: None,
            response: ResponseHead::default(),
            incoming: Input::default(),
            forwarded: Vec::new(),
            outgoing: Outgoing::default(),
            facts: Facts::default(),
            filled: Vec::new(),
            noted: Noted::default(),
            id: Cell::default(),
        }
    }

    /// The head of a request was read, its bytes are the first of those that have come.
    pub(crate) fn take_head(&mut self, bytes: usize) {
        self.head.clear();
        self.client.h1().take_head(bytes, &mut self.head);
        self.begin();
    }

    /// The request has the same head as that of `other`.
    pub(crate) fn copy_head(&mut self, other: &Self) {
        self.head.clear();
        let head = &other.head[..other.request.head_bytes];
        self.head.extend_from_slice(head);
        self.begin();
    }

    /// The request is one that was kept, with all of its body, and nobody waits for it. `false` when it is none that could
    /// have been kept.
    pub(crate) fn take_kept(&mut self, head: &[u8], content: Vec<u8>, claim: Claim) -> bool {
        let mut scan = HeadScan::default();
        let parsed = self.request.parse(head, &mut scan, KEPT_HEAD_LIMITS);
        let length = match self.request.framing {
            Framing::Empty => 0,
            Framing::Length(length) => length,
            Framing::Chunked | Framing::UntilClose => u64::MAX,
        };
        let is_whole = parsed == Ok(Progress::Complete(head.len()));
        if !is_whole || length != content.len() as u64 {
            return false;
        }
        self.head.clear();
        self.head.extend_from_slice(head);
        self.begin();
        self.upload = Upload::of_nobody(content, claim);
        true
    }

    fn begin(&mut self) {
        self.has_head = true;
        let scheme = self.client.scheme.as_bytes();
        self.request.settle_authority(scheme, &mut self.head);
        self.client.link.begin_body(self.request.framing);
        self.upload = Upload::new(self.request.framing, self.request.expects_continue);
        self.facts.started = Some(time::now());
    }

    /// Asking was broken off, and another answer is to be found.
    pub(crate) fn asks_no_more(&mut self, buffers: &Buffers) -> Result<(), Failure> {
        if !self.outgoing.may_begin_anew() {
            return Err(Failure::ClientGone);
        }
        self.pass = Pass::default();
        self.retry_after = None;
        self.incoming.consume(self.incoming.unread().len());
        self.incoming.release(buffers);
        self.upload.restart();
        let Facts {
            upstream_latency,
            answered_at,
            ..
        } = &mut self.facts;
        (*upstream_latency, *answered_at) = (None, None);
        Ok(())
    }

    /// Finds the normal form of the path.
    ///
    /// # Errors
    /// It has none.
    pub(crate) fn normalize_path(&mut self) -> Result<(), Failure> {
        let path = self.request.target.path.of(&self.head);
        self.path_is_normal = target::is_normal(path);
        if self.path_is_normal {
            return Ok(());
        }
        let path = if path == b"*" || path.is_empty() {
            b"/"
        } else {
            path
        };
        target::normalize(path, &mut self.normal_path).map_err(Failure::Request)
    }

    /// The path is read the way it was in `other`, which has the same request.
    pub(crate) fn path_is_as_in(&mut self, other: &Self) {
        self.path_is_normal = other.path_is_normal;
        self.normal_path.clone_from(&other.normal_path);
    }

    /// It is asked for the client of another one.
    pub(crate) fn client_is_as_in(&mut self, other: &Self) {
        self.behind = other.behind;
    }

    /// It has the id of another one, whose head it has.
    pub(crate) fn id_is_as_in(&mut self, other: &Self, view: &View, worker: &Worker) {
        if let Some(rule) = &view.snapshot.request_id {
            self.find_id(rule, &view.snapshot.trusted_proxies);
        }
        if self.id.get().is_none() {
            let made = match other.id.get() {
                Some(Id::Made(id)) => id,
                _ => worker.random.borrow_mut().u128(..),
            };
            for it in [self, other] {
                it.id.set(it.id.get().or(Some(Id::Made(made))));
            }
        }
    }

    /// Finds out who the client is, and how it has connected, where the request came from a proxy of `trusted`.
    pub(super) fn find_client(&mut self, trusted: &[IpNet]) {
        let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(&address));
        let peer = self.client.address.address();
        if !is_trusted(peer) {
            return;
        }
        let request = self.request.view(&self.head);
        let found = forwarded::client_behind(request, peer, is_trusted);
        self.behind = (found != peer).then(|| AddressText::new(found));
        self.scheme_behind = forwarded::scheme_behind(request);
        let scheme = self.scheme();
        if scheme != self.client.scheme {
            self.request
                .settle_authority(scheme.as_bytes(), &mut self.head);
        }
    }

    /// How the client has connected: what a trusted proxy in front says of it, or how the connection was made.
    pub(crate) fn scheme(&self) -> Scheme {
        self.scheme_behind.unwrap_or(self.client.scheme)
    }

    /// Takes the id that a trusted one has given the request.
    pub(super) fn find_id(&mut self, rule: &RequestId, proxies: &[IpNet]) {
        let peer = self.client.address.address();
        let is_trusted = match rule.trust {
            TrustId::Never => false,
            TrustId::Any => true,
            TrustId::Proxies => proxies.iter().any(|network| network.contains(&peer)),
        };
        if is_trusted {
            let taken = self.request.sole_field(&self.head, &rule.field);
            let taken = taken.filter(|span| is_sound_id(span.of(&self.head)));
            self.id.set(taken.map(Id::Taken));
        }
    }

    /// The client is known by this address, whoever has passed its request on.
    pub(crate) fn client_is(&mut self, address: IpAddr) {
        let is_peer = self.client.address.address() == address.to_canonical();
        self.behind = (!is_peer).then(|| AddressText::new(address));
    }

    /// The address that the client is known by.
    pub(crate) fn client_address(&self) -> &AddressText {
        self.behind.as_ref().unwrap_or(&self.client.address)
    }

    /// The head of the response is here.
    pub(crate) fn answered(&self) -> Ended {
        Ended::answered(self.response.status, self.upload.was_waited_for())
    }

    /// The deadlines of asking the upstream by `rule`.
    pub(crate) fn pace(&self, rule: &Forward) -> Pace {
        Pace {
            client: self.timeouts.body,
            upstream: rule.timeouts.idle,
            response: rule.timeouts.response,
        }
    }

    /// The bytes of the request head as it was sent.
    pub(crate) fn head_bytes(&self) -> u64 {
        u64::from(self.has_head) * self.request.head_bytes as u64
    }

    /// The bytes that came from the client.
    pub(crate) fn bytes_received(&self) -> u64 {
        self.head_bytes() + self.upload.received() + self.facts.tunnel_bytes_received.unwrap_or(0)
    }

    /// The path that stands for the request upstream and in keys: as it was sent, unless it has dot segments.
    pub(crate) fn forwarded_path(&self) -> &[u8] {
        let sent = self.request.target.path.of(&self.head);
        if self.path_is_normal {
            sent
        } else {
            target::forwarded(sent, &self.normal_path)
        }
    }

    /// The path in normal form.
    pub(crate) fn path(&self) -> &str {
        let sent = self.request.target.path.of(&self.head);
        let path = if self.path_is_normal {
            sent
        } else {
            &self.normal_path
        };
        // A target is made of visible ASCII characters, and decoding keeps to them.
        std::str::from_utf8(path).unwrap_or("/")
    }

    /// What decides the route of the request, once its path is in normal form.
    pub(crate) fn route_key(&self) -> RouteKey<'_> {
        RouteKey {
            authority: self.request.authority.map(|span| span.of(&self.head)),
            path: self.path(),
            method: self.request.method,
            method_name: self.request.method_name.of(&self.head),
            fields: self.request.view(&self.head),
            query: self.request.target.query.map(|span| span.of(&self.head)),
        }
    }

    /// Whether the client may send another request after this one.
    pub(crate) fn client_keeps_alive(&self, worker: &Worker) -> bool {
        self.has_head && self.request.keep_alive && !self.is_last && !worker.is_draining()
    }

    /// Forgets the request and keeps the memory.
    pub(crate) fn reset(&mut self, buffers: &Buffers) {
        self.has_head = false;
        let texts = [
            &mut self.head,
            &mut self.forwarded,
            &mut self.normal_path,
            &mut self.filled,
        ];
        for kept in texts {
            kept.clear();
            // What one large head needed is not held for all the small ones to come.
            kept.shrink_to(KEPT_BYTES_MAX);
        }
        self.outgoing.reset(KEPT_BYTES_MAX);
        self.incoming.consume(self.incoming.unread().len());
        self.incoming.release(buffers);
        self.upload = Upload::default();
        self.pass = Pass::default();
        self.recall.reset();
        self.sticky.reset();
        self.rate = None;
        self.retry_after = None;
        self.behind = None;
        self.scheme_behind = None;
        self.facts = Facts::default();
        self.noted.clear();
        self.id.set(None);
    }
}
