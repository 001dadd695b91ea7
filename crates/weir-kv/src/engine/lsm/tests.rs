use std::path::Path;
use std::sync::mpsc::{self, Receiver};

use tokio::time::Instant;

use super::tree::META_FORMAT;
use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// A directory that is removed with its end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let random = fastrand::Rng::new().u64(..);
        let name = format!("weir-kv-{}-{random:x}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(directory: &Directory) -> Arc<Lsm> {
    let settings = LsmSettings {
        path: directory.0.clone(),
        durability: Durability::Os,
        memory_bytes: 1 << 20,
    };
    Lsm::open(&settings).expect("it opens")
}

#[test]
fn the_journal_is_where_it_is_looked_for() {
    let directory = Directory::new();
    let path = &directory.0;
    assert_eq!(writeback::newest_journal(path), None);
    let lsm = open(&directory);
    let found = writeback::newest_journal(path).expect("there is one");
    assert!(found.is_file(), "{}", found.display());
    drop(lsm);
    for name in ["10.jnl", "9.jnl"] {
        std::fs::write(path.join(name), "").expect("it is written");
    }
    assert_eq!(writeback::newest_journal(path), Some(path.join("10.jnl")));
}

#[test]
fn tables_are_where_they_are_looked_for_and_synced_once() {
    let directory = Directory::new();
    let lsm = open(&directory);
    let mut folders = writeback::folders(&directory.0);
    // The tree has tables of its own.
    for folder in &mut folders {
        folder.sync();
    }
    write(&lsm, "k", cell(1, "v"));
    let flushed = lsm.tree.cells.rotate_memtable_and_wait();
    flushed.expect("it is flushed");
    let grown = |folders: &mut [writeback::Folder]| {
        let grown = folders.iter_mut().map(writeback::Folder::sync);
        grown.filter(|has_grown| *has_grown).count()
    };
    assert_eq!(grown(&mut folders), 1);
    assert_eq!(grown(&mut folders), 0);
}

#[test]
fn what_the_tree_lets_go_is_dropped_by_who_has_the_last_share() {
    let directory = Directory::new();
    let lsm = open(&directory);
    let (lets_go, let_go) = mpsc::channel();
    let mut shares = writeback::Shares::new(lets_go);
    let folder = lsm.tree.cells.path();
    let files = |folder: &Path, first: &str| {
        let files = std::fs::read_dir(folder).expect("it is there").flatten();
        let names = files.map(|file| file.file_name().into_string().expect("a name"));
        names.filter(|name| name.starts_with(first)).count()
    };
    let mut let_go_of = Vec::new();
    // As many as a compaction takes, and more.
    for time in 1..=12 {
        write(&lsm, "k", cell(time, "v"));
        let flushed = lsm.tree.cells.rotate_memtable_and_wait();
        flushed.expect("it is flushed");
        let is_settled = |shares: &mut writeback::Shares| {
            shares.take(&lsm.tree.cells);
            let (memtables, lists) = shares.counts();
            // It has not seen those that came and went in between.
            let there = files(folder, "v");
            (1..=there).contains(&lists) && (1..=there + 1).contains(&memtables)
        };
        wait_until("it has let go what the tree has", || {
            is_settled(&mut shares)
        });
        let_go_of.extend(let_go.try_iter());
    }
    let tables = || files(&folder.join("tables"), "");
    let before = tables();
    drop(let_go_of);
    // The engine's own threads have shares as well.
    wait_until("their files are removed", || tables() < before);
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "in vain waited until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn version(time: u64) -> Version {
    Version {
        time,
        node: 1,
        run: 1,
    }
}

fn cell(time: u64, value: &'static str) -> Cell {
    Cell {
        version: version(time),
        expires_ms: None,
        value: Some(Bytes::from_static(value.as_bytes())),
    }
}

/// What a result is given to, and where it comes out.
fn then<T: Send + 'static>() -> (Then<T>, Receiver<Result<T, EngineError>>) {
    let (sender, receiver) = mpsc::channel();
    let then = move |result| {
        let _ = sender.send(result);
        None
    };
    (Box::new(then), receiver)
}

fn write(lsm: &Lsm, key: &'static str, cell: Cell) -> Option<Version> {
    let (then, result) = then();
    lsm.write(Bytes::from_static(key.as_bytes()), cell, None, then);
    result.recv().expect("it comes").expect("it is written")
}

fn read(lsm: &Lsm, key: &'static str) -> Option<Cell> {
    let (then, result) = then();
    lsm.read(Bytes::from_static(key.as_bytes()), then);
    result.recv().expect("it comes").expect("it is read")
}

#[test]
fn the_newest_write_stays_in_whatever_order_they_come() {
    let directory = Directory::new();
    let lsm = open(&directory);
    assert_eq!(lsm.opened(), (Version::default(), 1));
    assert_eq!(read(&lsm, "k"), None);
    assert_eq!(write(&lsm, "k", cell(5, "five")), None);
    assert_eq!(write(&lsm, "k", cell(3, "three")), Some(version(5)));
    assert_eq!(lsm.at_hand(b"k"), Some(cell(5, "five")));
    assert_eq!(write(&lsm, "k", cell(5, "five")), None, "the same again");
    assert_eq!(write(&lsm, "other", cell(4, "four")), None);
    assert_eq!(read(&lsm, "other"), Some(cell(4, "four")));
    drop(lsm);
    let lsm = open(&directory);
    assert_eq!(lsm.opened(), (version(5), 2));
    assert_eq!(lsm.at_hand(b"k"), None);
    assert_eq!(read(&lsm, "k"), Some(cell(5, "five")));
    assert_eq!(lsm.at_hand(b"k"), Some(cell(5, "five")));
    assert_eq!(write(&lsm, "k", cell(4, "four")), Some(version(5)));
}

#[test]
fn writes_of_one_batch_are_in_order_too() {
    let directory = Directory::new();
    let lsm = open(&directory);
    let writes = [9, 7, 8, 11, 10];
    let results = writes.map(|time| {
        let (then, result) = then();
        lsm.write(Bytes::from_static(b"k"), cell(time, "v"), None, then);
        result
    });
    let found = results.map(|result| result.recv().expect("it comes"));
    let newer = [None, Some(9), Some(9), None, Some(11)];
    assert_eq!(found, newer.map(|time| Ok(time.map(version))));
    assert_eq!(read(&lsm, "k").map(|cell| cell.version), Some(version(11)));
}

#[test]
fn a_scan_goes_from_a_key_up_to_another_one() {
    let directory = Directory::new();
    let lsm = open(&directory);
    for (time, key) in [(3, "c"), (1, "a"), (4, "d"), (2, "b")] {
        write(&lsm, key, cell(time, key));
    }
    let scan = |from: &'static str, to: Option<&'static str>, most: usize| {
        let (sender, keys) = mpsc::channel();
        let mut left = most;
        let each = move |key: &[u8], _: Cell| {
            left -= 1;
            let _ = sender.send(String::from_utf8_lossy(key).into_owned());
            left > 0
        };
        let (then, result) = then();
        let to = to.map(|to| Bytes::from_static(to.as_bytes()));
        lsm.scan(
            Bytes::from_static(from.as_bytes()),
            to,
            Box::new(each),
            then,
        );
        assert_eq!(result.recv().expect("it ends"), Ok(()));
        keys.iter().collect::<String>()
    };
    assert_eq!(scan("a", None, 9), "abcd");
    assert_eq!(scan("b", Some("d"), 9), "bc");
    assert_eq!(scan("b", None, 2), "bc");
    assert_eq!(scan("c", Some("c"), 9), "");
    assert_eq!(scan("d", Some("a"), 9), "");
}

#[test]
fn while_a_batch_is_stuck_writes_are_refused_and_what_is_here_is_read() {
    let directory = Directory::new();
    let lsm = open(&directory);
    write(&lsm, "k", cell(1, "v"));
    // It is answered before its batch is over.
    wait_until("nothing is under way", || lsm.is_idle());
    lsm.batch.begin_before(STUCK + Duration::from_millis(1));
    let (then, result) = then();
    lsm.write(Bytes::from_static(b"k"), cell(2, "w"), None, then);
    let result: Result<Option<Version>, _> = result.recv().expect("it comes");
    assert!(matches!(result, Err(EngineError::Failed(_))), "{result:?}");
    assert_eq!(read(&lsm, "k"), Some(cell(1, "v")));
    assert_eq!(lsm.failing().as_deref(), Some(STUCK_WHY));
    lsm.batch.end();
    assert_eq!(write(&lsm, "k", cell(2, "w")), None);
    assert_eq!(lsm.failing(), None);
}

#[test]
fn data_belongs_to_one_node() {
    let directory = Directory::new();
    let lsm = open(&directory);
    assert_eq!(lsm.claim("a:1 of a:1, b:1"), Ok(()));
    drop(lsm);
    let lsm = open(&directory);
    assert_eq!(lsm.claim("a:1 of a:1, b:1"), Ok(()));
    let told = "the data is of the node a:1 of a:1, b:1, and the configuration says alone";
    assert_eq!(lsm.claim("alone"), Err(told.to_owned()));
}

#[test]
fn a_directory_belongs_to_one_process_and_one_format() {
    let directory = Directory::new();
    let lsm = open(&directory);
    let settings = LsmSettings {
        path: directory.0.clone(),
        durability: Durability::Os,
        memory_bytes: 1 << 20,
    };
    let told = Lsm::open(&settings).map(|_| ());
    assert!(
        told.as_ref()
            .is_err_and(|why| why.ends_with("another process has this directory open")),
        "{told:?}"
    );
    drop(lsm);
    let tree = Tree::open(&directory.0, 1 << 20).expect("it opens");
    tree.meta.insert(META_FORMAT, "2").expect("it is written");
    drop(tree);
    let told = Lsm::open(&settings).map(|_| ());
    assert!(
        told.as_ref()
            .is_err_and(|why| why.contains("its format is 2")),
        "{told:?}"
    );
}

/// A batch of one key.
fn commit(rows: &Rows, key: &Bytes, row: Option<Cell>) {
    rows.begin([&key[..]].into_iter());
    rows.end(vec![(key.clone(), row)]);
}

#[test]
fn rows_that_were_read_before_a_write_do_not_come_back() {
    let key = Bytes::from_static(b"k");
    let rows = Rows::new(1 << 20);
    let stamp = rows.stamp(&key);
    commit(&rows, &key, Some(cell(2, "new")));
    rows.fill(&key, &cell(1, "old"), stamp);
    assert_eq!(rows.find(b"k"), Some(cell(2, "new")));
    // Also when what was written has gone meanwhile.
    rows.forget(b"k");
    rows.fill(&key, &cell(1, "old"), stamp);
    assert_eq!(rows.find(b"k"), None);
    rows.fill(&key, &cell(2, "new"), rows.stamp(&key));
    assert_eq!(rows.find(b"k"), Some(cell(2, "new")));
}

#[test]
fn while_it_is_written_a_key_has_no_row() {
    let key = Bytes::from_static(b"k");
    let rows = Rows::new(1 << 20);
    rows.fill(&key, &cell(1, "old"), rows.stamp(&key));
    rows.begin([&key[..]].into_iter());
    assert_eq!(rows.find(b"k"), None);
    // Whoever reads the tree now may find either.
    let stamp = rows.stamp(&key);
    rows.fill(&key, &cell(1, "old"), stamp);
    assert_eq!(rows.find(b"k"), None);
    rows.end(vec![(key.clone(), Some(cell(2, "new")))]);
    rows.fill(&key, &cell(1, "old"), stamp);
    assert_eq!(rows.find(b"k"), Some(cell(2, "new")));
}

#[test]
fn a_value_that_is_too_large_for_memory_leaves_no_older_row() {
    let key = Bytes::from_static(b"k");
    let rows = Rows::new(1 << 16);
    rows.fill(&key, &cell(1, "old"), rows.stamp(&key));
    let large = Cell {
        value: Some(vec![0; 1 << 20].into()),
        ..cell(2, "")
    };
    commit(&rows, &key, Some(large));
    assert_eq!(rows.find(b"k"), None);
}

fn forget(lsm: &Lsm, key: &'static str, time: u64) -> Option<Version> {
    let (then, result) = then();
    lsm.forget(Bytes::from_static(key.as_bytes()), version(time), then);
    result.recv().expect("it comes").expect("it is looked at")
}

#[test]
fn what_has_a_value_or_another_version_is_not_forgotten() {
    let directory = Directory::new();
    let lsm = open(&directory);
    let deleted = |time| Cell {
        value: None,
        ..cell(time, "")
    };
    let expired = Cell {
        expires_ms: Some(1),
        ..cell(3, "expired")
    };
    write(&lsm, "live", cell(1, "value"));
    write(&lsm, "dead", deleted(2));
    write(&lsm, "over", expired);
    assert_eq!(forget(&lsm, "live", 1), Some(version(1)));
    assert_eq!(forget(&lsm, "dead", 1), Some(version(2)));
    assert_eq!(forget(&lsm, "none", 1), None);
    for (key, time) in [("dead", 2), ("over", 3)] {
        assert!(read(&lsm, key).is_some());
        assert_eq!(forget(&lsm, key, time), None);
        assert_eq!(read(&lsm, key), None, "{key}");
        assert_eq!(forget(&lsm, key, time), None, "again");
        // What is older is taken again: nobody remembers.
        assert_eq!(write(&lsm, key, cell(1, "older")), None);
        assert_eq!(read(&lsm, key), Some(cell(1, "older")));
    }
    drop(lsm);
    let lsm = open(&directory);
    assert_eq!(read(&lsm, "dead"), Some(cell(1, "older")));
}

#[test]
fn over_a_version_nothing_newer_is_overwritten() {
    let directory = Directory::new();
    let lsm = open(&directory);
    let over = |time, base: u64| {
        let (then, result) = then();
        let base = Some(version(base));
        lsm.write(Bytes::from_static(b"k"), cell(time, "v"), base, then);
        result.recv().expect("it comes").expect("it is written")
    };
    assert_eq!(over(5, 0), None, "there is nothing");
    assert_eq!(over(9, 4), Some(version(5)), "whatever its own version");
    assert_eq!(over(9, 5), None);
    assert_eq!(over(9, 5), Some(version(9)), "not even by the same again");
    assert_eq!(read(&lsm, "k"), Some(cell(9, "v")));
}
