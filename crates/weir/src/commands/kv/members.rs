//! `weir kv join`, `leave` and `move`: nodes come and go, after a plan is shown; `finish` and `abort` see to a change that was left half-way.
//!
//! This program asks and tells the nodes; they do the rest. It may be ended at any time: clients are served by both maps then, until
//! somebody goes on.

use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, ensure};
use weir_kv::client::{ClientSettings, Found, Members};
use weir_kv::frame::Standing;
use weir_kv::layout::Layout;
use weir_kv::layout::change::{self, Step, Want};

use super::place::{Place, Way, node};
use super::say_line;

/// How often nodes are looked at.
const POLL: Duration = Duration::from_millis(250);
/// How long to wait for a node that does not answer, before anything has begun.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, clap::Args)]
pub(super) struct JoinArgs {
    /// The node that comes, at the address that `node` of its `[kv]` has. It runs already, with `join = true` and an empty directory.
    #[arg(value_name = "ADDRESS:PORT", value_parser = node)]
    node: SocketAddr,

    #[command(flatten)]
    how: How,
}

#[derive(Debug, clap::Args)]
pub(super) struct LeaveArgs {
    /// The nodes that go.
    #[arg(value_name = "ADDRESS:PORT", value_parser = node, required = true)]
    leaving: Vec<SocketAddr>,

    /// They are lost for good, with their data. What they say is not heard any more, should they come back.
    #[arg(long)]
    gone: bool,

    #[command(flatten)]
    how: How,
}

#[derive(Debug, clap::Args)]
pub(super) struct MoveArgs {
    /// The node that goes.
    #[arg(value_name = "FROM", value_parser = node)]
    from: SocketAddr,

    /// The node that comes in its place, and gets the same keys. It runs already, with `join = true` and an empty directory.
    #[arg(value_name = "TO", value_parser = node)]
    to: SocketAddr,

    /// The first one is lost for good, with its data. What it says is not heard any more, should it come back.
    #[arg(long)]
    gone: bool,

    #[command(flatten)]
    how: How,
}

#[derive(Debug, clap::Args)]
struct How {
    /// How many nodes have a key afterwards, unless a request says otherwise; if nothing is said, as many as before, or 3 where there were as
    /// many as there were nodes.
    #[arg(long, value_name = "N")]
    replicas: Option<usize>,

    /// Only show the plan.
    #[arg(long, conflicts_with = "yes")]
    plan: bool,

    /// Carry it out without asking.
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
pub(super) struct FinishArgs {
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
pub(super) struct AbortArgs {
    /// A node that is lost for good, with its data, and need not be told.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = node)]
    gone: Vec<SocketAddr>,

    #[command(flatten)]
    place: Place,
}

pub(super) fn join(args: &JoinArgs) -> anyhow::Result<bool> {
    let want = Want::Join(named(args.node));
    let told = format!("{} joins", args.node);
    carry_out(&args.how, &want, &told)
}

pub(super) fn leave(args: &LeaveArgs) -> anyhow::Result<bool> {
    let want = Want::Leave {
        nodes: args.leaving.iter().copied().map(named).collect(),
        is_gone: args.gone,
    };
    let names: Vec<String> = args.leaving.iter().map(ToString::to_string).collect();
    let how = match (args.gone, names.len()) {
        (true, 1) => "is gone",
        (true, _) => "are gone",
        (false, 1) => "leaves",
        (false, _) => "leave",
    };
    carry_out(&args.how, &want, &format!("{} {how}", names.join(", ")))
}

pub(super) fn replace(args: &MoveArgs) -> anyhow::Result<bool> {
    let want = Want::Replace {
        old: named(args.from),
        new: named(args.to),
        is_gone: args.gone,
    };
    let told = format!("{} comes in the place of {}", args.to, args.from);
    carry_out(&args.how, &want, &told)
}

/// Goes on with a change that was left half-way.
pub(super) fn finish(args: &FinishArgs) -> anyhow::Result<bool> {
    see_to_it(&args.place, None)
}

/// Takes such a change back.
pub(super) fn abort(args: &AbortArgs) -> anyhow::Result<bool> {
    let lost: Vec<Box<str>> = args.gone.iter().copied().map(named).collect();
    see_to_it(&args.place, Some(&lost))
}

fn named(node: SocketAddr) -> Box<str> {
    node.to_string().into()
}

/// The nodes, and how they are asked.
struct Nodes {
    runtime: tokio::runtime::Runtime,
    members: Members,
}

impl Nodes {
    fn of(place: &Place) -> anyhow::Result<Self> {
        let settings: ClientSettings = match place.way()? {
            Way::Nodes(settings) => settings,
            Way::Url(_) => bail!(
                "nodes come and go by the port that they have for each other: name some of them with --nodes, or a config file with --config"
            ),
        };
        // Whoever is asked may take long to answer. Another thread tells the nodes meanwhile that this is still there.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let members = Members::new(settings);
        Ok(Self { runtime, members })
    }

    fn find(&self) -> anyhow::Result<Found> {
        Ok(self.runtime.block_on(self.members.find())?)
    }

    /// A node that is said to be lost does nothing: it does not answer, or goes by a map that no other one goes by. One that does goes on
    /// serving its clients, and nobody would hear it. All others know the map.
    fn check(&self, goal: &Layout) -> anyhow::Result<()> {
        let gone = goal.next.as_ref().map(|next| &next.gone[..]);
        let nodes = goal.now.map.nodes();
        let names: Vec<Box<str>> = nodes.iter().map(|node| node.address.clone()).collect();
        let all = self.runtime.block_on(self.members.look(&names));
        for (node, (name, seen)) in nodes.iter().zip(all) {
            let Some(seen) = seen else {
                continue;
            };
            let is_lost = gone.is_some_and(|gone| gone.contains(&node.id));
            ensure!(
                !(is_lost && seen.works_by(goal)),
                "{name} answers, so it is not lost: let it go without --gone, or stop it first"
            );
            let has = match seen.standing {
                Standing::Waits => "has lost its data",
                Standing::Member | Standing::Left => "has another map than the others",
            };
            ensure!(
                is_lost || seen.works_by(goal),
                "nothing is changed: {name} {has}: take it out first, with `weir kv leave {name} --gone`, empty its directory, and let it join"
            );
        }
        Ok(())
    }

    /// Goes on until it is done, and says what is waited for.
    fn drive(&self, goal: &Layout, back: Option<&[Box<str>]>) -> anyhow::Result<()> {
        let (began, mut said) = (Instant::now(), String::new());
        loop {
            let step = self.runtime.block_on(self.members.step(goal, back));
            match step {
                Step::Tell(_) => continue,
                Step::Done => return Ok(()),
                Step::Fail(why) => {
                    return Err(anyhow!(why).context(
                        "the change goes no further; `weir kv finish` goes on, `weir kv abort` takes it back",
                    ));
                }
                Step::Overtaken(why) => bail!(why),
                // It may have been started just now.
                Step::Away(_) if began.elapsed() < PATIENCE => {}
                Step::Away(nodes) => bail!(
                    "nothing is changed: {nodes} does not answer; start it first, or, if it is lost for good, let it leave with --gone"
                ),
                Step::Wait(what) if what != said => {
                    say_line(&what)?;
                    said = what;
                }
                Step::Wait(_) => {}
            }
            std::thread::sleep(POLL);
        }
    }
}

fn carry_out(how: &How, want: &Want, told: &str) -> anyhow::Result<bool> {
    let nodes = Nodes::of(&how.place)?;
    let layout = nodes.find()?.layout;
    let goal = change::planned(&layout, want, how.replicas).map_err(|why| anyhow!(why))?;
    nodes.check(&goal)?;
    say_plan(&goal, told)?;
    if how.plan {
        return Ok(true);
    }
    ensure!(
        how.yes || io::stdin().is_terminal(),
        "nothing is changed: say --yes to carry out this plan"
    );
    if !how.yes && !is_wanted()? {
        say_line("nothing is changed")?;
        return Ok(false);
    }
    nodes.drive(&goal, None)?;
    say_done(&goal.committed().unwrap_or(goal))?;
    Ok(true)
}

fn is_wanted() -> io::Result<bool> {
    print!("Go on? [y/N] ");
    io::stdout().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn see_to_it(place: &Place, back: Option<&[Box<str>]>) -> anyhow::Result<bool> {
    let nodes = Nodes::of(place)?;
    let Found {
        layout,
        left_behind,
    } = nodes.find()?;
    let Some(next) = &layout.next else {
        say_line(format_args!(
            "no change is under way: the cluster has {}",
            told(&layout)
        ))?;
        for node in left_behind {
            say_line(format_args!(
                "{node} is none of its nodes, and left from a change that did not come about: stop it, and empty its directory before it joins"
            ))?;
        }
        return Ok(true);
    };
    let epoch = next.placement.map.epoch();
    say_line(format_args!(
        "the change to epoch {epoch} {}",
        if back.is_some() {
            "is taken back"
        } else {
            "goes on"
        }
    ))?;
    nodes.drive(&layout, back)?;
    if back.is_none() {
        say_done(&layout.committed().unwrap_or(layout))?;
        return Ok(true);
    }
    // What it has come to is what the nodes say, and not what was wanted.
    let layout = nodes.find()?.layout;
    if let Some(next) = &layout.next {
        bail!(
            "the change to epoch {epoch} is taken back, and one to epoch {} is under way: `weir kv finish` goes on with that one, `weir kv abort` takes it back",
            next.placement.map.epoch()
        );
    }
    say_done(&layout)?;
    Ok(true)
}

/// What a cluster is, in a few words.
fn told(layout: &Layout) -> String {
    let (count, replicas) = (layout.now.map.nodes().len(), layout.now.replicas);
    let plural = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    format!(
        "{}, {} of a key, and the map of epoch {}",
        plural(count, "node"),
        plural(replicas, "replica"),
        layout.now.map.epoch()
    )
}

fn say_plan(goal: &Layout, what: &str) -> anyhow::Result<()> {
    let after = goal.committed().unwrap_or_else(|| goal.clone());
    say_line(format_args!("The cluster has {}.", told(goal)))?;
    say_line(format_args!("{what}: then it has {}.\n", told(&after)))?;
    let shares = change::shares(goal);
    let widths = shares.iter().map(|share| share.address.len());
    let width = widths.max().unwrap_or(0).max("NODE".len());
    say_line(format_args!(
        "{:width$}  {:>16}  {:>16}  {:>6}",
        "NODE", "FIRST OF", "REPLICA OF", "GETS"
    ))?;
    for share in &shares {
        let pair = |(before, after): (usize, usize)| format!("{before} -> {after}");
        say_line(format_args!(
            "{:width$}  {:>16}  {:>16}  {:>6}",
            share.address,
            pair(share.first_of),
            pair(share.replica_of),
            share.gains
        ))?;
    }
    say_line(format_args!(
        "\nThese are slots, of {}. A node copies the keys that it gets, at 16 MiB a second at most; until then, reads and writes go by both maps.",
        weir_kv::placement::SLOTS
    ))?;
    let next = goal.next.as_ref();
    if next.is_some_and(|next| !next.gone.is_empty()) {
        say_line(
            "What only the lost node has is lost. Should it come back, it is no longer heard: empty its directory.",
        )?;
    }
    Ok(())
}

fn say_done(layout: &Layout) -> anyhow::Result<()> {
    let nodes = layout.now.map.nodes().iter();
    let nodes: Vec<String> = nodes.map(|node| format!("{:?}", node.address)).collect();
    say_line(format_args!("done: the cluster has {}", told(layout)))?;
    say_line(format_args!(
        "say so in the config of each node, before it starts again: nodes = [{}]",
        nodes.join(", ")
    ))?;
    Ok(())
}
