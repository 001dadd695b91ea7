//! `[[load]]` of a scenario: what a rung is asked.

use std::ops::RangeInclusive;

use weir_lab::scenario::{Amount, Arrivals, Beside, Fault, Load};

use super::super::read::Table;
use super::{
    DURATION, FIGURE, THREADS, WARM_UP, free_texts, headers_of, notes, optional_text, text,
};

const CONNECTIONS: RangeInclusive<u64> = 1..=1_000_000;
const REQUESTS: RangeInclusive<u64> = 1..=1_000_000_000;
const ARRIVALS_EXPECTED: &str = "\"even\", \"poisson\" or as in \"bursts of 100\"";
const KEYS: RangeInclusive<u64> = 1..=1_000_000;
const BESIDE_EXAMPLE: &str = "beside = { load = \"PUT\", delay = \"10s\", quick = \"1s\" }";
const SHARE: RangeInclusive<f64> = 0.0..=1.0;
const FAULT_EXAMPLE: &str = "fault = { service = \"app\", mode = \"fail\", from = 0.2, to = 0.6 }";

/// Reads one.
pub(super) fn load(mut table: Table) -> Load {
    let name = text(&mut table, "name", "a name for tables");
    let method = optional_text(&mut table, "method");
    let path = text(&mut table, "path", "path and query, as in \"/\"");
    let headers = table.optional("headers");
    let headers = headers.map_or_else(Vec::new, |value| headers_of(&value));
    let body = optional_text(&mut table, "body");
    let connections = table.required("connections", "how many are open at once");
    let connections = connections
        .and_then(|value| value.integer(CONNECTIONS))
        .unwrap_or(1) as usize;
    let threads = table.optional("threads");
    let threads = threads
        .and_then(|value| value.integer(THREADS))
        .unwrap_or(1) as usize;
    let keep_alive = table.optional("keep_alive");
    let keep_alive = keep_alive.and_then(|value| value.boolean()).unwrap_or(true);
    let rate = table.optional("rate");
    let rate = rate.and_then(|value| value.number(&FIGURE));
    let arrivals = table.optional("arrivals");
    let arrivals = arrivals.and_then(|value| value.parsed(ARRIVALS_EXPECTED, arrivals_of));
    let timeout = table.optional("timeout");
    let timeout = timeout.and_then(|value| value.duration(&DURATION));
    let duration = table.optional("duration");
    let duration = duration
        .and_then(|value| value.duration(&DURATION))
        .map(Amount::Time);
    let requests = table.optional("requests");
    let requests = requests
        .and_then(|value| value.integer(REQUESTS))
        .map(Amount::Requests);
    if duration.is_some() == requests.is_some() {
        table.wrong("duration", "expected either \"duration\" or \"requests\"");
    }
    let amount = duration.or(requests).unwrap_or(Amount::Requests(1));
    let quick = table.required("quick", "a duration for `--quick`, as in \"1s\"");
    let quick = quick
        .and_then(|value| value.duration(&DURATION))
        .map(Amount::Time);
    let fault = table.section("fault", FAULT_EXAMPLE).and_then(fault);
    let keys = table.optional("keys");
    let keys = keys.and_then(|value| value.integer(KEYS));
    let beside = table.section("beside", BESIDE_EXAMPLE).and_then(beside);
    let notes = notes(&mut table);
    let with = free_texts(&mut table, "with");
    table.finish();
    Load {
        name,
        notes,
        arrivals: arrivals.unwrap_or_default(),
        with,
        method: if method.is_empty() {
            "GET".to_owned()
        } else {
            method
        },
        path,
        headers,
        body,
        connections,
        threads,
        keep_alive,
        rate,
        timeout: timeout.unwrap_or(Load::TIMEOUT_DEFAULT),
        amount,
        quick: quick.unwrap_or(amount),
        fault,
        keys: keys.map(|keys| keys as u32),
        beside,
    }
}

fn arrivals_of(text: &str) -> Result<Arrivals, String> {
    match text {
        "even" => Ok(Arrivals::Even),
        "poisson" => Ok(Arrivals::Poisson),
        _ => {
            let count = text
                .strip_prefix("bursts of ")
                .and_then(|count| count.parse().ok());
            let count = count.filter(|count| *count > 0);
            count
                .map(Arrivals::Bursts)
                .ok_or_else(|| format!("expected {ARRIVALS_EXPECTED}"))
        }
    }
}

fn beside(mut table: Table) -> Option<Beside> {
    let load = text(&mut table, "load", "the load that it runs beside");
    let mut later = |key| {
        let value = table.required(key, "how much later it begins, as in \"10s\"");
        value.and_then(|value| value.duration(&WARM_UP))
    };
    let (delay, quick_delay) = (later("delay"), later("quick"));
    table.finish();
    Some(Beside {
        load,
        delay: delay?,
        quick_delay: quick_delay?,
    })
}

fn fault(mut table: Table) -> Option<Fault> {
    let service = text(&mut table, "service", "the name of a service");
    let modes = Fault::MODES.map(|mode| (mode, mode));
    let mode = table.required("mode", "what goes wrong, as in \"fail\"");
    let mode = mode.and_then(|value| value.choice(&modes));
    let mut share = |key| {
        let value = table.required(key, "a share of the load's duration, as in 0.2");
        value.and_then(|value| value.number(&SHARE))
    };
    let (from, to) = (share("from"), share("to"));
    table.finish();
    Some(Fault {
        service,
        mode: mode?.to_owned(),
        from: from?,
        to: to?,
    })
}
