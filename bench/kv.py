#!/usr/bin/env python3
"""What an operation on the key-value store costs: CPU microseconds of all weir processes, beside a cached object of the same gateway.

    bench/kv.py --weir target/dist/weir [--rounds 3] [--seconds 3] [--connections 64]

- cached: the gateway answers from its cache in memory
- get, put: a store of one node, values of 1 KiB, keys at random out of 5,000, `durability = "os"`
- of three, get 1/1: one node of three is asked; two thirds of the keys are on others
- of three, get 2/3 and put 2/3: all three are asked, two have to answer

Each node has one worker; no process is bound to a CPU, and the load generator shares them. Three nodes on one machine are a topology, so the
figure is CPU time. A round runs everything once; figures are medians over the rounds, ratios medians of the ratios within a round. Traffic stays
on the loopback interface.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from proxy import Server, free_port, machine, write

KEYS = "key{rand:1..5000}"
ANY_CPU = f"0-{os.cpu_count() - 1}"
ROUTE = '[[route]]\npath = "/v0/{*rest}"\nkv = true\n'


class Gateway:
    """weir with some configuration."""

    def __init__(self, options, directory, name, config, log):
        self.port = free_port()
        head = f'[server]\nworkers = 1\n[[listener]]\naddress = "127.0.0.1:{self.port}"\n'
        path = write(directory, f"{name}.toml", head + config)
        self.server = Server(name, [os.path.abspath(options.weir), "serve", path], ANY_CPU, self.port, log)


def store(directory, name, more=""):
    return f'[kv]\nengine = {{ path = "{directory}/{name}", durability = "os" }}\n{more}{ROUTE}'


def load(options, port, target, seconds, put=None):
    more = ["--method", "PUT", "--body", f"@{put}"] if put else []
    with tempfile.NamedTemporaryFile("r", suffix=".json") as report:
        subprocess.run([os.path.abspath(options.weir), "load", f"http://127.0.0.1:{port}{target}", "-c", str(options.connections),
                        "-d", f"{seconds}s", "-q", "--json", report.name, *more],
                       check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return json.load(report)


def sample(options, gateways, target, put=None):
    """Requests a second, and CPU microseconds of each, of all these gateways; the first one is asked."""
    load(options, gateways[0].port, target, 1, put)
    before = sum(gateway.server.cpu_us() for gateway in gateways)
    report = load(options, gateways[0].port, target, options.seconds, put)
    cpu_us = sum(gateway.server.cpu_us() for gateway in gateways) - before
    good = report["outcomes"]["2xx"]
    if good != report["requests"] or good == 0:
        sys.exit(f"{target}: {report['outcomes']}")
    return report["rate"], cpu_us / good


def measured_round(options, log):
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        value = write(directory, "value", "x" * 1024)
        gateways = []

        def start(name, config):
            gateways.append(Gateway(options, directory, name, config, log))
            return gateways[-1]

        try:
            app = free_port()
            gateways.append(argparse.Namespace(server=Server(
                "app", [os.path.abspath(options.weir), "app", "--listen", f"127.0.0.1:{app}"], ANY_CPU, app, log)))
            cached = start("cached", f'[upstream.app]\nservers = ["127.0.0.1:{app}"]\n[[route]]\npath = "/"\nupstream = "app"\ncache = {{ ttl = "1h" }}\n')
            alone = start("alone", store(directory, "alone"))
            nodes = [f"127.0.0.1:{free_port()}" for _ in range(3)]
            three = [start(f"node-{number}", store(directory, f"node-{number}", f'node = "{node}"\nnodes = {json.dumps(nodes)}\n'))
                     for number, node in enumerate(nodes)]
            entity = f"/v0/entity?id={KEYS}"
            every = "/v0/entity?id=key{seq}"
            for gateway, target in ((alone, every), (three[0], every), (three[0], f"{every}&ack=1&from=1")):
                load(options, gateway.port, target, 2, value)
            return {
                "cached": sample(options, [cached], "/"),
                "get": sample(options, [alone], entity),
                "put": sample(options, [alone], entity, value),
                "of three, get 1/1": sample(options, three, f"{entity}&ack=1&from=1"),
                "of three, get 2/3": sample(options, three, entity),
                "of three, put 2/3": sample(options, three, entity, value),
            }
        finally:
            for gateway in reversed(gateways):
                gateway.server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--directory", help="where the stores are; its disk counts")
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".log", delete=False) as log:
        rounds = [measured_round(options, log) for _ in range(options.rounds)]
    print(f"{machine()}, {options.connections} connections, {options.rounds} rounds of {options.seconds} s\n")
    print("| | operations/s | CPU µs | of a cached object |\n| --- | ---: | ---: | ---: |")
    for name in rounds[0]:
        rate = statistics.median(one[name][0] for one in rounds)
        cost = statistics.median(one[name][1] for one in rounds)
        ratio = statistics.median(one[name][1] / one["cached"][1] for one in rounds)
        print(f"| {name} | {rate:,.0f} | {cost:.1f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
