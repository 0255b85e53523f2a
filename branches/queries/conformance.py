"""Whether a page may say that a branch cannot start without its permit: what its recorder showed."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from branches.models import Recorder, WorkspaceReceipt
from branches.queries.clock import parse

REQUIRED: Final = frozenset(
    {
        "foreign_signature",
        "changed_payload",
        "another_audience",
        "expired",
        "another_configuration",
        "another_state",
        "gate_refuses",
        "gate_unreachable",
        "redeemed_before_it_exists",
        "started_once",
        "revoked_between_steps",
        "lease_lost",
        "parent_untouched",
        "reused_not_repeated",
    }
)
"""The checks of suite 1: all of them, or nothing may be said."""
_LIMITS: Final = {
    "langgraph": "Whoever holds the password of the checkpointer can still start the graph by hand.",
    "openai-agents": "Whoever can read the recorder’s folder of states can still run them by hand.",
}
_ANY: Final = "Whoever can start the agent’s own program without its recorder can still do so."


@dataclass(frozen=True, slots=True)
class Conformance:
    """What may be said: `is_shown` only where every check passed for the version that is paired."""

    is_shown: bool
    sentence: str
    limit: str
    passed: int
    of: int
    at: datetime | None


def conformance_of(recorder: Recorder | None) -> Conformance:
    """Return what a recorder's newest report allows to be said of its permits."""
    if recorder is None:
        return Conformance(False, "No recorder speaks for this run.", _ANY, 0, len(REQUIRED), None)
    runtime, _, version = recorder.runtime.partition(" ")
    limit = _LIMITS.get(runtime, _ANY)
    row = (
        WorkspaceReceipt.objects.filter(
            workspace_id=recorder.workspace_id, kind="recorder_conformed", subject=recorder.uid
        )
        .order_by("-seq")
        .first()
    )
    if row is None:
        sentence = "Its recorder has not run the conformance suite, so nothing is said of its permits."
        return Conformance(False, sentence, limit, 0, len(REQUIRED), None)
    receipt = json.loads(row.body)
    said = receipt["body"]
    kept = len(REQUIRED & set(said["passed"]))
    at = parse(receipt["recorded_at"])
    if (said["runtime"], said["runtime_version"]) != (runtime, version):
        sentence = f"The conformance suite ran with version {said['runtime_version']}, not with {version}."
        return Conformance(False, sentence, limit, kept, len(REQUIRED), at)
    if said["failed"] or kept < len(REQUIRED):
        sentence = f"Its recorder kept {kept} of {len(REQUIRED)} promises of the conformance suite."
        return Conformance(False, sentence, limit, kept, len(REQUIRED), at)
    sentence = "Through its recorder a branch cannot start without its permit."
    return Conformance(True, sentence, limit, kept, len(REQUIRED), at)
