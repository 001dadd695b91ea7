use std::time::Duration;

use super::*;
use crate::blocks::tests::{block, invalid, with_ends};
use crate::raw::{Block, Machine};
use crate::scenario::Amount;

fn ladder(replicas: usize) -> Ladder {
    let replica = |number: usize| Replica {
        address: Address::Tcp(([127, 0, 0, 1], 3000 + number as u16).into()),
        authority: format!("127.0.0.1:{}", 3000 + number),
        server: format!("127.0.0.1:{}", 3000 + number),
    };
    let amount = Amount::Time(Duration::from_secs(1));
    Ladder {
        replicas: (0..replicas).map(replica).collect(),
        load: Load {
            name: "/".to_owned(),
            notes: BTreeMap::new(),
            method: "GET".to_owned(),
            path: "/".to_owned(),
            headers: Vec::new(),
            body: String::new(),
            connections: 1,
            threads: 1,
            keep_alive: true,
            rate: None,
            arrivals: crate::scenario::Arrivals::Even,
            with: BTreeMap::new(),
            timeout: Load::TIMEOUT_DEFAULT,
            amount,
            quick: amount,
            fault: None,
            keys: None,
            beside: None,
        },
        may_cache: true,
        effort: Effort {
            rounds: 2,
            warm_up: Duration::ZERO,
        },
    }
}

#[test]
fn rungs_follow_from_what_there_is() {
    let names = |ladder: &Ladder| -> Vec<String> {
        let scenario = ladder.scenario();
        assert_eq!(scenario.validate(), []);
        scenario
            .configurations
            .into_iter()
            .map(|configuration| configuration.name)
            .collect()
    };
    let plain = [
        "direct",
        "weir, a connection for each request",
        "+ keep-alive",
    ];
    assert_eq!(names(&ladder(1)), [&plain[..], &["+ cache"]].concat());
    assert_eq!(
        names(&ladder(3)),
        [&plain[..], &["+ balance over 3", "+ cache"]].concat()
    );
    let without_cache = Ladder {
        may_cache: false,
        ..ladder(1)
    };
    assert_eq!(names(&without_cache), plain);
}

#[test]
fn the_config_to_keep_is_that_of_the_rung() {
    let ladder = ladder(2);
    let kept = ladder.config_of("+ keep-alive", &["it is faster".to_owned()]);
    assert!(kept.contains("servers = [\"127.0.0.1:3000\"]\n"), "{kept}");
    assert!(kept.contains("address = \"127.0.0.1:8080\"\n"), "{kept}");
    assert!(kept.contains("\n#   it is faster\n"), "{kept}");
    let kept = ladder.config_of("+ balance over 2", &[]);
    assert!(
        kept.contains("servers = [\"127.0.0.1:3000\", \"127.0.0.1:3001\"]\nbalance = \"p2c\"\n"),
        "{kept}"
    );
}

/// Each rung is judged against the highest that is kept below it, and the first against the service.
#[test]
fn the_highest_rung_that_is_no_worse_is_kept() {
    const NEW: &str = "weir, a connection for each request";
    const ALIVE: &str = "+ keep-alive";
    const BALANCED: &str = "+ balance over 2";
    let rung = |name: &str, rate: f64, failed: u64| {
        let name = name.to_owned();
        (0..4).map(move |round| {
            let block = Block {
                rate: rate * (1.0 + 0.001 * round as f64),
                ..block(&name, round)
            };
            with_ends(block, &[("2xx", 1_000 - failed), ("5xx", failed)])
        })
    };
    let kept = |rungs: &[(&str, f64, u64)]| {
        let blocks = rungs.iter();
        let blocks = blocks.flat_map(|(name, rate, failed)| rung(name, *rate, *failed));
        ladder(2).to_keep(&run(blocks.collect())).map(|it| it.name)
    };
    let direct = (DIRECT, 100.0, 0);
    assert_eq!(kept(&[]), None, "nothing was measured");
    assert_eq!(kept(&[direct]), None, "weir was not");
    for (rungs, expected) in [
        // A hop costs something.
        (&[direct, (NEW, 50.0, 0)][..], Some(NEW)),
        (&[direct, (NEW, 50.0, 0), (ALIVE, 80.0, 0)], Some(ALIVE)),
        // What fails is not kept, and what is above it is judged without it.
        (&[direct, (NEW, 500.0, 300)], None),
        (&[direct, (NEW, 500.0, 300), (ALIVE, 80.0, 0)], Some(ALIVE)),
        (
            &[
                direct,
                (ALIVE, 80.0, 0),
                (BALANCED, 60.0, 0),
                ("+ cache", 70.0, 0),
            ],
            Some(ALIVE),
        ),
        (
            &[
                direct,
                (ALIVE, 80.0, 0),
                (BALANCED, 60.0, 0),
                ("+ cache", 90.0, 0),
            ],
            Some("+ cache"),
        ),
        // A service that fails by itself is no reason against weir.
        (&[(DIRECT, 100.0, 300), (ALIVE, 80.0, 300)], Some(ALIVE)),
    ] {
        assert_eq!(kept(rungs).as_deref(), expected, "{rungs:?}");
    }
}

/// Four rounds of two rungs; the upper one answers a tenth more.
fn measured() -> Vec<Block> {
    let rung = |name: &str, round: usize, rate: f64| {
        let block = Block {
            rate: rate * (1.0 + 0.001 * round as f64),
            ..block(name, round)
        };
        with_ends(block, &[("2xx", 1_000)])
    };
    (0..4)
        .flat_map(|round| {
            [
                rung(DIRECT, round, 100.0),
                rung("+ keep-alive", round, 110.0),
            ]
        })
        .collect()
}

fn run(blocks: Vec<Block>) -> Run {
    let scenario = ladder(1).scenario();
    let configuration = |name: &str| crate::raw::Configuration {
        name: name.to_owned(),
        group: String::new(),
        notes: BTreeMap::new(),
        entry: String::new(),
        services: Vec::new(),
    };
    let mut load = scenario.loads[0].raw(false);
    load.name = "page".to_owned();
    Run {
        format: crate::raw::FORMAT,
        scenario: scenario.name,
        title: String::new(),
        about: String::new(),
        source: String::new(),
        started: String::new(),
        seconds: 0.0,
        is_quick: false,
        is_interrupted: false,
        failure: None,
        command: String::new(),
        rounds: 4,
        baseline: DIRECT.to_owned(),
        capacity: None,
        generator_cpus: None,
        columns: Vec::new(),
        machine: Machine {
            processor: String::new(),
            cpus: 1,
            memory_bytes: 0,
            system: String::new(),
            cpu_shares: String::new(),
            open_files: 0,
        },
        programs: Vec::new(),
        configurations: [DIRECT, "+ keep-alive"].map(configuration).into(),
        left_out: Vec::new(),
        loads: vec![load],
        blocks,
        published: Vec::new(),
    }
}

#[test]
fn rounds_with_a_block_that_is_not_valid_do_not_count() {
    let mut blocks = measured();
    // If it counted, the rung would be called slower and would not be kept.
    blocks[3].rate = 1e-9;
    blocks[3] = invalid(blocks[3].clone(), "The generator was the bottleneck.");
    let steps_with_one = steps(&run(blocks.clone()));
    let comparison = steps_with_one[0]
        .comparison
        .expect("three rounds are enough");
    assert_eq!(
        (comparison.pairs, comparison.verdict),
        (3, Verdict::Different)
    );
    assert!(steps_with_one[0].is_kept);

    for place in [0, 5] {
        blocks[place].is_valid = false;
    }
    let words = steps(&run(blocks))[0].in_words();
    assert_eq!(
        words,
        "+ keep-alive: nothing can be said against direct: rounds valid in both 1, needed 2"
    );
}

#[test]
fn failures_stand_beside_gains() {
    let mut blocks = measured();
    for block in blocks.iter_mut().skip(1).step_by(2) {
        *block = with_ends(block.clone(), &[("2xx", 700), ("5xx", 300)]);
    }
    let words = steps(&run(blocks))[0].in_words();
    assert!(
        words.starts_with("+ keep-alive is 10 % faster than direct, ")
            && words.ends_with(
                "of its requests, 30 % failed (1200 5xx), of those to direct, none failed"
            ),
        "{words}"
    );
}
