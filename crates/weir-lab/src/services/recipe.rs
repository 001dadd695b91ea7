//! How each kind of service is started: program, arguments and files, with placeholders in them. Pure, except that
//! it looks for programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::jars::Jars;
use super::{databases, virtualenv};
use crate::error::LabError;
use crate::scenario::Kind;
use crate::shell;

/// Directories of daemons that a user's `PATH` may leave out.
const MORE_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// One broker with a fresh directory and half a gigabyte of heap.
const KAFKA_LINE: &str = "java -cp '{jars}/*' kafka.tools.StorageTool format -t MkU3OEVBNTcwNTJENDM2Qg -c '{dir}/server.properties' && \
     exec java -Xms128m -Xmx512m -Dorg.slf4j.simpleLogger.defaultLogLevel=info -cp '{jars}/*' kafka.Kafka '{dir}/server.properties'";

const KAFKA_CONFIG: &str = "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{inner}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{inner}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={dir}/logs
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
";

/// What a service needs to start; everything may contain placeholders.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recipe {
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    /// Names and contents of the files it reads, its config first.
    pub(crate) files: Vec<(String, String)>,
    /// Packages of its virtualenv.
    pub(crate) packages: Option<Vec<String>>,
    /// The jars that it needs.
    pub(crate) jars: Option<Jars>,
    /// Whether it listens on a Unix socket rather than a port.
    pub(crate) is_on_socket: bool,
    /// What it prints when it is ready, where listening is not enough.
    pub(crate) ready: Option<&'static str>,
    /// A statement of CQL for it when it is ready.
    pub(crate) statement: Option<&'static str>,
}

impl Recipe {
    /// How the service `name` is started; `None` for one that already runs.
    pub(crate) fn of(name: &str, kind: &Kind, is_root: bool) -> Option<Self> {
        Some(match kind {
            Kind::App { threads, flags } => {
                let threads = threads.to_string();
                let fixed = [
                    "{weir}",
                    "app",
                    "--listen",
                    "127.0.0.1:{port}",
                    "--name",
                    name,
                ];
                let arguments = fixed.into_iter().chain(["--threads", &threads]);
                let arguments = arguments.chain(flags.iter().map(String::as_str));
                Self::reading(arguments.collect(), None)
            }
            Kind::Weir { config } => {
                let command = vec!["{weir}", "serve", "--config", "{dir}/weir.toml"];
                Self::reading(command, Some(("weir.toml", config)))
            }
            Kind::Nginx { config, files } => {
                // Workers of a master that runs as root could not read a private directory.
                let user = if is_root { " user root;" } else { "" };
                let globals = format!("daemon off; pid {{dir}}/nginx.pid;{user}");
                let command = vec![
                    "nginx",
                    "-e",
                    "stderr",
                    "-p",
                    "{dir}",
                    "-c",
                    "{dir}/nginx.conf",
                    "-g",
                    &globals,
                ];
                let mut recipe = Self::reading(command, Some(("nginx.conf", config)));
                recipe.files.extend(
                    files
                        .iter()
                        .map(|(name, content)| (name.clone(), content.clone())),
                );
                recipe
            }
            Kind::HaProxy { config } => {
                let command = vec!["haproxy", "-db", "-f", "{dir}/haproxy.cfg"];
                Self::reading(command, Some(("haproxy.cfg", config)))
            }
            Kind::Gunicorn {
                module,
                packages,
                workers,
            } => {
                let workers = format!("--workers={workers}");
                let python = ["{venv}/bin/python", "-m", "gunicorn"];
                let arguments = ["api:app", &workers, "--bind=unix:{socket}"];
                let command = python.into_iter().chain(arguments).collect();
                let mut recipe = Self::reading(command, Some(("api.py", module)));
                recipe.packages = Some(virtualenv::with_gunicorn(packages));
                recipe.is_on_socket = true;
                recipe
            }
            Kind::Kafka => Self::kafka(),
            Kind::Postgres { settings } => Self::postgres(settings, is_root),
            Kind::Cassandra { settings } => Self::cassandra(settings),
            Kind::Command { line } => Self::reading(vec!["sh", "-c", line], None),
            Kind::Running { .. } => return None,
        })
    }

    fn kafka() -> Self {
        let config = KAFKA_CONFIG.to_owned();
        let file = Some(("server.properties", &config));
        let mut recipe = Self::reading(vec!["sh", "-c", KAFKA_LINE], file);
        recipe.jars = Some(Jars::Kafka);
        recipe.ready = Some("Kafka Server started");
        recipe
    }

    fn postgres(settings: &BTreeMap<String, String>, is_root: bool) -> Self {
        let line = databases::postgres_line(settings, is_root);
        let mut recipe = Self::reading(vec!["sh", "-c", &line], None);
        recipe.ready = Some(databases::POSTGRES_READY);
        recipe
    }

    fn cassandra(settings: &BTreeMap<String, String>) -> Self {
        let config = databases::cassandra_config(settings);
        let command = databases::cassandra_command();
        let command = command.iter().map(String::as_str).collect();
        let mut recipe = Self::reading(command, Some(("cassandra.yaml", &config)));
        recipe.jars = Some(Jars::Cassandra);
        recipe.ready = Some(databases::CASSANDRA_READY);
        recipe.statement = Some(databases::KEYSPACE);
        recipe
    }

    /// The command as a person would type it.
    pub(crate) fn command_line(&self) -> String {
        shell::line(self.command.iter().map(String::as_str))
    }

    fn reading(command: Vec<&str>, file: Option<(&'static str, &String)>) -> Self {
        Self {
            command: command.into_iter().map(str::to_owned).collect(),
            files: file
                .map(|(name, content)| (name.to_owned(), content.clone()))
                .into_iter()
                .collect(),
            packages: None,
            jars: None,
            is_on_socket: false,
            ready: None,
            statement: None,
        }
    }
}

/// The directives that keep nginx out of the directories that all nginx processes of a machine share.
pub(super) fn nginx_temporary(directory: &str) -> String {
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let directives = kinds.map(|kind| format!("{kind}_temp_path {directory}/{kind};"));
    directives.join(" ")
}

/// Fails when a kind of service needs a program that is not installed.
pub(crate) fn require_program(kind: &Kind) -> Result<(), LabError> {
    let needed: &[(&str, &str)] = match kind {
        Kind::Nginx { .. } => &[("nginx", "nginx-light")],
        Kind::HaProxy { .. } => &[("haproxy", "haproxy")],
        Kind::Gunicorn { .. } => &[("python3", "python3-venv")],
        Kind::Kafka | Kind::Cassandra { .. } => {
            &[("java", "default-jre-headless"), ("mvn", "maven")]
        }
        Kind::Postgres { .. } if databases::postgres_programs().is_none() => {
            return Err(LabError::MissingProgram {
                program: "postgres",
                package: "postgresql",
            });
        }
        Kind::Postgres { .. }
        | Kind::App { .. }
        | Kind::Weir { .. }
        | Kind::Command { .. }
        | Kind::Running { .. } => &[],
    };
    let missing = needed
        .iter()
        .find(|(program, _)| find_program(program).is_none());
    match missing {
        None => Ok(()),
        Some(&(program, package)) => Err(LabError::MissingProgram { program, package }),
    }
}

/// The path of a program; a path is taken as it is.
pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories =
        std::env::split_paths(&path).chain(MORE_DIRECTORIES.iter().map(PathBuf::from));
    let mut candidates = directories.map(|directory| directory.join(program));
    candidates.find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command_line(kind: &Kind) -> String {
        Recipe::of("a", kind, true)
            .expect("it is started")
            .command
            .join(" ")
    }

    #[test]
    fn each_kind_has_its_command_line() {
        let config = || "x".to_owned();
        let app = Kind::App {
            threads: 2,
            flags: vec!["--delay".to_owned(), "1ms".to_owned()],
        };
        for (kind, line) in [
            (
                app,
                "{weir} app --listen 127.0.0.1:{port} --name a --threads 2 --delay 1ms",
            ),
            (
                Kind::Weir { config: config() },
                "{weir} serve --config {dir}/weir.toml",
            ),
            (
                Kind::Nginx {
                    config: config(),
                    files: std::collections::BTreeMap::new(),
                },
                "nginx -e stderr -p {dir} -c {dir}/nginx.conf -g daemon off; pid {dir}/nginx.pid; user root;",
            ),
            (
                Kind::HaProxy { config: config() },
                "haproxy -db -f {dir}/haproxy.cfg",
            ),
            (
                Kind::Command {
                    line: "exec a {port}".to_owned(),
                },
                "sh -c exec a {port}",
            ),
        ] {
            assert_eq!(command_line(&kind), line);
        }
    }

    #[test]
    fn programs_are_found_or_not() {
        assert!(find_program("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find_program("no-such-program-anywhere"), None);
    }
}
