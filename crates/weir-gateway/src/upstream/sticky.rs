//! Clients that come back to the endpoint that has served them, by a cookie.

use crate::exchange::Exchange;
use crate::serving::Forwarding;

/// The endpoint that the client of a request comes back to, if it has said so and that is still there.
pub(super) fn home(x: &Exchange, by: Forwarding<'_>) -> Option<usize> {
    let homes = by.upstream().homes.as_deref()?;
    homes.endpoint(x.sticky.sent(&homes.cookie)?)
}

/// Has the client told to come back to the endpoint that has answered, if it does not already. An error binds nobody: another
/// endpoint may be well. Nor does an answer that others wait for in a cache, which comes to them without.
pub(crate) fn note(x: &mut Exchange, by: Forwarding<'_>, is_answered: bool) {
    let Some(homes) = by.upstream().homes.as_deref() else {
        return;
    };
    let endpoint = x.facts.endpoint.map(|(_, endpoint)| endpoint);
    let endpoint = endpoint.filter(|_| is_answered && x.response.status < 500);
    let value = endpoint.map(|endpoint| homes.value(endpoint));
    let value = value.filter(|&value| x.sticky.sent(&homes.cookie) != Some(value));
    x.keep_endpoint(&homes.cookie, value);
}
