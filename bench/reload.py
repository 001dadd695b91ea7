#!/usr/bin/env python3
"""What reloads do to requests: a thousand of them under load, to and fro between two configurations.

    bench/reload.py --weir target/dist/weir [--reloads 1000]

Three sample services and a WebSocket server are behind a gateway. `weir load` keeps 32 connections busy for the whole
time, 50 WebSockets are open and are asked for an echo between reloads. The configurations differ in the servers of the
upstream, their weights, and 200 routes. It prints requests that failed, WebSockets that ended, connections that were
opened to the server that is in both, and the memory of the gateway before and after; anything lost is exit status 1.
Traffic stays on the loopback interface.
"""
import argparse
import base64
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

WEBSOCKETS = 50
WARM_UP = 50
ROUTES = 200


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serve_echo(listener):
    """Accepts upgrades and sends every byte back: frames are none of its business."""

    def echo(peer):
        head = b""
        while b"\r\n\r\n" not in head:
            head += peer.recv(4096)
        key = re.search(rb"(?i)sec-websocket-key: *(\S+)", head)[1]
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        peer.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        while data := peer.recv(4096):
            peer.sendall(data)

    while True:
        peer, _ = listener.accept()
        threading.Thread(target=echo, args=(peer,), daemon=True).start()


def open_websocket(port):
    peer = socket.create_connection(("127.0.0.1", port), timeout=20)
    key = base64.b64encode(os.urandom(16)).decode()
    peer.sendall(
        f"GET /chat HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    head = b""
    while b"\r\n\r\n" not in head:
        head += peer.recv(4096)
    assert head.startswith(b"HTTP/1.1 101 "), head
    return peer


def is_open(websocket):
    """Whether a text frame comes back (RFC 6455 §5.2, masked with zeros)."""
    frame = b"\x81\x85\0\0\0\0hello"
    try:
        websocket.sendall(frame)
        got = b""
        while len(got) < len(frame):
            part = websocket.recv(len(frame) - len(got))
            if not part:
                return False
            got += part
        return got == frame
    except OSError:
        return False


def wait_for_port(port):
    for _ in range(1000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    sys.exit(f"nothing listens on port {port}")


class Gateway:
    def __init__(self, binary, directory, echo_port, apps):
        self.binary, self.config = binary, os.path.join(directory, "weir.toml")
        self.port, self.admin = free_port(), free_port()
        head = (
            f'[server]\nworkers = 2\n[[listener]]\naddress = "127.0.0.1:{self.port}"\n'
            f'[admin]\nlisten = "127.0.0.1:{self.admin}"\n[upstream.echo]\nservers = ["127.0.0.1:{echo_port}"]\n'
            '[[route]]\npath = "/chat"\nupstream = "echo"\n[[route]]\npath = "/{*rest}"\nupstream = "app"\n'
        )
        a, b, c = (f'"127.0.0.1:{port}"' for port in apps)
        self.stays = apps[1]
        routes = (
            "".join(f'[[route]]\npath = "/{name}/{n}"\nrespond = {{}}\n' for n in range(ROUTES)) for name in "xy"
        )
        one, other = routes
        self.configs = [
            f"{head}[upstream.app]\nservers = [{a}, {b}]\n{one}",
            f"{head}[upstream.app]\nservers = [{{ address = {b}, weight = 5 }}, {c}]\n{other}",
        ]
        self.write(0)
        self.process = subprocess.Popen([binary, "serve", "--config", self.config], stderr=subprocess.DEVNULL)
        wait_for_port(self.admin)

    def write(self, number):
        with open(self.config + ".draft", "w") as draft:
            draft.write(self.configs[number % 2])
        os.rename(self.config + ".draft", self.config)

    def reload(self, number):
        """Writes the other configuration and has it taken up; how long that took, in seconds."""
        self.write(number)
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.admin}/reload", method="POST", headers={"Content-Type": "application/json"}
        )
        started = time.monotonic()
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert json.load(answer)["changes"]
        return time.monotonic() - started

    def connects(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=30) as answer:
            page = answer.read().decode()
        return int(re.search(rf'connects_total{{upstream="app",endpoint="127.0.0.1:{self.stays}"}} (\d+)', page)[1])

    def resident_kib(self):
        with open(f"/proc/{self.process.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def measure(gateway, reloads):
    websockets = [open_websocket(gateway.port) for _ in range(WEBSOCKETS)]
    load = subprocess.Popen(
        [gateway.binary, "load", f"http://127.0.0.1:{gateway.port}/", "-c", "32", "-t", "1", "-d", "600s", "--quiet",
         "--json", "-"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    # What the first ones take is not what each takes.
    for number in range(1, WARM_UP + 1):
        gateway.reload(number)
    before, connects = gateway.resident_kib(), gateway.connects()
    took, lost = [], 0
    for number in range(1, reloads + 1):
        took.append(gateway.reload(number))
        lost += not is_open(websockets[number % WEBSOCKETS])
    after, opened = gateway.resident_kib(), gateway.connects() - connects
    # As Ctrl-C does: it prints what there is.
    load.send_signal(2)
    result = json.loads(load.communicate(timeout=60)[0])
    lost = max(lost, sum(not is_open(websocket) for websocket in websockets))
    outcomes = result["outcomes"]
    failed = sum(count for name, count in outcomes.items() if name != "2xx")
    took.sort()
    print(f"{reloads} reloads, {WARM_UP} before them; configurations of {ROUTES + 2} routes")
    print(f"requests: {outcomes['2xx']} answered, {failed} failed, {result['rate']:.0f} a second")
    print(f"WebSockets: {WEBSOCKETS} open, {lost} lost")
    print(f"connections opened to the server that stays: {opened}")
    print(f"reload: median {took[len(took) // 2] * 1e3:.1f} ms, longest {took[-1] * 1e3:.1f} ms")
    print(f"memory: {before} KiB before, {after} KiB after")
    return failed == 0 and lost == 0 and outcomes["2xx"] > 0


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--weir", required=True, help="the binary to measure")
    arguments.add_argument("--reloads", type=int, default=1000)
    options = arguments.parse_args()
    binary = os.path.abspath(options.weir)
    directory = tempfile.mkdtemp(prefix="weir-bench-")
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    threading.Thread(target=serve_echo, args=(listener,), daemon=True).start()
    ports = [free_port() for _ in range(3)]
    processes = []
    try:
        for port in ports:
            command = [binary, "app", "--listen", f"127.0.0.1:{port}"]
            processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
            wait_for_port(port)
        gateway = Gateway(binary, directory, listener.getsockname()[1], ports)
        processes.append(gateway.process)
        sys.exit(0 if measure(gateway, options.reloads) else 1)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
