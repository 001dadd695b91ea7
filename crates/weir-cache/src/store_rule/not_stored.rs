//! Why a response is not stored: the reasons, their words in metrics, logs and `Cache-Status`, and what to do about each.
//!
//! The table of the reference is made from this one declaration.

/// Why a response is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotStored {
    /// The request's method.
    Method,
    /// A POST whose answer does not say both how long and under which name to keep it (RFC 9110 §9.3.3).
    Post,
    /// 1xx, 304, or a status that the response says must be understood, but is not.
    Status,
    /// 206 or 226 (a difference): parts are not stored.
    Partial,
    /// The status is about one request only ([`super::may_be_stored`]).
    StatusOfRequest,
    /// `no-store` in the response.
    ResponseNoStore,
    /// `no-store` in the request.
    RequestNoStore,
    /// `private`: not for a shared cache.
    Private,
    /// The request had `Authorization`, and the response does not say that it may be shared.
    Authorization,
    /// A stream of events: it has no end, and each client's own beginning.
    EventStream,
    /// `Vary: *`, or a `Vary` that cannot be read.
    VaryStar,
    /// `Vary` names a field, and the request had another one that scripts read as the same (`X_Device` for `X-Device`).
    /// The origin may have used that one, and no variant shows it.
    VaryAmbiguous,
    /// `Set-Cookie`, which neither the origin nor the route's settings let everybody have.
    SetCookie,
    /// The request had `Cookie`, and nobody says that or how long others may have the response.
    RequestCookie,
    /// Neither fresh nor with a validator: it could never be used.
    NoFreshness,
    /// It was not requested often enough yet; a later answer may be stored.
    MinUses,
    /// The announced body is larger than the route stores.
    TooLarge,
}

/// What the next answers under the same key have to expect after one that was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// Nothing: it came from the client's own fields, or from a passing failure.
    Passing,
    /// Those to requests with cookies will most likely not be stored either.
    WithCookies,
    /// None will.
    ForAll,
}

impl NotStored {
    /// All reasons, for tables of counters.
    pub const ALL: [Self; TOLD.len()] = {
        let mut all = [Self::Method; TOLD.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = TOLD[at].reason;
            at += 1;
        }
        all
    };

    /// Whether the next answer under the same key will most likely not be stored either, so that waiting for another
    /// request's answer is useless.
    pub const fn lasting(self, status: u16) -> Lasting {
        if !matches!(status, 200..=205 | 300..=303 | 307 | 308 | 404 | 410) {
            return Lasting::Passing;
        }
        match self {
            Self::Post
            | Self::ResponseNoStore
            | Self::Private
            | Self::EventStream
            | Self::VaryStar
            | Self::SetCookie
            | Self::NoFreshness
            | Self::TooLarge => Lasting::ForAll,
            Self::RequestCookie => Lasting::WithCookies,
            Self::Method
            | Self::Status
            | Self::Partial
            | Self::StatusOfRequest
            | Self::RequestNoStore
            | Self::Authorization
            | Self::VaryAmbiguous
            | Self::MinUses => Lasting::Passing,
        }
    }

    /// The name in metrics, logs and `Cache-Status`.
    pub const fn name(self) -> &'static str {
        TOLD[self as usize].name
    }

    /// What it means, as the reference says it.
    pub const fn meaning(self) -> &'static str {
        TOLD[self as usize].meaning
    }

    /// What to do so that such a response is stored, as the reference says it.
    pub const fn remedy(self) -> &'static str {
        TOLD[self as usize].remedy
    }
}

/// What is told of a reason.
struct Told {
    reason: NotStored,
    name: &'static str,
    meaning: &'static str,
    remedy: &'static str,
}

/// In the order of the enum.
const TOLD: [Told; 17] = [
    Told {
        reason: NotStored::Method,
        name: "method",
        meaning: "Answers to this method are never stored.",
        remedy: "Nothing.",
    },
    Told {
        reason: NotStored::Post,
        name: "post",
        meaning: "The answer to a POST, without both a lifetime and a `Content-Location` that is its own URL.",
        remedy: "`methods` with `\"POST\"` has equal POSTs share an answer.",
    },
    Told {
        reason: NotStored::Status,
        name: "status",
        meaning: "The status has no meaning for later requests: 304, or one that `must-understand` is about and weir does not know.",
        remedy: "Nothing.",
    },
    Told {
        reason: NotStored::Partial,
        name: "partial",
        meaning: "206 or 226: a part of a response.",
        remedy: "Nothing: a response that may be stored is asked for as a whole.",
    },
    Told {
        reason: NotStored::StatusOfRequest,
        name: "status-of-request",
        meaning: "The status tells of one request alone, such as 401 or 429.",
        remedy: "Nothing.",
    },
    Told {
        reason: NotStored::ResponseNoStore,
        name: "response-no-store",
        meaning: "The response says `Cache-Control: no-store`, or something unreadable with that word.",
        remedy: "The origin leaves it out; `CDN-Cache-Control` says something else to weir alone.",
    },
    Told {
        reason: NotStored::RequestNoStore,
        name: "request-no-store",
        meaning: "The request says `Cache-Control: no-store`.",
        remedy: "`obey_clients = false`.",
    },
    Told {
        reason: NotStored::Private,
        name: "private",
        meaning: "The response says `Cache-Control: private`: it is for one client.",
        remedy: "The origin leaves it out; `CDN-Cache-Control` says something else to weir alone.",
    },
    Told {
        reason: NotStored::Authorization,
        name: "authorization",
        meaning: "The request had `Authorization`, and the response does not say that others may have it.",
        remedy: "The origin says `public`, `s-maxage` or `must-revalidate`.",
    },
    Told {
        reason: NotStored::EventStream,
        name: "event-stream",
        meaning: "The response is `text/event-stream`: it has no end, and begins anew for each client.",
        remedy: "Nothing.",
    },
    Told {
        reason: NotStored::VaryStar,
        name: "vary-star",
        meaning: "`Vary: *`, or a `Vary` that cannot be read.",
        remedy: "The origin names the fields by which it chooses.",
    },
    Told {
        reason: NotStored::VaryAmbiguous,
        name: "vary-ambiguous",
        meaning: "The request had a field that scripts read as one that `Vary` names, such as `X_Device` for `X-Device`.",
        remedy: "The client sends one of them; or the route removes the other with `request_headers`.",
    },
    Told {
        reason: NotStored::SetCookie,
        name: "set-cookie",
        meaning: "The response sets a cookie, and the origin does not say that all may have it.",
        remedy: "The origin says `public` with a lifetime, or `s-maxage`; or the route `set_cookie = \"store\"`.",
    },
    Told {
        reason: NotStored::RequestCookie,
        name: "request-cookie",
        meaning: "The request had cookies, and nobody says how long others may have the response.",
        remedy: "The origin says `max-age`, `s-maxage` or `public`, or `Vary: Cookie`; or the route `ttl`, `key.cookies` or `request_cookie`, or removes the field with `request_headers`.",
    },
    Told {
        reason: NotStored::NoFreshness,
        name: "no-freshness",
        meaning: "The response has neither a lifetime (`max-age`, `Expires`, `Last-Modified`) nor a validator (`ETag`).",
        remedy: "The origin says `max-age`; or the route says `ttl`.",
    },
    Told {
        reason: NotStored::MinUses,
        name: "min-uses",
        meaning: "It was asked for less often than `min_uses` says.",
        remedy: "`min_uses`.",
    },
    Told {
        reason: NotStored::TooLarge,
        name: "too-large",
        meaning: "The body is larger than `max_object`, or than the cache takes for one object.",
        remedy: "`max_object`, `memory` or `disk` of `[cache]`.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_stands_at_its_place_under_its_own_name() {
        for (place, reason) in NotStored::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place, "{reason:?}");
            let same = NotStored::ALL
                .iter()
                .filter(|it| it.name() == reason.name());
            assert_eq!(same.count(), 1, "{reason:?}");
        }
    }
}
