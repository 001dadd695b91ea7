//! The fuzzer's checks, replayed on their committed corpora by a plain `cargo test`, and on random changes of these.

use std::path::Path;
use std::{fs, panic};

use bytes::BytesMut;
use fastrand::Rng;
use weir_kv::frame::Frame;

#[path = "../../../../fuzz/checks/kv_frame.rs"]
mod kv_frame;
#[path = "../../../../fuzz/checks/kv_map.rs"]
mod kv_map;

/// Checks each input, and changes of it.
fn replay(target: &str, least: usize, changes: u64, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut inputs = 0;
    for entry in fs::read_dir(corpus.join(target)).expect("the corpus is committed") {
        let path = entry.expect("the corpus can be read").path();
        let input = fs::read(&path).expect("the input can be read");
        let outcome = panic::catch_unwind(|| check(&input));
        assert!(outcome.is_ok(), "the input was {}", path.display());
        for seed in 0..changes {
            let changed = changed(&input, seed);
            let outcome = panic::catch_unwind(|| check(&changed));
            assert!(outcome.is_ok(), "{} by {seed}: {changed:?}", path.display());
        }
        inputs += 1;
    }
    assert!(inputs >= least, "{inputs} inputs");
}

/// A few bytes are other ones, too many, or missing.
fn changed(input: &[u8], seed: u64) -> Vec<u8> {
    let (mut rng, mut changed) = (Rng::with_seed(seed), input.to_vec());
    for _ in 0..rng.usize(1..4) {
        let at = rng.usize(..=changed.len());
        match rng.u8(..4) {
            0 => changed.insert(at, rng.u8(..)),
            1 => changed.truncate(at),
            _ => changed
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte ^= 1 << rng.u8(..8)),
        }
    }
    changed
}

#[test]
fn whatever_a_node_sends_is_a_frame_or_an_error() {
    replay("kv_frame", 60, 100, kv_frame::check);
}

/// Frames of another form are refused at once, and nothing is checked with them.
#[test]
fn the_corpus_has_frames_of_this_form() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/kv_frame");
    let inputs = fs::read_dir(corpus).expect("the corpus is committed");
    let is_one = |input: &Vec<u8>| {
        let mut bytes = BytesMut::from(input.get(1..).unwrap_or_default());
        matches!(Frame::decode(&mut bytes), Ok(Some(_)))
    };
    let inputs = inputs.map(|entry| {
        let path = entry.expect("the corpus can be read").path();
        fs::read(path).expect("the input can be read")
    });
    let count = inputs.filter(is_one).count();
    assert!(count >= 50, "{count} begin with a frame");
}

#[test]
fn whatever_a_node_tells_is_a_map_or_none() {
    replay("kv_map", 15, 20, kv_map::check);
}
