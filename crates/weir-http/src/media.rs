//! Media types (RFC 9110 §8.3.1) that change how a message is handled.

/// What no end is expected of (HTML Living Standard, server-sent events).
const EVENT_STREAM: &[u8] = b"text/event-stream";

/// Whether a `Content-Type` says that the body is a stream of events, whatever its parameters are.
pub fn is_event_stream(content_type: &[u8]) -> bool {
    let end = content_type.iter().position(|&byte| byte == b';');
    let name = content_type[..end.unwrap_or(content_type.len())].trim_ascii();
    name.eq_ignore_ascii_case(EVENT_STREAM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_case_change_nothing() {
        for (value, expected) in [
            ("text/event-stream", true),
            ("Text/Event-Stream ; charset=utf-8", true),
            ("text/event-streams", false),
            ("text/plain; a=text/event-stream", false),
            ("", false),
        ] {
            assert_eq!(is_event_stream(value.as_bytes()), expected, "{value:?}");
        }
    }
}
