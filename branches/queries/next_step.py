"""What stands beside the resume button, and what to do next."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from branches.queries.branch_facts import BranchView
from branches.queries.evidence_rows import probe_sentences
from branches.queries.ledger import proposal
from branches.rules.branch_facts import EffectDecision, EffectStatus, Restore
from branches.rules.verdicts import NextAction


@dataclass(frozen=True, slots=True)
class Limit:
    """One line beside the resume button."""

    icon: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next: one sentence, and the control that does it (an anchor on the page)."""

    sentence: str
    label: str
    anchor: str
    key: str


def limits_of(view: BranchView) -> Iterable[Limit]:
    """Yield up to three lines: what stays done, what is restored only in part, who else acted."""
    stays = [line for line in view.effects if line.status is EffectStatus.IRREVERSIBLE]
    for line in stays[:2]:
        again = {
            EffectDecision.SKIP: "the branch will not do it again",
            EffectDecision.REPEAT: "and the branch will do it again",
            None: "and nobody has decided yet about doing it again",
        }[line.decision]
        yield Limit("irreversible", f"What {line.tool} did stays done; {again}.")
    unknown = [line for line in view.effects if line.status is EffectStatus.PENDING]
    if unknown:
        yield Limit(
            "waiting", f"{len(unknown)} effect{'s are' if len(unknown) > 1 else ' is'} not settled yet."
        )
    partial = [item for item in view.keys if item.state and item.state.restore is Restore.DRIFT_ACKNOWLEDGED]
    for item in partial[:1]:
        yield Limit(
            "stale", f"{item.key.name.replace('_', ' ').capitalize()} is not as it was: a diagnosis only."
        )
    shown = len(stays[:2]) + bool(unknown) + len(partial[:1])
    for item in view.keys:
        if shown >= 3:
            return
        if item.state is not None:
            shown += 1
            yield Limit("uncertain", probe_sentences(item.key.probe)[0])


_STEPS: Final = {
    NextAction.FORK_AGAIN_FROM_PARENT: Step("Fork again from the parent", "Show lineage", "#gate-1", ""),
    NextAction.CAPTURE_OR_PROBE_STATE: Step(
        "Measure the state keys that are not known", "Show keys", "#gate-2", "e"
    ),
    NextAction.ASK_DESTINATION: Step(
        "Ask the destinations what really happened", "Show effects", "#gate-3", "e"
    ),
    NextAction.DECIDE_IRREVERSIBLE: Step(
        "Decide what cannot be undone: skip or repeat", "Decide…", "#gate-3", "e"
    ),
    NextAction.HAND_TO_AUTHORISED_OPERATOR: Step(
        "Hand over to an engineer of this workspace", "Show", "#gate-4", ""
    ),
    NextAction.RESPECT_THE_DECISION: Step(
        "Respect the decision; change the branch or fork again", "Show", "#gate-4", ""
    ),
    NextAction.ROUTE_TO_OWNER: Step(
        "Somebody else has to approve this branch", "Show authority", "#gate-4", ""
    ),
    NextAction.PIN_CONFIGURATION: Step("Pin the configuration", "Show", "#gate-5", "d"),
    NextAction.RESUME: Step("Everything before the resume is settled", "Go to resume", "#resume", "r"),
    NextAction.LEAVE_ALONE: Step("Nothing to do: the branch is on its way", "Show outcome", "#gate-6", ""),
    NextAction.ASK_BEFORE_ACTING: Step(
        "Ask what happened before acting again", "Show outcome", "#gate-6", ""
    ),
    NextAction.ASK_DESTINATION_AGAIN: Step("Ask the destination again", "Show outcome", "#gate-6", "e"),
    NextAction.VERIFY_OR_REOPEN: Step(
        "The claim is not proved: ask the destination again", "Show outcome", "#gate-6", "e"
    ),
    NextAction.KEEP_PARTIAL_WORK_AND_DECIDE: Step(
        "Keep the partial work and decide", "Show outcome", "#gate-6", ""
    ),
    NextAction.NONE: Step("Nothing: the destination confirmed it", "Show outcome", "#gate-6", ""),
}


_ACCEPT: Final = Step("Accept what the destinations answered", "Show effects", "#gate-3", "e")


def next_step(view: BranchView) -> Step:
    """Return what to do next; where every destination has answered, asking again is not it."""
    pending = [line for line in view.effects if line.status is EffectStatus.PENDING]
    action = view.verdict.next_action
    if action is NextAction.ASK_DESTINATION and pending and all(map(proposal, pending)):
        return _ACCEPT
    return _STEPS[action]
