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
