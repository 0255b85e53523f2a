"""A workspace's webhooks: what arrives there, what stands in its way, and who may add one."""

import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import standardwebhooks

from branches import registry
from branches.commands import deliver_notices as delivering
from branches.commands.deliver_notices import PAUSES, deliver_notices
from branches.commands.refusal import Refused
from branches.commands.request_approval import request_approval
from branches.commands.webhooks import add_webhook, end_webhook
from branches.evidence.webhooks import verify
from branches.models import (
    DeliveryState,
    Notice,
    NoticeDelivery,
    NoticeKind,
    WorkspaceReceipt,
)
from branches.queries.secrets import webhook_secret
from debugger.adapters import outbound
from tests.adapters.hooks import Receiver
from tests.branches.noticed import HOOK, MARKER, asked, edit, hooked, only, place, via
from tests.branches.test_approval_queue import ready
from tests.builders import World
from tests.plugins import FakeWorld


def test_a_webhook_gets_its_kinds_signed_and_without_content(
    world: World, outside: FakeWorld, hook: Receiver
) -> None:
    row, secret = hooked(world, NoticeKind.REQUESTED)
    branch = ready(world, outside)
    edit(world, branch)
    request = request_approval(person=world.ada, branch=branch)
    edit(world, branch, f"{MARKER} again")
    assert Notice.objects.count() == 2
    assert len(deliver_notices()) == 1
    [came] = hook.came
    assert verify(came.headers, came.body, webhook_secret(row.uid), datetime.now(UTC)) == only().uid
    said = standardwebhooks.Webhook(secret).verify(came.body, came.headers)
    assert said["type"] == "branchgate.requested"
    assert said["data"]["link"].endswith(f"/approvals/{request.uid}/")
    assert set(said) == {"type", "timestamp", "data"}
    assert set(said["data"]) == {"notice", "run", "link"}
    assert MARKER.encode() not in came.body


def test_each_try_has_the_same_id_and_its_own_moment(
    world: World,
    outside: FakeWorld,
    hook: Receiver,
    move: Any,
) -> None:
    hooked(world)
    request = asked(world, outside)
    hook.status = 500
    deliver_notices()
    assert (only().problem, via(request)) == ("not_taken", [])
    hook.status = 200
    move(PAUSES[0] + timedelta(seconds=1))
    assert deliver_notices() == [only().uid]
    first, second = hook.came
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) >= 60
    assert (only().tries, only().problem, via(request)) == (2, "", ["sent"])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "target_missing"),
        ({"notifier": "webhook"}, "target_unfit"),
        ({"url": "http://127.0.0.1:1/"}, "not_installed"),
        ({"notifier": "webhook", "url": "http://127.0.0.1:1/"}, "address_refused"),
        ({"notifier": "webhook", "url": "http://127.0.0.1:1/", "allow": "loopback"}, "no_connection"),
        ({"notifier": "nobody", "url": "http://127.0.0.1:1/"}, "not_installed"),
    ],
)
def test_a_target_that_vanished_or_changed_is_said_to_and_tried_again(
    world: World, outside: FakeWorld, hook: Receiver, options: dict[str, Any], problem: str
) -> None:
    hooked(world)
    asked(world, outside)
    place(**options)
    assert deliver_notices() == []
    assert (only().state, only().problem, hook.came) == ("due", problem, [])


def test_a_slow_webhook_is_tried_again(
    world: World, outside: FakeWorld, hook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbound, "READ_S", 0.3)
    hooked(world)
    asked(world, outside)
    hook.hold = threading.Event()
    deliver_notices()
    assert (only().state, only().problem) == ("due", "timeout")


def test_slow_receivers_hold_up_no_sweep(
    world: World,
    outside: FakeWorld,
    hook: Receiver,
    move: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hooked(world)
    for _ in range(3):
        asked(world, outside)
    real = delivering._post

    def slow(delivery: NoticeDelivery) -> str | None:
        move(timedelta(seconds=21))
        return real(delivery)

    monkeypatch.setattr(delivering, "_post", slow)
    assert [len(deliver_notices()) for _ in range(4)] == [1, 1, 1, 0]


class Breaks:
    """A notifier of somebody else's that fails, or answers what is no answer."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def deliver(self, target: Any, message: Any) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (RuntimeError(MARKER), "failed:RuntimeError"),
        (SystemExit(3), "failed:SystemExit"),
        (f"Not today, {MARKER}", "failed:TypeError"),
        (7, "failed:TypeError"),
    ],
)
def test_a_notifier_that_breaks_is_tried_again_and_its_words_are_not_kept(
    world: World,
    outside: FakeWorld,
    hook: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    answer: Any,
    problem: str,
) -> None:
    hooked(world)
    asked(world, outside)
    monkeypatch.setattr(registry, "_load", lambda port, name: Breaks(answer))
    deliver_notices()
    assert (only().state, only().problem, only().tries) == ("due", problem, 1)


def test_a_worker_that_was_too_slow_overwrites_nothing(
    world: World,
    outside: FakeWorld,
    hook: Receiver,
    move: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hooked(world)
    asked(world, outside)
    real = delivering._post

    def late(delivery: NoticeDelivery) -> str | None:
        monkeypatch.setattr(delivering, "_post", real)
        move(delivering.CLAIMED + timedelta(seconds=1))
        assert len(deliver_notices()) == 1
        return "no_answer"

    monkeypatch.setattr(delivering, "_post", late)
    deliver_notices()
    assert (only().state, only().tries, only().problem) == (DeliveryState.DELIVERED, 1, "")


def test_an_ended_webhook_gets_no_more_not_even_what_was_on_its_way(
    world: World, outside: FakeWorld, hook: Receiver
) -> None:
    row, _ = hooked(world)
    request = asked(world, outside)
    end_webhook(person=world.rosa, webhook=row)
    deliver_notices()
    assert (only().state, only().problem, hook.came) == ("given_up", "not_wanted", [])
    assert via(request) == ["inbox"]
    asked(world, outside)
    assert NoticeDelivery.objects.count() == 1


def test_webhooks_are_a_policy_admins_and_on_the_workspaces_chain(world: World, hook: Receiver) -> None:
    row, secret = hooked(world)
    with pytest.raises(Refused) as refused:
        add_webhook(person=world.ada, workspace=world.workspace, target=HOOK, kinds=["requested"])
    assert refused.value.rule == "role:policy_admin"
    with pytest.raises(Refused) as refused:
        end_webhook(person=world.ada, webhook=row)
    assert refused.value.rule == "role:policy_admin"
    for _ in range(2):
        end_webhook(person=world.rosa, webhook=row)
    on_chain = WorkspaceReceipt.objects.filter(subject=row.uid).order_by("seq")
    assert [each.kind for each in on_chain] == ["key_added", "key_retired"]
    assert all(json.loads(each.body)["body"]["use"] == "webhook" for each in on_chain)
    assert [each for each in on_chain if secret.removeprefix("whsec_") in each.body] == []
    assert hooked(world)[1] != secret


@pytest.mark.parametrize(
    ("target", "kinds", "field", "rule"),
    [
        (HOOK, [], "kinds", "required"),
        (HOOK, ["everything"], "kinds", "enum"),
        ("nowhere", ["requested"], "target", "not_registered"),
        # Registered, but not for notices: a page cannot have the server post to a destination.
        ("tickets", ["requested"], "target", "not_registered"),
    ],
)
def test_a_webhook_that_cannot_be_is_refused_by_field_and_rule(
    world: World, hook: Receiver, target: str, kinds: list[str], field: str, rule: str
) -> None:
    with pytest.raises(Refused) as refused:
        add_webhook(person=world.rosa, workspace=world.workspace, target=target, kinds=kinds)
    assert (refused.value.field, refused.value.rule) == (field, rule)
