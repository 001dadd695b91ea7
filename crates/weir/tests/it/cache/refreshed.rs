//! Asking again in the background: what it brings is for nobody, so nothing is done for it that nobody needs.

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use super::caching;
use crate::harness::PATIENCE;
use crate::harness::client::get;
use crate::harness::origin::Origin;

const STALE: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-while-revalidate=600\r\nContent-Length: 3\r\n\r\nold";

#[test]
fn a_body_that_nobody_wants_is_not_read_to_its_end() {
    for control in ["no-store", "max-age=60"] {
        let (tell, told) = channel();
        let tell = Mutex::new(tell);
        let is_first = AtomicBool::new(true);
        let origin = Origin::start(move |mut peer, _| {
            while peer.head().is_some() {
                if is_first.swap(false, Ordering::SeqCst) {
                    peer.send(STALE);
                    continue;
                }
                peer.send(format!(
                    "HTTP/1.1 200 OK\r\nCache-Control: {control}\r\n\r\n"
                ));
                while peer.stream.write_all(&[0; 16 << 10]).is_ok() {}
                let _ = tell.lock().expect("one at a time").send(());
                return;
            }
        });
        let gateway = caching(origin.address, "{ max_object = 1000 }");
        assert_eq!(get(gateway.address, "/").text(), "old");
        assert_eq!(get(gateway.address, "/").text(), "old");
        told.recv_timeout(PATIENCE)
            .expect("the gateway closes the connection");
    }
}

#[test]
fn an_origin_that_gives_nothing_to_store_is_not_asked_at_each_hit() {
    for (answer, cache) in [
        ("200 OK\r\nCache-Control: no-store", "true"),
        ("500 Broken", "true"),
        ("500 Broken", "{ stale_if_error = \"1d\" }"),
    ] {
        let is_first = AtomicBool::new(true);
        let origin = Origin::start(move |mut peer, _| {
            while peer.head().is_some() {
                if is_first.swap(false, Ordering::SeqCst) {
                    peer.send(STALE);
                } else {
                    peer.send(format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n"));
                }
            }
        });
        let gateway = caching(origin.address, cache);
        assert_eq!(get(gateway.address, "/").text(), "old");
        origin.next_head();
        assert_eq!(get(gateway.address, "/").text(), "old");
        origin.next_head();
        for _ in 0..50 {
            assert_eq!(get(gateway.address, "/").text(), "old");
        }
        assert_eq!(
            gateway.metric("weir_cache_refreshes_total"),
            1,
            "{answer} {cache}"
        );
    }
}
