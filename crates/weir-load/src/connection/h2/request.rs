//! Requests in the form that the `h2` crate takes. Those without fields are made once.

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Method, Request, Uri, Version};

use crate::mix::{self, Mix};
use crate::plan::Plan;
use crate::template::Filling;
use crate::wire::fill_path;

/// The requests of a run.
#[derive(Debug)]
pub(super) struct Requests {
    mix: Mix,
    seed: u64,
    scheme: &'static str,
    authority: String,
    prepared: Vec<Option<(Request<()>, Bytes)>>,
}

impl Requests {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut requests = Self {
            mix: plan.mix.clone(),
            seed: plan.seed,
            scheme: if plan.target.tls.is_some() {
                "https"
            } else {
                "http"
            },
            authority: plan.target.authority.clone(),
            prepared: Vec::new(),
        };
        let prepare = |request: &mix::Request| {
            let filling = &mut Filling::new(0, 0);
            request
                .is_fixed()
                .then(|| requests.render(request, filling))
        };
        requests.prepared = plan.mix.requests().iter().map(prepare).collect();
        requests
    }

    /// The request of this number, always the same for the same number.
    pub(super) fn fill(&self, number: u64) -> (Request<()>, Bytes) {
        let mut filling = Filling::new(self.seed, number);
        let chosen = self.mix.choose(&mut filling);
        match &self.prepared[chosen] {
            Some(prepared) => prepared.clone(),
            None => self.render(&self.mix.requests()[chosen], &mut filling),
        }
    }

    fn render(&self, request: &mix::Request, filling: &mut Filling) -> (Request<()>, Bytes) {
        let mut path = Vec::new();
        fill_path(request, filling, &mut path);
        let mut rendered = Request::new(());
        *rendered.version_mut() = Version::HTTP_2;
        *rendered.method_mut() =
            Method::from_bytes(request.method.as_bytes()).expect("a mix holds tokens as methods");
        let mut authority = self.authority.clone();
        for (name, value) in &request.headers {
            let mut bytes = Vec::new();
            value.fill(filling, &mut bytes);
            if name.eq_ignore_ascii_case("host") {
                authority = String::from_utf8_lossy(&bytes).into_owned();
                continue;
            }
            let name =
                HeaderName::from_bytes(name.as_bytes()).expect("a mix holds tokens as names");
            // A line of a file may hold what no field can.
            bytes.retain(|byte| *byte == b'\t' || !byte.is_ascii_control());
            let value = HeaderValue::from_bytes(&bytes).expect("control characters are gone");
            rendered.headers_mut().append(name, value);
        }
        let mut body = Vec::new();
        request.body.fill(filling, &mut body);
        if !body.is_empty() {
            let length = HeaderValue::from(body.len());
            rendered
                .headers_mut()
                .insert(http::header::CONTENT_LENGTH, length);
        }
        let uri = Uri::builder()
            .scheme(self.scheme)
            .authority(authority)
            .path_and_query(path)
            .build();
        // A path that no request line could hold is percent-encoded; an authority that is none stays the target's.
        *rendered.uri_mut() = uri.unwrap_or_default();
        (rendered, body.into())
    }
}
