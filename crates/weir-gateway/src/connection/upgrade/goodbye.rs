//! How a WebSocket is ended by a gateway that ends itself.
//!
//! ```text
//! client                     gateway                    upstream
//!    |<------ Close 1001 -------|                           |     as soon as no frame is on its way to the client
//!    |------- what it still has to say, Close 1001 -------->|     within `WAIT`; or else the gateway says Close
//!    |                          |<------- Close, end -------|     within `WAIT`; or else the tunnel just ends
//!    |<--------- end -----------|                           |
//! ```
//!
//! The client is told first, since its own Close is then the one that the upstream gets: behind everything that the client has
//! sent. What the upstream sends after the client was told is dropped, because nothing may follow a Close frame (RFC 6455
//! §5.5.1).

use std::time::Duration;

use weir_http::websocket::{self, Frames};

/// How long each side may take to answer.
const WAIT: Duration = Duration::from_secs(5);

/// What the gateway has to say in one direction of a tunnel.
#[derive(Debug)]
pub(super) struct Goodbye {
    /// `None` where it can never say anything: this is no WebSocket.
    frames: Option<Frames>,
    frame: [u8; 8],
    /// Of `frame`, what has still to be sent.
    from: usize,
    to: usize,
    is_wanted: bool,
    is_said: bool,
}

impl Goodbye {
    pub(super) fn new(is_websocket: bool) -> Self {
        Self {
            frames: is_websocket.then(Frames::default),
            frame: [0; 8],
            from: 0,
            to: 0,
            is_wanted: false,
            is_said: false,
        }
    }

    /// `frame` is sent between two frames, unless a Close has passed by then.
    fn want(&mut self, frame: &[u8]) {
        self.frame[..frame.len()].copy_from_slice(frame);
        self.to = frame.len();
        self.is_wanted = self.frames.is_some();
    }

    /// What the gateway sends now instead of what waits.
    pub(super) fn to_send(&self) -> &[u8] {
        let is_time = |frames: &Frames| frames.is_between() && !frames.has_closed();
        if self.is_wanted && !self.is_said && self.frames.as_ref().is_some_and(is_time) {
            &self.frame[self.from..self.to]
        } else {
            &[]
        }
    }

    pub(super) fn sent(&mut self, count: usize) {
        self.from += count;
        self.is_said = self.from == self.to;
    }

    /// Whether the gateway has said all that may be said in this direction.
    pub(super) fn is_said(&self) -> bool {
        self.is_said
    }

    /// How many of the bytes that wait may be passed on: all, or to the end of a frame if the gateway waits for that.
    pub(super) fn allows(&self, bytes: &[u8]) -> usize {
        match &self.frames {
            Some(frames) if self.is_wanted => frames.bytes_of_one(bytes),
            _ => bytes.len(),
        }
    }

    /// These bytes were passed on.
    pub(super) fn pass(&mut self, bytes: &[u8]) {
        if let Some(frames) = &mut self.frames {
            frames.pass(bytes);
        }
    }

    /// Whether a Close has gone in this direction, whoever has sent it.
    fn is_closed(&self) -> bool {
        self.is_said || self.frames.as_ref().is_some_and(Frames::has_closed)
    }
}

/// How far the end of a tunnel has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Parting {
    /// Nobody has asked for it.
    #[default]
    None,
    /// The client is told when the frame that is on its way to it has ended.
    ToClient,
    /// The client has been told, and is to answer.
    Client,
    /// The client has not answered. The upstream is told, when the frame that is on its way there has ended.
    ToUpstream,
    /// Both have been told, and the upstream is to end the connection.
    End,
}

impl Parting {
    /// The gateway is about to end.
    pub(super) fn begin(&mut self, to_client: &mut Goodbye) {
        if *self == Self::None && to_client.frames.is_some() {
            *self = Self::ToClient;
            to_client.want(&websocket::CLOSE_FOR_CLIENT);
        }
    }

    /// What has gone in both directions; returns a deadline when there is a new one.
    pub(super) fn follow(
        &mut self,
        to_upstream: &Goodbye,
        to_client: &Goodbye,
    ) -> Option<Duration> {
        let next = match self {
            Self::ToClient if to_client.is_closed() => Self::Client,
            Self::Client | Self::ToUpstream if to_upstream.is_closed() => Self::End,
            _ => return None,
        };
        *self = next;
        Some(WAIT)
    }

    /// Whether what is waited for now has a deadline of its own, which no byte that moves puts off.
    pub(super) fn has_deadline(self) -> bool {
        !matches!(self, Self::None | Self::ToClient)
    }

    /// The deadline has passed. Returns the next one; without one the tunnel ends.
    pub(super) fn is_late(
        &mut self,
        to_upstream: &mut Goodbye,
        key: &mut dyn FnMut() -> [u8; 4],
    ) -> Option<Duration> {
        if *self != Self::Client {
            return None;
        }
        *self = Self::ToUpstream;
        to_upstream.want(&websocket::close_for_server(key()));
        Some(WAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"\x81\x02hi";

    /// Passes on what may pass and sends what is to be sent; returns all that the other side gets.
    fn moved(goodbye: &mut Goodbye, mut bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        loop {
            let own = goodbye.to_send().to_vec();
            if !own.is_empty() {
                goodbye.sent(1);
                out.push(own[0]);
            } else if goodbye.is_said() || bytes.is_empty() {
                return out;
            } else {
                let passed = goodbye.allows(bytes);
                goodbye.pass(&bytes[..passed]);
                out.extend_from_slice(&bytes[..passed]);
                bytes = &bytes[passed..];
            }
        }
    }

    #[test]
    fn a_client_is_told_between_two_frames_and_hears_nothing_more() {
        for cut in 0..=MESSAGE.len() {
            let mut goodbye = Goodbye::new(true);
            let (before, after) = MESSAGE.split_at(cut);
            assert_eq!(moved(&mut goodbye, before), before);
            Parting::default().begin(&mut goodbye);
            let rest = [after, MESSAGE, MESSAGE].concat();
            // With nothing on its way the frame goes at once, and what comes later is dropped.
            let whole = if cut % MESSAGE.len() == 0 { b"" } else { after };
            let expected = [whole, &websocket::CLOSE_FOR_CLIENT].concat();
            assert_eq!(moved(&mut goodbye, &rest), expected, "cut at {cut}");
        }
    }

    #[test]
    fn nothing_is_said_after_a_close_or_where_there_are_no_frames() {
        for (is_websocket, bytes) in [(true, &b"\x88\x00"[..]), (false, MESSAGE)] {
            let mut goodbye = Goodbye::new(is_websocket);
            assert_eq!(moved(&mut goodbye, bytes), bytes);
            Parting::default().begin(&mut goodbye);
            assert_eq!(moved(&mut goodbye, MESSAGE), MESSAGE);
        }
    }

    #[test]
    fn who_does_not_answer_is_not_waited_for() {
        let (mut up, mut down) = (Goodbye::new(true), Goodbye::new(true));
        let mut key = || [1, 2, 3, 4];
        let mut parting = Parting::default();
        assert_eq!(parting.is_late(&mut up, &mut key), None, "an idle tunnel");
        parting.begin(&mut down);
        assert_eq!(parting.follow(&up, &down), None, "it is not said yet");
        let _ = moved(&mut down, b"");
        assert_eq!(parting.follow(&up, &down), Some(WAIT));
        assert_eq!(parting, Parting::Client);
        assert_eq!(parting.is_late(&mut up, &mut key), Some(WAIT));
        assert_eq!(parting, Parting::ToUpstream);
        assert_eq!(moved(&mut up, b""), websocket::close_for_server(key()));
        assert_eq!(parting.follow(&up, &down), Some(WAIT));
        assert_eq!(parting, Parting::End);
        assert_eq!(parting.is_late(&mut up, &mut key), None);
    }

    #[test]
    fn the_answer_of_the_client_is_what_the_upstream_gets() {
        let (mut up, mut down) = (Goodbye::new(true), Goodbye::new(true));
        let mut parting = Parting::default();
        parting.begin(&mut down);
        let _ = moved(&mut down, b"");
        assert_eq!(parting.follow(&up, &down), Some(WAIT));
        let answer = websocket::close_for_server([5; 4]);
        let said = [MESSAGE, &answer].concat();
        assert_eq!(moved(&mut up, &said), said);
        assert_eq!(parting.follow(&up, &down), Some(WAIT));
        assert_eq!(parting, Parting::End);
    }
}
