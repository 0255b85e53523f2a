"""A policy as its author wrote it: YAML in, a document of a closed form or every problem by its line."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final

import jsonschema_rs
import yaml

from branches.evidence import canonical
from branches.rules.policy import Policy, TestFailure, failing_tests, read_policy

type Lines = Mapping[tuple[str | int, ...], int]
"""The line of every path of a text."""

MAX_BYTES: Final = 32 * 1024


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """What is wrong in a policy's text: line (1 is the first), field, rule; never a value."""

    line: int
    field: str
    rule: str


@dataclass(frozen=True, slots=True)
class PolicyText:
    """A text that was read: its document and digest, or what is wrong with it."""

    document: Mapping[str, Any] | None
    digest: str
    problems: tuple[PolicyProblem, ...]

    def policy(self) -> Policy:
        """Return the typed policy; only for a text without problems."""
        assert self.document is not None  # noqa: S101 - a text with problems has none
        return read_policy(self.document, self.digest)


def read_policy_text(text: str) -> PolicyText:
    """Return what a text says. YAML's aliases, tags and doubled keys are refused, and what is too long."""
    if len(text.encode()) > MAX_BYTES:
        return _broken(1, "", f"max_bytes:{MAX_BYTES}")
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                return _broken(_line(event.start_mark), "", "no_aliases")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        return _broken(_line(mark), "", "yaml")
    except RecursionError:
        return _broken(1, "", "depth")
    if node is None:
        return _broken(1, "", "required")
    lines: dict[tuple[str | int, ...], int] = {}
    try:
        document = _plain(node, (), lines)
    except _NotPlain as error:
        return _broken(error.line, _dotted(error.path), error.rule)
    problems = tuple(_problems(document, lines)) or tuple(_dates(document, lines))
    if problems:
        return PolicyText(None, "", problems)
    found = PolicyText(document, digest_of(document), ())
    failures = failing_tests(found.policy(), document["tests"])
    return PolicyText(None, "", tuple(_test_problems(document, failures, lines))) if failures else found


def digest_of(document: Mapping[str, Any]) -> str:
    """Return the digest that decisions name a policy by."""
    return canonical.digest(canonical.POLICY, document)


@cache
def default_policy() -> Policy:
    """Return the policy of a workspace that adopted none."""
    return read_policy_text(default_text()).policy()


def default_document() -> Mapping[str, Any]:
    """Return the default policy as it is kept."""
    found = read_policy_text(default_text()).document
    assert found is not None  # noqa: S101 - a test reads it
    return found


def default_text() -> str:
    """Return the default policy as it is written."""
    return files("branches.policies").joinpath("default.yaml").read_text()


def schema_text() -> str:
    """Return the JSON Schema of every policy."""
    return files("branches.policies").joinpath("schema.json").read_text()


def as_text(document: Mapping[str, Any]) -> str:
    """Return a kept document as YAML; comments of its author are not kept."""
    text: str = yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, width=100)
    return text


def _line(mark: Any) -> int:
    return mark.line + 1 if mark is not None else 1


def _broken(line: int, field: str, rule: str) -> PolicyText:
    return PolicyText(None, "", (PolicyProblem(line, field, rule),))


class _NotPlain(Exception):
    def __init__(self, node: yaml.Node, path: tuple[str | int, ...], rule: str) -> None:
        super().__init__(rule)
        self.line, self.path, self.rule = node.start_mark.line + 1, path, rule


def _plain(node: yaml.Node, path: tuple[str | int, ...], lines: dict[tuple[str | int, ...], int]) -> Any:
    """Return a node as JSON would have it, and note the line of every path."""
    if len(path) > 12:
        raise _NotPlain(node, path[:1], "depth")
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                raise _NotPlain(key, path, "key")
            if key.value in found:
                raise _NotPlain(key, path, "doubled_key")
            found[key.value] = _plain(value, (*path, key.value), lines)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*path, index), lines) for index, item in enumerate(node.value)]
    return _scalar(node, path)


def _scalar(node: yaml.Node, path: tuple[str | int, ...]) -> Any:
    kind = node.tag.rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool":
        return node.value.lower() in ("true", "yes", "on")
    if kind == "int" and node.value.isascii() and node.value.isdigit() and len(node.value) < 10:
        return int(node.value)
    if kind in ("str", "timestamp"):
        return str(node.value)
    raise _NotPlain(node, path, "type")


@cache
def _validator() -> Any:
    return jsonschema_rs.validator_for(json.loads(schema_text()))


def _problems(document: Any, lines: Lines) -> Iterator[PolicyProblem]:
    for error in _validator().iter_errors(document):
        path = tuple(error.instance_path)
        known = _known(path)
        line = next(lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in lines)
        yield PolicyProblem(line, _dotted(known), str(error.kind.name))


def _dates(document: Mapping[str, Any], lines: Lines) -> Iterator[PolicyProblem]:
    """A date can have the form of one and be none: the 31st of February."""
    paths: list[tuple[str, ...]] = [("pre_authorised_until",)]
    paths += [("self_approval", "until")] if document["self_approval"] is not None else []
    for path in paths:
        text = document[path[0]] if len(path) == 1 else document[path[0]][path[1]]
        try:
            datetime.fromisoformat(text)
        except ValueError:
            yield PolicyProblem(lines[path], _dotted(path), "moment")


def _test_problems(
    document: Mapping[str, Any], failures: Sequence[TestFailure], lines: Lines
) -> Iterator[PolicyProblem]:
    names = [test["name"] for test in document["tests"]]
    for failure in failures:
        index = names.index(failure.name)
        yield PolicyProblem(
            lines[("tests", index)],
            f"tests.{index + 1}",
            f"expected_{failure.expected}_found_{failure.found}",
        )


# What stands in a text under a name of its author's is shown as a star.
_FREE: Final = frozenset({"people", "standing"})


def _known(path: Sequence[str | int]) -> tuple[str | int, ...]:
    return tuple("*" if index and path[index - 1] in _FREE else part for index, part in enumerate(path))


def _dotted(path: Sequence[str | int]) -> str:
    return ".".join(str(part + 1) if isinstance(part, int) else part for part in path)
