//! The identity of a trace, from `traceparent` (W3C Trace Context, §3.2). The field itself is passed on as it came.

use crate::fields::Fields;

const NAME: &[u8] = b"traceparent";
/// `00-` trace id `-` parent id `-` flags.
const BYTES: usize = 2 + 1 + 32 + 1 + 16 + 1 + 2;

impl<'h> Fields<'h> {
    /// The id of the trace that a request belongs to: 32 hex digits, not all of them zero. `None` if there is no valid
    /// `traceparent`, or more than one.
    pub fn trace_id(self) -> Option<&'h [u8]> {
        let mut lines = self
            .iter()
            .filter(|(_, name, _)| name.eq_ignore_ascii_case(NAME));
        let (_, _, value) = lines.next()?;
        lines.next().is_none().then_some(())?;
        trace_id(value)
    }
}

/// The trace id in the value of a `traceparent`. A later version may have more behind the flags (§4.3).
fn trace_id(value: &[u8]) -> Option<&[u8]> {
    let (known, rest) = value.split_at_checked(BYTES)?;
    let is_hyphen = |at: usize| known[at] == b'-';
    if ![2, 35, 52].into_iter().all(is_hyphen) {
        return None;
    }
    let (version, trace, parent, flags) =
        (&known[..2], &known[3..35], &known[36..52], &known[53..]);
    let is_hex = |part: &[u8]| part.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let is_zero = |part: &[u8]| part.iter().all(|&b| b == b'0');
    let ends_well = match version {
        b"ff" => false,
        b"00" => rest.is_empty(),
        _ => rest.is_empty() || rest[0] == b'-',
    };
    let is_valid = ends_well
        && [version, trace, parent, flags].into_iter().all(is_hex)
        && !is_zero(trace)
        && !is_zero(parent);
    is_valid.then_some(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_trace() {
        const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
        let own = format!("00-{TRACE}-b7ad6b7169203331-01");
        for (value, is_valid) in [
            (own.clone(), true),
            (own.replace("-01", "-ff"), true),
            (own.replacen("00", "cc", 1), true),
            (
                own.replacen("00", "cc", 1) + "-what-the-future-will-be",
                true,
            ),
            (own.replacen("00", "cc", 1) + ".more", false),
            (own.clone() + "-more", false),
            (own.replacen("00", "ff", 1), false),
            (own.replacen("00", "0", 1), false),
            (own.to_uppercase(), false),
            (own.replace(TRACE, &"0".repeat(32)), false),
            (own.replace("b7ad6b7169203331", &"0".repeat(16)), false),
            (own.replace('-', "_"), false),
            (own.replace("-01", "-0x"), false),
            (own[..54].to_owned(), false),
            (String::new(), false),
        ] {
            let found = trace_id(value.as_bytes());
            assert_eq!(found, is_valid.then_some(TRACE.as_bytes()), "{value}");
        }
    }

    #[test]
    fn two_traces_are_none() {
        let line = "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
        for (count, is_found) in [(0, false), (1, true), (2, false)] {
            let head = format!("GET / HTTP/1.1\r\n{}\r\n", line.repeat(count));
            let mut table = Vec::new();
            Fields::scan(head.as_bytes(), &mut table);
            let found = Fields::new(head.as_bytes(), &table).trace_id();
            assert_eq!(found.is_some(), is_found, "{count}");
        }
    }
}
