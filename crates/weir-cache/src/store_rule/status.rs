//! What a status says about storing a response: whether it is about what the key names, or about one request only.

use weir_http::{FieldName, Fields};

use super::{Answered, NotStored};
use crate::control::{Directive, ResponseControl};
use crate::policy::{CachePolicy, KeyParts, QueryKey};

/// Every final status may be stored, known or not, unless it changes the meaning of its body (RFC 9111 §3, third point)
/// or is not about what the key names.
pub(super) fn check(
    answered: &Answered<'_>,
    control: &ResponseControl,
    policy: &CachePolicy,
) -> Result<(), NotStored> {
    let (status, response) = (answered.status, answered.response);
    match status {
        206 | 226 => Err(NotStored::Partial),
        0..=199 | 304 => Err(NotStored::Status),
        _ if !may_be_stored(status) => Err(NotStored::StatusOfRequest),
        // The form that this client wanted does not exist; `Vary` says which other clients want the same.
        406 if !varies_on_accept(response) => Err(NotStored::StatusOfRequest),
        // The requested URL is too long, and the key may leave a part of it out.
        414 if !has_whole_query(&policy.key) => Err(NotStored::StatusOfRequest),
        // §5.2.2.3: `must-understand` is for caches that know the rules of the status.
        _ if control.says.has(Directive::MustUnderstand) && !is_understood(status) => {
            Err(NotStored::Status)
        }
        _ => Ok(()),
    }
}

/// Whether answers with this status may be kept for other requests. They may not if the status is about one request
/// only, because of something that is no part of a key: under the key, everybody would get the answer. Such a status is
/// never stored, whatever asks for it:
///
/// - 206, 226, 304, 412, 416: what the client already has, or which part it wants; 226 is a difference (RFC 3229
///   §10.4.1)
/// - 401, 407: its credentials, or that it had none; a client with better ones must get another answer
/// - 408, 411, 413, 415, 417: how its body came, how long and of which kind it was, what it expected
/// - 421, 425, 426, 505: the connection and the protocol that it used
/// - 428, 429, 431, 511: "MUST NOT be stored by a cache" (RFC 6585 §3 to §6): its missing conditions, how often it
///   asks, its fields, its network
pub const fn may_be_stored(status: u16) -> bool {
    !matches!(
        status,
        0..=199
            | 206
            | 226
            | 304
            | 401
            | 407
            | 408
            | 411..=413
            | 415..=417
            | 421
            | 425
            | 426
            | 428
            | 429
            | 431
            | 505
            | 511
    )
}

fn varies_on_accept(response: Fields<'_>) -> bool {
    response.elements(FieldName::Vary).any(|name| {
        name.get(..6)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"accept"))
    })
}

fn has_whole_query(key: &KeyParts) -> bool {
    matches!(key.query, QueryKey::Whole | QueryKey::Sorted)
}

/// The statuses of RFC 9110 §15 whose rules for caches this crate follows.
fn is_understood(status: u16) -> bool {
    matches!(status, 200..=205 | 300..=303 | 307 | 308 | 400..=410 | 414 | 422 | 451 | 500..=504)
}
