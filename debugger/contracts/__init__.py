"""Contract templates of common coordination patterns, each with a run that passes and one that breaks it."""

import json
from importlib.resources import files
from typing import Any


def names() -> tuple[str, ...]:
    """Return the patterns there are templates for, sorted."""
    found = (each.name for each in files(__name__).iterdir() if each.name.endswith(".json"))
    return tuple(sorted(name.removesuffix(".json") for name in found))


def template(name: str) -> dict[str, Any]:
    """Return a template: `pattern`, `about`, `contract`, `passes`, `breaks`. Raises KeyError."""
    if name not in names():
        raise KeyError(name)
    found: dict[str, Any] = json.loads(files(__name__).joinpath(f"{name}.json").read_text(encoding="utf-8"))
    return found


def contract(name: str) -> dict[str, Any]:
    """Return a template's contract as it is published: with the quorum that stands beside it, if any.

    Raises KeyError.
    """
    found = template(name)
    declared: dict[str, Any] = dict(found["contract"])
    quorum = found.get("beside", {}).get("quorum")
    return declared if quorum is None else {**declared, "quorums": [quorum]}
