//! Changes by requests, while the disk has not processed them yet.

use super::*;
use crate::store::purge::Sweep;

/// Makes all disk threads wait until the returned value is dropped.
fn stop_threads(store: &DiskStore) -> std::sync::mpsc::Sender<()> {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (stopped, stops) = std::sync::mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    for _ in 0..store.shared.volume.config.threads {
        let (wait, stopped) = (Arc::clone(&wait), stopped.clone());
        let job: Job = Box::new(move |_| {
            stopped.send(()).unwrap();
            _ = lock(&wait).recv();
        });
        store.shared.jobs.push_always(job).unwrap();
        stops.recv().unwrap();
    }
    go
}

#[test]
fn a_change_is_not_found_before_the_disk_has_processed_it() {
    let directory = Directory::new("changed");
    let (store, purges) = open(&directory.0, 64 << 20);
    for key in ["u", "u\nheader a:1", "v", "w"] {
        put(&store, key.as_bytes(), purges.ticket(), &body(100, 1)).unwrap();
    }
    let go = stop_threads(&store);
    let end = |scope: PurgeScope, kind| {
        let sweep = Sweep::begin(&purges, &scope, kind);
        sweep.swept_memory();
        store.end(scope, kind, sweep)
    };
    let url = || PurgeScope::FirstLine((*b"u").into());
    let ended: Vec<_> = (0..3).map(|_| end(url(), PurgeKind::Hard)).collect();
    let marked = end(PurgeScope::Key((*b"v").into()), PurgeKind::Soft);
    let stale = |key: &str| {
        let found = store.find(key.as_bytes());
        found.first().map(|stored| stored.is_stale)
    };
    let found = || ["u", "u\nheader a:1", "v", "w"].map(stale);
    assert_eq!(found(), [None, None, Some(true), Some(false)]);
    // It is asked for before the sweep, and may be answered before or after it.
    let opened = store.open_object(b"v", b"");
    assert_eq!(directory.files().len(), 4, "the disk waits");
    assert!(purges.settled_on_disk() < purges.ticket());
    drop(go);
    for answer in ended.into_iter().chain([marked]) {
        answer.wait().unwrap();
    }
    assert!(opened.wait().unwrap().is_marked_stale());
    assert_eq!(found(), [None, None, Some(true), Some(false)]);
    assert_eq!(directory.files().len(), 2);
    wait_until_settled(&purges);
    put(&store, b"u", purges.settled_on_disk(), &body(100, 2)).unwrap();
    assert_eq!(found(), [Some(false), None, Some(true), Some(false)]);
}

/// A sweep ends a moment after its answer.
fn wait_until_settled(purges: &Purges) {
    while purges.settled_on_disk() != purges.ticket() {
        std::thread::yield_now();
    }
}

#[test]
fn one_scope_waits_for_one_sweep_and_has_a_bounded_number_of_answers() {
    let directory = Directory::new("waiting");
    let (store, purges) = open(&directory.0, 64 << 20);
    let go = stop_threads(&store);
    let scope = PurgeScope::FirstLine((*b"u").into());
    let answers: Vec<_> = (0..100)
        .map(|_| {
            let sweep = Sweep::begin(&purges, &scope, PurgeKind::Hard);
            store.end(scope.clone(), PurgeKind::Hard, sweep)
        })
        .collect();
    drop(go);
    let answered = answers.into_iter().map(Answer::wait);
    let answered = answered.flatten().count();
    assert_eq!(answered, ending::WAITING_MAX);
    wait_until_settled(&purges);
}
