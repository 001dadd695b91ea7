#!/usr/bin/env python3
"""What it costs to defer: requests accepted a second, their latency, and CPU microseconds of weir for each, by durability, beside
the same request passed on to a service.

    bench/defer.py --weir target/dist/weir [--rounds 5] [--seconds 4] [--connections 256]

weir, with one worker and the threads of its queue, has CPU 0; `weir load` and the service (nginx, 204) share CPU 1. The body has 200
bytes. Queues are paused, so that what is accepted is measured alone; `group, delivered` delivers meanwhile, and its CPU is for both.
A round runs every variant once, `passed on` first; figures are medians over the rounds, and ratios medians of the ratios within a
round. The disk is that of --directory. Traffic stays on the loopback interface.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from proxy import LOAD_CPU, PROXY_CPU, Server, free_port, machine, nginx, write

VARIANTS = ("passed on", "memory", "os", "group", "each", "group, delivered")
BODY = "x" * 200
TICKS = os.sysconf("SC_CLK_TCK")


def gateway(weir, directory, name, port, admin, origin):
    durability = name.split(",")[0]
    defer = "" if name == "passed on" else 'defer = "q"'
    queue = "" if name == "passed on" else f"""[queue.q]
path = "{directory}/queue"
durability = "{durability}"
size = "64GiB"
"""
    config = write(directory, "weir.toml", f"""[server]
workers = 1
[[listener]]
address = "127.0.0.1:{port}"
[admin]
listen = "127.0.0.1:{admin}"
{queue}[upstream.origin]
servers = ["127.0.0.1:{origin}"]
[[route]]
path = "/{{*rest}}"
{defer}
upstream = "origin"
""")
    return [os.path.abspath(weir), "serve", config]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def ask(admin, path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{admin}{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def load(options, port, seconds, connections):
    with tempfile.NamedTemporaryFile("r", suffix=".json") as report:
        subprocess.run(["taskset", "-c", LOAD_CPU, os.path.abspath(options.weir), "load", f"http://127.0.0.1:{port}/events",
                        "-c", str(connections), "-t", "1", "-d", f"{seconds}s", "-b", BODY, "-q", "--json", report.name],
                       check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return json.load(report)


def sample(options, name, log):
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        origin, port, admin = free_port(), free_port(), free_port()
        service = Server("origin", nginx(directory, "origin", origin, f"""access_log off;
server {{ listen 127.0.0.1:{origin} backlog=4096; location / {{ return 204; }} }}"""), LOAD_CPU, origin, log)
        server = None
        try:
            server = Server(name, gateway(options.weir, directory, name, port, admin, origin), PROXY_CPU, port, log)
            pid = server.process.pid
            if name != "passed on" and not name.endswith("delivered"):
                ask(admin, "/queues/q/pause", b"{}")
            load(options, port, 1, options.connections)
            before = cpu_seconds(pid)
            report = load(options, port, options.seconds, options.connections)
            if name.endswith("delivered"):
                while ask(admin, "/queues")[0]["waiting"] > 0:
                    time.sleep(0.05)
            cpu = cpu_seconds(pid) - before
            good = report["outcomes"]["2xx"]
            if good != report["requests"] or good == 0:
                sys.exit(f"{name}: {report['outcomes']}")
            return {"rate": report["rate"], "cpu_us": cpu / good * 1e6, "p50": report["latency_us"]["p50"],
                    "p99": report["latency_us"]["p99"]}
        finally:
            if server is not None:
                server.stop()
            service.stop()


def sync_us(directory):
    """What an fdatasync of a few bytes takes on this disk, the median of a hundred."""
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        taken = []
        for _ in range(100):
            file.write(b"x" * 512)
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - began) * 1e6)
    return statistics.median(taken)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--weir", required=True)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=int, default=4)
    arguments.add_argument("--connections", type=int, default=256)
    arguments.add_argument("--directory", default=None, help="where queues are, on the disk to measure")
    options = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(machine())
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        print(f"fdatasync: {sync_us(directory):,.0f} µs")
    samples = {name: [] for name in VARIANTS}
    with tempfile.TemporaryFile("w") as log:
        for number in range(options.rounds):
            for name in VARIANTS if number % 2 == 0 else (VARIANTS[0], *reversed(VARIANTS[1:])):
                samples[name].append(sample(options, name, log))
    print(f"\n{options.connections} connections, {options.rounds} rounds of {options.seconds} s\n")
    print("| | requests/s | of memory | CPU µs | of passed on | p50 ms | p99 ms |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, own in samples.items():
        middle = {key: statistics.median(one[key] for one in own) for key in own[0]}
        rate = statistics.median(one["rate"] / other["rate"] for one, other in zip(own, samples["memory"]))
        cpu = statistics.median(one["cpu_us"] / other["cpu_us"] for one, other in zip(own, samples["passed on"]))
        print(f"| {name} | {middle['rate']:,.0f} | {rate:.2f} | {middle['cpu_us']:.1f} | {cpu:.2f} | "
              f"{middle['p50'] / 1e3:.1f} | {middle['p99'] / 1e3:.1f} |")


if __name__ == "__main__":
    main()
