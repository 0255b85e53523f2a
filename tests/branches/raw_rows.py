"""Rows of authority written past every command, and the rule of the database that refuses them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
import yaml
from django.db import DatabaseError, transaction

from branches.commands.admit import grant_role
from branches.commands.fork_branch import fork_branch
from branches.commands.measure_state import measure_state
from branches.commands.propose_change import adopt_policy
from branches.database_rules import MESSAGE
from branches.evidence import ids
from branches.models import (
    ApprovalRequest,
    Decision,
    Grant,
    Person,
    Redemption,
    ResumePermit,
    Role,
    Run,
)
from branches.queries.clock import now
from tests.builders import World, checkpoint, closed, declaration, make_world, one_approver, run_started

CONFINED = {"look_up": {"destination": None, "effect_class": "read", "key_fields": []}}
READS_OUTSIDE = {"look_up": {"destination": "mail", "effect_class": "read", "key_fields": []}}
OVER = "2020-01-01T00:00:00Z"
LATER = "2099-01-01T00:00:00Z"
ALONE = {"classes": ["C1", "C2"], "until": LATER}
# Enough that a permit needs nobody's word, as far as its own text goes.
NOT_REQUIRED = json.dumps({"authority": {"required": False}})


@contextmanager
def refused_by(name: str) -> Iterator[None]:
    """Expect that just this rule of the database refuses what is written inside."""
    with pytest.raises(DatabaseError) as error, transaction.atomic():
        yield
    assert str(error.value).splitlines()[0].removeprefix(f"{MESSAGE}: ") == name


def policy(name: str, **members: Any) -> str:
    return yaml.safe_dump({**yaml.safe_load(one_approver()), "policy": name, **members}, sort_keys=False)


def small_world(tools: dict[str, Any], **members: Any) -> World:
    world = make_world(declared=declaration(tools=tools))
    if members:
        adopt_policy(workspace=world.workspace, text=policy("members", **members))
    return world


def small_branch(world: World, person: Person | None = None, **more: Any) -> Run:
    """Fork a run without effects, and measure its state: only authority may be missing."""
    uid = ids.mint("run")
    assert not world.ingest(run_started(world, uid), checkpoint(world, uid, "c1"), closed(world, uid)).refused
    branch = fork_branch(
        person=person or world.ada,
        parent=Run.objects.get(uid=uid),
        checkpoint=world.checkpoint("c1"),
        reason_code="false_success",
        edit_class="change_plan",
        **more,
    )
    for key in ("agent_memory", "browser"):
        measure_state(branch=branch, key=key)
    return branch


def leave(world: World, *people: Person) -> None:
    roles = (Role.ENGINEER, Role.APPROVER, Role.REVIEWER, Role.VIEWER)
    for person in people:
        for role in roles:
            grant_role(person=person, workspace=world.workspace, role=role, held=False)


def standing(world: World, *people: Person) -> None:
    """Give people a role by which they might decide, so that another rule says no."""
    for person in people:
        grant_role(person=person, workspace=world.workspace, role=Role.REVIEWER)


def vote(request: ApprovalRequest, person: Person, word: str = "approved", **changes: Any) -> Decision:
    values: dict[str, Any] = {
        "reason": "reviewed_delta",
        "subject_digest": request.subject_digest,
        "by_requester": False,
        "at": now(),
    }
    return Decision.objects.create(request=request, approver=person, word=word, **{**values, **changes})


def granted(request: ApprovalRequest) -> Grant:
    return Grant.objects.create(request=request, at=now())


def permit(world: World, branch: Run, needed: int, digest: str = "sha256:of", **changes: Any) -> ResumePermit:
    assert branch.recorder is not None
    values: dict[str, Any] = {
        "uid": ids.mint("prm"),
        "facts": NOT_REQUIRED,
        "envelope": "{}",
        "operator": world.ada,
        "at": now(),
        "expires_at": now() + timedelta(minutes=10),
    }
    return ResumePermit.objects.create(
        branch=branch,
        recorder=branch.recorder,
        subject_digest=digest,
        approvals_needed=needed,
        **{**values, **changes},
    )


def redemption(permit: ResumePermit, at: datetime | None = None) -> Redemption:
    return Redemption.objects.create(
        permit=permit, branch=permit.branch, attempt=ids.mint("att"), sealed_facts="{}", at=at or now()
    )


def again(request: ApprovalRequest) -> ApprovalRequest:
    """Ask once more for the same."""
    return ApprovalRequest.objects.create(
        uid=ids.mint("req"),
        branch=request.branch,
        subject_digest=request.subject_digest,
        subject=request.subject,
        change_class=request.change_class,
        policy=request.policy,
        requester=request.requester,
        at=now(),
        lives_s=request.lives_s,
        expires_at=request.expires_at,
    )
