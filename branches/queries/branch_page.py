"""The branch page: six gates in words, the limits beside the resume button, and the next step."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from branches.evidence.kinds.product import (
    ATTEST_REASONS,
    DRIFT_REASONS,
    JUDGEMENT_REASONS,
    PERSON_VERIFIER,
)
from branches.models import Edit, Job, JobState, Recorder, ResumePermit, Run
from branches.queries.arrivals import listing_destinations
from branches.queries.authority_words import AuthorityWords, authority_words
from branches.queries.branch_facts import BranchView, branch_view
from branches.queries.chains import Link, head, links, newest_by_subject
from branches.queries.configuration import Part, configuration_delta
from branches.queries.conformance import Conformance, conformance_of
from branches.queries.edit_page import read_only
from branches.queries.evidence_rows import EffectRow, KeyRow, effect_row, key_row
from branches.queries.family import Family, family_of
from branches.queries.gate_words import LEDGER_WORDS, GateRow, gate_rows
from branches.queries.ledger import runs_to_attest
from branches.queries.lineage import Lineage, lineage
from branches.queries.lookups import is_online
from branches.queries.next_step import Limit, Step, limits_of, next_step
from branches.queries.secrets import workspace_key
from branches.queries.subject import subject_digest, subject_of
from branches.queries.targets import target_owners
from branches.queries.words import Badge, outcome_badge, permission_badge
from branches.rules.change_class import ChangeClass
from branches.rules.verdicts import BranchStatus

_OPEN_JOBS: Final = (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A destination that can list what arrived there, and what its newest audit found."""

    destination: str
    newest: Link | None
    job: Job | None

    @property
    def strange(self) -> int:
        """How many arrivals no receipt accounted for."""
        return 0 if self.newest is None else len(self.newest.body["unaccounted"]) + self.newest.body["more"]


@dataclass(frozen=True, slots=True)
class Attestable:
    """A run that somebody may vouch for, and its last receipt at this moment."""

    run: Run
    through: int


@dataclass(frozen=True, slots=True)
class BranchPage:
    """Everything the branch page shows."""

    view: BranchView
    permission: Badge
    outcome: Badge
    lineage: Lineage
    gates: tuple[GateRow, ...]
    outcome_gate: GateRow
    keys: tuple[KeyRow, ...]
    effects: tuple[EffectRow, ...]
    limits: tuple[Limit, ...]
    unmet: tuple[int, ...]
    next: Step
    delta: tuple[Part, ...]
    edits: tuple[Edit, ...]
    to_attest: tuple[Attestable, ...]
    audits: tuple[AuditRow, ...]
    change_class: ChangeClass
    authority: AuthorityWords
    digest: str
    permit: ResumePermit | None
    declined: str | None
    """Why the recorder would not start the branch, where that was its last word."""
    recorder: Recorder | None
    conformance: Conformance
    online: bool
    receipts: int
    head: str | None
    busy: bool
    signature: str
    """Changes when anything the page shows has changed, but for ages."""

    drift_reasons = DRIFT_REASONS
    judgement_reasons = JUDGEMENT_REASONS
    attest_reasons = ATTEST_REASONS

    @property
    def is_read_only(self) -> bool:
        """Whether its runtime's messages and values can be looked at, and not edited."""
        return read_only(self.view.branch) is not None

    @property
    def passed(self) -> int:
        return sum(1 for gate in self.gates if gate.passed)

    @property
    def blocking(self) -> tuple[EffectRow, ...]:
        return tuple(row for row in self.effects if row.line.blocks)

    @property
    def is_for_a_person(self) -> bool:
        """Whether the workflow declares that a person finds the outcome."""
        declaration = self.view.declaration
        return declaration is not None and declaration.outcome.verifier == PERSON_VERIFIER

    @property
    def ledger(self) -> str:
        """Why the list of effects is taken for complete, or is not."""
        return LEDGER_WORDS[str(self.view.facts.effects_ledger)]

    @property
    def asks(self) -> bool:
        """Whether there is an effect whose destination can be asked for this branch."""
        return any(row.open for row in self.effects)

    @property
    def settled(self) -> tuple[EffectRow, ...]:
        return tuple(row for row in self.effects if not row.line.blocks)

    @property
    def sibling_before(self) -> Run | None:
        """The branch that was forked of the same parent before this one."""
        earlier = [run for run in self._siblings if (run.number or 0) < (self.view.branch.number or 0)]
        return earlier[-1] if earlier else None

    @property
    def sibling_after(self) -> Run | None:
        """The branch that was forked of the same parent after this one."""
        later = [run for run in self._siblings if (run.number or 0) > (self.view.branch.number or 0)]
        return later[0] if later else None

    @property
    def _siblings(self) -> list[Run]:
        family, parent = self.view.family, self.view.branch.parent_id
        found = [run for run in family.branches if run.parent_id == parent]
        return sorted(found, key=lambda run: run.number or 0)

    @property
    def ledger_unknown(self) -> bool:
        return bool(self.to_attest)

    @property
    def can_resume(self) -> bool:
        return self.view.verdict.status is BranchStatus.READY_TO_RESUME and self.permit is None

    @property
    def name(self) -> str:
        return f"b{self.view.branch.number}"


type _Jobs = dict[tuple[str, str], Job]


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """What moves while a page is put together, read before anything else.

    A job that ends while the rest is read then leaves a page that looks again, and never one that stopped
    looking at what was; and nobody vouches for a receipt that came after what they were shown.
    """

    jobs: _Jobs
    seq: int
    digest: str | None
    family: Family
    heads: Mapping[int, int]

    @classmethod
    def of(cls, branch: Run) -> "_UnderWay":
        jobs, (seq, digest) = _jobs(branch), head(branch.pk)
        family = family_of(branch)
        return cls(jobs, seq, digest, family, {run_id: head(run_id)[0] for run_id in family.after(branch)})


def page_now(branch: Run) -> BranchPage:
    """Return the page of a branch as it is now."""
    under_way = _UnderWay.of(branch)
    return branch_page(branch_view(branch, family=under_way.family), under_way)


def branch_page(view: BranchView, under_way: _UnderWay) -> BranchPage:
    """Return the page of a branch from its view, and from what was under way before that was taken."""
    jobs, seq, digest = under_way.jobs, under_way.seq, under_way.digest
    recorder, key = view.branch.recorder, workspace_key(view.branch.workspace)
    owners = _owners(view) if view.effects else {}
    requester = view.authority.request.requester if view.authority.request else view.fork.forker
    bound_to = subject_digest(subject_of(view, requester))
    permit = ResumePermit.objects.filter(branch=view.branch).order_by("-id").first()
    usable = (
        permit is not None
        and permit.expires_at > view.at
        and not hasattr(permit, "end")
        and permit.subject_digest == bound_to
    )
    waiting = permit if usable and view.redemption is None else None
    gates = tuple(gate_rows(view))
    return BranchPage(
        view=view,
        permission=permission_badge(view),
        outcome=outcome_badge(view),
        lineage=lineage(view),
        gates=gates[:5],
        outcome_gate=gates[5],
        keys=tuple(key_row(item, jobs, key) for item in view.keys),
        effects=tuple(effect_row(line, view, jobs, owners) for line in view.effects),
        limits=tuple(limits_of(view)),
        unmet=tuple(gate.number for gate in gates[:5] if not gate.passed),
        next=next_step(view),
        delta=tuple(part for part in configuration_delta(view.branch, view.pin) if part.changed),
        edits=view.edits,
        to_attest=_to_attest(view, under_way.heads),
        audits=tuple(_audits(view, jobs)),
        change_class=view.change_class,
        authority=authority_words(view),
        digest=bound_to,
        permit=waiting,
        declined=permit.end.rule if permit is not None and hasattr(permit, "end") else None,
        recorder=recorder,
        conformance=conformance_of(recorder),
        online=is_online(recorder),
        receipts=seq,
        head=digest,
        # A permit that waits is redeemed elsewhere: the page has to look to see it.
        busy=any(job.state in _OPEN_JOBS for job in jobs.values()) or waiting is not None or _is_moving(view),
        signature=_signature(view, digest, jobs, permit_waits=waiting is not None),
    )


def _owners(view: BranchView) -> dict[str, str | None]:
    """Return who owns each of the workflow's destinations."""
    owners = target_owners()
    rules = view.declaration.destinations.values() if view.declaration else ()
    return {rule.name: owners.get(rule.target) for rule in rules}


def _to_attest(view: BranchView, heads: Mapping[int, int]) -> tuple[Attestable, ...]:
    if view.redemption is not None or view.facts.effects_ledger != "unknown":
        return ()
    found = runs_to_attest(view.family, view.branch, view.audits)
    return tuple(Attestable(run, heads[run.pk]) for run in found)


def _audits(view: BranchView, jobs: _Jobs) -> Iterable[AuditRow]:
    names = listing_destinations(view.branch.workspace, view.declaration)
    newest = newest_by_subject(links([view.family.root.pk], ("arrivals_audited",))) if names else {}
    for name in names:
        yield AuditRow(name, newest.get(name), jobs.get(("audit_arrivals", name)))


def _signature(view: BranchView, head_digest: str | None, jobs: _Jobs, *, permit_waits: bool) -> str:
    shown = [
        view.verdict.status,
        head_digest,
        permit_waits,
        [call.id for line in view.effects for call in line.calls],
    ]
    states = sorted(f"{job.uid}:{job.state}" for job in jobs.values())
    return hashlib.sha256(repr((shown, states)).encode()).hexdigest()[:16]


def _is_moving(view: BranchView) -> bool:
    return view.verdict.status in (
        BranchStatus.RESUMING,
        BranchStatus.AWAITING_OUTCOME,
        BranchStatus.FALSE_SUCCESS,
        BranchStatus.OUTCOME_UNCERTAIN,
    )


def _jobs(branch: Run) -> _Jobs:
    rows = Job.objects.filter(run=branch).order_by("id")
    return {(job.kind, job.subject): job for job in rows}
