//! weir in front of a service that already runs, one step at a time: what each step gains, and the config to keep.
//!
//! The rungs are a [`Scenario`] like any other, so they are measured and reported alike. The service itself only
//! receives requests; it is never started, stopped or limited.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fastrand::Rng;
use weir_load::plan::Address;

use crate::blocks::{self, Ends, FAILED_APART_MAX};
use crate::raw::Run;
use crate::scenario::{Configuration, Effort, Kind, Load, Scenario};
use crate::statistics::{self, Bars, Comparison, PAIRS_MIN, RATE, Verdict};

const SERVICE: &str = "service";
const DIRECT: &str = "direct";
/// Where the config that is kept listens.
const LISTEN: &str = "127.0.0.1:8080";
/// A fixed seed: the same raw data gives the same words.
const SEED: u64 = 1;

/// What a ladder is made for.
#[derive(Debug, Clone)]
pub struct Ladder {
    /// The replicas of the service, at least one; the first one is asked directly too.
    pub replicas: Vec<Replica>,
    /// What is asked.
    pub load: Load,
    /// Whether answers may be cached, as far as the service allows it.
    pub may_cache: bool,
    /// How much is measured.
    pub effort: Effort,
}

/// A replica of a service.
#[derive(Debug, Clone)]
pub struct Replica {
    /// Where it listens.
    pub address: Address,
    /// The `Host` of requests to it.
    pub authority: String,
    /// Its entry in `servers` of a config.
    pub server: String,
}

/// What a rung gains over the one below.
#[derive(Debug, Clone)]
pub struct Step {
    /// The rung.
    pub name: String,
    /// The rung below.
    pub below: String,
    /// Its rate against the rung below; `None` when there is too little to compare.
    pub comparison: Option<Comparison>,
    /// In how many rounds both blocks were valid.
    pub rounds: usize,
    /// How requests ended on the rung below and on this one.
    pub ends: [Ends; 2],
    /// Whether the rung is worth keeping: it was measured, does not fail more, and was not shown to be slower.
    pub is_kept: bool,
}

/// A rung through weir: its name and its config without the listener.
struct Rung {
    name: String,
    config: String,
    /// How many of the replicas it asks.
    replicas: usize,
    needs: Option<String>,
}

impl Ladder {
    /// The rungs as a scenario.
    pub fn scenario(&self) -> Scenario {
        let first = &self.replicas[0];
        let replicas = self.replicas.iter().enumerate().map(|(index, replica)| {
            let running = Kind::Running {
                address: replica.address.clone(),
                authority: replica.authority.clone(),
            };
            (replica_name(index), running)
        });
        let mut services: BTreeMap<String, Kind> = replicas.collect();
        let mut configurations = vec![configuration(DIRECT, 1, None, None)];
        for (index, rung) in self.rungs().into_iter().enumerate() {
            let name = format!("weir-{}", index + 1);
            let config = with_listener("127.0.0.1:{port}", &rung.config);
            services.insert(name.clone(), Kind::Weir { config });
            configurations.push(configuration(
                &rung.name,
                rung.replicas,
                Some(&name),
                rung.needs,
            ));
        }
        let mut load = self.load.clone();
        if !load
            .headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("host"))
        {
            // weir passes it on, so the service sees the same as without weir.
            load.headers
                .push(("Host".to_owned(), first.authority.clone()));
        }
        Scenario {
            name: "ladder".to_owned(),
            title: format!("weir in front of {}, step by step", first.authority),
            about: "What each step gives over the one below it.".to_owned(),
            source: String::new(),
            services,
            configurations,
            baseline: DIRECT.to_owned(),
            loads: vec![load],
            capacity: None,
            events: None,
            generator_cpus: 0,
            columns: Vec::new(),
            effort: self.effort,
            quick: self.effort,
            published: Vec::new(),
        }
    }

    fn rungs(&self) -> Vec<Rung> {
        let one = upstream(&self.replicas[..1], "");
        let mut rungs = vec![
            Rung {
                name: "weir, a connection for each request".to_owned(),
                config: upstream(&self.replicas[..1], "idle_connections = 0\n") + &route(""),
                replicas: 1,
                needs: None,
            },
            Rung {
                name: "+ keep-alive".to_owned(),
                config: one.clone() + &route(""),
                replicas: 1,
                needs: None,
            },
        ];
        let mut servers = one;
        if self.replicas.len() > 1 {
            servers = upstream(&self.replicas, "balance = \"p2c\"\n");
            rungs.push(Rung {
                name: format!("+ balance over {}", self.replicas.len()),
                config: servers.clone() + &route(""),
                replicas: self.replicas.len(),
                needs: None,
            });
        }
        if self.may_cache {
            rungs.push(Rung {
                name: "+ cache".to_owned(),
                config: servers + &route("cache = true\n"),
                replicas: self.replicas.len(),
                needs: Some("cache".to_owned()),
            });
        }
        rungs
    }

    /// The rung to keep, against the service alone: the highest that is no worse than the one kept below it. `None` when
    /// there is none, because too little was measured or weir failed more than the service.
    pub fn to_keep(&self, run: &Run) -> Option<Step> {
        let mut kept: Option<String> = None;
        for Rung { name, .. } in self.rungs() {
            let below = kept.as_deref().unwrap_or(DIRECT);
            if step(run, [below, &name], &mut Rng::with_seed(SEED)).is_kept {
                kept = Some(name);
            }
        }
        kept.map(|name| step(run, [DIRECT, &name], &mut Rng::with_seed(SEED)))
    }

    /// The config of the rung `name`, below a comment of `findings`.
    pub fn config_of(&self, name: &str, findings: &[String]) -> String {
        let mut text = String::from("# Made by `weir lab ladder`. What each step gave:\n");
        for finding in findings {
            let _ = writeln!(text, "#   {finding}");
        }
        text.push('\n');
        let rung = self.rungs().into_iter().find(|rung| rung.name == name);
        text + &with_listener(LISTEN, &rung.expect("it is one of the rungs").config)
    }
}

impl Step {
    /// The step as one sentence without its full stop.
    pub fn in_words(&self) -> String {
        let Self {
            name,
            below,
            rounds,
            ..
        } = self;
        let found = match &self.comparison {
            Some(comparison) => comparison.in_words([below, name], RATE),
            None => format!(
                "{name}: nothing can be said against {below}: rounds valid in both {rounds}, needed {PAIRS_MIN}"
            ),
        };
        let [of_below, of_rung] = self.ends.each_ref();
        if of_below.failed.is_empty() && of_rung.failed.is_empty() {
            return found;
        }
        format!(
            "{found}; of its requests, {}, of those to {below}, {}",
            of_rung.in_words(),
            of_below.in_words()
        )
    }
}

/// What each rung of `run` gained over the one below.
pub fn steps(run: &Run) -> Vec<Step> {
    let mut rng = Rng::with_seed(SEED);
    let pairs = run.configurations.windows(2);
    pairs
        .map(|pair| step(run, [&pair[0].name, &pair[1].name], &mut rng))
        .collect()
}

fn step(run: &Run, [below, name]: [&str; 2], rng: &mut Rng) -> Step {
    let load = &run.loads[0].name;
    let pairs = blocks::pairs_of_rates(&run.blocks, load, [below, name]);
    let ends = |name| Ends::of(blocks::counted(&run.blocks, name, load).0);
    let comparison = statistics::compare(&pairs, Bars::USUAL, rng);
    // The cost of a hop is no reason to go without it. Neither is a comparison that cannot tell: the rung was asked for.
    let is_no_slower = comparison.is_some_and(|it| {
        below == DIRECT || it.verdict != Verdict::Different || it.ratio.estimate > 1.0
    });
    let ends = [ends(below), ends(name)];
    let [of_below, of_rung] = ends.each_ref().map(Ends::failed_share);
    Step {
        name: name.to_owned(),
        below: below.to_owned(),
        comparison,
        rounds: pairs.len(),
        ends,
        is_kept: is_no_slower && of_rung <= of_below + FAILED_APART_MAX,
    }
}

/// The name of a replica among the services.
fn replica_name(index: usize) -> String {
    match index {
        0 => SERVICE.to_owned(),
        _ => format!("{SERVICE}-{}", index + 1),
    }
}

/// A rung through `weir`, if there is one, to the first `replicas` of the service. All of them are its services, so that
/// its CPU time is theirs as well.
fn configuration(
    name: &str,
    replicas: usize,
    weir: Option<&str>,
    needs: Option<String>,
) -> Configuration {
    let mut services: Vec<String> = (0..replicas).map(replica_name).collect();
    services.extend(weir.map(str::to_owned));
    Configuration {
        name: name.to_owned(),
        group: String::new(),
        services,
        entry: weir.unwrap_or(SERVICE).to_owned(),
        cpu_share: BTreeMap::new(),
        flags: BTreeMap::new(),
        notes: BTreeMap::new(),
        with: BTreeMap::new(),
        needs,
        is_led: false,
    }
}

fn with_listener(address: &str, config: &str) -> String {
    format!("[[listener]]\naddress = \"{address}\"\n\n{config}")
}

fn upstream(replicas: &[Replica], more: &str) -> String {
    let servers: Vec<String> = replicas
        .iter()
        .map(|replica| format!("{:?}", replica.server))
        .collect();
    format!(
        "[upstream.service]\nservers = [{}]\n{more}\n",
        servers.join(", ")
    )
}

fn route(more: &str) -> String {
    format!("[[route]]\npath = \"/{{*rest}}\"\nupstream = \"service\"\n{more}")
}

#[cfg(test)]
mod tests;
