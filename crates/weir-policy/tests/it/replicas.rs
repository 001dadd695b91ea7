//! One of three replicas goes bad and gets well again, under load: how soon it is out, what it costs until then and
//! after, and how soon it is back. Simulated from seeds.

use crate::overload::start;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;
use weir_policy::Outcome;
use weir_policy::ejection::{Ejection, Place, Settings, Token};

/// How the first replica behaves while it is bad.
#[derive(Debug, Clone, Copy)]
enum Illness {
    AnswersFailures,
    TakesTwoSeconds,
    /// Requests to it time out after ten seconds.
    Hangs,
}

const ILL_FROM: Duration = Duration::from_secs(10);
const ILL_TO: Duration = Duration::from_secs(130);
const END: Duration = Duration::from_secs(160);
const GOOD: Duration = Duration::from_millis(20);

/// What came of one history.
struct Report {
    /// From the beginning of the illness to the first ejection.
    detected_after: Duration,
    /// The share of requests sent between then and the end of the illness that failed or took longer than a second.
    bad_share: f64,
    /// From the end of the illness until the replica has its full share again.
    back_after: Duration,
}

fn play(illness: Illness, per_s: f64, seed: u64) -> Report {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut ejection = Ejection::new(Settings::default(), 3, start());
    // (when it ends, number, how it ends), and the tokens by number
    let mut open: BinaryHeap<Reverse<(Duration, usize, bool)>> = BinaryHeap::new();
    let mut tokens: Vec<Option<(Token, Duration)>> = Vec::new();
    let (mut detected, mut back) = (None, None);
    let (mut bad, mut sent) = (0.0, 0.0);
    let mut turn = 0;
    let mut now = Duration::ZERO;
    while now < END {
        now += Duration::from_secs_f64(-(1.0 - random.f64()).ln() / per_s);
        while let Some(&Reverse((at, number, is_good))) = open.peek()
            && at <= now
        {
            open.pop();
            let (token, sent_at) = tokens[number].take().expect("it ends once");
            let outcome = if is_good {
                Outcome::Success(at.saturating_sub(sent_at))
            } else {
                Outcome::Failure(at.saturating_sub(sent_at))
            };
            ejection.finish(start() + at, token, outcome, &mut random);
        }
        let draw = random.f64();
        let turns = (turn..turn + 3).map(|turn| turn % 3);
        let endpoint = turns
            .into_iter()
            .find(|&endpoint| ejection.admits(endpoint, start() + now, draw))
            .expect("two stay");
        turn = endpoint + 1;
        let is_ill = endpoint == 0 && (ILL_FROM..ILL_TO).contains(&now);
        let (takes, is_good) = match illness {
            _ if !is_ill => (GOOD, true),
            Illness::AnswersFailures => (GOOD, false),
            Illness::TakesTwoSeconds => (Duration::from_secs(2), true),
            Illness::Hangs => (Duration::from_secs(10), false),
        };
        let token = ejection.start(endpoint, random.u64(..), start() + now, &mut random);
        open.push(Reverse((now + takes, tokens.len(), is_good)));
        tokens.push(Some((token, now)));

        let place = ejection.status(0, start() + now).place;
        assert!(now >= ILL_FROM || place == Place::In, "it was well");
        if matches!(place, Place::Out(_)) && detected.is_none() {
            detected = Some(now.saturating_sub(ILL_FROM));
        } else if detected.is_some() && now < ILL_TO {
            sent += 1.0;
            bad += f64::from(u8::from(is_ill));
        }
        if now >= ILL_TO && place == Place::In && back.is_none() {
            back = Some(now.saturating_sub(ILL_TO));
        }
    }
    Report {
        detected_after: detected.expect("it was ejected"),
        bad_share: bad / sent,
        back_after: back.expect("it came back"),
    }
}

#[test]
fn one_of_three_goes_bad_and_gets_well() {
    for illness in [
        Illness::AnswersFailures,
        Illness::TakesTwoSeconds,
        Illness::Hangs,
    ] {
        for (per_s, bad_share_max) in [(100.0, 0.001), (1_000.0, 0.0001)] {
            let reports: Vec<Report> = (1..=5).map(|seed| play(illness, per_s, seed)).collect();
            let slowest = |time: fn(&Report) -> Duration| reports.iter().map(time).max();
            let detected = slowest(|report| report.detected_after).expect("there are reports");
            let back = slowest(|report| report.back_after).expect("there are reports");
            let bad_share = reports
                .iter()
                .map(|report| report.bad_share)
                .fold(0.0, f64::max);
            let line = format!(
                "{illness:?} at {per_s}/s, worst of 5 seeds: out after {detected:?}, then {:.4} % bad, back after {back:?}",
                bad_share * 100.0
            );
            println!("{line}");
            assert!(detected <= Duration::from_secs(1), "{line}");
            assert!(bad_share <= bad_share_max, "{line}");
            assert!(back <= Duration::from_secs(15), "{line}");
        }
    }
}
