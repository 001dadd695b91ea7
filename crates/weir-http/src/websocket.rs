//! Where the frames of a WebSocket end, and the frame that closes it (RFC 6455 §5.2, §5.5.1).
//!
//! A proxy passes frames on as bytes. It follows their heads only to know when it stands between two frames: there, and
//! nowhere else, it may put in one of its own. What is in a frame is not looked at.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-------+-+-------------+-------------------------------+
//! |F|R|R|R| opcode|M|   length    |  126: length, 16 bits         |
//! |I|S|S|S|       |A|             |  127: length, 64 bits         |
//! |N|V|V|V|  8:   |S|             +-------------------------------+
//! | |1|2|3| close |K|             |  M: masking key, 32 bits      | payload
//! +-+-+-+-+-------+-+-------------+-------------------------------+
//! ```

/// The opcode of a Close frame.
const CLOSE: u8 = 0x8;
/// The status of an endpoint that goes away, as a server that shuts down does (RFC 6455 §7.4.1).
const GOING_AWAY: [u8; 2] = 1001_u16.to_be_bytes();
/// Opcode, length and the longest form of it. The masking key counts as payload.
const HEAD_BYTES_MAX: usize = 10;

/// A frame that says to a client that its server goes away.
pub const CLOSE_FOR_CLIENT: [u8; 4] = [0x80 | CLOSE, 2, GOING_AWAY[0], GOING_AWAY[1]];

/// A frame that says to a server that its client goes away. What clients send is masked; `key` is random (RFC 6455 §5.3).
pub fn close_for_server(key: [u8; 4]) -> [u8; 8] {
    let masked = [GOING_AWAY[0] ^ key[0], GOING_AWAY[1] ^ key[1]];
    let mut frame = [0x80 | CLOSE, 0x80 | 2, 0, 0, 0, 0, masked[0], masked[1]];
    frame[2..6].copy_from_slice(&key);
    frame
}

/// Follows the frames of one direction.
#[derive(Debug, Clone, Copy, Default)]
pub struct Frames {
    /// What has passed of the head of the current frame.
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: u8,
    /// What is still to pass of the current frame behind its head.
    left: u64,
    has_closed: bool,
    is_lost: bool,
}

impl Frames {
    /// Whether the current frame has ended, so that another may begin.
    pub fn is_between(&self) -> bool {
        self.head_bytes == 0 && !self.is_lost
    }

    /// Whether a Close frame has passed: nothing may follow it.
    pub fn has_closed(&self) -> bool {
        self.has_closed && self.is_between()
    }

    /// These bytes pass.
    pub fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let passed = self.pass_one(bytes);
            bytes = &bytes[passed..];
        }
    }

    /// How many of these bytes belong to the current frame, or to the next one if none is current.
    pub fn bytes_of_one(&self, bytes: &[u8]) -> usize {
        let mut ahead = *self;
        ahead.pass_one(bytes)
    }

    /// Passes bytes to the end of the current frame; returns how many.
    fn pass_one(&mut self, bytes: &[u8]) -> usize {
        if self.is_lost {
            return bytes.len();
        }
        let mut passed = 0;
        while !self.has_head() {
            let Some(byte) = bytes.get(passed) else {
                return passed;
            };
            self.head[usize::from(self.head_bytes)] = *byte;
            self.head_bytes += 1;
            passed += 1;
            if self.has_head() {
                self.begin();
            }
        }
        let rest = (bytes.len() - passed) as u64;
        let taken = rest.min(self.left);
        self.left -= taken;
        if self.left == 0 && !self.is_lost {
            self.head_bytes = 0;
        }
        // Not more than there are bytes.
        passed + taken as usize
    }

    fn has_head(&self) -> bool {
        let needed = match self.head[1] & 0x7f {
            _ if self.head_bytes < 2 => 2,
            126 => 4,
            127 => HEAD_BYTES_MAX,
            _ => 2,
        };
        usize::from(self.head_bytes) >= needed
    }

    /// The head is here whole.
    fn begin(&mut self) {
        let extended = |bytes: usize| {
            let bytes = &self.head[2..2 + bytes];
            bytes
                .iter()
                .fold(0, |length, byte| length << 8 | u64::from(*byte))
        };
        let length = match self.head[1] & 0x7f {
            126 => extended(2),
            127 => extended(8),
            short => u64::from(short),
        };
        let key_bytes = if self.head[1] & 0x80 == 0 { 0 } else { 4 };
        // The first bit of a length is never set (RFC 6455 §5.2), so this is no WebSocket.
        self.is_lost = length >> 63 != 0;
        self.left = if self.is_lost { 0 } else { length + key_bytes };
        self.has_closed |= self.head[0] & 0x0f == CLOSE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(opcode: u8, is_masked: bool, length: usize) -> Vec<u8> {
        let mask = if is_masked { 0x80 } else { 0 };
        let mut frame = vec![0x80 | opcode];
        match length {
            0..126 => frame.push(mask | length as u8),
            126..0x1_0000 => {
                frame.push(mask + 126);
                frame.extend_from_slice(&(length as u16).to_be_bytes());
            }
            _ => {
                frame.push(mask + 127);
                frame.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        // Payload that looks like a Close frame.
        frame.resize(frame.len() + length + if is_masked { 4 } else { 0 }, 0x88);
        frame
    }

    /// Whatever the pieces in which the bytes come, the ends of frames are found, and nothing else is taken for one.
    #[test]
    fn the_ends_of_frames_are_found_in_any_pieces() {
        let all: Vec<Vec<u8>> = [0, 1, 125, 126, 300, 0xffff, 0x1_0000]
            .into_iter()
            .flat_map(|length| [frame(1, false, length), frame(2, true, length)])
            .collect();
        let bytes = all.concat();
        let mut ends = vec![0];
        for frame in &all {
            ends.push(ends[ends.len() - 1] + frame.len());
        }
        for piece in [1, 2, 3, 7, 1000, bytes.len()] {
            let mut frames = Frames::default();
            let mut at = 0;
            for bytes in bytes.chunks(piece) {
                let next = ends.iter().find(|end| **end > at).expect("there is more");
                assert_eq!(frames.bytes_of_one(bytes), bytes.len().min(next - at));
                frames.pass(bytes);
                at += bytes.len();
                assert_eq!(
                    frames.is_between(),
                    ends.contains(&at),
                    "at {at} by {piece}"
                );
            }
            assert!(frames.is_between() && !frames.has_closed());
        }
    }

    #[test]
    fn a_close_frame_is_seen_once_it_has_passed() {
        for close in [&CLOSE_FOR_CLIENT[..], &close_for_server([1, 2, 3, 4])] {
            let mut frames = Frames::default();
            frames.pass(&close[..close.len() - 1]);
            assert!(!frames.has_closed());
            frames.pass(&close[close.len() - 1..]);
            assert!(frames.has_closed());
        }
        let [.., first, second] = close_for_server([0xff, 0x0f, 0, 0]);
        assert_eq!([first ^ 0xff, second ^ 0x0f], [0x03, 0xe9]);
    }

    #[test]
    fn what_is_no_websocket_has_no_ends() {
        let mut frames = Frames::default();
        frames.pass(&[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0]);
        assert!(!frames.is_between());
        assert_eq!(frames.bytes_of_one(b"anything"), 8);
        frames.pass(b"anything");
        assert!(!frames.is_between());
    }
}
