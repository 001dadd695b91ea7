//! HTTP/1.1 as bytes: heads, body framing, header rules, dates and forms.
//!
//! This crate knows no sockets, no clock and no threads. It reads strictly (RFC 9110, RFC 9112): whatever two parsers
//! could read in two ways is refused with a [`Reject`] that says what broke. A gateway that guesses lets smuggled
//! requests through.
//!
//! - [`head`], [`fields`]: where a head ends, and the fields of one
//! - [`request`], [`response`]: a head's meaning: method, target, framing, persistence
//! - [`target`], [`host`]: the request target in its four forms, and the authority
//! - [`readings`]: how other servers read a path; [`query`]: the parameters behind it
//! - [`body`], [`chunk`]: which of the following bytes belong to the message
//! - [`forward`], [`content`]: the head that a gateway sends on, also of content that it encodes
//! - [`cookie`]: cookies of the gateway itself, which nobody else gets to see
//! - [`kept`]: the head of a request that is made again later
//! - [`variable`]: names of fields that fall together where scripts read them
//! - `trace`: which trace a request belongs to
//! - [`reject`]: every reason to refuse a message, and its status
//! - [`websocket`]: where the frames of an upgraded connection end
//! - [`date`], [`form`]: dates of fields and logs, and submitted forms

pub mod body;
pub mod chunk;
pub mod content;
pub mod cookie;
pub mod date;
pub mod fields;
pub mod form;
pub mod forward;
pub mod forwarded;
mod framing;
pub mod head;
pub mod host;
pub mod kept;
pub mod media;
pub mod opening;
pub mod query;
pub mod readings;
pub mod reject;
pub mod request;
pub mod response;
pub mod target;
mod trace;
pub mod variable;
pub mod websocket;

pub use body::Body;
pub use content::Content;
pub use fields::Fields;
pub use head::{Field, FieldName, HeadLimits, Span, Version};
pub use host::Scheme;
pub use reject::Reject;
pub use request::{Method, RequestHead};
pub use response::ResponseHead;
pub use variable::NamedFields;
