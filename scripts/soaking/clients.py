"""The clients: each kind is one coroutine, one visit, that says in a word how it ended or raises what must not happen."""
import asyncio, random, time

from .judge import Asked, Wrong
from .truth import WRITABLE_PATHS, body_of, size_of, slot_of
from .wire import Closed, Connection, Hangs, Malformed

HOSTS = ["a.test", "b.test"]
# Statuses that a malformed request may get; the connection may also just be closed.
REFUSED = (400, 408, 413, 414, 417, 431, 501, 505)
# A client of this script that takes so long between two pieces of an upload may be told that it is too slow.
SLOW_S = 1
MALFORMED = [
    b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", b"GET / HTTP/1.1\nHost: a.test\n\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n", b"GET /c/../../x HTTP/1.1\r\nHost: a.test\r\n\r\n",
    b"GET /%zz HTTP/1.1\r\nHost: a.test\r\n\r\n", b"GET / HTTP/3.0\r\nHost: a.test\r\n\r\n",
    b"CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80\r\n\r\n", b"TRACE / HTTP/1.1\r\nHost: a.test\r\n\r\n",
    b"POST /x/1 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /x/1 HTTP/1.1\r\nHost: a.test\r\nContent-Length: +3\r\n\r\nabc",
    b"POST /x/1 HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nabc\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a.test\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a.test\r\n" + b"X: y\r\n" * 300 + b"\r\n", b"GET / HTTP/1.1\r\nHost: a.test\r\n folded\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a.test\r\nExpect: miracle\r\n\r\n", b"\0" * 50 + b"\r\n\r\n",
]
# Fields that change nothing of what may come back.
ODD_FIELDS = [{"pragma": "no-cache"}, {"cache-control": "no-cache"}, {"cache-control": "max-age=0"}, {"cache-control": "max-stale"},
              {"cache-control": "no-store"}, {"cache-control": "only-if-cached"}, {"cache-control": "min-fresh=2"},
              {"te": "trailers"}, {"connection": "x-hop", "x-hop": "1"}, {"x-long": "y" * 16_000}, {"upgrade": "h2c"},
              {"x-forwarded-for": "192.0.2.1"}, {"cookie": "a=b; c=d"}, {f"x-{i}": "many" for i in range(80)}]


class Clients:
    """All clients of one run, and what they know together: who writes what, and the last version of each path."""

    def __init__(self, judge, port, seed):
        self.judge, self.port, self.random = judge, port, random.Random(seed)
        self.writing, self.versions, self.count = set(), [0] * WRITABLE_PATHS, 0

    def asked(self, method="GET", area=None, **fields):
        """A request with what an ordinary client sends. Few paths are asked for often, many rarely."""
        pick, chance = self.random.choice, self.random.random
        area = area or pick(["c", "c", "c", "w", "w", "z", "z", "x", "y", "p", "p", "k", "flip"])
        number = min(int(self.random.paretovariate(0.6)), 400)
        path = f"/w/{number % WRITABLE_PATHS}" if area == "w" else f"/{area}/{number}" + pick(["", "", "?v=1"])
        self.count += 1
        sent = {"x-who": f"c{self.count}"}
        if chance() < 0.6:
            sent["accept-encoding"] = pick(["gzip", "gzip, deflate", "identity", "br", "zstd, br"])
        if chance() < 0.3:
            sent["origin"] = pick(["https://a", "https://b", "https://a,"])
        if chance() < 0.05:
            sent["authorization"] = f"Basic {self.count}"
        return Asked(method, HOSTS[slot_of(path) % 2] if area == "w" else pick(HOSTS), path, {**sent, **fields})

    def bytes_of(self, asked, target=None, host=None, version="1.1"):
        fields = "".join(f"{name}: {value}\r\n" for name, value in asked.fields.items())
        return f"{asked.method} {target or asked.path} HTTP/{version}\r\nHost: {host or asked.host}\r\n{fields}\r\n".encode()

    def hold_against(self, asked, answer):
        if asked.path.startswith("/flip/") and answer.status == 200 and "x-soak" not in answer.fields and (
                asked.method == "HEAD" or bytes(answer.body) == b"flip"):
            return "200"
        return self.judge.outcome(asked, answer)

    async def exchange(self, asked, connection=None, pause_s=0, body=b"", **form):
        """One request on a connection of its own or a given one, judged."""
        own = connection is None
        connection = connection or await Connection.open(self.port)
        try:
            await connection.send(self.bytes_of(self.judge.begin(asked), **form) + body)
            answer = await connection.answer(asked.method, pause_s)
            return self.hold_against(asked, answer), answer
        finally:
            if own:
                connection.close()

    async def get(self):
        """A few requests on one connection, as browsers do."""
        connection, word = await Connection.open(self.port), "none"
        try:
            for _ in range(self.random.randint(1, 6)):
                try:
                    word, answer = await self.exchange(self.asked(), connection)
                except Closed:
                    if not connection.answers:
                        raise
                    return "closed between"
                self.judge.outcomes["get"][word] += 1
                if not connection.can_go_on(answer):
                    break
                await asyncio.sleep(self.random.expovariate(20))
        finally:
            connection.close()
        return None

    async def head(self):
        return (await self.exchange(self.asked("HEAD")))[0]

    async def part(self):
        asked = self.asked()
        size = max(size_of(asked.path), 1)
        first = self.random.randrange(size + 10)
        last = first + self.random.randrange(size)
        asked.fields["range"] = "bytes=" + self.random.choice([f"{first}-{last}", f"{first}-", f"-{last or 1}", f"0-0,{first}-{last}"])
        known = self.judge.etags.get((asked.host, asked.path))
        if known and self.random.random() < 0.3:
            asked.fields["if-range"] = known[0]
        return (await self.exchange(asked))[0]

    async def condition(self):
        """With the tag of an answer that came before, if there is one."""
        asked = self.asked(area=self.random.choice(["c", "w", "z"]))
        known = self.judge.etags.get((asked.host, asked.path))
        if known:
            asked.fields["if-none-match"], asked.version_of_tag = known
        else:
            asked.fields["if-modified-since"] = "Tue, 14 Nov 2023 22:13:20 GMT"
        return (await self.exchange(asked))[0]

    async def write(self):
        """A write, and whoever asks once it is answered must see it."""
        slot = self.random.randrange(12 if self.random.random() < 0.7 else WRITABLE_PATHS)
        if slot in self.writing:
            return "another writes"
        self.writing.add(slot)
        try:
            self.versions[slot] += 1
            host = HOSTS[slot % 2]
            upload = f"upload {slot} {self.versions[slot]} {self.random.randrange(20_000)}"
            asked = self.asked(self.random.choice(["PUT", "POST"]), **{"x-upload": upload, "x-version": self.versions[slot]})
            asked.host, asked.path = host, f"/w/{slot}"
            form = self.random.choice([{}, {}, {"target": f"http://{host.upper()}:80/w/{slot}", "host": f"{host}:80"},
                                       {"host": f"{host.upper()}:80"}])
            word = await self.upload(asked, upload, **form)
            if word not in ("200", "201"):
                return word
            self.judge.wrote(asked.path, self.versions[slot])
            read = self.asked()
            read.host, read.path = host, asked.path
            return "then " + (await self.exchange(read))[0]
        finally:
            self.writing.discard(slot)

    async def upload(self, asked, upload, pause_s=0, stop_at=None, **form):
        size = int(upload.rsplit(" ", 1)[1])
        body, is_chunked = bytes(body_of(upload, size)), self.random.random() < 0.4
        asked.fields.update({"transfer-encoding": "chunked"} if is_chunked else {"content-length": size})
        connection, answering = await Connection.open(self.port), None
        sent_at, slowest_s = time.monotonic(), 0
        try:
            await connection.send(self.bytes_of(self.judge.begin(asked), **form))
            # An answer may come before the end, and the connection may end behind it.
            answering = asyncio.create_task(connection.answer(asked.method))
            piece = max(size // self.random.randint(1, 8), 1) if not pause_s else 2000
            for start in range(0, size, piece):
                if answering.done():
                    break
                if stop_at is not None and start >= stop_at:
                    return "left"
                part = body[start:start + piece]
                await connection.send(b"%x;a=b\r\n%b\r\n" % (len(part), part) if is_chunked else part)
                if pause_s:
                    await asyncio.sleep(pause_s)
                slowest_s, sent_at = max(slowest_s, time.monotonic() - sent_at), time.monotonic()
            if is_chunked:
                await connection.send(b"0\r\nX-End: yes\r\n\r\n")
            answer = await answering
            if "x-bad-upload" in answer.fields:
                raise Wrong("an upload arrived changed")
            if answer.status in (200, 201) and "x-made" in answer.fields:
                return str(answer.status)
            slowest_s = max(slowest_s, time.monotonic() - sent_at)
            # A machine that stands still makes any client a slow one.
            if answer.status == 408 and (pause_s or slowest_s >= SLOW_S):
                return "408"
            return self.hold_against(asked, answer)
        finally:
            if answering:
                answering.cancel()
                await asyncio.gather(answering, return_exceptions=True)
            connection.leave() if stop_at is not None else connection.close()

    def some_upload(self, size_max):
        self.count += 1
        upload = f"upload {self.count} {self.random.randrange(size_max)}"
        return self.asked(self.random.choice(["PUT", "POST"]), self.random.choice("xyk"), **{"x-upload": upload}), upload

    async def post(self):
        asked, upload = self.some_upload(2 << 20)
        if self.random.random() < 0.2:
            asked.fields["expect"] = "100-continue"
        return await self.upload(asked, upload)

    async def slow_upload(self):
        return await self.upload(*self.some_upload(40_000), pause_s=self.random.uniform(0.1, 1))

    async def upload_and_leave(self):
        asked, upload = self.some_upload(1 << 20)
        return await self.upload(asked, upload, stop_at=self.random.randrange(1 << 20))

    async def read_slowly(self):
        """Asks for much and takes it in small sips; a gateway that has had enough of it may break off."""
        connection = await Connection.open(self.port, receive_buffer=4096)
        asked = self.asked(area=self.random.choice("cczxkp"))
        try:
            await connection.send(self.bytes_of(self.judge.begin(asked)))
            answer = asyncio.wait_for(connection.answer("GET", self.random.uniform(0.02, 0.5)), self.random.uniform(5, 20))
            return self.hold_against(asked, await answer)
        except TimeoutError:
            return "left"
        finally:
            connection.leave()

    async def do_not_read(self):
        connection = await Connection.open(self.port, receive_buffer=4096)
        try:
            for _ in range(self.random.randint(1, 4)):
                await connection.send(self.bytes_of(self.judge.begin(self.asked())))
            await asyncio.sleep(self.random.uniform(1, 12))
            return "left"
        finally:
            connection.leave()

    async def leave(self):
        """Leaves at any stage: before, in and after the head, while it is answered, in a body; alone or with others."""
        async def one(asked, stage):
            connection = await Connection.open(self.port)
            try:
                head = self.bytes_of(self.judge.begin(asked))
                await connection.send(head[:self.random.randrange(len(head))] if stage == 0 else head)
                if stage == 1:
                    await asyncio.sleep(self.random.uniform(0, 0.1))
                elif stage == 2:
                    await connection.head()
                elif stage == 3:
                    await asyncio.wait_for(connection.reader.read(self.random.randrange(1, 100_000)), 10)
                if self.random.random() < 0.3:
                    connection.writer.write_eof()
                    await asyncio.sleep(self.random.uniform(0, 0.2))
            finally:
                connection.leave() if self.random.random() < 0.5 else connection.close()
        asked, stage = self.asked(), self.random.randrange(4)
        many = self.random.choice([1, 1, 1, 20])
        ended = await asyncio.gather(*(one(Asked("GET", asked.host, asked.path, {**asked.fields, "x-who": f"{asked.fields['x-who']}-{i}"}),
                                           stage) for i in range(many)), return_exceptions=True)
        for error in ended:
            if isinstance(error, (Hangs, Malformed)):
                raise error
        return "left"

    async def stampede(self):
        """Many at once for one thing, each with what may make it another variant."""
        first = self.asked(area=self.random.choice("cwzp"))
        many = [self.asked() for _ in range(self.random.randint(5, 30))]
        for asked in many:
            asked.host, asked.path = first.host, first.path
        for word in await asyncio.gather(*(self.exchange(asked) for asked in many)):
            self.judge.outcomes["stampede"][word[0]] += 1

    async def pipeline(self):
        connection = await Connection.open(self.port)
        try:
            many = [self.judge.begin(self.asked(self.random.choice(["GET", "GET", "HEAD"]))) for _ in range(self.random.randint(2, 8))]
            await connection.send(b"".join(map(self.bytes_of, many)))
            for asked in many:
                answer = await connection.answer(asked.method)
                self.judge.outcomes["pipeline"][self.hold_against(asked, answer)] += 1
                if not connection.can_go_on(answer):
                    break
        finally:
            connection.close()

    async def idle(self):
        """Opens connections and says nothing, or little; the gateway closes them in its own time."""
        many = [await Connection.open(self.port) for _ in range(self.random.randint(1, 20))]
        try:
            await asyncio.sleep(self.random.uniform(0, 9))
            if self.random.random() < 0.3:
                await many[0].send(b"GET /x/1 HT")
                await asyncio.sleep(self.random.uniform(0, 5))
            return "left"
        finally:
            for connection in many:
                connection.leave()

    async def odd(self):
        """Unusual and legal: none of it may be refused."""
        asked = self.asked(**self.random.choice(ODD_FIELDS))
        form = self.random.choice([{}, {"host": asked.host.upper()}, {"host": f"{asked.host}:80"}, {"host": f"{asked.host}:"},
                                   {"target": f"http://{asked.host}{asked.path}"}, {"version": "1.0"}, {"options": True}, {"empty": True}])
        connection = await Connection.open(self.port)
        try:
            if form.pop("options", False):
                asked.method, asked.host, asked.path = "OPTIONS", "a.test", self.random.choice(["*", "/x/options"])
            if form.pop("empty", False):
                await connection.send(b"\r\n")
            if form.get("version"):
                asked.fields["connection"] = "keep-alive"
            await connection.send(self.bytes_of(self.judge.begin(asked), **form))
            return self.hold_against(asked, await connection.answer(asked.method))
        finally:
            connection.close()

    async def malformed(self):
        connection = await Connection.open(self.port)
        try:
            await connection.send(self.random.choice(MALFORMED))
            answer = await connection.answer("GET")
            if answer.status not in REFUSED:
                raise Wrong(f"{answer.status} for a malformed request")
            return str(answer.status)
        except Closed:
            return "closed"
        finally:
            connection.close()

    KINDS = {"get": 30, "head": 3, "part": 8, "condition": 8, "write": 12, "post": 3, "slow_upload": 3, "upload_and_leave": 2,
             "read_slowly": 5, "do_not_read": 2, "leave": 8, "stampede": 4, "pipeline": 4, "idle": 3, "odd": 6, "malformed": 4}

    async def visit(self, kind):
        try:
            if word := await getattr(self, kind)():
                self.judge.outcomes[kind][word] += 1
        except Closed as error:
            self.judge.outcomes[kind]["CLOSED"] += 1
            self.judge.fail("closed without an answer", f"{kind}: {error}")
        except (Hangs, Malformed, Wrong) as error:
            self.judge.outcomes[kind][type(error).__name__.upper()] += 1
            self.judge.fail({Hangs: "hangs beyond its deadlines", Malformed: "malformed", Wrong: "wrong"}[type(error)], f"{kind}: {error}")

    async def live(self, ends):
        """One client, visit after visit, until the run ends."""
        while not ends.is_set():
            await self.visit(self.random.choices(list(self.KINDS), self.KINDS.values())[0])
            await asyncio.sleep(self.random.expovariate(10))
