//! The fuzzers' checks, replayed on their committed corpora by a plain `cargo test`.

use std::path::Path;
use std::{fs, panic};

#[path = "../../../../fuzz/checks/chunked_body.rs"]
pub(crate) mod chunked_body;
#[path = "../../../../fuzz/checks/lenient.rs"]
mod lenient;
#[path = "../../../../fuzz/checks/request_head.rs"]
pub(crate) mod request_head;
#[path = "../../../../fuzz/checks/response_head.rs"]
pub(crate) mod response_head;

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
fn request_heads() {
    replay("request_head", request_head::check);
}

#[test]
fn response_heads() {
    replay("response_head", response_head::check);
}

#[test]
fn chunked_bodies() {
    replay("chunked_body", chunked_body::check);
}
