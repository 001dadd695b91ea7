//! `weir kv status` and `weir kv repair`: how the store of a running gateway is, and what makes its replicas alike.

use std::io::{self, Write as _};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Value, json};

use super::admin::{Admin, Connection};

/// How often it is asked how far a repair is.
const POLL: Duration = Duration::from_millis(100);
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RepairArgs {
    /// Wait until it has ended, and say what it has come to; the exit status is 1 when a node did not answer.
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    connection: Connection,
}

/// What the gateway says of its store, as far as it is shown.
#[derive(Debug, Deserialize)]
struct Store {
    node: String,
    standing: String,
    epoch: u64,
    replicas: u64,
    slots: u64,
    nodes: Vec<Node>,
    change: Option<Change>,
    failing: Option<String>,
    operations: Operations,
    repair: Option<Repair>,
}

#[derive(Debug, Deserialize)]
struct Change {
    epoch: u64,
    nodes: Vec<String>,
    has_begun: bool,
    is_done: bool,
    looked_at: u64,
    copied: u64,
    trouble: String,
}

#[derive(Debug, Deserialize)]
struct Node {
    address: String,
    is_up: bool,
    apart: Option<String>,
    is_this: bool,
    first_of: u64,
    replica_of: u64,
    hints: Option<Hints>,
}

#[derive(Debug, Deserialize)]
struct Hints {
    waiting: u64,
    taken: u64,
    left_out: u64,
}

#[derive(Debug, Deserialize)]
struct Operations {
    get: Outcomes,
    put: Outcomes,
    delete: Outcomes,
    under_way: u64,
    forwarded: u64,
    advanced: u64,
    read_repairs: u64,
}

#[derive(Debug, Deserialize)]
struct Outcomes {
    ok: u64,
    not_found: u64,
    unmet: u64,
    conflict: u64,
    too_few: u64,
    busy: u64,
    refused: u64,
    failed: u64,
}

#[derive(Debug, Deserialize)]
struct Repair {
    is_waiting: bool,
    began_ms: u64,
    ended_ms: u64,
    compared: u64,
    differed: u64,
    sent: u64,
    received: u64,
    forgotten: u64,
    missing: Option<String>,
}

pub(crate) fn run_status(args: &StatusArgs) -> anyhow::Result<bool> {
    let mut admin = Admin::of(&args.connection)?;
    let answer = admin.get("/store", &[])?;
    if args.connection.json {
        say(answer)?;
        return Ok(true);
    }
    let store: Store = serde_json::from_value(answer).map_err(|_| admin.is_no_weir())?;
    let Store {
        node,
        epoch,
        replicas,
        slots,
        ..
    } = &store;
    say(format_args!(
        "node {node}, epoch {epoch}, {slots} slots, {replicas} of {} nodes have a key\n",
        store.nodes.len()
    ))?;
    say_nodes(&store.nodes)?;
    say_change(&store)?;
    if let Some(why) = &store.failing {
        say(format_args!("\nthis node writes nothing: {why}"))?;
    }
    say_operations(&store.operations)?;
    say(format_args!("\n{}", told(store.repair.as_ref())))?;
    if let Some(held_up) = held_up(store.repair.as_ref(), store.change.as_ref()) {
        say(held_up)?;
    }
    Ok(true)
}

fn say_nodes(nodes: &[Node]) -> anyhow::Result<()> {
    let widths = nodes.iter().map(|node| node.address.len());
    let width = widths.max().unwrap_or(0).max("NODE".len());
    say(format_args!(
        "{:width$}  {:5}  {:>8}  {:>10}  {:>7}  {:>9}  {:>8}",
        "NODE", "STATE", "FIRST OF", "REPLICA OF", "HINTS", "TAKEN", "LEFT OUT"
    ))?;
    for node in nodes {
        let state = match (node.is_this, node.is_up, &node.apart) {
            (true, ..) => "this",
            (_, true, _) => "up",
            (.., Some(_)) => "apart",
            _ => "down",
        };
        let hints = node.hints.as_ref();
        let hint = |of: fn(&Hints) -> u64| hints.map_or("-".to_owned(), |it| of(it).to_string());
        say(format_args!(
            "{:width$}  {state:5}  {:>8}  {:>10}  {:>7}  {:>9}  {:>8}",
            node.address,
            node.first_of,
            node.replica_of,
            hint(|hints| hints.waiting),
            hint(|hints| hints.taken),
            hint(|hints| hints.left_out),
        ))?;
    }
    for node in nodes {
        if let Some(why) = &node.apart {
            let address = &node.address;
            say(format_args!(
                "{address} is there, and counts as down: {why}"
            ))?;
        }
    }
    Ok(())
}

/// What this node is among the others, where that is worth saying; and what is to follow.
fn say_change(store: &Store) -> anyhow::Result<()> {
    match &*store.standing {
        "waits" => say("\nthis node waits until `weir kv join` lets it come")?,
        "left" => say("\nthis node has left, and may be stopped")?,
        "behind" => say(format_args!(
            "\nthis node has an older map than the others, and does nothing for clients: it was started with an old copy of its data, or without it; take it out with `weir kv leave {} --gone`, empty its directory, and let it join",
            store.node
        ))?,
        _ => {}
    }
    let Some(change) = &store.change else {
        return Ok(());
    };
    let Change {
        epoch,
        looked_at,
        copied,
        trouble,
        ..
    } = change;
    let how = match (change.has_begun, change.is_done) {
        (_, true) => format!("this node has what it gets, {copied} keys"),
        (true, _) => format!("this node has looked at {looked_at} keys, and copied {copied}"),
        (false, _) => "this node copies nothing yet".to_owned(),
    };
    let trouble = match &**trouble {
        "" => String::new(),
        trouble => format!("; {trouble}"),
    };
    say(format_args!(
        "\na change to epoch {epoch} is under way, to the nodes {}: {how}{trouble}",
        change.nodes.join(", ")
    ))?;
    say("`weir kv finish` goes on with it, and `weir kv abort` takes it back")
}

fn say_operations(operations: &Operations) -> anyhow::Result<()> {
    say(format_args!(
        "\n{:9}  {:>9}  {:>9}  {:>7}  {:>8}  {:>7}  {:>7}  {:>7}  {:>7}",
        "OPERATION", "OK", "NOT FOUND", "UNMET", "CONFLICT", "TOO FEW", "BUSY", "REFUSED", "FAILED"
    ))?;
    for (name, outcomes) in [
        ("get", &operations.get),
        ("put", &operations.put),
        ("delete", &operations.delete),
    ] {
        say(format_args!(
            "{name:9}  {:>9}  {:>9}  {:>7}  {:>8}  {:>7}  {:>7}  {:>7}  {:>7}",
            outcomes.ok,
            outcomes.not_found,
            outcomes.unmet,
            outcomes.conflict,
            outcomes.too_few,
            outcomes.busy,
            outcomes.refused,
            outcomes.failed,
        ))?;
    }
    let Operations {
        under_way,
        forwarded,
        advanced,
        read_repairs,
        ..
    } = operations;
    say(format_args!(
        "{under_way} under way, {forwarded} forwarded, {advanced} met a newer write, {read_repairs} mended by reads"
    ))
}

/// Has a repair begin; whether it is whole, as far as that is waited for.
pub(crate) fn run_repair(args: &RepairArgs) -> anyhow::Result<bool> {
    let mut admin = Admin::of(&args.connection)?;
    let mut answer = admin.post("/store/repair", &json!({}))?;
    let mut said = None;
    let repair = loop {
        let repair = answer["repair"].take();
        let read: Option<Repair> = serde_json::from_value(repair.clone()).ok();
        let read = read.ok_or_else(|| admin.is_no_weir())?;
        let has_ended = !read.is_waiting && read.ended_ms > 0;
        if has_ended || !args.wait {
            break (repair, read);
        }
        let change: Option<Change> = serde_json::from_value(answer["change"].take())
            .ok()
            .flatten();
        let held_up = held_up(Some(&read), change.as_ref());
        if held_up.is_some() && held_up != said {
            // What the repair has come to is on the standard output.
            eprintln!("{}", held_up.as_deref().unwrap_or_default());
            said = held_up;
        }
        thread::sleep(POLL);
        answer = admin.get("/store", &[])?;
    };
    say_repair(args, repair)
}

fn say_repair(args: &RepairArgs, (json, repair): (Value, Repair)) -> anyhow::Result<bool> {
    if args.connection.json {
        say(json)?;
    } else if args.wait {
        say(told(Some(&repair)))?;
    } else {
        say("a repair begins; `weir kv status` says how far it is")?;
    }
    Ok(repair.missing.is_none() || !args.wait)
}

/// What a repair waits for that is under way or about to begin, if that is a change of nodes.
fn held_up(repair: Option<&Repair>, change: Option<&Change>) -> Option<String> {
    let is_on = repair
        .is_some_and(|repair| repair.is_waiting || repair.began_ms > 0 && repair.ended_ms == 0);
    let change = change.filter(|_| is_on)?;
    Some(format!(
        "it goes no further while a change of nodes is under way, to epoch {}: `weir kv finish` goes on with that, and `weir kv abort` takes it back",
        change.epoch
    ))
}

/// What a repair has come to, in a sentence.
fn told(repair: Option<&Repair>) -> String {
    let Some(repair) = repair else {
        return "no repair: the database of the store sees to its data itself".to_owned();
    };
    let &Repair {
        began_ms,
        ended_ms,
        compared,
        differed,
        sent,
        received,
        forgotten,
        ..
    } = repair;
    let how = match (repair.is_waiting, began_ms, ended_ms) {
        (true, ..) => "a repair is about to begin".to_owned(),
        (_, 0, _) => return "no repair since the start".to_owned(),
        (.., 0) => format!("a repair is under way, for {}", ago(began_ms)),
        _ => format!("the last repair ended {} ago", ago(ended_ms)),
    };
    let missing = repair.missing.as_ref().map_or_else(String::new, |node| {
        format!("; it is not whole: {node} did not answer")
    });
    format!(
        "{how}: {compared} ranges compared, {differed} differed, {sent} sent, {received} received, {forgotten} forgotten{missing}"
    )
}

fn ago(unix_ms: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = now.unwrap_or_default();
    let since = since.saturating_sub(Duration::from_millis(unix_ms));
    super::queue::rounded(since)
}

/// Prints a line. If nobody reads it any more, as behind `head`, that is an end and no failure.
fn say(line: impl std::fmt::Display) -> anyhow::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repair_that_a_change_holds_up_says_so() {
        let repair = |is_waiting: bool, began_ms: u64, ended_ms: u64| -> Repair {
            serde_json::from_value(json!({
                "is_waiting": is_waiting, "began_ms": began_ms, "ended_ms": ended_ms, "compared": 0, "differed": 0,
                "sent": 0, "received": 0, "forgotten": 0, "missing": null,
            }))
            .expect("a repair")
        };
        let change: Change = serde_json::from_value(json!({
            "epoch": 7, "nodes": [], "has_begun": false, "is_done": false, "looked_at": 0, "copied": 0, "trouble": "",
        }))
        .expect("a change");
        for (repair, is_held_up) in [
            (repair(true, 0, 0), true),
            (repair(false, 1, 0), true),
            (repair(false, 0, 0), false),
            (repair(false, 1, 2), false),
        ] {
            let told = held_up(Some(&repair), Some(&change));
            assert_eq!(
                told.is_some_and(|told| told.contains("to epoch 7")),
                is_held_up
            );
            assert_eq!(held_up(Some(&repair), None), None);
        }
    }

    #[test]
    fn a_repair_is_told_in_a_sentence() {
        let repair = |more: &Value| -> Repair {
            let mut repair = json!({
                "is_waiting": false, "began_ms": 1, "ended_ms": 2, "compared": 3, "differed": 1,
                "sent": 4, "received": 5, "forgotten": 6, "missing": null,
            });
            for (name, value) in more.as_object().expect("an object") {
                repair[name] = value.clone();
            }
            serde_json::from_value(repair).expect("a repair")
        };
        let ended = told(Some(&repair(&json!({}))));
        let counts = "3 ranges compared, 1 differed, 4 sent, 5 received, 6 forgotten";
        assert!(ended.starts_with("the last repair ended "), "{ended}");
        assert!(ended.ends_with(&format!(" ago: {counts}")), "{ended}");
        let missing = told(Some(&repair(&json!({ "missing": "10.0.0.2:8081" }))));
        assert!(
            missing.ends_with("it is not whole: 10.0.0.2:8081 did not answer"),
            "{missing}"
        );
        for (more, said) in [
            (
                json!({ "began_ms": 0, "ended_ms": 0 }),
                "no repair since the start",
            ),
            (json!({ "ended_ms": 0 }), "a repair is under way, for "),
            (json!({ "is_waiting": true }), "a repair is about to begin"),
        ] {
            let told = told(Some(&repair(&more)));
            assert!(told.starts_with(said), "{told}");
        }
    }
}
