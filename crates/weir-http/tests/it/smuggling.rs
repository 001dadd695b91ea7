//! The request smuggling corpus, replayed on the parsing code alone. The tests of the binary replay it over sockets.

use std::collections::HashSet;
use std::path::Path;

use weir_http::Reject;

use crate::reader::{self, End, Verdict};
use case::{Case, Expect};

#[path = "../../../../tests/smuggling/case.rs"]
mod case;

fn corpus() -> Vec<Case> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/smuggling");
    case::read_all(&corpus)
}

/// The verdict in the words of the corpus.
fn in_words(verdict: &Verdict) -> Expect {
    Expect {
        forwarded: verdict.forwarded.len(),
        refused: match verdict.end {
            End::Refused(reject) => Some((reject.status(), reject.name().to_owned())),
            End::BetweenRequests | End::Closed | End::Inside => None,
        },
    }
}

#[test]
fn every_case_gets_its_verdict_however_its_bytes_arrive() {
    let mut wrong = Vec::new();
    for case in corpus() {
        for step in [case.input.len(), 1, 2, 3, 7, 1000] {
            let verdict = reader::read(&case.input, step);
            if in_words(&verdict) != case.expect || verdict.end == End::Inside {
                wrong.push(format!(
                    "{} in pieces of {step}: {:?}, but {verdict:?}\n    {}",
                    case.name, case.expect, case.reason
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn nothing_is_smuggled() {
    for case in corpus() {
        let verdict = reader::read(&case.input, case.input.len());
        let smuggled = verdict.forwarded.iter().find(|t| t.contains("smuggled"));
        assert_eq!(smuggled, None, "{}", case.name);
    }
}

/// What the README of the corpus promises of it.
#[test]
fn the_corpus_covers_every_reason_to_refuse_a_request() {
    let corpus = corpus();
    assert!(corpus.len() >= 80, "{} cases", corpus.len());
    let is_control = |case: &&Case| case.expect.refused.is_none();
    assert!(corpus.iter().filter(is_control).count() >= 15);
    let refused: HashSet<_> = corpus
        .iter()
        .filter_map(|case| case.expect.refused.as_ref())
        .map(|(_, reason)| reason.as_str())
        .collect();
    // The first two are said of responses only, the third of lines in which nothing more precise is wrong.
    let elsewhere = [
        Reject::StatusLine,
        Reject::UnaskedUpgrade,
        Reject::FieldValue,
    ];
    for reject in Reject::ALL {
        let is_covered = refused.contains(reject.name()) || elsewhere.contains(&reject);
        assert!(is_covered, "no case is refused as {reject}");
    }
}
