"""Authority over a branch: what its policy asks for, the newest request, and what it is worth now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from branches.models import (
    ApprovalRequest,
    BranchWork,
    ConfigurationPin,
    Decision,
    Person,
    Revocation,
    Role,
    Run,
    Workspace,
)
from branches.queries.standings import roles_of, roster_of
from branches.rules.branch_facts import Decision as Word
from branches.rules.change_class import ChangeClass
from branches.rules.policy import ClassPolicy, Policy, Stage
from branches.rules.quorum import QuorumVerdict, Voter, judge_quorum, may_fill, people_asked

# A request that reached nobody ends this much later than one that was delivered at once.
UNDELIVERED: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for a branch now: its policy's words for its class, and everybody who may speak."""

    policy: Policy
    roster: Mapping[str, Voter]
    change: ChangeClass
    destinations: tuple[str, ...]
    at: datetime

    @property
    def of_class(self) -> ClassPolicy:
        return self.policy.of(self.change, self.at)

    @property
    def is_required(self) -> bool:
        """Whether somebody's word is needed at all; a closed class waits for a word that nobody can give."""
        return bool(self.of_class.rules) or self.of_class.is_closed

    @property
    def allows_self_approval(self) -> bool:
        return self.policy.allows_self_approval(self.change, self.at, len(self.roster))

    @property
    def people(self) -> int:
        """At least so many different people have to approve; where rules ask for nobody who is, still one."""
        rules = self.of_class.rules
        return people_asked(rules, self.destinations, default=1 if rules else 0)


@dataclass(frozen=True, slots=True)
class AuthorityView:
    """The newest request of a branch with its votes, rule by rule, and the one word the rules hear."""

    request: ApprovalRequest | None
    decisions: tuple[Decision, ...]
    ended: str | None
    word: Word
    stage: str
    """none, requested, partial, granted, consumed, or how it ended."""
    quorum: QuorumVerdict
    expires_at: datetime | None

    @property
    def is_open(self) -> bool:
        """Whether the request still waits for somebody's decision."""
        return self.request is not None and self.stage in (Stage.REQUESTED, Stage.PARTIAL)


def is_engineer(person: Person, workspace: Workspace) -> bool:
    """Return whether a person may fork, propose, request and resume here."""
    return Role.ENGINEER in roles_of(person, workspace)


def authority_view(branch: Run, asked: Asked) -> AuthorityView:
    """Return the newest request of a branch and what it is worth; a timeout never approves."""
    request = (
        ApprovalRequest.objects.filter(branch=branch)
        .select_related("requester", "end", "delivery", "grant", "branch__redemption")
        .prefetch_related("decisions__approver")
        .order_by("-id")
        .first()
    )
    revoked = Revocation.objects.filter(branch=branch).exists()
    barred = _barred_uids(branch)
    if request is None:
        quorum = _quorum(asked, asked.change, (), barred)
        return AuthorityView(
            None,
            (),
            None,
            Word.REVOKED if revoked else Word.NONE,
            "revoked" if revoked else "none",
            quorum,
            None,
        )
    decisions = tuple(request.decisions.all())
    ended = request.end.word if hasattr(request, "end") else None
    approvals = [vote for vote in decisions if vote.word == "approved"]
    quorum = _quorum(asked, ChangeClass(request.change_class), approvals, barred)
    word = Word.REVOKED if revoked else _word_or_consumed(request, decisions, ended, asked, quorum)
    ends = grant_ends(request, asked.policy) if hasattr(request, "grant") else request_ends(request)
    return AuthorityView(request, decisions, ended, word, _stage(request, word, ended, quorum), quorum, ends)


def _quorum(
    asked: Asked, change: ChangeClass, approvals: Sequence[Decision], barred: frozenset[str]
) -> QuorumVerdict:
    """Judge the votes by the standings of now; whose own work it is cannot be hoped for."""
    given = {vote.approver.uid for vote in approvals}
    voters = [asked.roster[uid] for uid in sorted(given) if uid in asked.roster]
    may = asked.allows_self_approval
    others = [
        voter
        for uid, voter in sorted(asked.roster.items())
        if uid not in given and (may or uid not in barred)
    ]
    return judge_quorum(asked.policy.of(change, asked.at).rules, change, asked.destinations, voters, others)


def _word_or_consumed(
    request: ApprovalRequest,
    decisions: tuple[Decision, ...],
    ended: str | None,
    asked: Asked,
    quorum: QuorumVerdict,
) -> Word:
    """What was redeemed was approved then, whatever time, policy and roles say since."""
    if hasattr(request.branch, "redemption"):
        return Word.APPROVED if hasattr(request, "grant") else Word.NONE
    return _word(request, decisions, ended, asked, quorum)


def _word(
    request: ApprovalRequest,
    decisions: tuple[Decision, ...],
    ended: str | None,
    asked: Asked,
    quorum: QuorumVerdict,
) -> Word:
    if any(vote.word == "rejected" for vote in decisions):
        return Word.REJECTED
    if ended is not None:
        return Word.NONE if ended == "withdrawn" else Word(ended)
    if request.policy != asked.policy.digest:
        return Word.SUPERSEDED  # another policy took effect: what was given was given under the old one
    approvals = [vote for vote in decisions if vote.word == "approved"]
    change = ChangeClass(request.change_class)
    if not all(may_decide(asked, vote.approver.uid, change, vote.by_requester) for vote in approvals):
        return Word.EXPIRED  # by somebody who may give it no longer: it has to be asked for again
    if not hasattr(request, "grant") or not quorum.granted:
        return Word.EXPIRED if asked.at > request_ends(request) else Word.NONE
    return Word.EXPIRED if asked.at > grant_ends(request, asked.policy) else Word.APPROVED


def may_decide(asked: Asked, person: str, change: ChangeClass, by_requester: bool = False) -> bool:
    """Return whether somebody holds now what a rule of the class asks for."""
    voter = asked.roster.get(person)
    if voter is None or (by_requester and not asked.allows_self_approval):
        return False
    return any(
        may_fill(voter.standings, rule.role, change, destination)
        for rule in asked.policy.of(change, asked.at).rules
        for destination in (asked.destinations if rule.role == Role.DESTINATION_OWNER else ("",))
    )


def _stage(request: ApprovalRequest, word: Word, ended: str | None, quorum: QuorumVerdict) -> str:
    if word is Word.NONE:
        if ended is not None:
            return ended
        return Stage.PARTIAL if any(each.given for each in quorum.outcomes) else Stage.REQUESTED
    if word is Word.APPROVED:
        return "consumed" if hasattr(request.branch, "redemption") else Stage.GRANTED
    return str(word)


def request_ends(request: ApprovalRequest) -> datetime:
    """Return when an undecided request is over: its clock runs from its delivery."""
    if hasattr(request, "delivery"):
        return request.delivery.at + timedelta(seconds=request.lives_s)
    return request.expires_at


def grant_ends(request: ApprovalRequest, policy: Policy) -> datetime:
    """Return until when a granted request is worth something."""
    return request.grant.at + policy.classes[ChangeClass(request.change_class)].grant_lives


def barred_people(branch: Run, request: ApprovalRequest | None) -> dict[int, str]:
    """Return person's row -> why they may not decide: nobody approves their own work."""
    rows = BranchWork.objects.filter(branch=branch).order_by("id")
    barred: dict[int, str] = {}
    for person_id, work in rows.values_list("person_id", "work"):
        barred.setdefault(person_id, work)
    if request is not None:
        barred.setdefault(request.requester_id, "requested")
    return barred


def _barred_uids(branch: Run) -> frozenset[str]:
    return frozenset(BranchWork.objects.filter(branch=branch).values_list("person__uid", flat=True))


def newest_pin(branch: Run) -> ConfigurationPin | None:
    """Return the pin that counts: the newest."""
    return ConfigurationPin.objects.filter(branch=branch).order_by("-id").first()


__all__ = [
    "Asked",
    "AuthorityView",
    "authority_view",
    "barred_people",
    "grant_ends",
    "is_engineer",
    "may_decide",
    "newest_pin",
    "request_ends",
    "roles_of",
    "roster_of",
]
