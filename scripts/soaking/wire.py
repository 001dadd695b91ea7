"""As much of an HTTP/1.1 client as can be told every mistake: answers are read strictly, and no wait is without a deadline."""
import asyncio, re, socket
from dataclasses import dataclass, field

# Longer than the longest way to an answer: three attempts of `timeout.response`, and three waits for others.
HEAD_DEADLINE_S = 40
# Longer than `timeout.idle`, and than the 10 s that a disk may take.
READ_DEADLINE_S = 20


class Hangs(Exception):
    """Nothing came, for longer than every deadline of the gateway."""


class Malformed(Exception):
    """What came is not HTTP."""


class Closed(Exception):
    """The connection ended before the head of an answer."""


@dataclass
class Answer:
    status: int
    fields: dict
    body: bytearray = field(default_factory=bytearray)
    is_whole: bool = False


class Reader(asyncio.StreamReader):
    """Gives out what came before a reset; the one of asyncio forgets it."""
    is_reset = False

    def set_exception(self, exc):
        self.is_reset = True
        self.feed_eof()


class Connection:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.answers, self.sent = 0, b""

    @staticmethod
    async def open(port, receive_buffer=None):
        end = socket.socket()
        end.setblocking(False)
        if receive_buffer:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            await asyncio.wait_for(asyncio.get_running_loop().sock_connect(end, ("127.0.0.1", port)), READ_DEADLINE_S)
        except TimeoutError:
            end.close()
            raise Hangs("connecting") from None
        except OSError as error:
            end.close()
            raise Closed(f"connecting: {error}") from None
        limit = 64 << 10 if receive_buffer is None else 4096
        loop = asyncio.get_running_loop()
        reader = Reader(limit=limit)
        transport, protocol = await loop.create_connection(lambda: asyncio.StreamReaderProtocol(reader), sock=end)
        return Connection(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    async def send(self, data):
        self.sent = data
        try:
            self.writer.write(data)
            await asyncio.wait_for(self.writer.drain(), READ_DEADLINE_S)
        except TimeoutError:
            raise Hangs("sending") from None
        except ConnectionError:
            pass  # An answer may be there all the same.

    async def within(self, read, deadline_s, what):
        try:
            return await asyncio.wait_for(read, deadline_s)
        except TimeoutError:
            raise Hangs(what) from None

    async def head(self):
        """The next final response without its body."""
        while True:
            try:
                head = await self.within(self.reader.readuntil(b"\r\n\r\n"), HEAD_DEADLINE_S, "an answer")
            except asyncio.IncompleteReadError as error:
                if error.partial and not self.reader.is_reset:
                    raise Malformed(f"half a head: {error.partial[:200]!r}") from None
                raise Closed(f"no answer after {self.answers} others; sent {self.sent[:300]!r}") from None
            first, *lines = head.decode("latin-1").split("\r\n")[:-2]
            if not re.fullmatch(r"HTTP/1\.1 [1-5]\d\d .*", first) or not all(":" in line for line in lines):
                raise Malformed(f"a head: {head[:200]!r}")
            status, fields = int(first[9:12]), {}
            for line in lines:
                name, _, value = line.partition(":")
                name, value = name.lower(), value.strip()
                fields[name] = f"{fields[name]}, {value}" if name in fields else value
            if status >= 200:
                self.answers += 1
                return Answer(status, fields)

    async def answer(self, method, pause_s=0):
        """The next final response. A body that broke off is not whole; `pause_s` is between two reads."""
        answer = await self.head()
        try:
            if method == "HEAD" or answer.status in (204, 304):
                pass
            elif "chunked" in answer.fields.get("transfer-encoding", ""):
                await self.chunks(answer, pause_s)
            elif (length := answer.fields.get("content-length")) is not None:
                await self.exactly(int(length), answer.body, pause_s)
            elif "close" in answer.fields.get("connection", ""):
                # Only a clean end is one; what broke off ends in a reset.
                while part := await self.within(self.reader.read(256 << 10), READ_DEADLINE_S, "a body"):
                    answer.body += part
                if self.reader.is_reset:
                    return answer
            else:
                raise Malformed("an answer without framing")
            answer.is_whole = True
        except asyncio.IncompleteReadError:
            # A clean end would say to many clients that this is all.
            if not self.reader.is_reset:
                raise Malformed(f"a body of {len(answer.body)} bytes ends early without a reset: {answer.fields}") from None
        return answer

    async def exactly(self, count, into, pause_s):
        end = len(into) + count
        while len(into) < end:
            part = await self.within(self.reader.read(min(end - len(into), 256 << 10)), READ_DEADLINE_S, "a body")
            if not part:
                raise asyncio.IncompleteReadError(b"", end)
            into += part
            if pause_s:
                await asyncio.sleep(pause_s)

    async def chunks(self, answer, pause_s):
        while True:
            line = await self.within(self.reader.readuntil(b"\r\n"), READ_DEADLINE_S, "a chunk")
            if not re.fullmatch(rb"[0-9a-fA-F]{1,15}(;.*)?\r\n", line):
                raise Malformed(f"a chunk: {line[:100]!r}")
            size = int(line.split(b";")[0], 16)
            if not size:
                break
            await self.exactly(size, answer.body, pause_s)
            if await self.within(self.reader.readexactly(2), READ_DEADLINE_S, "a chunk") != b"\r\n":
                raise Malformed("a chunk without its end")
        while await self.within(self.reader.readuntil(b"\r\n"), READ_DEADLINE_S, "trailers") != b"\r\n":
            pass

    def can_go_on(self, answer):
        return answer.is_whole and "close" not in answer.fields.get("connection", "")

    def close(self):
        self.writer.close()

    def leave(self):
        """Leaves at once, with a reset if there is something that was not read."""
        self.writer.transport.abort()


async def ask(port, method, target, json=None):
    """One request to the admin listener: status and body."""
    connection = await Connection.open(port)
    try:
        typed = b"" if json is None else b"Content-Type: application/json\r\n"
        body = (json or "").encode()
        await connection.send(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n".encode()
                              + typed + b"Connection: close\r\n\r\n" + body)
        answer = await connection.answer(method)
        return answer.status, bytes(answer.body)
    finally:
        connection.close()
