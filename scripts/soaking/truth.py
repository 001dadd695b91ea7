"""What every answer must be: a pure function of its label, which the origins send with it and the clients check.

A label names the representation: host, path, status, version, what of the request it was chosen by, and size. It travels in
`X-Soak`; the body is a part of a pad that only the label decides. Whoever mixes up two answers, two versions or two variants
shows it in the first bytes. No sockets here, and no randomness.
"""
import base64, hashlib, mmap, random, struct
from typing import NamedTuple

BODY_BYTES_MAX = 8 << 20
# Letters only, so that what passes can be compressed, though not by much.
PAD = memoryview(base64.b64encode(random.Random(1).randbytes(12 << 20)))
WRITABLE_PATHS = 64
ORIGINS = 3
TAGS = 7
WELL, SLOW, WRONG = range(3)


def number_of(text):
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big")


class Label(NamedTuple):
    host: str
    path: str
    status: int
    version: int
    chosen_by: str
    size: int

    def text(self):
        return " ".join(map(str, self))

    def body(self):
        return body_of(self.text(), self.size)

    def etag(self):
        return f'"{number_of(self.text()):x}"'

    @staticmethod
    def read(text):
        host, path, status, version, chosen_by, size = text.split(" ")
        return Label(host, path, int(status), int(version), chosen_by, int(size))


def body_of(text, size):
    start = number_of(text) % (len(PAD) - BODY_BYTES_MAX)
    return PAD[start:start + size]


def size_of(path):
    """Bytes of what is at a path, the same for all versions and variants."""
    number = number_of(path)
    share, rest = number % 100, number // 100
    for least, upto, size_max in [(0, 5, 1), (5, 35, 1 << 10), (35, 80, 64 << 10), (80, 96, 1 << 20)]:
        if least <= share < upto:
            return rest % size_max
    return rest % BODY_BYTES_MAX


def tag_of(path):
    return f"t{number_of(path) % TAGS}"


def slot_of(path):
    """Which version counter a path has; most have none and never change."""
    first, _, rest = path[1:].partition("/")
    return int(rest) % WRITABLE_PATHS if first == "w" and rest.isdigit() else None


def value_of(fields, what):
    """What of a request's fields a representation is chosen by."""
    if what == "ae":
        return "gzip" if "gzip" in fields.get("accept-encoding", "") else "identity"
    return fields.get({"origin": "origin", "who": "x-who", "auth": "authorization"}[what], "").replace(" ", "_").replace(",", ";")


def plain_host(field):
    return field.lower().removesuffix(":80").removesuffix(":").removesuffix(".")


class State:
    """What origins share, and keep when one is killed: how each is to behave, and the version of each writable path."""

    BYTES = 16 + 4 * WRITABLE_PATHS

    def __init__(self, path):
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), self.BYTES)

    @staticmethod
    def create(path):
        with open(path, "wb") as file:
            file.write(bytes(State.BYTES))
        return State(path)

    def mode(self, origin):
        return self.map[origin]

    def set_mode(self, origin, mode):
        self.map[origin] = mode

    def version(self, path):
        slot = slot_of(path)
        return 0 if slot is None else struct.unpack_from("=I", self.map, 16 + 4 * slot)[0]

    def write(self, path, version):
        """Versions only grow, whatever order late writes come in."""
        if version > self.version(path):
            struct.pack_into("=I", self.map, 16 + 4 * slot_of(path), version)
