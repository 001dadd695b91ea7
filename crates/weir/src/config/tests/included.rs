//! Files that include others: what they are together, and what is said of them.

use std::fs;
use std::path::{Path, PathBuf};

use weir_gateway::settings::Settings;

use super::super::{Inputs, load};

/// A directory with these files; their text is all that there is.
struct Files(PathBuf);

impl Files {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let directory = format!("weir-included-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(directory);
        let _ = fs::remove_dir_all(&directory);
        for (name, text) in files {
            let path = directory.join(name);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        Self(directory)
    }

    fn load(&self) -> Result<Settings, String> {
        self.load_noting(&mut Inputs::default())
    }

    /// The error has paths from here on.
    fn load_noting(&self, inputs: &mut Inputs) -> Result<Settings, String> {
        let own = format!("{}/", self.0.display());
        let settings = load(&self.0.join("weir.toml"), inputs).map(|config| config.settings);
        settings.map_err(|error| error.to_string().replace(&own, ""))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const MAIN: &str = "include = [\"conf.d/*.toml\", \"limits.toml\"]\n\
                    listener = [{ address = \"127.0.0.1:8080\" }]\n\
                    [upstream.app]\nservers = [\"127.0.0.1:9001\"]\n";
const ROUTE: &str = "[[route]]\npath = \"/\"\nupstream = \"app\"\n";

#[test]
fn files_are_read_as_one() {
    let files = Files::new(
        "one",
        &[
            ("weir.toml", MAIN),
            (
                "limits.toml",
                "[limits]\nbody = \"1MiB\"\n[[listener]]\naddress = \"127.0.0.1:8081\"\n",
            ),
            (
                "conf.d/b.toml",
                "[upstream.other]\nservers = [\"127.0.0.1:9002\"]\n",
            ),
            ("conf.d/a.toml", ROUTE),
            (
                "conf.d/c.toml",
                "include = \"../deep/x?.toml\"\n[upstream.app]\nbalance = \"random\"\n",
            ),
            ("conf.d/.hidden.toml", "not TOML"),
            ("conf.d/old.toml~", "not TOML"),
            (
                "deep/x1.toml",
                "limits.header_count = 50\nroute = [{ path = \"/x\", upstream = \"other\" }]\n",
            ),
        ],
    );
    let mut inputs = Inputs::default();
    let found = files.load_noting(&mut inputs).expect("it is sound");
    let whole = "listener = [{ address = \"127.0.0.1:8080\" }, { address = \"127.0.0.1:8081\" }]\n\
                 limits = { body = \"1MiB\", header_count = 50 }\n\
                 [upstream.app]\nservers = [\"127.0.0.1:9001\"]\nbalance = \"random\"\n\
                 [upstream.other]\nservers = [\"127.0.0.1:9002\"]\n\
                 [[route]]\npath = \"/\"\nupstream = \"app\"\n\
                 [[route]]\npath = \"/x\"\nupstream = \"other\"\n";
    let expected = super::valid(whole);
    assert_eq!(format!("{found:#?}"), format!("{expected:#?}"));

    // Whatever was read is watched, and so is where a file may be added.
    assert_eq!(inputs.now(), inputs);
    for name in ["conf.d/b.toml", "deep/x1.toml", "limits.toml"] {
        assert!(
            inputs.has(&files.0.join(name)) || inputs.has(&files.0.join("conf.d/..").join(name)),
            "{name}"
        );
    }
    fs::write(files.0.join("conf.d/new.toml"), "").expect("a file");
    assert_ne!(inputs.now(), inputs);
}

#[test]
fn a_mistake_is_told_with_the_file_in_which_it_stands() {
    let files = Files::new(
        "told",
        &[
            (
                "weir.toml",
                "include = \"more.toml\"\nlistener = [{ address = \"x\" }]\nserver.workers = 2\n",
            ),
            (
                "more.toml",
                "# nothing\n[server]\nworkers = 3\n[upstream.app]\nservers = [\"127.0.0.1:1\"]\n[[route]]\n\
                 path = \"/\"\nupstream = \"ap\"\n",
            ),
        ],
    );
    assert_eq!(
        files.load().unwrap_err(),
        "more.toml:3: server.workers: it stands at weir.toml:3 too, expected it only once"
    );
    fs::write(
        files.0.join("weir.toml"),
        "include = \"more.toml\"\nlistener = [{ address = \"x\" }]\n",
    )
    .expect("a file");
    assert_eq!(
        files.load().unwrap_err(),
        "weir.toml:2: listener[1].address: found \"x\", expected an IP address and a port such as \"127.0.0.1:8080\" \
         or \":8080\"\n\
         more.toml:8: route[1].upstream: there is no upstream \"ap\"; did you mean \"app\"?"
    );
    fs::write(files.0.join("more.toml"), "\n[upstream\n").expect("a file");
    let error = files.load().unwrap_err();
    assert!(error.starts_with("more.toml:2: "), "{error}");
}

#[test]
fn what_cannot_be_included_is_told_where_it_is_asked_for() {
    for (name, files, expected) in [
        (
            "missing",
            &[("weir.toml", "\ninclude = [\"no.toml\"]\n")][..],
            "weir.toml:2: include[1]: found \"no.toml\", cannot include no.toml: No such file or directory (os error 2)",
        ),
        (
            "directory",
            &[("weir.toml", "include = \"conf.d/*.toml\"\n")][..],
            "weir.toml:1: include: found \"conf.d/*.toml\", cannot read conf.d: No such file or directory (os error 2)",
        ),
        (
            "itself",
            &[("weir.toml", "include = \"*.toml\"\n")][..],
            "weir.toml:1: include: found \"*.toml\", cannot include weir.toml: it is the file that all of this is included \
             into",
        ),
        (
            "circle",
            &[
                ("weir.toml", "include = \"a.toml\"\n"),
                ("a.toml", "\n\ninclude = \"b.toml\"\n"),
                ("b.toml", "include = \"a.toml\"\n"),
            ][..],
            "b.toml:1: include: found \"a.toml\", cannot include a.toml: it is included at weir.toml:1 already",
        ),
        (
            "kind",
            &[("weir.toml", "include = [1]\n")][..],
            "weir.toml:1: include[1]: expected a path such as \"conf.d/*.toml\", or a list of such paths",
        ),
        (
            "text",
            &[("weir.toml", "include = \"${NO_SUCH_VARIABLE}.toml\"\n")][..],
            "weir.toml:1: include: found \"${NO_SUCH_VARIABLE}.toml\", the variable NO_SUCH_VARIABLE is not set; set it, or \
             write what holds without it as in \"${NO_SUCH_VARIABLE:-VALUE}\"",
        ),
    ] {
        let files = Files::new(name, files);
        assert_eq!(files.load().unwrap_err(), expected);
    }
}

#[test]
fn files_in_a_row_are_bounded() {
    let files: Vec<_> = (0..20)
        .map(|n| {
            (
                format!("{n}.toml"),
                format!("include = \"{}.toml\"\n", n + 1),
            )
        })
        .collect();
    let mut files: Vec<_> = files
        .iter()
        .map(|(name, text)| (&**name, &**text))
        .collect();
    files.push(("weir.toml", "include = \"0.toml\"\n"));
    let error = Files::new("row", &files).load().unwrap_err();
    assert_eq!(
        error,
        "7.toml:1: include: found \"8.toml\", cannot include 8.toml: more than 8 files include one another in a row"
    );
}

/// A file that is named elsewhere is relative to the file that names it.
#[test]
fn a_value_is_read_from_beside_the_file_that_names_it() {
    let files = Files::new(
        "beside",
        &[
            (
                "weir.toml",
                "include = \"sub/admin.toml\"\nlistener = [{ address = \"127.0.0.1:8080\" }]\nerror_pages.5xx = { file = \"page.html\" }\nroute = [{ path = \"/\", respond = {} }]\n",
            ),
            (
                "sub/admin.toml",
                "[error_pages]\n404 = { file = \"404.html\" }\n[admin]\nlisten = \"127.0.0.1:9901\"\ntoken = { file = \"token\" }\n",
            ),
            ("page.html", "<p>Hello.</p>"),
            ("sub/404.html", "<p>Nothing.</p>"),
            ("sub/token", "0123456789abcdef\n"),
        ],
    );
    let mut inputs = Inputs::default();
    let settings = files.load_noting(&mut inputs).expect("it is sound");
    let token = settings.admin.and_then(|admin| admin.token);
    assert_eq!(token.as_deref(), Some("0123456789abcdef"));
    assert!(inputs.has(&files.0.join("sub/token")));
    assert!(!inputs.has(Path::new("token")));
}
