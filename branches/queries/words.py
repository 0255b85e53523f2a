"""The two tracks in words: permission to resume, and outcome at the destination; never one badge."""

from dataclasses import dataclass
from enum import StrEnum

from branches.queries.branch_facts import BranchView
from branches.rules.verdicts import BranchStatus


class Shape(StrEnum):
    """How a state is drawn: fill proves, outline checks, dashes only claim or do not know."""

    FILL = "fill"
    OUTLINE = "outline"
    DASH = "dash"


@dataclass(frozen=True, slots=True)
class Badge:
    """One slot of one track: an icon's name, its hue, its words and how much evidence it has."""

    icon: str
    hue: str
    words: str
    shape: Shape


NO_RECEIPT = Badge("none", "none", "No receipt", Shape.DASH)
CLAIMED = Badge("claimed", "claimed", "Claimed only", Shape.DASH)
FALSE_SUCCESS = Badge("false", "false", "False success", Shape.FILL)
FALSE_UNCHECKED = Badge("claimed", "claimed", "Claimed, no receipt", Shape.DASH)
OUTCOME_UNCERTAIN = Badge("uncertain", "uncertain", "Uncertain", Shape.DASH)
UNFINISHED = Badge("bounded", "bounded", "Unfinished", Shape.OUTLINE)
VERIFIED = Badge("verified", "verified", "Verified", Shape.FILL)

_PERMISSION = {
    BranchStatus.INVALID_LINEAGE: Badge("blocked", "blocked", "Invalid lineage", Shape.OUTLINE),
    BranchStatus.RESTORE_UNCERTAIN: Badge("uncertain", "uncertain", "Restore uncertain", Shape.DASH),
    BranchStatus.EFFECTS_UNRECONCILED: Badge("blocked", "blocked", "Effects unreconciled", Shape.OUTLINE),
    BranchStatus.NEEDS_APPROVAL: Badge("unrouted", "unrouted", "Needs approval", Shape.DASH),
    BranchStatus.CONFIGURATION_UNPINNED: Badge("blocked", "blocked", "Configuration unpinned", Shape.OUTLINE),
    BranchStatus.READY_TO_RESUME: Badge("ready", "ready", "Ready to resume", Shape.OUTLINE),
    BranchStatus.RESUMING: Badge("working", "working", "Resuming", Shape.OUTLINE),
    BranchStatus.RESUME_UNCERTAIN: Badge("uncertain", "uncertain", "Resume uncertain", Shape.DASH),
}
_WAITING = Badge("waiting", "waiting", "Waiting for approval", Shape.OUTLINE)
_PARTIAL = Badge("waiting", "waiting", "Approved in part", Shape.OUTLINE)
_REFUSED = {
    "rejected": Badge("blocked", "blocked", "Rejected", Shape.OUTLINE),
    "revoked": Badge("blocked", "blocked", "Authority revoked", Shape.OUTLINE),
    "superseded": Badge("stale", "stale", "Approval superseded", Shape.DASH),
    "expired": Badge("stale", "stale", "Approval expired", Shape.DASH),
}
_SEALED = Badge("pass", "pass", "Sealed", Shape.OUTLINE)
_OUTCOME = {
    BranchStatus.VERIFIED: VERIFIED,
    BranchStatus.FALSE_SUCCESS: FALSE_SUCCESS,
    BranchStatus.OUTCOME_UNCERTAIN: OUTCOME_UNCERTAIN,
    BranchStatus.UNFINISHED: UNFINISHED,
    BranchStatus.AWAITING_OUTCOME: NO_RECEIPT,
}


def permission_badge(view: BranchView) -> Badge:
    """Return the permission track's slot."""
    status = view.verdict.status
    if status is BranchStatus.NEEDS_APPROVAL:
        word = str(view.authority.word)
        if word in _REFUSED:
            return _REFUSED[word]
        asked = view.authority.request is not None and view.authority.ended is None
        if asked and view.authority.stage == "partial":
            return _PARTIAL
        return _WAITING if asked else _PERMISSION[status]
    return _PERMISSION.get(status, _SEALED)


def outcome_badge(view: BranchView) -> Badge:
    """Return the outcome track's slot; only a verdict of gate 6 gives the filled seal.

    A claim that nobody checked counts as false too, but a fill would say that the destination denied it.
    """
    if view.verdict.status is BranchStatus.FALSE_SUCCESS and view.outcome.checked is None:
        return FALSE_UNCHECKED
    return _OUTCOME.get(view.verdict.status, NO_RECEIPT)
