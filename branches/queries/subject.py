"""What an approval is bound to: one digest over the canonical form of exactly what was shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from branches.evidence import canonical
from branches.models import Person
from branches.queries.branch_facts import BranchView
from branches.queries.chains import Link, links, newest_by_subject


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that is not what it was: where, and both forms."""

    field: str
    before: str
    after: str


def subject_of(view: BranchView, requester: Person) -> dict[str, Any]:
    """Return the bound values of a branch: fingerprints, statuses and decisions, no rows and no times."""
    declaration = view.declaration
    return {
        "parent": view.facts.parent_id,
        "branch": view.branch.uid,
        "checkpoint": view.fork.checkpoint,
        "parent_digest": view.fork.digest,
        "state": {
            item.key.name: {
                "at_checkpoint": item.at_checkpoint,
                "now": item.measured.body["fingerprint"] if item.measured else None,
                "result": str(item.state.restore) if item.state else None,
            }
            for item in view.keys
        },
        "effects": {
            line.operation_key: {
                "tool": line.tool,
                "status": str(line.status),
                "decision": str(line.decision) if line.decision else None,
                "payload": line.payload,
            }
            for line in view.effects
        },
        "ledger": str(view.facts.effects_ledger),
        "attested": {run: word.body["digest"] for run, word in sorted(_attested(view).items())},
        "configuration": {
            "original": view.pin.original if view.pin else None,
            "pinned": view.pin.digest if view.pin else None,
        },
        "edits": [
            {
                "target": edit.target,
                "state_key": edit.state_key,
                "edit": edit.digest,
                "edit_class": edit.edit_class,
            }
            for edit in view.edits
        ],
        "outcome": {
            "expected": declaration.outcome.expected if declaration else None,
            "verifier": declaration.outcome.verifier if declaration else None,
            "target": declaration.outcome.target if declaration else None,
        },
        "workflow": declaration.digest if declaration else None,
        "runtime": view.branch.recorder.uid if view.branch.recorder else None,
        "class": str(view.change_class),
        "kinds": sorted(view.fork.kinds),
        "policy": view.asked.policy.digest,
        "requester": requester.uid,
    }


def _attested(view: BranchView) -> dict[str, Link]:
    """Return by run the newest word of somebody who vouched for its list of effects."""
    return newest_by_subject(links([view.branch.pk], ("ledger_attested",)))


def subject_digest(subject: dict[str, Any]) -> str:
    """Return the digest that requests, decisions and permits are bound to."""
    return canonical.digest(canonical.SUBJECT, subject)


def differences(before: dict[str, Any], after: dict[str, Any]) -> tuple[Difference, ...]:
    """Return what changed between two subjects, by dotted field."""
    old, new = dict(_flat(before, "")), dict(_flat(after, ""))
    fields = sorted(old.keys() | new.keys())
    return tuple(
        Difference(field, old.get(field, "absent"), new.get(field, "absent"))
        for field in fields
        if old.get(field) != new.get(field)
    )


def _flat(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _flat(member, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, member in enumerate(value, 1):
            yield from _flat(member, f"{path}.{index}")
    else:
        yield path, "none" if value is None else str(value)
