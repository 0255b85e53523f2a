"""The six gates in words: one row each, its verdict, one sentence, and the shape that carries it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from branches.queries.branch_facts import BranchView
from branches.queries.configuration import pin_gaps
from branches.queries.ledger import proposal
from branches.queries.words import outcome_badge
from branches.rules.branch_facts import Decision as Word
from branches.rules.branch_facts import EffectStatus
from branches.rules.policy import Stage
from branches.rules.verdicts import BranchStatus, GateName, GateVerdict


@dataclass(frozen=True, slots=True)
class GateRow:
    """One gate: its number, icon, verdict in words and one sentence."""

    number: int
    name: GateName
    title: str
    icon: str
    hue: str
    word: str
    sentence: str
    passed: bool
    first_shut: bool
    """Whether this gate decides the status: the one that the page opens."""


def gate_rows(view: BranchView) -> Iterable[GateRow]:
    words = {
        GateName.LINEAGE: _lineage_words,
        GateName.STATE: _state_words,
        GateName.EFFECTS: _effects_words,
        GateName.AUTHORITY: _authority_words,
        GateName.CONFIGURATION: _configuration_words,
        GateName.OUTCOME: _outcome_words,
    }
    titles = {
        GateName.LINEAGE: "Lineage",
        GateName.STATE: "State coverage",
        GateName.EFFECTS: "External effects",
        GateName.AUTHORITY: "Authority",
        GateName.CONFIGURATION: "Configuration",
        GateName.OUTCOME: "Outcome",
    }
    shut = next((gate.gate for gate in view.verdict.gates[:5] if not gate.passed), None)
    for number, gate in enumerate(view.verdict.gates, 1):
        word, sentence, icon, hue = words[gate.gate](view, gate)
        if gate.passed and gate.gate is not GateName.OUTCOME:
            icon = hue = "pass"
        yield GateRow(
            number, gate.gate, titles[gate.gate], icon, hue, word, sentence, gate.passed, gate.gate is shut
        )


LEDGER_WORDS: Final = {
    "complete": "The list is complete: every run that acted after the checkpoint was recorded with all"
    " its tools wrapped, closed its recording, and no number up to its count is missing.",
    "attested": "A named person vouched that the list is complete. Nothing measured it.",
    "unknown": "Whether the list is complete is not known: a run was imported, recorded in part, still"
    " runs, or an audit found more than it could name.",
}
"""Why the list of effects is taken for complete, or is not."""


type Words = tuple[str, str, str, str]


def _lineage_words(_view: BranchView, gate: GateVerdict) -> Words:
    if gate.passed:
        return "distinct", "Branch and parent have separate ids and chains; the parent is untouched.", "", ""
    return "broken", _reasons(gate.reasons), "blocked", "blocked"


def _state_words(view: BranchView, gate: GateVerdict) -> Words:
    total = len(view.facts.required_state_keys)
    bad = {reason.partition(":")[2] for reason in gate.reasons}
    if gate.passed:
        exact = (
            "as an exact restore" if view.verdict.fidelity == "exact" else "as a diagnosis: drift accepted"
        )
        return f"{total} of {total} keys", f"Every required key was measured and fits, {exact}.", "", ""
    return f"{total - len(bad)} of {total} keys", _reasons(gate.reasons), "uncertain", "uncertain"


def _effects_words(view: BranchView, gate: GateVerdict) -> Words:
    total = len(view.effects)
    if gate.passed:
        word = f"{total} settled" if total else "none"
        return word, "Every effect after the checkpoint is settled or decided.", "", ""
    blocking = sum(1 for line in view.effects if line.blocks)
    if "ledger_unknown" in gate.reasons:
        sentence = "Nobody can say that this list is complete: the recording was partial, open or imported."
        return "list incomplete", sentence, "uncertain", "uncertain"
    return f"{blocking} of {total} block", _effects_sentence(view), "blocked", "blocked"


def _effects_sentence(view: BranchView) -> str:
    blocking = [line for line in view.effects if line.blocks and line.status is EffectStatus.PENDING]
    strange = sum(1 for line in blocking if line.is_unaccounted)
    answered = sum(1 for line in blocking if proposal(line) is not None)
    pending = len(blocking) - strange - answered
    undecided = sum(
        1 for line in view.effects if line.status is EffectStatus.IRREVERSIBLE and line.decision is None
    )
    parts = []
    if pending:
        parts.append(f"{pending} pending until the destination answers")
    if answered:
        parts.append(f"{answered} whose answer waits to be accepted")
    if strange:
        parts.append(f"{strange} that arrived and {_done('stand', strange)} in no receipt")
    if undecided:
        parts.append(f"{undecided} that cannot be undone and {_done('wait', undecided)} for a decision")
    stale = sum(1 for line in view.effects if line.stale)
    if stale:
        parts.append(f"{stale} whose answer is too old")
    return (", ".join(parts) or "Something blocks").capitalize() + "."


def _authority_words(view: BranchView, gate: GateVerdict) -> Words:
    word = view.authority.word
    if gate.passed:
        if word is Word.APPROVED:
            approvals = [vote for vote in view.authority.decisions if vote.word == "approved"]
            by = " and ".join(vote.approver.get_username() for vote in approvals)
            return "approved", f"By {by}, bound to exactly what was shown.", "", ""
        return "not required", "The branch can write nowhere but a declared local fixture.", "", ""
    if "operator_not_authorised" in gate.reasons:
        return "operator not authorised", "Whoever forked it no longer holds the role.", "blocked", "blocked"
    if view.asked.of_class.is_closed:
        sentence = f"The policy lets nobody resume a branch of class {view.change_class}."
        return "closed by the policy", sentence, "blocked", "blocked"
    if view.authority.is_open:
        left = view.authority.quorum.needed
        words = "approved in part" if view.authority.stage == Stage.PARTIAL else "waiting for approval"
        more = f"{left} more decision{'s' if left > 1 else ''} of somebody else" if left else "Somebody else"
        sentence = f"Class {view.change_class}, {view.change_class.meaning}. {more} needed."
        return words, sentence, "waiting", "waiting"
    if word is Word.NONE:
        return (
            "nobody was asked",
            f"Class {view.change_class}: {view.change_class.meaning}.",
            "unrouted",
            "unrouted",
        )
    return str(word), _AUTHORITY_ENDS[word], "blocked", "blocked"


_AUTHORITY_ENDS: Final = {
    Word.REJECTED: "Exactly this was rejected. Change the branch, then ask again.",
    Word.EXPIRED: "Time ran out. A timeout never approves; ask again.",
    Word.REVOKED: "Authority was taken back for good. Fork again.",
    Word.SUPERSEDED: "The branch changed after it was shown. Ask again; the difference will be shown.",
}


def _configuration_words(view: BranchView, gate: GateVerdict) -> Words:
    if gate.passed:
        return "pinned", "The parent’s original is kept; every part of the branch is fixed by digest.", "", ""
    if view.pin is None:
        sentence = "The parent’s configuration is not known, so nothing could be pinned."
    else:
        gaps = pin_gaps(view.pin, view.declaration)
        more = f" and {len(gaps) - 3} more" if len(gaps) > 3 else ""
        sentence = f"Nobody knows {', '.join(gaps[:3])}{more}, so it is not pinned."
    return "unpinned", sentence, "blocked", "blocked"


def _done(verb: str, count: int) -> str:
    """Return a verb as so many do it."""
    return f"{verb}s" if count == 1 else verb


def _outcome_words(view: BranchView, gate: GateVerdict) -> Words:
    badge = outcome_badge(view)
    if gate.passed:
        return (
            "verified",
            "The destination holds what was expected, and it came after this resume.",
            "verified",
            "verified",
        )
    status = view.verdict.status
    if view.redemption is None:
        sentence = "Opens after resume. Only a receipt from the destination closes this gate."
        return "no receipt yet", sentence, "none", "none"
    sentences = {
        BranchStatus.RESUMING: "The permit was redeemed; the runtime has not said yet that it started.",
        BranchStatus.RESUME_UNCERTAIN: "The permit was redeemed; no start receipt came. Ask before acting.",
        BranchStatus.AWAITING_OUTCOME: "The branch runs. What it says of itself will be a claim.",
        BranchStatus.FALSE_SUCCESS: "The loop says it is done. " + _check_sentence(view),
        BranchStatus.OUTCOME_UNCERTAIN: "The loop says it is done and the destination did not answer.",
        BranchStatus.UNFINISHED: "The loop ended without saying that it was done.",
    }
    return badge.words.lower(), sentences.get(status, _reasons(gate.reasons)), badge.icon, badge.hue


def _check_sentence(view: BranchView) -> str:
    checked = view.outcome.checked
    if checked is None:
        return "The destination was not asked yet."
    if checked.body["check"] == "passed":
        return "What the destination holds stood there before this branch resumed."
    return "The destination has nothing new."


_REASON_WORDS: Final = {
    "missing": "{} was not captured at the checkpoint",
    "no_fingerprint": "{} has no fingerprint at the checkpoint",
    "stale": "{} was measured too long ago",
    "drifted": "{} is not as it was",
    "unreachable": "{} could not be reached",
    "not_restored": "{} was not compared with what it is now",
    "not_acknowledgeable": "drift of {} cannot be accepted",
    "missing_identity": "an id is missing",
    "same_identity": "branch and parent have one id",
    "checkpoint_not_in_parent": "the checkpoint is not in the parent’s history",
    "parent_history_changed": "the parent’s history changed since the fork",
}


def _reasons(reasons: Iterable[str]) -> str:
    parts = []
    for reason in reasons:
        code, _, subject = reason.partition(":")
        words = _REASON_WORDS.get(code, code.replace("_", " "))
        parts.append(words.format(subject.replace("_", " ")))
    text = "; ".join(parts)
    return text[:1].upper() + text[1:] + "." if text else ""
