#!/usr/bin/env python3
"""What clients see of a service that is down for a minute while their requests are deferred to it, and what its ordinary traffic sees
when it is back.

    bench/outage.py --weir target/dist/weir [--rate 2000] [--down 60]

Three spans: the service (nginx, 204) is there, it is killed and away, it is back and the backlog drains. In each, `weir load` sends 200-byte
requests to the deferred route at a steady rate, and when the service is there 500 requests a second by a route that passes on.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from defer import BODY, ask
from proxy import LOAD_CPU, PROXY_CPU, Server, free_port, machine, nginx, write


def sender(options, url, rate, seconds, report):
    return subprocess.Popen(["taskset", "-c", LOAD_CPU, os.path.abspath(options.weir), "load", url, "-c", "64", "-t", "1", "-r", str(rate),
                             "-d", f"{seconds}s", "-q", "--json", report] + (["-b", BODY] if "events" in url else []),
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def span(options, port, seconds, has_ordinary, directory):
    """The reports of the deferred and of the ordinary traffic."""
    wanted = [("events", options.rate)] + ([("plain", 500)] if has_ordinary else [])
    running = [sender(options, f"http://127.0.0.1:{port}/{path}", rate, seconds, f"{directory}/{path}.json") for path, rate in wanted]
    for process in running:
        process.wait()
    reports = []
    for path, _ in wanted:
        with open(f"{directory}/{path}.json", encoding="utf-8") as report:
            reports.append(json.load(report))
    return reports


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--weir", required=True)
    arguments.add_argument("--rate", type=int, default=2000)
    arguments.add_argument("--down", type=int, default=60)
    options = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(machine())
    rows = []
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile("w") as log:
        origin, port, admin = free_port(), free_port(), free_port()
        config = write(directory, "weir.toml", f"""[server]
workers = 1
[[listener]]
address = "127.0.0.1:{port}"
[admin]
listen = "127.0.0.1:{admin}"
[queue.q]
path = "{directory}/q"
[upstream.origin]
servers = ["127.0.0.1:{origin}"]
[[route]]
path = "/events"
methods = ["POST"]
defer = "q"
upstream = "origin"
[[route]]
path = "/plain"
upstream = "origin"
""")
        command = nginx(directory, "origin", origin, f"""access_log off;
server {{ listen 127.0.0.1:{origin} backlog=4096; location / {{ return 204; }} }}""")
        service = Server("origin", command, LOAD_CPU, origin, log)
        weir = Server("weir", [os.path.abspath(options.weir), "serve", config], PROXY_CPU, port, log)
        try:
            span(options, port, 3, True, directory)
            rows.append(("there", span(options, port, 20, True, directory)))
            service.stop()
            rows.append(("away", span(options, port, options.down, False, directory)))
            waiting = ask(admin, "/queues")[0]["waiting"]
            service = Server("origin", command, LOAD_CPU, origin, log)
            began = time.monotonic()
            rows.append(("back", span(options, port, 20, True, directory)))
            while ask(admin, "/queues")[0]["waiting"] > 0:
                time.sleep(0.1)
            took = time.monotonic() - began
            queue = ask(admin, "/queues")[0]
        finally:
            weir.stop()
            service.stop()
    print("\n| the service is | accepted | not accepted | p50 ms | p99 ms | ordinary | of them failed | p99 ms |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, (deferred, *plain) in rows:
        good = deferred["outcomes"]["2xx"]
        latency = deferred["latency_us"]
        line = f"| {name} | {good:,} | {deferred['requests'] - good} | {latency['p50'] / 1e3:.2f} | {latency['p99'] / 1e3:.2f} |"
        if plain:
            answered = plain[0]["outcomes"]["2xx"]
            line += f" {plain[0]['requests']:,} | {plain[0]['requests'] - answered} | {plain[0]['latency_us']['p99'] / 1e3:.2f} |"
        print(line)
    print(f"\n{waiting:,} waited when it came back; all were delivered {took:.1f} s later; {queue['dead']} dead letters")


if __name__ == "__main__":
    main()
