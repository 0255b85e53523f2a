"""Signing in with an OpenID Connect provider that really answers: linked, invited, or not let in."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import oidc_provider_mock
import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client

from branches.commands.admit import grant_role
from branches.commands.invite_person import invite_person
from branches.models import InvitationEnd, Person, Role, WorkspaceReceipt
from branches.queries.standings import roles_of
from tests.builders import World
from tests.web.cast import signed_in
from tests.web.test_confirmation import grow_old, sign_ins

LOGIN = "/accounts/oidc/oidc/login/"


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with oidc_provider_mock.run_server_in_thread() as server:
        base = f"http://localhost:{server.server_port}"
        claims = {"preferred_username": "joan", "email": "joan@harbour.example", "name": "Joan"}
        httpx.put(f"{base}/users/joan", json=claims, trust_env=False).raise_for_status()
        yield base


@pytest.fixture(autouse=True)
def provider(issuer: str, settings: Any) -> None:
    settings.BRANCHGATE_OIDC_ISSUER = issuer
    settings.BRANCHGATE_OIDC_NAME = "the harbour"
    app = {
        "provider_id": "oidc",
        "name": "the harbour",
        "client_id": "branchgate",
        "secret": "not-much-of-one",
        "settings": {"server_url": issuer, "oauth_pkce_enabled": True},
    }
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [app]}}


def through(client: Client, start: Any, subject: str = "joan") -> Any:
    """Go where a form leads, say there who one is, and come back."""
    assert start.status_code == 302, start.content.decode()
    asked = start["Location"]
    query = parse_qs(urlsplit(asked).query)
    assert query["code_challenge_method"] == ["S256"]
    answer = httpx.post(asked, data={"sub": subject}, trust_env=False)
    assert answer.status_code == 302
    back = urlsplit(answer.headers["location"])
    assert back.path == f"{LOGIN}callback/"
    return client.get(f"{back.path}?{back.query}")


def linked(world: World, person: Person, subject: str = "joan") -> None:
    """Link an account there, as whoever is signed in by password does."""
    client = signed_in(person)
    answer = through(client, client.post(f"{LOGIN}?process=connect"), subject)
    assert answer["Location"] == "/accounts/3rdparty/"


def test_the_door_offers_the_provider(db: None) -> None:
    assert "Continue with the harbour" in Client().get("/accounts/login/").content.decode()
    page = Client().get(LOGIN).content.decode()
    assert "Continue with the harbour" in page


def test_an_unknown_account_is_not_let_in(world: World) -> None:
    people = Person.objects.count()
    client = Client()
    answer = through(client, client.post(f"{LOGIN}?process=login"))
    assert "Nobody here is linked to that account" in answer.content.decode()
    assert client.get("/").status_code == 302
    assert Person.objects.count() == people


def test_somebody_known_by_mail_only_is_not_let_in(world: World) -> None:
    Person.objects.filter(pk=world.ada.pk).update(email="ada@desk.example")
    client = Client()
    answer = through(client, client.post(f"{LOGIN}?process=login"), "ada@desk.example")
    assert "Nobody here is linked to that account" in answer.content.decode()
    assert not SocialAccount.objects.exists()


def test_a_linked_account_signs_in_and_it_is_a_receipt(world: World) -> None:
    linked(world, world.ada)
    world.ada.authenticator_set.all().delete()
    client = Client()
    answer = through(client, client.post(f"{LOGIN}?process=login&next=/people/"))
    assert answer["Location"] == "/people/"
    assert client.get("/people/").status_code == 200
    assert sign_ins() == [{"method": "provider", "person": world.ada.uid, "second_factor": False}]
    kept = SocialAccount.objects.get()
    assert (kept.user, kept.provider, kept.extra_data) == (world.ada, "oidc", {})


def test_an_approver_gives_the_second_factor_after_the_provider_too(world: World) -> None:
    linked(world, world.grace)
    client = Client()
    answer = through(client, client.post(f"{LOGIN}?process=login"))
    assert answer["Location"] == "/accounts/2fa/authenticate/"
    assert client.get("/")["Location"].startswith("/accounts/login/")
    assert sign_ins() == []


def invitation(world: World) -> str:
    grant_role(person=world.rosa, workspace=world.workspace, role=Role.POLICY_ADMIN)
    _, secret = invite_person(
        person=world.rosa, workspace=world.workspace, roles=[{"role": "engineer", "scope": ""}]
    )
    return f"/invitations/{secret}/"


def test_an_unknown_account_comes_in_by_an_invitation(world: World) -> None:
    client, link = Client(), invitation(world)
    assert "Continue with the harbour" in client.get(link).content.decode()
    there = client.post(link, {"way": "provider"})
    assert there["Location"].startswith(LOGIN)
    back = through(client, client.post(there["Location"]))
    assert back["Location"] == link
    assert not InvitationEnd.objects.exists(), "coming back from the provider accepts nothing yet"
    assert client.get("/").status_code == 403
    assert "Accept as joan" in client.get(link).content.decode()
    assert client.post(link)["Location"] == "/"
    person = SocialAccount.objects.get().user
    assert roles_of(person, world.workspace) == {"engineer"}
    assert not person.has_usable_password()
    assert person.email == ""
    assert "@" not in "".join(WorkspaceReceipt.objects.values_list("body", flat=True))


def test_an_invitation_that_ended_meanwhile_lets_nobody_in(world: World) -> None:
    client, link = Client(), invitation(world)
    there = client.post(link, {"way": "provider"})
    signed_in(world.linus).post(link)
    answer = through(client, client.post(there["Location"]))
    assert "Nobody here is linked to that account" in answer.content.decode()
    assert not Person.objects.filter(username="joan").exists()


def test_whoever_has_only_the_provider_confirms_there(world: World) -> None:
    grant_role(person=world.ada, workspace=world.workspace, role=Role.POLICY_ADMIN)
    linked(world, world.ada)
    world.ada.set_unusable_password()
    world.ada.save()
    world.ada.authenticator_set.all().delete()
    client = Client()
    through(client, client.post(f"{LOGIN}?process=login"))
    # Within five minutes of signing in, a second factor can be set up.
    assert client.get("/accounts/2fa/totp/activate/").status_code == 200
    grow_old(client)
    asked = client.get("/accounts/2fa/totp/activate/")
    assert asked["Location"].startswith("/sign-in/again/?next=")
    page = client.get(asked["Location"]).content.decode()
    assert "Continue with the harbour" in page
    form = page[page.index('action="/accounts/oidc') :].split('"')[1].replace("&amp;", "&")
    answer = through(client, client.post(form))
    assert answer["Location"] == "/accounts/2fa/totp/activate/"
    assert client.get(answer["Location"]).status_code == 200


def test_an_account_of_somebody_else_there_does_not_confirm(world: World) -> None:
    linked(world, world.ada)
    linked(world, world.grace, "grace")
    client = Client()
    through(client, client.post(f"{LOGIN}?process=login"))
    through(client, client.post(f"{LOGIN}?process=login"), "grace")
    assert client.get("/people/")["Location"].startswith("/accounts/login/"), "grace owes a second factor"


def test_an_answer_that_nobody_asked_for_is_refused(world: World) -> None:
    page = Client().get(f"{LOGIN}callback/?code=stolen&state=unknown")
    assert page.status_code == 401
    assert "Not signed in" in page.content.decode()


def test_the_environment_names_the_provider(tmp_path: Path) -> None:
    env = {
        **os.environ,
        "BRANCHGATE_VAR": str(tmp_path),
        "BRANCHGATE_OIDC_ISSUER": "https://id.harbour.example/realm/",
        "BRANCHGATE_OIDC_CLIENT_ID": "branchgate",
        "BRANCHGATE_OIDC_CLIENT_SECRET": "secret",
        "BRANCHGATE_OIDC_NAME": "the harbour",
    }
    code = (
        "import json; from debugger import settings as s;"
        "print(json.dumps([s.SOCIALACCOUNT_PROVIDERS, s.SECURE_CSP]))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    providers, policy = json.loads(done.stdout)
    [app] = providers["openid_connect"]["APPS"]
    assert (app["client_id"], app["secret"], app["name"]) == ("branchgate", "secret", "the harbour")
    assert app["settings"]["server_url"] == "https://id.harbour.example/realm"
    assert policy["form-action"] == ["'self'", "https://id.harbour.example"]


def test_without_a_provider_nothing_is_offered(world: World, settings: Any) -> None:
    settings.BRANCHGATE_OIDC_ISSUER = ""
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": []}}
    assert "Continue with" not in Client().get("/accounts/login/").content.decode()
    assert Client().get(LOGIN).status_code == 404
    assert "Continue with" not in Client().get(invitation(world)).content.decode()
