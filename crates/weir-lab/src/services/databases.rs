//! How databases are started: Postgres from Debian's packages, Cassandra from its jars, both alone and with nothing shared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Where Debian has the programs of a server, which are in nobody's path.
const POSTGRES: &str = "/usr/lib/postgresql";
/// What Postgres prints when it takes connections.
pub(super) const POSTGRES_READY: &str = "database system is ready to accept connections";
/// What Cassandra prints then.
pub(super) const CASSANDRA_READY: &str = "Startup complete";
/// Tables of weir are in it.
pub(super) const KEYSPACE: &str =
    "CREATE KEYSPACE weir WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// What Cassandra 5 opens of Java 17 (its `jvm17-server.options`).
const EXPORTS: [&str; 8] = [
    "java.base/jdk.internal.misc",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "java.base/java.lang.ref",
    "jdk.unsupported/sun.misc",
];
const OPENS: [&str; 15] = [
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
];

/// The directory of the programs of the newest Postgres, if there is one.
pub(super) fn postgres_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir(POSTGRES).ok()?;
    let programs = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    programs.filter(|bin| bin.join("initdb").is_file()).max()
}

/// A server with a new database, whose superuser is `weir`. It does not run as root: then it is the user `postgres`, who must get
/// to its directory.
pub(super) fn postgres_line(settings: &BTreeMap<String, String>, is_root: bool) -> String {
    let programs = postgres_programs().unwrap_or_else(|| PathBuf::from(POSTGRES));
    let programs = programs.display();
    let mut line = String::from("mkdir '{dir}/data' && ");
    if is_root {
        line.push_str("chmod 711 '{dir}' '{dir}/..' && chown postgres:postgres '{dir}/data' && ");
    }
    let user = if is_root {
        "setpriv --reuid=postgres --regid=postgres --clear-groups -- "
    } else {
        ""
    };
    let _ = write!(
        line,
        "{user}{programs}/initdb -A trust --locale=C --no-sync -U weir -D '{{dir}}/data' && \
         exec {user}{programs}/postgres -D '{{dir}}/data' -p {{port}} -h 127.0.0.1 -c unix_socket_directories="
    );
    for (name, value) in settings {
        let _ = write!(line, " -c {name}={value}");
    }
    line
}

/// One node with a gigabyte of heap.
pub(super) fn cassandra_command() -> Vec<String> {
    let fixed = [
        "java",
        "-Xms1g",
        "-Xmx1g",
        "-Djdk.attach.allowAttachSelf=true",
        "-javaagent:{jars}/jamm-0.4.0.jar",
        "-Dcassandra.config=file://{dir}/cassandra.yaml",
        "-Dcassandra.storagedir={dir}",
        "-Dcassandra.logdir={dir}",
        "-Dcassandra.jmx.local.port={inner}",
        "-Dcassandra-foreground=yes",
        "-Dcassandra.skip_wait_for_gossip_to_settle=0",
        "-Dcassandra.ring_delay_ms=1000",
        "-Dcassandra.superuser_setup_delay_ms=0",
        "-Dcassandra.consistent.rangemovement=false",
        "-Djava.io.tmpdir={dir}",
        "-Djna.tmpdir={dir}",
    ];
    let mut command = fixed.map(str::to_owned).to_vec();
    let modules = |flag: &str, packages: &[&str]| -> Vec<String> {
        let packages = packages.iter();
        packages
            .flat_map(|package| [flag.to_owned(), format!("{package}=ALL-UNNAMED")])
            .collect()
    };
    command.extend(modules("--add-exports", &EXPORTS));
    command.extend(modules("--add-opens", &OPENS));
    let main = [
        "-cp",
        "{jars}/*",
        "org.apache.cassandra.service.CassandraDaemon",
    ];
    command.extend(main.map(str::to_owned));
    command
}

/// Its `cassandra.yaml`.
pub(super) fn cassandra_config(settings: &BTreeMap<String, String>) -> String {
    let mut config = String::from(
        "cluster_name: weir
num_tokens: 1
initial_token: \"0\"
allocate_tokens_for_local_replication_factor: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
auto_bootstrap: false
endpoint_snitch: SimpleSnitch
data_file_directories: [\"{dir}/data\"]
commitlog_directory: {dir}/commitlog
hints_directory: {dir}/hints
saved_caches_directory: {dir}/caches
cdc_raw_directory: {dir}/cdc
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
native_transport_port: {port}
storage_port: {storage}
start_native_transport: true
seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{seeds: \"127.0.0.1:{storage}\"}]}]
",
    );
    for (name, value) in settings {
        let _ = writeln!(config, "{name}: {value}");
    }
    config
}
