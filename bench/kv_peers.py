#!/usr/bin/env python3
"""What an operation on the store costs beside etcd, Cassandra and Redis: CPU microseconds of the process that keeps the data.

    bench/kv_peers.py --weir target/dist/weir [--front target/release/examples/redis_front] [--rounds 3] [--seconds 5]
                      [--connections 64] [--peers etcd,cassandra,redis]

One node each, values of 1 KiB, keys at random out of 5,000. What a write survives is alike in each comparison: a crash of the machine for etcd
and `durability = "group"`; the end of the process for `durability = "os"`, Cassandra with `commitlog_sync: periodic`, and Redis with
`appendonly yes, appendfsync no`.

Each is asked as its users do: weir by HTTP (`weir load`), etcd by gRPC, Cassandra by CQL with prepared statements, Redis by its own
protocol, from bench/peers. So weir's figure has the HTTP, and that of Redis has none; `Redis, by HTTP` is the same Redis behind the gateway and the
smallest service that asks it (the example redis_front of weir-gateway), and the figure is that of both processes. Reads of etcd are of one
node, without a round of consensus. The load generator's CPU time is not counted; nor is that of the kernel's own threads, which write to the disk later.

All run from the beginning; a round measures each in turn, and the order is reversed from round to round. Figures are medians over the
rounds, ratios medians of the ratios within a round. Cassandra is warmed up with --warm-up seconds of each operation, since its
compiler takes a while. Needs go, etcd and redis-server, and for Cassandra java and mvn. Traffic stays on the loopback interface.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

import cassandra
from kv import ANY_CPU, KEYS, RANDOM, Gateway, asked, fill, store
from proxy import Server, free_port, machine, write

ROOT = pathlib.Path(__file__).resolve().parent.parent
VALUE_BYTES = 1024
TICKS = os.sysconf("SC_CLK_TCK")
# Which weir survives as much.
COMPARED = {"etcd": "weir, group", "Cassandra": "weir, os", "Redis": "weir, os", "Redis, by HTTP": "weir, os"}


def cpu_us(processes):
    """CPU time of processes with that of threads that have ended, which machines for Java have many of."""
    ticks = 0
    for process in processes:
        with open(f"/proc/{process.pid}/stat", encoding="utf-8") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks * 1e6 / TICKS


class Weir:
    def __init__(self, options, directory, durability, log):
        config = store(directory, f"weir-{durability}", durability=durability)
        self.options = options
        self.gateway = Gateway(options, directory, f"weir-{durability}", config, log)
        self.processes, self.stop = [self.gateway.server.process], self.gateway.server.stop
        self.value = write(directory, "value", "x" * VALUE_BYTES)
        fill(options, self.gateway.port, self.value)

    def run(self, operation, seconds):
        return asked(self.options, self.gateway, f"/v0/entity?id={RANDOM}", self.value if operation == "put" else None)(seconds)


class Peer:
    """A store that bench/peers asks."""

    def __init__(self, options, kind, server):
        self.options, self.kind, self.address = options, kind, f"127.0.0.1:{server.port}"
        self.processes, self.stop = [server.process], server.stop
        self.ask("put", 0)

    def ask(self, operation, seconds):
        command = [self.options.client, self.kind, self.address, operation, KEYS, VALUE_BYTES, self.options.connections, seconds]
        return int(subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout)

    def run(self, operation, seconds):
        return self.ask(operation, seconds)


def etcd(options, directory, log):
    port, peers = free_port(), free_port()
    own, others = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
    command = ["etcd", "--data-dir", f"{directory}/etcd", "--listen-client-urls", own, "--advertise-client-urls", own, "--listen-peer-urls",
               others, "--initial-advertise-peer-urls", others, "--initial-cluster", f"default={others}"]
    return Peer(options, "etcd", Server("etcd", command, ANY_CPU, port, log))


def redis_server(directory, name, log):
    port = free_port()
    os.mkdir(f"{directory}/{name}")
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", f"{directory}/{name}", "--appendonly", "yes",
               "--appendfsync", "no", "--save", ""]
    return Server(name, command, ANY_CPU, port, log)


class Front:
    """Redis behind the gateway, asked as weir is."""

    def __init__(self, options, directory, log):
        self.options, self.behind, self.port = options, redis_server(directory, "redis-behind", log), free_port()
        command = [os.path.abspath(options.front), f"127.0.0.1:{self.port}", f"127.0.0.1:{self.behind.port}"]
        self.server = Server("redis_front", command, ANY_CPU, self.port, log)
        self.processes = [self.server.process, self.behind.process]
        self.value = write(directory, "value-behind", "x" * VALUE_BYTES)
        fill(options, self.port, self.value)

    def run(self, operation, seconds):
        return asked(self.options, self, f"/v0/entity?id={RANDOM}", self.value if operation == "put" else None)(seconds)

    def stop(self):
        self.server.stop()
        self.behind.stop()


def start(options, directory, log):
    """Starts each of them."""
    yield "weir, os", Weir(options, directory, "os", log)
    yield "weir, group", Weir(options, directory, "group", log)
    if "etcd" in options.peers:
        yield "etcd", etcd(options, directory, log)
    if "cassandra" in options.peers:
        peer = Peer(options, "cassandra", cassandra.start(directory, log))
        for operation in ("put", "get"):
            peer.run(operation, options.warm_up)
        yield "Cassandra", peer
    if "redis" in options.peers:
        yield "Redis", Peer(options, "redis", redis_server(directory, "redis", log))
        if options.front:
            yield "Redis, by HTTP", Front(options, directory, log)


def sample(one, operation, seconds):
    """Operations a second, and CPU microseconds of each."""
    before, began = cpu_us(one.processes), time.monotonic()
    count = one.run(operation, seconds)
    return count / (time.monotonic() - began), (cpu_us(one.processes) - before) / count


def table(samples, operation):
    print(f"\n| {operation} | operations/s | CPU µs | weir costs |\n| --- | ---: | ---: | ---: |")
    for name, rounds in samples.items():
        rate, cost = (statistics.median(one[operation][part] for one in rounds) for part in (0, 1))
        ratio = statistics.median(own[operation][1] / one[operation][1] for own, one in zip(samples[COMPARED.get(name, name)], rounds))
        told = f"{ratio:.2f} × ({COMPARED[name].removeprefix('weir, ')})" if name in COMPARED else ""
        print(f"| {name} | {rate:,.0f} | {cost:.1f} | {told} |")


def versions(peers):
    commands = {"etcd": ["etcd", "--version"], "redis": ["redis-server", "--version"]}
    for name, command in commands.items():
        if name in peers:
            yield f"{name} {re.search(r'[0-9]+[.][0-9.]+', subprocess.run(command, capture_output=True, text=True, check=True).stdout)[0]}"
    if "cassandra" in peers:
        yield f"Cassandra {cassandra.VERSION}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True)
    parser.add_argument("--front", help="the example redis_front of weir-gateway; without it, its line is left out")
    parser.add_argument("--peers", default="etcd,cassandra,redis")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=20)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--directory", help="where the stores are; its disk counts")
    options = parser.parse_args()
    options.peers = options.peers.split(",")
    samples, stores = {}, {}
    with tempfile.TemporaryDirectory(dir=options.directory, ignore_cleanup_errors=True) as directory, \
            tempfile.NamedTemporaryFile("w", suffix=".log", delete=False) as log:
        options.client = f"{directory}/peers"
        subprocess.run(["go", "build", "-o", options.client, "."], check=True, cwd=ROOT / "bench/peers")
        try:
            for name, one in start(options, directory, log):
                stores[name], samples[name] = one, []
            for number in range(options.rounds):
                for name in stores if number % 2 == 0 else reversed(stores):
                    samples[name].append({operation: sample(stores[name], operation, options.seconds) for operation in ("get", "put")})
        finally:
            for one in stores.values():
                one.stop()
    print(f"{machine()}, {', '.join(versions(options.peers))}, {options.connections} connections, {options.rounds} rounds of {options.seconds} s")
    for operation in ("get", "put"):
        table(samples, operation)


if __name__ == "__main__":
    main()
