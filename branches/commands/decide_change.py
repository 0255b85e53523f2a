"""Others' words on a change of class CP: enough of them adopt it, one against it ends it."""

from django.db import transaction

from branches.commands.append_receipt import Actor, lock_authority, lock_names
from branches.commands.append_to_workspace import append_to_workspace
from branches.commands.apply_change import adopt_change, end_change
from branches.commands.propose_change import proposer_role
from branches.commands.refusal import Refused
from branches.models import Person, PolicyChange, PolicyChangeEnd, PolicyVote
from branches.queries.clock import now
from branches.queries.deciders import Deciders, deciders_of
from branches.queries.policies import policy_of
from branches.queries.policy_page import about_of
from branches.queries.standings import roles_of


def decide_change(*, person: Person, change: PolicyChange, word: str, digest: str) -> PolicyVote:
    """Record one person's word on the digest they were shown; enough of them adopt the change."""
    if word not in ("approved", "rejected"):
        raise Refused(rule="enum", field="decision")
    if change.author_id == person.pk:
        raise Refused(rule="own_work:proposed")
    workspace = change.workspace
    with transaction.atomic():
        lock_authority(workspace)
        deciders = _deciders(change)
        if person.uid not in deciders.voters:
            raise Refused(rule="own_role" if about_of(change) == person.uid else "role:approver_of_policy")
        if change.author is not None and proposer_role(change.sort) not in roles_of(change.author, workspace):
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
            end_change(change, "rejected", Actor.person(person))
        elif len(approved := _approved_by(change)) >= change.needed and deciders.grants(approved):
            adopt_change(change, Actor.product(workspace))
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
        end_change(change, "withdrawn", Actor.person(person))


def expire_changes() -> list[str]:
    """End every change that nobody decided in time, and return their ids: a timeout never approves."""
    due = PolicyChange.objects.filter(end__isnull=True, expires_at__lt=now()).select_related("workspace")
    ended = []
    for change in due[:100]:
        with transaction.atomic():
            lock_names([f"policy {change.workspace.uid}"])
            if not PolicyChangeEnd.objects.filter(change=change).exists():
                end_change(change, "expired", Actor.product(change.workspace))
                ended.append(change.uid)
    return ended


def _require_open(change: PolicyChange) -> None:
    if PolicyChangeEnd.objects.filter(change=change).exists():
        raise Refused(rule="already_decided")
    if now() > change.expires_at:
        raise Refused(rule="request_expired")
