"""An origin that answers as real ones do on a bad day. What it sends is always what its label says, unless it is told to lie.

It may be slow, fail, break off, hang or talk nonsense, but it never calls an answer something that it is not: what clients
get can be held against the label (`judge.py`).
"""
import asyncio, random, time
from email.utils import formatdate

from .truth import SLOW, WRONG, Label, State, body_of, plain_host, size_of, tag_of, value_of

SHARED = ["public, max-age=5", "max-age=1", "max-age=2, stale-while-revalidate=10", "max-age=1, stale-if-error=30", "s-maxage=3",
          "no-cache", "max-age=0, must-revalidate", "max-age=30", "public, max-age=60", None]
# Only for who asked; the last is damaged, and must be read to the safe side.
PRIVATE = ["private", "private, max-age=60", "no-store", "no-store, max-age=60", "private; max-age=60"]
FOR_ANYBODY_WITH_AUTHORIZATION = ("public", "s-maxage", "must-revalidate")
EPOCH_S = 1_700_000_000


class Request:
    def __init__(self, head):
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        self.method, self.target, _ = first.split(" ", 2)
        self.fields = {}
        for line in lines:
            name, _, value = line.partition(":")
            name, value = name.lower(), value.strip()
            self.fields[name] = f"{self.fields[name]}, {value}" if name in self.fields else value
        self.host = plain_host(self.fields.get("host", ""))
        self.body = b""

    async def read_body(self, reader, writer):
        if "100-continue" in self.fields.get("expect", ""):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if "transfer-encoding" in self.fields:
            parts = []
            while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
                parts.append(await reader.readexactly(size))
                await reader.readexactly(2)
            while await reader.readuntil(b"\r\n") != b"\r\n":
                pass
            self.body = b"".join(parts)
        elif length := int(self.fields.get("content-length", 0)):
            self.body = await reader.readexactly(length)


class Origin:
    def __init__(self, index, state, seed, lie):
        self.index, self.state, self.lie = index, State(state), lie
        self.random = random.Random(seed)

    async def serve(self, reader, writer):
        try:
            while True:
                request = Request(await reader.readuntil(b"\r\n\r\n"))
                await request.read_body(reader, writer)
                if not await self.answer(request, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def answer(self, request, writer):
        """Whether the connection can be used again."""
        chance, mode = self.random.random, self.state.mode(self.index)
        if mode == WRONG and chance() < 0.6 or chance() < 0.003:
            return await self.misbehave(request, writer)
        # An origin looks into its database first and is slow after that: what it sends may be old by then.
        made, version = time.monotonic_ns(), self.state.version(request.target)
        if request.method in ("PUT", "POST"):
            return await self.take(request, writer, made)
        label, fields = self.choose(request, version)
        if mode == SLOW and chance() < 0.7:
            await asyncio.sleep(self.random.uniform(0.1, 2))
        elif chance() < 0.15:
            await asyncio.sleep(self.random.uniform(0.005, 0.2))
        if chance() < 0.02:
            writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </style>; rel=preload\r\n\r\n")
        return await self.send(request, writer, label, [*fields, f"X-Made: {made}"], mode)

    def choose(self, request, version):
        """Which representation it is today. `Vary` differs from answer to answer, as it does during a deploy."""
        pick, chance = self.random.choice, self.random.random
        status = 200 if request.method == "OPTIONS" or chance() < 0.93 else pick([301, 302, 404, 404, 410, 500, 503])
        control, vary = pick(SHARED), pick([[], [], ["ae"], ["origin"], ["ae", "origin"]])
        fields = []
        if chance() < 0.1:
            control, vary = pick(PRIVATE), ["who"]
        elif chance() < 0.02:
            vary, fields = ["who"], ["Vary: *"]
        if "authorization" in request.fields and not any(word in (control or "") for word in FOR_ANYBODY_WITH_AUTHORIZATION):
            vary = [*vary, "auth"]
        label = self.label(request, status, version, vary)
        known = request.fields.get("if-none-match", "")
        if known and status == 200 and chance() < 0.8 and "who" not in vary and "auth" not in vary:
            ways = [[], ["ae"], ["origin"], ["ae", "origin"]]
            vary = next((way for way in ways if self.label(request, 200, version, way).etag() in known), vary)
            label = self.label(request, status, version, vary)
        names = {"ae": "Accept-Encoding", "origin": "Origin"}
        if named := [names[what] for what in vary if what in names]:
            fields += [] if self.lie == "variant" else ["Vary: " + ", ".join(named)]
        if control:
            fields.append(f"Cache-Control: {control}")
        if "ae=gzip" in label.chosen_by:
            fields.append("Content-Encoding: gzip")
        if status in (301, 302):
            fields.append("Location: /elsewhere")
        return label, fields

    def label(self, request, status, version, vary):
        chosen_by = ",".join(f"{what}={value_of(request.fields, what)}" for what in vary) or "-"
        return Label(request.host, request.target, status, version, chosen_by, size_of(request.target))

    async def take(self, request, writer, made):
        """A write: in force before it is answered. A body that is not what was sent is told."""
        sent = request.fields.get("x-upload")
        if sent and request.body != body_of(sent, int(sent.rsplit(" ", 1)[1])):
            writer.write(b"HTTP/1.1 200 OK\r\nX-Bad-Upload: yes\r\nContent-Length: 0\r\n\r\n")
            return True
        if "x-version" in request.fields and self.lie != "version":
            self.state.write(request.target, int(request.fields["x-version"]))
        if self.state.mode(self.index) == SLOW:
            await asyncio.sleep(self.random.uniform(0.1, 1))
        status = self.random.choice(["200 OK", "201 Created"])
        writer.write(f"HTTP/1.1 {status}\r\nX-Made: {made}\r\nContent-Length: 2\r\n\r\nok".encode())
        await writer.drain()
        return True

    async def send(self, request, writer, label, fields, mode):
        size, partial, known = label.size, None, request.fields.get("if-none-match")
        since = formatdate(EPOCH_S + label.version, usegmt=True)
        status = label.status
        if status == 200 and (label.etag() in known if known else request.fields.get("if-modified-since") == since):
            status, size = 304, 0
        elif status == 200 and request.method == "GET" and self.random.random() < 0.7:
            partial = part_of(request, label)
        if partial:
            status, size = 206, partial[1] - partial[0]
            fields.append(f"Content-Range: bytes {partial[0]}-{partial[1] - 1}/{label.size}")
        start = partial[0] if partial else 0
        body = bytes(label.body()[start:start + size])
        if self.lie == "body" and body and self.random.random() < 0.02:
            body = body[:-1] + b"!"
        framing = self.random.choice(["length", "length", "chunked"])
        if any("no-store" in field for field in fields) and self.random.random() < 0.3:
            framing = "close"
        framed = {"length": f"Content-Length: {size}", "chunked": "Transfer-Encoding: chunked", "close": "Connection: close"}
        lines = [f"HTTP/1.1 {status} Soaked", "Server: soak", "Content-Type: text/plain", f"Cache-Tag: all, {tag_of(label.path)}",
                 f"X-Soak: {label.text()}", f"ETag: {label.etag()}", f"Last-Modified: {since}", "Accept-Ranges: bytes",
                 f"X-Framing: {framing}", *fields]
        if status != 304:
            lines.append(framed[framing])
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        if request.method != "HEAD" and status != 304:
            await self.send_body(writer, body, framing, mode)
        await writer.drain()
        return framing != "close"

    async def send_body(self, writer, body, framing, mode):
        is_slow = self.random.random() < (0.6 if mode == SLOW else 0.05)
        piece = max(len(body) // self.random.randint(3, 12), 1) if is_slow else 256 << 10
        for start in range(0, len(body), piece):
            part = body[start:start + piece]
            writer.write(b"%x\r\n%b\r\n" % (len(part), part) if framing == "chunked" else part)
            await writer.drain()
            if is_slow:
                await asyncio.sleep(self.random.uniform(0.02, 0.3))
        if framing == "chunked":
            writer.write(b"0\r\n\r\n" if self.random.random() < 0.8 else b"0\r\nX-End: yes\r\n\r\n")

    async def misbehave(self, request, writer):
        """One of the ways in which an origin lets a request down; the connection is over after most of them."""
        kinds = ["status", "status", "hang", "garbage", "nothing", "reset", "head"]
        # What begins with a 200 would say of a write that it was taken.
        kinds += ["cut", "cut", "surplus", "chunk"] if request.method in ("GET", "HEAD") else []
        kind = self.random.choice(kinds)
        label, size = self.label(request, 200, self.state.version(request.target), ["who"]), size_of(request.target)
        head = f"HTTP/1.1 200 OK\r\nX-Soak: {label.text()}\r\nX-Made: {time.monotonic_ns()}\r\nX-Framing: length\r\nCache-Control: private\r\n"
        if kind == "status":
            status = self.random.choice([500, 502, 503, 504, 429, 501])
            writer.write(f"HTTP/1.1 {status} Not today\r\nX-Wrong: {status}\r\nContent-Length: 0\r\n\r\n".encode())
            return True
        if kind == "hang":
            await asyncio.sleep(8)
        elif kind == "garbage":
            writer.write(self.random.randbytes(self.random.randint(1, 4096)))
        elif kind == "head":
            writer.write(head[:self.random.randint(1, len(head))].encode())
        elif kind == "cut" and size:
            writer.write(f"{head}Content-Length: {size}\r\n\r\n".encode())
            writer.write(bytes(label.body()[:self.random.randrange(size)]))
        elif kind == "chunk":
            writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + b"5\r\nabc\r\n" * 2)
        elif kind == "surplus" and request.method != "HEAD":
            body = bytes(label.body()[:100])
            writer.write(f"{head}Content-Length: {size}\r\n\r\n".encode() + bytes(label.body()) + b"\0surplus" + body)
        if kind == "reset":
            writer.transport.abort()
            return False
        await writer.drain()
        return False


def part_of(request, label):
    """The part that a single range asks for, as (first, end), when it may be sent."""
    unit, _, spec = request.fields.get("range", "").partition("=")
    first, dash, last = spec.partition("-")
    if unit != "bytes" or "," in spec or not dash or not first.isdigit() or request.fields.get("if-range", label.etag()) != label.etag():
        return None
    first, end = int(first), min(int(last) + 1 if last else label.size, label.size)
    return (first, end) if first < end else None


async def run(spec):
    index, port, state, seed, lie = spec.split(",")
    origin = Origin(int(index), state, seed, lie)
    server = await asyncio.start_server(origin.serve, "127.0.0.1", int(port), limit=256 << 10, backlog=1024)
    async with server:
        await server.serve_forever()
