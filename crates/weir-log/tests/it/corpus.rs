//! The fuzzer's check, replayed on its committed corpus by a plain `cargo test`, and on random changes.

use std::path::Path;
use std::{fs, panic};

use fastrand::Rng;

#[path = "../../../../fuzz/checks/log.rs"]
mod log;

#[test]
fn what_a_fuzzer_has_tried() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/log");
    let mut inputs = 0;
    for entry in fs::read_dir(&corpus).expect("the corpus is committed") {
        let path = entry.expect("the corpus can be read").path();
        let input = fs::read(&path).expect("the input can be read");
        let outcome = panic::catch_unwind(|| log::check(&input));
        assert!(outcome.is_ok(), "the input was {}", path.display());
        inputs += 1;
    }
    assert!(inputs >= 30, "{inputs} inputs");
}

/// A few bytes of a few files, as no crash would change them.
#[test]
fn random_changes() {
    for seed in 0..3000 {
        let mut rng = Rng::with_seed(seed);
        let lengths = rng.usize(1..20);
        let mut input = vec![0];
        input.extend((0..lengths).map(|_| rng.u8(1..)));
        input.push(0);
        for _ in 0..rng.usize(1..4) {
            let how = if rng.u8(..5) == 0 { 0 } else { rng.u8(..) };
            input.extend([rng.u8(..), rng.u8(..), rng.u8(..8), how]);
        }
        let outcome = panic::catch_unwind(|| log::check(&input));
        assert!(outcome.is_ok(), "seed {seed}: {input:?}");
    }
}
