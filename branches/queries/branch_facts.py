"""The facts of a branch, assembled from rows, and the verdict of the rules on them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from branches.models import ConfigurationPin, Edit, ForkPoint, JobKind, Redemption, Run
from branches.queries.arrivals import Audits, audits_of, listing_destinations
from branches.queries.authority import Asked, AuthorityView, authority_view, is_engineer, newest_pin
from branches.queries.chains import Link, links
from branches.queries.change_class import class_of_branch, destinations_to_own
from branches.queries.clock import now as present
from branches.queries.configuration import pin_gaps
from branches.queries.declarations import Declaration, declaration_of
from branches.queries.family import Family, family_of
from branches.queries.ledger import EffectLine, effect_lines, ledger_state
from branches.queries.outcome import OutcomeView, outcome_view
from branches.queries.policies import policy_of
from branches.queries.standings import roster_of
from branches.queries.state_evidence import KeyEvidence, checkpoint_link, key_evidence
from branches.rules.branch_facts import (
    Authority,
    BranchFacts,
    Effect,
    KeyState,
    Restore,
    Resume,
    parse_branch,
)
from branches.rules.branch_facts import Decision as Word
from branches.rules.branch_facts import ForkPoint as ForkFacts
from branches.rules.change_class import ChangeClass, ClassVerdict
from branches.rules.gates import judge_branch
from branches.rules.verdicts import BranchVerdict


@dataclass(frozen=True, slots=True)
class BranchView:
    """Everything known of a branch at one moment, with the verdict that follows from it."""

    branch: Run
    family: Family
    fork: ForkPoint
    declaration: Declaration | None
    checkpoint: Link | None
    keys: tuple[KeyEvidence, ...]
    effects: tuple[EffectLine, ...]
    authority: AuthorityView
    asked: Asked
    class_verdict: ClassVerdict
    pin: ConfigurationPin | None
    edits: tuple[Edit, ...]
    audits: Audits
    redemption: Redemption | None
    restored: Link | None
    outcome: OutcomeView
    facts: BranchFacts
    verdict: BranchVerdict
    at: datetime

    @property
    def change_class(self) -> ChangeClass:
        return self.class_verdict.change_class


def late_effects(view: BranchView) -> frozenset[str]:
    """Return the operations at which gate 3 of a resumed branch stops: what became known after its resume."""
    if view.redemption is None:
        return frozenset()
    reasons = view.verdict.gates[2].reasons
    return frozenset(subject for _, _, subject in (reason.partition(":") for reason in reasons) if subject)


def stopping_effects(view: BranchView) -> frozenset[str]:
    """Return the late effects that stop a resumed branch: those of its ancestors, and of siblings before it.

    What a sibling does that was resumed later is that sibling's to reckon with.
    """
    if view.redemption is None:
        return frozenset()
    later = {
        run_id
        for run_id, other in view.family.redemptions.items()
        if run_id != view.branch.pk and other.at >= view.redemption.at
    }
    late = late_effects(view)
    return frozenset(
        line.operation_key
        for line in view.effects
        if line.operation_key in late and any(call.run_id not in later for call in line.calls)
    )


def subjects_of(run: Run, kind: str) -> list[str]:
    """Return everything on a branch that a kind of job can be asked for; nothing on a root run."""
    if run.parent_id is None:
        return []
    view = branch_view(run)
    if kind == JobKind.PROBE_STATE:
        return [item.key.name for item in view.keys]
    if kind == JobKind.AUDIT_ARRIVALS:
        return list(listing_destinations(run.workspace, view.declaration))
    late = late_effects(view)
    lines = view.effects if view.redemption is None else [x for x in view.effects if x.operation_key in late]
    return [line.operation_key for line in lines if not line.is_unaccounted]


def branch_view(branch: Run, *, now: datetime | None = None, family: Family | None = None) -> BranchView:
    """Return a branch as it is judged now; the number of queries does not depend on the run's length."""
    now = now or present()
    family = family or family_of(branch)
    branch = family.runs[branch.pk]
    fork = family.forks[branch.pk]
    declaration = declaration_of(branch)
    redemption = family.redemptions.get(branch.pk)
    keys = tuple(key_evidence(family, branch, declaration, now)) if declaration else ()
    audits = family.once("audits", lambda: audits_of(family.root))
    lines = tuple(effect_lines(family, branch, declaration, audits, now))
    worst = class_of_branch(family, branch, declaration, lines)
    asked = _asked(family, branch, declaration, lines, worst.change_class, now)
    authority = authority_view(branch, asked)
    pin = newest_pin(branch)
    edits = tuple(Edit.objects.filter(branch=branch).order_by("id"))
    outcome = outcome_view(branch)
    checkpoint = checkpoint_link(family, branch)
    facts = BranchFacts(
        branch_id=branch.uid,
        parent_id=family.runs[fork.parent_id].uid,
        fork_point=_fork_facts(fork, checkpoint),
        required_state_keys=tuple(declaration.state_keys) if declaration else ("undeclared",),
        acknowledgeable_keys=_acknowledgeable(declaration),
        state={item.key.name: state for item in keys if (state := item.state) is not None},
        effects_ledger=ledger_state(family, branch, audits),
        effects=tuple(_effect(line) for line in lines),
        authority=Authority(
            operator_authorised=is_engineer(fork.forker, branch.workspace),
            required=asked.is_required,
            decision=authority.word,
        ),
        configuration_pinned=pin is not None and not pin_gaps(pin, declaration),
        resume=Resume.NONE,
        outcome=None,
    )
    restored = links([branch.pk], ("restored",)) if redemption else []
    if redemption is not None:
        facts = _after_redemption(facts, redemption, restored, outcome, declaration, now)
    return BranchView(
        branch=branch,
        family=family,
        fork=fork,
        declaration=declaration,
        checkpoint=checkpoint,
        keys=keys,
        effects=lines,
        authority=authority,
        asked=asked,
        class_verdict=worst,
        pin=pin,
        edits=edits,
        audits=audits,
        redemption=redemption,
        restored=restored[-1] if restored else None,
        outcome=outcome,
        facts=facts,
        verdict=judge_branch(facts),
        at=now,
    )


def effects_now(branch: Run) -> list[EffectLine]:
    """Return the effects of a branch's view alone: what destinations are asked about needs nothing else."""
    family = family_of(branch)
    branch = family.runs[branch.pk]
    return list(effect_lines(family, branch, declaration_of(branch), audits_of(family.root), present()))


def _asked(
    family: Family,
    branch: Run,
    declaration: Declaration | None,
    lines: Sequence[EffectLine],
    change: ChangeClass,
    now: datetime,
) -> Asked:
    workspace = branch.workspace
    return Asked(
        policy=family.once("policy", lambda: policy_of(workspace, now)),
        roster=family.once("roster", lambda: roster_of(workspace, now)),
        change=change,
        destinations=destinations_to_own(declaration, lines),
        at=now,
    )


def _fork_facts(fork: ForkPoint, checkpoint: Link | None) -> ForkFacts:
    in_parent = (
        checkpoint is not None and checkpoint.kind == "checkpoint" and checkpoint.subject == fork.checkpoint
    )
    unchanged = checkpoint is not None and checkpoint.digest == fork.digest
    return ForkFacts(fork.checkpoint, in_parent=in_parent, parent_unchanged=unchanged)


def _acknowledgeable(declaration: Declaration | None) -> tuple[str, ...]:
    if declaration is None:
        return ()
    return tuple(name for name, key in declaration.state_keys.items() if key.acknowledgeable)


def _effect(line: EffectLine) -> Effect:
    return Effect(line.operation_key, line.status, line.decision, line.stale)


def _after_redemption(
    current: BranchFacts,
    redemption: Redemption,
    restored: list[Link],
    outcome: OutcomeView,
    declaration: Declaration | None,
    now: datetime,
) -> BranchFacts:
    """Return the facts as they were sealed, with the four that stay current.

    Those are: the parent's history, effects that became known later, a revoked authority, and the
    confirmation of the restore.
    """
    sealed = parse_branch(json.loads(redemption.sealed_facts))
    effects = {effect.operation_key: effect for effect in sealed.effects}
    for effect in current.effects:
        known = effects.get(effect.operation_key)
        # Nothing settles a sealed branch's effects any more: one that reads otherwise was called again, or
        # answered later than what was sealed.
        if known is None or (known.status, known.decision) != (effect.status, effect.decision):
            effects[effect.operation_key] = effect
    authority = sealed.authority
    if current.authority.decision is Word.REVOKED:
        authority = replace(authority, decision=Word.REVOKED)
    return replace(
        sealed,
        fork_point=replace(sealed.fork_point, parent_unchanged=current.fork_point.parent_unchanged),
        state=_confirmed(sealed.state, restored),
        effects=tuple(effects.values()),
        authority=authority,
        resume=_resume(redemption, outcome, declaration, now),
        outcome=outcome.facts,
    )


def _confirmed(state: Mapping[str, KeyState], restored: list[Link]) -> dict[str, KeyState]:
    """Return the sealed state, in which a key that did not come back as promised is not restored.

    A mismatch stays one, whatever a later receipt says: the branch has started from what it loaded.
    """
    failed = {
        key
        for receipt in restored
        for key, found in receipt.body["state"].items()
        if found["result"] != "matched"
    }
    return {
        key: replace(value, restore=Restore.NOT_RESTORED) if key in failed else value
        for key, value in state.items()
    }


def _resume(
    redemption: Redemption, outcome: OutcomeView, declaration: Declaration | None, now: datetime
) -> Resume:
    if outcome.started is not None:
        return Resume.STARTED
    limit = timedelta(seconds=declaration.start_s if declaration else 60)
    return Resume.LOST if now > redemption.at + limit else Resume.REDEEMED
