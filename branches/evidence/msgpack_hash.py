"""A hash of a LangGraph value that imports and runs nothing of what the value names.

LangGraph stores msgpack whose bytes differ between processes (order of sets and keys). Here the bytes are
decoded structurally, extension types stay what they are (code + their own msgpack), keys of maps and
members of sets are sorted, and every node is written with its tag and length, so that no two values share
a form.

*Exact* is the proof of a restore. *Semantic* compares siblings: it leaves out what differs between two
runs that did the same. Left out are

- in a message (a map with ``type`` and ``content`` or ``text``, or the arguments of a class from
  ``langchain_core.messages``): ``id`` and ``tool_call_id``; in a tool call (``name``, ``args`` and ``id``
  together): ``id``;
- everywhere: ``run_id``, ``thread_id``, ``checkpoint_id``, ``task_id``, ``trace_id``, ``span_id``,
  ``created_at``, ``updated_at``, ``timestamp`` and ``ts``;
- what a text says that is as a whole a UUID (also with a prefix such as ``run--``) or an RFC 3339 time,
  and what ``uuid.UUID`` and ``datetime.datetime`` say: such a value counts only as being there.

Text that merely contains an id or a time, and a plain date, are compared as they are. So a time that is the
work's own (an appointment) is not compared: where it matters, the workflow declares it as a fact.
"""

import hashlib
import re
from typing import Final

from branches.evidence.msgpack_read import (
    NAMED_EXTENSIONS,
    Extension,
    Leaf,
    List,
    Map,
    MsgpackMalformed,
    Node,
    Text,
    read_msgpack,
)

_EXACT: Final = b"branchgate/fingerprint/exact/v1\0"
_SEMANTIC: Final = b"branchgate/fingerprint/semantic/v1\0"

_SETS: Final = frozenset({("builtins", "set"), ("builtins", "frozenset")})
_MESSAGE_MODULE: Final = "langchain_core.messages"
_TIMES_AND_IDS: Final = frozenset({("uuid", "UUID"), ("datetime", "datetime")})
_LEFT_OUT: Final = frozenset(
    {
        *("run_id", "thread_id", "checkpoint_id", "task_id", "trace_id", "span_id"),
        *("created_at", "updated_at", "timestamp", "ts"),
    }
)
_UUID = re.compile(
    r"(?:[A-Za-z_]{1,16}-{1,2})?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?:-[0-9]{1,6})?"
)
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})"
)


def canonical_hash_exact(raw: bytes) -> bytes:
    """32 bytes, equal for equal values in any process. Raises MsgpackMalformed."""
    return hashlib.sha256(_EXACT + _canonical(raw, semantic=False)).digest()


def canonical_hash_semantic(raw: bytes) -> bytes:
    """32 bytes, equal for values that differ only in ids and times. Raises MsgpackMalformed."""
    return hashlib.sha256(_SEMANTIC + _canonical(raw, semantic=True)).digest()


def _canonical(raw: bytes, *, semantic: bool) -> bytes:
    node = read_msgpack(raw)
    try:
        return _Writer(semantic).write(node)
    except RecursionError:
        raise MsgpackMalformed("too_deep") from None


class _Writer:
    """Writes a node as tag, length and content; what stands in a set or as a key is sorted by its form."""

    __slots__ = ("semantic",)

    def __init__(self, semantic: bool) -> None:
        self.semantic = semantic

    def write(self, node: Node) -> bytes:
        match node:
            case Leaf():
                return _framed(node.tag, node.content)
            case Text():
                return self._write_text(node.content)
            case List():
                return _framed(b"l", b"".join(map(self.write, node.members)))
            case Map():
                return self._write_map(node, _left_out(node) if self.semantic else frozenset())
            case Extension():
                return self._write_extension(node)

    def _write_text(self, text: str) -> bytes:
        if self.semantic and (_UUID.fullmatch(text) or _TIME.fullmatch(text)):
            return _framed(b"x", b"")
        return _framed(b"s", text.encode("utf-8"))

    def _write_map(self, node: Map, left_out: frozenset[str]) -> bytes:
        entries = sorted(
            (_write_key(key), self.write(member))
            for key, member in node.entries
            if not (isinstance(key, Text) and key.content in left_out)
        )
        if any(entries[at][0] == entries[at + 1][0] for at in range(len(entries) - 1)):
            raise MsgpackMalformed("key_twice")
        return _framed(b"m", b"".join(key + member for key, member in entries))

    def _write_extension(self, node: Extension) -> bytes:
        code = b"%d" % node.code
        named = _named(node)
        if named is None:
            return _framed(b"e", _framed(b"c", code) + self.write(node.payload))
        module, name, arguments, rest = named
        if self.semantic and (module, name) in _TIMES_AND_IDS:
            return _framed(b"x", b"")
        if (module, name) in _SETS and isinstance(arguments, List):
            written = _framed(b"u", b"".join(sorted(map(self.write, arguments.members))))
        elif self.semantic and isinstance(arguments, Map) and module.startswith(_MESSAGE_MODULE):
            written = self._write_map(arguments, _left_out(arguments) | _MESSAGE_IDS)
        else:
            written = self.write(arguments)
        label = _framed(b"c", code) + _framed(b"s", module.encode()) + _framed(b"s", name.encode())
        return _framed(b"o", label + written + b"".join(map(self.write, rest)))


_MESSAGE_IDS: Final = frozenset({"id", "tool_call_id"})


def _write_key(key: Node) -> bytes:
    # Keys stay as they are, or two that differ only in an id would fall together.
    return _Writer(semantic=False).write(key)


def _named(node: Extension) -> tuple[str, str, Node, list[Node]] | None:
    """(module, name, arguments, the rest) of an extension that names a class; null for any other form."""
    payload = node.payload
    if node.code not in NAMED_EXTENSIONS or not isinstance(payload, List) or len(payload.members) < 3:
        return None
    module, name, arguments, *rest = payload.members
    if not isinstance(module, Text) or not isinstance(name, Text):
        return None
    return module.content, name.content, arguments, rest


def _left_out(node: Map) -> frozenset[str]:
    """The keys of this map that say when and under which id, and not what."""
    keys = {key.content for key, _ in node.entries if isinstance(key, Text)}
    if "type" in keys and not keys.isdisjoint({"content", "text"}):
        return _LEFT_OUT | _MESSAGE_IDS
    if {"name", "args", "id"} <= keys:
        return _LEFT_OUT | {"id"}
    return _LEFT_OUT


def _framed(tag: bytes, content: bytes) -> bytes:
    return b"%b%d:%b" % (tag, len(content), content)
