#!/usr/bin/env python3
"""What misses do to hits: latency of cache hits at a fixed rate, while one request in ten goes to an origin that takes 200 ms.

    bench/mixed.py --weir target/dist/weir

weir has one worker, alone on CPU 0; generators and origin are on CPU 1. Two generators run at once: one asks for what is
stored (1,000 objects, Zipf 0.9), the other each time for something new. In the rounds without misses the second one sends the
same requests to the origin itself, so that CPU 1 has the same to do. Rounds go A B B A; the ratio is the median of the
pairs' ratios. Latency counts from the instant a request was due. Traffic stays on the loopback interface.
"""
import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from proxy import LOAD_CPU, PROXY_CPU, Server, free_port

OBJECTS = 1000
HITS = f'[[request]]\npath = "/hit/{{zipf:1..{OBJECTS}:0.9}}"\n'
MISSES = '[[request]]\npath = "/miss/%d/{seq}"\n'
CONFIG = """[server]
workers = 1
[[listener]]
address = "127.0.0.1:%d"
[cache]
memory = "64MiB"
[upstream.app]
servers = ["127.0.0.1:%d"]
[[route]]
path = "/{*rest}"
upstream = "app"
cache = true
"""
BODY = b"x" * 612
RESPONSE = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)


class Origin(asyncio.Protocol):
    """Answers whatever is asked: a miss after 200 ms, what is to be a hit at once. One request at a time, as weir asks."""

    def connection_made(self, transport):
        self.transport, self.head = transport, b""

    def data_received(self, data):
        self.head += data
        if self.head.endswith(b"\r\n\r\n"):
            delay = 0.2 if b"/miss/" in self.head else 0
            self.head = b""
            asyncio.get_running_loop().call_later(delay, self.answer)

    def answer(self):
        if not self.transport.is_closing():
            self.transport.write(RESPONSE)


async def serve_origin(port):
    server = await asyncio.get_running_loop().create_server(Origin, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


def load(binary, mix, port, rate, connections, seconds, warm_up=1):
    return subprocess.Popen(
        ["taskset", "-c", LOAD_CPU, binary, "load", f"http://127.0.0.1:{port}", "--mix", mix, "--rate", str(rate), "-t", "1",
         "-c", str(connections), "-d", f"{seconds}s", "--warm-up", f"{warm_up}s", "--quiet", "--json", "-"],
        stdout=subprocess.PIPE, text=True)


def result(process):
    printed, _ = process.communicate()
    report = json.loads(printed)
    failed = {name: count for name, count in report["outcomes"].items() if name != "2xx" and count}
    if failed:
        sys.exit(f"not every request succeeded: {failed}")
    return report


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--weir", help="the binary to measure")
    arguments.add_argument("--rate", type=int, default=4500, help="hits a second; a ninth of it is misses")
    arguments.add_argument("--pairs", type=int, default=4)
    arguments.add_argument("--seconds", type=int, default=4, help="of each round")
    arguments.add_argument("--origin", type=int, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.origin:
        return asyncio.run(serve_origin(options.origin))
    weir = os.path.abspath(options.weir)
    directory = tempfile.mkdtemp(prefix="weir-bench-", dir="/dev/shm")
    servers = []
    try:
        hits, misses, config = (f"{directory}/{name}.toml" for name in ("hits", "misses", "weir"))
        origin, proxy = free_port(), free_port()
        for path, text in [(hits, HITS), (config, CONFIG % (proxy, origin))]:
            with open(path, "w") as file:
                file.write(text)
        log = open(f"{directory}/out.log", "a")
        own = [sys.executable, os.path.abspath(__file__), "--origin", str(origin)]
        servers.append(Server("origin", own, LOAD_CPU, origin, log))
        servers.append(Server("weir", [weir, "serve", "--config", config], PROXY_CPU, proxy, log))
        result(load(weir, hits, proxy, options.rate, 64, 3))
        pairs = []
        for pair in range(options.pairs):
            both = {}
            for has_misses in (False, True) if pair % 2 == 0 else (True, False):
                with open(misses, "w") as file:
                    file.write(MISSES % (2 * pair + has_misses))
                beside = load(weir, misses, proxy if has_misses else origin, options.rate // 9, 512, options.seconds + 1, 0)
                asked = result(load(weir, hits, proxy, options.rate, 64, options.seconds))
                waited = result(beside)
                if waited["latency_us"]["p50"] < 200_000:
                    sys.exit("what should have been misses was not")
                both[has_misses] = asked
                quantiles = "  ".join(f"{name} {asked['latency_us'][name]:8.0f}" for name in ("p50", "p90", "p99", "p99.9"))
                print(f"{'with' if has_misses else 'without':8} misses: hits {asked['rate']:6.0f}/s, us: {quantiles}; "
                      f"beside them {waited['rate']:5.0f}/s, p50 {waited['latency_us']['p50'] / 1000:.0f} ms"
                      f"{'' if asked['valid'] and waited['valid'] else '; not valid: ' + ' '.join(asked['why_invalid'] + waited['why_invalid'])}")
            pairs.append(both[True]["latency_us"]["p99"] / both[False]["latency_us"]["p99"])
        print(f"p99 of hits, with misses / without: {statistics.median(pairs):.2f} "
              f"(pairs {', '.join(f'{pair:.2f}' for pair in pairs)})")
    finally:
        for server in reversed(servers):
            server.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
