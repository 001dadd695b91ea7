//! HTTP/1.1 as bytes: heads, body framing, header rules, dates and forms.
//!
//! This crate knows no sockets, no clock and no threads. It reads strictly (RFC 9110, RFC 9112): whatever two parsers
//! could read in two ways is refused with a [`Reject`] that says what broke. A gateway that guesses lets smuggled
//! requests through.
//!
//! - [`head`], [`fields`]: where a head ends, and the fields of one
//! - [`request`], [`response`]: a head's meaning: method, target, framing, persistence
//! - [`target`], [`host`]: the request target in its four forms, and the authority
//! - [`readings`]: how other servers read a path
//! - [`body`], [`chunk`]: which of the following bytes belong to the message
//! - [`forward`], [`content`]: the head that a gateway sends on, also of content that it encodes
//! - [`kept`]: the head of a request that is made again later
//! - [`variable`]: names of fields that fall together where scripts read them
//! - [`reject`]: every reason to refuse a message, and its status
//! - [`date`], [`form`]: dates of fields and logs, and submitted forms

pub mod body;
pub mod chunk;
pub mod content;
pub mod date;
pub mod fields;
pub mod form;
pub mod forward;
pub mod forwarded;
mod framing;
pub mod head;
pub mod host;
pub mod kept;
pub mod opening;
pub mod readings;
pub mod reject;
pub mod request;
pub mod response;
pub mod target;
pub mod variable;

pub use body::Body;
pub use content::Content;
pub use fields::Fields;
pub use head::{Field, FieldName, HeadLimits, Span, Version};
pub use host::Scheme;
pub use reject::Reject;
pub use request::{Method, RequestHead};
pub use response::ResponseHead;
pub use variable::NamedFields;
