#!/usr/bin/env python3
"""How often `weir lab compare` calls a service different from itself: it should be at most one time in ten.

    bench/same.py --weir target/dist/weir

Each comparison is one of the sample service with itself, both started afresh for every block, as B and A are when they do
differ. A comparison counts as "different" by the rate when its line says so, and likewise by CPU time and latencies. Its
CPU-heavy answers keep the generator from being the limit. Traffic stays on the loopback interface.
"""
import argparse
import os
import subprocess
import sys
from collections import Counter

METRICS = ("rate", "CPU", "p50", "p99")
# In a hundred comparisons of a thing with itself, five are outside of a 95 % interval; 20 have more than two with one in 13.
DIFFERENT_MAX = 0.1


def comparison(weir, repeats, connections):
    """What each line of one comparison says: `different`, `alike`, `cannot tell` or `unknown`."""
    service = f"exec {weir} app --listen 127.0.0.1:{{port}} --threads 1"
    printed = subprocess.run(
        [weir, "lab", "compare", "--command", service, service, "--path", "/what-date-is-it", "--repeats", str(repeats),
         "--connections", str(connections), "--duration", "250ms", "--warm-up", "100ms"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout
    lines = dict(line.split(": ", 1) for line in printed.splitlines() if ": " in line)
    kinds = {"no difference that matters": "alike", "cannot tell": "cannot tell", "B is": "different",
             "p50 of B is": "different", "p99 of B is": "different"}
    said = {metric: next((kind for words, kind in kinds.items() if lines[metric].startswith(words)), "unknown")
            for metric in METRICS}
    return said, [line for line in printed.splitlines() if line.startswith(METRICS) or "not valid" in line]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--weir", required=True, help="the binary to measure")
    arguments.add_argument("--comparisons", type=int, default=20)
    arguments.add_argument("--repeats", type=int, default=4, help="how many times A B B A in each")
    arguments.add_argument("--connections", type=int, default=4)
    options = arguments.parse_args()
    counts = {metric: Counter() for metric in METRICS}
    for number in range(1, options.comparisons + 1):
        said, lines = comparison(os.path.abspath(options.weir), options.repeats, options.connections)
        for metric in METRICS:
            counts[metric][said[metric]] += 1
        if "different" in said.values() or "unknown" in said.values():
            print(f"{number}:", *lines, sep="\n  ", flush=True)
    for metric in METRICS:
        print(f"{metric}: {', '.join(f'{count} {kind}' for kind, count in sorted(counts[metric].items()))}")
    too_many = [metric for metric in METRICS if counts[metric]["different"] > DIFFERENT_MAX * options.comparisons]
    nothing = [metric for metric in METRICS if counts[metric]["unknown"] == options.comparisons]
    sys.exit(f"too often different: {', '.join(too_many)}; never compared: {', '.join(nothing)}"
             if too_many or nothing else 0)


if __name__ == "__main__":
    main()
