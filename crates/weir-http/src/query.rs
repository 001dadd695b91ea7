//! The parameters of a query, as origins read them.
//!
//! Pairs are separated by `&`, the first `=` ends a name, `+` is a blank and `%41` a byte (WHATWG URL Standard, section
//! 5.1). A broken escape stands for itself. Nothing here allocates.

/// The pairs of a query, without empty ones.
pub fn pairs(query: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    query.split(|&b| b == b'&').filter(|pair| !pair.is_empty())
}

/// The name of a pair, decoded: `%69d` is `id`. Otherwise a client could send a parameter that the origin reads and the
/// gateway does not see.
pub fn name(pair: &[u8]) -> impl Iterator<Item = u8> {
    decoded(pair.split(|&b| b == b'=').next().unwrap_or_default())
}

/// The value of a pair, decoded; empty without a `=`.
pub fn value(pair: &[u8]) -> impl Iterator<Item = u8> {
    let equals = memchr::memchr(b'=', pair).map_or(pair.len(), |at| at + 1);
    decoded(&pair[equals..])
}

fn decoded(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (&first, others) = rest.split_first()?;
        let escaped = match others {
            [high, low, ..] if first == b'%' => hex(*high).zip(hex(*low)),
            _ => None,
        };
        rest = if escaped.is_some() {
            &others[2..]
        } else {
            others
        };
        Some(match (escaped, first) {
            (Some((high, low)), _) => (high << 4) | low,
            (None, b'+') => b' ',
            (None, other) => other,
        })
    })
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_as_origins_read_them() {
        let read = |query: &str| -> Vec<(String, String)> {
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            pairs(query.as_bytes())
                .map(|pair| (text(name(pair).collect()), text(value(pair).collect())))
                .collect()
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read(""), []);
        assert_eq!(read("&a&&b="), [pair("a", ""), pair("b", "")]);
        assert_eq!(
            read("%64ebug=%31&a=b=c+d"),
            [pair("debug", "1"), pair("a", "b=c d")]
        );
        assert_eq!(read("%zz=%4"), [pair("%zz", "%4")]);
    }
}
