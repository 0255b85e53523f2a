"""Posted evidence of a loop: a run with its stop judged, once; in the token's own workspace."""

import json
from pathlib import Path
from typing import Any

from django.test import Client

from branches.commands.admit import issue_token, make_workspace
from branches.models import Receipt, Run
from branches.queries.receipts import verify_run
from tests.builders import World

SAVED = Path(__file__).resolve().parents[1] / "adapters" / "data" / "ai_sdk_7"
URL = "/api/v1/sources/ai_sdk"


def post(client: Client, token: str, loop: Any) -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    body = loop if isinstance(loop, bytes) else json.dumps(loop).encode()
    return client.post(URL, body, content_type="application/json", headers=headers)


def saved(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SAVED / name).read_bytes())
    return found


def test_it_answers_with_the_run_and_what_the_audits_make_of_it(client: Client, world: World) -> None:
    answer = post(client, world.token, saved("11_tool_error_then_claims_done.json"))
    run = Run.objects.get(workspace=world.workspace)
    assert answer.status_code == 200
    assert answer.json() == {
        "run": run.uid,
        "accepted": 4,
        "duplicates": 0,
        "refused": [],
        "stops": [{"state": "failed", "reasons": ["tool_failed"]}],
        "handoffs": [],
        "topology": None,
        "operations": 0,
        "judged": 0,
    }
    assert verify_run(run).ok


def test_the_same_evidence_twice_is_one_run(client: Client, world: World) -> None:
    first = post(client, world.token, saved("04_step_limit.json")).json()
    count = Receipt.objects.count()
    again = post(client, world.token, saved("04_step_limit.json")).json()
    assert (again["run"], again["accepted"], again["duplicates"]) == (first["run"], 0, first["accepted"])
    assert Receipt.objects.count() == count


def test_what_had_to_be_cut_is_named_beside_the_run(client: Client, world: World) -> None:
    loop = saved("04_step_limit.json")
    step = loop["steps"][0]
    loop["steps"] = [{**step, "n": number} for number in range(1, 601)]
    loop["end"]["steps"] = 600
    answer = post(client, world.token, loop)
    assert answer.status_code == 207
    assert {"where": "request", "field": "steps", "rule": "max_items"} in answer.json()["refused"]


def test_a_token_reaches_its_own_workspace_and_only_with_the_verb(client: Client, world: World) -> None:
    other = make_workspace(name="other")
    _, token = issue_token(workspace=other, name="loops", scopes=["ingest"])
    assert post(client, token, saved("01_natural_finish.json")).status_code == 200
    assert [run.workspace for run in Run.objects.all()] == [other]
    _, reads = issue_token(workspace=other, name="reader", scopes=["read"])
    assert post(client, reads, saved("01_natural_finish.json")).status_code == 401
    assert client.get(URL).status_code == 405


def test_what_is_no_loop_is_refused_and_leaves_nothing(client: Client, world: World) -> None:
    answer = post(client, world.token, saved("PREDICATES.json"))
    assert (answer.status_code, answer.json()) == (422, {"error": {"field": "steps", "rule": "not_a_run"}})
    assert not Run.objects.exists()
