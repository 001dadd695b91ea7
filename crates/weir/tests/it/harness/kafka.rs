//! A real broker of Kafka with nothing shared, which is its own controller (`KRaft`).

use std::net::SocketAddr;

use super::java::class_path;
use super::process::Process;
use super::tool::run;
use super::{Directory, free_port, wait_until};

/// Any will do.
const CLUSTER: &str = "MkU3OEVBNTcwNTJENDM2Qg";
/// Quick to start, and small. No speed is measured with it.
const FLAGS: [&str; 4] = [
    "-Xms64m",
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
];

/// A broker, which can be killed and started again.
#[derive(Debug)]
pub(crate) struct Kafka {
    address: SocketAddr,
    controller: SocketAddr,
    directory: Directory,
    process: Option<Process>,
}

impl Kafka {
    pub(crate) fn start() -> Self {
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let mut kafka = Self {
            address: local(free_port()),
            controller: local(free_port()),
            directory: Directory::new(),
            process: None,
        };
        let properties = kafka.write_properties();
        let format = [
            "kafka.tools.StorageTool",
            "format",
            "-t",
            CLUSTER,
            "-c",
            &properties,
        ];
        run(
            "java",
            &[&FLAGS[..], &["-cp", &class_path("kafka")], &format].concat(),
        );
        kafka.restart();
        kafka
    }

    fn write_properties(&self) -> String {
        let (address, controller) = (self.address, self.controller);
        let logs = self.directory.file("logs");
        let text = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@{controller}\n\
             listeners=PLAINTEXT://{address},CONTROLLER://{controller}\nadvertised.listeners=PLAINTEXT://{address}\n\
             controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAINTEXT\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\nlog.dirs={}\nnum.partitions=3\n\
             offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\ntransaction.state.log.replication.factor=1\n\
             transaction.state.log.min.isr=1\ngroup.initial.rebalance.delay.ms=0\n",
            logs.display()
        );
        let path = self.directory.write("server.properties", text);
        path.to_str().expect("UTF-8").to_owned()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
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
        let properties = self.write_properties();
        let class_path = class_path("kafka");
        let main = ["-cp", &class_path, "kafka.Kafka", &properties];
        let flags = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=info"];
        let arguments = [&FLAGS[..], &flags, &main].concat();
        let process = Process::start("java", &arguments, &self.directory);
        wait_until("Kafka starts", || {
            process.output().contains("Kafka Server started")
        });
        self.process = Some(process);
    }

    /// All records of a topic, a line of JSON for each, as a client of Kafka's prints them that is not ours.
    pub(crate) fn records(&self, topic: &str) -> Vec<serde_json::Value> {
        let address = self.address.to_string();
        let arguments = [
            "-C",
            "-b",
            &address,
            "-t",
            topic,
            "-e",
            "-o",
            "beginning",
            "-J",
            "-q",
        ];
        let printed = run("kcat", &arguments).stdout;
        let lines = printed.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }
}
