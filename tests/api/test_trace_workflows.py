"""A sender that names its workflow: its runs are of the newest version, and an unknown name is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from branches.commands.admit import make_workspace
from branches.commands.import_source import Declared, import_source
from branches.commands.publish_workflow import publish_workflow
from branches.models import Receipt, Run, Workflow
from branches.ports import SourceFile
from branches.queries.receipts import verify_run
from debugger.intake import MemoryShelf
from tests.adapters.otlp_requests import agent, tool
from tests.adapters.test_otlp_workflow import KEYED, in_json, in_protobuf, text
from tests.builders import World, declaration

MARKER = "CONTENT-MARKER-7f3a"
LOOP = [agent(1, name="publisher"), tool(2, 1, name="send_mail")]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = MemoryShelf()
    monkeypatch.setattr("debugger.intake.shelf", lambda: shelf)


def send(world: World, file: SourceFile) -> Any:
    headers = {"Authorization": f"Bearer {world.token}"}
    return Client().post(
        "/v1/traces", file.content, content_type=file.headers["content-type"], headers=headers
    )


def publish(world: World, name: str = "desk", version: str = "1.1.0") -> Workflow:
    declared = declaration(workflow=name, version=version)
    return publish_workflow(
        workspace=world.workspace, publisher=world.recorder.token.uid, declaration=declared
    )


def bodies(run: Run, kind: str) -> list[dict[str, Any]]:
    rows = Receipt.objects.filter(run=run, kind=kind).order_by("seq").values_list("body", flat=True)
    return [json.loads(body)["body"] for body in rows]


@pytest.mark.parametrize("written", [in_json, in_protobuf])
def test_a_run_is_of_the_newest_version_of_the_workflow_that_its_resource_names(
    world: World, written: Any
) -> None:
    newest = publish(world)
    answer = send(world, written(([(KEYED, text("desk"))], LOOP)))
    assert (answer.status_code, answer.content) == (200, b"{}" if written is in_json else b"")
    run = Run.objects.get(workspace=world.workspace)
    assert run.workflow == newest
    (started,) = bodies(run, "run_started")
    assert (started["workflow_version"], started["recording"]) == ("1.1.0", "imported")
    (intended,) = bodies(run, "effect_intended")
    assert (intended["tool"], intended["effect_class"]) == ("send_mail", "irreversible")
    assert verify_run(run).ok


def test_a_resource_that_names_none_makes_a_run_of_none_as_before(world: World) -> None:
    assert send(world, in_protobuf(([], LOOP))).status_code == 200
    assert Run.objects.get(workspace=world.workspace).workflow is None


def test_a_name_that_nobody_published_here_refuses_those_spans_and_takes_the_rest(world: World) -> None:
    elsewhere = make_workspace(name="elsewhere")
    publish_workflow(
        workspace=elsewhere,
        publisher=world.recorder.token.uid,
        declaration=declaration(workflow=f"{MARKER}"),
    )
    other = [agent(3, trace=2)]
    for name in (MARKER, "a\0b"):
        answer = send(world, in_json(([(KEYED, text(name))], LOOP), ([(KEYED, text("desk"))], other)))
        assert answer.status_code == 200
        assert answer.json()["partialSuccess"] == {
            "rejectedSpans": "2",
            "errorMessage": f"resource.{KEYED}: not_published (2)",
        }
    assert [run.workflow for run in Run.objects.all()] == [world.workflow]


def test_a_run_keeps_what_was_said_of_it_first(world: World) -> None:
    later = publish(world, name="other-desk")
    send(world, in_json(([(KEYED, text("desk"))], LOOP[:1])))
    send(world, in_json(([(KEYED, text("other-desk"))], LOOP[1:])))
    assert Run.objects.get(workspace=world.workspace).workflow == world.workflow != later


def imported(world: World, file: SourceFile, declared: Declared = Declared()) -> Any:  # noqa: B008 - frozen
    (done,) = import_source(workspace=world.workspace, importer="otlp", files=[file], declared=declared)
    return done


def test_a_file_is_of_the_workflow_that_it_names_unless_whoever_imports_it_names_another(
    world: World,
) -> None:
    later = publish(world, name="other-desk")
    imported(world, in_protobuf(([(KEYED, text("desk"))], LOOP)))
    imported(world, in_protobuf(([(KEYED, text("desk"))], [agent(3, trace=2)])), Declared(later))
    assert [run.workflow for run in Run.objects.order_by("id")] == [world.workflow, later]


def test_a_file_that_names_a_workflow_that_is_not_published_is_refused(world: World) -> None:
    done = imported(world, in_json(([(KEYED, text(MARKER))], LOOP)))
    assert [(each.field, each.rule) for each in done.refused] == [("workflow", "not_published")]
    assert (done.accepted, Run.objects.count()) == (0, 0)
    assert MARKER not in repr(done)


# --- evidence of a loop of the Vercel AI SDK

SAVED = Path(__file__).resolve().parents[1] / "adapters" / "data" / "ai_sdk_7" / "04_step_limit.json"


def post(world: World, **changes: Any) -> Any:
    body = json.dumps({**json.loads(SAVED.read_bytes()), **changes}).encode()
    headers = {"Authorization": f"Bearer {world.token}"}
    return Client().post("/api/v1/sources/ai_sdk", body, content_type="application/json", headers=headers)


def test_a_loop_is_of_the_newest_version_of_the_workflow_that_its_evidence_names(world: World) -> None:
    newest = publish(world)
    answer = post(world, workflow="desk")
    assert answer.status_code == 200
    assert Run.objects.get(uid=answer.json()["run"]).workflow == newest
    again = post(world)  # the same loop, whoever says of which workflow it is
    assert (again.json()["run"], again.json()["accepted"]) == (answer.json()["run"], 0)


@pytest.mark.parametrize(
    ("name", "rule"),
    [(MARKER, "not_published"), (f"a {MARKER}", "name"), (7, "text"), ("", "name")],
    ids=["unknown", "no_name", "number", "empty"],
)
def test_a_loop_of_a_workflow_that_is_none_is_refused(world: World, name: Any, rule: str) -> None:
    answer = post(world, workflow=name)
    assert (answer.status_code, answer.json()) == (422, {"error": {"field": "workflow", "rule": rule}})
    assert not Run.objects.exists()
