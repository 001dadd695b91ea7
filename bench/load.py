#!/usr/bin/env python3
"""What one generated request costs: requests per CPU second of `weir load` and of wrk, in one interleaved run.

    bench/load.py --weir target/dist/weir

The generator is alone on CPU 0 with one thread, the server (nginx, 612-byte responses) on CPU 1; both generators keep
their connections alive and ask as fast as they are answered. CPU time is that of the whole generator process, start and
end included. A pair of runs is weir and wrk in turn, in the order ABBA; the ratio is the median of the pairs' ratios.
Needs nginx and wrk (`make setup`). Traffic stays on the loopback interface.
"""
import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

from proxy import LOAD_CPU, PROXY_CPU, Server, free_port, origin


def children_cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measured(command, requests_in):
    """Requests per CPU second of one run of a generator."""
    before = children_cpu_s()
    run = subprocess.run(["taskset", "-c", PROXY_CPU, *command], capture_output=True, text=True)
    # A generator that is the bottleneck, as it is meant to be here, ends with 4.
    if run.returncode not in (0, 4):
        sys.exit(f"{command[0]} ended with {run.returncode}: {run.stderr}")
    return requests_in(run.stdout) / (children_cpu_s() - before)


def weir(binary, target, connections, seconds):
    return measured(
        [os.path.abspath(binary), "load", target, "-c", str(connections), "-t", "1", "-d", f"{seconds}s", "--quiet",
         "--json", "-"],
        lambda printed: json.loads(printed)["requests"],
    )


def wrk(target, connections, seconds):
    return measured(
        ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", target],
        lambda printed: int(re.search(r"(\d+) requests in", printed)[1]),
    )


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--weir", required=True, help="the binary to measure")
    arguments.add_argument("--connections", default="64,512", help="comma-separated")
    arguments.add_argument("--pairs", type=int, default=6)
    arguments.add_argument("--seconds", type=int, default=3, help="of each run")
    options = arguments.parse_args()
    directory = tempfile.mkdtemp(prefix="weir-bench-", dir="/dev/shm")
    server = None
    try:
        with open(f"{directory}/output", "a") as log:
            port = free_port()
            server = Server("origin", origin(directory, port), LOAD_CPU, port, log)
            target = f"http://127.0.0.1:{port}/"
            print("| connections | weir load, requests per CPU second | wrk | weir / wrk | pairs |")
            print("| ---: | ---: | ---: | ---: | ---: |")
            for connections in map(int, options.connections.split(",")):
                ours, theirs = [], []
                for pair in range(options.pairs):
                    runs = [lambda: ours.append(weir(options.weir, target, connections, options.seconds)),
                            lambda: theirs.append(wrk(target, connections, options.seconds))]
                    for run in runs if pair % 2 == 0 else reversed(runs):
                        run()
                ratios = [our / their for our, their in zip(ours, theirs)]
                print(f"| {connections} | {statistics.median(ours):,.0f} | {statistics.median(theirs):,.0f} "
                      f"| {statistics.median(ratios):.2f} ({min(ratios):.2f} – {max(ratios):.2f}) | {len(ratios)} |",
                      flush=True)
    finally:
        if server:
            server.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
