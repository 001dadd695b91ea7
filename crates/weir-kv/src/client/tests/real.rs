//! What a real node does for a client that asks another one than it should.

use std::path::PathBuf;

use super::*;
use crate::cluster::ClusterSettings;
use crate::engine::Durability;
use crate::engine::lsm::{Lsm, LsmSettings};
use crate::placement::Rule;
use crate::wall::unix_ms;
use crate::{Store, Upkeep};

/// A directory that is removed with its end.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(directory: &Directory, node: SocketAddr, nodes: &[SocketAddr]) -> Store {
    let path = directory.0.join(node.port().to_string());
    let engine = Lsm::open(&LsmSettings {
        path: path.clone(),
        durability: Durability::Memory,
        memory_bytes: 1 << 20,
    });
    let settings = ClusterSettings {
        node,
        nodes: nodes.to_vec(),
        urls: Vec::new(),
        replicas: nodes.len(),
        placement: Rule::default(),
        hints: path.join("hints"),
        hints_age: Duration::from_secs(60),
        secret: SECRET.to_owned(),
        is_joining: false,
    };
    let upkeep = Upkeep {
        repair: Duration::from_secs(3600),
        tombstones: Duration::from_secs(3600),
    };
    Store::among(&settings, engine.expect("it opens"), upkeep).expect("it starts")
}

/// The node that is asked has the owner make the write, and reads itself: a version tells who gave it.
#[test]
fn a_write_is_ordered_by_the_owner_whichever_node_a_client_asks() {
    let random = fastrand::Rng::new().u64(..);
    let directory = std::env::temp_dir().join(format!("weir-kv-client-{random:x}"));
    let directory = Directory(directory);
    let held = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").expect("a port"));
    let nodes = held
        .each_ref()
        .map(|it| it.local_addr().expect("an address"));
    drop(held);
    let stores = nodes.map(|node| start(&directory, node, &nodes));
    run(async {
        let client = client(nodes.to_vec()).await.expect("it connects");
        let placed = client.placed();
        let ranked = placed.ranked(KEY.as_bytes());
        let [owner, other] = [0, 1].map(|rank: usize| placed.map.node(&ranked[rank]));
        let owner = owner.expect("the owner").id;
        let other = client.links.to(&other.expect("the other").address);
        let ask = |what, condition| {
            let quorum = placed.quorum(None).expect("a quorum");
            let key = Bytes::from_static(KEY.as_bytes());
            let ask = Ask {
                key,
                what,
                quorum,
                condition,
                until_ms: None,
            };
            let deadline = Instant::now() + Duration::from_secs(20);
            other.ask(placed.map.epoch(), Say::Ask(ask), deadline)
        };
        // Nodes know each other a moment after they have started.
        let too_few = Came::Said(Say::Told(Answer::TooFew));
        let known = async {
            while ask(What::Delete, Condition::default()).await == too_few {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let known = tokio::time::timeout(Duration::from_secs(30), known).await;
        assert!(known.is_ok(), "no node hands the write to the owner");
        for condition in [
            Condition::default(),
            Condition {
                matches: Some(Tags::Any),
                matches_none: None,
            },
        ] {
            let put = What::Put {
                value: Bytes::from_static(b"new"),
                expires_ms: Some(1),
            };
            match ask(put, condition.clone()).await {
                Came::Said(Say::Told(Answer::Written(version))) => {
                    assert_eq!(version.node, owner);
                }
                // It has expired, and a condition holds of what is there now.
                Came::Said(Say::Told(Answer::Unmet(Some(cell)))) if !condition.is_none() => {
                    assert_eq!(cell.value, None);
                }
                other => panic!("{other:?}"),
            }
        }
        match ask(What::Get, Condition::default()).await {
            Came::Said(Say::Told(Answer::Found(Some(cell)))) => assert_eq!(cell.value, None),
            other => panic!("{other:?}"),
        }
        let span = Span::with_prefix(KEY.as_bytes());
        assert_eq!(client.scan(span).next().await, Ok(None));
        let deadline = Instant::now() + Duration::from_secs(20);
        let read = Say::Read(Bytes::from_static(KEY.as_bytes()));
        let refused = other.ask(placed.map.epoch(), read, deadline).await;
        assert!(matches!(refused, Came::Said(Say::Refused(Why::Failed, _))));
    });
    drop(stores);
}

/// Whoever asks has given up by then, and may have written something else.
#[test]
fn a_write_that_comes_too_late_is_not_begun() {
    let random = fastrand::Rng::new().u64(..);
    let directory = std::env::temp_dir().join(format!("weir-kv-client-{random:x}"));
    let directory = Directory(directory);
    let held = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let node = held.local_addr().expect("an address");
    drop(held);
    let store = start(&directory, node, &[node]);
    run(async {
        let client = client(vec![node]).await.expect("it connects");
        let placed = client.placed();
        let mut stream = TcpStream::connect(node).await.expect("it listens");
        let name = node.to_string();
        let greeting = hello::ask_as_client(&mut stream, SECRET, &name);
        greeting.await.expect("it takes the secret");
        let mut received = BytesMut::new();
        for (left_ms, is_made) in [(-1000, false), (60_000, true)] {
            let value = Bytes::from_static(b"late");
            let ask = Ask {
                key: Bytes::from_static(KEY.as_bytes()),
                what: What::Put {
                    value,
                    expires_ms: None,
                },
                quorum: placed.quorum(None).expect("a quorum"),
                condition: Condition::default(),
                until_ms: Some(unix_ms().saturating_add_signed(left_ms)),
            };
            let mut bytes = Vec::new();
            let (epoch, id, say) = (placed.map.epoch(), 1, Say::Ask(ask));
            Frame { epoch, id, say }.encode(&mut bytes);
            stream.write_all(&bytes).await.expect("it reads");
            let answer = loop {
                if let Some(frame) = Frame::decode(&mut received).expect("a frame") {
                    break frame.say;
                }
                let read = stream.read_buf(&mut received).await;
                assert!(read.expect("it answers") > 0);
            };
            match answer {
                Say::Told(Answer::TooFew) => assert!(!is_made),
                Say::Told(Answer::Written(_)) => assert!(is_made),
                other => panic!("{other:?}"),
            }
            let found = client.get(KEY, None).await.expect("it answers");
            assert_eq!(found.is_some(), is_made);
        }
    });
    drop(store);
}

/// Some nodes, asked by frames as nobody's client would.
struct Cluster {
    stores: Vec<Store>,
    nodes: Vec<SocketAddr>,
    _directory: Directory,
}

impl Cluster {
    fn start(count: usize) -> Self {
        let random = fastrand::Rng::new().u64(..);
        let directory = std::env::temp_dir().join(format!("weir-kv-client-{random:x}"));
        let directory = Directory(directory);
        let bind = |_| std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let held: Vec<_> = (0..count).map(bind).collect();
        let nodes = held.iter().map(|it| it.local_addr().expect("an address"));
        let nodes: Vec<_> = nodes.collect();
        drop(held);
        let stores = nodes.iter().map(|node| start(&directory, *node, &nodes));
        Self {
            stores: stores.collect(),
            nodes,
            _directory: directory,
        }
    }

    /// The nodes by their ranks for the key.
    fn ranked(&self, placed: &Placed) -> Vec<usize> {
        let place = |name: &str| self.nodes.iter().position(|node| node.to_string() == name);
        let ranked = placed.ranked(KEY.as_bytes());
        ranked.iter().filter_map(|name| place(name)).collect()
    }

    async fn stream(&self, which: usize) -> TcpStream {
        let node = self.nodes[which];
        let mut stream = TcpStream::connect(node).await.expect("it listens");
        let name = node.to_string();
        let greeting = hello::ask_as_client(&mut stream, SECRET, &name);
        greeting.await.expect("it takes the secret");
        stream
    }

    /// Until each node hands writes to the one whose turn it is.
    async fn wait(&self) {
        for which in 0..self.nodes.len() {
            let mut stream = self.stream(which).await;
            let known = async {
                loop {
                    match &said(&mut stream, &[put((2, 2), false, None)]).await[..] {
                        [Say::Told(Answer::Written(_))] => return,
                        _ => tokio::time::sleep(Duration::from_millis(10)).await,
                    }
                }
            };
            let known = tokio::time::timeout(Duration::from_secs(30), known).await;
            assert!(known.is_ok(), "nodes do not know each other");
        }
    }
}

fn put((ack, from): (usize, usize), is_conditional: bool, until_ms: Option<u64>) -> Ask {
    let matches = is_conditional.then_some(Tags::Any);
    Ask {
        key: Bytes::from_static(KEY.as_bytes()),
        what: What::Put {
            value: Bytes::from_static(b"value"),
            expires_ms: None,
        },
        quorum: Quorum { ack, from },
        condition: Condition {
            matches,
            matches_none: None,
        },
        until_ms,
    }
}

/// Asks for all of these at once; what is answered, in any order.
async fn said(stream: &mut TcpStream, asks: &[Ask]) -> Vec<Say> {
    let mut bytes = Vec::new();
    for (id, ask) in (1..).zip(asks) {
        let (epoch, say) = (1, Say::Ask(ask.clone()));
        Frame { epoch, id, say }.encode(&mut bytes);
    }
    stream.write_all(&bytes).await.expect("it reads");
    let (mut received, mut said) = (BytesMut::new(), Vec::new());
    while said.len() < asks.len() {
        let read = stream.read_buf(&mut received).await;
        assert!(read.expect("it answers") > 0);
        while let Some(frame) = Frame::decode(&mut received).expect("a frame") {
            said.push(frame.say);
        }
    }
    said
}

/// The node that it is handed to would begin with it at once.
#[test]
fn a_write_that_comes_too_late_is_not_handed_on_either() {
    let cluster = Cluster::start(2);
    run(async {
        cluster.wait().await;
        let client = client(cluster.nodes.clone()).await.expect("it connects");
        let newest = async || client.get(KEY, None).await.expect("it answers");
        for which in cluster.ranked(&client.placed()) {
            let before = newest().await.expect("a value").version;
            let mut stream = cluster.stream(which).await;
            let late = put((2, 2), false, Some(unix_ms() - 60_000));
            let too_few = vec![Say::Told(Answer::TooFew); 20];
            assert_eq!(said(&mut stream, &vec![late; 20]).await, too_few);
            assert_eq!(newest().await.expect("a value").version, before);
            let in_time = put((2, 2), false, Some(unix_ms() + 60_000));
            let made = &said(&mut stream, &[in_time]).await[0];
            assert!(matches!(made, Say::Told(Answer::Written(_))), "{made:?}");
        }
    });
}

/// Whichever node is asked: that whose turn it is, or one that hands them on.
#[test]
fn more_writes_of_a_key_than_may_wait_are_refused_as_too_much() {
    let cluster = Cluster::start(2);
    run(async {
        cluster.wait().await;
        let client = client(cluster.nodes.clone()).await.expect("it connects");
        for which in cluster.ranked(&client.placed()) {
            let mut stream = cluster.stream(which).await;
            let counts = || cluster.stores[which].status().operations.put;
            let before = counts();
            let said = said(&mut stream, &vec![put((2, 2), false, None); 600]).await;
            let (mut written, mut busy) = (0, 0);
            for say in said {
                match say {
                    Say::Told(Answer::Written(_)) => written += 1,
                    Say::Refused(Why::Busy, _) => busy += 1,
                    other => panic!("{other:?}"),
                }
            }
            assert!(written > 256 && busy > 0, "{written} {busy}");
            let after = counts();
            assert_eq!(after.busy - before.busy, busy);
            assert_eq!(
                (after.ok - before.ok, after.too_few),
                (written, before.too_few)
            );
        }
    });
}

#[test]
fn what_is_refused_over_http_is_refused_here() {
    let cluster = Cluster::start(3);
    run(async {
        cluster.wait().await;
        let mut stream = cluster.stream(0).await;
        for (quorum, is_conditional, says) in [
            ((1, 1), true, "more than half of the 3"),
            ((3, 9), false, "there are 3 nodes"),
            ((1, 1), false, ""),
            ((2, 2), true, ""),
            ((2, 3), true, ""),
        ] {
            match &said(&mut stream, &[put(quorum, is_conditional, None)]).await[0] {
                Say::Refused(Why::Failed, why) => {
                    assert!(!says.is_empty() && why.contains(says), "{quorum:?} {why}");
                }
                Say::Told(Answer::Written(_)) => assert_eq!(says, "", "{quorum:?}"),
                other => panic!("{quorum:?} {other:?}"),
            }
        }
    });
}
