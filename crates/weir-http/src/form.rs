//! Form bodies: `application/x-www-form-urlencoded` to name and value pairs, strictly.
//!
//! The grammar is that of the WHATWG URL Standard, section 5.1 (`application/x-www-form-urlencoded` parsing): pairs are
//! separated by `&`, empty pairs are skipped, the first `=` ends the name, `+` is a space, `%41` is a byte. The
//! standard repairs broken input. This parser refuses it and says where, because a guessed name is worse than a 400. It
//! does not read `Content-Type`, does not decide whether a name may repeat, and does not bound the body. Its result is
//! never longer than the body, so the caller's limit on the body holds here too.

use std::fmt;

/// Why a form body is refused. Offsets count bytes from the start of the body, which is offset 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormError {
    /// The `%` at this offset is not followed by two hexadecimal digits.
    BadEscape {
        /// Where the `%` stands.
        at: usize,
    },
    /// The decoded name or value is not UTF-8; this is the offset of the first byte that breaks it.
    NotUtf8 {
        /// Where the byte, or the `%` of its escape, stands.
        at: usize,
    },
}

/// The decoded parameters of a form body, in their order.
///
/// A pair without `=` is a name with an empty value. Names may repeat.
pub fn parameters(body: &[u8]) -> Result<Vec<(String, String)>, FormError> {
    let mut parameters = Vec::new();
    let mut start = 0;
    for pair in body.split(|&byte| byte == b'&') {
        if !pair.is_empty() {
            let equals = memchr::memchr(b'=', pair).unwrap_or(pair.len());
            let value_from = (equals + 1).min(pair.len());
            let name = decode(&pair[..equals], start)?;
            let value = decode(&pair[value_from..], start + value_from)?;
            parameters.push((name, value));
        }
        start += pair.len() + 1;
    }
    Ok(parameters)
}

/// Decodes `+` and percent-encoding in one name or value, which begins at offset `start` of the body.
fn decode(encoded: &[u8], start: usize) -> Result<String, FormError> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut at = 0;
    while let Some(&byte) = encoded.get(at) {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => escape(&encoded[at..]).ok_or(FormError::BadEscape { at: start + at })?,
            literal => literal,
        });
        at += encoded_width(byte);
    }
    String::from_utf8(decoded).map_err(|error| {
        let sound_bytes = error.utf8_error().valid_up_to();
        FormError::NotUtf8 {
            at: start + encoded_offset(encoded, sound_bytes),
        }
    })
}

/// The byte that `%XX` at the start of `encoded` stands for.
fn escape(encoded: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*encoded.get(at)?).to_digit(16);
    Some((digit(1)? << 4 | digit(2)?) as u8)
}

/// The offset in `encoded` of the decoded byte number `decoded_bytes`; every escape in it is well formed.
fn encoded_offset(encoded: &[u8], decoded_bytes: usize) -> usize {
    (0..decoded_bytes).fold(0, |at, _| at + encoded_width(encoded[at]))
}

/// How many encoded bytes make one decoded byte, by the first of them.
fn encoded_width(first: u8) -> usize {
    if first == b'%' { 3 } else { 1 }
}

impl fmt::Display for FormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadEscape { at } => write!(
                f,
                "the % at byte {at} is not followed by two hexadecimal digits"
            ),
            Self::NotUtf8 { at } => write!(f, "the text is not UTF-8 from byte {at} on"),
        }
    }
}

impl std::error::Error for FormError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pairs_are_split_and_decoded() {
        let table: &[(&str, &[(&str, &str)])] = &[
            ("", &[]),
            ("&&", &[]),
            ("name=Ada", &[("name", "Ada")]),
            ("a=1&b=2&a=3", &[("a", "1"), ("b", "2"), ("a", "3")]),
            ("&a=1&&b=2&", &[("a", "1"), ("b", "2")]),
            ("flag", &[("flag", "")]),
            ("=x", &[("", "x")]),
            ("=", &[("", "")]),
            ("a=b=c", &[("a", "b=c")]),
            ("full+name=Ada+Lovelace", &[("full name", "Ada Lovelace")]),
            ("a%26b=%3D%2B%25", &[("a&b", "=+%")]),
            ("x=%c3%A9", &[("x", "\u{e9}")]),
            ("x=\u{e9}", &[("x", "\u{e9}")]),
            ("x=%EF%BB%BFy", &[("x", "\u{feff}y")]),
            ("x=%00", &[("x", "\0")]),
        ];
        for (body, expected) in table {
            let parsed = parameters(body.as_bytes()).unwrap();
            let parsed: Vec<_> = parsed
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            assert_eq!(parsed, *expected, "{body:?}");
        }
    }

    #[test]
    fn what_is_broken_is_refused_with_its_position() {
        let table: &[(&[u8], FormError)] = &[
            (b"%", FormError::BadEscape { at: 0 }),
            (b"a=%", FormError::BadEscape { at: 2 }),
            (b"a=1%4", FormError::BadEscape { at: 3 }),
            (b"a=%4&b=1", FormError::BadEscape { at: 2 }),
            (b"a=%41%G1", FormError::BadEscape { at: 5 }),
            (b"a=%1 ", FormError::BadEscape { at: 2 }),
            (b"a=%+1", FormError::BadEscape { at: 2 }),
            (b"ok=1&b%zz=2", FormError::BadEscape { at: 6 }),
            (b"a=%FF", FormError::NotUtf8 { at: 2 }),
            (b"a=%41+%C3", FormError::NotUtf8 { at: 6 }),
            (b"a=\xff", FormError::NotUtf8 { at: 2 }),
            (b"a=1&&b=x%ED%A0%80", FormError::NotUtf8 { at: 8 }),
            (b"%C0%AF=1", FormError::NotUtf8 { at: 0 }),
        ];
        for (body, expected) in table {
            assert_eq!(
                parameters(body),
                Err(*expected),
                "{:?}",
                String::from_utf8_lossy(body)
            );
        }
    }

    #[test]
    fn an_error_reads_as_one_sentence() {
        assert_eq!(
            FormError::BadEscape { at: 7 }.to_string(),
            "the % at byte 7 is not followed by two hexadecimal digits"
        );
        assert_eq!(
            FormError::NotUtf8 { at: 2 }.to_string(),
            "the text is not UTF-8 from byte 2 on"
        );
    }

    /// The serializer of the standard, with every byte outside the unreserved set escaped.
    fn encode(pairs: &[(String, String)]) -> String {
        let component = |text: &str| {
            text.bytes()
                .map(|byte| match byte {
                    b' ' => "+".to_owned(),
                    b'*' | b'-' | b'.' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                        char::from(byte).to_string()
                    }
                    _ => format!("%{byte:02X}"),
                })
                .collect::<String>()
        };
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| format!("{}={}", component(name), component(value)))
            .collect();
        pairs.join("&")
    }

    proptest! {
        #[test]
        fn what_was_encoded_comes_back(pairs in prop::collection::vec((".*", ".*"), 0..5)) {
            prop_assert_eq!(parameters(encode(&pairs).as_bytes()), Ok(pairs));
        }

        #[test]
        fn any_bytes_give_pairs_no_longer_than_the_body_or_a_position_in_it(
            body in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(b"%%%&=+4fF".to_vec())], 0..64),
        ) {
            match parameters(&body) {
                Ok(pairs) => {
                    let bytes: usize = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
                    prop_assert!(bytes <= body.len());
                }
                Err(FormError::BadEscape { at }) => prop_assert_eq!(body[at], b'%'),
                Err(FormError::NotUtf8 { at }) => prop_assert!(body[at] == b'%' || !body[at].is_ascii()),
            }
        }
    }
}
