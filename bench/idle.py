#!/usr/bin/env python3
"""How much memory an idle keep-alive connection costs the gateway.

    bench/idle.py --weir target/dist/weir

Clients connect to `weir serve` with one worker, have one request answered each, and stay. What the process holds (PSS) with many
of them less what it holds with few, divided by the difference, is what one costs. The memory of sockets is the kernel's and
is not in it. Traffic stays on the loopback interface.
"""
import argparse
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time

FEW, MANY = 1_000, 9_000
REQUEST = b"GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pss_bytes(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
        return int(re.search(r"^Pss:\s+(\d+) kB", lines.read(), re.MULTILINE).group(1)) * 1024


def connect(port, connections, until):
    while len(connections) < until:
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(REQUEST)
        if not connection.recv(4096).startswith(b"HTTP/1.1 200 "):
            sys.exit("the gateway does not answer")
        connections.append(connection)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--weir", required=True, help="the binary to measure")
    weir = os.path.abspath(arguments.parse_args().weir)
    resource.setrlimit(resource.RLIMIT_NOFILE, (20_000, 20_000))
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        with open(f"{directory}/weir.toml", "w", encoding="utf-8") as config:
            config.write(f"""[server]
workers = 1
[[listener]]
address = "127.0.0.1:{port}"
[timeouts]
idle = "10m"
[[route]]
path = "/"
respond = {{ body = "ok" }}
""")
        gateway = subprocess.Popen([weir, "serve", "--config", f"{directory}/weir.toml"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(100):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            connections = []
            connect(port, connections, FEW)
            time.sleep(3)
            few = pss_bytes(gateway.pid)
            connect(port, connections, MANY)
            time.sleep(3)
            many = pss_bytes(gateway.pid)
        finally:
            gateway.terminate()
            gateway.wait(60)
    print(f"{(many - few) / (MANY - FEW):.0f} bytes for each of {MANY:,} connections ({few:,} and {many:,} in all)")


if __name__ == "__main__":
    main()
