"""Topology contracts over the machines' API."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from branches.commands.admit import issue_token
from branches.models import ApiToken, Contract
from tests.builders import World, make_world
from tests.contracts.test_publishing import MARKER, contract


@pytest.fixture
def call(client: Client, world: World) -> Callable[..., Any]:
    """Call a route with the recorder's token, unless another is given."""

    def caller(method: str, path: str, body: Any = None, token: str | None = None) -> Any:
        headers = {"Authorization": f"Bearer {token or world.token}"}
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        return client.generic(method, f"/api/v1{path}", sent, "application/json", headers=headers)

    return caller


def test_a_contract_is_published_and_read_back(call: Callable[..., Any], world: World) -> None:
    answer = call("POST", "/contracts", {"workflow": "desk", "contract": contract()})
    assert answer.status_code == 201
    row = Contract.objects.get()
    assert answer.json() == {
        "contract": row.uid,
        "workflow": "desk",
        "version": "2",
        "digest": row.digest,
        "draft": False,
        "declaration": contract(),
    }
    assert call("GET", "/contracts/desk/2").json() == answer.json()
    assert call("POST", "/contracts", {"workflow": "desk", "contract": contract()}).json() == answer.json()
    token = ApiToken.objects.get(workspace=world.workspace, name="recorder")
    assert row.publisher == token.uid


def test_a_draft_says_so(call: Callable[..., Any]) -> None:
    body = {"workflow": "desk", "contract": contract(), "draft": True}
    assert call("POST", "/contracts", body).json()["draft"] is True
    assert call("GET", "/contracts/desk/2").json()["draft"] is True


def test_what_is_not_right_is_refused_by_field_and_rule(call: Callable[..., Any]) -> None:
    wild = contract(edges=[{"from": "*", "to": "publisher", "kind": "delegate"}])
    answer = call("POST", "/contracts", {"workflow": "desk", "contract": wild})
    assert (answer.status_code, answer.json()["error"]["field"]) == (409, "contract.edges.0.from")
    answer = call("POST", "/contracts", {"workflow": "nothing", "contract": contract()})
    assert answer.json()["error"] == {"field": "workflow", "rule": "workflow_unknown", "changed": []}
    call("POST", "/contracts", {"workflow": "desk", "contract": contract()})
    other = contract(agents=["orchestrator", "publisher", "third"])
    answer = call("POST", "/contracts", {"workflow": "desk", "contract": other})
    assert answer.json()["error"]["rule"] == "version_already_published"
    assert Contract.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"workflow": "desk", "workflow": "' + MARKER.encode() + b'", "contract": {}}', 400),
        (b'{"workflow": "desk", "contract": {"version": "1", "version": "2"}}', 400),
        (b'{"workflow": "desk", "contract": []}', 422),
        (b'{"workflow": "desk", "contract": {}, "draft": "yes"}', 422),
        (b'{"workflow": "desk", "contract": {}, "draft": 1}', 422),
        (b'{"workflow": ["desk"], "contract": {}}', 422),
        (b'{"workflow": "desk\\u0000", "contract": {}}', 422),
        (b'{"workflow": "desk", "contract": {}, "' + MARKER.encode() + b'": 1}', 422),
        (b'{"workflow": "desk", "contract": {"' + MARKER.encode() + b'": 1}}', 409),
        (b'{"workflow": "desk", "contract": {"version": 1.5}}', 400),
        (b'{"workflow": "desk", "contract": ' + b'{"a":' * 40 + b"1" + b"}" * 41, 400),
        (b'{"workflow": "desk", "contract": {"version": "' + b"1" * 100_000 + b'"}}', 409),
        (b'{"workflow": "desk", "contract": {"version": "' + b"1" * (10 << 20) + b'"}}', 413),
    ],
    ids=range(13),
)
def test_hostile_json_is_an_error_and_no_echo(call: Callable[..., Any], body: bytes, status: int) -> None:
    answer = call("POST", "/contracts", body)
    assert answer.status_code == status, answer.content[:200]
    assert set(answer.json()["error"]) >= {"field", "rule"}
    assert MARKER.encode() not in answer.content
    assert not Contract.objects.exists()


def test_it_is_for_the_tokens_workspace_and_scope_alone(call: Callable[..., Any], world: World) -> None:
    call("POST", "/contracts", {"workflow": "desk", "contract": contract()})
    stranger = make_world("elsewhere")
    assert call("GET", "/contracts/desk/2", token=stranger.token).status_code == 404
    _, reads = issue_token(workspace=world.workspace, name="reads", scopes=["read"])
    assert call("GET", "/contracts/desk/2", token=reads).status_code == 401
    body = {"workflow": "desk", "contract": contract("3")}
    assert call("POST", "/contracts", body, token=reads).status_code == 401
    for path in ("desk/%00", "%00/2", f"desk/{MARKER}", "desk/3"):
        answer = call("GET", f"/contracts/{path}")
        assert answer.status_code == 404
        assert MARKER.encode() not in answer.content
