#!/usr/bin/env python3
"""What an operation on the key-value store costs: CPU microseconds of all weir processes, beside a cached object of the same gateway.

    bench/kv.py --weir target/dist/weir [--client target/debug/examples/client_load] [--rounds 3] [--seconds 3] [--connections 64]

- cached: the gateway answers the same reads of the same keys from its cache in memory
- get, put: a store of one node, values of 1 KiB, keys at random out of 5,000, `durability = "os"`
- of three, local: one replica is asked, and the node that the client asks has it
- of three, forwarded: one replica is asked, and it is on another node than the one that the client asks
- of three, by the client: the client in Rust asks the node that has the key; no HTTP
- of three, get 2/3 and put 2/3: all three are asked, two have to answer

Each node has one worker; no process is bound to a CPU, and the load generator shares them. Three nodes on one machine are a topology, so the
figure is CPU time. A round runs everything once; figures are medians over the rounds, ratios medians of the ratios within a round.

The second table has the latency at a constant rate, half of what one node answers at most: of one node, and of three through each node with
one replica of each key, so that two thirds are forwarded. A round begins with the rate that it goes by. With --rates 10000,20000 there is a table of
these rates as well: what a request costs all nodes and who asks, when less comes together than at the most. Traffic stays on the loopback interface.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import urllib.request

from proxy import Server, free_port, machine, write

KEYS = 5000
RANDOM = f"key{{rand:1..{KEYS}}}"
ANY_CPU = f"0-{os.cpu_count() - 1}"
ROUTES = "".join(f'[[route]]\npath = "/{version}/{{*rest}}"\nkv = true\n' for version in ("v0", "v1"))
LOCAL, FORWARDED = "of three, local", "of three, forwarded"
# What each is compared with.
BASES = ("cached", "get", LOCAL)


class Gateway:
    """weir with some configuration."""

    def __init__(self, options, directory, name, config, log):
        self.port = free_port()
        head = f'[server]\nworkers = 1\n[[listener]]\naddress = "127.0.0.1:{self.port}"\n'
        path = write(directory, f"{name}.toml", head + config)
        self.server = Server(name, [os.path.abspath(options.weir), "serve", path], ANY_CPU, self.port, log)


def store(directory, name, more="", durability="os"):
    return f'[kv]\nengine = {{ path = "{directory}/{name}", durability = "{durability}" }}\n{more}{ROUTES}'


def load(options, port, target, *more, put=None):
    """The report of a run of `weir load` with these flags."""
    more = [*more, "--method", "PUT", "--body", f"@{put}"] if put else more
    with tempfile.NamedTemporaryFile("r", suffix=".json") as report:
        subprocess.run([os.path.abspath(options.weir), "load", f"http://127.0.0.1:{port}{target}", "-c", str(options.connections),
                        "-q", "--json", report.name, *more],
                       check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        report = json.load(report)
    good = report["outcomes"]["2xx"]
    if good != report["requests"] or good == 0:
        sys.exit(f"{target}: {report['outcomes']}")
    return report


def fill(options, port, value):
    """Writes all keys once."""
    load(options, port, "/v0/entity?id=key{seq}", "--requests", str(KEYS + 1), put=value)


def sample(options, gateways, run):
    """Operations a second, and CPU microseconds of each, of all these gateways. `run` runs for so many seconds and says how many."""
    run(1)
    before = sum(gateway.server.cpu_us() for gateway in gateways)
    count = run(options.seconds)
    cpu_us = sum(gateway.server.cpu_us() for gateway in gateways) - before
    return count / options.seconds, cpu_us / count


def asked(options, gateway, target, put=None):
    """How a gateway is asked for something."""
    return lambda seconds: load(options, gateway.port, target, "-d", f"{seconds}s", put=put)["requests"]


def by_client(options, node):
    """How the client of a cluster asks it, which learns of all nodes from this one."""
    def run(seconds):
        command = [options.client, node, KEYS, options.connections, seconds]
        return int(subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout)
    return run


def of_node(gateway, node, directory):
    """Two files: the keys whose first replica is this node, and the others."""
    keys = {True: [], False: []}
    for number in range(1, KEYS + 1):
        with urllib.request.urlopen(f"http://127.0.0.1:{gateway.port}/v1/placement?key=key{number}") as answer:
            keys[json.load(answer)["key"]["replicas"][0] == node].append(f"key{number}\n")
    return [write(directory, name, "".join(keys[is_own])) for name, is_own in (("own", True), ("others", False))]


def latencies(options, alone, three):
    """The rate, and p50, p99 and p99.9 in milliseconds of one node and through each of three."""
    target = f"/v0/entity?id={RANDOM}&ack=1&from=1"
    most = max(load(options, alone.port, target, "-d", "2s")["rate"] for _ in range(2))
    rate = str(int(most / 2))
    found = {"rate": most / 2}
    for name, gateway in (("one node", alone), *((f"node {number} of three", one) for number, one in enumerate(three, 1))):
        taken = load(options, gateway.port, target, "-d", f"{options.seconds * 2}s", "--rate", rate)["latency_us"]
        found[name] = [taken[part] / 1e3 for part in ("p50", "p99", "p99.9")]
    return found


def own_cpu_us():
    """CPU time of all processes that have been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e6


def at_rates(options, alone, three):
    """For each rate, of one node and through one of three: p99 in milliseconds, and CPU microseconds of all nodes and of who asks."""
    found = {}
    for rate in options.rates:
        for name, gateways in (("one node", [alone]), ("three nodes", three)):
            before, asked_before = sum(gateway.server.cpu_us() for gateway in gateways), own_cpu_us()
            report = load(options, gateways[0].port, f"/v0/entity?id={RANDOM}&ack=1&from=1", "-d", f"{options.seconds * 2}s", "--rate", str(rate))
            cost = sum(gateway.server.cpu_us() for gateway in gateways) - before
            found[rate, name] = [report["latency_us"]["p99"] / 1e3, *(used / report["requests"] for used in (cost, own_cpu_us() - asked_before))]
    return found


def measured_round(options, log):
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        value = write(directory, "value", "x" * 1024)
        gateways = []

        def start(name, config):
            gateways.append(Gateway(options, directory, name, config, log))
            return gateways[-1]

        try:
            alone = start("alone", store(directory, "alone"))
            cached = start("cached", f'[upstream.app]\nservers = ["127.0.0.1:{alone.port}"]\n[cache]\nmemory = "64MiB"\n'
                                     '[[route]]\npath = "/{*rest}"\nupstream = "app"\ncache = { ttl = "1h" }\n')
            nodes = [f"127.0.0.1:{free_port()}" for _ in range(3)]
            three = [start(f"node-{number}", store(directory, f"node-{number}", f'node = "{node}"\nnodes = {json.dumps(nodes)}\n'))
                     for number, node in enumerate(nodes)]
            entity = f"/v0/entity?id={RANDOM}"
            for gateway in (alone, three[0]):
                fill(options, gateway.port, value)
            load(options, cached.port, "/v0/entity?id=key{seq}", "--requests", str(KEYS + 1))
            own, others = of_node(three[0], nodes[0], directory)
            runs = {
                "cached": ([cached], asked(options, cached, entity)),
                "get": ([alone], asked(options, alone, entity)),
                "put": ([alone], asked(options, alone, entity, value)),
                LOCAL: (three, asked(options, three[0], f"/v0/entity?id={{line:{own}}}&ack=1&from=1")),
                FORWARDED: (three, asked(options, three[0], f"/v0/entity?id={{line:{others}}}&ack=1&from=1")),
                "of three, by the client": (three, by_client(options, nodes[0])),
                "of three, get 2/3": (three, asked(options, three[0], entity)),
                "of three, put 2/3": (three, asked(options, three[0], entity, value)),
            }
            if options.client is None:
                del runs["of three, by the client"]
            if options.only:
                runs = {name: run for name, run in runs.items() if name in BASES or name in options.only.split(";")}
            costs = {name: sample(options, *run) for name, run in runs.items()}
            return costs, latencies(options, alone, three) if options.latency else {}, at_rates(options, alone, three)
        finally:
            for gateway in reversed(gateways):
                gateway.server.stop()


def print_costs(rounds):
    print("| | operations/s | CPU µs | of a cached object | of a local get |\n| --- | ---: | ---: | ---: | ---: |")
    for name in rounds[0]:
        rate, cost = (statistics.median(one[name][part] for one in rounds) for part in (0, 1))
        ratios = [statistics.median(one[name][1] / one[base][1] for one in rounds)
                  for base in ("cached", LOCAL if name.startswith("of three") else "get")]
        print(f"| {name} | {rate:,.0f} | {cost:.1f} | {ratios[0]:.2f} | {ratios[1]:.2f} |")


def print_latencies(rounds):
    print(f"\nAt {statistics.median(one.pop('rate') for one in rounds):,.0f} reads a second:\n")
    print("| | p50 ms | p99 ms | p99.9 ms | p99 of one node's |\n| --- | ---: | ---: | ---: | ---: |")
    for name in rounds[0]:
        p50, p99, p999 = (statistics.median(one[name][part] for one in rounds) for part in range(3))
        ratio = statistics.median(one[name][1] / one["one node"][1] for one in rounds)
        print(f"| {name} | {p50:.2f} | {p99:.2f} | {p999:.2f} | {ratio:.2f} |")


def print_rates(rounds):
    print("\n| reads a second | | p99 ms | CPU µs, nodes | CPU µs, who asks | CPUs in use |\n| ---: | --- | ---: | ---: | ---: | ---: |")
    for rate, name in rounds[0]:
        p99, nodes, asks = (statistics.median(one[rate, name][part] for one in rounds) for part in range(3))
        print(f"| {rate:,} | {name} | {p99:.2f} | {nodes:.1f} | {asks:.1f} | {(nodes + asks) * rate / 1e6:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True)
    parser.add_argument("--client", help="the example client_load of weir-kv; without it, its line is left out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--directory", help="where the stores are; its disk counts")
    parser.add_argument("--only", help="these lines and those that they are compared with, with ; between them")
    parser.add_argument("--latency", action=argparse.BooleanOptionalAction, default=True, help="the second table")
    parser.add_argument("--rates", type=lambda text: [int(rate) for rate in text.split(",")], default=[], help="the third table, as in 10000,20000")
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".log", delete=False) as log:
        rounds = [measured_round(options, log) for _ in range(options.rounds)]
    print(f"{machine()}, {options.connections} connections, {options.rounds} rounds of {options.seconds} s\n")
    print_costs([costs for costs, *_ in rounds])
    if options.latency:
        print_latencies([latency for _, latency, _ in rounds])
    if options.rates:
        print_rates([rates for *_, rates in rounds])


if __name__ == "__main__":
    main()
