"""The page of notices: what became of each, one's own mail, and webhooks whose secret is shown once."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import standardwebhooks
from django.test import Client

from branches.commands.admit import grant_role
from branches.commands.deliver_notices import deliver_notices
from branches.commands.request_approval import request_approval
from branches.models import NoticeDelivery, NoticeKind, Person, Role, Webhook, WorkspaceReceipt
from branches.queries import clock
from tests.adapters.hooks import Receiver, receiver
from tests.branches.noticed import HOOK, addressed, place
from tests.branches.test_approval_queue import ready
from tests.builders import World, make_world
from tests.plugins import FakeWorld
from tests.web.cast import signed_in


@pytest.fixture
def admin(world: World, outside: FakeWorld) -> Client:
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.POLICY_ADMIN)
    return signed_in(world.rosa)


@pytest.fixture
def hook(outside: FakeWorld) -> Iterator[Receiver]:
    with receiver() as made:
        place(notifier="webhook", url=made.url, allow="loopback")
        yield made


def page(client: Client) -> str:
    return client.get("/notices/").content.decode()


def added(admin: Client, *kinds: str) -> str:
    answer = admin.post("/notices/webhooks/", {"target": HOOK, "kind": kinds or ("requested",)})
    assert answer.status_code == 200, answer.content
    assert "no-store" in answer["Cache-Control"]
    found = re.search(r'value="(whsec_[^"]+)"', answer.content.decode())
    assert found is not None
    return found[1]


def test_a_webhooks_secret_is_shown_once_and_signs_what_arrives(
    world: World, outside: FakeWorld, admin: Client, hook: Receiver
) -> None:
    secret = added(admin)
    assert secret not in page(admin)
    request_approval(person=world.ada, branch=ready(world, outside))
    deliver_notices()
    [came] = hook.came
    assert standardwebhooks.Webhook(secret).verify(came.body, came.headers)["type"] == "branchgate.requested"
    assert re.search(rf"{HOOK} .*by webhook.*delivered just now", page(admin))


def test_it_says_what_became_of_each_delivery_by_name_alone(
    world: World, outside: FakeWorld, admin: Client, hook: Receiver, settings: Any
) -> None:
    addressed(world, settings)
    added(admin)
    hook.status = 500
    request = request_approval(person=world.ada, branch=ready(world, outside))
    text = page(admin)
    assert f'href="/approvals/{request.uid}/"' in text
    assert text.count("on its way") == 2
    NoticeDelivery.objects.filter(person__isnull=False).update(
        state="given_up", tries=6, problem="mail_refused"
    )
    deliver_notices()
    text = page(admin)
    assert "given up, 6 tries: the mail server refused it" in text
    assert re.search(r"again in .*, 1 try: the receiver did not take it", text)
    assert world.grace.get_username() in text
    assert "@example.org" not in text.replace(f"{world.rosa.get_username()}@example.org", "")


def test_the_page_shows_nothing_of_another_workspace(
    world: World, outside: FakeWorld, admin: Client, hook: Receiver
) -> None:
    added(admin)
    request = request_approval(person=world.ada, branch=ready(world, outside))
    stranger = signed_in(make_world("elsewhere").ada)
    text = page(stranger)
    assert request.uid not in text
    assert "Notices go to no webhook." in text
    uid = Webhook.objects.get().uid
    assert stranger.post(f"/notices/webhooks/{uid}/end/").status_code == 404


def test_an_ended_webhook_stays_on_the_page_and_the_chain(
    world: World, admin: Client, hook: Receiver
) -> None:
    added(admin)
    row = Webhook.objects.get()
    assert (
        "The webhook is ended."
        in admin.post(f"/notices/webhooks/{row.uid}/end/", follow=True).content.decode()
    )
    assert re.search(r"ended\s+just now", page(admin))
    on_chain = WorkspaceReceipt.objects.filter(subject=row.uid).order_by("seq")
    assert [(each.kind, each.writer) for each in on_chain] == [
        ("key_added", world.rosa.uid),
        ("key_retired", world.rosa.uid),
    ]


def test_a_target_that_may_be_sent_none_any_more_is_said_to_be(
    world: World, admin: Client, hook: Receiver
) -> None:
    added(admin)
    place()
    text = page(admin)
    assert "no such target may be sent notices any more" in text
    assert "the operator registers one" in text


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"target": HOOK}, "kinds is required"),
        ({"target": "tickets", "kind": "requested"}, "no target of that name is registered here"),
        ({"target": HOOK, "kind": "all"}, "kinds is not one of the choices"),
    ],
)
def test_what_cannot_be_is_said_in_words_and_the_form_is_kept(
    world: World, admin: Client, hook: Receiver, form: dict[str, str], words: str
) -> None:
    answer = admin.post("/notices/webhooks/", form)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert Webhook.objects.count() == 0


def test_only_a_policy_admin_is_offered_webhooks(world: World, hook: Receiver) -> None:
    ada = signed_in(world.ada)
    assert "Add a webhook" not in page(ada)
    assert ada.post("/notices/webhooks/", {"target": HOOK, "kind": "requested"}).status_code == 403


def test_there_are_only_so_many_webhooks(world: World, admin: Client, hook: Receiver) -> None:
    for number in range(20):
        Webhook.objects.create(
            uid=f"hook_{number}", workspace=world.workspace, target=HOOK, kinds=[], made_at=clock.now()
        )
    answer = admin.post("/notices/webhooks/", {"target": HOOK, "kind": "requested"})
    assert "too many of one webhook" in answer.content.decode()


def test_everybody_chooses_their_own_mail(world: World, settings: Any) -> None:
    settings.BRANCHGATE_MAIL_FROM = "branchgate@example.org"
    linus = world.linus
    grant_role(person=linus, workspace=world.workspace, role=Role.VIEWER)
    browser = signed_in(linus)
    form = {"email": " linus@example.org ", "by_mail": "on"}
    assert "Your choice is kept." in browser.post("/notices/mail/", form, follow=True).content.decode()
    linus.refresh_from_db()
    assert (linus.email, linus.by_mail) == ("linus@example.org", True)
    browser.post("/notices/mail/", {"email": "linus@example.org"})
    linus.refresh_from_db()
    assert (linus.email, linus.by_mail) == ("linus@example.org", False)
    browser.post("/notices/mail/", {"email": ""})
    linus.refresh_from_db()
    assert linus.email == ""
    assert not Person.objects.exclude(email="").exists()


@pytest.mark.parametrize(
    ("email", "words"),
    [
        ("", "email is required"),
        ("no address", "that is no e-mail address"),
        ("a@example.org\nBcc: b@example.org", "that is no e-mail address"),
        ("a@example.org, b@example.org", "that is no e-mail address"),
        (f"a@{'x' * 250}.org", "email is too long"),
    ],
)
def test_an_address_that_is_none_is_refused(world: World, email: str, words: str) -> None:
    answer = signed_in(world.ada).post("/notices/mail/", {"email": email, "by_mail": "on"})
    assert answer.status_code == 422
    assert words in answer.content.decode()
    world.ada.refresh_from_db()
    assert world.ada.email == ""


def test_without_a_sender_the_page_says_that_no_mail_is_sent(world: World) -> None:
    assert "This installation sends no mail" in page(signed_in(world.ada))


def test_the_inbox_says_each_notice_in_words_with_its_link(world: World, outside: FakeWorld) -> None:
    branch = ready(world, outside)
    request = request_approval(person=world.ada, branch=branch)
    text = signed_in(world.grace).get("/approvals/").content.decode()
    assert f'<a href="/approvals/{request.uid}/">{NoticeKind.REQUESTED.label}: b{branch.number}</a>' in text
