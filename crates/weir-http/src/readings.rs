//! How other servers read a path, where that may differ from [`target::normalize`](crate::target).
//!
//! A path that only the server behind takes for `/admin/` gets past a gateway that forbids `/admin/`. This is known of
//! servers (N: nginx, A: Apache httpd, T: Tomcat and Jetty, I: IIS, E: Node with Express):
//!
//! | sent | read as | by |
//! | --- | --- | --- |
//! | `/x/..%2fadmin` | `/admin` | N; A with `AllowEncodedSlashes`; T if told so; I |
//! | `/admin%2fx` | `/admin/x` | the same |
//! | `/x/..%5cadmin`, `/x/..\admin` | `/admin` | I; N and A on Windows; T if told so |
//! | `/x/..;/admin`, `/x/..;a=b/admin` | `/admin` | T, which takes parameters off each segment first |
//! | `/admin;x/y` | `/admin/y` | T |
//! | `/admin%3bx/y` | `/admin/y` | T behind a server that decodes |
//! | `/x/%252e%252e/admin` | `/admin` | any two of them in a row; I with `allowDoubleEscaping` |
//! | `/admin%00.png` | `/admin` | programs that end a string there |
//! | `/x//../admin` | `/x/admin` | whoever does not merge slashes: N with `merge_slashes off`, T, E |
//! | `/%40admin`, `/a%2Ab` | `/@admin`, `/a*b` | all of them |
//!
//! E decodes and resolves nothing, so it reads what was sent. `%2F` has legitimate uses, such as names of packages and
//! projects, so it is not refused by itself: what counts is whether a route could tell the readings apart. Not
//! considered are servers that ignore letter case, and dots or blanks at the end of a segment.

use crate::Reject;
use crate::target::{decode_unreserved, is_unreserved, normalize};

/// A longer path is refused when servers may read it in several ways, since each reading is a copy of it.
pub const BYTES_MAX: usize = 4 << 10;

/// A path with more readings is refused: only an attack mixes them like that.
const READINGS_MAX: usize = 24;

/// How often an escape may be decoded, by servers in a row.
const DECODINGS_MAX: usize = 2;

/// Whether servers may split `path` into other segments than its slashes do. Such a path has a backslash, a semicolon,
/// or an escape of one, of a slash or of another escape.
pub fn is_doubtful(path: &[u8]) -> bool {
    let is_meant = |at: usize| match &path[at..] {
        [b'%', b'2', b'5', high, low, ..] => high.is_ascii_hexdigit() && low.is_ascii_hexdigit(),
        [b'%', b'2', b'f' | b'F', ..]
        | [b'%', b'5', b'c' | b'C', ..]
        | [b'%', b'3', b'b' | b'B', ..]
        | [b'\\' | b';', ..] => true,
        _ => false,
    };
    memchr::memchr3_iter(b'%', b'\\', b';', path).any(is_meant)
}

/// Calls `is_same` for each way in which other servers read `path`, until one is not the same. The readings have no
/// empty segments and no dot segments, and keep the escapes that [`target::normalize`](crate::target::normalize) keeps.
///
/// # Errors
/// [`Reject::PathAmbiguous`] when one is not the same, and for a path that hides a dot segment: all servers must agree
/// on what has to be resolved. [`Reject::Target`] for a broken escape.
pub fn agree(path: &[u8], mut is_same: impl FnMut(&[u8]) -> bool) -> Result<(), Reject> {
    // Escapes of unreserved characters raise no doubt: every server decodes them.
    let path = decode_unreserved(path)?;
    let is_doubtful = is_doubtful(&path);
    let is_merged = path.windows(2).any(|pair| pair == b"//");
    if has_plain_escape(&path) && !is_doubtful {
        let mut normal = Vec::new();
        normalize(&path, &mut normal)?;
        if !is_same(&plain(&normal)) {
            return Err(Reject::PathAmbiguous);
        }
    }
    if !is_doubtful && !is_merged {
        return Ok(());
    }
    if is_doubtful && path.len() > BYTES_MAX {
        return Err(Reject::PathAmbiguous);
    }
    let mut decoded = path.clone();
    for _ in 0..DECODINGS_MAX {
        decoded = decode_separators(&decoded);
    }
    let hides_end = decoded.windows(3).any(|three| three == b"%00");
    if hides_end || has_dot_piece(&decoded) {
        return Err(Reject::PathAmbiguous);
    }
    if !is_doubtful {
        return Ok(());
    }
    let is_same_plain = |text: &[u8], is_same: &mut dyn FnMut(&[u8]) -> bool| {
        is_same(text) && (!has_plain_escape(text) || is_same(&plain(text)))
    };
    let mut texts = vec![path];
    for decodings in 0..=DECODINGS_MAX {
        if decodings > 0 {
            texts = texts.iter().map(|text| decode_separators(text)).collect();
        }
        add_splits(&mut texts)?;
        let mut read = texts.iter().map(|text| merged(text));
        if !read.all(|text| is_same_plain(&text, &mut is_same)) {
            return Err(Reject::PathAmbiguous);
        }
    }
    Ok(())
}

/// The path with the characters for the escapes of all that a path may have unescaped and that separates nothing: servers
/// take both for the same (RFC 3986 §3.3). What is escaped by need stays escaped.
pub fn plain(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [byte, tail @ ..] = rest {
        let (kept, after) = match escaped(rest) {
            Some((byte, after)) if is_plain(byte) => (byte, after),
            _ => (*byte, tail),
        };
        plain.push(kept);
        rest = after;
    }
    plain
}

fn has_plain_escape(path: &[u8]) -> bool {
    memchr::memchr_iter(b'%', path)
        .any(|at| escaped(&path[at..]).is_some_and(|(byte, _)| is_plain(byte)))
}

/// Whether a path may have `byte` as it is, and it splits nothing for anybody.
fn is_plain(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,=:@".contains(&byte)
}

/// Adds the texts without parameters, and those with slashes for backslashes, in any order of the two.
fn add_splits(texts: &mut Vec<Vec<u8>>) -> Result<(), Reject> {
    texts.sort_unstable();
    texts.dedup();
    let mut at = 0;
    while at < texts.len() {
        for other in [without_parameters(&texts[at]), with_slashes(&texts[at])] {
            if !texts.contains(&other) {
                texts.push(other);
            }
        }
        if texts.len() > READINGS_MAX {
            return Err(Reject::PathAmbiguous);
        }
        at += 1;
    }
    Ok(())
}

/// Whether a piece between separators of any kind is a dot segment, with or without parameters.
fn has_dot_piece(path: &[u8]) -> bool {
    path.split(|b| matches!(b, b'/' | b'\\')).any(|piece| {
        let name = piece.split(|&b| b == b';').next().unwrap_or_default();
        matches!(name, b"." | b"..")
    })
}

/// Decodes once what may split a path: escapes of a slash, a backslash and a semicolon. It also decodes unreserved
/// characters, and the percent sign of another escape, which a later server decodes. All others stay.
fn decode_separators(path: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [byte, tail @ ..] = rest {
        let (kept, after) = match escaped(rest) {
            Some((byte, after)) if is_decoded(byte, after) => (byte, after),
            _ => (*byte, tail),
        };
        decoded.push(kept);
        rest = after;
    }
    decoded
}

/// The character of the escape at the start of `text`, and the rest.
fn escaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let [b'%', high, low, tail @ ..] = text else {
        return None;
    };
    Some((hex(*high)? << 4 | hex(*low)?, tail))
}

/// Whether the escape of `byte` is decoded when `after` follows it.
fn is_decoded(byte: u8, after: &[u8]) -> bool {
    match byte {
        b'/' | b'\\' | b';' => true,
        b'%' => matches!(after, [high, low, ..] if hex(*high).is_some() && hex(*low).is_some()),
        byte => is_unreserved(byte),
    }
}

/// Each segment up to its first semicolon.
fn without_parameters(path: &[u8]) -> Vec<u8> {
    let names = path
        .split(|&b| b == b'/')
        .map(|segment| segment.split(|&b| b == b';').next().unwrap_or_default());
    names.collect::<Vec<_>>().join(&b'/')
}

/// The path with slashes for backslashes.
fn with_slashes(path: &[u8]) -> Vec<u8> {
    let slash = |&byte: &u8| if byte == b'\\' { b'/' } else { byte };
    path.iter().map(slash).collect()
}

/// The path without its empty segments.
fn merged(path: &[u8]) -> Vec<u8> {
    let mut merged = path.to_vec();
    merged.dedup_by(|byte, before| (*byte, *before) == (b'/', b'/'));
    merged
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests;
