"""A policy in its workspace: problems by line, others decide, it takes effect later, and supersedes."""

from datetime import timedelta
from typing import Any

import pytest
import yaml
from django.db import IntegrityError, transaction

from branches.commands.admit import grant_role
from branches.commands.decide import decide
from branches.commands.decide_change import decide_change, expire_changes, withdraw_change
from branches.commands.propose_change import PolicyRefused, adopt_policy, propose_policy, propose_role
from branches.commands.refusal import Refused
from branches.commands.request_approval import request_approval
from branches.commands.supersede_requests import supersede_by_policy
from branches.models import PolicyChange, PolicyChangeEnd, PolicyVote, RequestEnd, Role, WorkspaceReceipt
from branches.queries import clock
from branches.queries.branch_facts import branch_view
from branches.queries.policies import policy_of
from branches.queries.policy_text import default_policy, default_text, read_policy_text
from branches.queries.standings import standings_of
from branches.queries.subject import subject_digest, subject_of
from branches.rules.change_class import ChangeClass
from branches.rules.quorum import Standing
from tests.branches.test_approval_queue import ready
from tests.builders import World, one_approver
from tests.plugins import FakeWorld


def changed(**members: Any) -> str:
    return yaml.safe_dump({**yaml.safe_load(one_approver()), "policy": "next", **members}, sort_keys=False)


def admins(world: World) -> None:
    for person in (world.rosa, world.linus, world.grace):
        grant_role(person=person, workspace=world.workspace, role=Role.POLICY_ADMIN)


@pytest.mark.parametrize(
    ("text", "line", "field", "rule"),
    [
        ("a: &x 1\nb: *x", 2, "", "no_aliases"),
        ("policy: a\npolicy: b", 2, "", "doubled_key"),
        ("policy: [", 1, "", "yaml"),
        ("", 1, "", "required"),
        (default_text().replace("people: 1}", "people: 0}", 1), 27, "classes.C2.rules.1.people", "minimum"),
        (default_text().replace("2029-01-01", "2029-02-31"), 6, "pre_authorised_until", "moment"),
        (
            default_text().replace("expect: partial", "expect: granted", 1),
            59,
            "tests.3",
            "expected_granted_found_partial",
        ),
    ],
)
def test_what_is_wrong_is_told_by_line_field_and_rule(text: str, line: int, field: str, rule: str) -> None:
    problem = read_policy_text(text).problems[0]
    assert (problem.line, problem.field, problem.rule) == (line, field, rule)


def test_the_default_passes_its_own_tests_and_its_digest_is_of_its_content_alone() -> None:
    assert read_policy_text(default_text()).problems == ()
    assert read_policy_text(default_text() + "\n# a comment\n").digest == default_policy().digest


def test_nobody_but_a_policy_admin_proposes(world: World) -> None:
    with pytest.raises(Refused) as refused:
        propose_policy(person=world.ada, workspace=world.workspace, text=changed())
    assert refused.value.rule == "role:policy_admin"


def test_two_others_agree_and_it_takes_effect_after_its_delay(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    admins(world)
    request_approval(person=world.ada, branch=ready(world, outside))
    before = policy_of(world.workspace).digest
    change = propose_policy(person=world.rosa, workspace=world.workspace, text=changed())
    assert change.needed == 2
    with pytest.raises(Refused) as own:
        decide_change(person=world.rosa, change=change, word="approved", digest=change.digest)
    assert own.value.rule == "own_work:proposed"
    decide_change(person=world.linus, change=change, word="approved", digest=change.digest)
    assert not PolicyChangeEnd.objects.filter(change=change).exists()
    with pytest.raises(Refused) as twice:
        decide_change(person=world.linus, change=change, word="approved", digest=change.digest)
    assert twice.value.rule == "already_decided"
    decide_change(person=world.grace, change=change, word="approved", digest=change.digest)
    assert policy_of(world.workspace).digest == before
    later = clock.now() + timedelta(hours=1, seconds=1)
    assert policy_of(world.workspace, later).digest == change.digest
    assert supersede_by_policy() == []
    monkeypatch.setattr(clock.timezone, "now", lambda: later)
    assert len(supersede_by_policy()) == 1


def test_a_policy_without_delay_supersedes_what_was_asked_for_when_it_is_adopted(
    world: World, outside: FakeWorld, django_capture_on_commit_callbacks: Any
) -> None:
    request = request_approval(person=world.ada, branch=ready(world, outside))
    with django_capture_on_commit_callbacks(execute=True):
        adopt_policy(workspace=world.workspace, text=changed())
    assert RequestEnd.objects.get(request=request).word == "superseded"


def test_of_two_texts_that_wait_under_one_version_only_the_first_is_adopted(world: World) -> None:
    admins(world)
    first = propose_policy(person=world.rosa, workspace=world.workspace, text=changed())
    second = propose_policy(person=world.rosa, workspace=world.workspace, text=changed(activation_delay="2h"))
    for person in (world.linus, world.grace):
        decide_change(person=person, change=first, word="approved", digest=first.digest)
    decide_change(person=world.linus, change=second, word="approved", digest=second.digest)
    with pytest.raises(Refused, match="version_already_published"):
        decide_change(person=world.grace, change=second, word="approved", digest=second.digest)
    assert not PolicyChangeEnd.objects.filter(change=second).exists()
    assert policy_of(world.workspace).digest == first.digest


def test_a_policy_that_took_effect_makes_an_old_approval_worth_nothing_at_once(
    world: World, outside: FakeWorld
) -> None:
    branch = ready(world, outside)
    request = request_approval(person=world.ada, branch=branch)
    shown = subject_digest(subject_of(branch_view(branch), world.ada))
    decide(person=world.grace, request=request, word="approved", reason="reviewed_delta", digest=shown)
    assert branch_view(branch).authority.word == "approved"
    adopt_policy(workspace=world.workspace, text=changed())
    assert branch_view(branch).authority.word == "superseded"


def test_one_rejection_ends_it_and_a_timeout_approves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    admins(world)
    change = propose_policy(person=world.rosa, workspace=world.workspace, text=changed())
    decide_change(person=world.linus, change=change, word="rejected", digest=change.digest)
    assert change.end.word == "rejected"
    again = propose_policy(person=world.rosa, workspace=world.workspace, text=changed())
    withdraw_change(person=world.rosa, change=again)
    third = propose_policy(person=world.rosa, workspace=world.workspace, text=changed())
    monkeypatch.setattr(clock.timezone, "now", lambda: third.expires_at + timedelta(seconds=1))
    assert expire_changes() == [third.uid]
    assert policy_of(world.workspace).version == "one-approver"


def test_a_rule_that_nobody_here_can_satisfy_is_refused_and_a_closed_class_is_not(world: World) -> None:
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.POLICY_ADMIN)
    document = yaml.safe_load(one_approver())
    document["classes"]["C4"]["rules"] = [{"name": "crowd", "role": "approver", "people": 5}]
    with pytest.raises(PolicyRefused) as refused:
        propose_policy(
            person=world.rosa, workspace=world.workspace, text=changed(classes=document["classes"])
        )
    assert (refused.value.field, refused.value.rule) == ("classes.C4.crowd", "unsatisfiable")
    document["classes"]["C4"] |= {"rules": [], "closed": True}
    change = propose_policy(
        person=world.rosa, workspace=world.workspace, text=changed(classes=document["classes"])
    )
    decide_change(person=world.grace, change=change, word="approved", digest=change.digest)
    assert PolicyChange.objects.get(pk=change.pk).end.word == "adopted"
    assert policy_of(world.workspace).classes[ChangeClass.C4].is_closed


def test_a_closed_class_cannot_be_asked_for(world: World, outside: FakeWorld) -> None:
    document = yaml.safe_load(one_approver())
    document["classes"]["C4"] |= {"rules": [], "closed": True}
    adopt_policy(workspace=world.workspace, text=changed(classes=document["classes"]))
    branch = ready(world, outside)
    with pytest.raises(Refused) as refused:
        request_approval(person=world.ada, branch=branch)
    assert refused.value.rule == "class_closed:C4"
    assert branch_view(branch).verdict.status == "needs_approval"


def test_the_database_itself_refuses_ones_own_vote_and_an_undecided_adoption(world: World) -> None:
    admins(world)
    change = propose_policy(person=world.rosa, workspace=world.workspace, text=changed())
    now = clock.now()
    with pytest.raises(IntegrityError), transaction.atomic():
        PolicyVote.objects.create(
            change=change, person=world.rosa, word="approved", digest=change.digest, at=now
        )
    with pytest.raises(IntegrityError), transaction.atomic():
        PolicyChangeEnd.objects.create(change=change, word="adopted", effective_at=now, at=now)


def test_every_step_is_on_the_workspaces_own_chain(world: World) -> None:
    admins(world)
    change = propose_policy(person=world.rosa, workspace=world.workspace, text=changed())
    decide_change(person=world.linus, change=change, word="approved", digest=change.digest)
    decide_change(person=world.grace, change=change, word="approved", digest=change.digest)
    kinds = WorkspaceReceipt.objects.filter(subject=change.uid).order_by("seq").values_list("kind", flat=True)
    assert list(kinds) == [
        "change_proposed", "change_decided", "change_decided", "change_ended", "policy_adopted",
    ]  # fmt: skip


def test_nobody_decides_on_a_role_of_their_own(world: World) -> None:
    admins(world)
    change = propose_role(
        person=world.rosa,
        workspace=world.workspace,
        document={"person": world.linus.uid, "role": "approver", "scope": "", "until": None},
    )
    assert change.needed == 1
    with pytest.raises(Refused) as refused:
        decide_change(person=world.linus, change=change, word="approved", digest=change.digest)
    assert refused.value.rule == "own_role"
    decide_change(person=world.grace, change=change, word="approved", digest=change.digest)
    assert Standing("approver") in standings_of(world.linus, world.workspace)
