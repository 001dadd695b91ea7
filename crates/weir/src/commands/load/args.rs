//! The flags of `weir load`.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::units;

/// Put a service under load, and measure what it answers.
///
/// Without a rate, each connection sends when its last answer has come. With one, requests are sent when they are due,
/// and latency counts from that moment.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag, and none excludes another"
)]
#[command(disable_version_flag = true)]
pub(crate) struct LoadArgs {
    /// What is asked; path and query may have fields such as {rand:1..1000000}.
    pub(super) url: String,

    /// Connections open at once.
    #[arg(short, long, value_name = "N", default_value = "64")]
    pub(super) connections: usize,

    /// Threads that send; without it one for each CPU, at most one for each connection.
    #[arg(short, long, value_name = "N")]
    pub(super) threads: Option<usize>,

    /// How long requests are sent; 10s unless --requests says how many.
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub(super) duration: Option<Duration>,

    /// How many requests are sent, instead of for how long.
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration")]
    pub(super) requests: Option<u64>,

    /// The same load before the run, not counted.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s")]
    pub(super) warm_up: Duration,

    /// Requests a second, evenly.
    #[arg(short, long, value_name = "N", group = "arrivals")]
    pub(super) rate: Option<f64>,

    /// Requests a second on average, at random as from many independent clients.
    #[arg(long, value_name = "N", group = "arrivals")]
    pub(super) poisson: Option<f64>,

    /// Requests a second, from the first number to the second over the run.
    #[arg(long, value_name = "FROM..TO", group = "arrivals")]
    pub(super) ramp: Option<String>,

    /// Requests a second, one rate after another; the run is as long as they are.
    #[arg(long, value_name = "RATE:TIME,...", group = "arrivals", conflicts_with_all = ["duration", "requests"])]
    pub(super) steps: Option<String>,

    /// Requests in flight on a connection, HTTP/1.1.
    #[arg(long, value_name = "N", default_value = "1", conflicts_with = "http2")]
    pub(super) pipeline: usize,

    /// Speak HTTP/2: by ALPN with https, by prior knowledge with http.
    #[arg(long)]
    pub(super) http2: bool,

    /// Requests in flight on a connection, HTTP/2.
    #[arg(long, value_name = "N", default_value = "1", requires = "http2")]
    pub(super) streams: usize,

    /// A new connection for each request.
    #[arg(long, conflicts_with_all = ["pipeline", "http2"])]
    pub(super) no_keep_alive: bool,

    /// The method; POST with --body, otherwise GET.
    #[arg(short, long, value_name = "METHOD")]
    pub(super) method: Option<String>,

    /// A header; repeat it for more. The value may have fields.
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    pub(super) header: Vec<String>,

    /// The body, a text or the content of a file. It may have fields.
    #[arg(short, long, value_name = "TEXT|@FILE")]
    pub(super) body: Option<String>,

    /// Requests with weights, from a file of `[[request]]` tables; their paths replace the URL's.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "header", "body"])]
    pub(super) mix: Option<PathBuf>,

    /// How long a request may take, from its sending to the end of its answer.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(super) timeout: Duration,

    /// Seed of everything drawn at random: the same seed sends the same requests.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(super) seed: u64,

    /// Connect to this address, whatever the URL says.
    #[arg(long, value_name = "ADDRESS:PORT|unix:PATH")]
    pub(super) connect: Option<String>,

    /// Trust the certificate authorities in this file.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(super) ca: Option<PathBuf>,

    /// Trust any certificate.
    #[arg(short = 'k', long)]
    pub(super) insecure: bool,

    /// Write the results as JSON; - is standard output.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,

    /// Write a line for each second as CSV.
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,

    /// Write an `HdrHistogram` log, with a histogram for each second and outcome.
    #[arg(long, value_name = "FILE")]
    pub(super) hdr_log: Option<PathBuf>,

    /// Say nothing while it runs, and then one line with the verdict.
    #[arg(short, long)]
    pub(super) quiet: bool,

    /// Search the highest rate that keeps the promises of --slo.
    #[arg(long, requires = "slo", conflicts_with_all = ["arrivals", "requests", "csv", "hdr_log"])]
    pub(super) find_max: bool,

    /// What must hold, such as p99=10ms,errors=0.1%; exit status 3 if it does not.
    #[arg(long, value_name = "PROMISE,...")]
    pub(super) slo: Option<String>,
}

fn duration(text: &str) -> Result<Duration, String> {
    // A day is longer than any run that somebody waits for.
    units::duration(text, &(Duration::ZERO..=Duration::from_secs(86_400)))
}
