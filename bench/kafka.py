#!/usr/bin/env python3
"""What an accepted event costs, beside a service that produces it to Kafka: accepted requests for each CPU second, over all
processes but the load generator.

    bench/kafka.py --weir target/dist/weir [--rounds 3] [--seconds 8] [--connections 256]

- producer, kafka-go: weir passes the request on to a service in Go (bench/producer) that produces it with acks=all and answers 202 then
- producer, librdkafka: the same in Rust (`weir app --kafka`), the least that we know such a service to cost
- deferred: weir keeps it (`durability = "group"`) and answers 202; nothing is delivered
- deferred, then Kafka: the same, and a sink produces to the same broker meanwhile, until it has everything

One broker of Kafka (KRaft, one replica, its own settings), which `scripts/services kafka` fetches. weir has one worker; no process is
bound to a CPU. The body has 200 bytes. A round runs every variant once; figures are medians over the rounds, and ratios medians of
the ratios within a round. Kafka is warmed up with --warm-up seconds of a producer. Needs java, mvn and go. Traffic stays on the loopback
interface.
"""
import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from defer import ask, cpu_seconds, load, sync_us
from proxy import Server, free_port, machine, write

PRODUCERS = ("producer, kafka-go", "producer, librdkafka")
VARIANTS = (*PRODUCERS, "deferred", "deferred, then Kafka")
ROOT = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
ANY_CPU = f"0-{os.cpu_count() - 1}"


class Kafka:
    """A broker that is its own controller."""

    def __init__(self, directory, log):
        services = subprocess.run([ROOT / "scripts/services", "kafka"], check=True, capture_output=True, text=True).stdout.strip()
        classes, self.port, controller = f"{services}/libs/*", free_port(), free_port()
        properties = write(directory, "server.properties", f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={directory}/kafka
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
""")
        subprocess.run(["java", "-cp", classes, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", properties],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.server = Server("kafka", ["java", "-Xms1g", "-Xmx1g", "-cp", classes, "kafka.Kafka", properties], ANY_CPU, self.port, log)
        time.sleep(3)


def gateway(weir, directory, name, ports, kafka):
    port, admin, app = ports
    is_passed_on = name in PRODUCERS
    sink = f"""[queue.q.sink.bus]
kafka = {{ brokers = ["127.0.0.1:{kafka}"], topic = "deferred" }}
""" if "then Kafka" in name else ""
    queue = "" if is_passed_on else f"""[queue.q]
path = "{directory}/queue"
size = "64GiB"
{sink}"""
    defer = "" if is_passed_on else 'defer = "q"'
    config = write(directory, "weir.toml", f"""[server]
workers = 1
[[listener]]
address = "127.0.0.1:{port}"
[admin]
listen = "127.0.0.1:{admin}"
{queue}[upstream.app]
servers = ["127.0.0.1:{app}"]
[[route]]
path = "/events"
{'rewrite = "/produce"' if is_passed_on else ""}
{defer}
upstream = "app"
""")
    return [os.path.abspath(weir), "serve", config]


def sample(options, name, kafka, log, seconds):
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        ports = port, admin, app = free_port(), free_port(), free_port()
        weir = os.path.abspath(options.weir)
        topic = f"127.0.0.1:{kafka.port}", "produced"
        service = [options.producer, f"127.0.0.1:{app}", *topic] if "kafka-go" in name else [
            weir, "app", "--listen", f"127.0.0.1:{app}", "--threads", "2", "--kafka", "/".join(topic)]
        servers = []
        try:
            servers.append(Server("app", service, ANY_CPU, app, log))
            servers.append(Server(name, gateway(weir, directory, name, ports, kafka.port), ANY_CPU, port, log))
            if name not in PRODUCERS:
                ask(admin, "/queues/q/pause", b"{}")
            load(options, port, 1, options.connections)
            pids = [server.process.pid for server in (*servers, kafka.server)]
            settle(admin, name)
            before = sum(map(cpu_seconds, pids))
            report = load(options, port, seconds, options.connections)
            settle(admin, name)
            cpu = sum(map(cpu_seconds, pids)) - before
            good = report["outcomes"]["2xx"]
            if good != report["requests"] or good == 0:
                sys.exit(f"{name}: {report['outcomes']}")
            return {"rate": report["rate"], "per_cpu": good / cpu, "p50": report["latency_us"]["p50"], "p99": report["latency_us"]["p99"]}
        finally:
            for server in reversed(servers):
                server.stop()


def settle(admin, name):
    """Waits until a sink has everything."""
    while "then Kafka" in name and ask(admin, "/queues")[0]["sinks"][0]["waiting"] > 0:
        time.sleep(0.05)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--weir", required=True)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--seconds", type=int, default=8)
    arguments.add_argument("--warm-up", type=int, default=15)
    arguments.add_argument("--connections", type=int, default=256)
    arguments.add_argument("--directory", default=None, help="where queues and Kafka's log are, on the disk to measure")
    options = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(machine())
    with tempfile.TemporaryDirectory(dir=options.directory) as directory, tempfile.TemporaryFile("w") as log:
        print(f"fdatasync: {sync_us(directory):,.0f} µs")
        options.producer = f"{directory}/producer"
        subprocess.run(["go", "build", "-o", options.producer, "."], check=True, cwd=ROOT / "bench/producer")
        kafka = Kafka(directory, log)
        try:
            sample(options, PRODUCERS[1], kafka, log, options.warm_up)
            samples = {name: [] for name in VARIANTS}
            for number in range(options.rounds):
                for name in VARIANTS if number % 2 == 0 else reversed(VARIANTS):
                    samples[name].append(sample(options, name, kafka, log, options.seconds))
        finally:
            kafka.server.stop()
    print(f"\n{options.connections} connections, {options.rounds} rounds of {options.seconds} s\n")
    print("| | accepted/s | p50 ms | p99 ms | accepted per CPU second | of kafka-go | of librdkafka |\n"
          "| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, own in samples.items():
        middle = {key: statistics.median(one[key] for one in own) for key in own[0]}
        go, rust = (statistics.median(one["per_cpu"] / other["per_cpu"] for one, other in zip(own, samples[producer])) for producer in PRODUCERS)
        print(f"| {name} | {middle['rate']:,.0f} | {middle['p50'] / 1e3:.1f} | {middle['p99'] / 1e3:.1f} | "
              f"{middle['per_cpu']:,.0f} | {go:.1f} × | {rust:.1f} × |")


if __name__ == "__main__":
    main()
