//! A request as a service gets it.

use std::net::IpAddr;

use weir_http::{Fields, RequestHead, Scheme};

/// A request for a service. All of its body is here.
#[derive(Debug)]
pub struct Ask {
    /// The name of the route that it came by.
    pub route: Box<str>,
    /// The name of the upstream that the route has requests delivered to, if it has one.
    pub upstream: Option<Box<str>>,
    /// The client, where a trusted proxy stands between the one behind that.
    pub client: IpAddr,
    /// Who has sent it: the client, or a trusted proxy.
    pub peer: IpAddr,
    /// How that has connected.
    pub scheme: Scheme,
    /// The parameters of the route's path: name and value.
    pub parameters: Vec<(Box<str>, Box<str>)>,
    /// The head as it can be kept and delivered later ([`weir_http::kept`]): end-to-end fields, and the length of `body`.
    pub head: Vec<u8>,
    /// What `head` says.
    pub request: RequestHead,
    /// The content, without the framing that it came in.
    pub body: Vec<u8>,
}

impl Ask {
    /// The fields of the request.
    pub fn fields(&self) -> Fields<'_> {
        self.request.view(&self.head)
    }

    /// The path as it was asked for, without the query.
    pub fn path(&self) -> &[u8] {
        self.request.target.path.of(&self.head)
    }

    /// The query behind the `?`, if there is one.
    pub fn query(&self) -> Option<&[u8]> {
        self.request.target.query.map(|span| span.of(&self.head))
    }
}
