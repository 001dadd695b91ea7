//! A real node of Cassandra with nothing shared. A write is on its disk before it is acknowledged, which is not its default.

use std::net::SocketAddr;

use super::java::class_path;
use super::process::Process;
use super::{Directory, free_port, wait_until};

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

/// A node, which can be killed and started again.
#[derive(Debug)]
pub(crate) struct Cassandra {
    address: SocketAddr,
    storage: u16,
    directory: Directory,
    process: Option<Process>,
}

impl Cassandra {
    pub(crate) fn start() -> Self {
        let mut cassandra = Self {
            address: SocketAddr::from(([127, 0, 0, 1], free_port())),
            storage: free_port(),
            directory: Directory::new(),
            process: None,
        };
        cassandra.restart();
        cassandra
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    fn write_settings(&self) -> String {
        let directory = self.directory.file("data");
        let directory = directory.display();
        let (port, storage) = (self.address.port(), self.storage);
        let text = format!(
            "cluster_name: weir\nnum_tokens: 1\ninitial_token: \"0\"\nallocate_tokens_for_local_replication_factor: 1\n\
             partitioner: org.apache.cassandra.dht.Murmur3Partitioner\nauto_bootstrap: false\nendpoint_snitch: SimpleSnitch\n\
             data_file_directories: [\"{directory}/data\"]\ncommitlog_directory: {directory}/commitlog\nhints_directory: {directory}/hints\n\
             saved_caches_directory: {directory}/caches\ncdc_raw_directory: {directory}/cdc\n\
             commitlog_sync: batch\nlisten_address: 127.0.0.1\nrpc_address: 127.0.0.1\n\
             native_transport_port: {port}\nstorage_port: {storage}\nstart_native_transport: true\n\
             seed_provider: [{{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{{seeds: \"127.0.0.1:{storage}\"}}]}}]\n"
        );
        let path = self.directory.write("cassandra.yaml", text);
        path.to_str().expect("UTF-8").to_owned()
    }

    /// Ends it as a crash would, if it runs.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// As after a crash.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let settings = self.write_settings();
        let class_path = class_path("cassandra");
        let libraries = class_path.trim_end_matches('*');
        let directory = self.directory.file("data");
        let directory = directory.display();
        std::fs::create_dir_all(self.directory.file("data")).expect("it can be made");
        let mut arguments = vec![
            "-Xms512m".to_owned(),
            "-Xmx512m".to_owned(),
            "-XX:+UseSerialGC".to_owned(),
            "-XX:TieredStopAtLevel=1".to_owned(),
            "-Djdk.attach.allowAttachSelf=true".to_owned(),
            format!("-javaagent:{libraries}jamm-0.4.0.jar"),
            format!("-Dcassandra.config=file://{settings}"),
            format!("-Dcassandra.storagedir={directory}"),
            format!("-Dcassandra.logdir={directory}"),
            format!("-Dcassandra.jmx.local.port={}", free_port()),
            format!("-Djava.io.tmpdir={directory}"),
            format!("-Djna.tmpdir={directory}"),
        ];
        for quick in [
            "foreground=yes",
            "skip_wait_for_gossip_to_settle=0",
            "ring_delay_ms=1000",
            "superuser_setup_delay_ms=0",
            "consistent.rangemovement=false",
        ] {
            arguments.push(format!(
                "-Dcassandra{}{quick}",
                if quick == "foreground=yes" { "-" } else { "." }
            ));
        }
        for package in EXPORTS {
            arguments.extend(["--add-exports".to_owned(), format!("{package}=ALL-UNNAMED")]);
        }
        for package in OPENS {
            arguments.extend(["--add-opens".to_owned(), format!("{package}=ALL-UNNAMED")]);
        }
        let main = "org.apache.cassandra.service.CassandraDaemon";
        arguments.extend(["-cp".to_owned(), class_path, main.to_owned()]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut process = Process::start("java", &arguments, &self.directory);
        wait_until("Cassandra starts", || {
            assert!(
                process.is_running(),
                "Cassandra has ended: {}",
                process.output()
            );
            process.output().contains("Startup complete")
        });
        self.process = Some(process);
    }
}
