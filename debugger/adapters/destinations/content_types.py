"""Whether content is of the type it is said to be: by its name or its label, and by how it begins."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from debugger.adapters.destinations.json_answer import parsed
from debugger.adapters.destinations.stores import Seen
from debugger.adapters.outbound import Unreachable

_HTML: Final = (b"<!doctype html", b"<html")


@dataclass(frozen=True, slots=True)
class _Type:
    suffixes: frozenset[str]
    begins: Callable[[Seen], bool]


def _magic(*beginnings: bytes) -> Callable[[Seen], bool]:
    return lambda seen: seen.artifact.head.startswith(beginnings)


def _is_text(seen: Seen) -> bool:
    try:
        seen.artifact.whole.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in seen.artifact.head


def _is_json(seen: Seen) -> bool:
    try:
        parsed(seen.artifact.whole)
    except Unreachable as error:
        if error.problem == "unparsable":
            return False
        raise
    return True


def _is_html(seen: Seen) -> bool:
    return seen.artifact.head.removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith(_HTML)


def _type(*suffixes: str, begins: Callable[[Seen], bool]) -> _Type:
    return _Type(frozenset(suffixes), begins)


_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_TYPES: Final = {
    "application/gzip": _type(".gz", ".tgz", begins=_magic(b"\x1f\x8b")),
    "application/json": _type(".json", begins=_is_json),
    "application/pdf": _type(".pdf", begins=_magic(b"%PDF-")),
    "application/zip": _type(".zip", begins=_magic(b"PK\x03\x04", b"PK\x05\x06")),
    f"{_OFFICE}.presentationml.presentation": _type(".pptx", begins=_magic(b"PK\x03\x04")),
    f"{_OFFICE}.spreadsheetml.sheet": _type(".xlsx", begins=_magic(b"PK\x03\x04")),
    f"{_OFFICE}.wordprocessingml.document": _type(".docx", begins=_magic(b"PK\x03\x04")),
    "image/gif": _type(".gif", begins=_magic(b"GIF87a", b"GIF89a")),
    "image/jpeg": _type(".jpg", ".jpeg", begins=_magic(b"\xff\xd8\xff")),
    "image/png": _type(".png", begins=_magic(b"\x89PNG\r\n\x1a\n")),
    "text/csv": _type(".csv", begins=_is_text),
    "text/html": _type(".html", ".htm", begins=_is_html),
    "text/markdown": _type(".md", ".markdown", begins=_is_text),
    "text/plain": _type(".txt", ".log", begins=_is_text),
}


def is_known(media_type: str) -> bool:
    """Whether content can be compared with a type at all."""
    return media_type in _TYPES


def has_type(seen: Seen, media_type: str) -> bool:
    """Whether the place calls it that (a store by its label, a folder by the suffix) and it begins so."""
    kind = _TYPES[media_type]
    if seen.artifact.size and not seen.artifact.head:
        raise Unreachable("content_unseen")
    called = seen.artifact.media_type
    is_called = seen.suffix in kind.suffixes if called is None else called == media_type
    return is_called and kind.begins(seen)
