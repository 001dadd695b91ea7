//! What a service that went bad did to the requests of each rung, in words.

use crate::blocks::share_in_words;
use crate::report::incident::{Suffered, suffered};
use crate::report::number;
use crate::report::summary::Row;

/// A sentence for each rung under a load in which a service went bad; none when it did not.
pub(super) fn sentences(rows: &[&Row<'_>]) -> Vec<String> {
    let told = rows.iter().filter(|row| row.is_valid).filter_map(|row| {
        let suffered = suffered(&row.blocks)?;
        Some(sentence(&row.configuration.name, &suffered))
    });
    told.collect()
}

fn sentence(name: &str, suffered: &Suffered) -> String {
    let all = share_in_words(suffered.share);
    let later = share_in_words(suffered.share_later);
    let left = match suffered.left_s {
        None => "the service was not left".to_owned(),
        Some(left) => {
            let back = suffered
                .back_s
                .map_or("not found again".to_owned(), |back| {
                    format!("back {} s after it was well", number::figure(back))
                });
            format!("it was left after {} s and {back}", number::figure(left))
        }
    };
    format!(
        "{name}: {all} of the requests failed or were slow while the service was bad, {later} after the first second; {left}."
    )
}
