"""Every route of the API by verb and workspace: shut without its verb, and what is elsewhere is not there."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.test import Client

from branches.commands.admit import SCOPES, issue_token
from branches.commands.issue_permit import issue_permit
from branches.commands.publish_contract import publish_contract
from branches.evidence import ids
from branches.models import Run
from debugger import contracts
from debugger.api.routes import api
from tests.branches.test_branch_life import approve, settle
from tests.builders import World, failed_run, make_world
from tests.plugins import FakeWorld
from tests.web.cast import forked, signed_in


@dataclass(frozen=True)
class Route:
    """A route: the verb it takes (None: open to everybody), and whether its address names one thing."""

    scope: str | None
    of: str = ""
    body: Any = field(default_factory=dict)


ROUTES: dict[tuple[str, str], Route] = {
    ("POST", "/receipts"): Route("ingest", body=""),
    ("GET", "/runs"): Route("read"),
    ("GET", "/runs/{run}"): Route("read", "run"),
    ("GET", "/runs/{run}/receipts"): Route("read", "run"),
    ("GET", "/runs/{run}/checkpoints"): Route("read", "run"),
    ("GET", "/runs/{run}/audits"): Route("read", "run"),
    ("GET", "/runs/{run}/recoveries"): Route("read", "run"),
    ("GET", "/branches/{branch}"): Route("read", "branch"),
    ("GET", "/branches/{branch}/evidence"): Route("read", "branch"),
    ("GET", "/branches/{branch}/effects"): Route("read", "branch"),
    ("GET", "/branches/{branch}/outcome"): Route("read", "branch"),
    ("POST", "/branches/{branch}/outcome"): Route("outcome", "branch"),
    ("GET", "/workflows/{name}/{version}"): Route("ingest", "workflow"),
    ("POST", "/workflows"): Route("ingest"),
    ("GET", "/schemas/{kind}"): Route(None),
    ("GET", "/schemas"): Route(None),
    ("POST", "/recorders/pair"): Route("redeem"),
    ("POST", "/recorders/challenge"): Route("redeem"),
    ("POST", "/recorders/continue"): Route("redeem"),
    ("POST", "/recorders/conformance"): Route("redeem"),
    ("GET", "/recorder/work"): Route("redeem"),
    ("GET", "/permits/{permit}/edits"): Route("redeem", "permit"),
    ("POST", "/permits/{permit}/redeem"): Route(
        "redeem", "permit", {"recorder": "{recorder}", "attempt": "att_" + "a" * 24}
    ),
    ("POST", "/permits/{permit}/decline"): Route(
        "redeem", "permit", {"recorder": "{recorder}", "rule": "nothing"}
    ),
    ("POST", "/branches/{branch}/lease"): Route("redeem", "branch", {"attempt": "att_" + "a" * 24}),
    # A request for content is known to the recorder that was asked, and to nobody else.
    ("POST", "/content/{content_request}"): Route("redeem"),
    ("GET", "/audit"): Route("read"),
    ("POST", "/contracts"): Route("ingest"),
    ("GET", "/contracts/{workflow}/{version}"): Route("ingest", "contract"),
    ("GET", "/approvals"): Route("read"),
    # Signed by the destination with a key of its own; see test_pushed_outcomes.
    ("POST", "/destinations/{workspace}/{place}/outcomes"): Route(None),
    ("POST", "/sources/{source}"): Route("ingest"),
}
CASES = [pytest.param(*key, id=" ".join(key)) for key in ROUTES]


def routes() -> Iterator[tuple[str, str]]:
    for _, router in api._routers:
        for path, view in router.path_operations.items():
            for operation in view.operations:
                for method in operation.methods:
                    yield method, path


def test_every_route_has_a_row() -> None:
    assert set(routes()) == set(ROUTES)


@pytest.fixture
def branch(world: World, outside: FakeWorld) -> Run:
    made = forked(world, failed_run(world))
    settle(world, made, outside)
    return made


def address(path: str, world: World, branch: Run) -> str:
    named = {
        "run": branch.root.uid if branch.root else branch.uid,
        "branch": branch.uid,
        "name": world.workflow.name,
        "version": world.workflow.version,
        "workflow": world.workflow.name,
        "kind": "message",
        "permit": "",
        "content_request": ids.mint("req"),
        "workspace": world.workspace.uid,
        "place": "tickets",
        "source": "otlp",
    }
    if "/contracts/{" in path:
        contract = contracts.contract("concurrent")
        publish_contract(
            workspace=world.workspace,
            publisher=world.ada,
            workflow=world.workflow.name,
            contract=contract,
            is_draft=False,
        )
        named["version"] = contract["version"]
    if "{permit}" in path:
        approve(world, branch)
        named["permit"] = issue_permit(person=world.ada, branch=branch).uid
    return "/api/v1" + path.format_map(named)


def ask(method: str, path: str, token: str | None, body: Any, client: Client | None = None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    asking = client or Client()
    if method == "GET":
        return asking.get(path, headers=headers).status_code
    sent = body if isinstance(body, str) else json.dumps(body)
    return asking.post(path, sent, content_type="application/json", headers=headers).status_code


@pytest.mark.parametrize(("method", "path"), CASES)
def test_a_route_is_shut_without_its_verb(method: str, path: str, world: World, branch: Run) -> None:
    route = ROUTES[method, path]
    where = address(path, world, branch)
    if route.scope is None:
        assert ask(method, where, None, route.body) in (200, 401, 404)
        return
    others = sorted(set(SCOPES) - {route.scope})
    _, wrong = issue_token(workspace=world.workspace, name="wrong", scopes=others)
    assert ask(method, where, wrong, route.body) == 401
    assert ask(method, where, None, route.body) == 401
    assert ask(method, where, "bgt_unknown", route.body) == 401
    # Who is signed in at a browser is no machine.
    assert ask(method, where, None, route.body, signed_in(world.ada)) == 401
    assert ask(method, where, world.token, route.body) not in (401, 403)


@pytest.mark.parametrize(
    ("method", "path"), [pytest.param(*key, id=" ".join(key)) for key, row in ROUTES.items() if row.of]
)
def test_what_belongs_to_another_workspace_is_not_there(
    method: str, path: str, world: World, branch: Run
) -> None:
    route = ROUTES[method, path]
    where = address(path, world, branch)
    other = make_world("elsewhere", {**json.loads(world.workflow.declaration), "workflow": "another"})
    assert ask(method, where, other.token, own(route.body, other)) == 404
    assert ask(method, where, world.token, own(route.body, world)) in (200, 201, 409)


def own(body: Any, world: World) -> Any:
    """Return a body in which the recorder that asks names itself."""
    if not isinstance(body, dict):
        return body
    return {key: world.recorder.uid if value == "{recorder}" else value for key, value in body.items()}
