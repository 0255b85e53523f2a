"""State evidence of a branch: for each required key what it was at the checkpoint, and what it is now."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from branches.evidence import canonical
from branches.models import Receipt, Run
from branches.queries.chains import Link, link, links
from branches.queries.declarations import Declaration, StateKey
from branches.queries.family import Family
from branches.rules.branch_facts import KeyState, Restore


@dataclass(frozen=True, slots=True)
class KeyEvidence:
    """One required key: its fingerprint at the checkpoint and the newest measurement of it."""

    key: StateKey
    at_checkpoint: str | None
    captured: Link | None
    measured: Link | None
    acknowledged: Link | None
    stale: bool
    facts: Mapping[str, Any]
    """What the checkpoint says of the key besides its fingerprint."""

    @property
    def state(self) -> KeyState | None:
        """Return what the rules judge, or None where nothing is known of the key at all."""
        if self.at_checkpoint is None and self.measured is None:
            return None
        if self.measured is None:
            # Captured and never compared: what it is now is not known.
            return KeyState(self.at_checkpoint, Restore.NOT_RESTORED, self.stale)
        result = Restore(self.measured.body["result"])
        if result is Restore.DRIFTED and self._is_acknowledged():
            result = Restore.DRIFT_ACKNOWLEDGED
        return KeyState(self.at_checkpoint, result, self.stale)

    @property
    def shown(self) -> str:
        """Return a digest of what a person sees of this key: what they say is bound to it."""
        measured = self.measured.body if self.measured else {}
        seen = [self.at_checkpoint, measured.get("fingerprint"), measured.get("result"), self.stale]
        return canonical.digest(canonical.SHOWN, {"key": seen})

    def _is_acknowledged(self) -> bool:
        return (
            self.acknowledged is not None
            and self.measured is not None
            and self.acknowledged.body["fingerprint"] == self.measured.body["fingerprint"]
        )


def checkpoint_link(family: Family, branch: Run) -> Link | None:
    """Return the checkpoint's receipt in the parent, found by the fork point's seq."""
    fork = family.forks[branch.pk]
    row = Receipt.objects.filter(run_id=fork.parent_id, seq=fork.seq).first()
    return link(row) if row else None


def key_evidence(family: Family, branch: Run, declaration: Declaration, now: datetime) -> list[KeyEvidence]:
    """Return the evidence for every required key, in the order of the declaration."""
    checkpoint = checkpoint_link(family, branch)
    in_checkpoint = checkpoint.body["state"] if checkpoint else {}
    newest: dict[tuple[str, str], Link] = {}
    for item in links([branch.pk], ("state_captured", "state_measured", "drift_acknowledged")):
        newest[item.kind, item.body["key"]] = item
    oldest = now - timedelta(seconds=declaration.max_age_s)
    return [
        _evidence(key, in_checkpoint.get(name), newest, oldest)
        for name, key in declaration.state_keys.items()
    ]


def _evidence(
    key: StateKey,
    recorded: dict[str, Any] | None,
    newest: dict[tuple[str, str], Link],
    oldest: datetime,
) -> KeyEvidence:
    captured = newest.get(("state_captured", key.name))
    measured = newest.get(("state_measured", key.name))
    fingerprint = recorded["fingerprint"] if recorded else None
    if fingerprint is None and captured is not None:
        fingerprint = captured.body["fingerprint"]
    return KeyEvidence(
        key=key,
        at_checkpoint=fingerprint,
        captured=captured,
        measured=measured,
        acknowledged=newest.get(("drift_acknowledged", key.name)),
        stale=measured is not None and measured.recorded_at < oldest,
        facts=recorded["facts"] if recorded else {},
    )
