"""Authority over a branch: the change class from its facts, the newest request, and what it is worth now."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from branches.evidence import canonical
from branches.models import (
    ApprovalRequest,
    ConfigurationPin,
    Decision,
    Edit,
    Person,
    Revocation,
    Role,
    RoleGrant,
    Run,
    Workspace,
)
from branches.queries.chains import links
from branches.queries.declarations import Declaration
from branches.queries.ledger import EffectLine
from branches.rules.branch_facts import Decision as Word
from branches.rules.branch_facts import EffectStatus

# What the built-in policy asks for: approvals by change class, and whose own work bars them.
POLICY: Final[dict[str, Any]] = {
    "version": "built-in-2",
    "self_approval": False,
    "approvals": {"C1": 0, "C2": 1, "C3": 1, "C4": 1},
    "barred": [
        "requested",
        "forked",
        "edited",
        "reconciled",
        "acknowledged_drift",
        "attested",
        "changed_configuration",
    ],
}
POLICY_DIGEST: Final = canonical.digest(canonical.POLICY, POLICY)


def approvals_needed(change: "ChangeClass") -> int:
    """Return how many other people have to approve a branch of a class."""
    return int(POLICY["approvals"][change])


class ChangeClass(StrEnum):
    """What a branch may do, worst last; derived from facts and never chosen."""

    C1 = "C1"
    C2 = "C2"
    C3 = "C3"
    C4 = "C4"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]

    @property
    def request_lives(self) -> timedelta:
        return _REQUEST_LIVES[self]

    @property
    def grant_lives(self) -> timedelta:
        return _GRANT_LIVES[self]


_MEANINGS: Final = {
    ChangeClass.C1: "confined: it can write nowhere but a declared local fixture",
    ChangeClass.C2: "a change of prompt, plan, model or tool; only read-only tools reach outside",
    ChangeClass.C3: "external: it may write where an undo exists",
    ChangeClass.C4: "irreversible: a decision on an irreversible effect, or a tool that cannot be undone",
}
_REQUEST_LIVES: Final = {
    ChangeClass.C1: timedelta(hours=72),
    ChangeClass.C2: timedelta(hours=72),
    ChangeClass.C3: timedelta(hours=24),
    ChangeClass.C4: timedelta(hours=8),
}
_GRANT_LIVES: Final = {
    ChangeClass.C1: timedelta(minutes=30),
    ChangeClass.C2: timedelta(hours=8),
    ChangeClass.C3: timedelta(hours=4),
    ChangeClass.C4: timedelta(hours=1),
}


@dataclass(frozen=True, slots=True)
class AuthorityView:
    """The newest request of a branch with its votes, and the one word the rules hear."""

    request: ApprovalRequest | None
    decisions: tuple[Decision, ...]
    ended: str | None
    word: Word


def roles_of(person: Person, workspace: Workspace) -> frozenset[str]:
    """Return the roles a person holds now: the newest grant of each role counts."""
    rows = RoleGrant.objects.filter(person=person, workspace=workspace).order_by("id")
    held = dict(rows.values_list("role", "held"))
    return frozenset(role for role, is_held in held.items() if is_held)


def is_engineer(person: Person, workspace: Workspace) -> bool:
    """Return whether a person may fork, propose, request and resume here."""
    return Role.ENGINEER in roles_of(person, workspace)


def change_class(declaration: Declaration | None, lines: list[EffectLine]) -> ChangeClass:
    """Return the worst class that the facts of a branch give; without a declaration nothing is ruled out.

    An edit is opaque to the server, so its class is that of what the branch can do.
    """
    if declaration is None:
        return ChangeClass.C4
    decided = any(line.decision is not None for line in lines)
    outside = [
        tool.effect_class
        for tool in declaration.tools.values()
        if tool.effect_class != "read"
        and (tool.destination is None or not declaration.destinations[tool.destination].fixture)
    ]
    if decided or "irreversible" in outside or "unknown" in outside:
        return ChangeClass.C4
    touched = any(line.status in (EffectStatus.RECONCILED, EffectStatus.REVERTED) for line in lines)
    if outside or touched:
        return ChangeClass.C3
    has_reader = any(tool.destination is not None for tool in declaration.tools.values())
    # Whoever says at a fork what will count as done does not also let it go by themselves.
    return ChangeClass.C2 if has_reader or declaration.has_own_outcome else ChangeClass.C1


def authority_view(branch: Run, now: datetime) -> AuthorityView:
    """Return the newest request of a branch and what it is worth; a timeout never approves."""
    request = (
        ApprovalRequest.objects.filter(branch=branch)
        .select_related("requester", "end")
        .prefetch_related("decisions__approver")
        .order_by("-id")
        .first()
    )
    revoked = Revocation.objects.filter(branch=branch).exists()
    if request is None:
        return AuthorityView(None, (), None, Word.REVOKED if revoked else Word.NONE)
    decisions = tuple(request.decisions.all())
    ended = request.end.word if hasattr(request, "end") else None
    word = Word.REVOKED if revoked else _word(request, decisions, ended, now)
    return AuthorityView(request, decisions, ended, word)


def _word(
    request: ApprovalRequest, decisions: tuple[Decision, ...], ended: str | None, now: datetime
) -> Word:
    if any(vote.word == "rejected" for vote in decisions):
        return Word.REJECTED
    if ended is not None:
        return Word.NONE if ended == "withdrawn" else Word(ended)
    approvals = [vote for vote in decisions if vote.word == "approved"]
    if not all(Role.APPROVER in roles_of(vote.approver, request.branch.workspace) for vote in approvals):
        return (
            Word.EXPIRED
        )  # it was given by somebody who may give it no longer: it has to be asked for again
    if not approvals:
        return Word.EXPIRED if now > request.expires_at else Word.NONE
    return Word.EXPIRED if now > grant_ends(request, approvals) else Word.APPROVED


def grant_ends(request: ApprovalRequest, approvals: Sequence[Decision]) -> datetime:
    """Return until when a request's approvals, one or more, are worth something."""
    last = max(approvals, key=lambda vote: vote.pk)
    return last.at + ChangeClass(request.change_class).grant_lives


def barred_people(branch: Run, request: ApprovalRequest | None) -> dict[int, str]:
    """Return person id -> why they may not decide: nobody approves their own work."""
    barred = {branch.fork_point.forker_id: "forked"}
    for requester_id in ApprovalRequest.objects.filter(branch=branch).values_list("requester_id", flat=True):
        barred.setdefault(requester_id, "requested")
    if request is not None:
        barred.setdefault(request.requester_id, "requested")
    for editor_id in Edit.objects.filter(branch=branch).values_list("editor_id", flat=True):
        barred.setdefault(editor_id, "edited")
    uids = {
        item.actor["id"]: reason
        for item in links([branch.pk], _WORK_ON_BRANCH)
        if item.actor["type"] == "person"
        for reason in [_WORK_ON_BRANCH[item.kind]]
    }
    for pk, uid in Person.objects.filter(uid__in=uids).values_list("pk", "uid"):
        barred.setdefault(pk, uids[uid])
    return barred


_WORK_ON_BRANCH: Final = {
    "effect_reconciled": "reconciled",
    "drift_acknowledged": "acknowledged_drift",
    "ledger_attested": "attested",
    "configuration_changed": "changed_configuration",
}


def newest_pin(branch: Run) -> ConfigurationPin | None:
    """Return the pin that counts: the newest."""
    return ConfigurationPin.objects.filter(branch=branch).order_by("-id").first()
