"""What goes wrong, on a schedule that the seed decides: origins that die, stop, crawl or lie dead, reloads and purges."""
import asyncio, collections, json, os, pathlib, random, signal, subprocess, sys, time

from .gateway import CannotBegin
from .truth import ORIGINS, SLOW, TAGS, WELL, WRONG

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "soak"


class Origins:
    def __init__(self, state, path, ports, seed, lie):
        self.state, self.path, self.ports, self.seed, self.lie = state, path, ports, seed, lie
        self.processes, self.starts = [None] * ORIGINS, 0

    def start(self, index):
        self.starts += 1
        spec = f"{index},{self.ports[index]},{self.path},{self.seed * 1000 + self.starts},{self.lie or ''}"
        self.processes[index] = subprocess.Popen([sys.executable, str(SCRIPT), "--origin", spec], stdin=subprocess.DEVNULL)

    async def wait(self):
        """Until all listen."""
        for port in self.ports:
            for _ in range(200):
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                except OSError:
                    await asyncio.sleep(0.05)
            else:
                raise CannotBegin(f"no origin listens on port {port}")

    def kill(self, index):
        self.processes[index].kill()
        self.processes[index].wait()

    def end(self):
        for index, process in enumerate(self.processes):
            if process:
                self.kill(index)


class Faults:
    def __init__(self, gateway, origins, judge, seed):
        self.gateway, self.origins, self.judge = gateway, origins, judge
        self.random, self.counts, self.is_other = random.Random(seed), collections.Counter(), False

    async def pause(self, ends, low_s, high_s):
        """Whether the run still goes on after a while."""
        try:
            await asyncio.wait_for(ends.wait(), self.random.uniform(low_s, high_s))
        except TimeoutError:
            return True
        return False

    async def of_origin(self, index, ends):
        """One fault after the other of one origin, and well again after each; all at once happens by itself."""
        while await self.pause(ends, 2, 12):
            kind = self.random.choice(["kill", "kill", "stop", "slow", "wrong", "wrong"])
            self.counts[f"origin {kind}"] += 1
            if kind == "kill":
                self.origins.kill(index)
                await asyncio.sleep(1)
                self.origins.start(index)
            elif kind == "stop":
                os.kill(self.origins.processes[index].pid, signal.SIGSTOP)
                try:
                    await self.pause(ends, 0.5, 6)
                finally:
                    os.kill(self.origins.processes[index].pid, signal.SIGCONT)
            else:
                self.origins.state.set_mode(index, SLOW if kind == "slow" else WRONG)
                await self.pause(ends, 2, 8)
                self.origins.state.set_mode(index, WELL)

    async def reloads(self, ends):
        while await self.pause(ends, 1, 8):
            await self.reload(not self.is_other, by_signal=self.random.random() < 0.3)

    async def reload(self, to_other, by_signal=False):
        self.is_other = to_other
        self.gateway.write_config(to_other)
        if by_signal:
            self.counts["SIGHUP"] += 1
            self.gateway.process.send_signal(signal.SIGHUP)
            return
        self.counts["POST /reload"] += 1
        status, body = await self.gateway.admin("POST", "/reload", "")
        if status != 200:
            self.judge.fail("a reload failed", f"{status} {body[:300]}")

    async def purges(self, ends):
        while await self.pause(ends, 0.1, 1.5):
            number, area = min(int(self.random.paretovariate(0.6)), 60), self.random.choice("cwzp")
            kind, value = self.random.choice([("url", f"http://a.test/{area}/{number}"), ("url", f"http://b.test/{area}/{number}"),
                                              ("prefix", f"/{area}/{number % 10}"), ("prefix", f"http://a.test/{area}/"),
                                              ("tag", f"t{number % TAGS}"), ("all", True) if number == 7 else ("tag", "t0")])
            is_soft = self.random.random() < 0.15
            began = time.monotonic_ns()
            status, body = await self.gateway.admin("POST", "/cache/purge", json.dumps({kind: value, "soft": is_soft}))
            if status != 200:
                self.judge.fail("a purge failed", f"{kind} {value}: {status} {body[:300]}")
            elif not is_soft:
                self.judge.purge(kind, value, began)
            self.counts[f"purge by {kind}"] += 1

    async def rotate(self, ends):
        while await self.pause(ends, 5, 20):
            self.counts["SIGUSR1"] += 1
            log = self.gateway.directory / "access.log"
            if log.exists():
                log.rename(f"{log}.{self.counts['SIGUSR1']}")
            self.gateway.process.send_signal(signal.SIGUSR1)

    def all(self, ends):
        return [*(self.of_origin(index, ends) for index in range(ORIGINS)), self.reloads(ends), self.purges(ends), self.rotate(ends)]
