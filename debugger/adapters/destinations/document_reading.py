"""Reads a document's sections and text: Markdown, HTML, JSON and YAML; what it says is forgotten."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from debugger.adapters.destinations import html_pieces
from debugger.adapters.destinations.json_answer import parsed
from debugger.adapters.outbound import Unreachable

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?")
_SETEXT: Final = re.compile(r" {0,3}(=+|-+)[ \t]*")
_MARKS: Final = str.maketrans("", "", "*_`")
_MOST_DEEP: Final = 64
_HTML_HEADING: Final = re.compile("h[1-6]")


@dataclass(slots=True)
class Heading:
    """A heading, its level, and whether anything but headings follows before the next one."""

    level: int
    name: str
    has_content: bool = False


@dataclass(slots=True)
class Reading:
    """What a document shows: its headings in order, and its visible text."""

    headings: list[Heading] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    front: Mapping[str, Any] | None = None

    def add(self, content: str) -> None:
        """Take text in under the last heading."""
        self.text.append(content)
        if self.headings and content.strip():
            self.headings[-1].has_content = True

    def sections(self) -> set[str]:
        """Return the names of the sections that hold anything, in their compared form."""
        found: set[str] = set()
        for place, heading in enumerate(self.headings):
            inside = [heading]
            for following in self.headings[place + 1 :]:
                if following.level <= heading.level:
                    break
                inside.append(following)
            if any(each.has_content for each in inside):
                found.add(plain(heading.name))
        return found

    def cites(self, source: str) -> bool:
        """Whether a source's id stands in the text as a word of its own."""
        pattern = re.compile(rf"(?<![\w-]){re.escape(source)}(?![\w-])")
        return any(pattern.search(each) for each in self.text)


def plain(name: str) -> str:
    """Return a section's name without marks, case and surplus space."""
    return " ".join(name.translate(_MARKS).split()).casefold()


def markdown(document: str) -> Reading:
    """Read Markdown: headings of both sorts; what is fenced or a comment is neither heading nor citation."""
    reading = Reading()
    front, body = split_front(document)
    reading.front = None if front is None else yaml_table(front)
    fence, before = "", ""
    for line in _without_comments(body).splitlines():
        opened = _FENCE.match(line)
        if fence:
            is_end = opened is not None and opened[1].startswith(fence) and not line[opened.end() :].strip()
            fence = "" if is_end else fence
            _mark_content(reading, line)
            before = ""
        elif opened is not None:
            fence, before = opened[1], ""
        elif (atx := _ATX.fullmatch(line)) is not None:
            reading.headings.append(Heading(len(atx[1]), _unclosed(atx[2] or "")))
            before = ""
        elif before.strip() and (under := _SETEXT.fullmatch(line)) is not None:
            reading.text.pop()
            reading.headings.append(Heading(1 if under[1][0] == "=" else 2, before))
            before = ""
        else:
            reading.add(line)
            before = line
    return reading


def html(document: str) -> Reading:
    """Read HTML: h1 to h6, visible text, and where links lead."""
    reading, heading, hidden = Reading(), None, 0
    for is_tag, content in html_pieces.pieces(document):
        if not is_tag:
            if heading is not None:
                heading.name += content
            elif not hidden:
                reading.add(content)
            continue
        tag, is_end = html_pieces.name_of(content)
        if tag == "template":
            hidden = max(0, hidden - 1) if is_end else hidden + 1
        elif is_end and heading is not None and tag == f"h{heading.level}":
            heading = None
        elif not is_end and not hidden:
            if _HTML_HEADING.fullmatch(tag):
                heading = Heading(int(tag[1]), "")
                reading.headings.append(heading)
            reading.text += html_pieces.links_of(content)
    return reading


def structured(value: Any) -> Reading:
    """Read JSON or YAML: the names at the top are its sections, and every text in it counts."""
    reading = Reading()
    for name, each in value.items() if isinstance(value, Mapping) else [("", value)]:
        reading.headings.append(Heading(1, str(name)))
        for found in _texts(each):
            reading.add(found)
        if isinstance(each, (int, float)):
            reading.headings[-1].has_content = True
    return reading


def split_front(document: str) -> tuple[str | None, str]:
    """Return the front matter between its two lines of three hyphens, if there is one, and the rest."""
    first, _, rest = document.removeprefix("\ufeff").partition("\n")
    if first.rstrip() != "---":
        return None, document
    lines = rest.split("\n")
    for place, line in enumerate(lines):
        if line.rstrip() == "---":
            return "\n".join(lines[:place]), "\n".join(lines[place + 1 :])
    return None, document


def yaml_table(written: str) -> Mapping[str, Any] | None:
    """Return YAML as an object, or None where it is none."""
    try:
        value = yaml_value(written)
    except Unreachable as error:
        if error.problem == "unparsable":
            return None
        raise
    return value if isinstance(value, Mapping) else None


def yaml_value(written: str) -> Any:
    """Return YAML's value. Raises Unreachable, for an alias too: a few make a document without end.

    What is nested deeply is refused as well: the time to read it grows with the square of its depth.
    """
    try:
        import yaml
    except ImportError:
        raise Unreachable("yaml_missing") from None
    depth = 0
    try:
        for each in yaml.parse(written, yaml.SafeLoader):
            depth += isinstance(each, yaml.CollectionStartEvent) - isinstance(each, yaml.CollectionEndEvent)
            if isinstance(each, yaml.AliasEvent) or depth > _MOST_DEEP:
                raise Unreachable("unparsable")
        return yaml.safe_load(written)
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError):
        raise Unreachable("unparsable") from None


def json_value(written: str) -> Any:
    """Return JSON's value. Raises Unreachable."""
    return parsed(written.encode("utf-8", "surrogatepass"))


def _texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _without_comments(body: str) -> str:
    parts = body.split("<!--")
    return parts[0] + "".join(part.partition("-->")[2] for part in parts[1:])


def _unclosed(name: str) -> str:
    """Return a heading's name without the hashes that may close it."""
    name = name.strip()
    bare = name.rstrip("#")
    return bare if not bare or bare[-1] in " \t" else name


def _mark_content(reading: Reading, line: str) -> None:
    if reading.headings and line.strip():
        reading.headings[-1].has_content = True
