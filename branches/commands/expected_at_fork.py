"""Checks the outcome that is declared at a fork: who will be asked for it, and where."""

import re
from typing import Final

from branches.commands.refusal import Refused
from branches.evidence import canonical
from branches.evidence.kinds.forms import NAME_PATTERN
from branches.models import Workspace
from branches.queries.declarations import ExpectedOutcome
from branches.queries.targets import TargetMissing, expected_at, target
from branches.registry import PluginMissing, PluginUnfit, find

_NAME: Final = re.compile(NAME_PATTERN)


def expected_at_fork(workspace: Workspace, outcome: ExpectedOutcome) -> str:
    """Return the canonical form of a declared outcome. Raises Refused.

    Its verifier has to be installed and its target registered, with the terms of that very outcome: nobody
    else's word could verify it, and no name that nobody declared gets into the record.
    """
    if _NAME.fullmatch(outcome.expected) is None:
        raise Refused(rule="pattern:name", field="expected")
    try:
        find("verifiers", outcome.verifier)
    except (PluginMissing, PluginUnfit):
        raise Refused(rule="not_installed", field="verifier") from None
    try:
        place = target(workspace, outcome.target)
    except TargetMissing:
        raise Refused(rule="not_registered", field="target") from None
    if outcome.expected not in expected_at(place):
        raise Refused(rule="terms_undeclared", field="expected")
    declared = {"expected": outcome.expected, "verifier": outcome.verifier, "target": outcome.target}
    return canonical.canonical_bytes(declared).decode()
