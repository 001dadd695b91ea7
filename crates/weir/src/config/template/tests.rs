use super::*;

/// Everything that is known in the end, in a route with these parameters.
fn anything(parameters: &[String]) -> Scope<'_> {
    Scope {
        known: Known::AtEnd,
        only: None,
        parameters,
    }
}

#[test]
fn what_a_text_is_made_of() {
    let parameters = ["id".to_owned(), "host".to_owned()];
    let text = |text: &str| Part::Text(text.to_owned());
    let variable = Part::Variable;
    let cases: [(&str, &[Part]); 11] = [
        ("", &[]),
        ("plain", &[text("plain")]),
        ("{client}", &[variable(Variable::Client)]),
        (
            "a{client}b{status}",
            &[
                text("a"),
                variable(Variable::Client),
                text("b"),
                variable(Variable::Status),
            ],
        ),
        ("{{client}}", &[text("{client}")]),
        (
            "{{{client}}}",
            &[text("{"), variable(Variable::Client), text("}")],
        ),
        ("{{}}", &[text("{}")]),
        ("{id}", &[variable(Variable::Parameter("id".to_owned()))]),
        // The parameter stands nearer than the variable.
        (
            "{host}",
            &[variable(Variable::Parameter("host".to_owned()))],
        ),
        (
            "{request_header:X-Tenant}",
            &[variable(Variable::RequestHeader("x-tenant".to_owned()))],
        ),
        (
            "{response_header:Server}",
            &[variable(Variable::ResponseHeader("server".to_owned()))],
        ),
    ];
    for (given, parts) in cases {
        let read = template(given, anything(&parameters)).expect(given);
        assert_eq!(read.parts, parts, "{given}");
    }
    for entry in TABLE {
        let read = template(&format!("{{{}}}", entry.name), anything(&[]));
        assert_eq!(
            read.expect(entry.name).parts,
            [variable(entry.variable.clone())]
        );
    }
}

#[test]
fn what_was_meant() {
    const CLOSED: &str = "expected every \"{\" to be closed by a \"}\"";
    let request = Scope {
        known: Known::WithRequest,
        ..anything(&[])
    };
    let url = Scope {
        only: Some(&[Variable::Host, Variable::Path]),
        ..request
    };
    for (given, scope, expected) in [
        (
            "{clent}",
            request,
            "but there is no variable \"clent\" here; did you mean \"client\"?",
        ),
        (
            "{$host}",
            request,
            "but there is no variable \"$host\" here; did you mean \"host\"?",
        ),
        (
            "{http_x_tenant}",
            request,
            "but there is no variable \"http_x_tenant\" here; did you mean \"request_header:x-tenant\"?",
        ),
        ("{}", request, "but there is no variable \"\" here"),
        (
            "{status}",
            request,
            "but \"status\" is known only with the answer, after it is used here",
        ),
        (
            "{response_header:server}",
            request,
            "but \"response_header:server\" is known only when all is over, after it is used here",
        ),
        (
            "{request_header:}",
            request,
            "expected the name of a field behind the colon, as in \"request_header:x-tenant\"",
        ),
        (
            "{client}",
            url,
            "but there is no variable \"client\" here; expected one of \"host\", \"path\"",
        ),
        (
            "{hst}",
            url,
            "but there is no variable \"hst\" here; did you mean \"host\"?",
        ),
    ] {
        assert_eq!(template(given, scope), Err(expected.to_owned()), "{given}");
    }
    for given in [
        "{",
        "}",
        "a}b",
        "{a",
        "{{a}",
        "{client}}",
        "{a{client}}",
        "{\"a\": 1",
    ] {
        let complaint = template(given, request).expect_err(given);
        assert!(complaint.starts_with(CLOSED), "{given}: {complaint}");
    }
}
