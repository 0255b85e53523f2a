"""What goes wrong on the way, through the endpoints, and what the audits then say of the run."""

import base64
import gzip
import json
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from branches.commands.admit import issue_token, pair_recorder
from branches.commands.publish_workflow import publish_workflow
from branches.evidence import ids
from branches.evidence.boxes import BoxKey
from branches.evidence.kinds.forms import Declared
from branches.evidence.names import cover_name
from branches.models import Receipt, Run
from branches.queries.secrets import workspace_key
from debugger.intake import MemoryShelf
from tests.adapters.otlp_requests import ERROR, OK, PROTOBUF, Sent, agent, as_protobuf
from tests.builders import World, closed, declaration, run_started, stopped
from tests.web.test_audits_page import AGENTS, CONTRACT, edge, handoff

MARKER = "CONTENT-MARKER-7f3a"
UNPROVED = ("false_complete", ["no_outcome_receipt"])
MISSING = ("false_complete", ["no_outcome_receipt", "writer>critic:delegate"])
UNKNOWN = ("uncertain", ["unknown"])
TEN_MEBIBYTES = 10 * 1024 * 1024
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = MemoryShelf()
    monkeypatch.setattr("debugger.intake.shelf", lambda: shelf)


@pytest.fixture(autouse=True)
def workflow(world: World) -> None:
    """Publish a workflow with a contract of two edges."""
    declared = declaration(version="9.0.0", agents=AGENTS, contract=CONTRACT, phase="publish")
    world.workflow = publish_workflow(
        workspace=world.workspace, publisher=world.recorder.uid, declaration=declared
    )


def send(world: World, *receipts: dict[str, Any], token: str = "") -> Any:
    return Client().post(
        "/api/v1/receipts",
        "\n".join(json.dumps(each) for each in receipts),
        content_type="application/x-ndjson",
        headers={"Authorization": f"Bearer {token or world.token}"},
    )


def audits(world: World, run: str) -> Any:
    answer = Client().get(f"/api/v1/runs/{run}/audits", headers={"Authorization": f"Bearer {world.token}"})
    assert answer.status_code == 200
    return answer.json()


def topology(world: World, run: str) -> tuple[str, list[str]]:
    found = audits(world, run)["topology"]
    return found["verdict"], found["reasons"]


def a_run(world: World) -> tuple[str, list[dict[str, Any]]]:
    """Return a run as its recorder sends it: its start, both edges, its stop, its last word."""
    uid = ids.mint("run")
    configuration = {"agents": [], "routing": None}
    sent = [
        run_started(world, uid, configuration=configuration, contract_version="1"),
        edge(world, uid, "planner", "writer"),
        edge(world, uid, "writer", "critic"),
        stopped(world, uid),
        closed(world, uid),
    ]
    return uid, [{**each, "at": f"2026-11-30T09:00:0{second}Z"} for second, each in enumerate(sent)]


def test_twice_is_once_and_no_route_becomes_ambiguous_by_it(world: World) -> None:
    uid, sent = a_run(world)
    assert send(world, *sent).json()["accepted"] == 5
    again = send(world, *sent)
    assert (again.status_code, again.json()["duplicates"], again.json()["accepted"]) == (200, 5, 0)
    assert topology(world, uid) == UNPROVED
    assert audits(world, uid)["stops"] == [{"state": "false_complete", "reasons": ["no_receipt"]}]


def test_out_of_order_is_judged_as_in_order(world: World) -> None:
    uid, (start, *rest) = a_run(world)
    assert send(world, start, *reversed(rest)).status_code == 200
    assert topology(world, uid) == UNPROVED


def test_late_is_uncertain_until_it_is_here_and_lost_stays_so(world: World) -> None:
    uid, sent = a_run(world)
    late = sent.pop(2)
    assert send(world, *sent).status_code == 200
    # The writer counted one more: it may be the edge that is missing, or one that is forbidden.
    assert topology(world, uid) == UNKNOWN
    assert send(world, late).status_code == 200
    assert topology(world, uid) == UNPROVED


def test_an_edge_that_is_missing_from_a_whole_record_is_missing(world: World) -> None:
    uid, sent = a_run(world)
    del sent[2]
    for number, each in enumerate(sent, 1):
        each["writer_seq"] = number
    sent[-1]["body"]["count"] = len(sent)
    assert send(world, *sent).status_code == 200
    assert topology(world, uid) == MISSING


def test_a_writer_who_is_not_the_runs_adds_no_edge_and_no_trust(world: World) -> None:
    uid, sent = a_run(world)
    send(world, *sent)
    row, token = issue_token(workspace=world.workspace, name="another", scopes=["ingest"])
    box = base64.b64encode(BoxKey.generate().public).decode()
    pair_recorder(token=row, name="there", runtime="langgraph 1.2.24", box_key=box)
    forged = send(world, edge(world, uid, "planner", "critic"), token=token)
    assert forged.status_code == 422
    assert forged.json()["refused"] == [{"line": 1, "field": "run", "rule": "foreign_writer"}]
    artifact = world.hmac("content", "brief")
    claim = handoff(
        world, uid, "brief", "delegated", "planner", receiver="writer", expected_artifact=artifact
    )
    assert send(world, claim, token=token).status_code == 200
    said = audits(world, uid)
    assert [(each["state"], each["reasons"]) for each in said["handoffs"]] == [
        ("uncertain", ["untrusted_writer"])
    ]
    assert (said["topology"]["verdict"], said["topology"]["reasons"]) == UNPROVED


@pytest.mark.parametrize(
    ("body", "encoding", "status", "rule"),
    [
        (gzip.compress(b" " * (20 * TEN_MEBIBYTES)), "gzip", 413, "max_bytes"),
        (b'{"v": 1, "note": "' + MARKER.encode() * (TEN_MEBIBYTES // 19) + b'"}', "", 413, "max_bytes"),
        (gzip.compress(b"{}\n" * 10)[:-6], "gzip", 400, "gzip"),
    ],
    ids=["a bomb", "ten mebibytes", "truncated"],
)
def test_a_batch_that_is_too_much_or_cut_off_stores_nothing(
    world: World, body: bytes, encoding: str, status: int, rule: str
) -> None:
    headers = {
        "Authorization": f"Bearer {world.token}",
        **({"Content-Encoding": encoding} if encoding else {}),
    }
    answer = Client().post("/api/v1/receipts", body, content_type="application/x-ndjson", headers=headers)
    assert (answer.status_code, answer.json()["error"]["rule"]) == (status, rule)
    assert MARKER not in answer.text
    assert not Run.objects.exists()


# --- traces


def trace(**last: Any) -> list[Sent]:
    """Return what a crew of two sends, handing over by nesting; `last` changes the second agent's span."""
    return [
        agent(1, 0, "planner", start=0, end=9, status=OK),
        agent(2, 1, "writer", **{"start": 1, "end": 8, "status": OK, **last}),
    ]


def traced(world: World, spans: list[Sent], *, body: bytes | None = None, packed: bool = False) -> Any:
    """Send spans of the workflow, in one request."""
    request = ExportTraceServiceRequest.FromString(as_protobuf(spans))
    about = request.resource_spans[0].resource.attributes.add(key="branchgate.workflow")
    about.value.string_value = "desk"
    content = request.SerializeToString() if body is None else body
    headers = {"Authorization": f"Bearer {world.token}"}
    if packed:
        content, headers["Content-Encoding"] = gzip.compress(content), "gzip"
    return Client().post("/v1/traces", content, content_type=PROTOBUF, headers=headers)


def said_of_the_only_run(world: World) -> tuple[list[str], tuple[str, list[str]]]:
    run = Run.objects.get(workspace=world.workspace).uid
    found = audits(world, run)
    return [each["state"] for each in found["stops"]], topology(world, run)


INVOKED = "planner>writer:invoke"


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 1, 1, 0)], ids=["in order", "backwards", "twice"])
def test_pieces_of_a_trace_are_one_run_however_they_come(world: World, order: tuple[int, ...]) -> None:
    spans = trace()
    for number in order:
        assert traced(world, [spans[number]]).status_code == 200
    # The contract says delegate, and a trace that nests says invoke: seen once, whatever came twice.
    assert said_of_the_only_run(world) == (["false_complete"], ("forbidden_edge", [covered(world, INVOKED)]))
    assert Receipt.objects.filter(kind="interaction").count() == 1


def covered(world: World, key: str) -> str:
    """Return an edge's key as it is on record: a kind that no workflow declares is covered."""
    route, _, kind = key.rpartition(":")
    return f"{route}:{cover_name(workspace_key(world.workspace), Declared.KIND, kind)}"


@pytest.mark.parametrize(
    ("last", "stops", "verdict"),
    [
        ({}, ["false_complete"], UNKNOWN),
        ({"trace_state": "ot=th:c"}, ["false_complete"], ("uncertain", ["sampled"])),
        ({"dropped": (0, 1, 0)}, ["uncertain"], UNKNOWN),
        ({"status": ERROR}, ["failed"], UNKNOWN),
    ],
    ids=["whole", "sampled", "truncated", "an error"],
)
def test_what_a_trace_lacks_is_never_taken_for_good(
    world: World, last: dict[str, Any], stops: list[str], verdict: tuple[str, list[str]]
) -> None:
    alone = [replace(trace(**last)[1], parent=0)]
    assert traced(world, alone).status_code == 200
    found, judged = said_of_the_only_run(world)
    assert judged == verdict
    assert found == stops


def test_an_attribute_of_ten_mebibytes_is_passed_over_and_the_run_is_taken(world: World) -> None:
    text = MARKER * (TEN_MEBIBYTES // len(MARKER))
    answer = traced(world, trace(attributes={"gen_ai.agent.description": text}))
    assert (answer.status_code, answer.content) == (200, b"")
    assert said_of_the_only_run(world)[0] == ["false_complete"]
    assert MARKER not in "".join(Receipt.objects.values_list("body", flat=True))


@pytest.mark.parametrize(
    ("body", "packed", "status"),
    [
        (b"\0" * (20 * TEN_MEBIBYTES), True, 413),
        (as_protobuf(trace())[:-7], False, 400),
        (as_protobuf(trace())[:-7], True, 400),
    ],
    ids=["a bomb", "cut off", "cut off and packed"],
)
def test_a_request_that_is_too_much_or_cut_off_leaves_nothing(
    world: World, body: bytes, packed: bool, status: int
) -> None:
    assert traced(world, trace(), body=body, packed=packed).status_code == status
    assert not Run.objects.exists()
