use std::sync::mpsc;

use super::*;
use crate::cluster::Shared;
use crate::engine::lsm::{Lsm, LsmSettings};
use crate::engine::{Durability, Engine};
use crate::layout::Layout;
use crate::placement::Map;
use crate::version::Version;

fn write(engine: &dyn Engine, key: &'static str, cell: Cell) {
    let (sender, written) = mpsc::channel();
    let then = move |_| {
        let _ = sender.send(());
        None
    };
    engine.write(
        Bytes::from_static(key.as_bytes()),
        cell,
        None,
        Box::new(then),
    );
    written.recv().expect("it is written");
}

#[test]
fn a_node_alone_forgets_what_is_deleted_for_long_enough() {
    let random = fastrand::Rng::new().u64(..);
    let path = std::env::temp_dir().join(format!("weir-kv-repair-{random:x}"));
    let engine = Lsm::open(&LsmSettings {
        path: path.clone(),
        durability: Durability::Memory,
        memory_bytes: 1 << 20,
    });
    let engine = engine.expect("it opens");
    let at = |unix_ms: u64| Version {
        time: unix_ms << 16,
        node: 1,
        run: 1,
    };
    let now_ms = unix_ms();
    let cell = |version, expires_ms, value: Option<&'static str>| Cell {
        version,
        expires_ms,
        value: value.map(|value| Bytes::from_static(value.as_bytes())),
    };
    write(&*engine, "deleted", cell(at(1), None, None));
    write(
        &*engine,
        "deleted lately",
        cell(at(now_ms - 60_000), None, None),
    );
    write(&*engine, "expired", cell(at(1), Some(2), Some("v")));
    write(
        &*engine,
        "expires",
        cell(at(1), Some(now_ms + 60_000), Some("v")),
    );
    write(&*engine, "live", cell(at(1), None, Some("v")));
    let map = Map::new(&["alone"]).expect("a map");
    let shared = Arc::new(Shared::new(engine, "alone", Layout::first(map, 1)));
    let (told, has_ended) = (Mutex::default(), AtomicBool::new(false));
    let calls = Calls::alone(&shared);
    let run = Run {
        calls: &calls,
        kept: Duration::from_secs(3600),
        told: &told,
        has_ended: &has_ended,
    };
    run.begin();
    run.run();
    assert_eq!(run.told.lock().expect("no panic").forgotten, 2);
    let span = Span {
        from: Bytes::new(),
        to: None,
    };
    let Ok(Say::Page(page)) = calls.ask(shared.me(), Say::Scan(false, span)) else {
        panic!("it has a page");
    };
    let keys: Vec<_> = page.entries.iter().map(|(key, _)| &key[..]).collect();
    assert_eq!(keys, [&b"deleted lately"[..], b"expires", b"live"]);
    let _ = std::fs::remove_dir_all(path);
}
