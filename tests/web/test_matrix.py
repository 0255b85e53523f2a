"""Every page by every role, method and workspace, own or foreign: what no row opens is shut."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.apps import apps
from django.db import transaction
from django.test import Client
from django.urls import reverse

from branches.append_only import AppendOnly
from branches.commands.admit import grant_role
from branches.models import Role, WorkspaceReceipt
from branches.ports import ThreadSummary
from branches.queries.import_page import StoreRow, ThreadRow
from debugger.web import approvals, content, imports
from tests.builders import World, make_world
from tests.plugins import FakeWorld
from tests.web.cast import signed_in
from tests.web.matrix import ALL, OPEN_ACCOUNT, OTHER_DOORS, OWN_ACCOUNT, PAGES, ROLES, Places, routes
from tests.web.test_confirmation import grow_old

RECORD = [model for model in apps.get_app_config("branches").get_models() if issubclass(model, AppendOnly)]
NEEDS = ("this needs the role", "Your roles only read", "This page is for")


@pytest.fixture
def places(world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> Places:
    for module in (approvals, content):
        monkeypatch.setattr(module, "fetch_content", lambda _wanted: (None, "recorder_offline"))
    thread = ThreadSummary(world.hmac("thread", "t"), 1, 1)
    store = StoreRow("store", "langgraph", (ThreadRow("store|t", thread, None, None),), None)
    monkeypatch.setattr(imports, "stores", lambda _workspace: [store])
    return Places(world, outside)


def test_every_route_has_a_row() -> None:
    found = {name for _, name in routes() if name}
    assert found == {*PAGES, *OTHER_DOORS, *OPEN_ACCOUNT, *OWN_ACCOUNT}
    assert [route for route, name in routes() if not name] == ["accounts/password/reset/"]


def rows() -> dict[str, int]:
    """Count the record, but for what somebody was refused: that is what a refused act writes."""
    found = {model.__name__: model.objects.count() for model in RECORD}
    return {**found, "WorkspaceReceipt": found["WorkspaceReceipt"] - refusals()}


def refusals() -> int:
    return WorkspaceReceipt.objects.filter(kind="refused").count()


@contextmanager
def undone() -> Iterator[None]:
    """Try something, and leave everything as it was."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def asked(client: Client, method: str, address: str, form: dict[str, str]) -> tuple[int, str]:
    """Return the status, and the text of where it led."""
    answer = client.get(address) if method == "GET" else client.post(address, form)
    status = answer.status_code
    if status == 302 and not answer["Location"].startswith("/accounts/"):
        return status, client.get(answer["Location"]).content.decode()
    return status, b"".join(answer).decode("utf-8", "replace")  # type: ignore[arg-type]


def assert_shut(client: Client, method: str, address: str, form: dict[str, str], who: str) -> None:
    before, noted = rows(), refusals()
    with undone():
        status, text = asked(client, method, address, form)
        assert refusals() == noted + (method == "POST"), (who, method)
        assert status == 403 or any(words in text for words in NEEDS), (who, method, status)
        assert rows() == before, (who, method)


def assert_open(client: Client, method: str, address: str, form: dict[str, str], who: str) -> None:
    before, noted = rows(), refusals()
    with undone():
        status, text = asked(client, method, address, form)
        assert method != "GET" or (rows(), refusals()) == (before, noted), (who, "a GET changed something")
        assert status not in (401, 403, 404, 405), (who, method, status)
        assert not any(words in text for words in NEEDS), (who, method)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_to_the_roles_of_its_row_alone(name: str, places: Places) -> None:
    row = PAGES[name]
    people = places.people
    address, form = row.address(name, places), places.filled(row.form)
    for role in ROLES:
        client = signed_in(people[role])
        for method, allowed in (("GET", row.get), ("POST", row.post)):
            if allowed is None:
                with undone():
                    assert_no_such_way(client, method, address, role)
            elif role in allowed:
                assert_open(client, method, address, form, role)
            else:
                assert_shut(client, method, address, form, role)


def assert_no_such_way(client: Client, method: str, address: str, role: str) -> None:
    answer = client.get(address) if method == "GET" else client.post(address)
    assert answer.status_code in (403, 405), (role, method, answer.status_code)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_shut_to_strangers_and_to_those_who_are_not_signed_in(name: str, places: Places) -> None:
    row = PAGES[name]
    address = row.address(name, places)
    form = places.filled(row.form)
    stranger, before = signed_in(places.world.linus), rows()
    for method in ("GET", "POST"):
        with undone():
            answer = stranger.get(address) if method == "GET" else stranger.post(address, form)
            assert answer.status_code == 403, method
            assert "You hold no role here yet" in answer.content.decode()
        answer = Client().get(address) if method == "GET" else Client().post(address, form)
        assert answer.status_code == 302, method
        assert answer["Location"].startswith("/accounts/login/")
    assert rows() == before


@pytest.mark.parametrize("name", [name for name, row in PAGES.items() if row.is_of_one_thing])
def test_whoever_may_everything_elsewhere_finds_nothing_of_it_here(name: str, places: Places) -> None:
    row = PAGES[name]
    address = row.address(name, places)
    form = places.filled(row.form)
    before = rows()
    client = everything(make_world("elsewhere"))
    after = rows()
    if row.get is not None and row.names:
        assert client.get(address).status_code == 404
    if row.post is not None:
        assert client.post(address, form).status_code == 404
    assert rows() == after
    assert before != after


@pytest.mark.parametrize(
    "name", [name for name, row in PAGES.items() if not row.is_of_one_thing and row.get is not None]
)
def test_a_page_of_a_whole_workspace_names_nothing_of_another(name: str, places: Places) -> None:
    here = [places.run, places.branch, places.request, places.job, places.group, places.token, places.ada]
    here += [places.invitation, places.world.ada.username]
    text = b"".join(everything(make_world("elsewhere")).get(reverse(name))).decode()
    assert [each for each in here if each in text] == []


def everything(world: World) -> Client:
    for role in Role:
        grant_role(person=world.linus, workspace=world.workspace, role=role)
    return signed_in(world.linus)


@pytest.mark.parametrize("name", [name for name, row in PAGES.items() if row.post is not None])
def test_auditors_and_viewers_write_nothing(name: str, places: Places) -> None:
    row = PAGES[name]
    address = row.address(name, places)
    form = places.filled(row.form)
    for role in ("auditor", "viewer"):
        client, before = signed_in(places.people[role]), rows()
        status = client.post(address, form).status_code
        assert status == 403 or row.post == ALL, role
        assert rows() == before, role


@pytest.mark.parametrize("name", sorted(OWN_ACCOUNT))
def test_pages_of_ones_own_account_take_somebody_who_is_signed_in(name: str, db: None) -> None:
    pk: dict[str, Any] = {"pk": 1} if name in ("mfa_remove_webauthn", "mfa_edit_webauthn") else {}
    for method in (Client().get, Client().post):
        answer = method(reverse(name, kwargs=pk))
        assert answer.status_code == 302
        assert answer["Location"].startswith("/accounts/login/")


def test_one_persons_key_is_not_anothers(world: World) -> None:
    key = Authenticator.objects.create(user=world.ada, type="webauthn", data={"name": "hers"})
    client = signed_in(world.grace)
    for name in ("mfa_remove_webauthn", "mfa_edit_webauthn"):
        address = reverse(name, kwargs={"pk": key.pk})
        assert client.get(address).status_code == 404
        assert client.post(address, {"name": "mine"}).status_code == 404
    assert Authenticator.objects.filter(pk=key.pk, user=world.ada).exists()


DECISIVE = {
    "decision": "approver", "revoke": "approver", "policies": "policy_admin", "policy_change": "policy_admin",
    "give_role": "policy_admin", "withdraw_role": "policy_admin", "remove_person": "policy_admin",
    "make_group": "policy_admin", "membership": "policy_admin", "invite": "policy_admin",
    "withdraw_invitation": "policy_admin", "tokens": "policy_admin", "end_token": "policy_admin",
    "connect_token": "engineer",
}  # fmt: skip


@pytest.mark.parametrize("name", DECISIVE)
def test_a_decision_takes_a_proof_of_the_last_five_minutes(name: str, places: Places) -> None:
    row = PAGES[name]
    address, form = row.address(name, places), places.filled(row.form)
    client = signed_in(places.people[DECISIVE[name]])
    grow_old(client)
    before = rows()
    answer = client.post(address, form)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/accounts/2fa/reauthenticate/?next=")
    assert rows() == before
