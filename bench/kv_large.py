#!/usr/bin/env python3
"""A store of one node with many small values: how much memory it takes, and whether reads stay quick while values are written.

    bench/kv_large.py --weir target/dist/weir --directory DISK [--keys 100000000] [--seconds 600] [--writes 2000] [--reads 2000]

Keys are k1 to kKEYS with values of 100 bytes that do not compress, written by /v1/batch in an order that is none; `durability = "os"`,
`memory = --memory`. Then values are written and read at constant rates, keys at random out of all, for so long; latency counts from
when a request was to be sent. A stall is the longest that one of them took. It says how much of the resident memory is not the
kernel's cache of files, and what that is for each key. 20 million took 3.5 GiB of disk.
Traffic stays on the loopback interface.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

from kv import Gateway, ROUTES
from proxy import machine, write

LINES = 1000
PART = 100 * LINES
VALUE_BYTES = 100
# Coprime to every count that is a power of ten, and large: neighbours in the order are far from each other as keys.
STEP = 7_368_787
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class Values:
    """Values that do not compress: pieces of a long random text."""

    def __init__(self):
        chosen = random.Random(17)
        self.text = "".join(chosen.choices(LETTERS, k=1 << 20))

    def of(self, number):
        begin = number * 7919 % (len(self.text) - VALUE_BYTES)
        return self.text[begin:begin + VALUE_BYTES]


def batch(values, keys, begin):
    numbers = ((index * STEP) % keys + 1 for index in range(begin, min(begin + LINES, keys)))
    return "".join(f'{{"put":"k{number}","value":"{values.of(number)}"}}\n' for number in numbers)


def fill(port, options):
    """Writes all keys. Gives keys a second, and the longest that a batch took in milliseconds."""
    values, began, done, longest = Values(), time.monotonic(), 0, 0.0
    lines = threading.local()

    def send(begin):
        if not hasattr(lines, "connection"):
            lines.connection = http.client.HTTPConnection("127.0.0.1", port)
        body = batch(values, options.keys, begin)
        for _ in range(1000):
            sent = time.monotonic()
            lines.connection.request("POST", "/v1/batch", body)
            answer = lines.connection.getresponse().read()
            if answer.count(b'"status":201') == body.count("\n"):
                return time.monotonic() - sent
            # Too much waits for the disk.
            time.sleep(0.05)
        return sys.exit(f"a batch is not written: {answer[:300]}")

    with concurrent.futures.ThreadPoolExecutor(options.fillers) as pool:
        # A part at a time, since all that is to be sent would wait in memory.
        parts = range(0, options.keys, PART)
        batches = (range(begin, min(begin + PART, options.keys), LINES) for begin in parts)
        for taken in (taken for part in batches for taken in pool.map(send, part)):
            done, longest = done + LINES, max(longest, taken)
            if options.verbose and done % 1_000_000 == 0:
                print(f"{done:,} keys, {done / (time.monotonic() - began):,.0f} a second, longest batch {longest * 1e3:.0f} ms", flush=True)
    return options.keys / (time.monotonic() - began), longest * 1e3


def load(options, port, name, rate, *more):
    """Begins a run at a constant rate, whose report is in a file."""
    report = f"{options.run_directory}/{name}.json"
    command = [os.path.abspath(options.weir), "load", f"http://127.0.0.1:{port}/v0/entity?id=k{{rand:1..{options.keys}}}", "-c", "32", "-t", "1",
               "--rate", str(rate), "-d", f"{options.seconds}s", "-q", "--json", report, *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), report


def status(pid, name):
    with open(f"/proc/{pid}/status", encoding="utf-8") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def files_bytes(directory):
    return sum(entry.stat().st_size for at, _, files in os.walk(directory) for entry in (os.scandir(at) if files else ()) if entry.is_file())


def measure(options, gateway):
    process = gateway.server.process
    rate, longest = fill(gateway.port, options)
    print(f"filled: {rate:,.0f} keys/s, longest batch of {LINES} {longest:,.0f} ms, CPU {gateway.server.cpu_us() / options.keys:.1f} µs/key")
    anonymous = status(process.pid, "RssAnon")
    print(f"memory: {anonymous / 2**20:,.0f} MiB, {anonymous / options.keys:.1f} bytes/key; disk {files_bytes(options.run_directory + '/large') / 2**30:.1f} GiB")
    before = gateway.server.cpu_us()
    value = write(options.run_directory, "value", Values().of(1))
    runs = {"get": load(options, gateway.port, "get", options.reads),
            "put": load(options, gateway.port, "put", options.writes, "--method", "PUT", "--body", f"@{value}")}
    print(f"\n{options.reads:,} reads and {options.writes:,} writes a second for {options.seconds} s:\n")
    print("| | requests | not 2xx | p50 ms | p99 ms | p99.9 ms | longest ms |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    requests = 0
    for name, (process_of_load, path) in runs.items():
        process_of_load.wait()
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        taken, failed = report["latency_us"], report["requests"] - report["outcomes"]["2xx"]
        requests += report["requests"]
        numbers = " | ".join(f"{taken[part] / 1e3:,.1f}" for part in ("p50", "p99", "p99.9", "max"))
        print(f"| {name} | {report['requests']:,} | {failed:,} | {numbers} |")
    anonymous = status(process.pid, "RssAnon")
    print(f"\nCPU {(gateway.server.cpu_us() - before) / requests:.1f} µs/request; memory: {anonymous / 2**20:,.0f} MiB, {anonymous / options.keys:.1f} bytes/key")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True)
    parser.add_argument("--directory", required=True, help="where the store is; its disk counts")
    parser.add_argument("--keys", type=int, default=100_000_000)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--reads", type=int, default=2000)
    parser.add_argument("--writes", type=int, default=2000)
    parser.add_argument("--memory", default="256MiB")
    parser.add_argument("--fillers", type=int, default=4, help="batches that are under way at once")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    print(f"{machine()}, {options.keys:,} keys of {VALUE_BYTES} bytes, memory = {options.memory}")
    with tempfile.TemporaryDirectory(dir=options.directory) as options.run_directory, tempfile.NamedTemporaryFile("w", suffix=".log", delete=False) as log:
        config = f'[kv]\nengine = {{ path = "{options.run_directory}/large", durability = "os", memory = "{options.memory}" }}\n{ROUTES}'
        gateway = Gateway(options, options.run_directory, "weir", config, log)
        try:
            measure(options, gateway)
        finally:
            gateway.server.stop()


if __name__ == "__main__":
    main()
