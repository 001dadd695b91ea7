#!/usr/bin/env python3
"""What it costs to be ready to refuse: CPU microseconds of weir for a request, with and without breaker, ejection, adaptive
limit and rate limit, in one interleaved run.

    bench/refuse.py --weir target/dist/weir [--rounds 8] [--only all]

weir has one worker, alone on CPU 0; three origins (nginx, 612-byte responses) and wrk share CPU 1. Nothing is refused: the
origins are well, and the rate is far away. A round starts every process anew and measures every variant once, plain before
and after it; the order is reversed from round to round. The figure is the median of the rounds, the ratio the median of the
ratios to the mean of the two plain runs beside it. A run in which anything was not answered with 200 is an error.
Needs nginx and wrk (`make setup`). Traffic stays on the loopback interface.
"""
import argparse
import os
import shutil
import statistics
import sys
import tempfile

from proxy import BODY, LOAD_CPU, PROXY_CPU, Server, free_port, machine, measure, nginx, write

RATE = 'rate = { requests = 1000000, per = "1s", key = "client-address" }'
# What stands in the upstream, and in the route.
VARIANTS = {
    "plain": ("", ""),
    "breaker": ("", "breaker = true"),
    "ejection": ("ejection = true", ""),
    "adaptive limit": ('concurrency = "adaptive"', ""),
    "rate limit": ("", RATE),
    "all": ("protect = true", f"breaker = true\n{RATE}"),
}


def origin(directory, port):
    listens = "".join(f"listen 127.0.0.{n}:{port} backlog=4096; " for n in (1, 2, 3))
    return nginx(directory, "origin", port, f"""access_log off;
server {{ {listens} location / {{ default_type text/plain; return 200 "{BODY}"; }} }}""")


def gateway(binary, directory, name, port, upstream):
    of_upstream, of_route = VARIANTS[name]
    servers = ", ".join(f'"127.0.0.{n}:{upstream}"' for n in (1, 2, 3))
    config = write(directory, f"{name.replace(' ', '-')}.toml", f"""[server]
workers = 1
[[listener]]
address = "127.0.0.1:{port}"
[access_log]
path = "{directory}/{name}.log"
[upstream.origin]
servers = [{servers}]
{of_upstream}
[[route]]
path = "/{{*rest}}"
upstream = "origin"
{of_route}
""")
    return [os.path.abspath(binary), "serve", "--config", config]


def measured_round(options, directory, number, names):
    """For each variant its figure and those of the plain runs before and after it, all of fresh processes."""
    samples, upstream = [], free_port()
    with open(f"{directory}/output", "a") as log:
        source = Server("origin", origin(directory, upstream), LOAD_CPU, upstream, log)
        try:
            def run(name):
                port = free_port()
                server = Server(name, gateway(options.weir, directory, name, port, upstream), PROXY_CPU, port, log)
                try:
                    return measure(server, options.connections, options.seconds)
                finally:
                    server.stop()

            before = run("plain")
            for name in names if number % 2 == 0 else reversed(names):
                sample, after = run(name), run("plain")
                plain = (before["cpu_us"] + after["cpu_us"]) / 2
                errors = before["errors"] + sample["errors"] + after["errors"]
                samples.append({"name": name, "cpu_us": sample["cpu_us"], "plain_us": plain, "rate": sample["rate"],
                                "p99_us": sample["p99_us"], "errors": errors})
                before = after
        finally:
            source.stop()
    return samples


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--weir", required=True, help="the binary to measure")
    arguments.add_argument("--connections", type=int, default=16)
    arguments.add_argument("--rounds", type=int, default=6)
    arguments.add_argument("--seconds", type=int, default=2, help="of each measurement")
    arguments.add_argument("--only", help="one variant instead of all")
    options = arguments.parse_args()
    names = [options.only] if options.only else [name for name in VARIANTS if name != "plain"]
    directory = tempfile.mkdtemp(prefix="weir-bench-", dir="/dev/shm")
    samples = []
    try:
        for number in range(options.rounds):
            samples += measured_round(options, directory, number, names)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print("| with | CPU µs/request | plain beside it | ratio | its range | p99 µs |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in names:
        runs = [sample for sample in samples if sample["name"] == name]
        ratios = sorted(run["cpu_us"] / run["plain_us"] for run in runs)
        median = {key: statistics.median(run[key] for run in runs) for key in ("cpu_us", "plain_us", "p99_us")}
        print(f"| {name} | {median['cpu_us']:.2f} | {median['plain_us']:.2f} | {statistics.median(ratios):.3f} "
              f"| {ratios[0]:.3f} – {ratios[-1]:.3f} | {median['p99_us']:.0f} |")
    print(f"\n{machine()}; {options.connections} connections, {options.rounds} rounds of {options.seconds} s")
    errors = [f"{sample['name']}: {error}" for sample in samples for error in sample["errors"]]
    print(*errors, sep="\n")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
