"""The approval queue as machines read it."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from branches.commands.admit import issue_token
from branches.commands.request_approval import request_approval, withdraw_request
from branches.queries.clock import now, stamp
from tests.branches.test_branch_life import fork, settle
from tests.builders import World, failed_run, make_world
from tests.plugins import FakeWorld

MARKER = "CONTENT-MARKER-7f3a"


@pytest.fixture
def ask(client: Client, world: World) -> Callable[..., Any]:
    def asked(token: str | None = None, **question: str) -> Any:
        headers = {"Authorization": f"Bearer {token or world.token}"}
        return client.get(f"/api/v1/approvals?{urlencode(question)}", headers=headers)

    return asked


def test_it_lists_requests_with_how_they_stand_and_stood(
    ask: Callable[..., Any], world: World, outside: FakeWorld
) -> None:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    request = request_approval(person=world.ada, branch=branch)
    then = stamp(now())
    withdraw_request(person=world.ada, request=request)
    answer = ask(until=stamp(now()))
    assert answer.status_code == 200
    assert answer.json() == {
        "as_of": answer.json()["as_of"],
        "requests": [{"request": request.uid, "state": "withdrawn"}],
        "more": False,
    }
    assert then < answer.json()["as_of"] <= stamp(now())
    stood = ask(until=stamp(now()), as_of=then).json()
    assert (stood["as_of"], stood["requests"]) == (then, [{"request": request.uid, "state": "pending"}])
    for narrower in ({"beside": branch.uid}, {"after": request.uid}):
        assert ask(until=stamp(now()), **narrower).json()["requests"] == []
    assert ask(until="2026-11-30T08:00:00+01:00").json()["requests"] == []
    assert ask(token=make_world("other").token, until=stamp(now())).json()["requests"] == []


@pytest.mark.parametrize(
    ("question", "field", "rule"),
    [
        ({}, "until", "missing"),
        ({"until": MARKER}, "until", "timestamp"),
        ({"until": "2026-11-30T08:00:00"}, "until", "timestamp"),
        ({"until": "0001-01-01T00:00:00+23:00"}, "until", "timestamp"),
        ({"until": "2026-11-30T08:00:00Z", "as_of": MARKER}, "as_of", "timestamp"),
        ({"until": "2026-11-30T08:00:00Z", "as_of": "9999-01-01T00:00:00Z"}, "as_of", "past"),
        ({"until": "2026-11-30T08:00:00Z", "beside": MARKER}, "beside", "pattern:id"),
        ({"until": "2026-11-30T08:00:00Z", "beside": "run_\0"}, "beside", "pattern:id"),
    ],
)
def test_it_names_the_field_and_the_rule_of_a_bad_question(
    ask: Callable[..., Any], question: dict[str, str], field: str, rule: str
) -> None:
    answer = ask(**question)
    assert (answer.status_code, answer.json()) == (422, {"error": {"field": field, "rule": rule}})
    assert MARKER.encode() not in answer.content


def test_it_goes_on_after_no_request_of_another_workspace_and_answers_no_token_that_may_not_read(
    ask: Callable[..., Any], world: World, outside: FakeWorld
) -> None:
    abroad = make_world("other")
    branch = fork(abroad, failed_run(abroad))
    settle(abroad, branch, outside)
    request = request_approval(person=abroad.ada, branch=branch)
    assert ask(until=stamp(now()), after=request.uid).status_code == 404
    assert ask(until=stamp(now()), after=MARKER).status_code == 404
    _, token = issue_token(workspace=world.workspace, name="writer", scopes=["ingest", "redeem", "outcome"])
    assert ask(token=token, until=stamp(now())).status_code == 401
