#!/usr/bin/env python3
"""What a backlog costs: how long a start takes, how much memory, and how many requests are accepted, beside an empty queue.

    bench/backlog.py --weir target/dist/weir [--gigabytes 10] [--directory DIR]

A queue is filled with messages of 64 KiB while it is paused, in a directory of its own. Then weir is killed and started again, three
times: until it answers, its memory, and the rate of 200-byte requests on 256 connections, each beside a weir with an empty queue.
Then the service is there, and what is delivered in ten seconds is counted with the memory that it takes. weir has CPU 0, `weir load`
and the service CPU 1.
"""
import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from defer import ask, load
from proxy import LOAD_CPU, PROXY_CPU, free_port, machine, nginx, Server, write


def config(directory, name, port, admin, origin):
    return write(directory, f"{name}.toml", f"""[server]
workers = 1
[[listener]]
address = "127.0.0.1:{port}"
[admin]
listen = "127.0.0.1:{admin}"
[queue.q]
path = "{directory}/{name}"
size = "64GiB"
[upstream.origin]
servers = ["127.0.0.1:{origin}"]
[[route]]
path = "/{{*rest}}"
defer = {{ queue = "q", key = "header:x-key" }}
upstream = "origin"
""")


class Weir:
    """A weir that runs, and how long it took until it answered."""

    def __init__(self, options, path, port, admin):
        began = time.perf_counter()
        self.process = subprocess.Popen(["taskset", "-c", PROXY_CPU, os.path.abspath(options.weir), "serve", path],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.port, self.admin = port, admin
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if self.process.poll() is not None or time.perf_counter() - began > 60:
                sys.exit("weir does not start")
            time.sleep(0.002)
        self.started = time.perf_counter() - began

    def resident_mib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as status:
            line = next(line for line in status if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def kill(self):
        self.process.kill()
        self.process.wait()


def fill(options, weir, bytes_wanted):
    """Fills the queue with messages of 64 KiB."""
    with tempfile.NamedTemporaryFile("w") as body, tempfile.NamedTemporaryFile("r", suffix=".json") as report:
        body.write("x" * (64 << 10))
        body.flush()
        while ask(weir.admin, "/queues")[0]["bytes"] < bytes_wanted:
            subprocess.run([os.path.abspath(options.weir), "load", f"http://127.0.0.1:{weir.port}/", "-c", "32", "-d", "5s", "-b",
                            f"@{body.name}", "-H", "x-key: {rand:1..10000}", "-q", "--json", report.name],
                           check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--weir", required=True)
    arguments.add_argument("--gigabytes", type=float, default=10)
    arguments.add_argument("--directory", default=None)
    options = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(machine())
    figures = {"empty": [], "backlog": []}
    with tempfile.TemporaryDirectory(dir=options.directory) as directory, tempfile.TemporaryFile("w") as log:
        origin, ports = free_port(), {}
        paths = {}
        for name in figures:
            ports[name] = (free_port(), free_port())
            paths[name] = config(directory, name, *ports[name], origin)
        weir = Weir(options, paths["backlog"], *ports["backlog"])
        ask(weir.admin, "/queues/q/pause", b"{}")
        fill(options, weir, options.gigabytes * 1e9)
        weir.kill()
        for number in range(3):
            for name in figures if number % 2 == 0 else reversed(figures):
                weir = Weir(options, paths[name], *ports[name])
                ask(weir.admin, "/queues/q/pause", b"{}")
                report = load(options, weir.port, 4, 256)
                figures[name].append((weir.started, weir.resident_mib(), report["rate"], report["latency_us"]["p99"] / 1e3))
                backlog = ask(weir.admin, "/queues")[0]
                weir.kill()
            print(f"round {number + 1}: {backlog['waiting']:,} wait, {backlog['bytes'] / 1e9:.1f} GB", flush=True)
        service = Server("origin", nginx(directory, "origin", origin, f"""access_log off;
server {{ listen 127.0.0.1:{origin} backlog=4096; client_max_body_size 1m; location / {{ return 204; }} }}"""), LOAD_CPU, origin, log)
        weir = Weir(options, paths["backlog"], *ports["backlog"])
        ask(weir.admin, "/queues/q/resume", b"{}")
        before = ask(weir.admin, "/queues")[0]["delivered"]
        most = 0
        for _ in range(100):
            time.sleep(0.1)
            most = max(most, weir.resident_mib())
        delivered = ask(weir.admin, "/queues")[0]["delivered"] - before
        weir.kill()
        service.stop()
    print("\n| | start s | memory MiB | accepted/s | p99 ms |\n| --- | ---: | ---: | ---: | ---: |")
    for name, rounds in figures.items():
        started, memory, rate, p99 = (statistics.median(column) for column in zip(*rounds))
        print(f"| {name} | {started:.2f} | {memory:.0f} | {rate:,.0f} | {p99:.1f} |")
    print(f"\ndelivered in 10 s: {delivered:,}, at most {most:.0f} MiB")


if __name__ == "__main__":
    main()
