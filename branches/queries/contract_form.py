"""What is wrong with a topology contract, by field and rule; it is made of names, edge keys and numbers."""

import re
from collections.abc import Iterator
from typing import Final

from branches.evidence.kinds.forms import NAME_PATTERN, VERSION_PATTERN
from branches.queries.declarations import rules_of
from branches.queries.form_problem import Problem
from branches.rules.facts import FactError, Fields
from branches.rules.topology_facts import check_contract, read_contract

MOST_AGENTS: Final = 200
_NAME: Final = re.compile(NAME_PATTERN)
_VERSION: Final = re.compile(VERSION_PATTERN)
_MEMBERS: Final = ("version", "agents", "edges", "phases")
_QUORUM: Final = frozenset({"into", "kind", "of", "at_least"})


def contract_problems(value: object, field: str) -> Iterator[Problem]:
    """Yield what is wrong: free text, wildcards, edges that lead nowhere, quorums that nobody can meet."""
    if not isinstance(value, dict) or not set(_MEMBERS) <= set(value) <= {*_MEMBERS, "quorums"}:
        yield Problem(field, f"closed:{','.join(_MEMBERS)},quorums")
        return
    version = value["version"]
    if not isinstance(version, (str, int)) or isinstance(version, bool):
        yield Problem(f"{field}.version", "pattern:version")
        return
    if _VERSION.fullmatch(str(version)) is None:
        yield Problem(f"{field}.version", "pattern:version")
    try:
        found = read_contract(Fields(rules_of(value)))
        check_contract(found, "")
    except FactError as error:
        yield Problem(f"{field}.{_place(error)}".rstrip("."), error.message)
        return
    if len(found.agents) > MOST_AGENTS:
        yield Problem(f"{field}.agents", f"max_items:{MOST_AGENTS}")
    if not all(map(_is_name, (*found.agents, *found.phases, *(edge.kind for edge in found.edges)))):
        yield Problem(field, "pattern:name")
        return
    yield from _quorums(value.get("quorums", []), {edge.key for edge in found.edges}, f"{field}.quorums")


def _place(error: FactError) -> str:
    """Return where a fact does not fit; a phase's own name is not repeated, nor one that nobody knows."""
    path = (error.field or "").lstrip(".")
    if error.message == "is not a known field":
        path = path.rpartition(".")[0]
    return "phases.*" if path.startswith("phases.") else path


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def _quorums(value: object, edges: set[str], field: str) -> Iterator[Problem]:
    if not isinstance(value, list):
        yield Problem(field, "type:array")
        return
    for index, each in enumerate(value):
        yield from _quorum(each, edges, f"{field}.{index}")


def _quorum(value: object, edges: set[str], field: str) -> Iterator[Problem]:
    if not isinstance(value, dict) or set(value) != _QUORUM:
        yield Problem(field, f"closed:{','.join(sorted(_QUORUM))}")
        return
    sources = value["of"]
    if not isinstance(sources, list) or len(set(map(str, sources))) != len(sources):
        yield Problem(f"{field}.of", "unique")
        return
    if any(f"{source}>{value['into']}:{value['kind']}" not in edges for source in sources):
        yield Problem(f"{field}.of", "declared")
    least = value["at_least"]
    if not isinstance(least, int) or isinstance(least, bool) or not 1 <= least <= len(sources):
        yield Problem(f"{field}.at_least", "integer:1..of")
