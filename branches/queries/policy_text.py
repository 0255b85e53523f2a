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
from branches.queries.yaml_text import Lines, TextProblem, dotted, read_yaml
from branches.rules.policy import Policy, TestFailure, failing_tests, read_policy

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
    try:
        document, lines = read_yaml(text, MAX_BYTES)
    except TextProblem as error:
        return PolicyText(None, "", (PolicyProblem(error.line, error.field, error.rule),))
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


@cache
def _validator() -> Any:
    return jsonschema_rs.validator_for(json.loads(schema_text()))


def _problems(document: Any, lines: Lines) -> Iterator[PolicyProblem]:
    for error in _validator().iter_errors(document):
        path = tuple(error.instance_path)
        known = _known(path)
        line = next(lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in lines)
        yield PolicyProblem(line, dotted(known), str(error.kind.name))


def _dates(document: Mapping[str, Any], lines: Lines) -> Iterator[PolicyProblem]:
    """A date can have the form of one and be none: the 31st of February."""
    paths: list[tuple[str, ...]] = [("pre_authorised_until",)]
    paths += [("self_approval", "until")] if document["self_approval"] is not None else []
    for path in paths:
        text = document[path[0]] if len(path) == 1 else document[path[0]][path[1]]
        try:
            datetime.fromisoformat(text)
        except ValueError:
            yield PolicyProblem(lines[path], dotted(path), "moment")


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
