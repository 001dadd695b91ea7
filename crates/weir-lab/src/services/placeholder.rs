//! The placeholders in configs and command lines: ports, sockets and directories that are filled in. Pure.
//!
//! Only exactly these are placeholders. All other braces stay, since configs of nginx and routes of weir are full of
//! them.

/// Something to fill in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placeholder<'t> {
    /// `{port}`: where the service itself listens.
    Port,
    /// `{port:NAME}`: where another service listens.
    PortOf(&'t str),
    /// `{inner}`: another port of the service, for itself.
    Inner,
    /// `{inner:NAME}`: that port of another service.
    InnerOf(&'t str),
    /// `{storage}`: one more port of the service, for itself.
    Storage,
    /// `{socket}`: the Unix socket of the service itself.
    Socket,
    /// `{socket:NAME}`: the Unix socket of another service.
    SocketOf(&'t str),
    /// `{with:NAME}`: a value that the load brings.
    With(&'t str),
    /// `{dir}`: the private directory of the service.
    Directory,
    /// `{shm}`: a private directory in memory.
    Memory,
    /// `{temporary}`: nginx's directives that put temporary files into `{dir}`.
    Temporary,
    /// `{weir}`: the running program.
    Weir,
    /// `{venv}`: the virtualenv of a Python service.
    Virtualenv,
    /// `{jars}`: the directory of the jars of a Java service.
    Jars,
}

impl<'t> Placeholder<'t> {
    fn parse(inside: &'t str) -> Option<Self> {
        match inside.split_once(':') {
            Some(("port", name)) => Some(Self::PortOf(name)),
            Some(("inner", name)) => Some(Self::InnerOf(name)),
            Some(("socket", name)) => Some(Self::SocketOf(name)),
            Some(("with", name)) => Some(Self::With(name)),
            Some(_) => None,
            None => match inside {
                "port" => Some(Self::Port),
                "inner" => Some(Self::Inner),
                "storage" => Some(Self::Storage),
                "socket" => Some(Self::Socket),
                "dir" => Some(Self::Directory),
                "shm" => Some(Self::Memory),
                "temporary" => Some(Self::Temporary),
                "weir" => Some(Self::Weir),
                "venv" => Some(Self::Virtualenv),
                "jars" => Some(Self::Jars),
                _ => None,
            },
        }
    }
}

/// All placeholders in `text`, in their order.
pub fn all(text: &str) -> Vec<Placeholder<'_>> {
    let mut found = Vec::new();
    fill(text, |placeholder| {
        found.push(placeholder);
        String::new()
    });
    found
}

/// `text` with every placeholder replaced by its `value`.
pub fn fill<'t>(text: &'t str, mut value: impl FnMut(Placeholder<'t>) -> String) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        filled.push_str(before);
        let inside = from[1..].split_once('}').map(|(inside, _)| inside);
        let known = inside.and_then(|inside| Some((inside, Placeholder::parse(inside)?)));
        if let Some((inside, placeholder)) = known {
            filled.push_str(&value(placeholder));
            rest = &from[inside.len() + 2..];
        } else {
            filled.push('{');
            rest = &from[1..];
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_and_other_braces_left_alone() {
        let name = |placeholder: Placeholder<'_>| format!("<{placeholder:?}>");
        for (text, filled) in [
            ("listen {port};", "listen <Port>;"),
            ("{port:app-1}{dir}/x", "<PortOf(\"app-1\")><Directory>/x"),
            ("unix:{socket:api}", "unix:<SocketOf(\"api\")>"),
            ("maxconn {with:slots}", "maxconn <With(\"slots\")>"),
            (
                "http { server { listen {port}; } }",
                "http { server { listen <Port>; } }",
            ),
            ("path = \"/{*rest}\"", "path = \"/{*rest}\""),
            ("{ports} {prot:x} {", "{ports} {prot:x} {"),
            ("{{port}}", "{<Port>}"),
            ("", ""),
        ] {
            assert_eq!(fill(text, name), filled, "{text}");
        }
        assert_eq!(
            all("{port} {x} {port:b}"),
            [Placeholder::Port, Placeholder::PortOf("b")]
        );
    }
}
