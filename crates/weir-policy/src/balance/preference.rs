//! In which order of preference the endpoints of an upstream are asked, whatever the method that chooses among equals:
//!
//! 1. who is well: who has room before who has not, and who has not seen the request before who has;
//! 2. who stands out, since it may answer yet;
//! 3. who has refused connections and is waited for;
//! 4. who is down by its checks: an answer may come from an endpoint thought dead, and will not come from here;
//! 5. who is leaving, but only for a request from before a change of the configuration.
//!
//! Before all of them goes the home of a request, if it has one and that is well, has room and has not seen it: where a sticky
//! cookie says that its client was served before.
//!
//! A second copy of a request goes only to who is well, is trusted and has not seen it. Where nobody may have more than its
//! room, a request is refused rather than sent to who is not well.
//!
//! [`Search`] only looks. Its caller takes what the endpoint has to give (a place, a permit of its breaker) and says when
//! it gives none; then there is a next one.

use std::time::Duration;

use super::{Balancer, Pick};

/// The worst that is known of an endpoint, from the worst to the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The request could not reach it.
    Unreachable,
    /// It is being drained, or is in no configuration any more.
    Leaving,
    /// Its checks found it down.
    Down,
    /// It has refused connections, and is left alone for a while.
    Waiting,
    /// It stands out among its siblings.
    StandsOut,
    /// Nothing speaks against it.
    Well,
}

/// What is known at the moment of a choice. It may read what other threads write.
pub trait Known {
    /// The worst that is known of an endpoint.
    fn standing(&self, endpoint: usize) -> Standing;
    /// Whether it has never failed since it answered last.
    fn is_trusted(&self, endpoint: usize) -> bool;
    /// Whether it has a place left for one more request.
    fn has_room(&self, endpoint: usize) -> bool;
    /// Whether nobody may have more than its room, even if there is no other.
    fn is_room_fixed(&self) -> bool;
    /// Whether the request began before a change of the configuration, so that all that it knows may be leaving.
    fn is_from_before(&self) -> bool;
}

/// For what an endpoint is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// For the request: anyone is better than nobody.
    Request,
    /// For a second copy of it, which nobody depends on.
    Copy,
}

/// An endpoint that may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Its position in the list of the balancer.
    pub endpoint: usize,
    /// Whether nothing speaks against it; else it is asked because there is nobody better.
    pub is_well: bool,
}

/// Why a candidate was not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declined {
    /// It had no place left.
    Full,
    /// Its breaker is open, for so long.
    Open(Duration),
    /// Another request has just begun to try it, so that its standing is another one now.
    Tried,
}

/// Why there is no candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nobody {
    /// There are endpoints that have no place left.
    Full,
    /// Breakers are open. The first of them may let a request through after so long.
    Open(Duration),
    /// No endpoint may be asked.
    Left,
}

/// One search for an endpoint of an upstream.
#[derive(Debug)]
pub struct Search<'a> {
    purpose: Purpose,
    /// Those that have seen the request.
    asked: &'a [usize],
    /// Those that have declined.
    declined: Vec<usize>,
    /// Those that another request is just trying: they are not well, whatever is known of them.
    tried: Vec<usize>,
    /// Who is asked before all others.
    home: Option<usize>,
    is_full: bool,
    retry_after: Option<Duration>,
}

impl<'a> Search<'a> {
    /// For a request that the endpoints in `asked` have seen.
    pub fn new(purpose: Purpose, asked: &'a [usize]) -> Self {
        Self {
            purpose,
            asked,
            declined: Vec::new(),
            tried: Vec::new(),
            home: None,
            is_full: false,
            retry_after: None,
        }
    }

    /// The same for a request with a home.
    #[must_use]
    pub fn at_home(self, home: Option<usize>) -> Self {
        Self { home, ..self }
    }

    /// The best endpoint that has not declined yet.
    pub fn next(
        &mut self,
        balancer: &mut Balancer,
        pick: &mut Pick<'_>,
        known: &impl Known,
    ) -> Result<Candidate, Nobody> {
        let is_well = |endpoint| self.is_well(endpoint, known);
        let has_room = |endpoint| is_well(endpoint) && known.has_room(endpoint);
        if let Some(home) = self.home
            && !self.has_asked(home)
            && has_room(home)
        {
            return Ok(Candidate::well(home));
        }
        if let Some(endpoint) = self.pick(balancer, pick, has_room) {
            return Ok(Candidate::well(endpoint));
        }
        if known.is_room_fixed() {
            if self.is_full || (0..balancer.endpoints.len()).any(is_well) {
                return Err(Nobody::Full);
            }
        } else if let Some(endpoint) = self.pick(balancer, pick, is_well) {
            return Ok(Candidate::well(endpoint));
        }
        let anyone = match self.purpose {
            Purpose::Request => self.pick_anyone(balancer, pick, known),
            Purpose::Copy => None,
        };
        anyone
            .map(Candidate::last_resort)
            .ok_or_else(|| self.nobody())
    }

    /// This candidate is not asked.
    pub fn decline(&mut self, endpoint: usize, why: Declined) {
        match why {
            Declined::Full => self.is_full = true,
            Declined::Open(after) => {
                let earliest = self.retry_after.unwrap_or(after);
                self.retry_after = Some(earliest.min(after));
            }
            Declined::Tried => {
                self.tried.push(endpoint);
                return;
            }
        }
        self.declined.push(endpoint);
    }

    /// One of those that `may` be asked: one that has not seen the request, if there is one.
    fn pick(
        &self,
        balancer: &mut Balancer,
        pick: &mut Pick<'_>,
        may: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let unasked = balancer.pick(pick, |endpoint| !self.has_asked(endpoint) && may(endpoint));
        if self.asked.is_empty() {
            return unasked;
        }
        unasked.or_else(|| balancer.pick(pick, may))
    }

    /// One of those that are not well.
    fn pick_anyone(
        &self,
        balancer: &mut Balancer,
        pick: &mut Pick<'_>,
        known: &impl Known,
    ) -> Option<usize> {
        let is_at_least =
            |least, endpoint| self.may_ask(endpoint) && known.standing(endpoint) >= least;
        for least in [Standing::StandsOut, Standing::Waiting, Standing::Down] {
            let found = self.pick(balancer, pick, |endpoint| is_at_least(least, endpoint));
            if found.is_some() {
                return found;
            }
        }
        if !known.is_from_before() {
            return None;
        }
        balancer.pick(pick, |endpoint| is_at_least(Standing::Leaving, endpoint))
    }

    fn is_well(&self, endpoint: usize, known: &impl Known) -> bool {
        self.may_ask(endpoint)
            && known.standing(endpoint) == Standing::Well
            && !self.tried.contains(&endpoint)
            && (self.purpose == Purpose::Request
                || !self.has_asked(endpoint) && known.is_trusted(endpoint))
    }

    fn may_ask(&self, endpoint: usize) -> bool {
        !self.declined.contains(&endpoint)
    }

    fn has_asked(&self, endpoint: usize) -> bool {
        self.asked.contains(&endpoint)
    }

    fn nobody(&self) -> Nobody {
        match self.retry_after {
            _ if self.is_full => Nobody::Full,
            Some(after) => Nobody::Open(after),
            None => Nobody::Left,
        }
    }
}

impl Candidate {
    fn well(endpoint: usize) -> Self {
        Self {
            endpoint,
            is_well: true,
        }
    }

    fn last_resort(endpoint: usize) -> Self {
        Self {
            endpoint,
            is_well: false,
        }
    }
}

#[cfg(test)]
mod tests;
