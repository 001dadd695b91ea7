//! `[table.NAME]` and the `collect` of routes: what they say, and mistakes.

use std::time::Duration;

use weir_kv::activities::BatchSettings;
use weir_kv::engine::EngineSettings;

use super::{LISTENER, assert_problems, whole};
use crate::config::{InProcessService, notes};

const ROUTE: &str = "[[route]]\npath = \"/activities\"\ncollect = { table = \"activities\" }\n";

#[test]
fn a_table_is_what_it_says() {
    let batch = |events_max, wait_ms| BatchSettings {
        events_max,
        wait: Duration::from_millis(wait_ms),
    };
    for (said, expected) in [
        ("", batch(1000, 0)),
        ("batch = 1", batch(1, 0)),
        ("batch = { events = 50, wait = \"5ms\" }", batch(50, 5)),
        ("batch = { wait = \"1s\" }", batch(1000, 1000)),
    ] {
        let table = format!("[table.activities]\nengine = {{ path = \"data\" }}\n{said}\n");
        let config = whole(&[LISTENER, &table, ROUTE].concat());
        let settings = &config.services.tables["activities"];
        assert_eq!(settings.batch, expected, "{said}");
        assert!(matches!(settings.engine, EngineSettings::Embedded(_)));
        let service = &config.services.services["activities (activities)"];
        assert_eq!(*service, InProcessService::Collect("activities".to_owned()));
        assert_eq!(notes::of(&config.settings, &config.services), [""; 0]);
        let idle = [LISTENER, &table, "[[route]]\npath = \"/a\"\nrespond = {}\n"].concat();
        let idle = whole(&idle);
        assert_eq!(
            notes::of(&idle.settings, &idle.services),
            [
                "no route collects into the table \"activities\"; one does with collect = { table = \"activities\" }"
            ]
        );
    }
}

#[test]
fn mistakes_are_all_told() {
    let table = "table.a.engine.path = \"data\"\n";
    assert_problems(
        &[LISTENER, table],
        &[
            r#"
route = [{ path = "/", collect = { table = "b" } }]
#! route[1].collect.table: found "b", there is no table of this name; expected "a"
"#,
            r#"
route = [{ path = "/", collect = {} }]
#! route[1].collect.table: missing, expected the name of a table
"#,
            r#"
route = [{ path = "/", collect = { table = "a" }, respond = {} }]
#! route[1].respond: found beside "collect", expected exactly one of "upstream", "split", "redirect", "respond", "kv", "collect"
"#,
        ],
    );
    assert_problems(
        &[LISTENER, "route = [{ path = \"/\", respond = {} }]\n"],
        &[
            r#"
table.a = {}
#! table.a.engine: missing, expected `{ path = "data/activities" }`
"#,
            r#"
table.a = { engine = { path = "a" }, batch = 0 }
#! table.a.batch: found the integer 0, expected a number from 1 to 10000, or a table such as `{ events = 1000, wait = "5ms" }`
"#,
            r#"
table."a.b".engine.path = "a"
#! table."a.b": expected a name of letters, digits, "-" and "_"
"#,
        ],
    );
}
