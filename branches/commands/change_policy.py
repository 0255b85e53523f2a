"""Changes of class CP: a policy or a role is proposed, decided by others, and takes effect later."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction

from branches.commands.admit import grant_role
from branches.commands.append_receipt import Actor, lock_names
from branches.commands.append_to_workspace import append_to_workspace
from branches.commands.refusal import Refused
from branches.evidence import canonical, ids
from branches.models import (
    Person,
    PolicyChange,
    PolicyChangeEnd,
    PolicySort,
    PolicyVote,
    Role,
    RoleApplied,
    RoleGrant,
    Workspace,
)
from branches.queries.clock import now, parse, stamp
from branches.queries.deciders import Deciders, deciders_of
from branches.queries.policies import policy_of
from branches.queries.policy_page import about_of, change_terms, destinations_here, lint_errors
from branches.queries.policy_text import MAX_BYTES, read_policy_text
from branches.queries.standings import roles_of, roster_of
from branches.rules.change_class import ChangeClass
from branches.rules.policy import lint_policy


class PolicyRefused(Refused):
    """A policy's text is not one: every problem with its line."""

    def __init__(self, problems: tuple[Any, ...]) -> None:
        first = problems[0]
        super().__init__(rule=first.rule, field=first.field or "policy")
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is proposed: exact bytes, their digest, and a version that people know it by."""

    sort: PolicySort
    version: str
    document: str
    digest: str


def propose_policy(*, person: Person, workspace: Workspace, text: str) -> PolicyChange:
    """Return the change, adopted already where nobody else has to agree. Raises Refused, PolicyRefused."""
    require_admin(person, workspace)
    return _propose(workspace, _policy(workspace, text), person)


def adopt_policy(*, workspace: Workspace, text: str) -> PolicyChange:
    """Adopt a policy by the operator's own word: whoever runs the server needs nobody's. Safe to repeat."""
    proposal = _policy(workspace, text, is_operator=True)
    if policy_of(workspace).digest == proposal.digest:
        known = PolicyChange.objects.filter(workspace=workspace, digest=proposal.digest).last()
        if known is not None:
            return known
    return _propose(workspace, proposal, None)


def _policy(workspace: Workspace, text: str, *, is_operator: bool = False) -> Proposal:
    if len(text) > MAX_BYTES:
        raise Refused(rule=f"max_bytes:{MAX_BYTES}", field="policy")
    found = read_policy_text(text)
    if found.document is None:
        raise PolicyRefused(found.problems)
    findings = lint_policy(found.policy(), roster_of(workspace), destinations_here(workspace))
    errors = lint_errors(findings)
    if errors and not is_operator:
        raise PolicyRefused(errors)
    adopted = PolicyChange.objects.filter(
        workspace=workspace, version=found.policy().version, end__word="adopted"
    )
    if adopted.exclude(digest=found.digest).exists():
        raise Refused(rule="version_already_published", field="policy")
    document = canonical.canonical_bytes(found.document).decode()
    return Proposal(PolicySort.POLICY, found.policy().version, document, found.digest)


def propose_role(*, person: Person, workspace: Workspace, document: Mapping[str, Any]) -> PolicyChange:
    """Propose a role that gives authority: {person, role, scope, until}, `until` a stamp or None."""
    require_admin(person, workspace)
    text = canonical.canonical_bytes(dict(document)).decode()
    digest = canonical.digest(canonical.POLICY, dict(document))
    about = str(document["person"])
    return _propose(workspace, Proposal(PolicySort.ROLE, "", text, digest), person, about=about)


def require_admin(person: Person, workspace: Workspace) -> None:
    """Refuse whoever is no policy admin of a workspace now."""
    if Role.POLICY_ADMIN not in roles_of(person, workspace):
        raise Refused(rule=f"role:{Role.POLICY_ADMIN}")


def _propose(
    workspace: Workspace, proposal: Proposal, author: Person | None, *, about: str | None = None
) -> PolicyChange:
    actor = Actor.person(author) if author is not None else Actor.product(workspace)
    with transaction.atomic():
        lock_names([f"policy {workspace.uid}", f"roles {workspace.uid}"])
        if author is not None:
            require_admin(author, workspace)
        terms = change_terms(workspace, author, about=about)
        if terms.is_closed:
            raise Refused(rule=f"class_closed:{ChangeClass.CP}")
        if terms.needed > terms.available:
            raise Refused(rule="deciders_left_lately")
        at = now()
        open_ones = PolicyChange.objects.filter(workspace=workspace, sort=proposal.sort, end__isnull=True)
        if author is not None and open_ones.filter(digest=proposal.digest).exists():
            raise Refused(rule="already_requested")
        change = PolicyChange.objects.create(
            uid=ids.mint("pol"),
            workspace=workspace,
            sort=proposal.sort,
            version=proposal.version,
            digest=proposal.digest,
            document=proposal.document,
            author=author,
            needed=terms.needed,
            delay_s=terms.delay_s,
            at=at,
            expires_at=at + terms.lives,
        )
        append_to_workspace(
            workspace=workspace,
            kind="change_proposed",
            body={
                "change": change.uid,
                "sort": str(proposal.sort),
                "digest": proposal.digest,
                "policy": policy_of(workspace).digest,
                "approvals": terms.needed,
                "expires_at": stamp(change.expires_at),
            },
            actor=actor,
            subject=change.uid,
        )
        if terms.needed == 0:
            _adopt(change, actor)
    return change


def decide_change(*, person: Person, change: PolicyChange, word: str, digest: str) -> PolicyVote:
    """Record one person's word on the digest they were shown; enough of them adopt the change."""
    if word not in ("approved", "rejected"):
        raise Refused(rule="enum", field="decision")
    if change.author_id == person.pk:
        raise Refused(rule="own_work:proposed")
    workspace = change.workspace
    with transaction.atomic():
        lock_names([f"policy {workspace.uid}", f"roles {workspace.uid}"])
        deciders = _deciders(change)
        if person.uid not in deciders.voters:
            raise Refused(rule="own_role" if about_of(change) == person.uid else "role:approver_of_policy")
        if change.author is not None and Role.POLICY_ADMIN not in roles_of(change.author, workspace):
            raise Refused(rule="author_left")
        _require_open(change)
        if digest != change.digest:
            raise Refused(rule="digest_changed", field="digest")
        if PolicyVote.objects.filter(change=change, person=person).exists():
            raise Refused(rule="already_decided")
        append_to_workspace(
            workspace=workspace,
            kind="change_decided",
            body={
                "change": change.uid,
                "verdict": word,
                "digest": digest,
                "policy": policy_of(workspace).digest,
            },
            actor=Actor.person(person),
            subject=change.uid,
        )
        vote = PolicyVote.objects.create(change=change, person=person, word=word, digest=digest, at=now())
        if word == "rejected":
            _end(change, "rejected", Actor.person(person))
        elif len(approved := _approved_by(change)) >= change.needed and deciders.grants(approved):
            _adopt(change, Actor.product(workspace))
    return vote


def _deciders(change: PolicyChange) -> Deciders:
    author = change.author.uid if change.author is not None else ""
    return deciders_of(change.workspace, author, about_of(change))


def _approved_by(change: PolicyChange) -> frozenset[str]:
    votes = PolicyVote.objects.filter(change=change, word="approved")
    return frozenset(votes.values_list("person__uid", flat=True))


def withdraw_change(*, person: Person, change: PolicyChange) -> None:
    """Take one's own proposal back."""
    with transaction.atomic():
        lock_names([f"policy {change.workspace.uid}"])
        _require_open(change)
        if change.author_id != person.pk:
            raise Refused(rule="not_yours")
        _end(change, "withdrawn", Actor.person(person))


def expire_changes() -> list[str]:
    """End every change that nobody decided in time, and return their ids: a timeout never approves."""
    due = PolicyChange.objects.filter(end__isnull=True, expires_at__lt=now()).select_related("workspace")
    ended = []
    for change in due[:100]:
        with transaction.atomic():
            lock_names([f"policy {change.workspace.uid}"])
            if not PolicyChangeEnd.objects.filter(change=change).exists():
                _end(change, "expired", Actor.product(change.workspace))
                ended.append(change.uid)
    return ended


def apply_roles() -> list[str]:
    """Give every adopted role whose time has come; safe to repeat. Returns the changes that were applied."""
    due = PolicyChange.objects.filter(
        sort=PolicySort.ROLE, end__word="adopted", end__effective_at__lte=now(), roles_given__isnull=True
    )
    return [change.uid for change in due.select_related("workspace", "author")[:100] if _give(change)]


def _give(change: PolicyChange) -> bool:
    asked = canonical.parse_strict(change.document.encode())
    assert isinstance(asked, dict)  # noqa: S101 - written by propose_role
    with transaction.atomic():
        lock_names([f"policy {change.workspace.uid}", f"roles {change.workspace.uid}"])
        if RoleApplied.objects.filter(change=change).exists():
            return False
        RoleApplied.objects.create(change=change, at=now())
        person = Person.objects.filter(uid=asked["person"], is_active=True).first()
        if person is None or _was_taken_since(change, person):
            return False
        grant_role(
            person=person,
            workspace=change.workspace,
            role=Role(str(asked["role"])),
            scope=str(asked["scope"]),
            until=parse(str(asked["until"])) if asked["until"] else None,
            actor=Actor.person(change.author) if change.author else None,
        )
    return True


def _was_taken_since(change: PolicyChange, person: Person) -> bool:
    """Whether somebody lost a role here after they were proposed for one: what was agreed is over."""
    rows = RoleGrant.objects.filter(workspace=change.workspace, person=person, at__gt=change.at)
    return rows.filter(held=False).exists()


def _require_open(change: PolicyChange) -> None:
    if PolicyChangeEnd.objects.filter(change=change).exists():
        raise Refused(rule="already_decided")
    if now() > change.expires_at:
        raise Refused(rule="request_expired")


def _adopt(change: PolicyChange, actor: Actor) -> None:
    effective_at = now() + timedelta(seconds=change.delay_s)
    PolicyChangeEnd.objects.create(change=change, word="adopted", effective_at=effective_at, at=now())
    if change.sort == PolicySort.ROLE and change.delay_s == 0:
        _give(change)
    _record_end(change, "adopted", actor, stamp(effective_at))
    if change.sort == PolicySort.POLICY:
        append_to_workspace(
            workspace=change.workspace,
            kind="policy_adopted",
            body={"policy": change.digest, "version": change.version, "effective_at": stamp(effective_at)},
            actor=actor,
            subject=change.uid,
        )


def _end(change: PolicyChange, word: str, actor: Actor) -> None:
    PolicyChangeEnd.objects.create(change=change, word=word, at=now())
    _record_end(change, word, actor, None)


def _record_end(change: PolicyChange, word: str, actor: Actor, effective_at: str | None) -> None:
    append_to_workspace(
        workspace=change.workspace,
        kind="change_ended",
        body={"change": change.uid, "end": word, "effective_at": effective_at},
        actor=actor,
        subject=change.uid,
    )
