//! What every answer of a route says, whoever has made it: lines of a head.

use std::collections::BTreeMap;

use weir_http::forward::write_field;

use crate::router::{ChosenBy, RouteKey, Router};
use crate::settings::{Origins, Route};

/// What the answers of a route say.
#[derive(Debug)]
pub(crate) struct RouteLines {
    /// All of them.
    always: Box<[u8]>,
    /// Fields of `Vary` in answers to requests that one of these routes may take as well.
    by_rivals: BTreeMap<Box<str>, Vec<usize>>,
}

impl RouteLines {
    /// Those of `route`, which is one of `routes`.
    pub(super) fn of(route: &Route, routes: &[Route]) -> Self {
        let mut always = Vec::new();
        let ChosenBy { mut all, some } = ChosenBy::of(route, routes);
        let cors = route.cors.as_deref();
        if cors.is_some_and(|cors| cors.origins != Origins::Any) {
            all.push("Origin");
        }
        if !all.is_empty() {
            write_field(&mut always, b"Vary", all.join(", ").as_bytes());
        }
        let by_rivals = some.into_iter();
        Self {
            always: always.into(),
            by_rivals: by_rivals
                .map(|(name, routes)| (name.into(), routes))
                .collect(),
        }
    }

    /// The lines that all answers have.
    pub(crate) fn always(&self) -> &[u8] {
        &self.always
    }

    /// Whether some answers have a `Vary` beside those.
    pub(crate) fn may_vary(&self) -> bool {
        !self.by_rivals.is_empty()
    }

    /// That of the answer to what was `asked`; nothing if it has none.
    pub(crate) fn vary(&self, asked: &RouteKey<'_>, router: &Router) -> String {
        let rivals = self.by_rivals.iter();
        let names = rivals.filter(|(_, rivals)| router.may_take(asked, |it| rivals.contains(&it)));
        let names: Vec<&str> = names.map(|(name, _)| &**name).collect();
        names.join(", ")
    }
}
