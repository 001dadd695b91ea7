//! `weir demo --shard`: three nodes of a store. One is killed and comes back; what clients see meanwhile, and whether everything is
//! there that was acknowledged.
//!
//! - [`place`]: where a node is, and its config; [`node`]: its process
//! - [`visitor`]: the client that writes and reads, and what it knows

mod node;
mod place;
mod visitor;

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;
use tokio::runtime::Runtime;

use self::node::Node;
use self::place::NODES;
use self::visitor::{Taken, Traffic, Visitor};
use super::directory::Directory;
use super::screen::Screen;
use super::{DemoArgs, TICK};
use crate::commands::client::Client;
use crate::commands::signals::{Instruction, Signals};

/// How long it shows, unless it is said.
const SECONDS: u32 = 40;
/// The node that is killed.
const KILLED: usize = NODES - 1;
/// How long to wait until nodes know each other, hints are taken, or a repair ends.
const PATIENCE: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(50);

pub(super) fn run(
    args: &DemoArgs,
    mut screen: Screen,
    runtime: &Runtime,
    mut signals: Signals,
) -> anyhow::Result<()> {
    let directory = Directory::new();
    let places = place::all(args)?;
    if args.print_config {
        return screen.print(&place::config_by_hand(&places));
    }
    let nodes = (1..).zip(&places).map(|(number, place)| {
        let config = place::config(place, &places, &directory.path().join(place::name(number)));
        Node::start(number, place, &config, &directory)
    });
    let nodes: Vec<Node> = nodes.collect::<anyhow::Result<_>>()?;
    wait_until("the nodes do not find each other", || {
        let is_whole = |node: &Node| node.store().is_ok_and(|store| up(&store) == NODES);
        nodes.iter().all(is_whole)
    })?;
    let seconds = args.seconds.unwrap_or(SECONDS);
    screen.print(&guide(args, &nodes, seconds))?;
    let servers = places.iter().map(|place| place.http);
    let rate = args.rate.clamp(1, 10_000);
    let traffic = Traffic::start(Visitor::new(servers.map(Client::new).collect()), rate)?;
    let mut show = Show {
        screen,
        nodes,
        traffic,
    };
    let mut is_over = false;
    for second in 0..seconds {
        let asked = async { tokio::time::timeout(TICK, signals.next()).await };
        is_over = runtime.block_on(asked) == Ok(Instruction::End);
        if is_over {
            break;
        }
        show.tick(second, seconds)?;
    }
    show.end(is_over)
}

/// When the node is killed, and when it is started again.
fn kill_and_start(seconds: u32) -> (u32, u32) {
    (seconds / 4, seconds * 5 / 8)
}

fn guide(args: &DemoArgs, nodes: &[Node], seconds: u32) -> String {
    let mut text =
        "weir demo --shard: three nodes have each key, and one of them is killed for a while\n\n"
            .to_owned();
    for node in nodes {
        let (name, http, admin, pid) = (node.name(), node.http(), node.admin(), node.pid());
        let _ = writeln!(
            text,
            "  {name}      http://{http}/v1/kv/KEY   pid {pid}, dashboard http://{admin}/"
        );
    }
    let (first, other, third) = (nodes[0].http(), nodes[1].http(), nodes[KILLED].http());
    let (killed_at, started_at) = kill_and_start(seconds);
    let (rate, admin, killed) = (args.rate, nodes[0].admin(), nodes[KILLED].name());
    let away = started_at - killed_at;
    let _ = write!(
        text,
        "  traffic     PUT and GET in turn             {rate} requests a second, to one node after the other\n\n\
         In another terminal, try\n\n\
         \u{20} curl -i -X PUT -d hello http://{first}/v1/kv/greeting    answered when two of three have it\n\
         \u{20} curl -i http://{other}/v1/kv/greeting                   any node answers\n\
         \u{20} curl 'http://{third}/v1/range?prefix=demo/&limit=5'      keys in their order\n\
         \u{20} weir kv status --admin {admin}                   nodes, hints and repair\n\n\
         After {killed_at} seconds {killed} is killed, and it is back {away} seconds later. It ends after {seconds} seconds, or on Ctrl-C.\n\n"
    );
    text
}

/// Nodes that answer, as one of them says.
fn up(store: &Value) -> usize {
    let nodes = store["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    nodes.iter().filter(|node| node["is_up"] == true).count()
}

/// Hints of a node for the one that is killed: `waiting`, `taken` or `left_out`.
fn hints(store: &Value, address: &str, which: &str) -> u64 {
    let nodes = store["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let node = nodes.iter().find(|node| node["address"] == *address);
    node.and_then(|node| node["hints"][which].as_u64())
        .unwrap_or(0)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) -> anyhow::Result<()> {
    let began = Instant::now();
    while !is_so() {
        anyhow::ensure!(began.elapsed() < PATIENCE, "{what}");
        thread::sleep(POLL);
    }
    Ok(())
}

/// What is checked and shown once a second.
struct Show {
    screen: Screen,
    nodes: Vec<Node>,
    /// Before the nodes: its connections are closed when they end.
    traffic: Traffic,
}

impl Show {
    fn tick(&mut self, second: u32, seconds: u32) -> anyhow::Result<()> {
        let (killed_at, started_at) = kill_and_start(seconds);
        let killed = &mut self.nodes[KILLED];
        if second == killed_at {
            killed.kill();
            self.screen
                .event("node-3 is killed: the other two go on, and keep for it what it misses")?;
        }
        if second == started_at {
            killed.start_again()?;
            let pid = killed.pid();
            self.screen.event(&format!(
                "node-3 is back, pid {pid}: it takes what was kept for it"
            ))?;
        }
        let store = self.nodes[0].store().context("node-1 does not answer")?;
        let Taken {
            written,
            read,
            slowest,
            ..
        } = self.traffic.take();
        let all = self.traffic.in_all();
        let waiting = self.kept("waiting");
        self.screen.line(&format!(
            "written {written:>4}/s, read {read:>4}/s, the slowest in {:>6.1} ms │ {} of {NODES} nodes up │ {waiting:>5} hints wait │ {} asked elsewhere, {} failed, {} wrong",
            slowest.as_secs_f64() * 1e3,
            up(&store),
            all.elsewhere,
            all.failed,
            all.wrong,
        ))
    }

    /// Hints of the other nodes for the one that is killed.
    fn kept(&self, which: &str) -> u64 {
        let address = self.nodes[KILLED].address();
        let others = self.nodes[..KILLED].iter();
        let stores = others.filter_map(|node| node.store().ok());
        stores.map(|store| hints(&store, &address, which)).sum()
    }

    /// Looks whether everything is there. The nodes end last.
    fn end(self, is_interrupted: bool) -> anyhow::Result<()> {
        let Self {
            mut screen,
            mut nodes,
            traffic,
        } = self;
        let (mut visitor, all) = traffic.finish();
        screen.event(&format!(
            "weir demo: {} writes were acknowledged, {} reads were answered; {} were asked at another node, {} failed, {} wrong",
            all.written, all.read, all.elsewhere, all.failed, all.wrong
        ))?;
        let running: Vec<usize> = (0..NODES)
            .filter(|&node| nodes[node].is_running())
            .collect();
        if !is_interrupted && running.len() == NODES {
            screen.event(&made_alike(&nodes)?)?;
        }
        let checked = visitor.check(&running);
        drop(visitor);
        drop(nodes);
        let lost = checked.lost + all.wrong;
        anyhow::ensure!(
            lost == 0,
            "weir demo: {} keys do not have what was acknowledged, and {} reads were wrong",
            checked.lost,
            all.wrong
        );
        screen.event(&format!(
            "weir demo: every acknowledged write is there: {} keys were read through each of {} nodes",
            checked.keys,
            running.len()
        ))
    }
}

/// Waits until the node that was away has everything, and says how it got it.
fn made_alike(nodes: &[Node]) -> anyhow::Result<String> {
    let address = nodes[KILLED].address();
    let kept = |which: &str| -> u64 {
        let stores = nodes[..KILLED].iter().filter_map(|node| node.store().ok());
        stores.map(|store| hints(&store, &address, which)).sum()
    };
    wait_until("the hints are not taken", || kept("waiting") == 0)?;
    let mut repair = nodes[KILLED].repair().context("no repair begins")?;
    wait_until("the repair does not end", || {
        let has_ended = repair["is_waiting"] == false && repair["ended_ms"] != 0;
        if !has_ended && let Ok(mut store) = nodes[KILLED].store() {
            repair = store["repair"].take();
        }
        has_ended
    })?;
    let number = |name: &str| repair[name].as_u64().unwrap_or(0);
    Ok(format!(
        "weir demo: {} hints were taken, {} left out; a repair compared {} ranges, {} differed, {} sent, {} received",
        kept("taken"),
        kept("left_out"),
        number("compared"),
        number("differed"),
        number("sent"),
        number("received"),
    ))
}
