//! What is changed of the fields of requests and answers, and by what a request is known.

use crate::settings::template::Template;

/// Changes to the fields of a message. Names are in lower case. A field whose variables have no value is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderEdits {
    /// Name and value. Each takes the place of all fields of its name.
    pub set: Vec<(String, Template)>,
    /// Name and value. Each stands beside those that are there.
    pub add: Vec<(String, Template)>,
    /// Names.
    pub remove: Vec<String>,
}

impl HeaderEdits {
    /// Whether a field of this name, in lower case, is sent on as it comes.
    pub fn keeps(&self, name: &str) -> bool {
        let set = self.set.iter().map(|(name, _)| name);
        set.chain(&self.remove).all(|own| own != name)
    }
}

/// Changes to the fields of answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseHeaders {
    /// Of what a route is there for: responses of its upstream, stored ones too, its redirect, its fixed answer.
    pub usual: HeaderEdits,
    /// Name and value. They are set on those, and on what is answered in their place: errors, refusals, fixed fallbacks.
    pub always: Vec<(String, Template)>,
}

/// What holds for every route. What a route itself says of a field goes before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllRoutes {
    /// By what requests are known; `None` adds no field and believes none.
    pub request_id: Option<RequestId>,
    /// [`ResponseHeaders::always`] holds without a route too.
    pub response_headers: ResponseHeaders,
}

/// How the id of a request is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId {
    /// The field, in lower case.
    pub field: String,
    /// Whose id is taken.
    pub trust: TrustId,
    /// Whether the client is told.
    pub respond: bool,
}

/// Whose request id is taken. All others are given one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustId {
    /// That of trusted proxies.
    Proxies,
    /// Anybody's.
    Any,
    /// Nobody's.
    Never,
}
