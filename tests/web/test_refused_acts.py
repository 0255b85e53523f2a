"""What a person is refused stands on their workspace's chain: which act, which rule, and never the value."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from branches.commands.admit import grant_role
from branches.commands.note_refusal import ONCE_IN, note_refusal
from branches.commands.request_approval import request_approval
from branches.models import Receipt, Role, WorkspaceReceipt
from branches.queries import clock
from branches.queries.workspace_chain import verify_workspace
from tests.branches.test_branch_life import fork, settle
from tests.builders import World, failed_run
from tests.plugins import FakeWorld
from tests.web.cast import signed_in

MARKER = "CONTENT-MARKER-7f3a"


def refusals(world: World) -> list[tuple[str, dict[str, Any]]]:
    rows = WorkspaceReceipt.objects.filter(workspace=world.workspace, kind="refused").order_by("seq")
    found = [json.loads(text) for text in rows.values_list("body", flat=True)]
    assert verify_workspace(world.workspace).ok
    return [(each["actor"]["id"], each["body"]) for each in found]


def test_a_decision_on_ones_own_work_is_recorded_with_the_rule_that_refused_it(
    world: World, outside: FakeWorld
) -> None:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    asked = request_approval(person=world.ada, branch=branch)
    before = Receipt.objects.count()
    grant_role(person=world.ada, workspace=world.workspace, role=Role.APPROVER)
    form = {"decision": "approved", "reason_approved": "fix_is_safe", "digest": asked.subject_digest}
    assert signed_in(world.ada).post(f"/approvals/{asked.uid}/", form).status_code == 403
    assert refusals(world) == [
        (world.ada.uid, {"action": "decision", "rule": "own_work", "subject": asked.uid})
    ]
    assert Receipt.objects.count() == before


def test_it_is_shown_to_an_auditor_in_words(world: World, outside: FakeWorld) -> None:
    branch = fork(world, failed_run(world))
    signed_in(world.ada).post(f"/branches/{branch.uid}/resume/")
    grant_role(person=world.linus, workspace=world.workspace, role=Role.AUDITOR)
    page = signed_in(world.linus).get("/audit/?kind=refused").content.decode()
    assert page.count("data-seq=") == 1
    assert world.ada.username in page
    assert branch.uid in page


def test_who_only_reads_and_whoever_lacks_the_role_of_a_page_is_recorded(world: World) -> None:
    grant_role(person=world.linus, workspace=world.workspace, role=Role.VIEWER)
    assert signed_in(world.linus).post("/people/invitations/", {}).status_code == 403
    assert signed_in(world.ada).post("/tokens/", {"name": MARKER}).status_code == 403
    assert [(who, body["rule"]) for who, body in refusals(world)] == [
        (world.linus.uid, "readers_change_nothing"),
        (world.ada.uid, "role"),
    ]
    assert MARKER not in json.dumps(refusals(world))


@pytest.mark.parametrize("rule", ["enum", "required", "pattern:name"])
def test_what_a_form_lacked_is_no_refusal(world: World, rule: str) -> None:
    note_refusal(person=world.ada, workspace=world.workspace, action="fork", rule=rule)
    assert refusals(world) == []


def test_a_subject_that_is_no_id_is_not_kept(world: World) -> None:
    note_refusal(person=world.ada, workspace=world.workspace, action="fork", rule="sealed", subject=MARKER)
    assert refusals(world) == [(world.ada.uid, {"action": "fork", "rule": "sealed", "subject": None})]


def test_knocking_adds_one_receipt_a_minute(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    start = clock.now()
    for after in (timedelta(0), ONCE_IN - timedelta(seconds=1), ONCE_IN + timedelta(seconds=1)):
        monkeypatch.setattr(clock.timezone, "now", lambda after=after: start + after)
        note_refusal(person=world.ada, workspace=world.workspace, action="decision", rule="sealed")
    assert len(refusals(world)) == 2


def test_a_failed_sign_in_is_recorded_as_nobodys_act_and_an_unknown_name_not_at_all(world: World) -> None:
    world.ada.set_password("correct horse battery")
    world.ada.save()
    for name in (world.ada.username, "nobody", f"{MARKER}\0"):
        page = Client().post("/accounts/login/", {"login": name, "password": "wrong"})
        assert page.status_code in (200, 400)
    assert refusals(world) == [
        (
            world.workspace.uid,
            {"action": "sign_in", "rule": "wrong_credentials", "subject": world.ada.uid},
        )
    ]
