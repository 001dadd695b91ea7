//! `--kafka BROKERS/TOPIC`: what a service does that produces to Kafka itself, to stand beside a queue.
//!
//! Each event is one record, acknowledged by all replicas in sync before its request is answered; librdkafka puts those into a batch
//! that come at the same time.

use std::str::FromStr;

use anyhow::Context as _;
use hyper::body::Bytes;
use rdkafka::config::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};

/// How long a record waits for others, in milliseconds.
const LINGER_MS: &str = "2";

/// Where to produce to.
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
    pub(super) fn new(to: &Topic) -> anyhow::Result<Self> {
        let producer = ClientConfig::new()
            .set("bootstrap.servers", &to.brokers)
            .set("enable.idempotence", "true")
            .set("compression.type", "lz4")
            .set("linger.ms", LINGER_MS)
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
