"""The run list says what each run is by its runtime and source, and never that an import is running."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from branches.commands.import_source import Declared, import_lines, import_source
from branches.evidence import ids
from branches.models import Run
from branches.ports import SourceFile
from branches.queries.run_list import run_list
from tests.builders import World, run_started, stopped

DATA = Path(__file__).resolve().parents[1] / "adapters" / "data"
TOOLS = SourceFile("tools", (DATA / "mcp" / "base.json").read_bytes())


def started(world: World, runtime: str, recording: str, **changes: Any) -> dict[str, Any]:
    uid = ids.mint("run")
    bare = {"workflow": None, "workflow_version": None, "configuration": None, "phase": None}
    named = {"name": runtime, "version": None}
    return run_started(world, uid, runtime=named, recording=recording, **{**bare, **changes})


def imported(world: World, sent: dict[str, Any]) -> None:
    (done,) = import_lines(workspace=world.workspace, lines=[json.dumps(sent).encode()], label="lines")
    assert done.refused == []


def row_of(client: Client, address: str = "/") -> list[str]:
    """Return the words of the list's one row, cell by cell."""
    page = client.get(address).text
    (row,) = re.findall(r"<tr>\s*<th scope=\"row\">.*?</tr>", page, re.DOTALL)
    cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in cells]


@pytest.mark.parametrize(
    ("runtime", "words"),
    [
        ("langgraph", "LangGraph thread"),
        ("otlp", "OpenTelemetry trace"),
        ("mcp", "MCP tool list"),
        ("autogen", "AutoGen team"),
        ("openai-agents", "OpenAI Agents SDK run"),
        ("ai-sdk", "AI SDK loop"),
        ("other", "Import from an unknown runtime"),
    ],
)
def test_an_import_is_called_by_its_source(ada: Client, world: World, runtime: str, words: str) -> None:
    imported(world, started(world, runtime, "imported"))
    name, stop, *_ = row_of(ada)
    assert name.startswith(f"{words} ")
    assert name.endswith("· imported")
    assert stop == ("Not a run: a tool list" if runtime == "mcp" else "No end recorded")


def test_the_pages_of_a_run_of_no_workflow_do_not_call_a_trace_a_thread(ada: Client, world: World) -> None:
    imported(world, started(world, "otlp", "imported"))
    page = ada.get(f"/runs/{Run.objects.get().uid}/").text
    assert "<span>OpenTelemetry trace</span>" in page
    assert "imported thread" not in page + ada.get("/outcomes/").text


def test_a_tool_list_as_it_is_imported_is_no_run_that_goes_on(ada: Client, world: World) -> None:
    (done,) = import_source(workspace=world.workspace, importer="mcp", files=[TOOLS])
    assert done.refused == []
    name, stop, outcome, *_ = row_of(ada)
    assert name.startswith("MCP tool list ")
    assert (stop, outcome) == ("Not a run: a tool list", "No receipt")
    (row,) = run_list(world.workspace, chosen="all", before=None, find="").rows
    assert (str(row.stop.shape), row.stop.hue) == ("dash", "none")
    assert "Running" not in ada.get("/").text


def test_an_import_that_a_workflow_was_declared_for_says_both(ada: Client, world: World) -> None:
    declared = Declared(workflow=world.workflow)
    import_source(workspace=world.workspace, importer="mcp", files=[TOOLS], declared=declared)
    name, stop, *_ = row_of(ada)
    assert name.startswith("desk ")
    assert name.endswith("· 1.0.0 · MCP tool list, imported")
    assert stop == "Not a run: a tool list"


def test_an_import_that_stopped_says_why(ada: Client, world: World) -> None:
    sent = started(world, "langgraph", "imported")
    imported(world, sent)
    imported(world, stopped(world, sent["run"]))
    name, stop, *_ = row_of(ada)
    assert name.startswith("LangGraph thread ")
    assert stop == "Says complete"


def test_receipts_that_somebody_imported_are_not_running_either(ada: Client, world: World) -> None:
    imported(world, started(world, "langgraph", "full"))
    name, stop, *_ = row_of(ada)
    assert name.startswith("LangGraph thread ")
    assert stop == "No end recorded"


def test_what_a_recorder_sends_as_imported_is_not_running(ada: Client, world: World) -> None:
    assert not world.ingest(started(world, "otlp", "imported_whole")).refused
    name, stop, *_ = row_of(ada)
    assert name.startswith("OpenTelemetry trace ")
    assert stop == "No end recorded"


def test_a_recorded_run_runs_and_is_called_by_its_workflow_or_its_runtime(ada: Client, world: World) -> None:
    assert not world.ingest(started(world, "langgraph", "full")).refused
    name, stop, *_ = row_of(ada)
    assert name.startswith("LangGraph run ")
    assert "imported" not in name
    assert stop == "Running"
    assert not world.ingest(run_started(world, ids.mint("run"))).refused
    page = ada.get("/").text
    assert re.search(r">desk</a> <span class=\"two\"><code>[^<]*</code> · 1.0.0</span>", page)


def test_a_runtime_that_nobody_declared_is_unknown_and_its_digest_is_not_shown(
    ada: Client, world: World
) -> None:
    covered = world.hmac("name", "home-made")
    imported(world, started(world, covered, "imported"))
    assert row_of(ada)[0].startswith("Import from an unknown runtime ")
    assert covered not in ada.get("/").text


def test_a_list_costs_as_many_queries_for_ten_imports_as_for_one(
    world: World, django_assert_max_num_queries: Any
) -> None:
    for _ in range(10):
        imported(world, started(world, "langgraph", "imported"))
    with django_assert_max_num_queries(7):
        found = run_list(world.workspace, chosen="all", before=None, find="")
    assert len(found.rows) == 10 == Run.objects.count()
