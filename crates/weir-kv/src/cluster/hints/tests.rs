use tokio::time::Instant;

use super::*;
use crate::cluster::Shared;
use crate::engine::lsm::{Lsm, LsmSettings};
use crate::engine::{Durability, Engine};
use crate::layout::Layout;
use crate::placement::Map;
use crate::version::Version;

const LONG: Duration = Duration::from_secs(60);

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "in vain waited until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Hints for a node, which is this one itself, so that it can be asked without another.
struct Tried {
    path: PathBuf,
    is_up: Arc<AtomicBool>,
    hints: Hints,
    kept: u64,
}

impl Tried {
    fn new() -> Self {
        let random = fastrand::Rng::new().u64(..);
        let path = std::env::temp_dir().join(format!("weir-kv-hints-{random:x}"));
        let engine = Lsm::open(&LsmSettings {
            path: path.join("data"),
            durability: Durability::Memory,
            memory_bytes: 1 << 20,
        });
        let map = Map::new(&["alone"]).expect("a map");
        let layout = Layout::first(map, 1);
        let engine: Arc<dyn Engine> = engine.expect("it opens");
        let shared = Arc::new(Shared::new(engine, "alone", layout));
        let is_up: Arc<AtomicBool> = Arc::default();
        let whom = (shared.me(), Arc::clone(&is_up));
        let calls = Calls::alone(&shared);
        let hints = Hints::open(&path.join("hints"), whom, calls, LONG);
        Self {
            path,
            is_up,
            hints: hints.expect("they open"),
            kept: 0,
        }
    }

    fn count(&self, which: impl Fn(&Counts) -> &AtomicU64) -> u64 {
        which(&self.hints.counts()).load(Ordering::Relaxed)
    }

    /// Keeps some while the node is away.
    fn keep(&mut self, count: u64) {
        self.is_up.store(false, Ordering::Release);
        let before = self.count(|counts| &counts.waiting);
        for _ in 0..count {
            self.kept += 1;
            let cell = Cell {
                version: Version {
                    time: self.kept,
                    node: 9,
                    run: 1,
                },
                expires_ms: None,
                value: Some(Bytes::from_static(b"value")),
            };
            let key = Bytes::from(format!("key{}", self.kept));
            self.hints.keeper().keep(key, cell);
        }
        wait_until("they are on the disk", || {
            self.count(|counts| &counts.waiting) == before + count
        });
    }

    /// The node is back: so many more are taken, and none waits.
    fn send(&self, count: u64) {
        let before = self.count(|counts| &counts.taken);
        self.is_up.store(true, Ordering::Release);
        wait_until("none waits", || self.count(|counts| &counts.waiting) == 0);
        assert_eq!(self.count(|counts| &counts.taken), before + count);
    }
}

impl Drop for Tried {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[test]
fn hints_are_kept_and_sent_also_after_those_before_were_taken_away() {
    let mut tried = Tried::new();
    tried.keep(10);
    // All of it, while some wait that nobody has read yet.
    fs::remove_dir_all(tried.path.join("hints")).expect("it is there");
    tried.is_up.store(true, Ordering::Release);
    wait_until("they are left out", || {
        tried.count(|counts| &counts.left_out) == 10
    });
    wait_until("none waits", || tried.count(|counts| &counts.waiting) == 0);
    tried.keep(20);
    tried.send(20);
    // While none waits: those that come are seen to be written where nobody finds them.
    fs::remove_dir_all(tried.path.join("hints")).expect("it is there");
    tried.keep(30);
    tried.send(30);
    assert_eq!(tried.count(|counts| &counts.left_out), 10);
}
