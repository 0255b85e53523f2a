"""Reads msgpack into nodes of its own: an extension keeps its code and is never executed."""

import struct
from typing import Final

MAX_BYTES: Final = 64 * 1024 * 1024
MAX_DEPTH: Final = 100
MAX_NODES: Final = 4_000_000

# LangGraph's extension codes; the payload of the named ones is msgpack of (module, name, arguments, ...).
NAMED_EXTENSIONS: Final = range(6)
VALUE_EXTENSIONS: Final = (6, 7)  # an array of numbers, a snapshot of a delta channel


class MsgpackMalformed(ValueError):
    """Bytes that are no msgpack value within the limits; ``rule`` is one word."""

    def __init__(self, rule: str) -> None:
        super().__init__(f"msgpack: {rule}")
        self.rule = rule


def read_msgpack(raw: bytes) -> "Node":
    """The one value in raw. Raises MsgpackMalformed."""
    if len(raw) > MAX_BYTES:
        raise MsgpackMalformed("too_large")
    try:
        return read_whole(raw, Budget(), 0)
    except RecursionError:
        raise MsgpackMalformed("too_deep") from None


class Budget:
    """How many nodes may still be read: small bytes can claim large lists."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_NODES

    def take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise MsgpackMalformed("too_many_nodes")


type Node = Leaf | Text | List | Map | Extension


class Leaf:
    """A value without members, by its tag and its bytes."""

    __slots__ = ("content", "tag")

    def __init__(self, tag: bytes, content: bytes) -> None:
        self.tag = tag
        self.content = content


class Text:
    __slots__ = ("content",)

    def __init__(self, content: str) -> None:
        self.content = content


class List:
    __slots__ = ("members",)

    def __init__(self, members: list[Node]) -> None:
        self.members = members


class Map:
    __slots__ = ("entries",)

    def __init__(self, entries: list[tuple[Node, Node]]) -> None:
        self.entries = entries


class Extension:
    """An extension that is not executed: its code, and its payload read as msgpack where that is its form."""

    __slots__ = ("code", "payload")

    def __init__(self, code: int, payload: Node) -> None:
        self.code = code
        self.payload = payload


def read_whole(raw: bytes, budget: Budget, depth: int) -> Node:
    reader = _Reader(raw, budget)
    node = reader.read(depth)
    if reader.at != len(raw):
        raise MsgpackMalformed("trailing_bytes")
    return node


class _Reader:
    """Reads one value at a time from bytes; every length is checked against what is there."""

    __slots__ = ("at", "budget", "raw")

    def __init__(self, raw: bytes, budget: Budget) -> None:
        self.raw = raw
        self.at = 0
        self.budget = budget

    def read(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise MsgpackMalformed("too_deep")
        self.budget.take()
        first = self._take(1)[0]
        if first < 0x80:
            return _integer(first)
        if first >= 0xE0:
            return _integer(first - 0x100)
        if first < 0x90:
            return self._map(first & 0x0F, depth)
        if first < 0xA0:
            return self._list(first & 0x0F, depth)
        if first < 0xC0:
            return self._text(first & 0x1F)
        return self._long_form(first, depth)

    def _long_form(self, first: int, depth: int) -> Node:
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        if first in _NUMBERS:
            return self._number(_NUMBERS[first])
        if first in _FIXED_EXTENSIONS:
            return self._extension(_FIXED_EXTENSIONS[first], depth)
        if first not in _SIZED:
            raise MsgpackMalformed("unknown_byte")
        form, width = _SIZED[first]
        size = int.from_bytes(self._take(width), "big")
        match form:
            case "binary":
                return Leaf(b"b", self._take(size))
            case "text":
                return self._text(size)
            case "list":
                return self._list(size, depth)
            case "map":
                return self._map(size, depth)
            case _:
                return self._extension(size, depth)

    def _take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.raw):
            raise MsgpackMalformed("cut_short")
        taken = self.raw[self.at : end]
        self.at = end
        return taken

    def _number(self, form: str) -> Node:
        (number,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return Leaf(b"f", struct.pack(">d", number)) if isinstance(number, float) else _integer(number)

    def _text(self, size: int) -> Node:
        try:
            return Text(self._take(size).decode("utf-8"))
        except UnicodeDecodeError:
            raise MsgpackMalformed("utf8") from None

    def _list(self, size: int, depth: int) -> Node:
        return List([self.read(depth + 1) for _ in range(size)])

    def _map(self, size: int, depth: int) -> Node:
        return Map([(self.read(depth + 1), self.read(depth + 1)) for _ in range(size)])

    def _extension(self, size: int, depth: int) -> Node:
        (code,) = struct.unpack(">b", self._take(1))
        content = self._take(size)
        if code in NAMED_EXTENSIONS or code in VALUE_EXTENSIONS:
            return Extension(code, read_whole(content, self.budget, depth + 1))
        return Extension(code, Leaf(b"b", content))


def _integer(number: int) -> Leaf:
    # By value: the same number may be stored in more than one width.
    return Leaf(b"i", b"%d" % number)


_CONSTANTS: Final = {0xC0: Leaf(b"n", b""), 0xC2: Leaf(b"t", b"0"), 0xC3: Leaf(b"t", b"1")}
_NUMBERS: Final = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_FIXED_EXTENSIONS: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_SIZED: Final = {
    0xC4: ("binary", 1),
    0xC5: ("binary", 2),
    0xC6: ("binary", 4),
    0xC7: ("extension", 1),
    0xC8: ("extension", 2),
    0xC9: ("extension", 4),
    0xD9: ("text", 1),
    0xDA: ("text", 2),
    0xDB: ("text", 4),
    0xDC: ("list", 2),
    0xDD: ("list", 4),
    0xDE: ("map", 2),
    0xDF: ("map", 4),
}
