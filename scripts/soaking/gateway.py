"""The gateway that is soaked: its two configurations, its process, and what can be read off it from outside."""
import asyncio, json, os, pathlib, re, socket, subprocess, time

from .wire import Closed, Hangs, Malformed, ask

MEMORY_MIB, DISK_MIB = 64, 256
DRAIN_S = 10
LIMITED_PLACES = 8
# Short, so that what is left behind is gone within the time that the end of a run waits.
TIMEOUTS = f'head = "3s", idle = "5s", body = "3s", send = "5s", drain = "{DRAIN_S}s"'
ADMIN_S = 5


class CannotBegin(Exception):
    """Something that the run needs did not start."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def config(directory, ports, origins, is_other=False):
    """The first configuration, or the other one that reloads change to and from."""
    servers = [f'"127.0.0.1:{port}"' for port in origins]
    some = ", ".join(servers[:2] if is_other else servers)
    upstream = 'idle_timeout = "3s"\n'
    timeout = 'timeout = { connect = "500ms", response = "3s", idle = "3s" }\n'
    flip = 'respond = { body = "flip" }' if is_other else f'upstream = "main"\n{timeout}'
    swr = '"1s"' if is_other else '"3s"'
    listener = f'[[listener]]\naddress = "127.0.0.1:{ports["other"]}"\n' if is_other else ""
    return f'''[server]
workers = 2
[[listener]]
address = "127.0.0.1:{ports["proxy"]}"
{listener}[admin]
listen = "127.0.0.1:{ports["admin"]}"
[access_log]
path = "{directory}/access.log"
format = "json"
flush = "1s"
[timeouts]
{TIMEOUTS.replace(", ", chr(10))}
[cache]
memory = "{MEMORY_MIB}MiB"
disk = {{ path = "{directory}/cache", size = "{DISK_MIB}MiB" }}
[upstream.main]
servers = [{some}]
{upstream}[upstream.guarded]
servers = [{", ".join(servers[:2])}]
protect = true
{upstream}[upstream.limited]
servers = [{", ".join(servers[1:])}]
concurrency = {{ limit = {LIMITED_PLACES}, queue_target = "500ms" }}
{upstream}[[route]]
path = "/{{*rest}}"
upstream = "main"
{timeout}[[route]]
path = "/c/{{*rest}}"
upstream = "main"
cache = {{ stale_while_revalidate = {swr} }}
{timeout}[[route]]
path = "/w/{{*rest}}"
upstream = "main"
cache = true
{timeout}[[route]]
host = "b.test"
path = "/w/{{*rest}}"
methods = ["PUT", "POST"]
upstream = "main"
{timeout}[[route]]
host = "b.test"
path = "/w/{{*rest}}"
methods = ["GET"]
upstream = "main"
cache = {{ refresh_ahead = 0.5, stale_if_error = "10s" }}
{timeout}[[route]]
path = "/z/{{*rest}}"
upstream = "main"
cache = true
compress = true
{timeout}[[route]]
path = "/y/{{*rest}}"
upstream = "guarded"
compress = true
{timeout}[[route]]
path = "/p/{{*rest}}"
upstream = "guarded"
cache = true
retry = 1
{timeout}[[route]]
path = "/k/{{*rest}}"
upstream = "limited"
{timeout}[[route]]
path = "/flip/{{*rest}}"
{flip}
'''


class Gateway:
    def __init__(self, binary, directory, origins):
        self.binary, self.directory, self.origins = os.path.abspath(binary), pathlib.Path(directory), origins
        self.ports = {name: free_port() for name in ["proxy", "admin", "other"]}
        self.process = None

    def write_config(self, is_other=False):
        """Replaces the file by a renamed one, so that it is never read half."""
        new = self.directory / "weir.toml.new"
        new.write_text(config(self.directory, self.ports, self.origins, is_other))
        new.rename(self.directory / "weir.toml")

    async def start(self):
        self.write_config()
        self.log = open(self.directory / "weir.err", "wb")
        self.process = subprocess.Popen([self.binary, "serve", "--config", str(self.directory / "weir.toml")],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        for _ in range(200):
            if self.process.poll() is not None:
                raise CannotBegin("weir did not start: " + (self.directory / "weir.err").read_text(errors="replace"))
            try:
                return await ask(self.ports["admin"], "GET", "/healthz")
            except Closed:
                await asyncio.sleep(0.05)
        raise CannotBegin("weir did not start within 10 s")

    async def admin(self, method, target, json=None):
        """Status and body; None when there was no answer in time."""
        try:
            return await asyncio.wait_for(ask(self.ports["admin"], method, target, json), ADMIN_S)
        except (TimeoutError, Closed, Hangs, Malformed, OSError) as error:
            return None, f"{type(error).__name__} {error}".encode()

    async def status(self):
        status, body = await self.admin("GET", "/status")
        return json.loads(body) if status == 200 else None

    async def in_flight(self):
        """Requests on their way, as each upstream counts them."""
        _, body = await self.admin("GET", "/metrics")
        lines = re.findall(rb"(?m)^weir_(?:upstream|concurrency)_(?:in_flight|waiting)\{.*\} (\d+)", body)
        return sum(map(int, lines))

    def descriptors(self):
        """What is open, counted by kind."""
        kinds = {}
        for entry in os.scandir(f"/proc/{self.process.pid}/fd"):
            try:
                kind = os.readlink(entry.path).split(":")[0]
            except FileNotFoundError:
                continue
            kinds[kind] = kinds.get(kind, 0) + 1
        return kinds

    def sample(self):
        """Resident memory in MiB, descriptors, threads."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return {"RSS MiB": int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024, "descriptors": sum(self.descriptors().values()),
                "threads": int(re.search(r"Threads:\s+(\d+)", status)[1])}

    def cpu_s(self):
        """CPU time so far of each thread, by its name and number."""
        found = {}
        for entry in os.scandir(f"/proc/{self.process.pid}/task"):
            try:
                name, _, rest = pathlib.Path(entry.path, "stat").read_text().partition("(")[2].rpartition(")")
            except FileNotFoundError:
                continue
            spent = rest.split()
            found[f"{name} ({entry.name})"] = (int(spent[11]) + int(spent[12])) / os.sysconf("SC_CLK_TCK")
        return found

    def stop(self):
        """Exit status after SIGTERM and how long it took; None when it had to be killed."""
        began = time.monotonic()
        self.process.terminate()
        try:
            return self.process.wait(DRAIN_S + 5), time.monotonic() - began
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None, time.monotonic() - began
