//! What a rung is asked, how much of it, and what goes wrong meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::raw;

/// What a rung is asked.
#[derive(Debug, Clone)]
pub struct Load {
    /// The name in tables.
    pub name: String,
    /// Cells of its own in the tables, by column.
    pub notes: BTreeMap<String, String>,
    /// The method of the request.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
    /// Connections open at once.
    pub connections: usize,
    /// Threads of the generator.
    pub threads: usize,
    /// Whether a connection serves more than one request.
    pub keep_alive: bool,
    /// Requests a second; `None` is a closed loop.
    pub rate: Option<f64>,
    /// How requests are spread over time.
    pub arrivals: Arrivals,
    /// What `{with:NAME}` stands for in flags and configs while this load runs.
    pub with: BTreeMap<String, String>,
    /// An answer that takes longer is a timeout.
    pub timeout: Duration,
    /// How much is measured.
    pub amount: Amount,
    /// The same for `--quick`.
    pub quick: Amount,
    /// What goes wrong during the load.
    pub fault: Option<Fault>,
    /// How many keys `{key}` in path and body stands for, one after the other and again.
    pub keys: Option<u32>,
    /// The load that it runs beside; `None` for one that runs by itself.
    pub beside: Option<Beside>,
}

/// A load that is sent while another one is, to the same services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside {
    /// The name of the other one.
    pub load: String,
    /// How much later it begins.
    pub delay: Duration,
    /// The same for `--quick`.
    pub quick_delay: Duration,
}

/// How the requests of a load with a rate are spread over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly.
    #[default]
    Even,
    /// As from many clients that do not know of each other.
    Poisson,
    /// So many at once, at even distances.
    Bursts(u32),
}

/// A service that is made bad while a load runs. It needs a load with a rate and a duration, and `weir app --faults`.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The service.
    pub service: String,
    /// One of [`Fault::MODES`].
    pub mode: String,
    /// When it goes bad, as a share of the load's duration from 0 to 1.
    pub from: f64,
    /// When it is well again, likewise.
    pub to: f64,
}

impl Fault {
    /// The service answers 500 to everything, answers two seconds later, or does not answer.
    pub const MODES: [&str; 3] = ["fail", "slow", "hang"];
}

/// The length of a measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// For this long.
    Time(Duration),
    /// This many requests.
    Requests(u64),
}

impl Load {
    /// The default of [`Load::timeout`].
    pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(20);

    /// How much is measured.
    pub fn amount_of(&self, is_quick: bool) -> Amount {
        if is_quick { self.quick } else { self.amount }
    }

    /// How much later it begins than the load that it runs beside.
    pub fn delay(&self, is_quick: bool) -> Duration {
        let delay = self.beside.as_ref().map(|beside| {
            if is_quick {
                beside.quick_delay
            } else {
                beside.delay
            }
        });
        delay.unwrap_or_default()
    }

    /// The load for the raw data.
    pub fn raw(&self, is_quick: bool) -> raw::Load {
        let amount = self.amount_of(is_quick);
        raw::Load {
            name: self.name.clone(),
            notes: self.notes.clone(),
            method: self.method.clone(),
            path: self.path.clone(),
            headers: self.headers.clone(),
            body: self.body.clone(),
            connections: self.connections,
            threads: self.threads,
            keep_alive: self.keep_alive,
            rate: self.rate,
            arrivals: self.arrivals.in_words(),
            beside: self.beside.as_ref().map(|beside| {
                let seconds = self.delay(is_quick).as_secs_f64();
                format!("beside {}, {seconds} s later", beside.load)
            }),
            timeout_s: Some(self.timeout.as_secs_f64()),
            amount: amount.in_words(),
        }
    }
}

impl Arrivals {
    /// In words, for reports.
    pub fn in_words(self) -> String {
        match self {
            Self::Even => "evenly".to_owned(),
            Self::Poisson => "Poisson".to_owned(),
            Self::Bursts(count) => format!("{count} at once"),
        }
    }
}

impl Amount {
    /// In words, for reports.
    pub fn in_words(self) -> String {
        match self {
            Self::Time(time) => format!("{} s", time.as_secs_f64()),
            Self::Requests(count) => format!("{count} requests"),
        }
    }
}
