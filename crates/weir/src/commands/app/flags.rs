//! The flags of `weir app`.

use std::num::{NonZeroU8, NonZeroU16};
use std::time::Duration;

use hyper::Uri;

use super::args::{self, Listen, Pauses, Spread};
#[cfg(feature = "kafka")]
use super::kafka::Topic;

/// Run a sample service with work to do, to put behind a gateway.
#[derive(Debug, clap::Args)]
pub(crate) struct AppArgs {
    /// Where to listen: IP:PORT, or unix:PATH for a Unix socket.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9001")]
    pub(super) listen: Listen,

    /// How many threads answer requests.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) threads: NonZeroU8,

    /// How long each answer waits before it is made, as in 20ms or 1s; /healthz never waits.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = args::delay)]
    pub(super) delay: Duration,

    /// At most how many answers are made at once, each for --delay; the others wait for their turn, without end, and are
    /// made even when their client has left [default: any number].
    #[arg(long, value_name = "N", requires = "delay")]
    pub(super) slots: Option<NonZeroU16>,

    /// How the time of an answer differs from --delay: constant, exponential, or SHARE:FACTOR, as in 0.1:100 where one
    /// answer in ten takes a hundred times as long.
    #[arg(
        long,
        value_name = "SPREAD",
        default_value = "constant",
        requires = "delay"
    )]
    pub(super) spread: Spread,

    /// Stand still for so long every so long, as in 200ms/2s: what would be ready then is ready afterwards.
    #[arg(long, value_name = "DURATION/DURATION")]
    pub(super) pause: Option<Pauses>,

    /// How often /handle and /sendEvent do their work for one answer.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) work: NonZeroU16,

    /// The share of answers, from 0 to 1, that are a 500 instead; /healthz never fails.
    #[arg(long, value_name = "F", default_value = "0", value_parser = args::share)]
    pub(super) fail_ratio: f64,

    /// Take POST /fault?mode=MODE from everybody: fail, slow (by 2s), hang or none, for every path but this one.
    #[arg(long)]
    pub(super) faults: bool,

    /// Where /handle sends an event to, with POST, before it answers: as in
    /// `http://127.0.0.1:9002/sendEvent`.
    #[arg(long, value_name = "URL", value_parser = args::http_url)]
    pub(super) events: Option<Uri>,

    /// Where /handle puts an event, and POST /produce its body, before they answer: brokers and a topic, as in
    /// 127.0.0.1:9092/events.
    #[cfg(feature = "kafka")]
    #[arg(long, value_name = "BROKERS/TOPIC", conflicts_with = "events")]
    pub(super) kafka: Option<Topic>,

    /// How long a record waits for others to make a batch with.
    #[cfg(feature = "kafka")]
    #[arg(long, value_name = "DURATION", default_value = "2ms", value_parser = args::delay, requires = "kafka")]
    pub(super) linger: Duration,

    /// Do for each record of this topic what POST /sendEvent does.
    #[cfg(feature = "kafka")]
    #[arg(
        long,
        value_name = "BROKERS/TOPIC",
        conflicts_with_all = ["delay", "slots", "pause", "fail_ratio", "faults"]
    )]
    pub(super) consume: Option<Topic>,

    /// What X-Served-By says in every response [default: the listen address].
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,

    /// The process id of the parent, to end when it does, however it ends: for the replicas of `weir demo`.
    #[arg(long, value_name = "PID", hide = true)]
    pub(super) parent: Option<u32>,
}
