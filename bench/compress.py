#!/usr/bin/env python3
"""What a compressed hit costs: CPU microseconds of weir and of nginx with its cache and `gzip on`, in one interleaved run.

    bench/compress.py --weir target/dist/weir

The origin is `weir app`; the response is that of /what-date-is-it, about 400 KB of JSON that may be cached until midnight.
Both proxies have one worker, alone on CPU 0 with whatever threads they have, a buffered access log and their cache in
memory (nginx: files on tmpfs); origin and wrk share CPU 1. nginx compresses at each hit, at its default level. A round
starts every process anew and measures both in turn, the order reversed from round to round; the figures are medians.
Needs nginx and wrk (`make setup`). Traffic stays on the loopback interface.
"""
import argparse
import gzip
import http.client
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from proxy import LOAD_CPU, PROXY_CPU, Server, free_port, machine, nginx, write

PATH = "/what-date-is-it"
HEADER = "Accept-Encoding: gzip"


def nginx_cache(directory, port, upstream):
    return nginx(directory, "nginx", port, f"""access_log {directory}/nginx.log combined buffer=256k flush=10s;
proxy_cache_path {directory}/nginx-cache keys_zone=responses:10m inactive=1d;
gzip on; gzip_types application/json;
upstream origin {{ server 127.0.0.1:{upstream}; keepalive 512; }}
server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ proxy_pass http://origin; proxy_http_version 1.1;
  proxy_set_header Connection ""; proxy_cache responses; proxy_cache_lock on; }} }}""")


def weir_cache(binary, directory, port, upstream):
    return [os.path.abspath(binary), "serve", "--config", write(directory, "weir.toml", f"""[server]
workers = 1
[[listener]]
address = "127.0.0.1:{port}"
[access_log]
path = "{directory}/weir.log"
[upstream.origin]
servers = ["127.0.0.1:{upstream}"]
[[route]]
path = "/{{*rest}}"
upstream = "origin"
cache = true
compress = true
""")]


def get(port):
    """One compressed response: its bytes, and the content."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", PATH, headers=dict([HEADER.split(": ")]))
    response = connection.getresponse()
    body = response.read()
    connection.close()
    encoded = response.getheader("Content-Encoding") == "gzip"
    return len(body), gzip.decompress(body) if encoded else None


def warm(server):
    """Asks until what is stored is sent compressed, and says how many bytes that is and what they mean."""
    for _ in range(3):
        get(server.port)
    for _ in range(200):
        size, content = get(server.port)
        if content is not None:
            return size, content
        time.sleep(0.05)
    sys.exit(f"{server.name} sends nothing compressed")


def measure(server, connections, seconds):
    size, content = warm(server)
    wrk = ["taskset", "-c", LOAD_CPU, "wrk", "-t1", f"-c{connections}", "--timeout", "20s", "-H", HEADER]
    target = f"http://127.0.0.1:{server.port}{PATH}"
    subprocess.run([*wrk, "-d1s", target], capture_output=True, check=True)
    before = server.cpu_us()
    printed = subprocess.run([*wrk, f"-d{seconds}s", target], capture_output=True, check=True, text=True).stdout
    used = server.cpu_us() - before
    requests = int(re.search(r"(\d+) requests in", printed)[1])
    return {"server": server.name, "requests": requests, "cpu_us": used / requests, "bytes": size,
            "content": len(content), "rate": requests / seconds,
            "errors": re.findall(r"(?:Non-2xx|Socket errors).*", printed)}


def measured_round(options, directory, number):
    ports = {name: free_port() for name in ("origin", "weir", "nginx")}
    commands = {"weir": weir_cache(options.weir, directory, ports["weir"], ports["origin"]),
                "nginx": nginx_cache(directory, ports["nginx"], ports["origin"])}
    shutil.rmtree(f"{directory}/nginx-cache", ignore_errors=True)
    servers, samples = [], []
    try:
        with open(f"{directory}/output", "a") as log:
            app = [os.path.abspath(options.weir), "app", "--listen", f"127.0.0.1:{ports['origin']}"]
            servers.append(Server("origin", app, LOAD_CPU, ports["origin"], log))
            for name in list(commands) if number % 2 == 0 else list(reversed(commands)):
                server = Server(name, commands[name], PROXY_CPU, ports[name], log)
                servers.append(server)
                samples.append({"round": number, **measure(server, options.connections, options.seconds)})
    finally:
        for server in reversed(servers):
            server.stop()
    return samples


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--weir", required=True, help="the binary to measure")
    arguments.add_argument("--connections", type=int, default=64)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=int, default=3, help="of each measurement")
    options = arguments.parse_args()
    directory = tempfile.mkdtemp(prefix="weir-bench-", dir="/dev/shm")
    samples = []
    try:
        for number in range(options.rounds):
            samples += measured_round(options, directory, number)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print("| proxy | CPU µs/request | requests per CPU second | requests/s | bytes of body | of JSON |\n"
          "| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in ("weir", "nginx"):
        runs = [sample for sample in samples if sample["server"] == name]
        cpu_us, rate = (statistics.median(run[key] for run in runs) for key in ("cpu_us", "rate"))
        print(f"| {name} | {cpu_us:.1f} | {1e6 / cpu_us:,.0f} | {rate:,.0f} | {runs[-1]['bytes']} | {runs[-1]['content']} |")
    by_round = [{s["server"]: s["cpu_us"] for s in samples if s["round"] == number} for number in range(options.rounds)]
    ratios = sorted(costs["nginx"] / costs["weir"] for costs in by_round)
    print(f"\nweir answers {statistics.median(ratios):.0f} times as many requests per CPU second "
          f"({ratios[0]:.0f} to {ratios[-1]:.0f}); {machine()}")
    errors = [f"{sample['server']}: {error}" for sample in samples for error in sample["errors"]]
    print(*errors, sep="\n")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
