"""Notices on their way: by real mail, tried again and given up, and never with content."""

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import IntegrityError, transaction
from django.test import Client

from branches.commands.deliver_notices import PAUSES, deliver_notices
from branches.commands.request_approval import request_approval
from branches.models import (
    ApprovalRequest,
    Notice,
    NoticeDelivery,
    NoticeKind,
    Person,
    Receipt,
    WorkspaceReceipt,
)
from branches.queries import clock
from branches.queries.authority import request_ends
from branches.queries.notice_words import notice_link, notice_path
from debugger.settings import _mailer
from tests.adapters.hooks import Receiver
from tests.adapters.smtp_server import Mailbox
from tests.branches.noticed import MARKER, asked, edit, hooked, only, via
from tests.branches.test_approval_queue import ready
from tests.builders import World
from tests.plugins import FakeWorld
from tests.web.cast import signed_in


def test_a_mail_says_what_happened_and_where_to_look_and_nothing_else(
    world: World, outside: FakeWorld, post: Mailbox
) -> None:
    branch = ready(world, outside)
    edit(world, branch)
    request = request_approval(person=world.ada, branch=branch)
    assert deliver_notices() == [only().uid]
    [mail] = post.mails
    assert post.recipients == [[f"{world.grace.get_username()}@example.org"]]
    assert mail["Subject"] == f"Branchgate: Approval asked for: b{branch.number}"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Message-ID"] == f"<{only().uid}@branchgate>"
    text = mail.get_payload()
    assert f"https://gate.example.org/approvals/{request.uid}/" in text
    assert text.split() == [*f"Approval asked for: b{branch.number}.".split(), notice_link(only().notice)]
    assert MARKER not in mail.as_string()


def test_a_mail_that_was_delivered_is_not_sent_again(world: World, outside: FakeWorld, post: Mailbox) -> None:
    asked(world, outside)
    assert (len(deliver_notices()), deliver_notices(), len(post.mails)) == (1, [], 1)
    assert (only().state, only().tries, only().problem, only().due_at) == ("delivered", 1, "", None)


@pytest.mark.parametrize("refusal", ["550", "450"])
def test_a_mail_that_is_refused_is_tried_again_ever_more_rarely_and_given_up(
    world: World,
    outside: FakeWorld,
    post: Mailbox,
    move: Any,
    refusal: str,
) -> None:
    request, post.refusal = asked(world, outside), refusal
    for number, pause in enumerate(PAUSES, start=1):
        assert deliver_notices() == []
        assert (only().tries, only().state, only().problem) == (number, "due", "mail_refused")
        move(pause - timedelta(seconds=30))
        deliver_notices()
        assert only().tries == number
        assert via(request) == []
        move(timedelta(seconds=31))
    deliver_notices()
    assert (only().tries, only().state, only().due_at) == (len(PAUSES) + 1, "given_up", None)
    move(timedelta(days=3))
    deliver_notices()
    assert (only().tries, post.mails, via(request)) == (len(PAUSES) + 1, [], ["inbox"])


def test_a_mail_server_that_is_gone_or_an_address_that_is_none_stops_nothing(
    world: World, outside: FakeWorld, post: Mailbox, settings: Any
) -> None:
    options = {**post.mailers()["default"]["OPTIONS"], "port": 1}
    settings.MAILERS = {"default": {**post.mailers()["default"], "OPTIONS": options}}
    asked(world, outside)
    deliver_notices()
    assert only().problem == "mail_unreachable"
    settings.MAILERS = post.mailers()
    NoticeDelivery.objects.update(due_at=clock.now())
    Person.objects.filter(pk=world.grace.pk).update(email="a\nb@example.org")
    deliver_notices()
    assert only().problem == "mail_unfit"


def test_no_address_is_logged_or_recorded(
    world: World, outside: FakeWorld, post: Mailbox, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    asked(world, outside)
    post.refusal = "550"
    deliver_notices()
    post.refusal = ""
    NoticeDelivery.objects.update(due_at=clock.now())
    deliver_notices()
    assert len(post.mails) == 1
    said = [record.getMessage() for record in caplog.records if record.name != "mail.log"]
    kept = [*said, *(str(row) for row in Receipt.objects.values_list("body", flat=True))]
    kept += WorkspaceReceipt.objects.values_list("body", flat=True)
    kept += [str(row) for row in NoticeDelivery.objects.values_list()]
    assert [line for line in kept if "@example.org" in line] == []


def test_whoever_turned_mail_off_meanwhile_gets_none_and_the_clock_starts_in_the_inbox(
    world: World, outside: FakeWorld, post: Mailbox
) -> None:
    request = asked(world, outside)
    Person.objects.filter(pk=world.grace.pk).update(by_mail=False)
    deliver_notices()
    assert (only().state, only().problem, post.mails) == ("given_up", "not_wanted", [])
    assert via(request) == ["inbox"]


def test_the_clock_of_a_request_runs_from_its_first_delivery(
    world: World,
    outside: FakeWorld,
    post: Mailbox,
    move: Any,
) -> None:
    request = asked(world, outside)
    assert via(request) == []
    move(timedelta(hours=2))
    deliver_notices()
    request = ApprovalRequest.objects.get(pk=request.pk)
    delivered = only().delivered_at
    assert (via(request), delivered is not None) == (["sent"], True)
    assert abs(request.delivery.at - delivered) < timedelta(seconds=60)
    assert request_ends(request) == request.delivery.at + timedelta(seconds=request.lives_s)


def test_where_nothing_is_to_be_sent_the_clock_runs_from_the_inbox_at_once(
    world: World, outside: FakeWorld
) -> None:
    assert via(asked(world, outside)) == ["inbox"]


def test_a_second_delivery_starts_no_second_clock(
    world: World, outside: FakeWorld, post: Mailbox, hook: Receiver
) -> None:
    hooked(world)
    request = asked(world, outside)
    assert len(deliver_notices()) == 2
    assert via(request) == ["sent"]
    row = NoticeDelivery.objects.get(person__isnull=True)
    with pytest.raises(IntegrityError), transaction.atomic():
        NoticeDelivery.objects.create(uid="dlv_" + "a" * 24, notice=row.notice, webhook=row.webhook)


def rows() -> dict[str, int]:
    return {model.__name__: model._default_manager.count() for model in apps.get_models()}


@pytest.mark.parametrize("is_signed_in", [True, False])
def test_looking_at_every_link_changes_nothing(world: World, outside: FakeWorld, is_signed_in: bool) -> None:
    branch = ready(world, outside)
    request_approval(person=world.ada, branch=branch)
    for kind in NoticeKind:
        for run in (branch, branch.root):
            known = Notice.objects.filter(kind="requested").first()
            assert known is not None
            made = Notice(workspace=world.workspace, kind=kind, run=run, subject=known.subject)
            made.uid, made.digest, made.made_at = (
                f"note_{kind}_{run.pk}"[:40],
                "sha256:" + "0" * 64,
                clock.now(),
            )
            made.save()
    browser = signed_in(world.grace) if is_signed_in else Client()
    paths = sorted({notice_path(each) for each in Notice.objects.select_related("run__root")})
    assert len(paths) == 5
    before = rows()
    for path in [*paths, "/approvals/", "/notices/"]:
        assert browser.get(path).status_code == (200 if is_signed_in else 302), path
        assert browser.head(path).status_code in {200, 302, 405}, path
    assert rows() == before


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("smtp://mail.example.org", ("mail.example.org", 25, "", "", False, False)),
        ("smtp+starttls://a:b%40c@mail.example.org", ("mail.example.org", 587, "a", "b@c", True, False)),
        ("smtps://a:b@mail.example.org:4465", ("mail.example.org", 4465, "a", "b", False, True)),
    ],
)
def test_how_mail_leaves_is_one_address(address: str, expected: tuple[Any, ...]) -> None:
    options = _mailer(address)["OPTIONS"]
    names = ("host", "port", "username", "password", "use_tls", "use_ssl")
    assert tuple(options[name] for name in names) == expected


@pytest.mark.parametrize(
    "address", ["mail", "http://s3cret", "smtp://s3cret:99999", "smtp://", "smtp://s3cret:x"]
)
def test_an_address_that_is_none_is_not_repeated(address: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        _mailer(address)
    assert "s3cret" not in str(refused.value)


def test_a_mail_leaves_by_the_address_of_the_setting(
    world: World, outside: FakeWorld, post: Mailbox, settings: Any
) -> None:
    settings.MAILERS = {"default": _mailer(f"smtp://127.0.0.1:{post.port}")}
    asked(world, outside)
    assert (len(deliver_notices()), len(post.mails)) == (1, 1)
