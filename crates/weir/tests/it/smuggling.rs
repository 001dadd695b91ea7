//! The request smuggling corpus over real sockets: what a client sends, whole and byte by byte, and what an upstream
//! makes of what it gets, whether it reads to the letter or with all the leniency that is found in servers.

use std::io::Write as _;
use std::net::Shutdown;
use std::path::Path;

use crate::harness::client::{self, Connection};
use crate::harness::{Gateway, forward_everything, wait_until};
use case::Case;
use reader::{Reading, Requests};
use recorder::{Record, Recorder};

#[path = "../../../../tests/smuggling/case.rs"]
mod case;
mod reader;
mod recorder;

/// How a case's bytes are sent.
#[derive(Debug, Clone, Copy)]
enum Sending {
    Whole,
    ByteByByte,
}

#[test]
fn every_case_gets_its_verdict_and_no_upstream_another_request() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/smuggling");
    let cases = case::read_all(&corpus);
    let recorder = Recorder::start();
    // With one worker there is one pool: what follows a case goes to the upstream on the connection that the case used.
    let gateway = Gateway::start(&format!(
        "[server]\nworkers = 1\n{}",
        forward_everything(&[recorder.address], "")
    ));
    let mut wrong = Vec::new();
    for case in &cases {
        for sending in [Sending::Whole, Sending::ByteByByte] {
            let answered = answers(case, &gateway, sending);
            let records = records(&recorder, &gateway);
            for found in [answered, forwarded(case, &records)] {
                if let Err(found) = found {
                    let (name, reason) = (&case.name, &case.reason);
                    wrong.push(format!("{name}, {sending:?}: {found}\n    {reason}"));
                }
            }
        }
    }
    // What is sent to an upstream is told from what comes next on the same connection, or this shows nothing.
    let (connections, runs) = (recorder.connections(), cases.len() * 2);
    assert!(
        connections <= runs / 4,
        "{connections} connections for {runs}"
    );
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Whether the client is answered as the case says.
fn answers(case: &Case, gateway: &Gateway, sending: Sending) -> Result<(), String> {
    let mut connection = Connection::open(gateway.address);
    // A gateway that has refused may close before everything is sent.
    let _ = match sending {
        Sending::Whole => connection.stream.write_all(&case.input),
        Sending::ByteByByte => case
            .input
            .chunks(1)
            .try_for_each(|byte| connection.stream.write_all(byte)),
    };
    for number in 1..=case.expect.forwarded {
        // No response of the upstream has a body, so the method makes no difference.
        match connection.response_to("GET") {
            Some(response) if response.status == 200 => {}
            other => return Err(format!("the answer to request {number} is {other:?}")),
        }
    }
    if let Some((status, reason)) = &case.expect.refused {
        let Some(response) = connection.response_to("GET") else {
            return Err(format!("closed without the {status}"));
        };
        if response.status != *status || !response.text().contains(&format!(": {reason}\n")) {
            return Err(format!("{response:?} instead of {status} {reason}"));
        }
        if response.field("connection") != Some("close") {
            return Err(format!("no `Connection: close` in {response:?}"));
        }
    } else {
        let _ = connection.stream.shutdown(Shutdown::Write);
    }
    let rest = connection.rest();
    if rest.is_empty() {
        Ok(())
    } else {
        Err(format!("one answer too many: {}", rest.escape_ascii()))
    }
}

const SENTINEL: &str = "/the-next-client";

/// What the upstream was sent for a case. Behind it, on the same connection, comes the request of another client: all
/// that was sent before was read before.
fn records(recorder: &Recorder, gateway: &Gateway) -> Vec<Record> {
    let next = client::get(gateway.address, SENTINEL);
    assert_eq!(next.status, 200, "the next client is served");
    // A connection with half a request on it is no longer used, and its end is what comes last.
    wait_until("only the pooled connection is open", || {
        recorder.open() <= 1
    });
    recorder.take()
}

/// Whether the upstream was sent as many requests as the case says, and not a byte that could be understood as more.
fn forwarded(case: &Case, records: &[Record]) -> Result<(), String> {
    let mut found: Option<(Reading, Vec<reader::Request>)> = None;
    for reading in Reading::ALL {
        let mut requests = Vec::new();
        for record in records {
            let Requests { whole, rest } = reading.requests(&record.bytes).map_err(|error| {
                format!("{reading:?}: {error} in {}", record.bytes.escape_ascii())
            })?;
            requests.extend(whole);
            if !rest.is_empty() && (case.expect.refused.is_none() || record.is_open) {
                let rest = rest.escape_ascii();
                return Err(format!("{reading:?}: half a request is left: {rest}"));
            }
        }
        if let Some((other, expected)) = &found {
            if *expected != requests {
                return Err(format!(
                    "{other:?} reads {expected:?}, {reading:?} reads {requests:?}"
                ));
            }
        } else {
            found = Some((reading, requests));
        }
    }
    let (_, mut requests) = found.expect("there is more than one reading");
    let sentinel = requests.iter().position(|own| own.target == SENTINEL);
    drop(sentinel.map(|at| requests.remove(at)));
    if sentinel.is_none() || requests.len() != case.expect.forwarded {
        return Err(format!("forwarded was {requests:?}"));
    }
    match requests.iter().find(|own| own.target.contains("smuggled")) {
        Some(smuggled) => Err(format!("smuggled: {smuggled:?}")),
        None => Ok(()),
    }
}
