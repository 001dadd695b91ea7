//! The parameters of a query, each of which is taken once.

use std::ops::RangeInclusive;

use crate::admin::reply::Refusal;

pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn read(query: Option<&str>) -> Result<Self, Refusal> {
        let parameters = weir_http::form::parameters(query.unwrap_or_default().as_bytes());
        parameters
            .map(Self)
            .map_err(|error| Refusal::wrong(format!("in the query: {error}")))
    }

    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(own, _)| own == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// A whole number; `usual` when there is none.
    pub(super) fn number(
        &mut self,
        name: &str,
        range: RangeInclusive<u64>,
        usual: u64,
    ) -> Result<u64, Refusal> {
        let Some(text) = self.take(name) else {
            return Ok(usual);
        };
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            Refusal::wrong(format!("expected a {name:?} from {least} to {most}"))
        })
    }

    pub(super) fn finish(self, expected: &str) -> Result<(), Refusal> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(Refusal::wrong(format!(
                "found {name:?} in the query, expected {expected}, each at most once"
            ))),
        }
    }
}
