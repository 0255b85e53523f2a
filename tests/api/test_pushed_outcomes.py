"""Outcomes that a destination pushes: only the registered one's signed word counts, once."""

import base64
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from branches.evidence import ids
from branches.evidence.webhooks import secret_of, sign
from branches.models import InboundMessage, Receipt, Run
from branches.queries.branch_facts import branch_view
from branches.queries.clock import now
from branches.queries.receipts import verify_run
from tests.branches.test_branch_life import approve, fork, settle, start, status
from tests.builders import World, closed, effect, failed_run, make_world, stopped
from tests.plugins import FakeWorld

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
MARKER = "CONTENT-MARKER-7f3a"


@pytest.fixture
def branch(world: World, outside: FakeWorld, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A branch that ran, sent a ticket of its own and says that it is done."""
    monkeypatch.setenv("REPORTS_SECRET", SECRET)
    targets = json.loads(settings.BRANCHGATE_TARGETS.read_text())
    targets["reports"] = {"webhook_secret_env": "REPORTS_SECRET"}
    settings.BRANCHGATE_TARGETS.write_text(json.dumps(targets))
    found = fork(world, failed_run(world))
    settle(world, found, outside)
    approve(world, found)
    start(world, found)
    world.ingest(*effect(world, found.uid, "report", "create_ticket", "c1"))
    world.ingest(stopped(world, found.uid), closed(world, found.uid))
    assert status(found) == "false_success"
    return found


class Pusher:
    """The destination: signs what it says."""

    def __init__(self, client: Client, world: World, branch: Run) -> None:
        self.client = client
        self.workspace = world.workspace.uid
        self.at: datetime | None = None
        self.said: dict[str, Any] = {
            "run": branch.uid,
            "expected": "report",
            "check": "passed",
            "operation_key": world.operation("report"),
            "version": "8",
            "artifact": world.hmac("content", "the report"),
        }

    def __call__(
        self, message: str = "msg_1", *, place: str = "reports", raw: bytes | None = None, **changed: Any
    ) -> Any:
        body = json.dumps({**self.said, **changed}).encode() if raw is None else raw
        at = self.at or now()
        return self.client.post(
            f"/api/v1/destinations/{self.workspace}/{place}/outcomes",
            body,
            content_type="application/json",
            headers={
                "webhook-id": message,
                "webhook-timestamp": str(int(at.timestamp())),
                "webhook-signature": sign(secret_of(SECRET), message, at, body),
            },
        )


@pytest.fixture
def push(client: Client, world: World, branch: Run) -> Pusher:
    return Pusher(client, world, branch)


def checked(branch: Run) -> int:
    return Receipt.objects.filter(run=branch, kind="outcome_checked").count()


def test_its_word_verifies_a_branch(push: Pusher, branch: Run) -> None:
    answer = push()
    assert (answer.status_code, answer.json()) == (200, {"check": "passed"})
    assert status(branch) == "verified"
    assert verify_run(branch).ok


@pytest.mark.parametrize(
    ("change", "becomes"),
    [
        ({"version": "7"}, "false_success"),
        ({"version": "abc"}, "outcome_uncertain"),
        ({"check": "failed"}, "false_success"),
    ],
)
def test_what_is_old_unordered_or_failed_verifies_nothing(
    push: Pusher, branch: Run, change: dict[str, str], becomes: str
) -> None:
    assert push(**change).status_code == 200
    assert status(branch) == becomes


def test_what_carries_another_operations_key_is_not_this_branchs(
    push: Pusher, world: World, branch: Run
) -> None:
    assert push(operation_key=world.operation("ticket")).status_code == 200
    assert branch_view(branch).verdict.reasons == ("not_fresh",)


def test_a_message_that_comes_again_is_known_and_another_under_its_id_is_a_conflict(
    push: Pusher, branch: Run
) -> None:
    push()
    assert push().json() == {"check": "repeated"}
    assert checked(branch) == 1
    for _ in range(2):
        answer = push(version="9")
        assert (answer.status_code, answer.json()["error"]["rule"]) == (409, "conflict")
    assert checked(branch) == 1
    assert Receipt.objects.filter(run=branch, kind="conflict").count() == 1
    assert InboundMessage.objects.count() == 1
    assert verify_run(branch).ok


def test_only_the_destination_that_was_declared_may_speak_of_a_run(
    push: Pusher, branch: Run, settings: Any
) -> None:
    targets = json.loads(settings.BRANCHGATE_TARGETS.read_text())
    targets["mail"] = {"webhook_secret_env": "REPORTS_SECRET"}
    settings.BRANCHGATE_TARGETS.write_text(json.dumps(targets))
    answer = push(place="mail")
    assert (answer.status_code, answer.json()["error"]) == (
        409,
        {"field": "run", "rule": "not_entitled", "changed": []},
    )
    assert checked(branch) == 0


def test_a_place_without_a_secret_is_not_there(push: Pusher, monkeypatch: pytest.MonkeyPatch) -> None:
    assert push(place="tickets").status_code == 404
    assert push(place="nowhere").status_code == 404
    monkeypatch.delenv("REPORTS_SECRET")
    assert push().status_code == 404


def test_another_workspaces_run_is_not_there(push: Pusher, branch: Run) -> None:
    push.workspace = make_world(name="elsewhere").workspace.uid
    answer = push()
    assert answer.status_code == 409
    assert answer.json()["error"]["rule"] == "unknown"
    assert checked(branch) == 0


def test_an_old_message_is_refused(push: Pusher, branch: Run) -> None:
    push.at = now() - timedelta(seconds=400)
    answer = push()
    assert (answer.status_code, answer.json()["error"]["rule"]) == (401, "webhook_too_old")
    assert checked(branch) == 0


def test_an_unsigned_message_is_refused_before_it_is_read(push: Pusher, branch: Run) -> None:
    answer = push.client.post(
        f"/api/v1/destinations/{push.workspace}/reports/outcomes",
        json.dumps(push.said),
        content_type="application/json",
        headers={"webhook-id": "m", "webhook-timestamp": "1", "webhook-signature": "v1,x"},
    )
    assert (answer.status_code, answer.json()["error"]["rule"]) == (401, "webhook_signature")
    assert checked(branch) == 0


@pytest.mark.parametrize(
    ("raw", "status_code", "field"),
    [
        (b"{", 400, ""),
        (b'{"run": 1, "run": 2}', 400, ""),
        (b"x" * 9000, 413, ""),
        (json.dumps({"run": "br_x", "note": MARKER}).encode(), 422, None),
    ],
)
def test_a_body_of_another_form_is_refused_and_not_repeated(
    push: Pusher, branch: Run, raw: bytes, status_code: int, field: str | None
) -> None:
    answer = push(raw=raw)
    assert answer.status_code == status_code
    assert MARKER not in answer.content.decode()
    if field is not None:
        assert answer.json()["error"]["field"] == field
    assert checked(branch) == 0


def test_a_member_that_holds_content_is_refused(push: Pusher, branch: Run) -> None:
    for change in (
        {"artifact": MARKER},
        {"operation_key": MARKER},
        {"version": f"{MARKER} x"},
        {"more": MARKER},
    ):
        answer = push(**change)
        assert answer.status_code == 422
        assert MARKER not in answer.content.decode()
    assert push(run=ids.mint("br")).status_code == 409
