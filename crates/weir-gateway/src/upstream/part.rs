//! The part of a request that is hashed, so that all that have the same stay together.

use crate::exchange::Exchange;
use crate::settings::HashOn;

/// The part of the request, if it has it.
pub(super) fn part<'a>(x: &'a Exchange, hash_on: &HashOn) -> Option<&'a [u8]> {
    let target = &x.request.target;
    match hash_on {
        HashOn::ClientAddress => Some(x.client_address().as_bytes()),
        HashOn::Host => x.request.authority.map(|span| span.of(&x.head)),
        HashOn::Path => Some(target.path.of(&x.head)),
        HashOn::Target => Some(x.request.target_text.of(&x.head)),
        HashOn::Header(name) => x.request.field(&x.head, name),
        HashOn::Cookie(name) => value_of(x.request.field(&x.head, "cookie")?, b';', name),
        HashOn::Query(name) => value_of(target.query?.of(&x.head), b'&', name),
    }
}

/// The value of `name` in a list of `name=value`.
fn value_of<'a>(list: &'a [u8], separator: u8, name: &str) -> Option<&'a [u8]> {
    let mut pairs = list
        .split(move |&byte| byte == separator)
        .map(<[u8]>::trim_ascii);
    pairs.find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}
