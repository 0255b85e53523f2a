"""A configuration by its parts, each by digest or declared name."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from branches.evidence import canonical
from branches.models import ConfigurationPin, Run
from branches.queries.chains import latest
from branches.queries.declarations import Declaration, declaration_of

PARTS: Final = ("role", "model", "prompt", "tools")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a configuration, before and after; None means that nobody knows it."""

    key: str
    before: str | None
    after: str | None

    @property
    def changed(self) -> bool:
        return self.before != self.after


def configuration_of(run: Run) -> dict[str, str | None] | None:
    """Return the parts a run ran with: a branch's newest pin, or what a root run declared at its start."""
    if run.parent_id is not None:
        pin = ConfigurationPin.objects.filter(branch=run).order_by("-id").first()
        return json.loads(pin.parts) if pin else None
    started = latest(run.pk, "run_started")
    if started is None or started.body["configuration"] is None:
        return None
    return _parts(started.body, run)


def _parts(body: Mapping[str, Any], run: Run) -> dict[str, str | None]:
    configuration = body["configuration"]
    parts: dict[str, str | None] = {"routing": configuration["routing"]}
    for agent in configuration["agents"]:
        for key in PARTS:
            parts[f"{agent['agent']}.{key}"] = agent[key]
    declaration = declaration_of(run)
    if declaration is not None:
        parts["workflow"] = declaration.digest
    return parts


def pin_gaps(pin: ConfigurationPin, declaration: Declaration | None) -> list[str]:
    """Return the parts nobody pinned of each declared agent's role, model, prompt and tools, and the routing.

    A part that is not known is not pinned, whatever stands beside it.
    """
    parts: dict[str, str | None] = json.loads(pin.parts)
    agents = declaration.agents if declaration else ()
    wanted = ["routing", *(f"{agent}.{key}" for agent in agents for key in PARTS)]
    return [part for part in wanted if parts.get(part) is None]


def configuration_digest(parts: Mapping[str, str | None]) -> str:
    """Return the digest over all parts."""
    return canonical.digest(canonical.CONFIGURATION, dict(parts))


def configuration_delta(branch: Run, pin: ConfigurationPin | None) -> list[Part]:
    """Return every part with the parent's value beside the branch's, changed ones first."""
    before = configuration_of(branch.parent) if branch.parent is not None else None
    after = json.loads(pin.parts) if pin else {}
    keys = sorted((before or {}).keys() | after.keys())
    parts = [Part(key, (before or {}).get(key), after.get(key)) for key in keys]
    return sorted(parts, key=lambda part: (not part.changed, part.key))
