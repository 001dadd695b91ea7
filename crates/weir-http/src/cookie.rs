//! Cookies that belong to the gateway: they are taken out of a request before anybody else reads it.

use crate::RequestHead;
use crate::head::FieldName;

/// Takes the cookies for which `is_own` says so, given name and value, out of `head`, which begins with the bytes of `request`.
/// What is behind these bytes is dropped. A line without a cookie left goes with them. The pairs that stay keep their bytes and
/// order (RFC 6265 §4.2.1).
///
/// Says whether anything was taken. Then `request` has to be parsed again, from the whole of `head`.
pub fn take(
    request: &RequestHead,
    head: &mut Vec<u8>,
    mut is_own: impl FnMut(&[u8], &[u8]) -> bool,
) -> bool {
    let mut was_taken = false;
    // From the last to the first, so that the places of those to come stay.
    let lines = request.fields.iter().rev();
    for field in lines.filter(|field| field.id == FieldName::Cookie) {
        let (start, end) = (field.value.start as usize, field.value.end as usize);
        let value = &head[start..end];
        if !pairs(value).any(|(name, sent, _)| is_own(name, sent)) {
            continue;
        }
        let mut left: Vec<u8> = Vec::with_capacity(value.len());
        for (name, sent, pair) in pairs(value) {
            if !is_own(name, sent) {
                left.extend_from_slice(if left.is_empty() { b"" } else { b"; " });
                left.extend_from_slice(pair);
            }
        }
        if !was_taken {
            head.truncate(request.head_bytes);
            was_taken = true;
        }
        if left.is_empty() {
            let line_end = head[end..].iter().position(|&byte| byte == b'\n');
            let line_end = line_end.map_or(head.len(), |at| end + at + 1);
            head.drain(field.name.start as usize..line_end);
        } else {
            head.splice(start..end, left);
        }
    }
    was_taken
}

/// The pairs of a line: name, value, and both as they were sent. A pair without a name is one as well.
fn pairs(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8], &[u8])> {
    let pairs = line.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    pairs.filter(|pair| !pair.is_empty()).map(|pair| {
        let at = pair.iter().position(|&byte| byte == b'=');
        let (name, value) = at.map_or((&b""[..], pair), |at| (&pair[..at], &pair[at + 1..]));
        // Blanks around both are not part of them (RFC 6265 §5.2): servers read them so.
        (name.trim_ascii_end(), value.trim_ascii_start(), pair)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeadLimits;
    use crate::head::HeadScan;
    use crate::request::Progress;

    #[test]
    fn own_cookies_are_taken_and_others_stay_as_they_are() {
        let cases: &[(&[&str], &[&str], &[&str])] = &[
            (&["weir=1"], &[], &["1"]),
            (&["a=1; weir=2; b=3"], &["a=1; b=3"], &["2"]),
            (&["weir=1; weir=2"], &[], &["1", "2"]),
            (&["a=1", "weir=2", "b=3"], &["a=1", "b=3"], &["2"]),
            (&["weir=1", "weir=2; c"], &["c"], &["2", "1"]),
            (&["a=\"x y\" ;weir=; b"], &["a=\"x y\"; b"], &[""]),
            (&["a = 1; weir = 2"], &["a = 1"], &["2"]),
            // Names are told apart by their case, and none of them is part of another.
            (
                &["Weir=1; weirs=2; a=weir=3; weir"],
                &["Weir=1; weirs=2; a=weir=3; weir"],
                &[],
            ),
            (&[], &[], &[]),
        ];
        for (sent, stays, own) in cases {
            let lines: Vec<_> = sent
                .iter()
                .map(|line| format!("Cookie: {line} \r\n"))
                .collect();
            let lines = lines.concat();
            let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}X-End: 1\r\n\r\n");
            let mut head = text.clone().into_bytes();
            let mut request = parsed(&head);
            head.extend_from_slice(b"behind");
            let mut taken: Vec<String> = Vec::new();
            let was_taken = take(&request, &mut head, |name, value| {
                let is_own = name == b"weir";
                let value = String::from_utf8_lossy(value).into_owned();
                if is_own && !taken.contains(&value) {
                    taken.push(value);
                }
                is_own
            });
            assert_eq!(was_taken, !own.is_empty(), "{sent:?}");
            assert_eq!(taken, *own, "{sent:?}");
            if was_taken {
                request = parsed(&head);
            } else {
                assert!(head.ends_with(b"behind"));
            }
            let fields = request.view(&head);
            let left: Vec<_> = fields.all(FieldName::Cookie).collect();
            let stays: Vec<_> = stays.iter().map(|line| line.as_bytes()).collect();
            assert_eq!(left, stays, "{sent:?}");
            assert_eq!(fields.named(b"x-end").next(), Some(&b"1"[..]));
        }
    }

    fn parsed(head: &[u8]) -> RequestHead {
        let mut request = RequestHead::default();
        let limits = HeadLimits {
            bytes: 4096,
            fields: 100,
        };
        let progress = request.parse(head, &mut HeadScan::default(), limits);
        assert_eq!(progress, Ok(Progress::Complete(head.len())));
        request
    }
}
