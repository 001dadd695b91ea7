//! What a status says of storing a response: whether it tells of what the key names, or of one request alone.

use weir_http::{FieldName, Fields};

use super::{Answered, NotStored};
use crate::control::{Directive, ResponseControl};
use crate::policy::{CachePolicy, KeyParts, QueryKey};

/// Every final status may be stored, known or not, unless it changes what its body means (RFC 9111 §3, third point) or
/// tells of nothing that the key names.
pub(super) fn check(
    answered: &Answered<'_>,
    control: &ResponseControl,
    policy: &CachePolicy,
) -> Result<(), NotStored> {
    let (status, response) = (answered.status, answered.response);
    match status {
        206 | 226 => Err(NotStored::Partial),
        0..=199 | 304 => Err(NotStored::Status),
        _ if !may_be_stored(status) => Err(NotStored::OfRequest),
        // The form that this client wanted is not to be had; `Vary` says which others want the same.
        406 if !varies_on_accept(response) => Err(NotStored::OfRequest),
        // The URL is too long: the one that was asked for, of which the key may leave something out.
        414 if !has_whole_query(&policy.key) => Err(NotStored::OfRequest),
        // §5.2.2.3: `must-understand` is for caches that know what the status asks of them.
        _ if control.says.has(Directive::MustUnderstand) && !is_understood(status) => {
            Err(NotStored::Status)
        }
        _ => Ok(()),
    }
}

/// Whether there are requests whose answer with this status may be kept for others. There are none where it tells of one
/// request alone, by what is no part of a key: under the key, the answer would be everybody's. Whatever asks for it, it is
/// never stored:
///
/// - 206, 226, 304, 412, 416: what the request has already, or which part it wants; 226 is a difference (RFC 3229 §10.4.1)
/// - 401, 407: its credentials, or that it had none; one who has better ones is to be heard
/// - 408, 411, 413, 415, 417: how its body came, how long and of which kind it was, what it expected
/// - 421, 425, 426, 505: the connection and the protocol that it came by
/// - 428, 429, 431, 511: "MUST NOT be stored by a cache" (RFC 6585 §3 to §6): its missing conditions, how often it asks, its
///   fields, its network
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

/// The statuses of RFC 9110 §15 whose rules for caches this crate keeps.
fn is_understood(status: u16) -> bool {
    matches!(status, 200..=205 | 300..=303 | 307 | 308 | 400..=410 | 414 | 422 | 451 | 500..=504)
}
