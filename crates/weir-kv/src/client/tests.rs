//! The client against nodes that do as a test says; against others in `real`, and by the command in `tests/it/kv/client.rs` of the
//! binary.

mod real;

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::*;
use crate::client::attempts::Came;
use crate::cluster::hello::{self, Own};
use crate::frame::{Frame, Page, Presence, Why};
use crate::placement::Map;

const SECRET: &str = "0123456789abcdef";
const KEY: &str = "key";
const VERSION: Version = Version {
    time: 7,
    node: 1,
    run: 1,
};

/// What a node does with a request.
enum Does {
    Says(Say),
    /// What every node does, or nothing.
    Usual,
    /// It hangs.
    Nothing,
    Closes,
}

/// What all nodes of a test do: who is asked, by its place among the replicas of the key, for what.
type Script = Box<dyn Fn(usize, &Frame) -> Does + Send + Sync>;

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(test);
}

/// Nodes, in the order of their ranks for the key. Each has this map.
async fn nodes(count: usize, script: Script) -> Vec<SocketAddr> {
    let mut listeners = Vec::new();
    for _ in 0..count {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        listeners.push((listener.local_addr().expect("an address"), listener));
    }
    let names: Vec<String> = listeners.iter().map(|(own, _)| own.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let map = Map::new(&names).expect("a map");
    let placed = Placed {
        map: map.clone(),
        replicas: count,
    };
    let ranked = placed.ranked(KEY.as_bytes());
    let rank = |own: &SocketAddr| ranked.iter().position(|node| **node == *own.to_string());
    listeners.sort_by_key(|(own, _)| rank(own));
    let (script, map) = (Arc::new(script), map.encode());
    let mut addresses = Vec::new();
    for (rank, (own, listener)) in listeners.into_iter().enumerate() {
        addresses.push(own);
        let (script, map) = (Arc::clone(&script), map.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let which = Say::Map(count as u8, map.clone());
                tokio::spawn(serve(stream, own, (rank, which), Arc::clone(&script)));
            }
        });
    }
    addresses
}

async fn serve(mut stream: TcpStream, own: SocketAddr, node: (usize, Say), script: Arc<Script>) {
    let own = own.to_string();
    let own = Own {
        address: &own,
        secret: SECRET,
        cluster: 1,
    };
    let (rank, which) = node;
    if hello::answer(&mut stream, own, |_| false).await.is_err() {
        return;
    }
    let mut bytes = BytesMut::new();
    while let Ok(1..) = stream.read_buf(&mut bytes).await {
        while let Ok(Some(frame)) = Frame::decode(&mut bytes) {
            let say = match script(rank, &frame) {
                Does::Says(say) => say,
                Does::Closes => return,
                Does::Usual if frame.say == Say::Ping => Say::Pong(Presence::default()),
                Does::Usual if frame.say == Say::Which => which.clone(),
                Does::Usual | Does::Nothing => continue,
            };
            let mut answer = Vec::new();
            Frame { say, ..frame }.encode(&mut answer);
            if stream.write_all(&answer).await.is_err() {
                return;
            }
        }
    }
}

async fn client(nodes: Vec<SocketAddr>) -> Result<Client, ClientError> {
    let settings = ClientSettings {
        nodes,
        secret: SECRET.to_owned(),
        timeout: Duration::from_secs(20),
    };
    Client::connect(settings).await
}

fn found() -> Does {
    Does::Says(Say::Told(Answer::Found(Some(cell(b"value")))))
}

fn cell(value: &'static [u8]) -> Cell {
    Cell {
        version: VERSION,
        expires_ms: None,
        value: Some(Bytes::from_static(value)),
    }
}

async fn put(client: &Client) -> Result<Written, ClientError> {
    client.put(KEY, "value", PutOptions::default()).await
}

#[test]
fn each_key_is_asked_for_at_its_first_replica_alone() {
    run(async {
        let script = |rank, frame: &Frame| match &frame.say {
            Say::Ask(ask) => {
                assert_eq!((rank, &*ask.key), (0, KEY.as_bytes()));
                assert_eq!((ask.quorum, frame.epoch), (Quorum::majority(3), 1));
                match ask.what {
                    What::Get => found(),
                    _ => Does::Says(Say::Told(Answer::Written(VERSION))),
                }
            }
            _ => Does::Usual,
        };
        let nodes = nodes(3, Box::new(script)).await;
        // The last one tells of the others.
        let client = client(vec![nodes[2]]).await.expect("it connects");
        let entry = client.get(KEY, None).await.expect("it is found");
        assert_eq!(entry.expect("a value").value, "value");
        assert_eq!(put(&client).await, Ok(Written::Done(VERSION)));
        let deleted = client.delete(KEY, DeleteOptions::default()).await;
        assert_eq!(deleted, Ok(Written::Done(VERSION)));
    });
}

#[test]
fn a_write_is_not_sent_twice_and_a_read_is() {
    run(async {
        let script = |rank, frame: &Frame| match (&frame.say, rank) {
            (Say::Ask(_), 0) => Does::Closes,
            (Say::Ask(ask), _) => {
                assert_eq!(ask.what, What::Get);
                found()
            }
            _ => Does::Usual,
        };
        let nodes = nodes(3, Box::new(script)).await;
        let owner = nodes[0].to_string();
        let client = client(nodes).await.expect("it connects");
        let told = put(&client).await.expect_err("nobody knows");
        assert!(matches!(&told, ClientError::Unknown(node, _) if **node == *owner));
        assert!(told.may_be_written());
        let entry = client.get(KEY, None).await.expect("the next one has it");
        assert_eq!(entry.expect("a value").version, VERSION);
    });
}

#[test]
fn a_write_goes_to_the_next_one_where_it_cannot_have_been_sent() {
    run(async {
        let script = |rank, frame: &Frame| match (&frame.say, rank) {
            // The connection is not there when the write is to be sent.
            (Say::Ping | Say::Which, 0) => Does::Closes,
            (Say::Ask(_), 1) => Does::Says(Say::Told(Answer::Written(VERSION))),
            _ => Does::Usual,
        };
        let nodes = nodes(2, Box::new(script)).await;
        let client = client(vec![nodes[0], nodes[1]]).await.expect("it connects");
        // The first one is up for a moment, again and again.
        let written = loop {
            match put(&client).await {
                Err(ClientError::Unknown(..)) => {}
                told => break told,
            }
        };
        assert_eq!(written, Ok(Written::Done(VERSION)));
    });
}

#[test]
fn another_epoch_has_the_map_asked_for_again() {
    run(async {
        let asked = Arc::new(AtomicUsize::new(0));
        let maps = Arc::clone(&asked);
        let script = move |_, frame: &Frame| match &frame.say {
            Say::Which => {
                maps.fetch_add(1, Ordering::Relaxed);
                Does::Usual
            }
            Say::Ask(_) => Does::Says(Say::Refused(Why::Epoch, "another".to_owned())),
            _ => Does::Usual,
        };
        let nodes = nodes(2, Box::new(script)).await;
        let client = client(nodes).await.expect("it connects");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let told = put(&client).await.expect_err("no node takes it");
        assert!(matches!(&told, ClientError::Unreachable(nodes) if nodes.len() == 2));
        // Each is asked for a newer one, once.
        assert_eq!(asked.load(Ordering::Relaxed), 3);
    });
}

/// Nodes end connections on which nothing comes.
#[test]
fn an_idle_connection_pings() {
    run(async {
        let pinged = Arc::new(Notify::new());
        let heard = Arc::clone(&pinged);
        let pings = AtomicUsize::new(0);
        let script = move |_, frame: &Frame| {
            if frame.say == Say::Ping && pings.fetch_add(1, Ordering::Relaxed) == 3 {
                heard.notify_one();
            }
            Does::Usual
        };
        let nodes = nodes(1, Box::new(script)).await;
        let _idle = client(nodes).await.expect("it connects");
        let waited = tokio::time::timeout(Duration::from_secs(30), pinged.notified()).await;
        assert!(waited.is_ok());
    });
}

#[test]
fn a_node_that_says_nothing_is_missed() {
    run(async {
        let script = |rank, frame: &Frame| match (&frame.say, rank) {
            (Say::Ping | Say::Ask(_), 0) => Does::Nothing,
            (Say::Ask(_), _) => found(),
            _ => Does::Usual,
        };
        let nodes = nodes(2, Box::new(script)).await;
        let client = client(nodes).await.expect("it connects");
        let entry = client.get(KEY, None).await.expect("the next one has it");
        assert_eq!(entry.expect("a value").version, VERSION);
    });
}

#[test]
fn a_wrong_secret_and_what_no_node_takes_are_told() {
    run(async {
        let nodes = nodes(3, Box::new(|_, _| Does::Usual)).await;
        let settings = ClientSettings {
            nodes: nodes.clone(),
            secret: "another".to_owned(),
            timeout: Duration::from_secs(20),
        };
        let told = Client::connect(settings).await.expect_err("it is refused");
        assert!(
            told.to_string().contains("does not take the secret"),
            "{told}"
        );
        let client = client(nodes).await.expect("it connects");
        let long = "x".repeat(KEY_BYTES_MAX + 1);
        for key in ["", &long] {
            let told = client.get(key.to_owned(), None).await;
            assert!(matches!(told, Err(ClientError::Invalid(_))));
        }
        let large = vec![0; VALUE_BYTES_MAX as usize + 1];
        let told = client.put(KEY, large, PutOptions::default()).await;
        assert!(matches!(told, Err(ClientError::Invalid(_))));
        for (ack, from) in [(1, 2), (1, 1)] {
            let weak = PutOptions {
                condition: Condition {
                    matches: Some(Tags::Any),
                    matches_none: None,
                },
                quorum: Some(Quorum { ack, from }),
                ..PutOptions::default()
            };
            let told = client.put(KEY, "", weak).await;
            assert!(matches!(told, Err(ClientError::Invalid(_))));
        }
        let (ack, from) = (4, 4);
        let told = client.get(KEY, Some(Quorum { ack, from })).await;
        assert!(matches!(told, Err(ClientError::Invalid(_))));
    });
}

#[test]
fn a_scan_merges_nodes_and_misses_no_more_than_it_may() {
    run(async {
        let busy = AtomicUsize::new(2);
        let is_busy = move || {
            let left =
                busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1));
            left.is_ok()
        };
        let script = move |rank, frame: &Frame| match (&frame.say, rank) {
            (Say::Scan(..), 1) if is_busy() => {
                Does::Says(Say::Refused(Why::Busy, "busy".to_owned()))
            }
            (Say::Scan(true, span), 1) if span.from.is_empty() => Does::Says(Say::Page(Page {
                entries: vec![("a".into(), cell(b"1")), ("b".into(), gone())],
                next: Some("c".into()),
            })),
            (Say::Scan(true, span), 1 | 2) => {
                let is_all = span.from.is_empty() || span.from == "c";
                assert!(is_all && span.to == Some("x".into()));
                Does::Says(Say::Page(Page {
                    entries: vec![("c".into(), cell(b"3"))],
                    next: None,
                }))
            }
            (Say::Scan(..), _) => Does::Closes,
            _ => Does::Usual,
        };
        let nodes = nodes(3, Box::new(script)).await;
        let client = client(nodes).await.expect("it connects");
        let mut scan = client.scan(Span {
            from: Bytes::new(),
            to: Some("x".into()),
        });
        let mut keys = Vec::new();
        while let Some((key, _)) = scan.next().await.expect("two of three answer") {
            keys.push(key);
        }
        assert_eq!(keys, ["a", "c"]);
    });
}

fn gone() -> Cell {
    let value = None;
    Cell { value, ..cell(b"") }
}
