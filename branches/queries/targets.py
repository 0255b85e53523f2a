"""The operator's targets file: where plug-ins may go. Nothing of it is ever recorded."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings

from branches.models import Workspace
from branches.ports import Target
from branches.queries.secrets import workspace_key


class TargetMissing(LookupError):
    """The targets file does not name this target, or not in the form of a target."""


def expected_at(place: Target) -> frozenset[str]:
    """Return the outcomes whose terms a target declares."""
    declared = place.options.get("expected")
    return frozenset(declared) if isinstance(declared, dict) else frozenset()


def expectations() -> tuple[tuple[str, str], ...]:
    """Return (target, outcome) of every outcome whose terms some registered target declares, in order."""
    found = []
    for name, options in sorted(registered().items()):
        declared = options.get("expected") if isinstance(options, dict) else None
        found += [(name, outcome) for outcome in sorted(declared)] if isinstance(declared, dict) else []
    return tuple(found)


def target_owners() -> dict[str, str | None]:
    """Return who owns each registered target, by its name and in order; None where nobody is named."""
    named = {name: options for name, options in registered().items() if isinstance(options, dict)}
    owners = {name: options.get("owner") for name, options in sorted(named.items())}
    return {name: owner if isinstance(owner, str) and owner else None for name, owner in owners.items()}


def notifier_of(options: Mapping[str, Any]) -> str:
    """Return the notifier that a target names: only one that does may be sent notices."""
    named = options.get("notifier")
    return named if isinstance(named, str) else ""


def notice_targets() -> dict[str, str]:
    """Return the targets to which notices may be sent, each with its notifier, in order."""
    named = {name: options for name, options in sorted(registered().items()) if isinstance(options, dict)}
    return {name: notifier for name, options in named.items() if (notifier := notifier_of(options))}


def registered() -> dict[str, Any]:
    """Return what the targets files name; the first that names a target counts."""
    found: dict[str, Any] = {}
    for path in str(settings.BRANCHGATE_TARGETS).split(os.pathsep):
        try:
            named = json.loads(Path(path).read_text())
        except (OSError, ValueError, RecursionError):
            continue
        found = {**named, **found} if isinstance(named, dict) else found
    return found


def target(workspace: Workspace, name: str) -> Target:
    """Return a named target with the workspace's key; raises TargetMissing."""
    options = registered().get(name)
    if not isinstance(options, dict):
        raise TargetMissing(name)
    return Target(name=name, options=options, key=workspace_key(workspace))
