//! What a node makes of another one that only says how it is.

use std::sync::atomic::{AtomicBool, AtomicU64};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::hello::Own;
use super::*;
use crate::engine::Durability;
use crate::engine::lsm::{Lsm, LsmSettings};
use crate::frame::{Clocks, Frame, Presence, Say};
use crate::layout::{Layout, Next, Placement};
use crate::wall::unix_ms;

const SECRET: &str = "0123456789abcdef";
const PATIENCE: Duration = Duration::from_secs(60);

/// What the other node says of itself.
#[derive(Default)]
struct Other {
    epoch: AtomicU64,
    /// By how much its clock is ahead.
    ahead_ms: AtomicU64,
    is_draining: AtomicBool,
}

impl Other {
    /// Says so until the connection ends.
    async fn tell(&self, mut stream: TcpStream, own: Own<'_>) {
        if hello::answer(&mut stream, own, |_| true).await.is_err() {
            return;
        }
        let mut bytes = BytesMut::new();
        while let Ok(1..) = stream.read_buf(&mut bytes).await {
            while let Ok(Some(frame)) = Frame::decode(&mut bytes) {
                if frame.say != Say::Ping {
                    continue;
                }
                let mut answer = Vec::new();
                let say = Say::Pong(self.presence());
                let epoch = self.epoch.load(Ordering::Relaxed);
                let pong = Frame {
                    epoch,
                    say,
                    ..frame
                };
                pong.encode(&mut answer);
                if stream.write_all(&answer).await.is_err() {
                    return;
                }
            }
        }
    }

    fn presence(&self) -> Presence {
        let its_ms = unix_ms() + self.ahead_ms.load(Ordering::Relaxed);
        Presence {
            clocks: Clocks {
                wall_ms: its_ms,
                version_ms: its_ms,
            },
            is_draining: self.is_draining.load(Ordering::Relaxed),
        }
    }
}

async fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "in vain waited until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Has a node look at another one, which only says how it is.
fn beside(test: impl AsyncFnOnce(&Cluster, &Other, &str)) {
    let random = fastrand::Rng::new().u64(..);
    let path = std::env::temp_dir().join(format!("weir-kv-cluster-{random:x}"));
    let engine = Lsm::open(&LsmSettings {
        path: path.clone(),
        durability: Durability::Memory,
        memory_bytes: 1 << 20,
    });
    let held = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").expect("a port"));
    let nodes = held
        .each_ref()
        .map(|it| it.local_addr().expect("an address"));
    let [own, listener] = held;
    drop(own);
    let settings = ClusterSettings {
        node: nodes[0],
        nodes: nodes.to_vec(),
        urls: nodes.map(|node| format!("http://{node}")).to_vec(),
        replicas: 2,
        placement: Rule::default(),
        hints: path.join("hints"),
        hints_age: PATIENCE,
        secret: SECRET.to_owned(),
        is_joining: false,
    };
    let cluster = Cluster::start(&settings, engine.expect("it opens")).expect("it starts");
    let other = nodes[1].to_string();
    let own = Own {
        address: &other,
        secret: SECRET,
        cluster: cluster.shared.own(SECRET).cluster,
    };
    let says = Other::default();
    says.epoch
        .store(cluster.shared.layout().epoch(), Ordering::Relaxed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        listener.set_nonblocking(true).expect("it can be");
        let listener = TcpListener::from_std(listener).expect("it listens");
        let telling = async {
            loop {
                let (stream, _) = listener.accept().await.expect("it asks");
                says.tell(stream, own).await;
            }
        };
        tokio::select! {
            () = telling => {}
            () = test(&cluster, &says, &other) => {}
        }
    });
    drop(cluster);
    let _ = std::fs::remove_dir_all(path);
}

#[test]
fn nobody_is_led_to_a_node_that_drains_or_whose_clock_is_wrong() {
    beside(async |cluster, says, other| {
        let shared = &cluster.shared;
        let mut keys = (0..100).map(|number| format!("key{number}").into_bytes());
        let key = keys.find(|key| shared.usual_replicas(key)[0] != shared.me());
        let key = key.expect("half of them");
        let url = format!("http://{other}");
        let is_led = || cluster.elsewhere(&key) == Some(&*url);
        wait_until("it is up", is_led).await;
        says.ahead_ms.store(60_000, Ordering::Relaxed);
        wait_until("its clock is known to be wrong", || !is_led()).await;
        assert!(cluster.is_up(shared.usual_replicas(&key)[0]));
        says.ahead_ms.store(0, Ordering::Relaxed);
        wait_until("its clock is known to be right", is_led).await;
        says.is_draining.store(true, Ordering::Relaxed);
        wait_until("it is known to drain", || !is_led()).await;
        // It is the one that makes the writes of the key all the same.
        assert!(cluster.is_up(shared.usual_replicas(&key)[0]));
        says.is_draining.store(false, Ordering::Relaxed);
        wait_until("it is known to go on", is_led).await;
    });
}

#[test]
fn a_node_without_a_common_map_counts_as_down() {
    beside(async |cluster, says, other| {
        let shared = &cluster.shared;
        let node = shared.layout().node_at(other).expect("it is known").id;
        let tells = |epoch: u64| says.epoch.store(epoch, Ordering::Relaxed);
        let is_apart = || cluster.apart(node).is_some() && !cluster.is_up(node);
        wait_until("it is up", || cluster.is_up(node)).await;
        tells(2);
        wait_until("it has a newer map", is_apart).await;
        assert!(shared.is_behind());
        // As while nodes come or go.
        tells(2 << 32 | 1);
        wait_until("it is up again", || cluster.is_up(node)).await;
        assert!(!shared.is_behind() && cluster.apart(node).is_none());
        let layout = Layout::clone(&shared.layout());
        let names: Vec<&str> = [shared.address(), other].into();
        let map = layout.now.map.successor(&names).expect("a map");
        let next = Next {
            placement: Placement { map, replicas: 2 },
            gone: Vec::new(),
        };
        let joint = layout.prepared(next).expect("it follows");
        shared.enter(joint.committed().expect("one is to follow"));
        tells(1);
        wait_until("it has an older map", is_apart).await;
        assert!(!shared.is_behind());
        tells(2);
        wait_until("it has the same map", || cluster.is_up(node)).await;
    });
}
