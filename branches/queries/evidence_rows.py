"""The rows of gates 2 and 3: each state key and each effect, with what can be done about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from branches.evidence.drift import part_ref
from branches.evidence.keys import HmacKey
from branches.models import Job
from branches.queries.branch_facts import BranchView, late_effects
from branches.queries.ledger import EffectLine, needs_judgement, proposal
from branches.queries.state_evidence import KeyEvidence
from branches.queries.words import Badge, Shape
from branches.registry import PluginMissing, PluginUnfit, find
from branches.rules.branch_facts import EffectStatus, Restore

_INSTALL: Final = "Install the plug-in that brings it, then probe again; until then this key blocks."


@dataclass(frozen=True, slots=True)
class Change:
    """One part of a state that drifted: its name where the probe's parts have names, else its digest."""

    part: str
    change: str
    is_named: bool


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One state key as gate 2 shows it."""

    evidence: KeyEvidence
    badge: Badge
    limits: str
    remedy: str
    job: Job | None
    drift: tuple[Change, ...] = ()

    @property
    def name(self) -> str:
        return self.evidence.key.name

    @property
    def at(self) -> datetime | None:
        return self.evidence.measured.recorded_at if self.evidence.measured else None

    @property
    def can_acknowledge(self) -> bool:
        state = self.evidence.state
        return state is not None and state.restore is Restore.DRIFTED and self.evidence.key.acknowledgeable


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One effect as gate 3 shows it."""

    line: EffectLine
    badge: Badge
    says: str
    at: datetime | None
    proposed: EffectStatus | None
    job: Job | None
    by: str
    owner: str | None
    """Who owns its destination, as the targets file says."""
    open: bool
    """Whether something can still be done about it on this branch."""

    @property
    def judged(self) -> str | None:
        """What a person's judgement of it rests on, where one stands."""
        reconciled = self.line.reconciled
        return None if reconciled is None else reconciled.body["reason"]

    @property
    def is_by_policy(self) -> bool:
        """Whether the workflow's dated policy accepted what the destination said, and no person did."""
        reconciled = self.line.reconciled
        return reconciled is not None and reconciled.body["policy"] is not None

    @property
    def needs_judgement(self) -> bool:
        return self.open and needs_judgement(self.line)

    @property
    def needs_decision(self) -> bool:
        return self.proposed is EffectStatus.IRREVERSIBLE and self.line.decision is None

    @property
    def can_accept(self) -> bool:
        return self.proposed in (EffectStatus.RECONCILED, EffectStatus.REVERTED) and self.line.blocks


_STATE_BADGES: Final = {
    Restore.MATCHED: Badge("pass", "pass", "Matched", Shape.OUTLINE),
    Restore.DRIFT_ACKNOWLEDGED: Badge("stale", "stale", "Drift acknowledged", Shape.DASH),
    Restore.DRIFTED: Badge("blocked", "blocked", "Drifted", Shape.OUTLINE),
    Restore.UNREACHABLE: Badge("uncertain", "uncertain", "Unreachable", Shape.DASH),
    Restore.NOT_RESTORED: Badge("uncertain", "uncertain", "Not compared", Shape.DASH),
}
_NOT_CAPTURED: Final = Badge("uncertain", "uncertain", "Not captured", Shape.DASH)
_STALE: Final = Badge("stale", "stale", "Stale check", Shape.DASH)


def key_row(evidence: KeyEvidence, jobs: dict[tuple[str, str], Job], key: HmacKey) -> KeyRow:
    """Return a required key with its badge, its probe's sentences and what drifted."""
    state = evidence.state
    if state is None or state.fingerprint is None:
        badge = _NOT_CAPTURED
    else:
        badge = _STALE if state.stale else _STATE_BADGES[state.restore]
    limits, remedy = probe_sentences(evidence.key.probe)
    job = jobs.get(("probe_state", evidence.key.name))
    return KeyRow(evidence, badge, limits, remedy, job, _drift(evidence, key))


def _drift(evidence: KeyEvidence, key: HmacKey) -> tuple[Change, ...]:
    found = evidence.measured.body["drift"] if evidence.measured else ()
    named = {part_ref(key, name): name for name in part_names(evidence.key.probe)} if found else {}
    return tuple(
        Change(named.get(each["part"], each["part"]), each["change"], each["part"] in named) for each in found
    )


def part_names(probe: str) -> tuple[str, ...]:
    """Return the names of a probe's parts that are no content."""
    try:
        return tuple(getattr(find("probes", probe), "part_names", ()))
    except (PluginMissing, PluginUnfit):
        return ()


def probe_sentences(probe: str) -> tuple[str, str]:
    """Return what a probe's restore does not cover and what a person does about drift."""
    try:
        found = find("probes", probe)
    except (PluginMissing, PluginUnfit):
        return "The probe of this key is not installed here.", _INSTALL
    return found.limits, found.remedy


def shows_content(probe: str) -> bool:
    """Return whether a recorder can show the value of a key that this probe measures."""
    try:
        return bool(getattr(find("probes", probe), "shows_content", False))
    except (PluginMissing, PluginUnfit):
        return False


_EFFECT_BADGES: Final = {
    EffectStatus.REVERTED: Badge("reverted", "reverted", "Reverted", Shape.OUTLINE),
    EffectStatus.RECONCILED: Badge("reconciled", "reconciled", "Reconciled", Shape.OUTLINE),
    EffectStatus.PENDING: Badge("waiting", "waiting", "Pending", Shape.OUTLINE),
    EffectStatus.IRREVERSIBLE: Badge("irreversible", "irreversible", "Irreversible", Shape.OUTLINE),
}
_SAYS: Final = {
    "present": "It happened there",
    "absent": "It never happened there",
    "changed": "Something else is there",
    "unknown": "No answer that settles it",
}


def effect_badge(line: EffectLine) -> Badge:
    """Return an effect's state; a decided irreversible one says what was decided."""
    if line.stale:
        return _STALE
    if line.decision is not None:
        return Badge("irreversible", "neutral", f"Irreversible, {line.decision}", Shape.OUTLINE)
    return _EFFECT_BADGES[line.status]


def _says(line: EffectLine) -> str:
    if line.is_unaccounted:
        return "It arrived there, and no receipt accounts for it"
    return _SAYS[line.asked.body["answer"]] if line.asked else "Not asked"


def effect_row(
    line: EffectLine, view: BranchView, jobs: dict[tuple[str, str], Job], owners: Mapping[str, str | None]
) -> EffectRow:
    """Return an effect with its badge, whom to ask, and what can be done about it.

    `owners` names the owner of each destination that has one.
    """
    supported = proposal(line)
    runs = {view.family.runs[call.run_id] for call in line.calls}
    by = ", ".join(
        f"b{run.number}" if run.number else "run" for run in sorted(runs, key=lambda run: run.number or 0)
    )
    return EffectRow(
        line=line,
        badge=effect_badge(line),
        says=_says(line),
        at=line.asked.recorded_at if line.asked else None,
        proposed=supported[0] if supported else None,
        job=jobs.get(("ask_destination", line.operation_key)),
        by=by,
        owner=owners.get(line.destination or ""),
        open=view.redemption is None or line.operation_key in late_effects(view),
    )
