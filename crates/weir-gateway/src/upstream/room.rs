//! How many of an upstream's places each endpoint may hold, so that one that hangs leaves the others theirs.

use crate::state::gate::{Allowance, At, Gate};
use crate::state::snapshot::{Endpoint, UpstreamState};

/// What the endpoints of an upstream may hold of its places, if they are limited.
pub(super) struct Room<'a> {
    endpoints: &'a [Endpoint],
    gate: Option<&'a Gate>,
    weights: u64,
}

impl<'a> Room<'a> {
    /// For a request that is no work for its upstream there is always room.
    pub(super) fn new(upstream: &'a UpstreamState, is_apart: bool) -> Self {
        let gate = upstream.gate.as_deref().filter(|_| !is_apart);
        Self {
            gate,
            weights: upstream.weights,
            endpoints: &upstream.endpoints,
        }
    }

    fn allowance(&self, endpoint: usize) -> Option<Allowance> {
        let weight = self.endpoints[endpoint].weight;
        let gate = self.gate?;
        Some(gate.allowance(weight, self.weights))
    }

    pub(super) fn is_at(&self, endpoint: usize) -> bool {
        let Some(allowance) = self.allowance(endpoint) else {
            return true;
        };
        let places = &self.endpoints[endpoint].places;
        places.as_ref().is_none_or(|places| match allowance {
            Allowance::AtMost(most) => places.held() < most,
            Allowance::Fair(most) => places.kept() < most,
        })
    }

    /// Whether nobody may have more, even if there is no other place.
    pub(super) fn is_fixed(&self) -> bool {
        self.gate.is_some_and(Gate::is_per_endpoint)
    }

    /// A place at the endpoint, if they are counted; `None` if it has no more.
    #[expect(
        clippy::option_option,
        reason = "each of them is read at once, by name"
    )]
    pub(super) fn take(&self, endpoint: usize) -> Option<Option<At>> {
        let most = match self.allowance(endpoint) {
            None => return Some(None),
            Some(Allowance::AtMost(most)) => most,
            Some(Allowance::Fair(_)) => u32::MAX,
        };
        match &self.endpoints[endpoint].places {
            Some(places) => places.take(most).map(Some),
            None => Some(None),
        }
    }
}
