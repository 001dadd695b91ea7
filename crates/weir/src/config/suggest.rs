//! Guesses what was meant, and writes lists of names into messages.
//!
//! A guess is only made when it is near: a wrong one costs the reader more than none.

/// Longer texts are not typing mistakes of a name, and comparing them is slow.
const COMPARED_CHARS_MAX: usize = 64;

/// The one of `names` that `given` looks like, if any does: at most a third of its letters are wrong.
pub(super) fn nearest<'n>(
    given: &str,
    names: impl IntoIterator<Item = &'n str>,
) -> Option<&'n str> {
    let given = given.to_lowercase();
    let chars = given.chars().count();
    if chars > COMPARED_CHARS_MAX {
        return None;
    }
    names
        .into_iter()
        .map(|name| {
            let distance = strsim::damerau_levenshtein(&given, &name.to_lowercase());
            (distance, name)
        })
        .filter(|(distance, name)| {
            *distance < chars && *distance <= (chars.max(name.chars().count()) / 3).max(1)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The end of a message that offers `meant`.
pub(super) fn did_you_mean(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |meant| {
        format!("; did you mean {}?", quoted(meant))
    })
}

/// `one of "a", "b"`.
pub(super) fn one_of<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.into_iter().map(quoted).collect();
    match names.as_slice() {
        [only] => only.clone(),
        _ => format!("one of {}", names.join(", ")),
    }
}

/// `text` in quotes, on one line and short enough for a message.
pub(super) fn quoted(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{:?}", format!("{}…", &text[..end])),
        None => format!("{text:?}"),
    }
}
