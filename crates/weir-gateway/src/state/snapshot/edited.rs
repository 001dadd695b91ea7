//! What is changed of the fields of messages, settled once for a configuration: that of a route beside that of all routes.
//!
//! Lines without variables are written here, and only copied for a request.

use weir_http::forward::{Edits, write_field};
use weir_http::variable::is_same_variable;

use crate::settings::template::{Part, Template, Variable};
use crate::settings::{AllRoutes, HeaderEdits, RequestId, ResponseHeaders, Route};

/// Fields and their values, by name.
pub(crate) type Fields = Vec<(String, Template)>;

/// Changes to one kind of message.
#[derive(Debug, Default)]
pub(crate) struct Edited {
    drops: Vec<String>,
    lines: Lines,
}

/// The fields that are added.
#[derive(Debug)]
enum Lines {
    /// As they are written.
    Fixed(Vec<u8>),
    /// With variables.
    Filled(Fields),
}

/// Changes to the answers of a route, or of none.
#[derive(Debug, Default)]
pub(crate) struct Says {
    pub(crate) usual: Edited,
    /// The same for what is answered in their place.
    pub(crate) instead: Edited,
}

impl Default for Lines {
    fn default() -> Self {
        Self::Fixed(Vec::new())
    }
}

impl Edited {
    pub(crate) fn new(edits: &HeaderEdits) -> Self {
        let set = edits.set.iter().map(|(name, _)| name);
        let drops = edits.remove.iter().chain(set).cloned().collect();
        let fields: Fields = edits.set.iter().chain(&edits.add).cloned().collect();
        let fixed = |(name, value): &(String, Template)| {
            let value = value.as_fixed()?;
            let mut line = Vec::new();
            write_field(&mut line, name.as_bytes(), value.as_bytes());
            Some(line)
        };
        let lines: Option<Vec<_>> = fields.iter().map(fixed).collect();
        Self {
            drops,
            lines: lines.map_or(Lines::Filled(fields), |lines| Lines::Fixed(lines.concat())),
        }
    }

    /// The fields to fill, if a variable is among them.
    pub(crate) fn to_fill(&self) -> Option<&Fields> {
        match &self.lines {
            Lines::Fixed(_) => None,
            Lines::Filled(fields) => Some(fields),
        }
    }

    /// The changes; `filled` is what has become of [`Edited::to_fill`].
    pub(crate) fn edits<'e>(&'e self, filled: &'e [u8]) -> Edits<'e> {
        Edits {
            drops: &self.drops,
            lines: match &self.lines {
                Lines::Fixed(lines) => lines,
                Lines::Filled(_) => filled,
            },
        }
    }

    /// What is left out, without what is added.
    pub(crate) fn drops(&self) -> Edits<'_> {
        Edits {
            drops: &self.drops,
            lines: b"",
        }
    }
}

impl Says {
    /// What is said where there is no route.
    pub(crate) fn of_none(all: &AllRoutes) -> Self {
        let instead = || Edited::new(&setting(always(all)));
        Self {
            usual: instead(),
            instead: instead(),
        }
    }

    pub(crate) fn of(route: &Route, all: &AllRoutes) -> Self {
        let ResponseHeaders {
            usual,
            always: of_route,
        } = &route.response_headers;
        let instead = HeaderEdits {
            set: of_route.clone(),
            ..HeaderEdits::default()
        };
        // On what a route is there for, its own `set` goes before its own `always`.
        let own = over(usual, &instead);
        let common = over(&all.response_headers.usual, &setting(always(all)));
        Self {
            usual: Edited::new(&over(&own, &common)),
            instead: Edited::new(&over(&instead, &setting(always(all)))),
        }
    }
}

/// What a route asks of its upstream by `edits`.
pub(crate) fn asks(edits: &HeaderEdits, id: Option<&RequestId>) -> Edited {
    let id = id.map(|id| (id.field.clone(), id_text()));
    Edited::new(&over(edits, &setting(id.into_iter().collect())))
}

/// The fields of all answers.
fn always(all: &AllRoutes) -> Fields {
    let mut fields = all.response_headers.always.clone();
    let id = all.request_id.as_ref().filter(|id| id.respond);
    if let Some(id) = id
        && !fields.iter().any(|(name, _)| is_same(name, &id.field))
    {
        fields.push((id.field.clone(), id_text()));
    }
    fields
}

fn id_text() -> Template {
    Template {
        parts: vec![Part::Variable(Variable::RequestId)],
    }
}

fn setting(set: Fields) -> HeaderEdits {
    HeaderEdits {
        set,
        ..HeaderEdits::default()
    }
}

/// Both changes; where both say something of a field, `first` does.
fn over(first: &HeaderEdits, second: &HeaderEdits) -> HeaderEdits {
    let says = |name: &str| {
        let set = first.set.iter().map(|(name, _)| name);
        set.chain(&first.remove).any(|own| is_same(own, name))
    };
    let mut both = first.clone();
    let others = |fields: &Fields| {
        let left = fields.iter().filter(|(name, _)| !says(name));
        left.cloned().collect::<Vec<_>>()
    };
    both.set.extend(others(&second.set));
    both.add.extend(others(&second.add));
    let removed = second.remove.iter().filter(|name| !says(name));
    both.remove.extend(removed.cloned());
    both
}

fn is_same(one: &str, other: &str) -> bool {
    is_same_variable(one.as_bytes(), other.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::TrustId;

    fn fields(fields: &[(&str, &str)]) -> Fields {
        let field = |(name, value): &(&str, &str)| ((*name).to_owned(), Template::fixed(*value));
        fields.iter().map(field).collect()
    }

    fn edits(set: &[(&str, &str)], add: &[(&str, &str)], remove: &[&str]) -> HeaderEdits {
        HeaderEdits {
            set: fields(set),
            add: fields(add),
            remove: remove.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn written(edited: &Edited) -> (Vec<&str>, &str) {
        let Edits { drops, lines } = edited.edits(b"to be filled");
        let lines = std::str::from_utf8(lines).expect("text");
        (drops.iter().map(String::as_str).collect(), lines)
    }

    #[test]
    fn a_route_goes_before_all_routes() {
        let first = edits(&[("a", "1")], &[("b", "2")], &["c"]);
        for (second, drops, lines) in [
            (edits(&[], &[], &[]), vec!["c", "a"], "a: 1\r\nb: 2\r\n"),
            (
                edits(&[("a", "x"), ("c", "x"), ("d", "3")], &[], &[]),
                vec!["c", "a", "d"],
                "a: 1\r\nd: 3\r\nb: 2\r\n",
            ),
            (
                edits(&[], &[("a", "x"), ("b", "4")], &["a", "e"]),
                vec!["c", "e", "a"],
                "a: 1\r\nb: 2\r\nb: 4\r\n",
            ),
        ] {
            let edited = Edited::new(&over(&first, &second));
            assert_eq!(written(&edited), (drops, lines), "{second:?}");
        }
    }

    #[test]
    fn an_id_is_asked_and_said_unless_the_route_says_otherwise() {
        let all = with_id(true);
        let id = all.request_id.as_ref();
        let asked = asks(&edits(&[("a", "1")], &[], &[]), id);
        assert_eq!(written(&asked), (vec!["a", "x-id"], "to be filled"));
        let names: Vec<_> = asked.to_fill().into_iter().flatten().collect();
        assert_eq!(names.len(), 2);
        let left_out = asks(&edits(&[], &[], &["x-id"]), id);
        assert_eq!(written(&left_out), (vec!["x-id"], ""));
        assert!(Says::of_none(&all).instead.to_fill().is_some());
        let quiet = with_id(false);
        assert!(Says::of_none(&quiet).instead.to_fill().is_none());
        assert!(asks(&HeaderEdits::default(), None).drops().is_empty());
    }

    fn with_id(respond: bool) -> AllRoutes {
        AllRoutes {
            request_id: Some(RequestId {
                field: "x-id".to_owned(),
                trust: TrustId::Never,
                respond,
            }),
            ..AllRoutes::default()
        }
    }
}
