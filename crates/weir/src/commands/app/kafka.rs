//! `--kafka` and `--consume`: what services do that talk to Kafka themselves, to stand beside a queue.
//!
//! Each event is one record, acknowledged by all replicas in sync before its request is answered; librdkafka puts those into a batch
//! that come at the same time. What is consumed is handled one by one, as `/sendEvent` would.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hyper::body::Bytes;
use rdkafka::Message as _;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{FutureProducer, FutureRecord};

use super::functions::{self, Work};
use super::ledger::Ledger;

/// The group of those that consume.
const GROUP: &str = "weir-app";
/// How long Kafka may take for a record.
const PATIENCE: Duration = super::events::PATIENCE;
/// How long to wait for a record at once.
const POLL: Duration = Duration::from_millis(100);

/// Where to produce to, or to consume from.
#[derive(Debug, Clone)]
pub(super) struct Topic {
    brokers: String,
    topic: String,
}

impl FromStr for Topic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.rsplit_once('/') {
            Some((brokers, topic)) if !brokers.is_empty() && !topic.is_empty() => Ok(Self {
                brokers: brokers.to_owned(),
                topic: topic.to_owned(),
            }),
            _ => Err("expected brokers and a topic such as 127.0.0.1:9092/events".to_owned()),
        }
    }
}

/// A producer of one topic.
pub(super) struct Producer {
    producer: FutureProducer,
    topic: String,
}

impl Producer {
    /// A record waits for others for `linger`.
    pub(super) fn new(to: &Topic, linger: Duration) -> anyhow::Result<Self> {
        let producer = ClientConfig::new()
            .set("bootstrap.servers", &to.brokers)
            .set("enable.idempotence", "true")
            .set("compression.type", "lz4")
            .set("message.timeout.ms", PATIENCE.as_millis().to_string())
            .set("linger.ms", (linger.as_secs_f64() * 1e3).to_string())
            .create();
        Ok(Self {
            producer: producer.context("cannot make a producer")?,
            topic: to.topic.clone(),
        })
    }

    /// Produces an event, and waits until Kafka has it.
    pub(super) async fn send(&self, event: &Bytes) -> Result<(), String> {
        let record = FutureRecord::<(), [u8]>::to(&self.topic).payload(event);
        let sent = self.producer.send_result(record);
        let sending = sent.map_err(|(error, _)| error.to_string())?;
        match sending.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err((error, _))) => Err(error.to_string()),
            Err(_) => Err("the producer has ended".to_owned()),
        }
    }
}

/// Handles the records of a topic in a thread of its own, from the first one on, until the process ends.
pub(super) fn consume(from: &Topic, work: Work, ledger: Arc<Ledger>) -> anyhow::Result<()> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &from.brokers)
        .set("group.id", GROUP)
        .set("auto.offset.reset", "earliest")
        .set("allow.auto.create.topics", "true")
        .set("enable.auto.offset.store", "false")
        .create()
        .context("cannot make a consumer")?;
    consumer
        .subscribe(&[&from.topic])
        .with_context(|| format!("cannot consume {}", from.topic))?;
    let handle = move || {
        loop {
            match consumer.poll(POLL) {
                None => {}
                Some(Ok(record)) => {
                    functions::handle_event(work);
                    ledger.handled(record.payload().unwrap_or_default());
                    // A record whose partition has gone to another member is his.
                    let _ = consumer.store_offset_from_message(&record);
                }
                // librdkafka tries again by itself.
                Some(Err(error)) => eprintln!("cannot consume: {error}"),
            }
        }
    };
    let thread = std::thread::Builder::new().name("consume".to_owned());
    thread.spawn(handle).context("cannot start a thread")?;
    Ok(())
}
