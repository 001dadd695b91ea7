//! The events of `/handle`: what they look like, and where they are sent to.
//!
//! An event carries the time at which it was made, so whoever handles it knows how long it was on its way; and a number, so
//! he knows whether he has had it before. What became of events is in `ledger`.

use std::time::{Duration, SystemTime};

use fastrand::Rng;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::{Deserialize, Serialize};

/// The letters of an event.
const LETTERS: usize = 100;
/// An event is not longer than this; of what is longer, the rest is not kept.
pub(super) const BYTES_MAX: usize = 256;
/// How long whoever takes an event may take for it.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// What a user did.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Event {
    /// Microseconds since 1970.
    pub(super) made_us: u64,
    /// The process that made it.
    pub(super) maker: u32,
    /// Which of its events it is.
    pub(super) number: u32,
    text: String,
}

/// Makes the events of this process.
pub(super) struct Maker {
    id: u32,
    made: u32,
    rng: Rng,
}

impl Maker {
    pub(super) fn new(mut rng: Rng) -> Self {
        Self {
            id: rng.u32(..),
            made: 0,
            rng,
        }
    }

    /// An event that is made now, as JSON.
    pub(super) fn make(&mut self) -> Bytes {
        self.made = self.made.wrapping_add(1);
        let text = std::iter::repeat_with(|| self.rng.alphabetic());
        let event = Event {
            text: text.take(LETTERS).collect(),
            made_us: now_us(),
            maker: self.id,
            number: self.made,
        };
        let encoded = serde_json::to_vec(&event).expect("numbers and strings always encode");
        encoded.into()
    }
}

/// Microseconds since 1970.
pub(super) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

/// Where the events of `/handle` go.
pub(super) enum Outlet {
    /// They are sent to a URL, with POST.
    Http(Client<HttpConnector, Full<Bytes>>, Uri),
    /// They are produced to Kafka.
    #[cfg(feature = "kafka")]
    Kafka(super::kafka::Producer),
}

impl Outlet {
    /// Sends to `url`, on connections that are kept.
    pub(super) fn to(url: Uri) -> Self {
        Self::Http(Client::builder(TokioExecutor::new()).build_http(), url)
    }

    /// Sends an event, and waits until it is taken: until the answer is 2xx, or Kafka has it.
    pub(super) async fn send(&self, event: Bytes) -> Result<(), String> {
        match self {
            Self::Http(client, url) => {
                let asked = ask(client, url, event);
                let answered = tokio::time::timeout(PATIENCE, asked).await;
                answered.map_err(|_| format!("{url} does not answer"))?
            }
            #[cfg(feature = "kafka")]
            Self::Kafka(producer) => producer.send(&event).await,
        }
    }
}

async fn ask(
    client: &Client<HttpConnector, Full<Bytes>>,
    url: &Uri,
    event: Bytes,
) -> Result<(), String> {
    let mut request = Request::new(Full::new(event));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = url.clone();
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(CONTENT_TYPE, json);
    let failed = |why: &dyn std::error::Error| {
        let cause = why.source().map_or(String::new(), |it| format!(": {it}"));
        format!("{url}: {why}{cause}")
    };
    let mut response = client.request(request).await.map_err(|why| failed(&why))?;
    // Read to its end, so that the connection can be used again.
    while let Some(frame) = response.frame().await {
        frame.map_err(|why| failed(&why))?;
    }
    match response.status() {
        status if status.is_success() => Ok(()),
        status => Err(format!("{url} answered {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_kept_whole_and_knows_its_time() {
        let mut maker = Maker::new(Rng::with_seed(1));
        let bytes = maker.make();
        assert!(bytes.len() <= BYTES_MAX, "{}", bytes.len());
        let event: Event = serde_json::from_slice(&bytes).expect("JSON");
        assert!((1..=now_us()).contains(&event.made_us));
        let next: Event = serde_json::from_slice(&maker.make()).expect("JSON");
        assert_eq!((next.maker, next.number), (event.maker, event.number + 1));
    }
}
