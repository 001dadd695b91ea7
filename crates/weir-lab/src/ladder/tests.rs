use std::time::Duration;

use super::*;
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
            amount,
            quick: amount,
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
