"""Takes IMAP's answers apart: nested lists of atoms, quoted texts, literals and NIL."""

from collections.abc import Iterator, Sequence
from typing import Final

type Item = bytes | list[Item] | None

_MOST_DEPTH: Final = 8
_ENDS: Final = b' ()"\r\n\t'


class NoList(ValueError):
    """The answer is none of the forms that the protocol has."""


def items_of(answer: Sequence[object]) -> list[list[Item]]:
    """Return the messages of a FETCH answer, each as the list of its items. Raises NoList."""
    found = _read(_Text(_joined(answer)), 0)
    # Each is its number and the list of what was asked for.
    return [each for each in found if isinstance(each, list)]


def _joined(answer: Sequence[object]) -> Iterator[bytes]:
    """Yield the answer's pieces in their order; a literal as a quoted text."""
    for part in answer:
        if isinstance(part, bytes):
            yield part
        elif isinstance(part, tuple):
            said, literal = part
            head, _, _ = bytes(said).rpartition(b"{")
            quoted = bytes(literal).replace(b"\\", b"\\\\").replace(b'"', b'\\"')
            yield head + b'"' + quoted + b'"'
        elif part is not None:
            raise NoList("form")


class _Text:
    """The whole answer and how far it was read."""

    __slots__ = ("at", "content")

    def __init__(self, parts: Iterator[bytes]) -> None:
        self.content = b" ".join(parts)
        self.at = 0

    def next(self) -> bytes:
        """Return the next piece: a bracket, a quoted text with its first quote, an atom, or nothing."""
        while self.content[self.at : self.at + 1] in {b" ", b"\r", b"\n", b"\t"}:
            self.at += 1
        first = self.content[self.at : self.at + 1]
        if first in {b"(", b")", b""}:
            self.at += 1
            return first
        return self._quoted() if first == b'"' else self._atom()

    def _quoted(self) -> bytes:
        found = bytearray(b'"')
        at = self.at + 1
        while at < len(self.content):
            byte = self.content[at]
            if byte == ord('"'):
                self.at = at + 1
                return bytes(found)
            if byte == ord("\\"):
                at += 1
                byte = self.content[at] if at < len(self.content) else byte
            found.append(byte)
            at += 1
        raise NoList("form")

    def _atom(self) -> bytes:
        begin = self.at
        while self.at < len(self.content) and self.content[self.at] not in _ENDS:
            self.at += 1
        return self.content[begin : self.at]


def _read(text: _Text, depth: int) -> list[Item]:
    if depth > _MOST_DEPTH:
        raise NoList("depth")
    found: list[Item] = []
    while piece := text.next():
        if piece == b"(":
            found.append(_read(text, depth + 1))
        elif piece == b")":
            if depth == 0:
                raise NoList("form")
            return found
        elif piece.startswith(b'"'):
            found.append(piece[1:])
        else:
            found.append(None if piece.upper() == b"NIL" else piece)
    if depth > 0:
        raise NoList("form")
    return found
