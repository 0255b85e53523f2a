"""YAML as people write it, read as plain JSON with the line of every path; nothing more is taken."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

type Path = tuple[str | int, ...]
type Lines = Mapping[Path, int]
"""The line of every path of a text; 1 is the first."""

_DEEPEST: Final = 12


class TextProblem(ValueError):
    """What is wrong in a text: line, field, rule; never a value."""

    def __init__(self, line: int, field: str, rule: str) -> None:
        super().__init__(f"line {line}: {field or '(whole)'}: {rule}")
        self.line, self.field, self.rule = line, field, rule


def read_yaml(text: str, max_bytes: int) -> tuple[Any, Lines]:
    """Return the document and its lines. Aliases, tags and doubled keys are refused. Raises TextProblem."""
    if len(text.encode("utf-8", "surrogatepass")) > max_bytes:
        raise TextProblem(1, "", f"max_bytes:{max_bytes}")
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise TextProblem(_line(event.start_mark), "", "no_aliases")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise TextProblem(_line(getattr(error, "problem_mark", None)), "", "yaml") from None
    except RecursionError:
        raise TextProblem(1, "", "depth") from None
    if node is None:
        raise TextProblem(1, "", "required")
    lines: dict[Path, int] = {}
    return _plain(node, (), lines), lines


def dotted(path: Sequence[str | int]) -> str:
    """Return a path as problems name it; places in a list are counted from 1."""
    return ".".join(str(part + 1) if isinstance(part, int) else part for part in path)


def _line(mark: Any) -> int:
    return int(mark.line) + 1 if mark is not None else 1


def _plain(node: yaml.Node, path: Path, lines: dict[Path, int]) -> Any:
    """Return a node as JSON would have it, and note the line of every path."""
    if len(path) > _DEEPEST:
        raise TextProblem(_line(node.start_mark), "", "depth")
    lines[path] = _line(node.start_mark)
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, lines)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*path, index), lines) for index, item in enumerate(node.value)]
    return _scalar(node)


def _mapping(node: yaml.MappingNode, path: Path, lines: dict[Path, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
            raise TextProblem(_line(key.start_mark), "", "key")
        if key.value in found:
            raise TextProblem(_line(key.start_mark), "", "doubled_key")
        found[key.value] = _plain(value, (*path, key.value), lines)
    return found


def _scalar(node: yaml.Node) -> Any:
    kind = node.tag.rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool":
        return node.value.lower() in ("true", "yes", "on")
    if kind == "int" and node.value.isascii() and node.value.isdigit() and len(node.value) < 10:
        return int(node.value)
    if kind in ("str", "timestamp"):
        return str(node.value)
    raise TextProblem(_line(node.start_mark), "", "type")
