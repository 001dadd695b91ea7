"""A node of Cassandra with nothing shared, for benchmarks: compiled and collected as it comes, unlike the one of the tests."""
import os
import pathlib
import subprocess
import sys
import time

from proxy import Server, free_port, write

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERSION = "5.0.5"
# What Cassandra 5 opens of Java 17 (its `jvm17-server.options`).
EXPORTS = ("java.base/jdk.internal.misc", "java.management.rmi/com.sun.jmx.remote.internal.rmi", "java.rmi/sun.rmi.registry",
           "java.rmi/sun.rmi.server", "java.rmi/sun.rmi.transport.tcp", "java.sql/java.sql", "java.base/java.lang.ref",
           "jdk.unsupported/sun.misc")
OPENS = ("java.base/java.io", "java.base/java.lang", "java.base/java.lang.module", "java.base/java.net", "java.base/java.nio",
         "java.base/java.util", "java.base/java.util.concurrent", "java.base/jdk.internal.loader", "java.base/jdk.internal.ref",
         "java.base/jdk.internal.reflect", "java.base/jdk.internal.math", "java.base/jdk.internal.module",
         "java.base/jdk.internal.util.jar", "java.base/sun.nio.ch", "jdk.management/com.sun.management.internal")


def settings(directory, port, storage):
    return f"""cluster_name: bench
num_tokens: 1
initial_token: "0"
allocate_tokens_for_local_replication_factor: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
auto_bootstrap: false
endpoint_snitch: SimpleSnitch
data_file_directories: ["{directory}/data"]
commitlog_directory: {directory}/commitlog
hints_directory: {directory}/hints
saved_caches_directory: {directory}/caches
cdc_raw_directory: {directory}/cdc
commitlog_sync: periodic
commitlog_sync_period: 10000ms
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
native_transport_port: {port}
storage_port: {storage}
start_native_transport: true
seed_provider: [{{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{{seeds: "127.0.0.1:{storage}"}}]}}]
"""


def start(directory, log):
    """Starts a node and waits until it is complete."""
    fetched = subprocess.run([ROOT / "scripts/services", "cassandra"], check=True, stdout=subprocess.PIPE, text=True).stdout
    libraries = f"{fetched.strip()}/libs"
    directory = f"{directory}/cassandra"
    os.mkdir(directory)
    port = free_port()
    config = write(directory, "cassandra.yaml", settings(directory, port, free_port()))
    of_java = [f"-D{name}" for name in (
        "jdk.attach.allowAttachSelf=true", f"cassandra.config=file://{config}", f"cassandra.storagedir={directory}",
        f"cassandra.logdir={directory}", f"cassandra.jmx.local.port={free_port()}", f"java.io.tmpdir={directory}",
        f"jna.tmpdir={directory}", "cassandra-foreground=yes", "cassandra.skip_wait_for_gossip_to_settle=0",
        "cassandra.ring_delay_ms=1000", "cassandra.superuser_setup_delay_ms=0", "cassandra.consistent.rangemovement=false")]
    for option, packages in (("--add-exports", EXPORTS), ("--add-opens", OPENS)):
        for package in packages:
            of_java += [option, f"{package}=ALL-UNNAMED"]
    command = ["java", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC", f"-javaagent:{libraries}/jamm-0.4.0.jar", *of_java, "-cp", f"{libraries}/*",
               "org.apache.cassandra.service.CassandraDaemon"]
    with open(f"{directory}/output", "w", encoding="utf-8") as output:
        server = Server("cassandra", command, f"0-{os.cpu_count() - 1}", port, output, seconds=60)
    # The port is open before it is complete.
    for _ in range(600):
        with open(f"{directory}/output", encoding="utf-8") as output:
            if "Startup complete" in output.read():
                return server
        time.sleep(0.1)
    server.stop()
    with open(f"{directory}/output", encoding="utf-8") as output:
        log.write(output.read())
    return sys.exit(f"Cassandra does not start; its output is in {log.name}")
