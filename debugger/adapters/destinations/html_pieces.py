"""Takes HTML apart into tags and the text between them, once from its beginning to its end.

The standard library's parser begins anew at every tag that does not end: 60 kB can take it half a minute.
"""

import re
from collections.abc import Iterator
from html import unescape
from typing import Final

_NAME: Final = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
_STOP: Final = re.compile("[>\"']")
_LINK: Final = re.compile(r"""[\s"'](?:href|cite)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
# Their content is no text that anybody sees, whatever it looks like.
_RAW: Final = {
    name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style", "title", "noscript")
}


def pieces(document: str) -> Iterator[tuple[bool, str]]:
    """Yield what is a tag (true, as it is written) and what is text (false, its references resolved)."""
    at = 0
    while (begin := document.find("<", at)) >= 0:
        if begin > at:
            yield False, unescape(document[at:begin])
        at = _end(document, begin)
        if at < 0:  # what does not end is shown by no browser
            return
        tag = document[begin:at]
        if _NAME.match(tag):
            yield True, tag
            name, is_end = name_of(tag)
            if name in _RAW and not is_end:
                closing = _RAW[name].search(document, at)
                at = len(document) if closing is None else closing.start()
        elif tag == "<":
            yield False, tag
    yield False, unescape(document[at:])


def name_of(tag: str) -> tuple[str, bool]:
    """Return a tag's name in small letters, and whether it is an end tag."""
    match = _NAME.match(tag)
    return ("", False) if match is None else (match[2].lower(), bool(match[1]))


def links_of(tag: str) -> list[str]:
    """Return where a tag's links lead."""
    return [unescape(next(each for each in found if each)) for found in _LINK.findall(tag) if any(found)]


def _end(document: str, begin: int) -> int:
    """Return where the piece that begins with a `<` ends, or -1 where it does not."""
    if document.startswith("<!--", begin):
        found = document.find("-->", begin + 4)
        return found + 3 if found >= 0 else -1
    if document[begin + 1 : begin + 2] in {"!", "?"}:
        return document.find(">", begin) + 1 or -1
    if not _NAME.match(document, begin):
        return begin + 1
    at = begin + 1
    while (stop := _STOP.search(document, at)) is not None:
        if stop[0] == ">":
            return stop.end()
        at = document.find(stop[0], stop.end()) + 1
        if at == 0:
            return -1
    return -1
