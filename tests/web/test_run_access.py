"""Who sees which page: members their own workspace, everybody else nothing."""

import pytest
from django.test import Client

from branches.models import Run
from tests.builders import World, make_world
from tests.web.cast import signed_in

PLAIN = ("/", "/find?q=run_", "/branches/", "/outcomes/", "/receipts/", "/states/", "/help/")
OF_RUN = ("", "window/?at=1", "map/", "next/checkpoint/", "compare/", "receipts/", "receipts.ndjson")


@pytest.mark.parametrize("address", PLAIN)
def test_it_shows_a_member_the_page(ada: Client, run: Run, address: str) -> None:
    response = ada.get(address, follow=True)
    assert response.status_code == 200
    assert b"<main" in response.content


@pytest.mark.parametrize("address", PLAIN)
def test_it_tells_a_person_without_a_role_so(world: World, address: str) -> None:
    response = signed_in(world.linus).get(address)
    assert response.status_code == 403
    assert "You hold no role here yet" in response.content.decode()


@pytest.mark.parametrize("address", PLAIN)
def test_it_sends_a_visitor_to_the_door(db: None, address: str) -> None:
    response = Client().get(address)
    assert response.status_code == 302
    assert response["Location"].startswith("/accounts/login/")


@pytest.mark.parametrize("page", OF_RUN)
def test_it_hides_a_run_from_another_workspace(run: Run, page: str) -> None:
    stranger = signed_in(make_world("elsewhere").ada)
    assert stranger.get(f"/runs/{run.uid}/{page}").status_code == 404


def test_it_hides_a_branch_from_another_workspace(branch: Run) -> None:
    stranger = signed_in(make_world("elsewhere").ada)
    assert stranger.get(f"/branches/{branch.uid}/configuration/").status_code == 404
    assert stranger.get("/branches/").content.count(b"<tr>") == 0


def test_it_refuses_foreign_work_on_a_run(run: Run) -> None:
    stranger = signed_in(make_world("elsewhere").rosa)
    assert stranger.post(f"/runs/{run.uid}/conclude/", {"conclusion": "refuted"}).status_code == 404
    assert stranger.post(f"/runs/{run.uid}/receipts/verify/").status_code == 404


def test_the_door_is_ours_and_opens(world: World) -> None:
    client = Client()
    page = client.get("/accounts/login/")
    assert "Accounts are made by an administrator" in page.content.decode()
    wrong = client.post("/accounts/login/", {"login": world.ada.username, "password": "no"})
    assert 'role="alert"' in wrong.content.decode()
    right = client.post(
        "/accounts/login/", {"login": world.ada.username, "password": "correct horse battery"}
    )
    assert right["Location"] == "/"


def test_a_missing_page_says_so_in_the_products_frame(ada: Client) -> None:
    response = ada.get("/nowhere/")
    assert response.status_code == 404
    assert "There is nothing at this address" in response.content.decode()
