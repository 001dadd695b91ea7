//! A topic of Kafka that messages are produced to, a record for each.
//!
//! The key of a record is that of its message, so that what is in order here is in order there. Its headers carry the request in the
//! manner of HTTP/2: `:method` and `:path`, the fields by their names in lower case, and what weir knows besides as `weir-…`. Its
//! value is the content, its time when the request came.
//!
//! The producer is idempotent when all replicas acknowledge: what librdkafka repeats by itself is there once. A batch of which nobody
//! knows what became is produced again by another producer, so that records may be there twice, but in their order by first
//! appearance.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use rdkafka::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use tokio::sync::Notify;

use super::columns::{fields, request_line, uuid};
use super::settings::not_built;
use super::{Item, Kafka, LATER, Origin, Trouble};
use crate::message::Message;
use crate::shared::lock;

/// What librdkafka puts into a record besides what is in it.
const RECORD_BYTES: usize = 512;

/// The topic.
pub(crate) struct Topic {
    settings: Kafka,
    origin: Origin,
    open: Option<(FutureProducer<Context>, Context)>,
}

impl std::fmt::Debug for Topic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let topic = &self.settings.topic;
        f.debug_struct("Topic")
            .field("topic", topic)
            .finish_non_exhaustive()
    }
}

/// What librdkafka tells by the way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Context {
    down: Arc<Notify>,
    why: Arc<Mutex<Option<String>>>,
}

impl ClientContext for Context {
    fn log(&self, _: rdkafka::config::RDKafkaLogLevel, _: &str, _: &str) {
        // What matters of it comes as an error too.
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let all_down = RDKafkaErrorCode::AllBrokersDown;
        let is_down = error.rdkafka_error_code() == Some(all_down);
        if is_down {
            self.down.notify_one();
        } else {
            *lock(&self.why) = Some(reason.to_owned());
        }
    }
}

impl Context {
    /// Waits until no broker can be reached.
    pub(super) async fn is_down(&self) -> String {
        self.down.notified().await;
        let why = lock(&self.why).clone();
        why.unwrap_or_else(|| "no broker can be reached".to_owned())
    }
}

/// Whether librdkafka knows what it is told.
pub(super) fn check(settings: &Kafka) -> Result<(), String> {
    let mechanism = settings.sasl.as_ref().map(|sasl| sasl.mechanism);
    let has_scram = mechanism.is_some_and(|mechanism| mechanism.starts_with("SCRAM"));
    if cfg!(not(feature = "kafka-tls")) && (settings.with_tls || has_scram) {
        return Err(not_built("TLS and SCRAM for Kafka", "kafka-tls"));
    }
    let config = producing(settings).create_native_config();
    config.map(|_| ()).map_err(|error| in_words(&error))
}

/// What a client is told, whatever it does.
pub(crate) fn common(settings: &Kafka) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", settings.brokers.join(","));
    config.set("client.id", "weir");
    let protocol = match (settings.with_tls, &settings.sasl) {
        (false, None) => "plaintext",
        (true, None) => "ssl",
        (false, Some(_)) => "sasl_plaintext",
        (true, Some(_)) => "sasl_ssl",
    };
    config.set("security.protocol", protocol);
    if let Some(sasl) = &settings.sasl {
        config.set("sasl.mechanism", sasl.mechanism);
        config.set("sasl.username", &sasl.user);
        config.set("sasl.password", &sasl.password);
    }
    // A broker that is back is found soon.
    config.set("reconnect.backoff.max.ms", "1000");
    for (name, value) in &settings.options {
        config.set(name, value);
    }
    config
}

fn producing(settings: &Kafka) -> ClientConfig {
    let mut config = common(settings);
    if settings.acks_of_all {
        config.set("enable.idempotence", "true");
    } else {
        config.set("acks", "1");
        // What is sent again would come behind what follows it.
        config.set("max.in.flight", "1");
    }
    config.set("compression.type", settings.compression);
    config.set("linger.ms", "2");
    // It never gives up a record by itself: what comes after would overtake it.
    config.set("message.timeout.ms", "0");
    config.set("queue.buffering.max.messages", "100000");
    // Whoever knows better has the last word.
    for (name, value) in &settings.options {
        config.set(name, value);
    }
    config
}

impl Topic {
    pub(super) fn new(settings: Kafka, origin: Origin) -> Self {
        Self {
            settings,
            origin,
            open: None,
        }
    }

    pub(super) fn close(&mut self) {
        self.open = None;
    }

    pub(super) async fn write(&mut self, items: &[Item]) -> Result<(), Trouble> {
        for (at, item) in items.iter().enumerate() {
            let why = self.refusal(item);
            why.map_or(Ok(()), |why| Err(Trouble::Refused { at: Some(at), why }))?;
        }
        let (producer, context) = if let Some(open) = self.open.take() {
            open
        } else {
            let context = Context::default();
            let made = producing(&self.settings).create_with_context(context.clone());
            let made = made.map_err(|error| Trouble::Away(in_words(&error)))?;
            (made, context)
        };
        let produced = {
            let mut producing = pin!(self.produce(&producer, items));
            let mut down = pin!(context.is_down());
            poll_fn(|cx| {
                if let Poll::Ready(produced) = producing.as_mut().poll(cx) {
                    return Poll::Ready(produced);
                }
                down.as_mut().poll(cx).map(|why| Err(Trouble::Away(why)))
            })
            .await
        };
        if !matches!(produced, Err(Trouble::Away(_))) {
            self.open = Some((producer, context));
        }
        produced
    }

    async fn produce(
        &self,
        producer: &FutureProducer<Context>,
        items: &[Item],
    ) -> Result<(), Trouble> {
        let mut under_way = Vec::with_capacity(items.len());
        for item in items {
            let message = item
                .message()
                .ok_or_else(|| Trouble::Away(LATER.to_owned()))?;
            let mut record = FutureRecord::<[u8], [u8]>::to(&self.settings.topic)
                .payload(&item.body)
                .timestamp(item.time_ms.cast_signed())
                .headers(self.headers(item, &message));
            if let Some(key) = message.key {
                record = record.key(key);
            }
            let sent = producer.send_result(record);
            under_way.push(sent.map_err(|(error, _)| trouble(items.len(), &error))?);
        }
        for sending in under_way {
            match sending.await {
                Ok(Ok(_)) => {}
                Ok(Err((error, _))) => return Err(trouble(items.len(), &error)),
                Err(_) => return Err(Trouble::Away("the producer has ended".to_owned())),
            }
        }
        Ok(())
    }

    /// Why a message cannot be a record.
    fn refusal(&self, item: &Item) -> Option<String> {
        if item.message().is_none() {
            return Some(LATER.to_owned());
        }
        let most = self.settings.record_bytes_max();
        let bytes = item.bytes() + RECORD_BYTES;
        (bytes > most).then(|| {
            format!("it has {bytes} bytes, and a record {most} at most; see \"message.max.bytes\"")
        })
    }

    fn headers(&self, item: &Item, message: &Message<'_>) -> OwnedHeaders {
        let add = |headers: OwnedHeaders, key: &str, value: &[u8]| {
            headers.insert(Header {
                key,
                value: Some(value),
            })
        };
        let (method, path) = request_line(message.head);
        let mut headers = OwnedHeaders::new_with_capacity(24);
        headers = add(headers, ":method", method);
        headers = add(headers, ":path", path);
        for (name, value) in fields(message.head) {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            if name.starts_with("weir-") {
                // A client would say what only weir knows.
                continue;
            }
            headers = add(headers, &name, value);
        }
        let scheme = match message.scheme {
            weir_http::Scheme::Http => "http",
            weir_http::Scheme::Https => "https",
        };
        let known = [
            ("weir-id", uuid(self.origin.id(item.offset))),
            ("weir-queue", self.origin.queue.clone()),
            ("weir-offset", item.offset.to_string()),
            ("weir-route", message.route.to_owned()),
            ("weir-upstream", message.upstream.to_owned()),
            ("weir-client", message.client.to_string()),
            ("weir-peer", message.peer.to_string()),
            ("weir-scheme", scheme.to_owned()),
        ];
        for (name, value) in known {
            headers = add(headers, name, value.as_bytes());
        }
        if message.expires_ms > 0 {
            headers = add(
                headers,
                "weir-expires-ms",
                message.expires_ms.to_string().as_bytes(),
            );
        }
        headers
    }
}

/// What an error of a batch of so many says: about one of its records, or about the cluster. A broker refuses whole sets of records,
/// so which one it is shows when it is alone.
fn trouble(count: usize, error: &KafkaError) -> Trouble {
    let why = in_words(error);
    match error.rdkafka_error_code() {
        Some(
            RDKafkaErrorCode::MessageSizeTooLarge
            | RDKafkaErrorCode::InvalidMessage
            | RDKafkaErrorCode::InvalidRecord
            | RDKafkaErrorCode::InvalidTimestamp
            | RDKafkaErrorCode::InvalidDifferentRecord,
        ) => Trouble::Refused {
            at: (count == 1).then_some(0),
            why,
        },
        _ => Trouble::Away(why),
    }
}

pub(crate) fn in_words(error: &KafkaError) -> String {
    match (error, error.rdkafka_error_code()) {
        (KafkaError::ClientConfig(_, description, ..), _) => description.clone(),
        (_, Some(code)) => code.to_string(),
        (error, None) => error.to_string(),
    }
}
