"""What a client may be given: held against the label, against what was written and purged before, and against who asked."""
import asyncio, collections, re, sys, time, zlib
from dataclasses import dataclass, field

from .truth import Label, size_of, slot_of, tag_of, value_of

TOLD_MAX = 20
# Of the gateway itself, to a request without fault, while origins fail.
REFUSALS = (502, 503, 504)
KNOWN_TAGS_MAX = 5000


@dataclass
class Asked:
    """A request, and what was in force when it began."""
    method: str
    host: str
    path: str
    fields: dict = field(default_factory=dict)
    began_ns: int = 0
    version_min: int = 0
    made_min_ns: int = 0
    version_of_tag: int | None = None


class Wrong(Exception):
    """The gateway did what it must never do."""


# What happens when nobody runs for a while.
TIMED = {"closed without an answer", "hangs beyond its deadlines", "a purge failed", "a reload failed", "not well"}
# As long after it, and somewhat before it is noticed.
STALL_S, AFTER_STALL_S, BEFORE_STALL_S = 0.5, 15, 2


class Stalls:
    """When this script was kept from running, and for how long."""

    def __init__(self):
        self.seen = []

    async def notice(self, ends):
        while not ends.is_set():
            due = time.monotonic() + 0.1
            await asyncio.sleep(0.1)
            if (late_s := time.monotonic() - due) >= STALL_S:
                self.seen.append((time.monotonic(), late_s))

    def explain(self, at):
        return any(-BEFORE_STALL_S < at - stall < AFTER_STALL_S for stall, _ in self.seen)


class Judge:
    def __init__(self):
        self.outcomes = collections.defaultdict(collections.Counter)
        self.found = []
        self.stalls = Stalls()
        self.told = 0
        self.written = collections.Counter()
        self.purged = {}
        self.etags = {}

    def fail(self, what, detail=""):
        self.found.append((time.monotonic(), what))
        self.told += 1
        if self.told <= TOLD_MAX:
            print(f"FAILED: {what}: {detail}", file=sys.stderr, flush=True)

    def excused(self):
        """What the machine is to blame for."""
        return collections.Counter(what for at, what in self.found if what in TIMED and self.stalls.explain(at))

    def failures(self):
        return collections.Counter(what for _, what in self.found) - self.excused()

    def begin(self, asked):
        """To be called right before the first byte of a request is sent."""
        asked.version_min = self.written[slot_of(asked.path)]
        asked.made_min_ns = max((began for covers, began in self.purged.items() if is_covered(asked, covers)), default=0)
        asked.began_ns = time.monotonic_ns()
        return asked

    def wrote(self, path, version):
        """A write was answered well: what is asked for from now on is at least this."""
        self.written[slot_of(path)] = max(self.written[slot_of(path)], version)

    def purge(self, kind, value, began_ns):
        """A purge was answered: nothing that was made before it began is given to who asks from now on."""
        self.purged[kind, value] = began_ns

    def outcome(self, asked, answer):
        """One word for what came. Raises `Wrong` for what must never come."""
        if "x-soak" not in answer.fields:
            return self.without_label(asked, answer)
        label = Label.read(answer.fields["x-soak"])
        if (label.host, label.path) != (asked.host, asked.path):
            raise Wrong(f"the answer of another URL: {label.text()}")
        for choice in label.chosen_by.split(",") if label.chosen_by != "-" else []:
            what, _, value = choice.partition("=")
            if value != value_of(asked.fields, what):
                raise Wrong(f"meant for another client: {told_of(asked, label, answer)}")
        self.is_current(asked, label, answer)
        self.etags[asked.host, asked.path] = (label.etag(), label.version)
        if len(self.etags) > KNOWN_TAGS_MAX:
            self.etags.pop(next(iter(self.etags)))
        if answer.status == 304:
            return self.not_modified(asked, answer)
        if answer.status not in (label.status, 206, 416) or answer.status == 206 and label.status != 200:
            raise Wrong(f"status {answer.status} for {label.text()}")
        return self.body(asked, label, answer)

    def is_current(self, asked, label, answer):
        told = told_of(asked, label, answer)
        if label.version < asked.version_min:
            raise Wrong(f"stale after a write of version {asked.version_min}: {told}")
        made_ns = int(answer.fields["x-made"])
        if made_ns < asked.made_min_ns:
            late_ms = (asked.made_min_ns - made_ns) / 1e6
            raise Wrong(f"given after a purge of what was {late_ms:.0f} ms older: {told}")
        if ("who=" in label.chosen_by or "auth=" in label.chosen_by) and made_ns < asked.began_ns:
            raise Wrong(f"kept though it is private: {told}")

    def without_label(self, asked, answer):
        if "x-wrong" in answer.fields:
            return f"origin {answer.status}"
        if answer.status in REFUSALS:
            return str(answer.status)
        if answer.status == 304:
            return self.not_modified(asked, answer)
        if answer.status == 416 and "range" in asked.fields and first_of(asked) >= size_of(asked.path):
            return "416"
        raise Wrong(f"status {answer.status} that nobody meant: {dict(answer.fields)}")

    def not_modified(self, asked, answer):
        sent, tag = asked.fields.get("if-none-match"), answer.fields.get("etag", "").removeprefix("W/")
        if sent is None and "if-modified-since" not in asked.fields:
            raise Wrong("304 for a request without a condition")
        if sent is not None and tag and tag not in sent:
            raise Wrong(f"304 with the tag {tag}, asked for {sent}")
        if asked.version_of_tag is not None and asked.version_of_tag < asked.version_min:
            raise Wrong(f"304 for version {asked.version_of_tag}, after a write of {asked.version_min}")
        return "304"

    def body(self, asked, label, answer):
        """Whether every byte is right, also of what broke off."""
        body, coding, whole = answer.body, answer.fields.get("content-encoding"), answer.is_whole
        if asked.method == "HEAD":
            return str(answer.status)
        if answer.status == 206:
            return self.parts(asked, label, answer)
        if coding and "ae=gzip" not in label.chosen_by:
            if coding != "gzip":
                return f"{coding}, not looked into" if whole else "cut"
            decoder = zlib.decompressobj(31)
            try:
                body = decoder.decompress(bytes(body))
            except zlib.error as error:
                raise Wrong(f"not gzip ({error}): {label.text()}") from None
            if whole and not decoder.eof:
                raise Wrong(f"gzip without its end: {label.text()}")
        expected = label.body()
        if body != expected[:len(body)]:
            raise Wrong(f"wrong body of {len(body)} bytes: {label.text()}")
        if not whole:
            return "cut"
        if len(body) != label.size and answer.fields.get("x-framing") != "close":
            raise Wrong(f"{len(body)} bytes called whole: {label.text()}")
        return str(answer.status)

    def parts(self, asked, label, answer):
        kind = answer.fields.get("content-type", "")
        if kind.startswith("multipart/byteranges"):
            boundary = re.escape(kind.partition("boundary=")[2].strip('"').encode())
            parts = re.split(rb"(?:\r\n)?--" + boundary + rb"(?:--)?(?:\r\n)?", bytes(answer.body))
            found = [part.split(b"\r\n\r\n", 1) for part in parts if b"\r\n\r\n" in part]
            found = [(re.search(rb"(?i)content-range: *([^\r]*)", head)[1].decode(), body) for head, body in found]
            if not answer.is_whole:
                return "cut"
        else:
            found = [(answer.fields.get("content-range", ""), answer.body)]
        for spec, body in found:
            match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", spec)
            if not match or int(match[3]) != label.size:
                raise Wrong(f"Content-Range {spec!r}: {label.text()}")
            first, end = int(match[1]), int(match[2]) + 1
            if body != label.body()[first:end][:len(body)] or answer.is_whole and len(body) != end - first:
                raise Wrong(f"a wrong part, {spec}: {label.text()}")
            if "," not in asked.fields.get("range", "") and first != first_of(asked):
                raise Wrong(f"another part, {spec} for {asked.fields.get('range')}")
        return "206" if answer.is_whole else "cut"


def told_of(asked, label, answer):
    names = ["cache-status", "cache-control", "vary", "age"]
    after_ms = (int(answer.fields["x-made"]) - asked.began_ns) / 1e6
    return (f"{label.text()}; made {after_ms:.0f} ms after the request; asked with {asked.method} {asked.fields}; "
            f"answered with { {name: answer.fields[name] for name in names if name in answer.fields} }")


def first_of(asked):
    first, _, last = asked.fields["range"].removeprefix("bytes=").split(",")[0].partition("-")
    return int(first) if first else max(size_of(asked.path) - int(last), 0)


def is_covered(asked, covers):
    kind, value = covers
    return {"url": lambda: f"http://{asked.host}{asked.path}" == value,
            "prefix": lambda: asked.path.startswith(value) if value[0] == "/" else f"http://{asked.host}{asked.path}".startswith(value),
            "tag": lambda: value in ("all", tag_of(asked.path)), "all": lambda: True}[kind]()
