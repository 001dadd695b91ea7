//! The fuzzers' checks, replayed on their committed corpora by a plain `cargo test`.

use std::path::Path;
use std::{fs, panic};

#[path = "../../../../fuzz/checks/cache_control.rs"]
pub(crate) mod cache_control;
#[path = "../../../../fuzz/checks/range.rs"]
pub(crate) mod range;
#[path = "../../../../fuzz/checks/vary.rs"]
pub(crate) mod vary;

fn replay(target: &str, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut inputs = 0;
    for entry in fs::read_dir(&corpus).expect("the corpus is committed") {
        let path = entry.expect("the corpus can be read").path();
        let input = fs::read(&path).expect("the input can be read");
        let outcome = panic::catch_unwind(|| check(&input));
        assert!(
            outcome.is_ok(),
            "the input was {}: {}",
            path.display(),
            input.escape_ascii()
        );
        inputs += 1;
    }
    assert!(inputs >= 30, "{inputs} inputs");
}

#[test]
fn cache_controls() {
    replay("cache_control", cache_control::check);
}

#[test]
fn varies() {
    replay("vary", vary::check);
}

#[test]
fn ranges() {
    replay("range", range::check);
}
