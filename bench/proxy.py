#!/usr/bin/env python3
"""What one proxied request costs: CPU microseconds of weir, nginx and HAProxy, in one interleaved run.

    bench/proxy.py --weir target/dist/weir                    print the table
    bench/proxy.py --weir target/dist/weir --readme README.md write it into the README, raw data beside it

Every proxy has one worker, alone on CPU 0; the origin (nginx, 612-byte responses) and wrk share CPU 1. All do the same
work: kept-alive connections on both sides, X-Forwarded-For, a buffered access log (HAProxy logs only to syslog, and
does not here). "nginx (default)" is what a bare proxy_pass does: a new connection to the origin for each request.

A round starts every process anew and measures every proxy once, in turn; the order is reversed from round to round, so
that a machine that slows down slows all of them. Two starts of the same program differ by more than two measurements of
one process, so the start is the sample: the figure is the median of the rounds, the ratio the median of the ratios within
a round.
Needs nginx, haproxy and wrk (`make setup`). Traffic stays on the loopback interface.
"""
import argparse
import datetime
import json
import os
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

PROXY_CPU, LOAD_CPU = "0", "1"
BODY = "x" * 612
MARKERS = ("<!-- bench:begin -->", "<!-- bench:end -->")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A process in a session of its own, pinned to one CPU, that listens on `port`."""

    def __init__(self, name, command, cpu, port, log, seconds=10):
        self.name, self.port = name, port
        self.process = subprocess.Popen(
            ["taskset", "-c", cpu, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                sys.exit(f"{name} ended at once; its output is in {log.name}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.05)
        sys.exit(f"{name} does not listen on port {port}")

    def tasks(self):
        """The directories of all threads of the process and its children."""
        pids = [self.process.pid]
        for pid in pids:
            for thread in os.listdir(f"/proc/{pid}/task"):
                yield f"/proc/{pid}/task/{thread}"
                with open(f"/proc/{pid}/task/{thread}/children") as children:
                    pids += [int(child) for child in children.read().split()]

    def cpu_us(self):
        """CPU time used so far, user and system, from the scheduler's own account."""
        total = 0
        for task in self.tasks():
            with open(f"{task}/schedstat") as stat:
                total += int(stat.read().split()[0])
        return total / 1000

    def stop(self):
        for sig in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, sig)
                self.process.wait(3)
                return
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def nginx(directory, name, port, http):
    temp = " ".join(f"{kind}_temp_path {directory}/{name}-{kind};" for kind in
                    ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;" if os.geteuid() == 0 else ""
    return [
        "nginx", "-c", write(directory, f"{name}.conf", f"""{user} worker_processes 1; daemon off;
error_log {directory}/{name}.err; pid {directory}/{name}.pid; worker_rlimit_nofile 20000;
events {{ worker_connections 16384; multi_accept on; }}
http {{ {temp} keepalive_requests 1000000000; keepalive_timeout 300s; sendfile on; tcp_nopush on; {http} }}
"""),
    ]


def origin(directory, port):
    return nginx(directory, "origin", port, f"""access_log off;
server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ default_type text/plain; return 200 "{BODY}"; }} }}""")


def nginx_proxy(directory, name, port, upstream, keepalive):
    kept = "keepalive 512; keepalive_requests 1000000000;" if keepalive else ""
    headers = 'proxy_http_version 1.1; proxy_set_header Connection "";' if keepalive else ""
    return nginx(directory, name, port, f"""access_log {directory}/{name}.log combined buffer=256k flush=10s;
upstream origin {{ server 127.0.0.1:{upstream}; {kept} }}
server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ proxy_pass http://origin; {headers}
  proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; }} }}""")


def haproxy(directory, port, upstream):
    return ["haproxy", "-db", "-f", write(directory, "haproxy.cfg", f"""global
  nbthread 1
  maxconn 8000
defaults
  mode http
  timeout client 300s
  timeout server 300s
  timeout connect 5s
  option forwardfor
  http-reuse always
frontend clients
  bind 127.0.0.1:{port} backlog 4096
  default_backend origin
backend origin
  server origin 127.0.0.1:{upstream} maxconn 8000
""")]


def weir(binary, directory, port, upstream):
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
""")]


def write(directory, name, text):
    path = f"{directory}/{name}"
    with open(path, "w") as file:
        file.write(text)
    return path


def measure(server, connections, seconds):
    """One run of wrk; the first half second warms up and is not counted."""
    target = f"http://127.0.0.1:{server.port}/"
    wrk = ["taskset", "-c", LOAD_CPU, "wrk", "-t1", f"-c{connections}", "--latency", "--timeout", "20s"]
    subprocess.run([*wrk, "-d1s", target], capture_output=True, check=True)
    before = server.cpu_us()
    printed = subprocess.run([*wrk, f"-d{seconds}s", target], capture_output=True, check=True, text=True).stdout
    used = server.cpu_us() - before
    requests = int(re.search(r"(\d+) requests in", printed)[1])
    unit = {"us": 1, "ms": 1e3, "s": 1e6}
    latency = {f"p{q}_us": float(value) * unit[suffix] for q, value, suffix in
               re.findall(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s)$", printed, re.M)}
    return {
        "server": server.name, "connections": connections, "requests": requests, "cpu_us": used / requests,
        "rate": float(re.search(r"Requests/sec:\s+([\d.]+)", printed)[1]), **latency,
        "errors": re.findall(r"(?:Non-2xx|Socket errors).*", printed),
    }


def table(samples, names):
    rows = ["| connections | proxy | CPU µs/request | requests/s | p50 µs | p99 µs | weir costs |",
            "| ---: | --- | ---: | ---: | ---: | ---: | ---: |"]
    for connections in sorted({sample["connections"] for sample in samples}):
        runs = {name: [s for s in samples if s["server"] == name and s["connections"] == connections] for name in names}
        for name in names:
            median = {key: statistics.median(run[key] for run in runs[name])
                      for key in ("cpu_us", "rate", "p50_us", "p99_us")}
            ratio = statistics.median(ours["cpu_us"] / theirs["cpu_us"]
                                      for ours, theirs in zip(runs["weir"], runs[name]))
            share = "" if name == "weir" else f"{ratio:.2f} ×"
            rows.append(f"| {connections} | {name} | {median['cpu_us']:.1f} | {median['rate']:,.0f} "
                        f"| {median['p50_us']:.0f} | {median['p99_us']:.0f} | {share} |")
    return "\n".join(rows)


def machine():
    with open("/proc/cpuinfo") as info:
        model = re.search(r"model name\s*: (.*)", info.read())
    versions = [re.search(r"[\d.]+", subprocess.run(command, capture_output=True, text=True).stdout
                          + subprocess.run(command, capture_output=True, text=True).stderr)[0]
                for command in (["nginx", "-v"], ["haproxy", "-v"])]
    return (f"{datetime.date.today()}, {os.cpu_count()} × {model[1] if model else platform.machine()}, "
            f"Linux {platform.release()}, nginx {versions[0]}, HAProxy {versions[1]}")


def write_readme(path, text):
    with open(path) as file:
        before, rest = file.read().split(MARKERS[0])
    _, after = rest.split(MARKERS[1])
    with open(path, "w") as file:
        file.write(f"{before}{MARKERS[0]}\n{text}\n{MARKERS[1]}{after}")


def measured_round(options, directory, number):
    """The samples of one round, in which every process is a new one."""
    ports = {name: free_port() for name in ("origin", "weir", "nginx", "HAProxy", "nginx (default)")}
    upstream = ports["origin"]
    commands = {
        "weir": weir(options.weir, directory, ports["weir"], upstream),
        "nginx": nginx_proxy(directory, "nginx", ports["nginx"], upstream, True),
        "HAProxy": haproxy(directory, ports["HAProxy"], upstream),
        "nginx (default)": nginx_proxy(directory, "default", ports["nginx (default)"], upstream, False),
    }
    servers, samples = [], []
    try:
        with open(f"{directory}/output", "a") as log:
            servers.append(Server("origin", origin(directory, upstream), LOAD_CPU, upstream, log))
            order = list(commands) if number % 2 == 0 else list(reversed(commands))
            proxies = []
            for name in order:
                proxies.append(Server(name, commands[name], PROXY_CPU, ports[name], log))
                servers.append(proxies[-1])
            for connections in map(int, options.connections.split(",")):
                for proxy in proxies:
                    samples.append({"round": number, **measure(proxy, connections, options.seconds)})
    finally:
        for server in reversed(servers):
            server.stop()
    return samples


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--weir", required=True, help="the binary to measure")
    arguments.add_argument("--connections", default="1,64,512", help="comma-separated")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=int, default=3, help="of each measurement")
    arguments.add_argument("--readme", help="the file whose table is replaced")
    options = arguments.parse_args()
    directory = tempfile.mkdtemp(prefix="weir-bench-", dir="/dev/shm")
    try:
        samples = []
        for number in range(options.rounds):
            samples += measured_round(options, directory, number)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    names = list(dict.fromkeys(sample["server"] for sample in samples))
    text = f"{table(samples, names)}\n\n{machine()}; `make bench` measures it again."
    print(text)
    errors = [f"{s['server']}, {s['connections']} connections: {e}" for s in samples for e in s["errors"]]
    print(*errors, sep="\n")
    if options.readme:
        write_readme(options.readme, text)
        with open("bench/proxy.json", "w") as file:
            json.dump({"machine": machine(), "samples": samples}, file, indent=1)
            file.write("\n")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
