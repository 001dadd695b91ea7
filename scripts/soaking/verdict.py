"""The end of a run: what must be as it was before once faults and clients are gone, and the table that says what happened."""
import asyncio, json, statistics, time

from . import gateway as of
from .judge import Asked, Wrong
from .wire import Closed, Connection, Hangs, Malformed

SETTLE_S = 60
# Files of the disk tier that are open while it is in use, and the connections of one sample itself.
DESCRIPTORS_MORE_MAX = 12
# A quarter of `cache.memory` for what clients hold, 16 MiB at least; 64 KiB for each connection on which something is sent; and a
# constant: buffers, the index of the disk, what the allocator has not given back.
CONNECTIONS_MAX = 512
RSS_MORE_MIB_MAX = of.MEMORY_MIB + max(of.MEMORY_MIB / 4, 16) + CONNECTIONS_MAX / 16 + 64
# Between the last two thirds: what an allocator's noise may be. Below this time a cache is still filling.
FLAT_SHARE, FLAT_MIB, FLAT_MINUTES_MIN = 0.10, 8, 5
IDLE_OVER_S, IDLE_CPU_SHARE_MAX = 2, 0.5


async def settle(gateway, before):
    """Waits until nothing is left of the run, and says what still is after `SETTLE_S`."""
    ends = time.monotonic() + SETTLE_S
    while True:
        left = []
        descriptors = sum(gateway.descriptors().values())
        if descriptors > before["descriptors"] + DESCRIPTORS_MORE_MAX:
            left.append(f"{descriptors} descriptors are open, {before['descriptors']} at the start: {gateway.descriptors()}")
        if (threads := gateway.sample()["threads"]) > before["threads"]:
            left.append(f"{threads} threads, {before['threads']} at the start: {sorted(gateway.cpu_s())}")
        status = await gateway.status()
        if status is None:
            left.append("/status does not answer")
        elif status["connections"]:
            left.append(f"{status['connections']} client connections are counted")
        elif in_flight := await gateway.in_flight():
            left.append(f"{in_flight} requests hold places or are counted in flight: {json.dumps(status['upstreams'])}")
        if not left or time.monotonic() > ends:
            return left
        await asyncio.sleep(0.5)


async def hold_open(port):
    """For `--break descriptors`: a connection that never is idle for long, and another when it ends."""
    while True:
        connection = await Connection.open(port)
        try:
            while True:
                await connection.send(b"OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n")
                await connection.answer("OPTIONS")
                await asyncio.sleep(0.5)
        except (Closed, Malformed):
            pass
        finally:
            connection.close()


async def spinning(gateway):
    before = gateway.cpu_s()
    await asyncio.sleep(IDLE_OVER_S)
    after = gateway.cpu_s()
    busy = {name: (spent - before.get(name, 0)) / IDLE_OVER_S for name, spent in after.items()}
    return [f"{name} at {share:.0%} of a CPU with nobody there" for name, share in busy.items() if share > IDLE_CPU_SHARE_MAX]


async def serves_again(clients):
    """Whether every area answers 200 again within the longest time that an endpoint may be left out."""
    ends, missing = time.monotonic() + 30, []
    for area in ["c", "w", "z", "x", "y", "p", "k", "flip"]:
        while True:
            asked = Asked("GET", "a.test", f"/{area}/0", {"x-who": "after"})
            try:
                word = (await clients.exchange(asked))[0]
            except (Closed, Hangs, Malformed, Wrong) as error:
                word = repr(error)
            if word == "200":
                break
            if time.monotonic() > ends:
                missing.append(f"/{area}/0 is not answered well again: {word}")
                break
            await asyncio.sleep(0.2)
    return missing


def of_samples(samples, before, minutes):
    """What memory did."""
    found, rss = [], [sample["RSS MiB"] for sample in samples]
    rss_max = before["RSS MiB"] + RSS_MORE_MIB_MAX
    if max(rss) > rss_max:
        found.append(f"RSS was {max(rss):.0f} MiB, at most {rss_max:.0f} is explained")
    third = len(rss) // 3
    if minutes >= FLAT_MINUTES_MIN and third:
        middle, last = statistics.median(rss[third:2 * third]), statistics.median(rss[2 * third:])
        if last > middle * (1 + FLAT_SHARE) + FLAT_MIB:
            found.append(f"RSS grows: median {middle:.0f} MiB in the second third, {last:.0f} in the last")
    return found


def table(judge, faults, samples):
    for kind, outcomes in sorted(judge.outcomes.items()):
        told = "  ".join(f"{word}: {count}" for word, count in sorted(outcomes.items()))
        print(f"{kind:17}{sum(outcomes.values()):8}  {told}")
    told = "  ".join(f"{kind}: {count}" for kind, count in sorted(faults.counts.items()))
    print(f"{'faults':17}{sum(faults.counts.values()):8}  {told}")
    if stalls := judge.stalls.seen:
        excused = ", ".join(f"{what}: {count}" for what, count in judge.excused().items()) or "nothing"
        print(f"the machine stood still {len(stalls)} times, for up to {max(late_s for _, late_s in stalls):.1f} s; excused by that: {excused}")
    print(f"\n{'samples':17}{'min':>8}{'median':>8}{'max':>8}{'last':>8}")
    for name in samples[0]:
        values = [sample[name] for sample in samples]
        row = [min(values), statistics.median(values), max(values), values[-1]]
        print(f"{name:17}" + "".join(f"{value:8.0f}" for value in row))
