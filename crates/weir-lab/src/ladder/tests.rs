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
fn the_highest_rung_that_is_not_slower_is_kept() {
    let step = |name: &str, is_kept| Step {
        name: name.to_owned(),
        below: "x".to_owned(),
        comparison: None,
        rounds: 0,
        ends: [Ends::default(), Ends::default()],
        is_kept,
    };
    let ladder = ladder(2);
    let kept =
        ladder.config_to_keep(&[step("+ keep-alive", true), step("+ balance over 2", false)]);
    assert!(kept.contains("servers = [\"127.0.0.1:3000\"]\n"), "{kept}");
    assert!(kept.contains("address = \"127.0.0.1:8080\"\n"), "{kept}");
    let kept = ladder.config_to_keep(&[step("+ keep-alive", true), step("+ balance over 2", true)]);
    assert!(
        kept.contains("servers = [\"127.0.0.1:3000\", \"127.0.0.1:3001\"]\nbalance = \"p2c\"\n"),
        "{kept}"
    );
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

/// A step is compared with the one below; whether weir is worth its hop is seen against the service alone.
#[test]
fn the_rung_that_is_kept_is_compared_with_the_service_alone() {
    let ladder = ladder(1);
    let mut run = run(measured());
    assert!(ladder.in_all(&run, &steps(&run)).is_none(), "the only step");

    let mut between = run.configurations[0].clone();
    between.name = "weir, a connection for each request".to_owned();
    run.configurations.insert(1, between);
    let slow = measured()
        .into_iter()
        .filter(|block| block.configuration == DIRECT);
    let slow: Vec<Block> = slow
        .map(|block| Block {
            configuration: run.configurations[1].name.clone(),
            rate: block.rate / 2.0,
            ..block
        })
        .collect();
    run.blocks.extend(slow);
    let in_all = ladder.in_all(&run, &steps(&run)).expect("two steps");
    assert_eq!([&in_all.below, &in_all.name], [DIRECT, "+ keep-alive"]);
    let ratio = in_all.comparison.expect("four rounds").ratio.estimate;
    assert!((ratio - 1.1).abs() < 0.01, "{ratio}");
}
