//! Why an exchange failed: whose fault it was, whether a retry is safe, and what the client is told.

use weir_http::Reject;
use weir_policy::limit::concurrency::Refusal;

/// Whose fault a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Client,
    Gateway,
    Upstream,
}

impl Fault {
    /// The name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Gateway => "gateway",
            Self::Upstream => "upstream",
        }
    }
}

/// Why an exchange, or the reading of a request, failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The request is not read any further.
    Request(Reject),
    /// The request head took too long.
    HeadTimeout,
    /// The request body paused for too long.
    BodyTimeout,
    /// The request body is larger than the route allows.
    BodyTooLarge,
    /// The client closed before its request was complete, or stopped reading the response.
    ClientGone,
    /// No route serves this request.
    NoRoute,
    /// Routes serve this path, but not with this method.
    MethodNotAllowed,
    /// The request has passed this gateway before: an upstream leads back to it.
    LoopDetected,
    /// The client only accepts a stored response, and there is none.
    OnlyIfCached,
    /// The key of the request has used up its rate.
    RateLimited,
    /// The breaker of the route is open, or the breakers of all endpoints are.
    BreakerOpen,
    /// The upstream has as many requests, or as many streams, as it can hold.
    Shed(Refusal),
    /// Every endpoint of the upstream is being drained.
    NoEndpoint,
    /// Every endpoint refused the connection or could not be reached.
    ConnectFailed,
    /// The endpoint did not accept the connection in time.
    ConnectTimeout,
    /// No socket, port or memory was left for a connection.
    NoSocket,
    /// The connection ended before the response head was complete.
    UpstreamClosed,
    /// The response head did not come in time.
    ResponseTimeout,
    /// The response is not read any further.
    Response(Reject),
    /// The connection ended or paused for too long inside the response body.
    ResponseCut,
    /// The stored response is damaged, or its disk does not answer.
    StoreFailed,
    /// There is no room for the body of a request that has to be here whole.
    NoRoom,
    /// The service of the route has no answer, or one that is none of HTTP.
    ServiceFailed,
    /// The service of the route did not answer in time.
    ServiceTimeout,
    /// The gateway ended, and the time for draining was over.
    ShutDown,
}

impl Failure {
    /// Those that carry no further reason.
    const PLAIN: [Self; 27] = [
        Self::HeadTimeout,
        Self::BodyTimeout,
        Self::BodyTooLarge,
        Self::ClientGone,
        Self::NoRoute,
        Self::MethodNotAllowed,
        Self::LoopDetected,
        Self::OnlyIfCached,
        Self::RateLimited,
        Self::BreakerOpen,
        Self::Shed(Refusal::QueueFull),
        Self::Shed(Refusal::WaitedTooLong),
        Self::Shed(Refusal::Displaced),
        Self::Shed(Refusal::Outranked),
        Self::Shed(Refusal::StreamsFull),
        Self::NoEndpoint,
        Self::ConnectFailed,
        Self::ConnectTimeout,
        Self::NoSocket,
        Self::UpstreamClosed,
        Self::ResponseTimeout,
        Self::ResponseCut,
        Self::StoreFailed,
        Self::NoRoom,
        Self::ServiceFailed,
        Self::ServiceTimeout,
        Self::ShutDown,
    ];

    /// All failures, each at its [`Failure::index`].
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let requests = Reject::ALL.into_iter().map(Self::Request);
        let responses = Reject::ALL.into_iter().map(Self::Response);
        requests.chain(responses).chain(Self::PLAIN)
    }

    /// Its position in a table of counters.
    pub(crate) fn index(self) -> usize {
        let rejects = Reject::ALL.len();
        match self {
            Self::Request(reject) => reject as usize,
            Self::Response(reject) => rejects + reject as usize,
            plain => {
                2 * rejects
                    + Self::PLAIN
                        .iter()
                        .position(|&other| other == plain)
                        .unwrap_or_default()
            }
        }
    }

    pub(crate) fn fault(self) -> Fault {
        match self {
            Self::Request(_)
            | Self::HeadTimeout
            | Self::BodyTimeout
            | Self::BodyTooLarge
            | Self::OnlyIfCached
            | Self::RateLimited
            | Self::ClientGone => Fault::Client,
            Self::NoRoute
            | Self::MethodNotAllowed
            | Self::LoopDetected
            | Self::BreakerOpen
            | Self::Shed(_)
            | Self::NoSocket
            | Self::StoreFailed
            | Self::NoRoom
            | Self::ServiceFailed
            | Self::ServiceTimeout
            | Self::ShutDown => Fault::Gateway,
            Self::NoEndpoint
            | Self::ConnectFailed
            | Self::ConnectTimeout
            | Self::UpstreamClosed
            | Self::ResponseTimeout
            | Self::Response(_)
            | Self::ResponseCut => Fault::Upstream,
        }
    }

    /// Whether the service behind the route gave no answer, and the client is not to blame. Then the client may get
    /// something else. A client that asks too often is told exactly that.
    pub(crate) fn is_of_service(self) -> bool {
        match self.fault() {
            Fault::Client => false,
            Fault::Gateway => !matches!(
                self,
                Self::NoRoute | Self::MethodNotAllowed | Self::LoopDetected | Self::ShutDown
            ),
            Fault::Upstream => true,
        }
    }

    /// Whether the request was not sent on, in order to protect the service.
    pub(crate) fn is_refusal(self) -> bool {
        matches!(self, Self::BreakerOpen | Self::Shed(_))
    }

    /// Whether a limit or a breaker turned the request away, as it was told to.
    pub(crate) fn is_turned_away(self) -> bool {
        self.is_refusal() || matches!(self, Self::RateLimited | Self::NoRoom)
    }

    /// Whether it is certain that no endpoint has acted on the request.
    pub(crate) fn is_unheard(self) -> bool {
        match self {
            // Only a request that has begun can turn out to be a stream.
            Self::Shed(refusal) => refusal != Refusal::StreamsFull,
            Self::BreakerOpen
            | Self::NoEndpoint
            | Self::ConnectFailed
            | Self::ConnectTimeout
            | Self::NoSocket => true,
            _ => false,
        }
    }

    /// The status for the client, or for the log when the client cannot get one.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Request(reject) => reject.status(),
            Self::HeadTimeout | Self::BodyTimeout => 408,
            Self::BodyTooLarge => 413,
            // nginx logs this status; nobody is left to be told.
            Self::ClientGone => 499,
            Self::NoRoute => 404,
            Self::MethodNotAllowed => 405,
            // Of RFC 5842.
            Self::LoopDetected => 508,
            Self::ConnectFailed | Self::UpstreamClosed | Self::Response(_) | Self::ResponseCut => {
                502
            }
            Self::StoreFailed | Self::ServiceFailed => 500,
            Self::RateLimited => 429,
            Self::BreakerOpen
            | Self::Shed(_)
            | Self::NoEndpoint
            | Self::NoSocket
            | Self::NoRoom
            | Self::ShutDown => 503,
            Self::OnlyIfCached
            | Self::ConnectTimeout
            | Self::ResponseTimeout
            | Self::ServiceTimeout => 504,
        }
    }

    /// The name in metrics and logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Request(reject) | Self::Response(reject) => reject.name(),
            Self::HeadTimeout => "head_timeout",
            Self::BodyTimeout => "body_timeout",
            Self::BodyTooLarge => "body_too_large",
            Self::ClientGone => "client_gone",
            Self::NoRoute => "no_route",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::LoopDetected => "loop_detected",
            Self::OnlyIfCached => "only_if_cached",
            Self::RateLimited => "rate_limited",
            Self::BreakerOpen => "breaker_open",
            Self::Shed(Refusal::QueueFull) => "queue_full",
            Self::Shed(Refusal::WaitedTooLong) => "waited_too_long",
            Self::Shed(Refusal::Displaced) => "displaced",
            Self::Shed(Refusal::Outranked) => "outranked",
            Self::Shed(Refusal::StreamsFull) => "streams_full",
            Self::NoEndpoint => "no_endpoint",
            Self::ConnectFailed => "connect_failed",
            Self::ConnectTimeout => "connect_timeout",
            Self::NoSocket => "no_socket",
            Self::UpstreamClosed => "upstream_closed",
            Self::ResponseTimeout => "response_timeout",
            Self::ResponseCut => "response_cut",
            Self::StoreFailed => "store_failed",
            Self::NoRoom => "no_room",
            Self::ServiceFailed => "service_failed",
            Self::ServiceTimeout => "service_timeout",
            Self::ShutDown => "shut_down",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_counter_of_its_own() {
        for (place, failure) in Failure::all().enumerate() {
            assert_eq!(failure.index(), place, "{failure:?}");
        }
    }
}

/// What replaced an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FallbackKind {
    /// A stored response.
    Stale,
    /// The answer of another upstream.
    Upstream,
    /// A fixed answer.
    Fixed,
}

impl FallbackKind {
    pub(crate) const ALL: [Self; 3] = [Self::Stale, Self::Upstream, Self::Fixed];

    /// The name in metrics and logs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Upstream => "upstream",
            Self::Fixed => "answer",
        }
    }
}
