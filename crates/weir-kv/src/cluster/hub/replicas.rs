//! A replica is asked for its cell, or sent one: another node by its connection, this one by its engine.

use bytes::Bytes;

use super::{Event, Hub};
use crate::cell::Cell;
use crate::frame::Say;
use crate::version::Version;
use crate::wall::unix_ms;

impl Hub {
    /// Whether a replica is asked for its cell.
    pub(super) fn read(&self, id: u64, node: u16, key: Bytes) -> bool {
        if node != self.shared.me() {
            let peer = self.peers.get(&node);
            return peer.is_some_and(|peer| peer.send(id, Say::Read(key)));
        }
        let me = self.shared.me();
        if let Some(cell) = self.shared.engine.at_hand(&key) {
            let _ = self.events.send(Event::Found(id, me, Some(cell)));
            return true;
        }
        let events = self.events.clone();
        let then = move |found| {
            let event = match found {
                Ok(cell) => Event::Found(id, me, cell),
                Err(_) => Event::Failed(id, me),
            };
            let _ = events.send(event);
            None
        };
        self.shared.engine.read(key, Box::new(then));
        true
    }

    /// Whether a replica is sent a cell.
    pub(super) fn write(
        &self,
        id: u64,
        node: u16,
        (key, cell): (Bytes, Cell),
        over: Option<Version>,
    ) -> bool {
        if node != self.shared.me() {
            let say = match over {
                None => Say::Write(key, cell),
                Some(over) => Say::WriteOver(over, key, cell),
            };
            let peer = self.peers.get(&node);
            return peer.is_some_and(|peer| peer.send(id, say));
        }
        let (me, version) = (self.shared.me(), cell.version);
        // What other nodes would refuse, this one does not write either: its clock would carry it on.
        let is_taken = self.peers.is_empty() || self.clocks.take(version.unix_ms(), unix_ms());
        if !is_taken || !self.shared.see(version) {
            return false;
        }
        let events = self.events.clone();
        let then = move |written| {
            let event = match written {
                Ok(newer) => Event::Written(id, me, version, newer),
                Err(_) => Event::Failed(id, me),
            };
            let _ = events.send(event);
            None
        };
        self.shared.engine.write(key, cell, over, Box::new(then));
        true
    }
}
