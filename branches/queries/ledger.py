"""The effect ledger of a branch: what happened in the world after its checkpoint, and what is known of it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any, Final

from django.db.models import Q

from branches.evidence import canonical
from branches.evidence.kinds import OUTSIDE_KINDS
from branches.models import Receipt, Run
from branches.queries.arrivals import Audits, Unaccounted, audits_of
from branches.queries.chains import Link, latest, link, links, newest_by_subject
from branches.queries.counted import is_counted
from branches.queries.declarations import Declaration, declaration_of
from branches.queries.family import Family, family_of
from branches.rules.branch_facts import EffectDecision, EffectStatus, Ledger

EFFECT_KINDS: Final = ("effect_intended", "effect_answered", "effect_reused", "effect_held", "effect_skipped")
_SENT_KINDS: Final = ("effect_intended", "effect_answered")
# An effect called from the checkpoint may have been recorded shortly before it, where the runtime writes
# checkpoints asynchronously; farther back nothing of it can lie.
_LOOK_BACK: Final = 1000
# More operations than this are not offered to a verifier: it asks about one artifact.
MOST_KEYS: Final = 5000


@dataclass(frozen=True, slots=True)
class EffectLine:
    """One operation after the checkpoint, as the ledger shows it."""

    operation_key: str
    tool: str
    destination: str | None
    effect_class: str
    key_strength: str
    payload: str
    calls: tuple[Link, ...]
    agent_says: str
    asked: Link | None
    reconciled: Link | None
    status: EffectStatus
    decision: EffectDecision | None
    basis: str | None
    stale: bool
    payload_differs: bool
    # The id of the newest call or answer: an answer of the destination says nothing of what came later.
    moved_at: int
    is_unaccounted: bool = False
    """It arrived at its destination and no receipt accounts for it: `calls` is the audit that found it."""

    @property
    def shown(self) -> str:
        """Return a digest of what a person sees of this line: what they say is bound to it."""
        asked = None if self.asked is None else _said(self.asked)
        seen = [self.moved_at, *(asked or ()), str(self.status), str(self.decision), self.stale]
        return canonical.digest(canonical.SHOWN, {"effect": seen})

    @property
    def blocks(self) -> bool:
        """Whether gate 3 stops at this line."""
        undecided = self.status is EffectStatus.IRREVERSIBLE and self.decision is None
        return self.stale or undecided or self.status is EffectStatus.PENDING


@dataclass(slots=True)
class _Gathered:
    intended: list[Link] = field(default_factory=list)
    answered: list[Link] = field(default_factory=list)
    unsent: list[Link] = field(default_factory=list)

    @property
    def last_id(self) -> int:
        return max(item.id for item in (*self.intended, *self.answered))


def effect_lines(
    family: Family,
    branch: Run,
    declaration: Declaration | None,
    audits: Audits,
    now: datetime,
    only: str | None = None,
) -> list[EffectLine]:
    """Return the branch's effects (or only that of one key), blocking ones first, by their first call."""
    left_at = {
        parent.pk: family.forks[child.pk].checkpoint for parent, child in pairwise(family.path(branch))
    }
    gathered = _gather(_effects_after(family.after(branch), left_at, only))
    where = None if only is None else Q(subject=only)
    own = links([branch.pk], ("effect_asked", "effect_reconciled"), where=where)
    asked: dict[str | None, list[Link]] = defaultdict(list)
    for item in own:
        if item.kind == "effect_asked":
            asked[item.subject].append(item)
    reconciled = newest_by_subject(item for item in own if item.kind == "effect_reconciled")
    max_age = timedelta(seconds=declaration.max_age_s if declaration else 900)
    lines = [
        _line(key, found, asked[key], reconciled.get(key), now - max_age)
        for key, found in gathered.items()
        if found.intended and _worst_class(found.intended) != "read"
    ]
    known = {line.operation_key for line in lines}
    if audits.unaccounted:
        # What the branch itself sends arrives before its receipt is here: the receipt speaks for it then.
        known |= operation_keys(branch)
    for each in audits.unaccounted:
        if only not in (None, each.key):
            continue
        own_key = each.operation_key
        if only is not None and own_key is not None:
            known = {
                line.operation_key for line in effect_lines(family, branch, declaration, audits, now, own_key)
            }
        # Only the branch's own ledger speaks for it: a receipt elsewhere, or of a read, explains nothing.
        if own_key not in known:
            lines.append(_strange(each, reconciled.get(each.key)))
    return sorted(lines, key=lambda line: (not line.blocks, line.calls[0].id))


def effects_after_checkpoint(run: Run, checkpoint: str, seq: int) -> list[Link]:
    """Return the intended external effects of a run that a replay from a checkpoint would meet again."""
    found = _effects_after({run.pk: seq}, {run.pk: checkpoint})
    return [item for item in found if item.kind == "effect_intended" and item.body["effect_class"] != "read"]


def effect_line(branch: Run, operation_key: str, now: datetime) -> EffectLine | None:
    """Return one effect of a branch, or None; what it costs does not depend on how many there are."""
    family, declaration = family_of(branch), declaration_of(branch)
    audits = audits_of(family.root)
    found = effect_lines(family, family.runs[branch.pk], declaration, audits, now, operation_key)
    return found[0] if found else None


def _effects_after(
    bounds: Mapping[int, int], left_at: Mapping[int, str], only: str | None = None
) -> list[Link]:
    """Return the effect receipts after a line left each run: `bounds` by seq, `left_at` by checkpoint.

    With them those recorded shortly before: of a call from that very checkpoint, and of one that was
    answered only after it, for then nobody knows on which side of it the effect lies.
    """
    if not bounds:
        return []
    # Each run with its kinds, and nothing twice: only so does SQLite go by the index of kinds.
    where = reduce(
        or_,
        (
            Q(run_id=run, kind__in=EFFECT_KINDS, seq__gt=max(0, seq - _LOOK_BACK))
            for run, seq in bounds.items()
        ),
    )
    where = where if only is None else where & Q(subject=only)
    found = [link(row) for row in Receipt.objects.filter(where).order_by("id")]
    after = {item.id for item in found if item.seq > bounds[item.run_id]}
    early = [item for item in found if item.id not in after]
    ours = {
        (item.run_id, item.subject)
        for item in early
        if item.kind == "effect_intended" and item.body["checkpoint"] == left_at.get(item.run_id)
    }
    ours |= {(item.run_id, item.subject) for item in found if item.id in after and item.kind in _SENT_KINDS}
    return [item for item in found if item.id in after or (item.run_id, item.subject) in ours]


def _gather(found: Iterable[Link]) -> dict[str, _Gathered]:
    gathered: dict[str, _Gathered] = {}
    for item in found:
        if item.subject is None:
            continue
        slot = gathered.setdefault(item.subject, _Gathered())
        if item.kind == "effect_intended":
            slot.intended.append(item)
        elif item.kind == "effect_answered":
            slot.answered.append(item)
        else:
            slot.unsent.append(item)
    return gathered


# What a call is worth, the worst last: said twice, the worse counts.
_CLASSES: Final = ("read", "reversible", "unknown", "irreversible")


def _worst_class(intended: Iterable[Link]) -> str:
    return max((str(item.body["effect_class"]) for item in intended), key=_CLASSES.index)


def _line(
    key: str, found: _Gathered, asks: Sequence[Link], reconciled: Link | None, oldest: datetime
) -> EffectLine:
    last, effect_class = found.intended[-1], _worst_class(found.intended)
    asks = [item for item in asks if item.id > found.last_id]
    asked = asks[-1] if asks else None
    if reconciled is not None and not _still_holds(reconciled, asks, found.last_id):
        reconciled = None
    status, decision, basis = _standing(effect_class, asked, reconciled)
    rests_on_answer = status is not EffectStatus.PENDING and asked is not None
    payloads = {item.body["payload"] for item in found.intended}
    return EffectLine(
        operation_key=key,
        tool=last.body["tool"],
        destination=last.body["destination"],
        effect_class=effect_class,
        key_strength=last.body["key_strength"],
        payload=last.body["payload"],
        calls=tuple(found.intended),
        agent_says=found.answered[-1].body["answer"] if found.answered else "nothing",
        asked=asked,
        reconciled=reconciled,
        status=status,
        decision=decision,
        basis=basis,
        stale=rests_on_answer and asked is not None and asked.recorded_at < oldest,
        payload_differs=len(payloads) > 1 or (asked is not None and asked.body["answer"] == "changed"),
        moved_at=found.last_id,
    )


def _strange(found: Unaccounted, reconciled: Link | None) -> EffectLine:
    """Return the line of an arrival that no receipt accounts for: only a person's word settles it."""
    if reconciled is not None and reconciled.id < found.audit.id:
        reconciled = None
    status, decision, basis = _standing("unknown", None, reconciled)
    return EffectLine(
        operation_key=found.key,
        tool="unaccounted",
        destination=found.destination,
        effect_class="unknown",
        key_strength="weak",
        payload="",
        calls=(found.audit,),
        agent_says="nothing",
        asked=None,
        reconciled=reconciled,
        status=status,
        decision=decision,
        basis=basis,
        stale=False,
        payload_differs=False,
        moved_at=found.audit.id,
        is_unaccounted=True,
    )


def _still_holds(reconciled: Link, asks: Sequence[Link], moved_at: int) -> bool:
    """Return whether a person's word stands: a later call reopens the line, and so does another answer."""
    if reconciled.id < moved_at:
        return False
    before = [item for item in asks if item.id < reconciled.id]
    after = [item for item in asks if item.id > reconciled.id]
    return not after or (bool(before) and _said(before[-1]) == _said(after[-1]))


def _said(asked: Link) -> tuple[str, str | None]:
    return asked.body["answer"], asked.body["fingerprint"]


def _standing(
    effect_class: str, asked: Link | None, reconciled: Link | None
) -> tuple[EffectStatus, EffectDecision | None, str | None]:
    if reconciled is not None:
        body: dict[str, Any] = reconciled.body
        decision = EffectDecision(body["decision"]) if body["decision"] else None
        return EffectStatus(body["status"]), decision, body["basis"]
    if asked is not None and asked.body["answer"] == "present" and effect_class == "irreversible":
        return EffectStatus.IRREVERSIBLE, None, None
    return EffectStatus.PENDING, None, None


def proposal(line: EffectLine) -> tuple[EffectStatus, str] | None:
    """Return the status and basis that the destination's answer supports, or None where it supports none.

    present → reconciled (an irreversible one → irreversible, to be decided), absent → reverted because it
    never happened, changed and unknown → nothing: a person looks.
    """
    if line.asked is None or line.stale:
        return None
    answer = line.asked.body["answer"]
    if answer == "present" and line.effect_class == "irreversible":
        return EffectStatus.IRREVERSIBLE, "destination"
    if answer == "present":
        return EffectStatus.RECONCILED, "destination"
    if answer == "absent":
        return EffectStatus.REVERTED, "never_happened"
    return None


def needs_judgement(line: EffectLine) -> bool:
    """Return whether only a person can settle a line: something else is there, or nobody can be asked."""
    if line.status is not EffectStatus.PENDING:
        return False
    if line.is_unaccounted or line.destination is None:
        return True
    return line.asked is not None and line.asked.body["answer"] == "changed"


def operation_keys(run: Run) -> frozenset[str]:
    """Return the keys of the operations that a run itself sent."""
    sent = Receipt.objects.filter(run=run, kind="effect_intended").values_list("subject", flat=True)
    return frozenset(key for key in sent.distinct()[:MOST_KEYS] if key is not None)


def ledger_state(family: Family, branch: Run, audits: Audits) -> Ledger:
    """Return whether the list is complete: it follows from how each run that acted was recorded."""
    incomplete = _incomplete(family, branch, audits)
    if not incomplete:
        return Ledger.COMPLETE
    return Ledger.UNKNOWN if _unattested(branch, incomplete, audits) else Ledger.ATTESTED


def runs_to_attest(family: Family, branch: Run, audits: Audits) -> list[Run]:
    """Return the runs whose recording is incomplete and for which nobody has vouched yet."""
    return _unattested(branch, _incomplete(family, branch, audits), audits)


def _incomplete(family: Family, branch: Run, audits: Audits) -> list[Run]:
    root = family.root.pk if audits.more_since is not None else None
    return [
        family.runs[run_id]
        for run_id, seq in family.after(branch).items()
        if run_id == root or not _is_complete(family, family.runs[run_id], seq)
    ]


def _unattested(branch: Run, incomplete: Iterable[Run], audits: Audits) -> list[Run]:
    attested = newest_by_subject(links([branch.pk], ("ledger_attested",)))
    return [run for run in incomplete if not _is_attested(run, attested.get(run.uid), audits)]


def _is_attested(run: Run, word: Link | None, audits: Audits) -> bool:
    """Return whether a person vouched for what is known up to now: no word covers the future."""
    if word is None:
        return False
    through = word.body["through_seq"]
    if run.parent_id is None and audits.more_since is not None and through < audits.more_since:
        return False
    later = Receipt.objects.filter(run=run, seq__gt=through, kind__in=OUTSIDE_KINDS)
    # What another writer says of a hand-over tells nothing of what this run did.
    own = later if run.recorder is None else later.filter(writer=run.recorder.uid)
    return not own.exists()


def _is_complete(family: Family, run: Run, left_at: int) -> bool:
    """Return whether the writer closed its recording and no number up to its count is missing.

    `left_at` is the seq at which the branch's line left the run.

    A branch that still runs has not closed, and its effects are not all known.
    """
    if run.recorder is None or not family.once(("counted", run.pk), lambda: is_counted(run)):
        return False
    if run.parent_id is not None:
        return True  # a branch is resumed by our own recorder, which wraps every tool or refuses
    return family.once(("placed", run.pk, left_at), lambda: _is_full(run) and not _has_unplaced(run, left_at))


def _is_full(run: Run) -> bool:
    started = latest(run.pk, "run_started")
    return started is not None and started.body["recording"] == "full" and run.workflow_id is not None


def _has_unplaced(run: Run, left_at: int) -> bool:
    """Return whether an effect that may lie after the fork point was called from no known checkpoint."""
    return Receipt.objects.filter(
        run=run,
        kind="effect_intended",
        seq__gt=max(0, left_at - _LOOK_BACK),
        body__contains='"checkpoint":null',
    ).exists()


def first_receipts(run_ids: Iterable[int]) -> dict[int, Link]:
    """Return the first receipt of each run."""
    return {row.run_id: link(row) for row in Receipt.objects.filter(run_id__in=list(run_ids), seq=1)}
