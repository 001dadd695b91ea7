#!/usr/bin/env python3
"""How many instructions a request costs in user space: of a proxied request, and of a hit in memory.

    bench/instructions.py --weir target/dist/weir
    bench/instructions.py --weir target/dist/weir --functions 20

weir runs under callgrind (Debian package valgrind) with one worker and the access log on, before weir's own sample service. A
few connections send the same request; the count of many requests less that of a few, divided by the difference, is what
one costs. It does not depend on how busy the machine is: two runs differ by some ten instructions. System calls and
memory that is not in a cache cost time that it does not show, which `bench/proxy.py` does. Traffic stays on the loopback
interface.
"""
import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

CONNECTIONS = 8
FEW, MANY = 1_000, 4_000
REQUEST = (b"GET / HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: instructions\r\nAccept: */*\r\n"
           b"Accept-Encoding: gzip\r\n\r\n")
CACHE = {"proxied": "", "hit": 'cache = { ttl = "1d" }\n'}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, process):
    for _ in range(600):
        if process.poll() is not None:
            sys.exit(f"{' '.join(process.args)} ended with {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    sys.exit(f"nobody listens on {port}")


def receive(connection):
    response = b""
    while b"\r\n\r\n" not in response:
        response += connection.recv(65536)
    head, body = response.split(b"\r\n\r\n", 1)
    if not head.startswith(b"HTTP/1.1 200 "):
        sys.exit(f"the answer is {head.decode()}")
    length = int(re.search(rb"(?i)\ncontent-length: (\d+)", head).group(1))
    while len(body) < length:
        body += connection.recv(65536)


def send(port, requests):
    """Sends so many requests: one on each connection at once, then the next."""
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    for _ in range(requests // CONNECTIONS):
        for connection in connections:
            connection.sendall(REQUEST)
        for connection in connections:
            receive(connection)
    for connection in connections:
        connection.close()


def count(weir, kind, requests, directory):
    """Runs a gateway for so many requests. Gives its instructions and the file with where they were."""
    port, origin_port = free_port(), free_port()
    profile = f"{directory}/{kind}-{requests}.callgrind"
    with open(f"{directory}/weir.toml", "w", encoding="utf-8") as config:
        config.write(f"""[server]
workers = 1
[[listener]]
address = "127.0.0.1:{port}"
[access_log]
path = "{directory}/access.log"
[cache]
memory = "64MiB"
[upstream.app]
servers = ["127.0.0.1:{origin_port}"]
[[route]]
path = "/{{*rest}}"
upstream = "app"
{CACHE[kind]}""")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    origin = subprocess.Popen([weir, "app", "--listen", f"127.0.0.1:{origin_port}"], **quiet)
    gateway = None
    try:
        wait_for(origin_port, origin)
        gateway = subprocess.Popen(["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}",
                                    weir, "serve", "--config", f"{directory}/weir.toml"], **quiet)
        wait_for(port, gateway)
        send(port, requests)
        gateway.send_signal(signal.SIGTERM)
        gateway.wait(60)
    finally:
        for process in (gateway, origin):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
    with open(profile, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith(("summary:", "totals:")):
                return int(line.split()[1]), profile
    return sys.exit(f"{profile} has no total")


def by_function(profile):
    """Instructions of each function by itself."""
    printed = subprocess.run(["callgrind_annotate", "--threshold=100", "--auto=no", profile], check=True, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    found = re.findall(r"^\s*([\d,]+) \([ \d.]+%\)\s+(?:\S+?:)?(.+)$", printed, re.MULTILINE)
    functions = {}
    for instructions, name in found:
        name = name.split(" [")[0].strip()
        if name.startswith(("=>", "<", "*", "PROGRAM", "events")):
            continue
        functions[name] = functions.get(name, 0) + int(instructions.replace(",", ""))
    return functions


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--weir", required=True, help="the binary to measure")
    arguments.add_argument("--functions", type=int, default=0, help="show so many functions, the dearest first")
    options = arguments.parse_args()
    weir = os.path.abspath(options.weir)
    print("| request | instructions |\n| --- | ---: |")
    for kind in CACHE:
        with tempfile.TemporaryDirectory() as directory:
            (few, few_profile), (many, many_profile) = (count(weir, kind, requests, directory)
                                                        for requests in (FEW, MANY))
            print(f"| {kind} | {(many - few) / (MANY - FEW):,.0f} |", flush=True)
            if options.functions:
                before, after = by_function(few_profile), by_function(many_profile)
                each = {name: (after[name] - before.get(name, 0)) / (MANY - FEW) for name in after}
                for name, cost in sorted(each.items(), key=lambda item: -item[1])[:options.functions]:
                    print(f"  {cost:8,.0f}  {name[:150]}")


if __name__ == "__main__":
    main()
