//! The entry points: a file that cannot be read, the look of a report, and flags instead of a file.

use std::path::Path;

use weir_gateway::settings::{
    Action, EndpointAddress, HostPattern, MessageFormat, Messages, ServerAddress,
};

use super::super::{Inputs, address, admin_of, from_flags, load, messages_of, text_of};
use super::{LISTENER, ROUTE, parse, valid};

#[test]
fn a_file_that_is_not_there_is_named() {
    let mut inputs = Inputs::default();
    let error = load(Path::new("no/such/weir.toml"), &mut inputs);
    let error = error.expect_err("there is no such file");
    let message = error.to_string();
    assert!(
        message.starts_with("cannot read no/such/weir.toml: "),
        "{message}"
    );
}

#[test]
fn bytes_that_are_no_text_are_found_by_line() {
    let error = text_of(b"a = 1\nb = \"\xff\"\n", "weir.toml").expect_err("is not UTF-8");
    assert_eq!(
        error.to_string(),
        "weir.toml:2: found bytes that are not UTF-8, expected text"
    );
}

#[test]
fn a_report_has_a_line_for_each_problem_in_the_order_of_the_file() {
    let text =
        format!("{LISTENER}\n[[route]]\npth = \"/\"\nupstream = \"app\"\n\n[server]\nworkers = 0");
    let error = parse(&text).expect_err("four mistakes");
    let expected = r#"
weir.toml:3: route[1].path: missing, expected a path such as "/", "/users/{id}" or "/api/{*rest}"
weir.toml:4: route[1].pth: unknown key; did you mean "path"?
weir.toml:5: route[1].upstream: there is no upstream "app"; add `[upstream.app]` with its "servers"
weir.toml:8: server.workers: found the integer 0, expected an integer from 1 to 1024"#;
    assert_eq!(error.to_string(), expected.trim_start());
}

#[test]
fn flags_forward_everything() {
    let listen = "127.0.0.1:8080".parse().unwrap();
    let to = [
        "http://127.0.0.1:3000".to_owned(),
        "unix:app.sock".to_owned(),
    ];
    let settings = from_flags(listen, &to, false, None).expect("sound flags");
    assert!(settings.workers >= 1);
    assert_eq!(settings.listeners, [listen]);
    assert!(settings.admin.is_none() && settings.access_log.is_none());
    let upstream = &settings.upstreams[0];
    assert_eq!(upstream.name, "app");
    assert_eq!(upstream.servers[0].label, "127.0.0.1:3000");
    let address = "127.0.0.1:3000".parse().unwrap();
    assert_eq!(
        upstream.servers[0].address,
        ServerAddress::Known(EndpointAddress::Tcp(address))
    );
    assert_eq!(upstream.servers.len(), 2);
    let [route] = settings.routes.as_slice() else {
        panic!("one route");
    };
    assert_eq!(
        (route.path.as_str(), &route.host),
        ("/{*rest}", &HostPattern::Any)
    );
    assert!(matches!(&route.action, Action::Forward(forward) if forward.upstream == 0));
}

#[test]
fn a_flag_protects_the_servers() {
    let listen = "127.0.0.1:8080".parse().unwrap();
    let to = ["127.0.0.1:3000".to_owned()];
    let settings = from_flags(listen, &to, true, None).expect("sound flags");
    let file = "upstream.app = { servers = [\"127.0.0.1:3000\"], protect = true }";
    let file = valid(&[LISTENER, ROUTE, file].concat());
    assert_eq!(settings.upstreams[0].care, file.upstreams[0].care);
    let unprotected = from_flags(listen, &to, false, None).expect("sound flags");
    assert_ne!(settings.upstreams[0].care, unprotected.upstreams[0].care);
}

#[test]
fn a_flag_opens_the_admin_listener_for_this_machine_alone() {
    let listen = "0.0.0.0:8080".parse().unwrap();
    let to = ["127.0.0.1:3000".to_owned()];
    for (text, is) in [
        ("9901", Ok("127.0.0.1:9901")),
        ("localhost:9901", Ok("127.0.0.1:9901")),
        ("[::1]:9901", Ok("[::1]:9901")),
        (
            ":9901",
            Err("such as 127.0.0.1:9901; for another one write a config file"),
        ),
        ("10.0.0.1:9901", Err("this machine alone")),
        ("x", Err("expected an IP address and a port")),
    ] {
        let given = super::super::admin(text);
        match (&given, is) {
            (Ok(address), Ok(is)) => assert_eq!(address.to_string(), is),
            (Err(error), Err(is)) => assert!(error.contains(is), "{error}"),
            _ => panic!("{text}: {given:?}"),
        }
        if let Ok(address) = given {
            let settings = from_flags(listen, &to, false, Some(address)).expect("sound flags");
            let admin = settings.admin.expect("it is open");
            assert_eq!((admin.listen, admin.token), (address, None));
        }
    }
    let same = "127.0.0.1:8080".parse().unwrap();
    let error = from_flags(listen, &to, false, Some(same)).expect_err("the same port");
    assert!(error.to_string().starts_with("--admin: found"), "{error}");
}

#[test]
fn wrong_flags_are_all_told() {
    let listen = "127.0.0.1:8080".parse().unwrap();
    let to = [
        "https://127.0.0.1:3000",
        "127.0.0.1:1",
        "http://127.0.0.1:1",
        "127.0.0.1",
    ];
    let error =
        from_flags(listen, &to.map(str::to_owned), false, None).expect_err("three mistakes");
    let expected = r#"
--to: found "https://127.0.0.1:3000", but servers are spoken to in plain HTTP, expected a plain port; did you mean "http://127.0.0.1:3000"?
--to: found "http://127.0.0.1:1" again, expected it only once
--to: found "127.0.0.1", expected a host and a port, as in "127.0.0.1:3000""#;
    assert_eq!(error.to_string(), expected.trim_start());
    let error = from_flags(listen, &[], false, None).expect_err("no server");
    assert_eq!(
        error.to_string(),
        "--to: missing, expected a server such as \"http://127.0.0.1:3000\""
    );
}

/// What people type who come from other gateways.
#[test]
fn an_address_may_be_short() {
    for (text, meant) in [
        (":8080", "0.0.0.0:8080"),
        ("*:8080", "0.0.0.0:8080"),
        ("8080", "0.0.0.0:8080"),
        ("localhost:8080", "127.0.0.1:8080"),
        ("LocalHost:8080", "127.0.0.1:8080"),
        ("[::]:8080", "[::]:8080"),
        ("10.0.0.1:0", "10.0.0.1:0"),
    ] {
        assert_eq!(address::listen(text), Ok(meant.parse().unwrap()), "{text}");
    }
    for text in [
        "",
        ":",
        "::8080",
        ":+80",
        ":65536",
        "8o80",
        "::1",
        "127.0.0.1",
        "http://:80",
    ] {
        let told = address::listen(text).expect_err(text);
        assert!(
            told.starts_with("expected an IP address and a port"),
            "{told}"
        );
    }
}

#[test]
fn a_server_may_be_short() {
    for (text, label) in [
        ("localhost:3000", "localhost:3000"),
        ("http://localhost:3000", "localhost:3000"),
        ("http://localhost:3000/", "localhost:3000"),
        ("http://app.internal", "app.internal:80"),
        ("http://[::1]/", "[::1]:80"),
        (":3000", "127.0.0.1:3000"),
        ("3000", "127.0.0.1:3000"),
    ] {
        let (found, _) = address::server(text).expect(text);
        assert_eq!(found, label, "{text}");
    }
    for text in [
        "",
        ":",
        "http://",
        "http://:80",
        "localhost",
        "70000",
        ":0",
        "http://a/b",
        "+80",
    ] {
        assert!(address::server(text).is_err(), "{text}");
    }
}

/// What of a file is needed before it is read, or by others than the gateway: mistakes elsewhere do not matter.
#[test]
fn a_file_with_mistakes_still_says_how_it_is_reached_and_how_to_tell() {
    let file = std::env::temp_dir().join(format!("weir-sketch-{}.toml", std::process::id()));
    let text =
        "[admin]\nlisten = \"127.0.0.1:9\"\n[log]\nformat = \"json\"\n[[listener]]\nadress = 1\n";
    std::fs::write(&file, text).expect("it can be written");
    let (admin, messages) = (admin_of(&file), messages_of(&file));
    std::fs::remove_file(&file).expect("it can be removed");
    let listen = admin.expect("it has one").listen;
    assert_eq!(listen, "127.0.0.1:9".parse().unwrap());
    assert_eq!(messages.format, MessageFormat::Json);
    let absent = Path::new("no/such/weir.toml");
    assert!(admin_of(absent).is_none());
    assert_eq!(messages_of(absent), Messages::default());
}

#[test]
fn a_socket_path_that_no_system_takes_is_refused() {
    for path in ["", "a\nb", &"x".repeat(108)] {
        let refused = address::server(&format!("unix:{path}"));
        assert_eq!(
            refused,
            Err("expected \"unix:\" and the path of a socket, 1 to 107 bytes".to_owned())
        );
    }
    assert!(address::server(&format!("unix:{}", "x".repeat(107))).is_ok());
}
