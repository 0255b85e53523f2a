"""A second factor for those who let things happen, and proof within five minutes of who decides."""

import json
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from allauth.mfa.utils import decrypt
from django.test import Client

from branches.commands.admit import grant_role
from branches.models import Person, Role, WorkspaceReceipt
from branches.queries.standings import roles_of
from tests.builders import World
from tests.web.cast import confirm, secure, signed_in

PASSWORD = "correct horse battery"


@pytest.fixture
def admin(world: World) -> Client:
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.POLICY_ADMIN)
    return signed_in(world.rosa)


def grow_old(client: Client, seconds: int = 301) -> None:
    session = client.session
    records = session["account_authentication_methods"]
    session["account_authentication_methods"] = [
        {**record, "at": record["at"] - seconds} for record in records
    ]
    session.save()


def without_factor(person: Person) -> Client:
    client = Client()
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    confirm(client, person)
    return client


@pytest.mark.parametrize("path", ["/", "/approvals/", "/people/", "/audit/", "/branches/"])
def test_an_approver_without_a_second_factor_is_sent_to_set_one_up(world: World, path: str) -> None:
    client = without_factor(world.grace)
    assert client.get(path)["Location"] == "/accounts/2fa/"
    assert "Until one is set up here, no other page opens" in client.get("/accounts/2fa/").content.decode()
    assert client.get(path, HTTP_HX_REQUEST="true").status_code == 401


def test_one_who_lets_nothing_happen_needs_none(world: World) -> None:
    assert without_factor(world.ada).get("/").status_code == 200


def test_an_operator_can_switch_it_off(world: World, settings: Any) -> None:
    settings.BRANCHGATE_REQUIRE_MFA = False
    assert without_factor(world.grace).get("/approvals/").status_code == 200


def test_recovery_codes_alone_are_no_second_factor(world: World) -> None:
    client = without_factor(world.grace)
    Authenticator.objects.create(user=world.grace, type="recovery_codes", data={})
    assert client.get("/")["Location"] == "/accounts/2fa/"


def test_setting_an_app_up_opens_the_pages(world: World) -> None:
    client = without_factor(world.grace)
    page = client.get("/accounts/2fa/totp/activate/")
    assert page.status_code == 200
    secret = page.context["form"].secret
    answer = client.post("/accounts/2fa/totp/activate/", {"code": code(secret)})
    assert answer["Location"].startswith("/accounts/2fa/")
    assert client.get("/").status_code == 200
    kept = Authenticator.objects.get(user=world.grace, type="totp").data["secret"]
    assert secret not in kept


def code(secret: str) -> str:
    counter = next(iter(yield_hotp_counters_from_time()))
    return str(format_hotp_value(hotp_value(secret, counter)))


def test_a_form_sent_too_late_is_kept_and_goes_on_after_the_password(world: World, admin: Client) -> None:
    grow_old(admin)
    form = {"person": world.ada.uid, "role": "auditor"}
    asked = admin.post("/people/roles/give/", form)
    assert asked["Location"] == "/accounts/reauthenticate/?next=%2Fpeople%2Froles%2Fgive%2F"
    assert Role.AUDITOR not in roles_of(world.ada, world.workspace)
    page = admin.get(asked["Location"]).content.decode()
    assert "What you sent is kept" in page
    wrong = admin.post("/accounts/reauthenticate/", {"password": "no", "next": "/people/roles/give/"})
    assert wrong.status_code == 200
    assert Role.AUDITOR not in roles_of(world.ada, world.workspace)
    done = admin.post("/accounts/reauthenticate/", {"password": PASSWORD, "next": "/people/roles/give/"})
    assert done["Location"] == "/people/"
    assert Role.AUDITOR in roles_of(world.ada, world.workspace)


def test_within_five_minutes_nobody_is_asked_again(world: World, admin: Client) -> None:
    grow_old(admin, 290)
    admin.post("/people/roles/give/", {"person": world.ada.uid, "role": "auditor"})
    assert Role.AUDITOR in roles_of(world.ada, world.workspace)


def test_a_proof_from_the_future_proves_nothing(world: World, admin: Client) -> None:
    grow_old(admin, -60)
    admin.post("/people/roles/give/", {"person": world.ada.uid, "role": "auditor"})
    assert Role.AUDITOR not in roles_of(world.ada, world.workspace)


def test_reading_takes_no_new_proof(world: World, admin: Client) -> None:
    grow_old(admin)
    for path in ("/people/", "/tokens/", "/audit/", "/policies/", "/approvals/"):
        assert admin.get(path).status_code == 200, path


def test_somebody_elses_proof_does_not_count(world: World, admin: Client) -> None:
    session = admin.session
    session["account_authentication_methods_user"] = str(world.grace.pk)
    session.save()
    admin.post("/people/roles/give/", {"person": world.ada.uid, "role": "auditor"})
    assert Role.AUDITOR not in roles_of(world.ada, world.workspace)


def sign_ins() -> list[dict[str, Any]]:
    rows = WorkspaceReceipt.objects.filter(kind="signed_in").order_by("seq")
    return [json.loads(text)["body"] for text in rows.values_list("body", flat=True)]


def test_a_sign_in_by_password_is_a_receipt(world: World) -> None:
    Client().post("/accounts/login/", {"login": world.ada.username, "password": PASSWORD})
    assert sign_ins() == [{"method": "password", "person": world.ada.uid, "second_factor": False}]


def test_a_sign_in_with_a_code_says_so_and_is_none_before_the_code(world: World) -> None:
    client = Client()
    secure(world.grace)
    row = Authenticator.objects.get(user=world.grace)
    asked = client.post("/accounts/login/", {"login": world.grace.username, "password": PASSWORD})
    assert asked["Location"] == "/accounts/2fa/authenticate/"
    assert "Your second factor" in client.get(asked["Location"]).content.decode()
    assert sign_ins() == []
    client.post("/accounts/2fa/authenticate/", {"code": code(decrypt(row.data["secret"]))})
    assert sign_ins() == [{"method": "password", "person": world.grace.uid, "second_factor": True}]


def test_a_failed_sign_in_and_a_stranger_leave_no_receipt(world: World) -> None:
    Client().post("/accounts/login/", {"login": world.ada.username, "password": "no"})
    Client().post("/accounts/login/", {"login": world.linus.username, "password": PASSWORD})
    assert sign_ins() == []


def test_one_click_in_the_demo_is_recorded_as_such_and_confirms(world: World, settings: Any) -> None:
    settings.BRANCHGATE_DEMO = True
    grace = Person.objects.create_user("grace")
    grant_role(person=grace, workspace=world.workspace, role=Role.POLICY_ADMIN)
    client = Client()
    client.post("/demo/sign-in/grace/")
    assert sign_ins() == [{"method": "one_click", "person": grace.uid, "second_factor": False}]
    assert client.get("/people/").status_code == 200, "nobody asks the demo people for a second factor"
    grow_old(client)
    form = {"person": world.ada.uid, "role": "auditor"}
    asked = client.post("/people/roles/give/", form)
    assert asked["Location"] == "/sign-in/again/?next=%2Fpeople%2Froles%2Fgive%2F"
    assert "Continue as Grace" in client.get(asked["Location"]).content.decode()
    client.post("/sign-in/again/", {"next": "/people/roles/give/"})
    assert Role.AUDITOR in roles_of(world.ada, world.workspace)


def test_one_click_confirms_nobody_outside_the_demo(world: World, admin: Client) -> None:
    grow_old(admin)
    assert admin.post("/sign-in/again/", {"next": "/people/"}).status_code == 403
    assert Client().post("/sign-in/again/").status_code == 302


def test_guesses_are_slowed_and_the_right_password_too(world: World) -> None:
    client = Client()
    for _ in range(5):
        client.post("/accounts/login/", {"login": world.ada.username, "password": "no"})
    answer = client.post("/accounts/login/", {"login": world.ada.username, "password": PASSWORD})
    assert "Too many failed login attempts" in answer.content.decode()
    assert sign_ins() == []


def test_a_code_is_good_once(world: World) -> None:
    secure(world.grace)
    sent = code(decrypt(Authenticator.objects.get(user=world.grace).data["secret"]))
    for expected in (302, 200):
        client = Client()
        client.post("/accounts/login/", {"login": world.grace.username, "password": PASSWORD})
        answer = client.post("/accounts/2fa/authenticate/", {"code": sent})
        assert answer.status_code == expected
    assert len(sign_ins()) == 1
