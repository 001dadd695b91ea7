//! Texts with variables, `{name}`: what may stand between the braces, and what was meant when something else does.

use weir_gateway::settings::template::{
    Entry, Known, Part, REQUEST_HEADER, RESPONSE_HEADER, TABLE, Template, Variable,
};

use super::headers::is_token;
use super::suggest::{did_you_mean, nearest, one_of, quoted};

/// What a text may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    /// What is known where the text is used.
    pub(super) known: Known,
    /// The only variables that make sense there; any, if there is no list.
    pub(super) only: Option<&'a [Variable]>,
    /// The parameters of the route's path. A parameter hides the variable of its name.
    pub(super) parameters: &'a [String],
}

/// Reads a text with variables. `{{` and `}}` stand for a brace.
pub(super) fn template(text: &str, scope: Scope<'_>) -> Result<Template, String> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix(brace) {
            literal.push_str(brace);
            rest = behind;
            continue;
        }
        let inner = rest.split_once('}').filter(|(name, _)| !name.contains('{'));
        let (name, behind) = inner.filter(|_| brace == "{").ok_or_else(|| {
            format!(
                "expected every \"{{\" to be closed by a \"}}\", and \"{brace}{brace}\" for one that stands for itself"
            )
        })?;
        if !literal.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut literal)));
        }
        parts.push(Part::Variable(variable(name, scope)?));
        rest = behind;
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(Part::Text(literal));
    }
    Ok(Template { parts })
}

/// Reads the name of a variable.
pub(super) fn variable(name: &str, scope: Scope<'_>) -> Result<Variable, String> {
    if scope.parameters.iter().any(|known| known == name) {
        return Ok(Variable::Parameter(name.to_owned()));
    }
    let field = |prefix| name.strip_prefix(prefix).map(field_name);
    let found = if let Some(field) = field(REQUEST_HEADER) {
        Variable::RequestHeader(field?)
    } else if let Some(field) = field(RESPONSE_HEADER) {
        Variable::ResponseHeader(field?)
    } else {
        let entry = TABLE.iter().find(|entry| entry.name == name);
        entry
            .map(|entry| entry.variable.clone())
            .ok_or_else(|| unknown(name, scope))?
    };
    if found.known() > scope.known {
        let when = match found.known() {
            Known::WithRequest => "with the request",
            Known::WithAnswer => "with the answer",
            Known::AtEnd => "when all is over",
        };
        return Err(format!(
            "but {} is known only {when}, after it is used here",
            quoted(name)
        ));
    }
    if scope.only.is_some_and(|only| !only.contains(&found)) {
        return Err(unknown(name, scope));
    }
    Ok(found)
}

impl Scope<'_> {
    /// The names that may be used.
    fn names(&self) -> impl Iterator<Item = &str> {
        let makes_sense = |entry: &&Entry| {
            let is_one = |only: &[Variable]| only.contains(&entry.variable);
            entry.known <= self.known && self.only.is_none_or(is_one)
        };
        let variables = TABLE.iter().filter(makes_sense).map(|entry| entry.name);
        self.parameters.iter().map(String::as_str).chain(variables)
    }
}

fn field_name(name: &str) -> Result<String, String> {
    if is_token(name) {
        Ok(name.to_ascii_lowercase())
    } else {
        Err(format!(
            "expected the name of a field behind the colon, as in \"{REQUEST_HEADER}x-tenant\""
        ))
    }
}

/// What to say of a name that nothing has there.
fn unknown(name: &str, scope: Scope<'_>) -> String {
    // As in nginx, and as a parameter is written in a path.
    let field = name.strip_prefix("http_").filter(|_| scope.only.is_none());
    let field = field.map(|field| format!("{REQUEST_HEADER}{}", field.replace('_', "-")));
    let plain = name.trim_start_matches(['*', '$']);
    let same = scope.names().find(|known| *known == plain);
    let meant = same
        .or_else(|| nearest(plain, scope.names()))
        .map(str::to_owned);
    let help = match field.or(meant) {
        Some(meant) => did_you_mean(Some(&meant)),
        None if scope.only.is_some() => format!("; expected {}", one_of(scope.names())),
        None => String::new(),
    };
    format!("but there is no variable {} here{help}", quoted(name))
}

#[cfg(test)]
mod tests;
